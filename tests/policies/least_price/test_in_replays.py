"""Urgent jobs in the whole loop. With hours to start, their waits keep no nodes from others, and make no
commands in each cycle. In bursts, they may share their ceilings.
"""

from collections import Counter
from typing import Any

import pytest

from makeway.daemon.journal.store import Journal
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import JobKind, Limits
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.event_queue import Change, ChangeKind
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob

ARRIVAL_S = 36_000.0
STORAGE = StorageSettings(aggregate_gb_s=16.0, node_gb_s=2.0)
NO_LIMITS = Limits(max_loss_node_hours=None, max_loss_node_hours_per_day=None)


def batch(job_id: str, node_count: int, left_s: float, **changes: Any) -> SimJob:
    """A job that has run since the beginning. It ends that long after the arrival, 10 s before its limit."""
    runtime_s = ARRIVAL_S + left_s - 10.0
    return SimJob(job_id, 0.0, runtime_s, runtime_s + 10.0, node_count, user="batch", **changes)


def urgent(job_id: str, after_s: float, node_count: int, within_s: float | None = None) -> SimJob:
    return SimJob(
        job_id,
        ARRIVAL_S + after_s,
        600.0,
        900.0,
        node_count,
        user="beam",
        kind=JobKind.ON_DEMAND,
        start_within_s=within_s,
    )


def run_cycles(cluster: SimCluster, until_s: float) -> None:
    """Let a cycle be run every minute while an urgent job waits, as of a daemon that polls."""

    def change() -> None:
        assert cluster.machine.changes is not None
        cluster.machine.changes.append(Change(cluster.now_s, ChangeKind.ELIGIBLE, None))

    for minute in range(int(until_s / 60.0)):
        cluster.call_at(ARRIVAL_S + 60.0 * minute, change)


class Played:
    """What became of the jobs: how long they waited, what was sent for each, and the node-hours lost."""

    def __init__(self, node_count: int, *jobs: SimJob, until_s: float = 14_000.0, **settings: Any) -> None:
        scheduler = SchedulerSettings(backfill=Backfill.EASY)
        cluster = SimCluster(node_count, jobs, scheduler=scheduler, storage=STORAGE, check=True)
        run_cycles(cluster, until_s)
        adapter, journal = SimAdapter(cluster), Journal(None)
        config = LeastPriceConfig(**settings)
        replay = Replay(
            cluster, LEAST_PRICE, config, ReplaySettings(limits=NO_LIMITS), adapter=adapter, journal=journal
        )
        while cluster.now_s < ARRIVAL_S + until_s and replay.step():
            pass
        self.waits_s = {
            done.job.job_id: done.start_s - done.job.submit_s
            for done in replay.record().jobs
            if done.start_s is not None
        }
        end_s = ARRIVAL_S + until_s
        self.sent = Counter((one.verb, one.action.job_id) for one in adapter.calls if one.at_s < end_s)
        self.lost = sum(loss.lost.node_s for _, loss in journal.losses(float("-inf"))) / 3600.0


def test_short_urgent_jobs_run_while_a_large_one_waits_for_a_protected_job() -> None:
    played = Played(
        4,
        batch("p", 1, 10_800.0, preemptible=False),
        *(batch(f"b{index}", 1, 300.0) for index in range(3)),
        urgent("u", 0.0, 4, within_s=14_400.0),
        *(urgent(f"v{index}", 600.0 + 1800.0 * index, 1) for index in range(4)),
    )
    assert [played.waits_s[f"v{index}"] for index in range(4)] == [0.0] * 4
    assert played.waits_s["u"] == 10_790.0
    assert played.lost == 0.0
    assert (played.sent["reserve", "u"], played.sent["release", "u"]) == (1, 1)


