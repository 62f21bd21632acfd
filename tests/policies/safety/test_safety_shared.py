"""What must hold for every policy that acts for urgent jobs, whatever shares the nodes of the cluster."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from makeway.policies.common.holds import shortfall
from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.model import (
    Action,
    Checkpoint,
    Cluster,
    Job,
    JobKind,
    JobState,
    Method,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Reason,
    Release,
    Requeue,
    Reservation,
    Reserve,
    Resources,
    Shrink,
    Task,
    total,
)
from makeway.policies.safety.protection import protection
from tests.policies.any_cluster import (
    COMPLETING_SINCE_S,
    NODE_STATES,
    NOW_S,
    few_nodes,
    leaves_by_itself_s,
    optional_seconds,
    specs,
    times,
)
from tests.policies.sharing import NODE, amounts, shared
from tests.policies.under_test import UNDER_TEST, at_once, each_on, on_the_same

ACTIVE = [name for name, policy in UNDER_TEST.items() if policy.active and policy.arrivals_only]
NEEDED_ONLY = ["eviction", "n-paa", "cup-spaa"]
"""The policies whose every victim is needed on a held node."""
DEMANDS = st.builds(
    amounts, st.integers(1, 8), st.sampled_from([500, 4000, 12_000]), st.sampled_from([0, 0, 1, 3])
)
# Made once, as in any_cluster.
KINDS = st.sampled_from([JobKind.RIGID] * 4 + [JobKind.MALLEABLE, JobKind.ON_DEMAND])
STATES = st.sampled_from([JobState.RUNNING] * 9 + [JobState.COMPLETING])
FIVE_NODE_STATES = st.lists(NODE_STATES, min_size=5, max_size=5)
URGENT_DEMANDS = st.none() | DEMANDS
URGENT_AGES_S = st.sampled_from([0, 0, 60, 300])
START_WITHIN_S = st.sampled_from([None, 45.0, 3000.0])
PROGRESS = st.sampled_from([Progress.PLANNED, Progress.ACCEPTED, Progress.REFUSED])


@st.composite
def holders(draw: st.DrawFn, index: int, cluster: Cluster) -> Job | None:
    """A job that fits next to the others; now and then one that has its nodes for itself, or that counts so
    although it is not alone there. None: none fits.
    """
    names = [node.name for node in cluster.nodes]
    used = {name for job in cluster.jobs for name in job.nodes}
    sort = draw(st.integers(0, 11))
    whole, doubtful = sort <= 1, sort == 1
    held = draw(DEMANDS)
    unused = cluster.unused()
    able = [name for name in names if doubtful or (name not in used if whole else unused[name].covers(held))]
    if not able:
        return None
    nodes = tuple(draw(few_nodes(tuple(able))))
    start_s = draw(times)
    state = draw(STATES)
    return Job(
        job_id=f"r{index}",
        kind=draw(KINDS),
        state=state,
        completing_since_s=draw(COMPLETING_SINCE_S) if state is JobState.COMPLETING else None,
        node_count=len(nodes),
        node_count_min=1,
        walltime_s=float(draw(st.integers(1, 9000))),
        submit_s=0.0,
        user="alice",
        nodes=nodes,
        allocation=None if whole else (held,) * len(nodes),
        node_equivalents=None if whole else held.amount("cpu") / NODE.amount("cpu") * len(nodes),
        start_s=start_s,
        checkpoint=draw(specs),
        last_checkpoint_s=draw(optional_seconds(int(start_s), int(NOW_S))),
        preemptible=draw(st.integers(0, 5)) > 0,
    )


@st.composite
def sharing_clusters(draw: st.DrawFn) -> Cluster:
    """A few nodes with several jobs each, urgent jobs for parts of nodes or whole ones, perhaps a hold."""
    cluster = shared(node_count=draw(st.integers(1, 5)))
    states = draw(FIVE_NODE_STATES)
    nodes = tuple(replace(node, state=state) for node, state in zip(cluster.nodes, states, strict=False))
    cluster = replace(cluster, nodes=nodes)
    for index in range(draw(st.integers(0, 12))):
        job = draw(holders(index, cluster))
        cluster = cluster if job is None else replace(cluster, jobs=(*cluster.jobs, job))
    for index in range(draw(st.integers(1, 3))):
        urgent = Job(
            job_id=f"u{index}",
            kind=JobKind.ON_DEMAND,
            state=JobState.PENDING,
            node_count=draw(st.integers(1, 3)),
            demand=draw(URGENT_DEMANDS),
            walltime_s=900.0,
            submit_s=NOW_S - draw(URGENT_AGES_S),
            user="urgent",
            start_within_s=draw(START_WITHIN_S),
        )
        cluster = replace(cluster, jobs=(*cluster.jobs, urgent))
    if draw(st.booleans()):
        cluster = draw(with_hold(cluster))
    return replace(cluster, jobs=tuple(draw(st.permutations(cluster.jobs))))


@st.composite
def with_hold(draw: st.DrawFn, cluster: Cluster) -> Cluster:
    """The same cluster with an operation for u0, which holds nodes that some of their jobs are to leave."""
    urgent = cluster.jobs_by_id()["u0"]
    names = draw(st.permutations([node.name for node in cluster.nodes]))
    held = tuple(names[: urgent.node_count])
    common = {"for_job_id": "u0", "policy": "earlier", "reason": Reason.URGENT_ARRIVAL}
    kind = OperationKind.MAKE_WAY if urgent.demand is None else OperationKind.MAKE_WAY_SHARED
    hold = Reserve(
        job_id="u0",
        reservation="mw_u0",
        nodes=held,
        duration_s=9000.0,
        kind=kind,
        **common,  # type: ignore[arg-type]
    )
    leaving = [
        Requeue(job_id=job.job_id, method=Method.KILL, not_after_s=NOW_S, **common)  # type: ignore[arg-type]
        for job in cluster.jobs
        if not set(held).isdisjoint(job.nodes) and draw(st.booleans())
    ]
    progress = [draw(PROGRESS) for _ in leaving]
    operation = Operation(
        operation_id="1",
        kind=kind,
        for_job_id="u0",
        policy="earlier",
        reservation="mw_u0",
        nodes=held,
        opened_s=NOW_S - 50.0,
        deadline_s=NOW_S + 300.0,
        give_up_s=NOW_S + 900.0,
        tasks=(
            Task(action=hold, progress=Progress.DONE),
            *(Task(action=one, progress=how) for one, how in zip(leaving, progress, strict=True)),
        ),
    )
    own = Reservation(name="mw_u0", nodes=held, start_s=NOW_S - 40.0, end_s=NOW_S + 8960.0)
    return replace(cluster, operations=(operation,), reservations=(own,))


def decided(name: str, cluster: Cluster) -> tuple[Action, ...]:
    policy = UNDER_TEST[name]
    return policy.decision(cluster, at_once(name)).actions


_Left = dict[str, frozenset[str]]
"""The jobs that leave, each with the nodes that it leaves."""


def under_way(cluster: Cluster) -> _Left:
    """The jobs that an operation which makes room still evicts, and those that are completing."""
    ended = {job.job_id: frozenset(job.nodes) for job in cluster.jobs if leaves_by_itself_s(job) is not None}
    return ended | {
        task.action.job_id: frozenset(cluster.jobs_by_id()[task.action.job_id].nodes)
        for operation in cluster.operations
        if operation.phase is Phase.MAKING_ROOM
        for task in operation.tasks
        if isinstance(task.action, Requeue) and task.progress in (Progress.PLANNED, Progress.ACCEPTED)
    }


def has_room(name: str, demand: Resources | None, cluster: Cluster, gone: _Left) -> bool:
    """Whether a node can serve the demand once these jobs are gone, counted from the beginning."""
    staying = [
        job for job in cluster.jobs if name in job.nodes and name not in gone.get(job.job_id, frozenset())
    ]
    if demand is None or any(job.allocation is None for job in staying):
        return not staying
    used = total([job.allocation[job.nodes.index(name)] for job in staying if job.allocation is not None])
    return all(
        used.amount(key) + demand.amount(key) <= NODE.amount(key) for key in ("cpu", "mem", "gres/gpu")
    )


def kept(for_job_id: str, cluster: Cluster) -> set[str]:
    """The nodes that the job's operation holds and has not lost."""
    return {
        name
        for operation in cluster.operations
        if operation.for_job_id == for_job_id
        for name in set(operation.nodes) - set(shortfall(operation, cluster))
    }


