"""Commands that are interrupted at a moment that was seen: no process is left, and no file that was there is
harmed.

`reproduce`, `sweep`, `run`, `page`, `status --watch` and `devcluster up` have tests of their own.
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from makeway.adapters.slurm.accounting.rows import NEEDED
from tests.simharness.history.test_loading import URGENT, row
from tests.waiting import await_that, limit_s

PROGRAM = (sys.executable, "-m", "makeway.daemon.cli.main")
MARK = "MAKEWAY_TEST_FOLDER"
"""In the environment of the program and of its workers."""
KEPT = "of an earlier run"
WAITS = """
import time
from dataclasses import dataclass
from pathlib import Path

from makeway.policies.api import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsConfig:
    pass


def decide(cluster, config):
    Path("began").touch()
    time.sleep(3600)


POLICY = Policy(
    name="waits",
    summary="It never decides.",
    config_type=WaitsConfig,
    decide=decide,
    arrivals_only=False,
)
"""
HUNG = """\
mode: observe
adapter: {type: slurm, bin_dir: bin}
journal: journal.sqlite
socket: daemon.sock
metrics: {port: 0}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """A command and the signal that ends it once the file `began` is there."""

    words: str
    number: signal.Signals = signal.SIGINT
    outputs: tuple[str, ...] = ()
    """Files of an earlier run that it would replace at its end."""
    err: str = ""
    """The whole of what it says on standard error, as a regular expression."""


INTERRUPTIONS = (
    Interruption(
        words="replay sample --policy waits.py --report r.html --json j.json --csv a.csv",
        outputs=("r.html", "j.json", "a.csv"),
        err="interrupted: 0 of 1 replays are finished",
    ),
    Interruption(
        words="replay sample --policy none --policy waits.py --report r.html",
        number=signal.SIGTERM,
        outputs=("r.html",),
        err="interrupted: 1 of 2 replays are finished",
    ),
    Interruption(
        words="replay sample --policy waits.py --seeds 4 --jobs 2 --csv a.csv",
        outputs=("a.csv",),
        err="interrupted: 0 of 4 replays are finished",
    ),
    Interruption(words="demo --policy waits.py --report demo.html", outputs=("demo.html",)),
    Interruption(
        words="history jobs.txt --nodes 4 --node cpu=4,mem=4000M --class urgent:queue=urgent "
        "--time-zone UTC --policy waits.py --report r.html",
        outputs=("r.html",),
        err=r"makeway: jobs from before the measured time.*\nmakeway: no job of the measured time is.*"
        r"\ninterrupted: 1 of 7 replays are finished"
        r" and kept in .*/caches/makeway/history; the same command goes on from there",
    ),
    Interruption(words="doctor --config hung.yaml"),
    Interruption(words="doctor --config hung.yaml", number=signal.SIGTERM),
    Interruption(words="whatif --config hung.yaml --nodes 2", number=signal.SIGTERM),
    Interruption(words="swarm --stories 500 --jobs 2", err=r"interrupted: \d+ of 500 stories are told"),
    Interruption(
        words="swarm --stories 600 --jobs 2",
        number=signal.SIGTERM,
        err=r"interrupted: \d+ of 600 stories are told",
    ),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a policy that never decides, an accounting export, and Slurm commands that hang."""
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "jobs.txt").write_text(
        "\n".join((";".join(NEEDED), row(1, eligible=0, start=0, end=100), URGENT, ""))
    )
    (tmp_path / "hung.yaml").write_text(HUNG)
    (tmp_path / "bin").mkdir()
    for name in ("squeue", "scontrol", "sinfo", "sacctmgr", "scancel", "salloc"):
        script = tmp_path / "bin" / name
        script.write_text(f"#!/bin/sh\ntouch {tmp_path}/hung-$$ {tmp_path}/began\nexec sleep 3600\n")
        script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(MARK, str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path


def left(folder: Path) -> list[str]:
    """The processes that live of those that it started: workers, and commands of the Slurm that hangs."""
    found = [path.name for path in folder.glob("hung-*") if _runs(Path("/proc", path.name.partition("-")[2]))]
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={folder}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_text())
    return found


def _runs(entry: Path) -> bool:
    try:
        return "sleep" in (entry / "cmdline").read_text()
    except OSError:
        return False


@pytest.fixture
def started(folder: Path) -> Iterator["list[subprocess.Popen[str]]"]:
    """The programs of a test, which end with it."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@pytest.mark.parametrize("case", INTERRUPTIONS, ids=lambda case: f"{case.number.name} {case.words}")
def test_an_interrupted_command_leaves_everything_as_it_was(
    case: Interruption, folder: Path, started: "list[subprocess.Popen[str]]"
) -> None:
    for name in case.outputs:
        (folder / name).write_text(KEPT)
    process = subprocess.Popen(
        [*PROGRAM, *case.words.split()], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    started.append(process)
    if case.words.startswith("swarm"):
        await_that("a worker runs", lambda: len(left(folder)) > 2)
    else:
        await_that("the command is at work", (folder / "began").exists)
    process.send_signal(case.number)
    _, err = process.communicate(timeout=limit_s())
    assert process.returncode == (130 if case.number == signal.SIGINT else -case.number)
    assert re.fullmatch(case.err, err.strip()), err
    assert {name: (folder / name).read_text() for name in case.outputs} == dict.fromkeys(case.outputs, KEPT)
    await_that("no process is left", lambda: not left(folder), lambda: str(left(folder)))


def test_ctrl_c_at_a_question_writes_no_file(folder: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(PROGRAM[0], [*PROGRAM, "init", "site"])
    try:
        printed = bytearray()

        def asks() -> bool:
            if select.select([terminal], [], [], 0)[0]:
                printed.extend(os.read(terminal, 1000))
            return b"Which QOS" in printed

        await_that("it asks", asks, printed.decode)
        os.write(terminal, b"\x03")
        ended: list[int] = []

        def ends() -> bool:
            done, status = os.waitpid(pid, os.WNOHANG)
            ended.append(status)
            return done == pid

        await_that("it ends", ends)
        assert os.waitstatus_to_exitcode(ended[-1]) == 130
    finally:
        os.close(terminal)
    assert not (folder / "site").exists()


def test_the_reader_of_a_long_output_may_go(folder: Path, started: "list[subprocess.Popen[str]]") -> None:
    process = subprocess.Popen(
        [*PROGRAM, "policies", "eviction"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    started.append(process)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(limit_s()) == 1
