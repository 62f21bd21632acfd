"""The local socket: one JSON object on one line in, one out, and the connection ends.

    {"command": "poke"}
        Start a cycle at once.
    {"command": "ack", "job_id": "4711"}
        The same, if makeway waits for this job.
    {"command": "status"}
        The state of the daemon.
    {"command": "notice", "nodes": 64, "walltime_s": 3600, "in_s": 900}
        Announce an urgent job. With `"per_node": {"cpu": 8, "mem": 16000, "gres/gpu": 2}` it needs so much of
        each node (`mem` in megabytes); without, whole nodes.
    {"command": "pause"}, {"command": "resume"}
        Take nothing from jobs until further notice; go on.
    {"command": "handover"}, {"command": "restore"}, {"command": "stop"}
        Let another daemon lead; give everything back and take nothing more; end.

A reply has `ok`; if that is false, `error` says why. The reply to `ack` has `awaited`: whether an open
operation waits for the job. An acknowledgement itself is what the cluster shows (the job's comment, its
requeue, its end); `ack` only spares it the wait for the next poll. A notice belongs to the user at the other
end of the socket, as the kernel reports it; only root and the daemon's own user may name another user with
`user`, and only they may send the last five commands. The reply to `handover` has `led`: whether this daemon
led.

A client may be hostile: lines, waits and the number of clients, in all and of one user, are limited, and a
bad request ends its own connection only.
"""

import json
import os
import re
import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from makeway.daemon.errors import UserError, printable
from makeway.daemon.service.peer import Peer, peer_of
from makeway.policies.model import Resources

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

OPERATED = ("pause", "resume", "handover", "restore", "stop")
"""The commands that only root and the daemon's own user may send."""
COMMANDS = ("poke", "ack", "status", "notice", *OPERATED)
LINE_LIMIT = 4096
"""Bytes of a request."""
CLIENT_LIMIT = 32
"""Simultaneous connections; further clients are asked to try again."""
USER_LIMIT = 8
"""Simultaneous connections of one user. There is no such limit for root and the daemon's own user."""
WAIT_S = 5.0
"""The longest that one connection may take."""
WALLTIME_LIMIT_S = 365 * 86_400.0
NOTICE_LIMIT_S = 7 * 86_400.0
"""How far ahead a job may be announced."""
NODE_LIMIT = 1_000_000
TRES_LIMIT = 1 << 40
_TRES = re.compile(r"cpu|mem|gres/[0-9A-Za-z_-]{1,64}(:[0-9A-Za-z_.-]{1,64})?")
_JOB_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.+-]{0,63}")
_USER = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.@$-]{0,63}")