@pytest.mark.parametrize("names", on_the_same(ACTIVE))
@settings(deadline=None, max_examples=400)
@given(cluster=sharing_clusters())
def test_every_decision_on_shared_nodes_is_safe(names: Sequence[str], cluster: Cluster) -> None:
    for name, view in each_on(cluster, names):
        check_safe_on_shared_nodes(name, view)


def check_safe_on_shared_nodes(name: str, cluster: Cluster) -> None:
    """Holds have room, victims may be evicted, and none is needless."""
    actions = decided(name, cluster)
    cluster = UNDER_TEST[name].view(cluster)
    assert decided(name, replace(cluster, jobs=cluster.jobs[::-1])) == actions
    assert [verdict.detail for verdict in arbitrate(actions, cluster) if not verdict.allowed] == []
    gone, promised = under_way(cluster), set[str]()
    for for_job_id, group in groupby(actions, key=lambda action: action.for_job_id):
        urgent = cluster.jobs_by_id()[for_job_id]
        hold, *leaving = group
        if not isinstance(hold, Reserve):
            event("no room")
            assert all(isinstance(action, Release) for action in leaving)
            continue
        check_victims(leaving, cluster, gone)
        victims = left_by(leaving, cluster)
        event(f"a hold {'with' if victims else 'without'} evictions")
        gone |= victims
        check_hold(hold, urgent, cluster, gone)
        assert promised.isdisjoint(hold.nodes), "no node is promised twice"
        promised |= set(hold.nodes)
        if name in NEEDED_ONLY:
            later = completing_too_late(urgent, cluster)
            for victim in victims:
                rest = set(hold.nodes) - kept(for_job_id, cluster)
                without = {job_id: nodes for job_id, nodes in gone.items() if job_id not in {victim, *later}}
                assert not all(has_room(node, urgent.demand, cluster, without) for node in rest), victim


