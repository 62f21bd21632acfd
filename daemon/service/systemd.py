"""The service's notifications to systemd, with its watchdog: the protocol of sd_notify(3). The priorities of
log lines are those of sd-daemon(3).

A message is one datagram to the socket that `NOTIFY_SOCKET` names. Without that variable nothing is sent. No
function raises: a service must not fail because nothing listens.
"""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import TextIO

from makeway.daemon.errors import printable

STATUS_LIMIT = 400
"""Longest status line that is sent, in characters."""


class Priority(IntEnum):
    """How severe a line is, as syslog counts it. `journalctl -p` goes by it."""

    ERROR = 3
    WARNING = 4
    INFO = 6
    DEBUG = 7

    def mark(self, text: str) -> str:
        """The text with the priority before each line. systemd reads it and takes it off."""
        return "\n".join(f"<{self.value}>{line}" for line in text.split("\n"))


def goes_to_journal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether what is written to the stream goes to systemd's journal: JOURNAL_STREAM names the stream."""
    named = environment.get("JOURNAL_STREAM")
    if named is None:
        return False
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return named == f"{found.st_dev}:{found.st_ino}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifier:
    """Sends the notifications.

    Args:
        address: path of the socket, or `@name` for an abstract one. None: nothing is sent.
        watchdog_s: systemd restarts the service after this time without a sign of life. None: no watchdog.
    """

    address: str | None = None
    watchdog_s: float | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Notifier":
        """Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID; a value that is not understood counts as
        absent.
        """
        address = environment.get("NOTIFY_SOCKET", "")
        microseconds = environment.get("WATCHDOG_USEC", "")
        meant = environment.get("WATCHDOG_PID", "") in {"", str(os.getpid())}
        asked = meant and microseconds.isascii() and microseconds.isdigit() and int(microseconds) > 0
        return cls(
            address=address if address[:1] in {"/", "@"} else None,
            watchdog_s=int(microseconds) / 1e6 if asked else None,
        )

    def ready(self, sentence: str) -> None:
        """The service is up, or a reload is over."""
        self._send("READY=1", _status(sentence))

    def reloading(self) -> None:
        """The configuration is being read again; `ready` ends it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The service is stopping."""
        self._send("STOPPING=1", _status("stopping"))

    def status(self, sentence: str) -> None:
        """One line for `systemctl status`."""
        self._send(_status(sentence))

    def alive(self) -> None:
        """A sign of life for the watchdog."""
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if self.address is None:
            return
        name = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.settimeout(1.0)
            sender.sendto("\n".join(lines).encode(errors="replace"), name)


def _status(sentence: str) -> str:
    return f"STATUS={printable(sentence)[:STATUS_LIMIT]}"
