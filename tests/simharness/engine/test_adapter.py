"""The simulated cluster's adapter: what a snapshot shows, and faults on order."""

from dataclasses import asdict, replace

import pytest

from makeway.adapters.protocol import Gone, Rejected, Unavailable, Unreadable
from makeway.policies.model import VERBS, CheckpointSpec, Job, JobKind, JobState, NodeState
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.event_queue import NodeFailure
from makeway.simharness.engine.faults import NO_FAULTS, Fault, FaultKind, FaultPlan
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob
from tests import acts


def world(
    *jobs: SimJob,
    node_count: int = 4,
    faults: FaultPlan = NO_FAULTS,
    latency_s: float = 0.0,
    failures: tuple[NodeFailure, ...] = (),
) -> tuple[SimCluster, SimAdapter]:
    cluster = SimCluster(
        node_count,
        jobs,
        scheduler=SchedulerSettings(),
        storage=StorageSettings(aggregate_gb_s=100.0, node_gb_s=10.0),
        failures=failures,
        check=True,
    )
    adapter = SimAdapter(cluster, faults=faults, latency_s=latency_s)
    cluster.advance(0.0)
    return cluster, adapter


def job(job_id: str, runtime_s: float = 100.0, node_count: int = 2) -> SimJob:
    return SimJob(job_id, 0.0, runtime_s, 200.0, node_count, user="ada", account="physics")


def seen(adapter: SimAdapter, job_id: str) -> Job:
    return adapter.snapshot().jobs_by_id()[job_id]


# The snapshot


def test_a_snapshot_shows_what_a_scheduler_may_know() -> None:
    rigid = replace(
        job("a", runtime_s=123.0),
        setup_s=7.0,
        checkpoint_interval_s=30.0,
        checkpoint_cost_s=3.0,
        system_gb_per_node=2000.0,
        start_within_s=60.0,
    )
    cluster, adapter = world(rigid)
    cluster.advance(90.0)
    snapshot = adapter.snapshot()
    assert snapshot.now_s == 90.0
    assert snapshot.actions == VERBS
    assert snapshot.jobs == (
        Job(
            job_id="a",
            kind=JobKind.RIGID,
            state=JobState.RUNNING,
            node_count=2,
            walltime_s=200.0,
            submit_s=0.0,
            user="ada",
            account="physics",
            nodes=("n1", "n2"),
            start_s=0.0,
            setup_s=7.0,
            checkpoint=CheckpointSpec(interval_s=30.0, application_s=3.0, system_s=200.0, grace_s=400.0),
            last_checkpoint_s=7.0 + 2 * 33.0,
            preemptible=True,
            start_within_s=60.0,
        ),
    )


def test_the_run_time_is_nowhere_in_a_snapshot() -> None:
    """Two workloads that differ in run times only look the same until a job ends."""
    pictures = []
    for factor in (1.0, 1.5):
        jobs = [
            replace(job(kind.value, runtime_s=factor * 60.0), kind=kind, save_s=5.0, setup_s=2.0)
            for kind in JobKind
        ]
        cluster, adapter = world(*jobs)
        cluster.advance(20.0)
        adapter.apply(acts.checkpoint("rigid", signal="USR1", walltime_s=0.0))
        cluster.advance(59.0)
        pictures.append(asdict(adapter.snapshot()))
    assert pictures[0] == pictures[1]


def test_an_unchanged_cluster_gives_the_very_same_values() -> None:
    cluster, adapter = world(job("a"), job("b"), job("c"))
    first = adapter.snapshot()
    cluster.advance(10.0)
    second = adapter.snapshot()
    assert second.now_s == 10.0
    assert second.jobs is first.jobs
    assert second.nodes is first.nodes
    adapter.apply(acts.reserve("mw_c", nodes=("n1",), duration_s=50.0, job_id="c"))
    third = adapter.snapshot()
    assert third.jobs[0] is first.jobs[0]
    assert third.jobs[2] is not first.jobs[2]
    assert third.nodes is first.nodes
    assert adapter.snapshot().reservations[0] is third.reservations[0]


def test_regular_checkpoints_are_seen_without_an_event() -> None:
    cluster, adapter = world(replace(job("a"), checkpoint_interval_s=20.0, checkpoint_cost_s=2.0))
    seen_s = []
    for now_s in (21.0, 22.0, 43.0, 44.0, 90.0):
        assert cluster.advance(now_s) == []
        seen_s.append(seen(adapter, "a").last_checkpoint_s)
    assert seen_s == [None, 22.0, 22.0, 44.0, 88.0]


def test_a_failed_node_is_down_until_it_is_repaired() -> None:
    cluster, adapter = world(job("a"), failures=(NodeFailure(at_s=5.0, node=3, repair_s=10.0),))
    states = []
    for now_s in (4.0, 5.0, 15.0):
        cluster.advance(now_s)
        states.append(adapter.snapshot().nodes[3].state)
    assert states == [NodeState.UP, NodeState.DOWN, NodeState.UP]


