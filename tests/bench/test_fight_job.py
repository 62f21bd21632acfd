"""The script of a fight's jobs, run without Slurm: what it writes down, and what it saves."""

import os
import signal
import subprocess
from pathlib import Path

from bench.fight.play import JOB
from bench.fight.progress import read_progress

from tests.waiting import await_that, limit_s

HELPER = """
makeway_run() {
    "$@" &
    while kill -0 "$!" 2>/dev/null; do wait "$!"; done
}
makeway_on_checkpoint() { trap "($1)" USR1; }
makeway_checkpointed() { :; }
"""
"""The same calls as the shipped helper, without Slurm."""
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "1"}


def argv(folder: Path, work_ms: int, interval_ms: int, setup_ms: int = 10) -> list[str]:
    """The command of a job whose name is j. A checkpoint takes 10 ms."""
    helper = folder / "helper.sh"
    helper.write_text(HELPER)
    durations = map(str, (work_ms, interval_ms, 10, setup_ms))
    return [str(JOB), str(folder), str(helper), "j", *durations, "continue"]


def words(folder: Path) -> list[str]:
    """The events of the job so far."""
    path = folder / "j.log"
    return [line.split()[1] for line in path.read_text().splitlines()] if path.exists() else []


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_shellcheck_finds_nothing(shellcheck: str) -> None:
    command = [shellcheck, "--external-sources", "--source-path=SCRIPTDIR", str(JOB)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_a_job_saves_at_intervals_and_ends(tmp_path: Path) -> None:
    subprocess.run(argv(tmp_path, 3000, 2000), env=ENVIRONMENT, check=True, timeout=limit_s())
    assert words(tmp_path) == ["start", "work", "save", "saved", "end"]
    (run,) = read_progress(tmp_path / "j.log")
    assert run.finished
    assert run.gained_s == 3.0
    assert run.regular_s >= 0.01


def test_a_job_saves_at_a_signal_and_continues_there(tmp_path: Path) -> None:
    command = argv(tmp_path, 600_000, 300_000)
    with subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True) as job:
        await_that("it works", lambda: "work" in words(tmp_path))
        job.send_signal(signal.SIGUSR1)
        await_that("it has saved", lambda: "saved" in words(tmp_path))
        os.killpg(job.pid, signal.SIGTERM)
        assert job.wait(limit_s()) == 143
    assert words(tmp_path) == ["start", "work", "signalled", "saved", "term"]
    (first,) = read_progress(tmp_path / "j.log")
    assert not first.finished
    with subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True) as job:
        await_that("it works again", lambda: words(tmp_path)[-1] == "work")
        os.killpg(job.pid, signal.SIGTERM)
        job.wait(limit_s())
    saved_ms = (tmp_path / "j.state").read_text().strip()
    assert first.gained_s == int(saved_ms) / 1000
    assert (tmp_path / "j.log").read_text().splitlines()[5].split()[1:] == ["start", saved_ms]


def test_a_job_that_is_signalled_during_its_setup_saves_what_it_had(tmp_path: Path) -> None:
    (tmp_path / "j.state").write_text("5000\n")
    command = argv(tmp_path, 600_000, 300_000, setup_ms=600_000)
    with subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True) as job:
        await_that("it has set its trap", lambda: catches(job.pid, signal.SIGUSR1))
        job.send_signal(signal.SIGUSR1)
        await_that("it has saved", lambda: "saved" in words(tmp_path))
        os.killpg(job.pid, signal.SIGTERM)
        job.wait(limit_s())
    assert words(tmp_path) == ["start", "signalled", "saved", "term"]
    assert (tmp_path / "j.state").read_text() == "5000\n"
