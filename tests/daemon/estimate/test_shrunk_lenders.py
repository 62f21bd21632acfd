"""The limit on lost work holds for jobs that were shrunk before: their work counts at the size of then."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.daemon.journal.store import Journal
from makeway.policies.model import JobKind
from makeway.policies.registry import find
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import UNPRICED, Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob

NODES = 10
HOUR_S = 3600.0
SHRINKS = [("least-price", {}), ("eviction", {"shrink": True})]


def replayed(
    policy_name: str, changes: dict[str, Any], limit_node_hours: float, journal: Journal
) -> ReplayRecord:
    """A malleable job gives nine of its ten nodes after ten hours. A quarter of an hour later, an urgent job
    wants the last one.
    """
    jobs = [
        SimJob("m", 0.0, 20 * HOUR_S, 200 * HOUR_S, NODES, kind=JobKind.MALLEABLE, node_count_min=1),
        SimJob("u9", 10 * HOUR_S, 2 * HOUR_S, 2 * HOUR_S, NODES - 1, kind=JobKind.ON_DEMAND),
        SimJob("u1", 10.25 * HOUR_S, HOUR_S, HOUR_S, 1, kind=JobKind.ON_DEMAND),
    ]
    cluster = SimCluster(
        NODES, jobs, scheduler=SchedulerSettings(), storage=StorageSettings(), requeue_delay_s=60.0
    )
    policy = find(policy_name)
    limits = replace(UNPRICED, max_loss_node_hours=limit_node_hours, max_loss_machine_share=0.0)
    config = policy.config_type(**changes)
    return Replay(cluster, policy, config, ReplaySettings(limits=limits), journal=journal).run()


@pytest.mark.parametrize(("policy_name", "changes"), SHRINKS)
def test_a_limit_refuses_what_a_shrunk_job_would_lose(policy_name: str, changes: dict[str, Any]) -> None:
    """It would lose a hundred node-hours, of which it has worked a quarter of one on the node it has left."""
    record = replayed(policy_name, changes, 50.0, Journal(None))
    lender, _, urgent = record.jobs
    assert (lender.shrinks, lender.evictions, lender.lost_node_s) == (1, 0, 0.0)
    assert urgent.start_s is not None
    assert urgent.start_s > 11 * HOUR_S, "the job that it would have to evict stays"


@pytest.mark.parametrize(("policy_name", "changes"), SHRINKS)
def test_a_limit_allows_what_a_shrunk_job_loses(policy_name: str, changes: dict[str, Any]) -> None:
    journal = Journal(None)
    record = replayed(policy_name, changes, 101.0, journal)
    lender, _, urgent = record.jobs
    assert (lender.shrinks, lender.evictions) == (1, 1)
    assert lender.lost_node_s == pytest.approx(100.25 * HOUR_S, rel=0.01)
    ((job_id, measured),) = journal.losses(0.0)
    assert job_id == "m"
    assert measured.lost.node_s == pytest.approx(lender.lost_node_s)
    assert measured.run.expected.node_s == pytest.approx(lender.lost_node_s, rel=0.01)
    assert urgent.start_s is not None
    assert urgent.start_s <= 10.25 * HOUR_S + 600.0
