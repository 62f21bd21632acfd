"""Checkpoints that take longer than declared, in a replay: the first urgent job teaches what the later ones
cost.
"""

from dataclasses import replace

from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.model import Cluster, JobKind
from makeway.policies.registry import find
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob

ASKED_S = 300.0
"""How soon an urgent job is to start."""
DECLARED_S = 30.0
SLOW_S = 500.0
QUICK_S = 60.0


class Optimist(SimAdapter):
    """Reports the same short checkpoint for every job, whatever it really takes."""

    def snapshot(self) -> Cluster:
        seen = super().snapshot()
        jobs = tuple(
            replace(job, checkpoint=replace(job.checkpoint, system_s=DECLARED_S, grace_s=900.0))
            if job.checkpoint is not None
            else job
            for job in seen.jobs
        )
        return replace(seen, jobs=jobs)


def workload() -> list[SimJob]:
    """A slow saver with a little work done and a quick one with much; three urgent jobs, each when all runs
    again.
    """
    slow = SimJob("1-slow", 0.0, 40_000.0, 60_000.0, 4, user="slow", save_s=SLOW_S)
    quick = SimJob("2-quick", 0.0, 40_000.0, 60_000.0, 4, user="quick", save_s=QUICK_S)
    return [
        slow,
        quick,
        *[
            SimJob(
                f"u{number}",
                5000.0 * number,
                600.0,
                600.0,
                4,
                user="urgent",
                kind=JobKind.ON_DEMAND,
                start_within_s=ASKED_S,
            )
            for number in (1, 2, 3)
        ],
    ]


def replayed(*, learns: bool) -> ReplayRecord:
    cluster = SimCluster(
        8,
        workload(),
        scheduler=SchedulerSettings(backfill=Backfill.EASY),
        storage=StorageSettings(aggregate_gb_s=100.0, node_gb_s=10.0),
        check=True,
    )
    replay = Replay(
        cluster,
        find("eviction"),
        EvictionConfig(),
        ReplaySettings(learn_durations=learns),
        adapter=Optimist(cluster),
    )
    record = replay.run()
    assert replay.journal.open_operations() == ()
    return record


def test_later_urgent_jobs_cost_no_work_once_durations_are_learned() -> None:
    """The slow saver comes first among equals; what it does not save in time is lost, and the start is on
    time anyway.
    """
    taught, untaught = replayed(learns=True), replayed(learns=False)
    assert evictions(untaught) == {"1-slow": 3, "2-quick": 0}
    assert evictions(taught) == {"1-slow": 1, "2-quick": 2}
    lost_first_node_s = 4 * (5000.0 + ASKED_S - 10.0)
    assert lost(taught)["2-quick"] == 0.0
    assert lost(taught)["1-slow"] <= lost_first_node_s < lost(untaught)["1-slow"]
    for record in (taught, untaught):
        waits_s = [
            one.start_s - one.job.submit_s
            for one in record.jobs
            if one.job.kind is JobKind.ON_DEMAND and one.start_s is not None
        ]
        assert len(waits_s) == 3
        assert max(waits_s) <= ASKED_S


def evictions(record: ReplayRecord) -> dict[str, int]:
    return {one.job.job_id: one.evictions for one in record.jobs if one.job.kind is JobKind.RIGID}


def lost(record: ReplayRecord) -> dict[str, float]:
    return {one.job.job_id: one.lost_node_s for one in record.jobs if one.job.kind is JobKind.RIGID}
