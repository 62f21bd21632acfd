"""The limits on what urgent jobs may cost, with the whole daemon on the simulated cluster."""

from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.control.report import CycleReport
from makeway.daemon.estimate.recent_losses import totals
from makeway.daemon.journal.store import Journal
from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.model import JobKind, Limits
from makeway.policies.registry import find
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import MarkKind, ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import UNPRICED, Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob

HOUR_S = 3600.0


def batch(job_id: str, node_count: int) -> SimJob:
    """It runs for 100 hours and cannot save."""
    return SimJob(job_id, 0.0, 100 * HOUR_S, 1000 * HOUR_S, node_count, user="batch")


def urgent(number: int, submit_s: float, node_count: int) -> SimJob:
    job = SimJob(f"u{number}", submit_s, 600.0, 900.0, node_count, user="beam")
    return replace(job, kind=JobKind.ON_DEMAND)


def played(
    limits: Limits, *jobs: SimJob, until_s: float, journal: Journal | None = None
) -> tuple[ReplayRecord, list[CycleReport]]:
    reports: list[CycleReport] = []
    replay = Replay(
        SimCluster(
            16,
            jobs,
            scheduler=SchedulerSettings(backfill=Backfill.EASY),
            storage=StorageSettings(),
            check=True,
        ),
        find("eviction"),
        EvictionConfig(),
        ReplaySettings(limits=limits),
        journal=journal,
        on_cycle=reports.append,
    )
    while replay.cluster.now_s < until_s and replay.step():
        pass
    return replay.record(), reports


def evictions(record: ReplayRecord) -> list[int]:
    return sorted(done.evictions for done in record.jobs if done.job.job_id.startswith("b"))


def four_equal_jobs(limits: Limits) -> ReplayRecord:
    """Twenty urgent jobs, one every hour, each of which needs the nodes of one of the four."""
    jobs = [batch(f"b{number}", 4) for number in range(1, 5)]
    coming = [urgent(number, number * HOUR_S + 30.0, 4) for number in range(1, 21)]
    return played(limits, *jobs, *coming, until_s=21 * HOUR_S)[0]


def test_four_equal_jobs_take_turns() -> None:
    assert evictions(four_equal_jobs(UNPRICED))[0] == 0, "the youngest run is always the cheapest"
    counts = evictions(four_equal_jobs(Limits()))
    assert sum(counts) == 20
    assert counts[0] >= 2
    assert counts[-1] <= 10


@pytest.mark.parametrize("least_s", [0.0, 1800.0])
def test_a_job_that_was_evicted_makes_progress_before_it_is_again(least_s: float) -> None:
    """Two jobs, and an urgent job every ten minutes."""
    jobs = [batch("b1", 8), batch("b2", 8)]
    coming = [urgent(number, HOUR_S + number * 900.0, 8) for number in range(1, 30)]
    limits = replace(UNPRICED, min_progress_s=least_s)
    record, _ = played(limits, *jobs, *coming, until_s=9 * HOUR_S)
    evicted_s = [(mark.at_s, mark.job) for mark in record.marks if mark.kind is MarkKind.EVICTED]
    runs_s = [
        at_s - max(one.start_s for one in record.segments if one.job == job and one.start_s < at_s)
        for at_s, job in evicted_s
        if job in {earlier for earlier_s, earlier in evicted_s if earlier_s < at_s}
    ]
    assert runs_s
    assert (min(runs_s) >= 1800.0) == bool(least_s)


def test_an_urgent_job_that_costs_too_much_waits_and_is_told_why() -> None:
    """After 20 hours the only job would lose 320 node-hours."""
    jobs = (batch("b1", 16), urgent(1, 20 * HOUR_S, 4))
    record, reports = played(Limits(), *jobs, until_s=21 * HOUR_S)
    assert evictions(record) == [0]
    (why,) = [one for report in reports for one in report.stored_rationale]
    assert "it would cost 320 node-hours, the limit is 200 (max_loss_node_hours)" in why.summary
    record, _ = played(UNPRICED, *jobs, until_s=21 * HOUR_S)
    assert evictions(record) == [1]


def test_the_losses_of_a_day_are_limited_also_after_a_restart(tmp_path: Path) -> None:
    """Each urgent job costs some 8 node-hours."""
    jobs = [batch(f"b{number}", 4) for number in range(1, 5)]
    coming = [urgent(number, 2 * HOUR_S * number, 4) for number in range(1, 4)]
    limits = replace(UNPRICED, max_loss_node_hours_per_day=20.0)
    journal = Journal(tmp_path / "journal.sqlite")
    record, reports = played(limits, *jobs, *coming, until_s=6 * HOUR_S + 60.0, journal=journal)
    journal.close()
    assert sum(evictions(record)) == 2
    texts = [one.summary for each in reports for one in each.stored_rationale]
    assert any(
        "and 15.33 of the 20 of a day are used (max_loss_node_hours_per_day)" in text for text in texts
    )
    again = Journal(tmp_path / "journal.sqlite")
    hours = {job_id: lost / HOUR_S for job_id, lost in totals(again.recent_losses(0.0)).by_job.items()}
    assert hours == pytest.approx({"u1": 8.0, "u2": 22.0 / 3.0})
    assert [loss.for_job_id for loss in again.recent_losses(3 * HOUR_S)] == ["u2"]
    assert sum(again.past_evictions().values()) == 2
    again.close()
