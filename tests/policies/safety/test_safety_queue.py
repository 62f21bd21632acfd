"""What must hold for every policy that acts for the whole queue, whatever the cluster looks like.

The limits that every policy keeps are tested here too; `test_safety` has the policies that act for urgent
jobs alone.
"""

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import groupby

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.model import (
    QUEUE_POSITIONS,
    Action,
    CheckpointSpec,
    Cluster,
    Decision,
    Eviction,
    Job,
    JobKind,
    JobState,
    Limits,
    Node,
    Operation,
    OperationKind,
    Phase,
    Plan,
    Prioritise,
    Progress,
    Reason,
    Requeue,
    Reserve,
    Task,
)
from makeway.policies.queue.order import queue_key
from makeway.policies.safety.protection import Refusal, hard_protection, protection, start_protection
from tests.policies.any_cluster import (
    EVICTIONS_PER_JOB,
    MIN_RUNTIMES_S,
    NODE_STATES,
    NOW_S,
    guests,
    reservations,
    specs,
)
from tests.policies.safety.rules import evictions
from tests.policies.under_test import UNDER_TEST

QUEUE = [name for name, policy in UNDER_TEST.items() if policy.active and not policy.arrivals_only]


saving = st.integers(0, 500).map(lambda seconds: CheckpointSpec(system_s=float(seconds)))
# Made once, as in any_cluster.
KINDS = st.sampled_from([JobKind.RIGID] * 5 + [JobKind.ON_DEMAND])
WALLTIMES_S = st.sampled_from([300, 1800, 5000, 20_000])
OWNERS = st.sampled_from(["alice"] * 6 + ["root"])
ELIGIBLE_S = st.sampled_from([None, None, None, NOW_S - 1.0, NOW_S + 50.0])
CHECKPOINTS = saving | saving | specs
SAVED_S = st.sampled_from([0, 0, 1000])
PRIORITIES = st.sampled_from([0, 0, 0, 5])
RUNNING_WALLTIMES_S = st.sampled_from([4500.0, 20_000.0])


@cache
def mostly_all(names: tuple[str, ...]) -> st.SearchStrategy[frozenset[str] | None]:
    """One or more of these nodes. None: all."""
    return st.one_of(*[st.none()] * 4, st.frozensets(st.sampled_from(names), min_size=1))


