"""Any cluster that policies which act for urgent jobs may see, as hypothesis draws it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

from hypothesis import strategies as st

from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Job,
    JobKind,
    JobState,
    Limits,
    Method,
    Node,
    NodeState,
    Notice,
    Operation,
    OperationKind,
    Phase,
    Placement,
    Progress,
    Reason,
    Requeue,
    Reservation,
    Reserve,
    Task,
)

NOW_S = 10_000.0
times = st.integers(1, 4000).map(lambda ago: NOW_S - ago)
specs = st.none() | st.builds(
    CheckpointSpec,
    interval_s=st.none() | st.integers(60, 900).map(float),
    application_s=st.none() | st.integers(0, 200).map(float),
    system_s=st.none() | st.integers(0, 500).map(float),
    grace_s=st.integers(1, 400).map(float),
)

# Strategies that every draw uses: hypothesis validates each new strategy, which takes longer than to draw.
KINDS = st.sampled_from([JobKind.RIGID] * 4 + [JobKind.MALLEABLE] * 4 + [JobKind.ON_DEMAND])
STATES = st.sampled_from([JobState.RUNNING] * 9 + [JobState.COMPLETING, JobState.SUSPENDED])
COMPLETING_SINCE_S = st.sampled_from([None, NOW_S - 10.0, NOW_S - 89.0, NOW_S - 90.0, NOW_S - 900.0])
OWNERS = st.sampled_from(["alice"] * 7 + ["root"])
NODE_STATES = st.sampled_from([NodeState.UP] * 9 + [NodeState.DOWN])
URGENT_AGES_S = st.sampled_from([0, 0, 0, 1, 60, 300, 900])
START_WITHIN_S = st.sampled_from([None, None, 0.0, 45.0, 200.0, 3000.0])
MIN_RUNTIMES_S = st.sampled_from([0.0, 300.0])
EVICTIONS_PER_JOB = st.sampled_from([None, 3])
QUEUE_KINDS = st.sampled_from([JobKind.RIGID, JobKind.MALLEABLE])
QUEUE_WALLTIMES_S = st.sampled_from([50.0, 900.0])
QUEUE_OWNERS = st.sampled_from(["alice", "alice", "alice", "root"])
QUEUE_ELIGIBLE_S = st.sampled_from([None, None, NOW_S + 60.0])
QUEUE_CHECKPOINTS = st.none() | st.just(CheckpointSpec(system_s=60.0))
QUEUE_REQUEUES = st.sampled_from([0, 0, 0, 1])
RESERVATION_STARTS_S = st.sampled_from([0.0, *(NOW_S + in_s for in_s in (500.0, 950.0, 1100.0, 90_000.0))])
PROGRESS = st.sampled_from(list(Progress))
DEADLINES_S = st.sampled_from([-10.0, 100.0, 300.0, 500.0])
PHASES = st.sampled_from([Phase.MAKING_ROOM] * 5 + [Phase.RETURNING])
NOTICE_AGES_S = st.sampled_from([0, 60, 600])
ARRIVALS_S = st.sampled_from([-300, 0, 60, 120, 500, 1200])


@cache
def optional_seconds(earliest_s: int, latest_s: int) -> st.SearchStrategy[float | None]:
    """A time in whole seconds. None: there is none."""
    return st.none() | st.integers(earliest_s, latest_s).map(float)


@cache
def optional_counts(least: int, most: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(least, most)


@cache
def some_nodes(names: tuple[str, ...]) -> st.SearchStrategy[frozenset[str] | None]:
    """One or more of these nodes. None: all."""
    return st.one_of(st.none(), st.frozensets(st.sampled_from(names), min_size=1))


@cache
def few_nodes(names: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)


@st.composite
def holders(draw: st.DrawFn, index: int, held: tuple[str, ...]) -> Job:
    """A job on these nodes, of any kind and state, mostly one that may be evicted."""
    start_s = draw(times)
    kind = draw(KINDS)
    state = draw(STATES)
    return Job(
        job_id=f"r{index}",
        kind=kind,
        state=state,
        completing_since_s=draw(COMPLETING_SINCE_S) if state is JobState.COMPLETING else None,
        node_count=len(held),
        walltime_s=float(draw(st.integers(1, 9000))),
        submit_s=0.0,
        user=draw(OWNERS),
        node_count_min=draw(st.integers(1, len(held))) if kind is JobKind.MALLEABLE else None,
        nodes=held,
        start_s=start_s,
        setup_s=float(draw(st.integers(0, 300))),
        checkpoint=draw(specs),
        last_checkpoint_s=draw(optional_seconds(int(start_s), int(NOW_S))),
        requeue_count=draw(st.integers(0, 3)),
        preemptible=draw(st.integers(0, 6)) > 0,
    )


def leaves_by_itself_s(job: Job) -> float | None:
    """By when the nodes of a job that is completing are free, or others in their place. None: it is not
    completing, or is stuck.
    """
    since_s = NOW_S if job.completing_since_s is None else job.completing_since_s
    return since_s + 150.0 if job.state is JobState.COMPLETING and since_s + 90.0 > NOW_S else None


@st.composite
def guests(draw: st.DrawFn, names: Sequence[str]) -> list[Job]:
    """Jobs on most of the nodes, now and then two on one."""
    jobs: list[Job] = []
    left = list(names)
    while left and draw(st.integers(0, 9)) > 0:
        size = draw(st.integers(1, min(len(left), 5)))
        held, left = left[:size], left[size:]
        if jobs and draw(st.integers(0, 9)) == 0:
            held.append(jobs[-1].nodes[-1])
        jobs.append(draw(holders(len(jobs), tuple(held))))
    return jobs


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A small cluster, mostly full, with urgent jobs that wait, reservations, and an operation under way."""
    count = draw(st.integers(2, 16))
    names = tuple(f"n{index}" for index in range(count))
    nodes = tuple(Node(name=name, state=draw(NODE_STATES)) for name in names)
    jobs = draw(guests(names))
    for index in range(draw(st.integers(1, 3))):
        eligible = draw(some_nodes(names))
        size = draw(st.integers(1, 1 + count // 2))
        jobs.append(
            Job(
                job_id=f"u{index}",
                kind=JobKind.ON_DEMAND,
                state=JobState.PENDING,
                node_count=size,
                node_count_max=draw(optional_counts(size, count)),
                walltime_s=900.0,
                submit_s=NOW_S - draw(URGENT_AGES_S),
                user="urgent",
                eligible_nodes=eligible,
                start_within_s=draw(START_WITHIN_S),
                prioritised=draw(st.booleans()),
            )
        )
    jobs += draw(batch_queue(names))
    cluster = Cluster(
        now_s=NOW_S,
        nodes=nodes,
        jobs=tuple(draw(st.permutations(jobs))),
        reservations=draw(reservations(names)),
        limits=Limits(
            min_runtime_s=draw(MIN_RUNTIMES_S),
            evictions_per_job=draw(EVICTIONS_PER_JOB),
            protected_users=frozenset({"root"}),
        ),
    )
    if draw(st.booleans()):
        cluster = draw(with_operation(cluster))
    return draw(with_notices(cluster))


@st.composite
def placements(draw: st.DrawFn, names: tuple[str, ...]) -> tuple[Placement, ...]:
    """Blocks of neighbouring nodes, of different sizes, with or without one that is all of them. A job gets a
    whole one or a part.
    """
    cuts = draw(st.lists(st.integers(1, max(1, len(names) - 1)), max_size=3))
    edges = sorted({0, len(names), *cuts})
    blocks = [names[low:high] for low, high in pairwise(edges)]
    if draw(st.booleans()):
        blocks.append(names)
    whole = draw(st.booleans())
    return tuple(Placement(name=f"p{index}", nodes=block, whole=whole) for index, block in enumerate(blocks))


@st.composite
def batch_queue(draw: st.DrawFn, names: tuple[str, ...]) -> list[Job]:
    """Jobs of the common queue that wait."""
    return [
        Job(
            job_id=f"w{index}",
            kind=draw(QUEUE_KINDS),
            state=JobState.PENDING,
            node_count=draw(st.integers(1, 3)),
            walltime_s=draw(QUEUE_WALLTIMES_S),
            submit_s=NOW_S - 60.0,
            user=draw(QUEUE_OWNERS),
            eligible_nodes=draw(some_nodes(names)),
            eligible_s=draw(QUEUE_ELIGIBLE_S),
            checkpoint=draw(QUEUE_CHECKPOINTS),
            requeue_count=draw(QUEUE_REQUEUES),
            preemptible=draw(st.integers(0, 6)) > 0,
        )
        for index in range(draw(st.integers(0, 3)))
    ]


@st.composite
def reservations(draw: st.DrawFn, names: tuple[str, ...]) -> tuple[Reservation, ...]:
    if draw(st.integers(0, 3)):
        return ()
    kept = draw(few_nodes(names))
    begins_s = draw(RESERVATION_STARTS_S)
    return (Reservation(name="site", nodes=tuple(kept), start_s=begins_s, end_s=NOW_S + 99_999.0),)


@st.composite
def with_operation(draw: st.DrawFn, cluster: Cluster) -> Cluster:
    """The same cluster, with an operation for u0: a hold over some nodes, from which some running jobs are to
    go.
    """
    urgent_jobs = cluster.jobs_by_id()["u0"]
    free_of_others = sorted(
        {node.name for node in cluster.nodes} - {name for held in cluster.reservations for name in held.nodes}
    )
    if len(free_of_others) < urgent_jobs.node_count:
        return cluster
    held = tuple(draw(st.permutations(free_of_others))[: urgent_jobs.node_count])
    hold = Reserve(
        job_id="u0",
        for_job_id="u0",
        policy="earlier",
        reason=Reason.URGENT_ARRIVAL,
        reservation="mw_u0",
        nodes=held,
        duration_s=9000.0,
    )
    victims = [job for job in cluster.jobs if set(job.nodes) & set(held) if draw(st.booleans())]
    leave = [
        Requeue(
            job_id=job.job_id,
            for_job_id="u0",
            policy="earlier",
            reason=Reason.URGENT_ARRIVAL,
            method=Method.KILL,
            not_after_s=NOW_S,
        )
        for job in victims
    ]
    tasks = [Task(action=hold, progress=Progress.DONE)]
    tasks += [Task(action=action, progress=draw(PROGRESS)) for action in leave]
    operation = Operation(
        operation_id="u0@1",
        kind=OperationKind.MAKE_WAY,
        for_job_id="u0",
        policy="earlier",
        reservation="mw_u0",
        nodes=held,
        opened_s=NOW_S - 50.0,
        deadline_s=NOW_S + draw(DEADLINES_S),
        give_up_s=NOW_S + 1100.0,
        phase=draw(PHASES),
        tasks=tuple(tasks),
    )
    own = Reservation(name="mw_u0", nodes=held, start_s=NOW_S - 40.0, end_s=NOW_S + 8960.0)
    return replace(cluster, operations=(operation,), reservations=(*cluster.reservations, own))


@st.composite
def with_notices(draw: st.DrawFn, cluster: Cluster) -> Cluster:
    """The same cluster with announced jobs that have not arrived, for some of which nodes are held."""
    for index in range(draw(st.integers(0, 2))):
        notice = Notice(
            notice_id=f"notice-{index}",
            user="urgent",
            node_count=draw(st.integers(1, 1 + len(cluster.nodes) // 2)),
            walltime_s=900.0,
            announced_s=NOW_S - draw(NOTICE_AGES_S),
            expected_s=NOW_S + draw(ARRIVALS_S),
        )
        cluster = replace(cluster, notices=(*cluster.notices, notice))
        if draw(st.booleans()):
            cluster = draw(with_collected(cluster, notice))
    return cluster


@st.composite
def with_collected(draw: st.DrawFn, cluster: Cluster, notice: Notice) -> Cluster:
    """The same cluster, with nodes held for the announced job, idle ones and busy ones."""
    reserved = {name for held in cluster.reservations for name in held.nodes}
    able = [node.name for node in cluster.nodes if node.name not in reserved]
    held = tuple(draw(st.permutations(able))[: draw(st.integers(1, len(cluster.nodes)))])
    if not held:
        return cluster
    if draw(st.booleans()):
        held = held[: notice.node_count]
        cluster = without_strangers(cluster, frozenset(held))
    hold = Reserve(
        job_id=notice.notice_id,
        for_job_id=notice.notice_id,
        policy="earlier",
        reason=Reason.ANNOUNCED,
        reservation=f"mw_{notice.notice_id}",
        nodes=held,
        duration_s=9000.0,
        user=notice.user,
        kind=OperationKind.NOTICE,
    )
    operation = Operation(
        operation_id=f"{notice.notice_id}@1",
        kind=OperationKind.NOTICE,
        for_job_id=notice.notice_id,
        policy="earlier",
        reservation=hold.reservation,
        nodes=held,
        opened_s=NOW_S - 40.0,
        deadline_s=notice.expected_s,
        give_up_s=notice.expected_s + 600.0,
        tasks=(Task(action=hold, progress=Progress.DONE),),
        notice=notice,
    )
    if draw(st.integers(0, 3)) == 0:
        operation, cluster = arrived(operation, cluster)
    own = Reservation(name=hold.reservation, nodes=held, start_s=NOW_S - 40.0, end_s=NOW_S + 8960.0)
    guests_of = [guest(job, hold) for job in cluster.jobs if job.nodes and set(job.nodes) <= set(held)]
    return replace(
        cluster,
        operations=(*cluster.operations, operation, *(one for one in guests_of if draw(st.booleans()))),
        reservations=(*cluster.reservations, own),
    )


def without_strangers(cluster: Cluster, held: frozenset[str]) -> Cluster:
    """The cluster without the jobs that are on held nodes and on others too."""
    jobs = tuple(job for job in cluster.jobs if held.issuperset(job.nodes) or held.isdisjoint(job.nodes))
    return replace(cluster, jobs=jobs)


def guest(job: Job, lender: Reserve) -> Operation:
    """The operation of a job that was let on nodes which are held for an announced job."""
    lent = Reserve(
        job_id=job.job_id,
        for_job_id=job.job_id,
        policy="earlier",
        reason=Reason.SPECULATIVE,
        reservation=f"mw_{job.job_id}",
        nodes=job.nodes,
        duration_s=9000.0,
        kind=OperationKind.LEND_HELD,
        out_of=(lender.reservation,),
    )
    return Operation(
        operation_id=f"{job.job_id}@1",
        kind=OperationKind.LEND_HELD,
        for_job_id=job.job_id,
        policy="earlier",
        reservation=lent.reservation,
        nodes=lent.nodes,
        opened_s=NOW_S - 30.0,
        deadline_s=NOW_S,
        give_up_s=NOW_S,
        phase=Phase.LENT,
        tasks=(Task(action=lent, progress=Progress.DONE),),
        started_s=NOW_S - 30.0,
        out_of=lent.out_of,
    )


def arrived(operation: Operation, cluster: Cluster) -> tuple[Operation, Cluster]:
    """The operation handed over to an urgent job without one, if there is any, whose announcement is settled
    then.
    """
    busy = {other.for_job_id for other in cluster.operations}
    job_id = next(
        (job.job_id for job in cluster.jobs if job.user == "urgent" and job.job_id not in busy), None
    )
    if job_id is None or operation.notice is None:
        return operation, cluster
    notices = tuple(
        replace(notice, job_id=job_id) if notice == operation.notice else notice for notice in cluster.notices
    )
    return replace(operation, kind=OperationKind.ARRIVAL, for_job_id=job_id), replace(
        cluster, notices=notices
    )
