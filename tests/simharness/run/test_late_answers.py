"""A command without an answer that arrives late: it hits the run that it names, or nothing."""

from collections import Counter

import pytest

from makeway.policies.model import Checkpoint, JobKind, Requeue
from makeway.policies.registry import find
from makeway.simharness.engine.adapter import Call, SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.faults import Fault, FaultKind, FaultPlan
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob


def replayed(worker: SimJob, fault: Fault, verb: str) -> tuple[list[Call], ReplayRecord]:
    """An urgent job comes to a machine that one worker fills; the first command of that verb goes wrong."""
    urgent = SimJob("u", 1000.0, 60.0, 90.0, 2, user="beam", kind=JobKind.ON_DEMAND, start_within_s=1800.0)
    cluster = SimCluster(
        2,
        [worker, urgent],
        scheduler=SchedulerSettings(backfill=Backfill.EASY),
        storage=StorageSettings(aggregate_gb_s=10.0, node_gb_s=5.0),
        requeue_delay_s=0.0,
        check=True,
    )
    adapter = SimAdapter(cluster, faults=FaultPlan(by_verb={(verb, 1): fault}))
    policy = find("eviction")
    replay = Replay(
        cluster, policy, policy.config_type(), ReplaySettings(poll_interval_s=10.0), adapter=adapter
    )
    record = replay.run()
    assert all(one.end_s is not None for one in record.jobs)
    return adapter.calls, record


@pytest.mark.parametrize("delay_s", [15.0, 60.0, 200.0, 400.0])
def test_a_late_requeue_does_not_hit_the_next_run(delay_s: float) -> None:
    worker = SimJob("v", 0.0, 5000.0, 9000.0, 2, user="batch")
    late = Fault(kind=FaultKind.LATE_ANSWER, delay_s=delay_s)
    calls, record = replayed(worker, late, "requeue")
    requeues = [call for call in calls if isinstance(call.action, Requeue)]
    assert sum(call.applied for call in requeues) == 1
    assert record.jobs[0].evictions == 1
    if delay_s > 100.0:
        assert (requeues[0].applied, requeues[0].error) == (False, "Gone"), "the late one"


@pytest.mark.parametrize("kind", [FaultKind.LATE_ANSWER, FaultKind.LOST_ANSWER, FaultKind.NO_ANSWER])
@pytest.mark.parametrize("delay_s", [20.0, 45.0, 250.0, 700.0])
def test_no_run_is_signalled_twice(kind: FaultKind, delay_s: float) -> None:
    worker = SimJob("v", 0.0, 5000.0, 9000.0, 2, user="batch", save_s=100.0)
    calls, record = replayed(worker, Fault(kind=kind, delay_s=delay_s), "checkpoint")
    signals = Counter(call.action.run for call in calls if isinstance(call.action, Checkpoint))
    assert signals
    assert max(signals.values()) == 1
    assert record.jobs[0].evictions == 1
