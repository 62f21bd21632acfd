"""Ports of loopback for a development cluster, which no other cluster that starts at the same time chooses
too.
"""

import contextlib
import random
import socket
from collections.abc import Generator

_PORTS = range(20000, 32000)
"""Below the ports that Linux hands out by itself."""
_BLOCK = 100
"""Ports are claimed in blocks of this size."""


class NoFreePorts(Exception):
    """There are not enough consecutive free ports."""


@contextlib.contextmanager
def claimed_ports(count: int) -> Generator[range, None, None]:
    """That many consecutive ports on which no process listens.

    They are claimed for the `with` block: until the cluster listens on them, no other process gets them from
    here.

    Raises:
        NoFreePorts: there are none.
    """
    for _ in range(200):
        first = random.randrange(_PORTS.start, _PORTS.stop - count)
        ports = range(first, first + count)
        with contextlib.ExitStack() as claims:
            if _claim(ports, claims) and all(_free(port) for port in ports):
                yield ports
                return
    raise NoFreePorts(f"there are no {count} consecutive free ports from {_PORTS.start} to {_PORTS.stop}")


def loopback_address(host: str) -> str | None:
    """The address of this machine's name, if it is a loopback address. None: it is not."""
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return None
    return address if address.startswith("127.") else None


def _claim(ports: range, claims: contextlib.ExitStack) -> bool:
    """Claim every block of these ports by an abstract socket, which goes with its process. False: one is
    claimed.
    """
    for block in range(ports.start // _BLOCK, (ports.stop - 1) // _BLOCK + 1):
        claim = claims.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        try:
            claim.bind(f"\0makeway-devcluster-ports-{block}")
        except OSError:
            return False
    return True


def _free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
