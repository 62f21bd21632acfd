"""A stand-in for systemd: the socket to which a service sends its messages."""

import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.waiting import limit_s


class Listener:
    """Receives the datagrams of `NOTIFY_SOCKET`. `address` is a path, or `@name` for an abstract socket."""

    def __init__(self, address: str | Path) -> None:
        self.address = str(address)
        self.messages: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(limit_s())
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
        until_s = time.monotonic() + limit_s()
        try:
            while time.monotonic() < until_s:
                self.receive()
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(limit_s())
        return False