def test_an_urgent_job_that_is_requeued_waits_since_its_delay_is_over() -> None:
    urgent = replace(job("u"), kind=JobKind.ON_DEMAND)
    cluster, adapter = world(urgent, failures=(NodeFailure(at_s=5.0, node=0, repair_s=10.0),))
    cluster.advance(6.0)
    held_back = seen(adapter, "u")
    assert held_back.eligible_s == 125.0
    assert held_back.waits_since_s == 125.0
    cluster.advance(50.0)
    adapter.apply(acts.prioritise("u"))
    assert seen(adapter, "u").waits_since_s == 50.0


def test_two_adapters_see_the_same() -> None:
    cluster, adapter = world(job("a"), job("b"), job("c"))
    adapter.snapshot()
    cluster.advance(50.0)
    other = SimAdapter(cluster)
    for now_s in (50.0, 100.0, 150.0):
        cluster.advance(now_s)
        assert other.snapshot() == adapter.snapshot()


def test_notices_are_those_of_jobs_that_have_not_arrived() -> None:
    urgent = replace(job("u"), submit_s=60.0, kind=JobKind.ON_DEMAND, announced_s=20.0, expected_s=50.0)
    silent = replace(job("v"), submit_s=70.0, kind=JobKind.ON_DEMAND)
    cluster, adapter = world(job("a"), urgent, silent)
    seen_at = {}
    for now_s in (19.0, 20.0, 59.0, 60.0):
        cluster.advance(now_s)
        seen_at[now_s] = [notice.notice_id for notice in adapter.notices()]
    assert seen_at == {19.0: [], 20.0: ["notice-u"], 59.0: ["notice-u"], 60.0: []}


def test_a_notice_says_what_was_announced() -> None:
    urgent = replace(job("u"), submit_s=60.0, kind=JobKind.ON_DEMAND, announced_s=20.0, expected_s=50.0)
    cluster, adapter = world(job("a"), urgent)
    cluster.advance(30.0)
    (notice,) = adapter.notices()
    assert (notice.user, notice.node_count, notice.walltime_s) == ("ada", 2, 200.0)
    assert (notice.announced_s, notice.expected_s) == (20.0, 50.0)


# Faults


def plan(kind: FaultKind, *, delay_s: float = 60.0, retryable: bool = False) -> FaultPlan:
    return FaultPlan(by_verb={("requeue", 1): Fault(kind=kind, delay_s=delay_s, retryable=retryable)})


def test_without_an_answer_nothing_is_applied() -> None:
    _, adapter = world(job("a"), faults=plan(FaultKind.NO_ANSWER))
    with pytest.raises(Unavailable):
        adapter.apply(acts.requeue("a"))
    assert seen(adapter, "a").requeue_count == 0
    adapter.apply(acts.requeue("a"))
    assert seen(adapter, "a").requeue_count == 1


def test_a_lost_answer_hides_what_was_applied() -> None:
    _, adapter = world(job("a"), faults=plan(FaultKind.LOST_ANSWER))
    with pytest.raises(Unavailable):
        adapter.apply(acts.requeue("a"))
    assert seen(adapter, "a").requeue_count == 1


def test_a_late_answer_is_applied_later() -> None:
    cluster, adapter = world(job("a"), faults=plan(FaultKind.LATE_ANSWER, delay_s=30.0))
    with pytest.raises(Unavailable):
        adapter.apply(acts.requeue("a"))
    cluster.advance(29.0)
    assert seen(adapter, "a").requeue_count == 0
    cluster.advance(30.0)
    assert seen(adapter, "a").requeue_count == 1
    assert adapter.calls[0].applied


def test_a_late_answer_to_a_job_that_is_over_does_nothing() -> None:
    cluster, adapter = world(job("a"), faults=plan(FaultKind.LATE_ANSWER, delay_s=130.0))
    with pytest.raises(Unavailable):
        adapter.apply(acts.requeue("a"))
    cluster.run()
    assert cluster.record(policy="none").jobs[0].end_s == 100.0
    assert (adapter.calls[0].applied, adapter.calls[0].error) == (False, "Gone")


@pytest.mark.parametrize("retryable", [False, True])
def test_a_refusal_is_not_applied(retryable: bool) -> None:
    _, adapter = world(job("a"), faults=plan(FaultKind.REFUSED, retryable=retryable))
    with pytest.raises(Rejected) as refusal:
        adapter.apply(acts.requeue("a"))
    assert refusal.value.retryable == retryable
    assert seen(adapter, "a").requeue_count == 0


def test_a_job_can_end_just_before_the_verb() -> None:
    cluster, adapter = world(job("a"), faults=plan(FaultKind.GONE))
    cluster.advance(40.0)
    with pytest.raises(Gone):
        adapter.apply(acts.requeue("a"))
    assert adapter.snapshot().jobs == ()
    record = cluster.record(policy="none").jobs[0]
    assert (record.end_s, record.evictions) == (40.0, 0)


