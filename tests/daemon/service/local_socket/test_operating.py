"""What only operators may ask of the daemon through its socket."""

import json
from pathlib import Path

import pytest

from makeway.daemon.service.peer import Peer
from makeway.daemon.service.socket_api import BadRequest, answer, request
from tests.daemon.service.local_socket.asked import ME, STRANGER, Control, serving


@pytest.mark.parametrize("command", ["restore", "stop"])
def test_what_only_an_operator_may_do(command: str) -> None:
    control = Control()
    line = json.dumps({"command": command}).encode()
    with pytest.raises(BadRequest, match=f"^{command}: 54321 may not do this; root and"):
        answer(line, STRANGER, control)
    assert control.ordered == []
    for trusted in (ME, Peer(pid=1, uid=0)):
        assert answer(line, trusted, control) == {}
    assert control.ordered == [command, command]
    with pytest.raises(BadRequest, match="this command takes no argument"):
        answer(json.dumps({"command": command, "now": True}).encode(), ME, control)


def test_an_operator_may_pause_resume_and_hand_over(path: Path) -> None:
    control = Control()
    with serving(path, control):
        request(path, {"command": "pause"})
        request(path, {"command": "resume"})
        assert request(path, {"command": "handover"})["led"] is True
    assert control.paused == [True, False]


@pytest.mark.parametrize("command", ["pause", "resume", "handover"])
def test_nobody_else_may(command: str) -> None:
    control = Control()
    with pytest.raises(BadRequest, match=f"{command}: 54321 may not do this; root and the daemon's own user"):
        answer(json.dumps({"command": command}).encode(), STRANGER, control)
    assert control.paused == []


@pytest.mark.parametrize("command", ["pause", "resume", "handover"])
def test_they_take_no_argument(command: str) -> None:
    with pytest.raises(BadRequest, match=f"{command}: this command takes no argument"):
        answer(json.dumps({"command": command, "for": "1h"}).encode(), ME, Control())