@st.composite
def queued(draw: st.DrawFn, index: int, names: tuple[str, ...]) -> Job:
    """A waiting job of any kind, mostly one that may start early."""
    kind = draw(KINDS)
    return Job(
        job_id=f"q{index}",
        kind=kind,
        state=JobState.PENDING,
        node_count=draw(st.integers(1, 3)) if index else len(names) - draw(st.integers(0, 3)) % len(names),
        walltime_s=float(draw(WALLTIMES_S)),
        submit_s=NOW_S - (draw(st.integers(0, 3000)) if index else 3000.0),
        user=draw(OWNERS),
        eligible_nodes=draw(mostly_all(names)),
        eligible_s=draw(ELIGIBLE_S),
        checkpoint=draw(CHECKPOINTS),
        requeue_count=draw(st.integers(0, 3)),
        saved_s=float(draw(SAVED_S)),
        priority=float(draw(PRIORITIES)),
        preemptible=kind is not JobKind.ON_DEMAND and draw(st.integers(0, 6)) > 0,
    )


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A small cluster with a queue, on which some of the running jobs were started early and a promise may be
    made.
    """
    names = tuple(f"n{index}" for index in range(draw(st.integers(2, 12))))
    running = [
        replace(
            job,
            checkpoint=draw(saving),
            walltime_s=draw(RUNNING_WALLTIMES_S),
            kind=JobKind.RIGID,
        )
        if draw(st.integers(0, 3))
        else job
        for job in draw(guests(names[draw(st.integers(0, 4)) :]))
    ]
    waiting = [draw(queued(index, names)) for index in range(draw(st.integers(1, 5)))]
    early = [job for job in running if job.kind is not JobKind.ON_DEMAND and draw(st.integers(0, 3))]
    operations = [started_early(job, draw(st.integers(-3000, 3000))) for job in early]
    if draw(st.booleans()):
        operations.append(promise(waiting[0], draw(st.integers(-500, 500))))
    return Cluster(
        now_s=NOW_S,
        nodes=tuple(Node(name=name, state=draw(NODE_STATES)) for name in names),
        jobs=tuple(draw(st.permutations([*running, *waiting]))),
        reservations=draw(reservations(names)),
        operations=tuple(operations),
        plan=draw(st.none() | plans(waiting)),
        limits=Limits(
            min_runtime_s=draw(MIN_RUNTIMES_S),
            evictions_per_job=draw(EVICTIONS_PER_JOB),
            protected_users=frozenset({"root"}),
        ),
    )


@st.composite
def plans(draw: st.DrawFn, waiting: list[Job]) -> Plan:
    """A plan of some of the waiting jobs, and of one that is gone, in any order."""
    ids = draw(st.lists(st.sampled_from([*(job.job_id for job in waiting), "gone"]), unique=True, min_size=1))
    starts_s = tuple(NOW_S + 100.0 * number for number in range(len(ids)))
    return Plan(
        made_s=NOW_S - 60.0, order=tuple(ids), starts_s=starts_s, value=1.0, easy_value=2.0, bound=0.0
    )


def started_early(job: Job, due_s: float) -> Operation:
    """The operation of a running job that makeway has started, or has let start."""
    assert job.start_s is not None
    return with_hold(job, job.nodes, OperationKind.EARLY_START, job.start_s, due_s, Phase.LENT)


def promise(job: Job, due_s: float) -> Operation:
    return with_hold(job, (), OperationKind.QUEUE_HEAD, NOW_S - 1000.0, due_s, Phase.MAKING_ROOM)


def with_hold(
    job: Job, nodes: tuple[str, ...], kind: OperationKind, opened_s: float, due_s: float, phase: Phase
) -> Operation:
    hold = Reserve(
        job_id=job.job_id,
        for_job_id=job.job_id,
        policy="earlier",
        reason=Reason.SPECULATIVE,
        kind=kind,
        reservation=f"mw_{job.job_id}",
        nodes=nodes,
        duration_s=9000.0,
    )
    progress = Progress.DONE if nodes else Progress.PLANNED
    return Operation(
        operation_id=f"{job.job_id}@1",
        kind=kind,
        for_job_id=job.job_id,
        policy="earlier",
        reservation=hold.reservation,
        nodes=nodes,
        opened_s=opened_s,
        deadline_s=NOW_S + due_s,
        give_up_s=NOW_S + due_s + 600.0,
        phase=phase,
        tasks=(Task(action=hold, progress=progress),),
        started_s=job.start_s,
    )


def decide(name: str, cluster: Cluster) -> Decision:
    policy = UNDER_TEST[name]
    return policy.decide(cluster, policy.config_type())


@pytest.mark.parametrize("name", QUEUE)
@settings(deadline=None, max_examples=200)
@given(cluster=clusters())
def test_every_decision_is_safe(name: str, cluster: Cluster) -> None:
    decision = decide(name, cluster)
    assert decide(name, replace(cluster, jobs=cluster.jobs[::-1])) == decision, "two runs decide alike"
    jobs = cluster.jobs_by_id()
    idle = set(cluster.free_nodes())
    commitments: Counter[str] = Counter()
    for for_job_id, members in groupby(decision.actions, key=lambda action: action.for_job_id):
        group = list(members)
        hold = group[0]
        if isinstance(hold, Prioritise):
            event("a position in the queue")
            assert group == [hold]
            check_move(hold, cluster)
            continue
        assert isinstance(hold, Reserve), "the hold comes first"
        assert len(evictions(group)) == len(group) - 1
        assert hold.job_id == for_job_id
        assert jobs[for_job_id].state is JobState.PENDING
        event(
            f"{hold.reason}, {'with' if evictions(group) else 'without'} evictions, {bool(hold.nodes)} nodes"
        )
        commitments.update(hold.nodes)
        if hold.reason is Reason.SPECULATIVE:
            check_start(hold, jobs[for_job_id], cluster, idle)
            assert group == [hold]
        else:
            check_way(hold, group, cluster, idle)
    assert all(times == 1 for times in commitments.values()), "no node is promised twice"
    assert [verdict for verdict in arbitrate(decision.actions, cluster) if not verdict.allowed] == []


def check_move(move: Prioritise, cluster: Cluster) -> None:
    """A queue position for a waiting job that the site has opted in, ahead of which no job waits that is not
    to be touched.
    """
    jobs = cluster.jobs_by_id()
    job = jobs[move.job_id]
    assert (move.reason, move.for_job_id) == (Reason.PLANNED, move.job_id)
    assert move.queue_position is not None
    assert 1 <= move.queue_position <= QUEUE_POSITIONS
    assert start_protection(job, cluster) in {None, Refusal.PER_JOB}
    for other in cluster.jobs:
        if (
            other.state is JobState.PENDING
            and other.reservation is None
            and queue_key(other) < queue_key(job)
        ):
            delayed = other.eligible_s is not None and other.eligible_s > NOW_S
            assert delayed or hard_protection(other, cluster) is None, (
                "no job passes one that may not be touched"
            )


def check_start(hold: Reserve, job: Job, cluster: Cluster, idle: set[str]) -> None:
    """Exactly as many idle nodes as the job asks for, for longer than it may run; and it may be told to
    leave.
    """
    assert start_protection(job, cluster) is None
    assert job.checkpoint is not None
    assert job.checkpoint.system_s is not None
    assert len(hold.nodes) == job.node_count
    assert set(hold.nodes) <= idle
    assert job.eligible_nodes is None or set(hold.nodes) <= job.eligible_nodes
    assert hold.duration_s >= job.walltime_s
    for reservation in cluster.reservations:
        assert reservation.start_s >= NOW_S + hold.duration_s or set(reservation.nodes).isdisjoint(hold.nodes)


def check_way(hold: Reserve, group: list[Action], cluster: Cluster, idle: set[str]) -> None:
    """For the first of the queue: only jobs that may be evicted leave, none of them needlessly, and the
    largest first.
    """
    jobs = cluster.jobs_by_id()
    head = jobs[hold.job_id]
    assert not hold.nodes or len(hold.nodes) == head.node_count
    assert head.eligible_nodes is None or set(hold.nodes) <= head.eligible_nodes
    left = [action for action in group if isinstance(action, Requeue)]
    for action in left:
        job = jobs[action.job_id]
        assert protection(job, cluster) is None
        assert not set(job.nodes).isdisjoint(hold.nodes)
        assert job.checkpoint is not None
        assert job.checkpoint.system_s is not None
        assert action.not_after_s >= NOW_S + job.checkpoint.system_s
        assert is_early(job, cluster) or (job.start_s or 0.0) >= NOW_S - 1000.0
    if left:
        leaving = {action.job_id for action in left}
        remaining = {name for job in cluster.jobs if job.job_id not in leaving for name in job.nodes}
        assert remaining.isdisjoint(hold.nodes), "it has all its nodes once they have left"
        assert len(set(hold.nodes) & idle) < head.node_count


def is_early(job: Job, cluster: Cluster) -> bool:
    return job.job_id in cluster.speculative_jobs()


@pytest.mark.parametrize("name", QUEUE)
@settings(deadline=None, max_examples=150)
@given(
    cluster=clusters(),
    per_hour=st.none() | st.integers(0, 4),
    past=st.integers(0, 2),
    max_nodes=st.none() | st.integers(0, 12),
    failures=st.integers(0, 6),
)
def test_limits_are_never_exceeded_and_groups_never_torn(
    name: str, cluster: Cluster, per_hour: int | None, past: int, max_nodes: int | None, failures: int
) -> None:
    limited = replace(
        cluster,
        limits=replace(cluster.limits, evictions_per_hour=per_hour, max_nodes=max_nodes),
        evictions=tuple(Eviction(job_id=f"x{index}", at_s=NOW_S - 60.0) for index in range(past)),
        failures_s=(NOW_S - 5.0,) * failures,
    )
    verdicts = arbitrate(decide(name, limited).actions, limited)
    allowed = [verdict.action for verdict in verdicts if verdict.allowed]
    taken = {action.job_id for action in evictions(allowed)}
    assert per_hour is None or not taken or past + len(taken) <= per_hour
    assert failures < 5 or not allowed, "nothing more is taken, and no job is moved"
    started = [
        action for action in allowed if isinstance(action, Reserve) and action.reason is Reason.SPECULATIVE
    ]
    lent = sum(len(operation.nodes) for operation in limited.speculative_jobs().values())
    held = lent + sum(len(action.nodes) for action in started)
    assert max_nodes is None or not started or held <= max_nodes
    for _, members in groupby(verdicts, key=lambda verdict: verdict.action.for_job_id):
        refused = [verdict.refusal for verdict in members]
        assert all(refused) or not any(refused)