def test_a_reservation_can_end_just_before_its_release() -> None:
    faults = FaultPlan(by_verb={("release", 1): Fault(kind=FaultKind.GONE)})
    _, adapter = world(job("a", node_count=4), job("b"), faults=faults)
    adapter.apply(acts.reserve("mw_b", nodes=("n1", "n2"), duration_s=99.0, job_id="b"))
    with pytest.raises(Gone):
        adapter.apply(acts.release("mw_b"))
    assert adapter.snapshot().reservations == ()


def test_snapshots_can_fail() -> None:
    faults = FaultPlan(
        by_verb={
            ("snapshot", 2): Fault(kind=FaultKind.NO_ANSWER),
            ("snapshot", 3): Fault(kind=FaultKind.DAMAGED),
        }
    )
    _, adapter = world(job("a"), faults=faults)
    assert adapter.snapshot().jobs
    with pytest.raises(Unavailable):
        adapter.snapshot()
    with pytest.raises(Unreadable) as damage:
        adapter.snapshot()
    assert damage.value.command == ("snapshot",)
    assert adapter.snapshot().jobs
    assert adapter.snapshots == 4


def test_faults_can_be_ordered_by_the_number_of_the_call() -> None:
    _, adapter = world(job("a"), job("b"), faults=FaultPlan(by_call={2: Fault(kind=FaultKind.REFUSED)}))
    adapter.apply(acts.requeue("a"))
    with pytest.raises(Rejected):
        adapter.apply(acts.cancel("b"))
    assert [(call.verb, call.applied, call.error) for call in adapter.calls] == [
        ("requeue", True, None),
        ("cancel", False, "Rejected"),
    ]


def test_random_faults_are_the_same_twice_and_as_frequent_as_asked() -> None:
    rates = {FaultKind.NO_ANSWER: 0.2, FaultKind.REFUSED: 0.1}
    first, again, other = (FaultPlan(rates=rates, seed=seed) for seed in (1, 1, 2))

    def kinds(faults: FaultPlan) -> list[FaultKind | None]:
        found = [faults.of_verb("requeue", call=call, verb_call=call) for call in range(2000)]
        return [None if fault is None else fault.kind for fault in found]

    assert kinds(first) == kinds(again) != kinds(other)
    assert kinds(first).count(FaultKind.NO_ANSWER) == pytest.approx(400, abs=60)
    assert kinds(first).count(FaultKind.REFUSED) == pytest.approx(200, abs=45)
    snapshots = [first.of_snapshot(call) for call in range(1000)]
    assert {fault.kind for fault in snapshots if fault is not None} == {FaultKind.NO_ANSWER}


@pytest.mark.parametrize(
    ("by_verb", "rates", "message"),
    [
        ({("requeu", 1): Fault(kind=FaultKind.GONE)}, {}, "'requeu' is no verb"),
        ({("requeue", 1): Fault(kind=FaultKind.DAMAGED)}, {}, "call 1 of requeue cannot"),
        ({("snapshot", 1): Fault(kind=FaultKind.GONE)}, {}, "call 1 of snapshot cannot"),
        ({}, {FaultKind.GONE: 0.7, FaultKind.REFUSED: 0.7}, "sum at most 1"),
        ({}, {FaultKind.GONE: -0.1}, "0 or more"),
    ],
)
def test_an_impossible_plan_is_refused(
    by_verb: dict[tuple[str, int], Fault], rates: dict[FaultKind, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        FaultPlan(by_verb=by_verb, rates=rates)


# Latency and the log


def test_latency_accepts_at_once_and_applies_later() -> None:
    cluster, adapter = world(job("a"), latency_s=2.0)
    cluster.advance(10.0)
    adapter.apply(acts.requeue("a"))
    cluster.advance(11.9)
    assert seen(adapter, "a").state is JobState.RUNNING
    cluster.advance(12.0)
    assert seen(adapter, "a").state is JobState.PENDING
    assert cluster.record(policy="none").segments[0].end_s == 12.0
    with pytest.raises(ValueError, match=r"latency_s is -1\.0"):
        SimAdapter(cluster, latency_s=-1.0)


def test_every_call_is_written_down_and_the_accepted_ones_are_counted() -> None:
    cluster, adapter = world(job("a"), job("b"), job("c"))
    cluster.advance(5.0)
    hold = acts.reserve("mw_c", nodes=("n1", "n2"), duration_s=99.0, job_id="c")
    adapter.apply(hold)
    adapter.apply(acts.requeue("a"))
    with pytest.raises(Gone):
        adapter.apply(acts.requeue("a"))
    assert [(call.at_s, call.verb, call.action, call.error) for call in adapter.calls] == [
        (5.0, "reserve", hold, None),
        (5.0, "requeue", acts.requeue("a"), None),
        (5.0, "requeue", acts.requeue("a"), "Gone"),
    ]
    assert adapter.accepted == {"reserve": 1, "requeue": 1}