class BadRequest(ValueError):
    """A request that is malformed or not allowed; the message goes back to the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """An urgent job that a user announces."""

    user: str
    node_count: int
    walltime_s: float
    in_s: float
    """Seconds from now until it is expected."""
    demand: Resources | None = None
    """What it needs on each node. None: whole nodes."""


class SocketControl(Protocol):
    """What clients of the socket can have the daemon do. Called from the threads of the clients."""

    def poke(self) -> None:
        """Start a cycle at once; several pokes may share one."""

    def acknowledge(self, job_id: str) -> bool:
        """Start a cycle at once if an open operation waits for this job. Returns whether one does."""
        ...

    def status(self) -> Mapping[str, object]:
        """The state of the daemon as plain values."""
        ...

    def restore(self) -> None:
        """Give everything back that is held or taken, and take nothing more."""

    def stop(self) -> None:
        """End the daemon after the present cycle."""

    def announce(self, announcement: Announcement) -> str:
        """Keep an announcement. Returns its id; raises `BadRequest` if there are too many."""
        ...

    def pause(self, on: bool) -> None:
        """Take nothing from jobs until further notice, or go on."""

    def hand_over(self) -> bool:
        """Give the lease up. Returns whether this daemon led."""
        ...


def answer(line: bytes, peer: Peer, control: SocketControl) -> dict[str, object]:
    """Carry out one request.

    Raises:
        BadRequest: it is malformed, or not allowed.
    """
    try:
        request: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise BadRequest("one JSON object on one line is expected") from None
    match request:
        case {"command": "poke", **rest} if not rest:
            control.poke()
            return {}
        case {"command": "ack", "job_id": str(job_id), **rest} if not rest:
            if not _JOB_ID.fullmatch(job_id):
                raise BadRequest("job_id: the id of a job is expected, such as 4711 or 4711_3")
            return {"awaited": control.acknowledge(job_id)}
        case {"command": "status", **rest} if not rest:
            return {"status": control.status()}
        case {"command": "notice", **rest}:
            return {"notice_id": control.announce(_announcement(rest, peer))}
        case {"command": str(command), **rest} if command in OPERATED and not rest:
            return _operated(command, peer, control)
        case {"command": str(command)} if command in COMMANDS:
            raise BadRequest(
                f"{command}: this command takes {'only job_id' if command == 'ack' else 'no argument'}"
            )
        case _:
            raise BadRequest(f"command: one of {', '.join(COMMANDS)} is expected")


def _operated(command: str, peer: Peer, control: SocketControl) -> dict[str, object]:
    """Carry out what only an operator may ask for."""
    if not peer.trusted:
        raise BadRequest(f"{command}: {peer.user} may not do this; root and the daemon's own user may")
    if command == "handover":
        return {"led": control.hand_over()}
    if command in ("restore", "stop"):
        (control.restore if command == "restore" else control.stop)()
    else:
        control.pause(command == "pause")
    return {}


def _announcement(request: Mapping[Any, object], peer: Peer) -> Announcement:
    unknown = request.keys() - {"nodes", "walltime_s", "in_s", "user", "per_node"}
    if unknown:
        raise BadRequest(
            f"{printable(str(min(unknown)))[:60]}: notice takes nodes, walltime_s, in_s, user and per_node"
        )
    user = request.get("user", peer.user)
    if not isinstance(user, str) or not _USER.fullmatch(user):
        raise BadRequest("user: a user name is expected")
    if user != peer.user and not peer.trusted:
        raise BadRequest(f"user: {peer.user} may not announce jobs of other users")
    return Announcement(
        user=user,
        node_count=int(_number(request, "nodes", 1, NODE_LIMIT, whole=True)),
        walltime_s=_number(request, "walltime_s", 1, WALLTIME_LIMIT_S),
        in_s=_number(request, "in_s", 0, NOTICE_LIMIT_S),
        demand=_demand(request.get("per_node")),
    )


def _demand(per_node: object) -> Resources | None:
    """What an announced job needs on each node. None: whole nodes."""
    if per_node is None:
        return None
    given = cast("dict[object, object]", per_node) if isinstance(per_node, dict) else {}
    amounts = {
        name: amount
        for name, amount in given.items()
        if isinstance(name, str)
        and _TRES.fullmatch(name)
        and type(amount) is int
        and 0 < amount <= TRES_LIMIT
    }
    if not amounts or len(amounts) < len(given):
        raise BadRequest(
            "per_node: positive whole numbers of cpu, mem (in megabytes) or gres/NAME[:TYPE] are expected"
        )
    return Resources.with_totals(amounts)


def _number(
    request: Mapping[Any, object], name: str, least: float, most: float, *, whole: bool = False
) -> float:
    value = request.get(name)
    kind = int if whole else int | float
    if not isinstance(value, kind) or isinstance(value, bool) or not least <= value <= most:
        raise BadRequest(
            f"{name}: a{' whole' if whole else ''} number from {least:.0f} to {most:.0f} is expected"
        )
    return value


class SocketInUse(UserError):
    """Another daemon answers on the socket."""


@contextmanager
def serve(path: Path, control: SocketControl, log: "FilteringBoundLogger") -> Generator[None]:
    """Answer on the socket `path` (mode 0660) until the block ends. A socket that a dead daemon left is
    replaced.

    Raises:
        SocketInUse: another daemon answers on it.
        UserError: it cannot be created, or the path is not a socket.
    """
    server = _open(path, control, log)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="socket")
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        with suppress(OSError):
            if path.stat().st_ino == server.inode:
                path.unlink()


def _open(path: Path, control: SocketControl, log: "FilteringBoundLogger") -> "_Server":
    where = f"socket {printable(str(path))}"
    before = os.umask(0o117)
    try:
        if path.is_socket():
            if _answers(path):
                raise SocketInUse(
                    f"{where}: another daemon answers on it; stop that daemon, or choose another socket"
                )
            path.unlink(missing_ok=True)
        elif path.exists():
            raise UserError(f"{where}: this is not a socket; remove it, or choose another path")
        return _Server(path, control, log)
    except OSError as error:
        raise UserError(f"{where}: cannot be created: {error.strerror or error}") from error
    finally:
        os.umask(before)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(WAIT_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
        return True


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, path: Path, control: SocketControl, log: "FilteringBoundLogger") -> None:
        self.control = control
        self.log = log
        self.places = threading.BoundedSemaphore(CLIENT_LIMIT)
        self.connected: Counter[int] = Counter()
        """The connections of each user, by number."""
        self.counting = threading.Lock()
        super().__init__(str(path), _Client)
        self.inode = path.stat().st_ino

    def process_request(self, request: Any, client_address: Any) -> None:
        peer = peer_of(request)
        complaint = self._admit(peer)
        if complaint is None:
            try:
                super().process_request(request, client_address)
            except BaseException:
                self._leave(peer)
                raise
            return
        with suppress(OSError):
            request.settimeout(0.0)
            request.sendall(_line({"ok": False, "error": complaint}))
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        peer = peer_of(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(peer)

    def _admit(self, peer: Peer) -> str | None:
        """Count one more connection. Returns why it is refused; None: it is not."""
        with self.counting:
            if self.connected[peer.uid] >= USER_LIMIT and not peer.trusted:
                return "too many connections of one user: try again"
            if not self.places.acquire(blocking=False):
                return "too many clients: try again"
            self.connected[peer.uid] += 1
        return None

    def _leave(self, peer: Peer) -> None:
        with self.counting:
            self.places.release()
            self.connected[peer.uid] -= 1
            if not self.connected[peer.uid]:
                del self.connected[peer.uid]

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.log.exception("socket: a request failed")


class _Client(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        peer = peer_of(self.request)
        try:
            line = read_line(self.request, LINE_LIMIT, WAIT_S)
            reply = {"ok": True, **answer(line, peer, self.server.control)}
        except BadRequest as error:
            self.server.log.warning("socket: refused", error=str(error), pid=peer.pid, uid=peer.uid)
            reply = {"ok": False, "error": str(error)}
        except OSError:
            return  # the client went away, or took too long
        except Exception:
            self.server.log.exception("socket: a request failed", pid=peer.pid, uid=peer.uid)
            reply = {"ok": False, "error": "internal error: see the daemon's log"}
        with suppress(OSError):
            self.request.sendall(_line(reply))


def _line(reply: Mapping[str, object]) -> bytes:
    return json.dumps(reply).encode("ascii") + b"\n"


def read_line(connection: socket.socket, limit: int, wait_s: float) -> bytes:
    """One line of at most `limit` bytes, complete within `wait_s`. A peer that closes its side ends the line.

    Raises:
        BadRequest: the line is longer.
        OSError: it was not complete in time.
    """
    until_s = time.monotonic() + wait_s
    received = bytearray()
    while b"\n" not in received:
        if len(received) > limit:
            raise BadRequest(f"a line of at most {limit} bytes is expected")
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        piece = connection.recv(4096)
        if not piece:
            break
        received += piece
    connection.settimeout(wait_s)
    return bytes(received.split(b"\n", 1)[0])


def request(path: Path, message: Mapping[str, object], *, wait_s: float = 10.0) -> dict[str, Any]:
    """Send a request to the daemon behind the socket `path`, and return its reply.

    Raises:
        UserError: no daemon answers, or it refuses.
    """
    where = f"socket {printable(str(path))}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(wait_s)
            connection.connect(str(path))
            connection.sendall(_line(message))
            reply = json.loads(read_line(connection, 1 << 20, wait_s))
    except (FileNotFoundError, ConnectionRefusedError):
        raise UserError(f"{where}: no daemon answers; is it running, and is this its socket?") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{where}: no answer: {error}") from error
    found = cast("dict[str, Any]", reply) if isinstance(reply, dict) else {}
    if not found.get("ok"):
        raise UserError(f"{where}: refused: {printable(str(found.get('error')))}")
    return found
