"""Bursts of small urgent jobs on shared nodes, with the whole loop: the room that one victim leaves serves as
many of them as fit.
"""

from collections.abc import Callable
from typing import Any

import pytest

from makeway.daemon.journal.store import Journal
from makeway.policies.model import JobKind, Limits, Resources
from makeway.policies.registry import find
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob

FIRST_S = 36_000.0
WITHIN_S = 600.0
POLICIES: list[tuple[str, dict[str, Any]]] = [
    ("least-price", {}),
    ("least-price", {"kills": "at_once"}),
    ("eviction", {}),
    ("eviction", {"kills": "at_once"}),
    ("n-paa", {}),
    ("cup-spaa", {}),
]
every_policy = pytest.mark.parametrize(
    ("policy", "settings"), POLICIES, ids=["-".join((name, *changes.values())) for name, changes in POLICIES]
)
kills_late = pytest.mark.parametrize("policy", ["least-price", "eviction"])


def gpus(count: int) -> Resources:
    return Resources.of({"cpu": 8 * count, "gres/gpu": count})


def batch(count: int, *, save_s: float | None = None, nodes: int = 1) -> list[SimJob]:
    """Jobs that fill their nodes; each has run a second longer than the next."""
    return [
        SimJob(f"b{index}", float(index), 2e5, 3e5, nodes, user="batch", demand=gpus(8), save_s=save_s)
        for index in range(count)
    ]


def urgent(
    index: int, wanted: int = 1, *, at_s: float = 0.0, nodes: int = 1, within_s: float | None = None
) -> SimJob:
    return SimJob(
        f"u{index}",
        FIRST_S + at_s,
        7200.0,
        8000.0,
        nodes,
        user="beam",
        kind=JobKind.ON_DEMAND,
        demand=gpus(wanted),
        start_within_s=within_s,
    )


def played(
    jobs: list[SimJob],
    policy: str = "least-price",
    settings: dict[str, Any] | None = None,
    *,
    nodes: int = 8,
    at: tuple[float, Callable[[SimCluster], None]] | None = None,
) -> tuple[set[str], dict[str, float | None]]:
    """The jobs that were evicted, and how long each urgent job waited. None: it did not start.

    `at`: what else happens to the cluster, so long after the first urgent job.
    """
    cluster = SimCluster(
        nodes,
        jobs,
        scheduler=SchedulerSettings(backfill=Backfill.EASY),
        storage=StorageSettings(),
        check=True,
        sharing=SharingSettings(capacities=(gpus(8),) * nodes),
    )
    if at is not None:
        cluster.call_at(FIRST_S + at[0], lambda: at[1](cluster))
    chosen = find(policy)
    limits = Limits(max_loss_node_hours=None, max_loss_node_hours_per_day=None)
    replay = Replay(
        cluster,
        chosen,
        chosen.config_type(**(settings or {})),
        ReplaySettings(limits=limits),
        journal=Journal(None),
    )
    while cluster.now_s < FIRST_S + 5000.0 and replay.step():
        pass
    ended = {one.job.job_id: one for one in replay.record().jobs}
    starts_s = {job_id: one.start_s for job_id, one in ended.items() if one.job.kind is JobKind.ON_DEMAND}
    waits = {
        job_id: None if start_s is None else start_s - ended[job_id].job.submit_s
        for job_id, start_s in starts_s.items()
    }
    return {job_id for job_id, one in ended.items() if one.evictions}, waits


def all_on_time(waits: dict[str, float | None], within_s: float = WITHIN_S) -> bool:
    return all(wait_s is not None and wait_s <= within_s for wait_s in waits.values())


@every_policy
def test_one_job_leaves_for_eight_small_ones(policy: str, settings: dict[str, Any]) -> None:
    left, waits = played([*batch(8), *(urgent(index) for index in range(8))], policy, settings)
    assert len(left) == 1
    assert all_on_time(waits)


@kills_late
def test_one_job_saves_its_work_for_eight_small_ones(policy: str) -> None:
    left, waits = played([*batch(8, save_s=60.0), *(urgent(index) for index in range(8))], policy)
    assert len(left) == 1
    assert set(waits.values()) == {60.0}


@every_policy
def test_jobs_that_wait_in_the_queue_do_not_get_the_room(policy: str, settings: dict[str, Any]) -> None:
    queued = [
        SimJob(f"q{index}", FIRST_S - 60.0 + index, 500.0, 500.0, 1, demand=gpus(size))
        for index, size in enumerate((1, 2, 8, 1, 1, 4, 1, 1))
    ]
    jobs = [*batch(4), *queued, *(urgent(index) for index in range(8))]
    left, waits = played(jobs, policy, settings, nodes=4)
    assert len(left) == 1
    assert all_on_time(waits)


@every_policy
def test_what_is_promised_to_one_is_not_promised_to_the_next(policy: str, settings: dict[str, Any]) -> None:
    """Nodes of 8 GPUs have room for 3 and 5, or for two of 3; one more needs a node of its own."""
    jobs = [*batch(8), urgent(0, 3), urgent(1, 5), urgent(2, 3), urgent(3, 4), urgent(4, 1)]
    left, waits = played(jobs, policy, settings)
    assert len(left) == 2
    assert all_on_time(waits)


@kills_late
def test_each_deadline_is_met(policy: str) -> None:
    within_s = [200.0, 220.0, 300.0, 390.0, 700.0, 3600.0]
    jobs = [urgent(index, within_s=limit_s) for index, limit_s in enumerate(within_s)]
    left, waits = played([*batch(8), *jobs], policy)
    assert len(left) == 1
    for job in jobs:
        assert all_on_time({job.job_id: waits[job.job_id]}, job.start_within_s or WITHIN_S)


@every_policy
def test_jobs_that_come_one_after_another(policy: str, settings: dict[str, Any]) -> None:
    jobs = [*batch(8), *(urgent(index, at_s=7.0 * index) for index in range(8))]
    left, waits = played(jobs, policy, settings)
    assert len(left) == 1
    assert all_on_time(waits)


@every_policy
def test_jobs_on_two_nodes_share_the_room_of_one_victim(policy: str, settings: dict[str, Any]) -> None:
    jobs = [*batch(4, nodes=2), *(urgent(index, 2, nodes=2) for index in range(4))]
    left, waits = played(jobs, policy, settings)
    assert len(left) == 1
    assert all_on_time(waits)


@pytest.mark.parametrize("save_s", [None, 60.0, 200.0])
@pytest.mark.parametrize("held_s", [10.0, 400.0, 425.0])
@kills_late
def test_the_others_are_on_time_if_the_first_does_not_start(
    policy: str, held_s: float, save_s: float | None
) -> None:
    """Its user holds it while others wait for what it would leave."""
    jobs = [*batch(8, save_s=save_s), *(urgent(index) for index in range(8))]
    left, waits = played(jobs, policy, at=(held_s, lambda cluster: cluster.admission.hold("u0")))
    del waits["u0"]
    assert all_on_time(waits)
    assert len(left) <= 2
