"""The way of an urgent job from the snapshot to the first command: it enters each room of the policies
once.
"""

import subprocess
import sys
from itertools import groupby
from pathlib import Path
from types import FrameType

from tests.daemon.control.loops import busy, daemon
from tests.fakes import FakeAdapter
from tests.paths import ROOT

ROOMS = ROOT / "policies"
NO_ROOMS = {"model", "contract.py", "soundness.py"}


def rooms_entered(policy: str) -> list[str]:
    """The rooms of the policies, without the model, in the order in which the first cycle enters their
    modules for the first time. A room occurs twice if another room's module was entered meanwhile.
    """
    entered: dict[str, Path] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename not in entered:
            entered[code.co_filename] = Path(code.co_filename).resolve()

    adapter = FakeAdapter(busy())
    loop = daemon(adapter, policy=policy)
    sys.setprofile(note)
    try:
        loop.reconcile()
    finally:
        sys.setprofile(None)
    assert adapter.calls == [("reserve", "mw_u")]
    rooms = [path.relative_to(ROOMS).parts[0] for path in entered.values() if path.is_relative_to(ROOMS)]
    return [room for room, _ in groupby(room for room in rooms if room not in NO_ROOMS)]


def test_each_room_of_the_policies_is_entered_once() -> None:
    """In a process of its own: what other tests have left in memory need not be worked out again."""
    program = f"from {__name__} import rooms_entered; print(*rooms_entered('eviction'))"
    done = subprocess.run(
        (sys.executable, "-c", program), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["eviction", "common", "safety", "programme", "gate"]
