"""An operation at work on a cluster of four nodes: `v` has to leave for the urgent job `u`."""

from makeway.daemon.operation.beginning import open_operation
from makeway.daemon.operation.due import next_due
from makeway.daemon.operation.observation import Timeouts
from makeway.daemon.operation.transitions import advance, issuing, record
from makeway.daemon.operation.validation import validate
from makeway.policies.model import (
    Action,
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Job,
    Method,
    Operation,
    Progress,
    Reason,
    Requeue,
    Reserve,
    Shrink,
)
from tests.builders import cluster, held, node_names, pending, running, urgent

PATIENCE = Timeouts(give_up_after_s=600.0, settle_s=30.0, retry_s=5.0)
DEADLINE_S = 1600.0
NODES = node_names(4)
COMMENTS = CheckpointSpec(system_s=100.0)


def reserve(nodes: tuple[str, ...] = NODES) -> Reserve:
    return Reserve(
        job_id="u",
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        reservation="mw_u",
        nodes=nodes,
        duration_s=5000.0,
    )


def requeue(job_id: str, method: Method = Method.KILL, not_after_s: float = DEADLINE_S) -> Requeue:
    return Requeue(
        job_id=job_id,
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=method,
        not_after_s=not_after_s,
    )


def signal(job_id: str) -> Checkpoint:
    return Checkpoint(
        job_id=job_id,
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        signal="USR1",
        grace_s=300.0,
        walltime_s=36_300.0,
    )


def shrink(job_id: str, keep: tuple[str, ...]) -> Shrink:
    return Shrink(
        job_id=job_id,
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        keep_nodes=keep,
        walltime_s=7200.0,
    )


def begun(view: Cluster, *actions: Action, observe: bool = False) -> Operation:
    operation = open_operation(
        actions, view, operation_id="1", deadline_s=DEADLINE_S, timeouts=PATIENCE, observe=observe
    )
    validate(operation)
    return operation


def due(operation: Operation, view: Cluster) -> list[Action]:
    """Everything that is issued in one cycle, each answered with yes."""
    return issue_all(operation, view)[1]


def issue_all(operation: Operation, view: Cluster) -> tuple[Operation, list[Action]]:
    validate(operation)
    issued: list[Action] = []
    while (index := next_due(operation, view, PATIENCE)) is not None:
        issued.append(operation.tasks[index].action)
        operation = issuing(operation, index, view.now_s)
        operation = record(operation, index, Progress.ACCEPTED, view.now_s)
        validate(operation)
    return operation, issued


def holding(*jobs: Job, now_s: float = 1010.0) -> Cluster:
    """A view in which the hold exists and the urgent job waits in it."""
    return cluster(
        4,
        urgent("u", 4, reservation="mw_u"),
        *jobs,
        now_s=now_s,
        reservations=(held("u", NODES),),
    )


def held_operation(*actions: Action, spec: CheckpointSpec | None = COMMENTS) -> Operation:
    """An operation whose hold was seen at 1010 s, with `v` on all nodes."""
    view = cluster(4, urgent("u", 4), running("v", NODES, checkpoint=spec))
    operation, _ = issue_all(begun(view, reserve(), *actions), view)
    return advance(operation, holding(running("v", NODES, checkpoint=spec)), PATIENCE)


def lent_operation(*actions: Action) -> Operation:
    """An operation whose urgent job runs on all four nodes since 1020 s."""
    operation = held_operation(*actions)
    operation, _ = issue_all(operation, holding(running("v", NODES)))
    view = lent_view()
    return advance(operation, view, PATIENCE)


def lent_view(*jobs: Job, now_s: float = 1020.0) -> Cluster:
    lender = jobs or (pending("v", 4, requeue_count=1),)
    return cluster(
        4,
        running("u", NODES, start_s=1020.0),
        *lender,
        now_s=now_s,
        reservations=(held("u", NODES),),
    )


def after_view(*jobs: Job, reservations: bool = True, now_s: float = 2000.0) -> Cluster:
    """The urgent job is over."""
    return cluster(
        4,
        *jobs,
        now_s=now_s,
        reservations=(held("u", NODES),) if reservations else (),
    )
