"""The local socket: what it does, and what it withstands."""

import json
import os
import socket
import stat
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.daemon.errors import UserError
from makeway.daemon.service import socket_api as api
from makeway.daemon.service.peer import Peer
from makeway.daemon.service.socket_api import Announcement, BadRequest, answer, request
from makeway.policies.model import Resources
from tests.daemon.service.local_socket.asked import ME, STRANGER, Control, serving
from tests.waiting import await_that, limit_s

ONE_OF = "command: one of poke, ack, status, notice, pause, resume, handover, restore, stop is expected"
NOTICE: dict[str, object] = {"command": "notice", "nodes": 64, "walltime_s": 3600, "in_s": 900}


def exchange(path: Path, sent: bytes, *, end: bool = False) -> Any:
    """Send bytes as they are and read the answer; None if the connection ends without one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(limit_s())
        connection.connect(str(path))
        if sent:
            connection.sendall(sent)
        if end:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65_536):
            received += piece
    assert received.count(b"\n") == bool(received)
    return json.loads(received) if received else None


def test_the_commands(path: Path) -> None:
    with serving(path) as control:
        assert request(path, {"command": "poke"}) == {"ok": True}
        assert control.pokes == 1
        assert request(path, {"command": "ack", "job_id": "4711_3"}) == {"ok": True, "awaited": True}
        assert request(path, {"command": "ack", "job_id": "4712"}) == {"ok": True, "awaited": False}
        assert control.acknowledged == ["4711_3", "4712"]
        values = request(path, {"command": "status"})
        assert values == {"ok": True, "status": {"mode": "observe", "sentence": "fine \x1b[2J"}}
        assert request(path, NOTICE) == {"ok": True, "notice_id": "n-1"}
    assert control.announced == [Announcement(user=ME.user, node_count=64, walltime_s=3600, in_s=900)]


def test_only_owner_and_group_may_connect_and_the_socket_goes_away(path: Path) -> None:
    before = os.umask(0)
    os.umask(before)
    with serving(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert not path.exists()
    assert os.umask(before) == before


def test_the_socket_of_a_dead_daemon_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))
    assert path.is_socket()
    with serving(path) as control:
        request(path, {"command": "poke"})
        assert control.pokes == 1


def test_a_live_daemon_keeps_its_socket(path: Path) -> None:
    with serving(path) as first:
        with pytest.raises(api.SocketInUse, match="another daemon answers on it"), serving(path):
            pass
        request(path, {"command": "poke"})
        assert first.pokes == 1


def test_a_file_that_is_not_a_socket_is_left_alone(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(UserError, match="this is not a socket"), serving(path):
        pass
    assert path.read_text() == "precious"


def test_a_place_that_cannot_be_looked_at(tmp_path: Path) -> None:
    """As in a folder that this user may not enter."""
    with (
        pytest.raises(UserError, match="too long"),
        serving(tmp_path / ("x" * 300)),
    ):
        pass


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match="cannot be created: No such file"),
        serving(tmp_path / "no" / "s.sock"),
    ):
        pass


def test_the_end_leaves_the_socket_of_another_daemon_alone(path: Path) -> None:
    with ExitStack() as stack:
        stack.enter_context(serving(path))
        path.unlink()
        other = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        other.bind(str(path))
    assert path.is_socket()


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        (b"\n", "one JSON object on one line is expected"),
        (b"hello\n", "one JSON object on one line is expected"),
        (b"\xff\xfe\x00\n", "one JSON object on one line is expected"),
        (b'{"command": "poke"\n', "one JSON object on one line is expected"),
        (b"[" * 4000 + b"\n", "one JSON object on one line is expected"),
        (
            b"9" * 4000 + b"\n",
            ONE_OF,
        ),
        (
            b"null\n",
            ONE_OF,
        ),
        (
            b'["poke"]\n',
            ONE_OF,
        ),
        (
            b"{}\n",
            ONE_OF,
        ),
        (
            b'{"command": "reboot"}\n',
            ONE_OF,
        ),
        (
            b'{"command": ["poke"]}\n',
            ONE_OF,
        ),
        (b'{"command": "poke", "x": 1}\n', "poke: this command takes no argument"),
        (b'{"command": "ack"}\n', "ack: this command takes only job_id"),
        (b'{"command": "ack", "job_id": "1; rm -rf /"}\n', "job_id: the id of a job is expected"),
        (b'{"command": "ack", "job_id": ""}\n', "job_id: the id of a job is expected"),
        (b"x" * 5000, "a line of at most 4096 bytes is expected"),
    ],
)
def test_malformed_requests(path: Path, sent: bytes, complaint: str) -> None:
    with serving(path) as control:
        reply = exchange(path, sent)
        assert reply["ok"] is False
        assert reply["error"].startswith(complaint)
        assert control.pokes == 0
        request(path, {"command": "poke"})
        assert control.pokes == 1


def test_a_line_may_end_with_the_connection(path: Path) -> None:
    with serving(path) as control:
        assert exchange(path, b'{"command": "poke"}', end=True) == {"ok": True}
        assert control.pokes == 1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"nodes": 0}, "nodes: a whole number from 1 to 1000000 is expected"),
        ({"nodes": 1.5}, "nodes: a whole number"),
        ({"nodes": True}, "nodes: a whole number"),
        ({"nodes": "64"}, "nodes: a whole number"),
        ({"nodes": 10**30}, "nodes: a whole number"),
        ({"nodes": None}, "nodes: a whole number"),
        ({"walltime_s": -1}, "walltime_s: a number from 1 to 31536000 is expected"),
        ({"walltime_s": float("nan")}, "walltime_s: a number"),
        ({"walltime_s": float("inf")}, "walltime_s: a number"),
        ({"in_s": 10**9}, "in_s: a number from 0 to 604800 is expected"),
        ({"user": "a b"}, "user: a user name is expected"),
        ({"user": 7}, "user: a user name is expected"),
        ({"when": 1}, "when: notice takes nodes, walltime_s, in_s, user and per_node"),
        ({"per_node": {}}, "per_node: positive whole numbers of cpu, mem (in megabytes) or gres/NAME[:TYPE]"),
        ({"per_node": {"cpu": 0}}, "per_node: positive whole numbers"),
        ({"per_node": {"cpu": 1.5}}, "per_node: positive whole numbers"),
        ({"per_node": {"cpu": 4, "license": 1}}, "per_node: positive whole numbers"),
        ({"per_node": ["cpu"]}, "per_node: positive whole numbers"),
    ],
)
def test_announcements_that_are_refused(change: dict[str, object], complaint: str) -> None:
    control = Control()
    with pytest.raises(BadRequest) as caught:
        answer(json.dumps({**NOTICE, **change}).encode(), ME, control)
    assert str(caught.value).startswith(complaint)
    assert control.announced == []


def test_an_announced_job_may_need_a_part_of_each_node() -> None:
    control = Control()
    answer(json.dumps({**NOTICE, "per_node": {"cpu": 8, "gres/gpu:a100": 2}}).encode(), ME, control)
    demand = Resources.of({"cpu": 8, "gres/gpu": 2, "gres/gpu:a100": 2})
    assert [announced.demand for announced in control.announced] == [demand]


def test_an_announcement_belongs_to_its_sender() -> None:
    control = Control()
    answer(json.dumps(NOTICE).encode(), STRANGER, control)
    with pytest.raises(BadRequest, match="54321 may not announce jobs of other users"):
        answer(json.dumps({**NOTICE, "user": "root"}).encode(), STRANGER, control)
    answer(json.dumps({**NOTICE, "user": "alice"}).encode(), Peer(pid=1, uid=0), control)
    assert [announced.user for announced in control.announced] == ["54321", "alice"]


def test_a_limit_of_the_daemon_is_reported(path: Path) -> None:
    with serving(path):
        for _ in range(3):
            request(path, NOTICE)
        with pytest.raises(UserError, match="refused: too many announcements are kept already"):
            request(path, NOTICE)


def test_a_defect_ends_its_connection_only(path: Path) -> None:
    with serving(path) as control:
        control.broken = True
        reply = exchange(path, b'{"command": "poke"}\n')
        assert reply == {"ok": False, "error": "internal error: see the daemon's log"}
        control.broken = False
        assert request(path, {"command": "poke"}) == {"ok": True}


def test_a_silent_client_is_disconnected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "WAIT_S", 0.05)
    with serving(path) as control:
        assert exchange(path, b'{"command": ') is None
        assert request(path, {"command": "poke"}) == {"ok": True}
        assert control.pokes == 1


def test_a_slow_client_gets_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time; all of them together do not."""
    instants = iter([0.0, 1.0, 2.0, 4.9, 5.1])
    monkeypatch.setattr("makeway.daemon.service.socket_api.time.monotonic", lambda: next(instants))
    connection = Mock(spec=socket.socket)
    connection.recv.return_value = b"x"
    with pytest.raises(TimeoutError):
        api.read_line(connection, 100, 5.0)
    assert connection.recv.call_count == 3
    assert [call.args[0] for call in connection.settimeout.call_args_list] == pytest.approx([4.0, 3.0, 0.1])


