"""The script that runs a command next to busy loops ends its loops, however it ends itself."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.waiting import await_that, limit_s

BUSY = ROOT / "tests" / "busy.sh"
ENVIRONMENT = {"PATH": os.environ["PATH"], "MAKEWAY_BUSY_LOOPS": "2"}


def loops_of(pid: int) -> set[int]:
    """The processes that the script has started as copies of itself."""
    found = set()
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if str(BUSY) in Path(f"/proc/{child}/cmdline").read_text():
            found.add(int(child))
    return found


def test_the_loops_end_with_the_command() -> None:
    command = ["sh", str(BUSY), "sh", "-c", "cat /proc/$PPID/task/$PPID/children; exit 3"]
    done = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=limit_s(), check=False
    )
    assert done.returncode == 3
    loops = [int(pid) for pid in done.stdout.split()]
    assert len(loops) >= 2
    await_that("no loop is left", lambda: not any(Path(f"/proc/{pid}").exists() for pid in loops))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_loops_end_when_the_script_is_ended(number: signal.Signals) -> None:
    with subprocess.Popen(
        ["sh", str(BUSY), "cat"], env=ENVIRONMENT, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as script:
        await_that("two loops run", lambda: len(loops_of(script.pid)) == 2)
        loops = loops_of(script.pid)
        script.send_signal(number)
        assert script.stdin is not None
        script.stdin.close()
        script.wait(limit_s())
    assert script.returncode != 0
    await_that("no loop is left", lambda: not any(Path(f"/proc/{pid}").exists() for pid in loops))


def test_a_number_of_loops_that_is_none_is_refused() -> None:
    environment = {**ENVIRONMENT, "MAKEWAY_BUSY_LOOPS": "four"}
    done = subprocess.run(
        ["sh", str(BUSY), "true"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "MAKEWAY_BUSY_LOOPS must be a number, not 'four'" in done.stderr