def test_a_start_that_is_days_away_keeps_no_machine_empty() -> None:
    played = Played(
        4,
        batch("p", 1, 150_000.0, preemptible=False),
        urgent("u", 0.0, 4, within_s=2 * 86_400.0),
        *(urgent(f"v{index}", 300.0 + 1200.0 * index, 1 + index % 3) for index in range(10)),
    )
    assert all(played.waits_s[f"v{index}"] <= 600.0 for index in range(10))
    assert "u" not in played.waits_s
    assert (played.sent["reserve", "u"], played.sent["prioritise", "u"]) == (0, 1)


@pytest.mark.parametrize("waits", [True, False])
def test_fifteen_nodes_do_not_wait_for_the_last_one(waits: bool) -> None:
    played = Played(
        16,
        *(batch(f"b{index:02}", 1, 300.0) for index in range(15)),
        batch("long", 1, 13_800.0),
        *(SimJob(f"q{index:02}", ARRIVAL_S - 100.0, 3000.0, 3100.0, 1, user="q") for index in range(40)),
        urgent("u", 0.0, 16, within_s=14_400.0),
        waits_for_ends=waits,
    )
    assert played.waits_s["u"] <= 300.0
    assert played.lost == pytest.approx((ARRIVAL_S + 300.0) / 3600.0, abs=0.2)
    assert played.sent["reserve", "u"] <= 2


def test_a_late_job_is_served_as_soon_as_the_limits_allow() -> None:
    """The jobs have run for too short a time until 800 s after its arrival."""
    jobs = [SimJob(f"b{index}", ARRIVAL_S - 100.0, 80_000.0, 90_000.0, 1, user="b") for index in range(2)]
    limits = Limits(min_runtime_s=900.0)
    scheduler = SchedulerSettings(backfill=Backfill.EASY)
    cluster = SimCluster(2, [*jobs, urgent("u", 0.0, 2)], scheduler=scheduler, storage=STORAGE, check=True)
    run_cycles(cluster, 1200.0)
    record = Replay(cluster, LEAST_PRICE, LeastPriceConfig(late="evict"), ReplaySettings(limits=limits)).run()
    (done,) = [one for one in record.jobs if one.job.job_id == "u"]
    assert done.start_s is not None
    assert 800.0 <= done.start_s - ARRIVAL_S <= 900.0


def burst(
    *, ceiling_node_hours: float, count: int = 6, gap_s: float = 10.0, until_s: float = 3000.0
) -> Played:
    """One-node jobs, so many seconds apart, on a machine that one job has had for ten hours: 80 node-hours.

    `ceiling_node_hours`: of one urgent job. `until_s`: the replay's end after the first one's arrival; the
    job ends 7000 s after it.
    """
    jobs = [urgent(f"u{index}", gap_s * index, 1) for index in range(count)]
    return Played(
        8, batch("large", 8, 7000.0), *jobs, ceiling_machine_hours=ceiling_node_hours / 8, until_s=until_s
    )


@pytest.mark.parametrize(("ceiling", "first"), [(27.0, 2), (14.0, 5)])
def test_a_burst_is_served_as_soon_as_enough_jobs_of_it_wait(ceiling: float, first: int) -> None:
    """`first`: the job whose arrival makes the ceilings suffice. Others arrive afterwards."""
    played = burst(ceiling_node_hours=ceiling)
    waited = [played.waits_s[f"u{index}"] for index in range(6)]
    assert waited == [10.0 * max(0, first - index) for index in range(6)]
    assert played.sent["requeue", "large"] == 1
    assert played.lost == pytest.approx(80.0 + 8 * 10.0 * first / 3600.0, abs=0.1)
    reserved = [played.sent["reserve", f"u{index}"] for index in range(6)]
    assert reserved == [1] * (first + 1) + [0] * (5 - first)


def test_a_burst_that_is_too_small_waits_for_the_job_to_end() -> None:
    played = burst(ceiling_node_hours=14.0, count=5, until_s=8000.0)
    assert not played.lost
    assert not played.sent["requeue", "large"]
    assert all(played.waits_s[f"u{index}"] > 6900.0 for index in range(5))