def test_too_many_clients_are_asked_to_try_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "CLIENT_LIMIT", 1)
    control = Control()
    control.hold = threading.Event()
    with serving(path, control):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as first:
            first.settimeout(limit_s())
            first.connect(str(path))
            first.sendall(b'{"command": "status"}\n')
            assert exchange(path, b"") == {"ok": False, "error": "too many clients: try again"}
            control.hold.set()
            assert json.loads(first.recv(4096))["ok"] is True
            assert first.recv(1) == b""
        while not _poked(path):
            pass
        assert control.pokes == 1


def test_one_user_cannot_take_all_places(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "USER_LIMIT", 1)
    users = [STRANGER.uid]
    monkeypatch.setattr(api, "peer_of", lambda _: Peer(pid=1, uid=users[-1]))
    control = Control()
    control.hold = threading.Event()
    with serving(path, control):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as first:
            first.settimeout(limit_s())
            first.connect(str(path))
            first.sendall(b'{"command": "status"}\n')
            refused = {"ok": False, "error": "too many connections of one user: try again"}
            assert exchange(path, b"") == refused
            for other in (STRANGER.uid + 1, ME.uid, ME.uid):
                users.append(other)
                assert _poked(path)
            users.append(STRANGER.uid)
            assert exchange(path, b"") == refused
            control.hold.set()
            assert json.loads(first.recv(4096))["ok"] is True
            assert first.recv(1) == b""
        await_that("the user has a place again", lambda: _poked(path))


