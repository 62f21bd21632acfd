"""Who is at the other end of the local socket."""

import os
import pwd
import socket
import struct
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The process at the other end of a connection."""

    pid: int
    uid: int

    @property
    def user(self) -> str:
        """The name of its user; the number if that has no name."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    @property
    def trusted(self) -> bool:
        """Whether it may announce jobs of other users, and do what only an operator may."""
        return self.uid in {0, os.geteuid()}


def peer_of(connection: Any) -> Peer:
    """Who is at the other end, as the kernel reports it."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return Peer(pid=pid, uid=uid)
