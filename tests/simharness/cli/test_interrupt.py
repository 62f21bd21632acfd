"""Ctrl-C, and the end of the program by other signals, while other processes compute."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.simharness.cli import terminal
from makeway.simharness.cli.output import progress
from makeway.simharness.run.experiment import Experiment
from makeway.simharness.run.loading import load_workload
from tests.waiting import LIMIT_S, await_that

TRIALS = """
import time
from dataclasses import dataclass
from pathlib import Path

import click

from makeway.simharness.papers.common.cache import ResultCache
from makeway.simharness.papers.reproduce import run_all

@dataclass(frozen=True)
class Trial:
    number: int
    marker: str

def work(trial: Trial) -> float:
    if trial.number:
        Path(trial.marker).touch()
        time.sleep(3600)
    return 1.5

@click.command()
@click.argument("folder")
def main(folder):
    trials = [Trial(number, f"{folder}/began-{number}") for number in range(4)]
    cache = ResultCache(directory=Path(folder, "cache"), traces=())
    run_all(work, trials, workers=2, label="trials", cache=cache)

if __name__ == "__main__":
    main()
"""


def children(parent: int) -> set[int]:
    """The processes that a process started and that live."""
    found = set[int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, ppid = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(ppid) == parent and state != "Z":
            found.add(int(path.parent.name))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def computing(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A program two of whose workers compute, after one result."""
    (tmp_path / "trials.py").write_text(TRIALS)
    process = subprocess.Popen(
        [sys.executable, "-m", "trials", tmp_path],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        await_that("two workers compute", lambda: len(list(tmp_path.glob("began-*"))) == 2)
        await_that("one result is stored", lambda: any((tmp_path / "cache").glob("*/*.json")))
        yield process
    finally:
        for pid in children(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.communicate()


def test_ctrl_c_ends_the_workers_and_keeps_the_results(
    computing: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    workers = children(computing.pid)
    assert len(workers) >= 2
    computing.send_signal(signal.SIGINT)
    _, err = computing.communicate(timeout=LIMIT_S)
    assert "Traceback" not in err
    assert f"interrupted: 1 of 4 trials are finished and kept in {tmp_path / 'cache'}" in err
    await_that("the workers are gone", lambda: not any(map(alive, workers)))


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_program(computing: "subprocess.Popen[str]", sent: signal.Signals) -> None:
    workers = children(computing.pid)
    computing.send_signal(sent)
    await_that("the workers are gone", lambda: not any(map(alive, workers)))


def test_an_interrupted_replay_exits_with_130_and_shows_what_is_finished(tmp_path: Path) -> None:
    output = tmp_path / "averages.csv"
    program = [sys.executable, "-m", "makeway.daemon.cli.main", "replay", "sample"]
    process = subprocess.Popen(
        [
            *program,
            "--policy",
            "none",
            "--policy",
            "eviction",
            "--jobs",
            "2",
            "--seeds",
            "200",
            "--csv",
            output,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        await_that("workers compute", lambda: len(children(process.pid)) >= 3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert " of 400 replays are finished" in err


def test_a_long_run_without_a_terminal_reports_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "LINE_EVERY_S", 0.01)
    seen: list[str] = []

    def lines() -> str:
        seen.append(capsys.readouterr().err)
        return "".join(seen)

    with terminal.counter("replays", 8) as advance:
        advance(3)
        await_that("a line is printed", lambda: "makeway: 3 of 8 replays are done\n" in lines())
    seen.clear()
    workload = load_workload(Experiment())
    last_s = max(job.submit_s for job in workload.jobs)
    with progress("eviction", workload) as reach:
        assert reach is not None
        reach(last_s)
        await_that(
            "a line is printed",
            lambda: "makeway: eviction: 100% of the submissions are replayed\n" in lines(),
        )


INTERRUPTED = """
import atexit, sys
from makeway.daemon.cli.main import run_cli
from makeway.simharness.papers import reproduce

def run_all(work, trials, **_):
    finished = {0: work(trials[0])}
    before = set(sys.modules)
    atexit.register(lambda: print("loaded late:", *sorted(set(sys.modules) - before), file=sys.stderr))
    raise reproduce.Interrupted(finished)

reproduce.run_all = run_all
run_cli(["replay", "sample", "--seeds", "2"])
"""


def test_what_shows_the_averages_is_loaded_before_an_interrupt() -> None:
    """On a busy machine that takes seconds."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert "none" in done.stdout
    (late,) = [line for line in done.stderr.splitlines() if line.startswith("loaded late:")]
    ours = [name for name in late.split()[2:] if name.startswith(("makeway.", "rich.table", "rich.console"))]
    assert ours == []