def _poked(path: Path) -> bool:
    """Whether the daemon took a poke. It may turn its back before it has read one that it has no
    place for.
    """
    try:
        return bool(exchange(path, b'{"command": "poke"}\n')["ok"])
    except (BrokenPipeError, ConnectionResetError):
        return False


def test_a_client_without_a_daemon(path: Path) -> None:
    with pytest.raises(UserError, match="no daemon answers; is it running"):
        request(path, {"command": "poke"})


@settings(deadline=None)
@given(
    st.binary(max_size=300) | st.text(max_size=100).map(lambda text: json.dumps({"command": text}).encode())
)
def test_no_bytes_raise_anything_but_bad_request(line: bytes) -> None:
    try:
        answer(line, STRANGER, Control())
    except BadRequest as error:
        reply = str(error)
        assert reply.isprintable(), reply


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["command", "nodes", "walltime_s", "in_s", "user", "job_id"]) | st.text(max_size=5),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        max_size=6,
    ),
    st.sampled_from(["poke", "ack", "status", "notice"]),
)
def test_no_object_raises_anything_but_bad_request(fields: dict[str, object], command: str) -> None:
    control = Control()
    try:
        answer(json.dumps({**fields, "command": command}).encode(), STRANGER, control)
    except BadRequest:
        assert control.pokes == 0
        assert control.announced == []
