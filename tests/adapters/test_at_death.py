"""A command that is run when a process dies."""

import os
import signal
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
FORKING_USER = """
import os, signal, sys
from makeway.adapters.command import at_death
with at_death(("sh", "-c", 'echo ended it >"$1"', "sh", sys.argv[1])):
    print(os.fork() or "", flush=True)
    signal.pause()
"""
LEAVING_USER = """
import os, sys
from makeway.adapters.command import at_death
with at_death(("touch", sys.argv[1])):
    if os.fork() == 0:
        raise SystemExit(3)
    assert os.wait()[1] >> 8 == 3
    print("in the block" if not os.path.exists(sys.argv[1]) else "too early")
"""


def await_end(mark: Path) -> None:
    """Wait until the command of the users above has run."""
    await_that("the command has run", lambda: mark.exists() and mark.read_text() == "ended it\n")


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are still its children."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("how", ["kill", "terminate", "with its children", "with its group"])
def test_the_command_runs_when_the_process_dies(
    tmp_path: Path, how: Literal["kill", "terminate", "with its children", "with its group"]
) -> None:
    mark = tmp_path / "a mark"
    argv = (sys.executable, "-c", USER, str(mark))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as user:
        assert user.stdout is not None
        user.stdout.readline()
        assert not mark.exists()
        if how == "with its children":
            for child in (user.pid, *children(user.pid)):
                os.kill(child, signal.SIGKILL)
        elif how == "with its group":
            os.killpg(user.pid, signal.SIGKILL)
        else:
            (user.kill if how == "kill" else user.terminate)()
    await_end(mark)


def test_a_forked_child_that_lives_on_does_not_count(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    argv = (sys.executable, "-c", FORKING_USER, str(mark))
    user = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert user.stdout is not None
    lines = {user.stdout.readline().strip(), user.stdout.readline().strip()}
    (child,) = (int(line) for line in lines if line)
    try:
        user.kill()
        user.wait()
        await_end(mark)
    finally:
        os.kill(child, signal.SIGKILL)
        user.stdout.close()


def test_the_command_does_not_run_after_the_block(tmp_path: Path) -> None:
    """Nor after a child that was forked in the block has left it. The guard has this output too: it has ended
    when all is read.
    """
    mark = tmp_path / "mark"
    done = subprocess.run((sys.executable, "-c", LEAVING_USER, str(mark)), stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"in the block\n"
    assert not mark.exists()


def test_an_error_in_the_block_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(KeyError), at_death(("touch", str(tmp_path / "mark"))):
        raise KeyError


def test_the_command_runs_after_a_block_that_wants_it(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with at_death(("touch", str(mark))) as run_it:
        run_it()
        assert not mark.exists()
    await_that("the command has run", mark.exists)