def completing_too_late(urgent: Job, cluster: Cluster) -> set[str]:
    """The jobs that are completing and do not count as room in time for an urgent job."""
    deadlines_s = [one.deadline_s for one in cluster.operations if one.for_job_id == urgent.job_id]
    within_s = 600.0 if urgent.start_within_s is None else urgent.start_within_s
    (deadline_s,) = deadlines_s or [urgent.submit_s + within_s]
    return {job.job_id for job in cluster.jobs if (leaves_by_itself_s(job) or 0.0) > deadline_s >= NOW_S}


def left_by(leaving: list[Action], cluster: Cluster) -> _Left:
    """The nodes that these actions make their jobs leave."""
    found: _Left = {}
    for action in leaving:
        nodes = frozenset(cluster.jobs_by_id()[action.job_id].nodes)
        if isinstance(action, Shrink):
            found[action.job_id] = nodes.difference(action.keep_nodes)
        elif isinstance(action, Requeue):
            found[action.job_id] = nodes
    return found


def check_hold(hold: Reserve, urgent: Job, cluster: Cluster, gone: _Left) -> None:
    """As many nodes as are needed, each up, in no other hold, and with room once the jobs have left."""
    assert len(set(hold.nodes)) == len(hold.nodes) == urgent.node_count
    assert (hold.kind is OperationKind.MAKE_WAY) == (urgent.demand is None)
    good = kept(urgent.job_id, cluster)
    for name in hold.nodes:
        assert name in cluster.up_nodes()
        assert name in good or has_room(name, urgent.demand, cluster, gone)
        for other in cluster.reservations:
            assert other.name == hold.reservation or name not in other.nodes


def check_victims(leaving: list[Action], cluster: Cluster, gone: _Left) -> None:
    """Each may be evicted, is not leaving already, and has the time that its checkpoint takes."""
    for action in leaving:
        job = cluster.jobs_by_id()[action.job_id]
        assert isinstance(action, Checkpoint | Requeue | Shrink)
        assert not isinstance(action, Shrink) or cluster.shared_nodes().isdisjoint(job.nodes)
        assert protection(job, cluster) is None
        assert job.job_id not in gone
        if isinstance(action, Requeue) and action.method is Method.SYSTEM:
            assert job.checkpoint is not None
            assert job.checkpoint.system_s is not None
            assert NOW_S + job.checkpoint.system_s <= action.not_after_s
