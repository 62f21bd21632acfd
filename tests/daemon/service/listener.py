"""A stand-in for systemd: the socket to which a service sends its messages."""

import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE_S = 60.0
"""How long a message is awaited before the test fails; no test is quicker or slower for it."""


class Listener:
    """Receives the datagrams of `NOTIFY_SOCKET`. `address` is a path, or `@name` for an abstract socket."""

    def __init__(self, address: str | Path) -> None:
        self.address = str(address)
        self.messages: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(PATIENCE_S)
        self._socket.bind("\0" + self.address[1:] if self.address.startswith("@") else self.address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def receive(self) -> str:
        """The next message."""
        message = self._socket.recv(65536).decode()
        self.messages.append(message)
        return message

    def wait_for(self, text: str) -> str:
        """The next message that contains `text`; those before it are kept in `messages`."""
        while text not in (message := self.receive()):
            pass
        return message

    def falls_silent(self, quiet_s: float) -> bool:
        """Whether no message comes for `quiet_s`, sooner or later."""
        self._socket.settimeout(quiet_s)
        until_s = time.monotonic() + PATIENCE_S
        try:
            while time.monotonic() < until_s:
                self.receive()
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(PATIENCE_S)
        return False
