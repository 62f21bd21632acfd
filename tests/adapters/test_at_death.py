"""A command that is run when a process dies."""

import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from makeway.adapters.command import at_death
from tests.waiting import await_that

USER = """
import os, signal, sys
from makeway.adapters.command import at_death
with at_death(("sh", "-c", 'echo ended it >"$1"', "sh", sys.argv[1])):
    print(flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_the_command_runs_when_the_process_dies(tmp_path: Path, how: Literal["kill", "terminate"]) -> None:
    mark = tmp_path / "a mark"
    with subprocess.Popen((sys.executable, "-c", USER, str(mark)), stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        user.stdout.readline()
        assert not mark.exists()
        (user.kill if how == "kill" else user.terminate)()
    await_that("the command has run", lambda: mark.exists() and mark.read_text() == "ended it\n")


def test_the_command_does_not_run_after_the_block(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with at_death(("touch", str(mark))):
        pass
    with pytest.raises(KeyError), at_death(("touch", str(mark))):
        raise KeyError
    # The guard has been waited for: it can write no more.
    assert not mark.exists()
