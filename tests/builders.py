"""Small clusters for tests: short ways to write jobs, nodes and reservations."""

from dataclasses import replace

from makeway.policies.model import (
    RESERVATION_PREFIX,
    CheckpointSpec,
    Cluster,
    Ending,
    Job,
    JobKind,
    JobState,
    Node,
    Operation,
    OperationOutcome,
    Phase,
    Reservation,
)


def node_names(count: int, first: int = 1) -> tuple[str, ...]:
    """n1, n2, ..."""
    return tuple(f"n{number}" for number in range(first, first + count))


def running(
    job_id: str,
    nodes: tuple[str, ...],
    *,
    kind: JobKind = JobKind.RIGID,
    start_s: float = 0.0,
    walltime_s: float = 36_000.0,
    checkpoint: CheckpointSpec | None = None,
    last_checkpoint_s: float | None = None,
    checkpointing_since_s: float | None = None,
    node_count_min: int | None = None,
    setup_s: float = 0.0,
    requeue_count: int = 0,
    preemptible: bool = True,
    user: str = "batch",
) -> Job:
    """A running job on `nodes`."""
    return Job(
        job_id=job_id,
        kind=kind,
        state=JobState.RUNNING,
        node_count=len(nodes),
        node_count_min=node_count_min,
        node_count_max=len(nodes) if node_count_min is not None else None,
        nodes=nodes,
        walltime_s=walltime_s,
        submit_s=start_s,
        start_s=start_s,
        user=user,
        checkpoint=checkpoint,
        last_checkpoint_s=last_checkpoint_s,
        checkpointing_since_s=checkpointing_since_s,
        setup_s=setup_s,
        requeue_count=requeue_count,
        preemptible=preemptible and kind is not JobKind.ON_DEMAND,
    )


def pending(
    job_id: str,
    node_count: int,
    *,
    kind: JobKind = JobKind.RIGID,
    submit_s: float = 0.0,
    walltime_s: float = 3600.0,
    reservation: str | None = None,
    prioritised: bool = False,
    requeue_count: int = 0,
    start_within_s: float | None = None,
) -> Job:
    """A pending job."""
    return Job(
        job_id=job_id,
        kind=kind,
        state=JobState.PENDING,
        node_count=node_count,
        walltime_s=walltime_s,
        submit_s=submit_s,
        user="user",
        reservation=reservation,
        prioritised=prioritised,
        requeue_count=requeue_count,
        start_within_s=start_within_s,
        preemptible=kind is not JobKind.ON_DEMAND,
    )


def urgent(job_id: str, node_count: int, *, submit_s: float = 0.0, reservation: str | None = None) -> Job:
    """A pending on-demand job."""
    return pending(job_id, node_count, kind=JobKind.ON_DEMAND, submit_s=submit_s, reservation=reservation)


def held(job_id: str, nodes: tuple[str, ...], *, start_s: float = 0.0, end_s: float = 1e6) -> Reservation:
    """Makeway's reservation for `job_id`."""
    return Reservation(name=RESERVATION_PREFIX + job_id, nodes=nodes, start_s=start_s, end_s=end_s)


def cluster(
    node_count: int,
    *jobs: Job,
    now_s: float = 1000.0,
    reservations: tuple[Reservation, ...] = (),
    operations: tuple[Operation, ...] = (),
) -> Cluster:
    """A cluster of nodes n1..n<count>, all up."""
    return Cluster(
        now_s=now_s,
        nodes=tuple(Node(name=name) for name in node_names(node_count)),
        jobs=jobs,
        reservations=reservations,
        operations=operations,
    )


def closed(operation: Operation) -> Operation:
    """The operation, over: its job never started, and nothing that was planned was done."""
    now_s = operation.opened_s
    tasks = tuple(
        replace(task, progress=Ending.NOT_NEEDED.progress, ending=Ending.NOT_NEEDED, ended_s=now_s)
        for task in operation.tasks
    )
    outcome = OperationOutcome.NOT_STARTED
    return replace(operation, phase=Phase.CLOSED, tasks=tasks, ended_s=now_s, outcome=outcome)
