"""Serves the page on loopback or on a Unix socket until SIGINT or SIGTERM. waitress does the work."""

import logging
import os
import re
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from makeway.daemon.errors import UserError, printable

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\]):([0-9]{1,5})")
_UNIX = "unix:"
_PORT_LIMIT = 65_535
_THREADS = 4
_CONNECTIONS = 50
_CHANNEL_S = 30
"""After how long a connection is closed on which nothing happens."""
_HEADER_BYTES = 16_384


def serve(application: "WSGIApplication", listen: str, ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it.

    Args:
        application: answers the requests.
        listen: `127.0.0.1:PORT`, `localhost:PORT`, `[::1]:PORT` or `unix:PATH`.
        ready: gets the address once it is bound.

    Raises:
        UserError: waitress is not installed, or nothing can listen there.
    """
    try:
        from waitress.server import create_server
    except ModuleNotFoundError:
        raise UserError("the page needs waitress: pip install 'makeway[page]'") from None
    with closing(_bound(listen)) as listener:
        server = create_server(
            application,
            sockets=[listener],
            threads=_THREADS,
            connection_limit=_CONNECTIONS,
            channel_timeout=_CHANNEL_S,
            max_request_header_size=_HEADER_BYTES,
            max_request_body_size=1,
            ident="",
        )
        # A request that waits for a thread is no fault: a busy machine would print one line for each.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        before = signal.signal(signal.SIGTERM, _end)
        try:
            ready(_address(listener))
            server.run()
        finally:
            signal.signal(signal.SIGTERM, before)
            server.close()
            if listener.family == socket.AF_UNIX:
                Path(listen.removeprefix(_UNIX)).unlink(missing_ok=True)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _bound(listen: str) -> socket.socket:
    """A socket that is bound to the address."""
    found = _LOOPBACK.fullmatch(listen)
    on_path = listen.startswith(_UNIX) and len(listen) > len(_UNIX)
    if not on_path and (found is None or int(found[2]) > _PORT_LIMIT):
        raise UserError(
            f"--listen {printable(listen)}: 127.0.0.1:PORT, localhost:PORT, [::1]:PORT or unix:PATH is "
            "expected: the page has no password, so that it is served to this machine only"
        )
    try:
        if found is None:
            return _bound_path(Path(listen.removeprefix(_UNIX)))
        host = "::1" if found[1] == "[::1]" else "127.0.0.1"
        return socket.create_server(
            (host, int(found[2])), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise UserError(f"--listen {printable(listen)}: {error.strerror or error}") from None


def _bound_path(path: Path) -> socket.socket:
    """A Unix socket for its user and its group, in place of one that no process serves."""
    made = socket.socket(socket.AF_UNIX)
    try:
        if path.is_socket() and made.connect_ex(str(path)) != 0:
            path.unlink()
        before = os.umask(0o117)
        try:
            made.bind(str(path))
        finally:
            os.umask(before)
    except OSError:
        made.close()
        raise
    return made


def _address(listener: socket.socket) -> str:
    """The bound address as a reader writes it."""
    name: Any = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return f"{_UNIX}{name}"
    host, port = name[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
