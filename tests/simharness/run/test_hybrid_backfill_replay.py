"""Nodes that are held for an announced job are lent until it comes: whole replays."""

from dataclasses import replace

import pytest

from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.model import JobKind
from makeway.policies.registry import find
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import JobRecord, ReplayRecord, RunEnding
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.synthesis import HybridSettings, synthesise
from tests.simharness.run.test_replay import batch, urgent


def replayed(jobs: list[SimJob], policy: str = "cua-paa", backfill_held: str = "lossless") -> ReplayRecord:
    """The replay, with every invariant verified; nothing of makeway's is left."""
    cluster = SimCluster(
        8,
        jobs,
        scheduler=SchedulerSettings(backfill=Backfill.EASY),
        storage=StorageSettings(aggregate_gb_s=20.0, node_gb_s=2.0),
        check=True,
    )
    config = HybridConfig(backfill_held=backfill_held)  # type: ignore[arg-type]
    told = Replay(cluster, find(policy), config, ReplaySettings())
    record = told.run()
    assert told.journal.open_operations() == ()
    assert cluster.machine.holds == {}
    return record


def story(arrival_s: float) -> list[SimJob]:
    """Four nodes come free for an announced job; `first` wants all eight, `elastic` two and can save
    itself.
    """
    return [
        batch("short", 4, runtime_s=1200.0),
        batch("long", 4),
        batch("first", 8, submit_s=10.0, runtime_s=100.0),
        SimJob(
            "elastic",
            20.0,
            3000.0,
            12_000.0,
            2,
            user="m",
            kind=JobKind.MALLEABLE,
            node_count_min=1,
            setup_s=60.0,
            save_s=60.0,
        ),
        replace(urgent("u", 4, arrival_s), announced_s=1000.0, expected_s=2500.0),
    ]


def by_id(record: ReplayRecord) -> dict[str, JobRecord]:
    return {job.job.job_id: job for job in record.jobs}


@pytest.mark.parametrize("policy", ["cua-paa", "cua-spaa", "cup-paa", "cup-spaa"])
def test_a_job_starts_on_held_nodes_and_leaves_when_the_announced_one_comes(policy: str) -> None:
    record = replayed(story(2400.0), policy)
    jobs = by_id(record)
    assert jobs["elastic"].start_s == 1200.0
    assert jobs["elastic"].evictions == 1
    assert jobs["elastic"].lost_node_s == 0.0
    assert jobs["long"].evictions == 0
    assert jobs["u"].start_s is not None
    assert 2400.0 < jobs["u"].start_s <= 2520.0, "the elastic job is warned"
    runs = [segment for segment in record.segments if record.jobs[segment.job].job.job_id == "elastic"]
    assert [run.ending for run in runs] == [RunEnding.REQUEUED, RunEnding.COMPLETED]
    assert runs[1].start_s == jobs["u"].end_s, "its nodes go back to it"
    idle = by_id(replayed(story(2400.0), policy, backfill_held="none"))
    assert idle["u"].start_s == 2400.0
    assert idle["elastic"].start_s == idle["first"].end_s


def test_a_job_on_held_nodes_runs_on_if_nobody_comes() -> None:
    jobs = story(2400.0)
    jobs[-1] = replace(jobs[-1], submit_s=8000.0)
    record = by_id(replayed(jobs))
    assert record["elastic"].evictions == 0
    assert record["elastic"].start_s == 1200.0
    assert record["elastic"].end_s == 4200.0
    assert record["u"].start_s == 8000.0


def test_jobs_that_would_lose_work_are_let_in_only_where_that_is_wanted() -> None:
    jobs = [replace(job, save_s=None) if job.job_id == "elastic" else job for job in story(2400.0)]
    assert by_id(replayed(jobs))["elastic"].start_s != 1200.0
    lent = by_id(replayed(jobs, backfill_held="any"))
    assert lent["elastic"].start_s == 1200.0
    assert lent["elastic"].lost_node_s == pytest.approx((2400.0 - 1200.0 - 60.0) * 2)
    assert lent["u"].start_s == 2400.0


@pytest.mark.parametrize("policy", ["cua-spaa", "cup-paa"])
def test_a_crowd_of_announced_jobs_and_guests_keeps_every_invariant(policy: str) -> None:
    trace = [
        SimJob(
            f"{number}",
            number * 400.0,
            500.0 + 700.0 * (number % 7),
            5000.0 + 1000.0 * (number % 5),
            1 + number % 5,
            user=f"user{number % 13}",
        )
        for number in range(150)
    ]
    jobs = synthesise(trace, 8, HybridSettings(), 3)
    record = replayed(jobs, policy, backfill_held="any")
    assert all(job.end_s is not None for job in record.jobs)
    lent = [job for job in record.jobs if job.start_s is not None and job.job.kind is not JobKind.ON_DEMAND]
    alone = replayed(jobs, policy, backfill_held="none")
    starts = {job.job.job_id: job.start_s for job in alone.jobs}
    assert any(job.start_s != starts[job.job.job_id] for job in lent)
