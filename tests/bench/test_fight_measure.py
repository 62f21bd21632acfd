"""What an arm cost, measured from the jobs' own files and from accounting."""

from dataclasses import replace
from pathlib import Path

import pytest
from bench.fight.measure import Amount, accounted_runs, measure
from bench.fight.play import Played
from bench.fight.progress import BadProgress, Event, read_progress, runs_of
from bench.fight.workload import FightJob, FightKind, Quality

BEGAN_S = 1_000_000_000
JOB = FightJob(
    name="b1",
    kind=FightKind.GPU_SAVING,
    quality=Quality.NORMAL,
    submit_s=0.0,
    work_s=100.0,
    setup_s=1.0,
    interval_s=30.0,
    save_s=2.0,
    nodes=1,
    cores=4,
    gpus=2,
    tasks=None,
    options=(),
)
URGENT = replace(
    JOB, name="u1", kind=FightKind.CORES, quality=Quality.URGENT, work_s=20.0, interval_s=None, gpus=0
)


def lines(*events: tuple[float, str, float]) -> str:
    """A job's file; instants count from the beginning."""
    return "".join(
        f"{round(1000 * (BEGAN_S + at_s))} {word} {round(1000 * work_s)}\n" for at_s, word, work_s in events
    )


def played(job: FightJob, folder: Path, text: str = "", sacct: str = "") -> Played:
    """What an arm left of a job whose file has that text."""
    if text:
        (folder / f"{job.name}.log").write_text(text)
    return Played(
        jobs=(job,),
        submitted_s={"b1": BEGAN_S, "u1": BEGAN_S + 50},
        over_s=BEGAN_S + 500,
        progress=folder,
        sacct=sacct,
    )


INTERRUPTED = lines(
    (10, "start", 0),
    (11, "work", 0),
    (41, "save", 30),
    (43, "saved", 30),
    (53, "signalled", 40),
    (55, "saved", 40),
    (60, "term", 0),
    (100, "start", 40),
    (101.5, "work", 40),
    (161.5, "end", 100),
)
UNDISTURBED = lines((10, "start", 0), (11, "work", 0), (41, "save", 30), (43, "saved", 30), (113, "end", 100))


def pair(amount: Amount) -> tuple[float, float]:
    """Core-seconds and GPU-seconds."""
    return amount.core_s, amount.gpu_s


def test_an_interruption_costs_the_work_since_the_checkpoint_and_its_overhead(tmp_path: Path) -> None:
    found = measure(played(JOB, tmp_path, INTERRUPTED))
    # From 55 to 60 it worked in vain; the requested checkpoint took 2 s, the setup of the second run 1.5 s.
    assert pair(found.lost) == pytest.approx((20.0, 10.0))
    assert pair(found.requested) == pytest.approx((8.0, 4.0))
    assert pair(found.restarts) == pytest.approx((6.0, 3.0))
    assert pair(found.total) == pytest.approx((34.0, 17.0))
    assert (found.interruptions, found.interrupted_jobs, found.unfinished) == (1, 1, 0)
    assert found.files_core_s == pytest.approx(4 * 50)
    assert found.batch_turnaround_s == pytest.approx(161.5)
    assert found.makespan_s == pytest.approx(161.5)


def test_a_job_that_runs_undisturbed_costs_nothing(tmp_path: Path) -> None:
    found = measure(played(JOB, tmp_path, UNDISTURBED))
    assert found.total == Amount()
    assert (found.interruptions, found.files_core_s) == (0, 0)


def test_a_checkpoint_during_the_setup_counts_once(tmp_path: Path) -> None:
    file = lines(
        (10, "start", 0), (10.5, "signalled", 0), (12.5, "saved", 0), (13, "work", 0), (113, "end", 100)
    )
    found = measure(played(JOB, tmp_path, file))
    assert found.requested == Amount(core_s=8.0, gpu_s=4.0)
    (run,) = read_progress(tmp_path / "b1.log")
    assert run.setup_s == pytest.approx(1.0)


def test_a_job_that_cannot_save_loses_everything(tmp_path: Path) -> None:
    file = lines((10, "start", 0), (11, "work", 0), (60, "term", 0), (70, "start", 0))
    found = measure(played(replace(JOB, interval_s=None), tmp_path, file))
    assert pair(found.lost) == pytest.approx((4 * 49, 2 * 49))
    # The last run had not ended when the fight was cut: that is no interruption.
    assert (found.interruptions, found.unfinished) == (1, 1)


def test_a_run_that_was_killed_without_a_word_ended_when_accounting_says(tmp_path: Path) -> None:
    sacct = (
        "7|b1|PREEMPTED|2001-09-09T01:46:49|2001-09-09T01:47:20|31|billing=4,cpu=4,gres/gpu=2,node=1\n"
        "7|b1|COMPLETED|2001-09-09T01:48:00|2001-09-09T01:50:00|120|billing=4,cpu=4,gres/gpu=2,node=1\n"
    )
    file = lines(
        (10, "start", 0), (11, "work", 0), (80.5, "start", 0), (81.5, "work", 0), (181.5, "end", 100)
    )
    found = measure(played(JOB, tmp_path, file, sacct))
    assert pair(found.lost) == pytest.approx((4 * 29, 2 * 29))
    assert found.files_core_s == pytest.approx(4 * 30)
    assert (found.sacct_interruptions, found.sacct_core_s) == (1, 4 * 31)


@pytest.mark.parametrize(("start_s", "delay_s", "on_time"), [(79.0, 29.0, True), (81.0, 31.0, False)])
def test_the_delay_of_an_urgent_job(tmp_path: Path, start_s: float, delay_s: float, on_time: bool) -> None:
    file = lines((start_s, "start", 0), (start_s + 1, "work", 0), (start_s + 21, "end", 20))
    (start,) = measure(played(URGENT, tmp_path, file)).urgent
    assert (start.kind, start.on_time) == (FightKind.CORES, on_time)
    assert start.delay_s == pytest.approx(delay_s)


def test_an_urgent_job_that_never_started_is_late(tmp_path: Path) -> None:
    found = measure(played(URGENT, tmp_path))
    assert found.delays_s() == (450.0,)
    assert (found.on_time, found.unfinished) == (0, 1)
    assert found.delays_s(FightKind.GPUS) == ()


def test_tasks_of_arrays_have_names_of_their_own_in_accounting() -> None:
    runs = accounted_runs(
        "9_[4-7]|a|PENDING|Unknown|Unknown|0|\n"
        "9_3|a|RUNNING|2001-09-09T01:46:50|Unknown|8|cpu=2,mem=3000M,node=1\n"
        "10|b|CANCELLED by 0|2001-09-09T01:46:50|2001-09-09T01:46:51|1|cpu=2,node=1\n"
    )
    assert [(run.name, run.state, run.start_s, run.end_s) for run in runs] == [
        ("a_3", "RUNNING", BEGAN_S + 10, None),
        ("b", "CANCELLED", BEGAN_S + 10, BEGAN_S + 11),
    ]


def test_events_before_a_start_belong_to_no_run() -> None:
    assert runs_of([Event(at_s=1.0, word="term", work_s=0.0)]) == ()


def test_a_line_that_no_job_writes_is_named(tmp_path: Path) -> None:
    (tmp_path / "b1.log").write_text("1000 start 0\nnonsense\n")
    with pytest.raises(BadProgress, match=r"b1\.log:2: 'nonsense'"):
        read_progress(tmp_path / "b1.log")
