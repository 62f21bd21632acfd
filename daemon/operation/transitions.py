"""The life of one operation, from the hold to the return of the nodes, as pure functions of values.

An operation is a list of tasks, one action each. `advance` reads a snapshot and says how far every task is;
`due.next_due` says which task may be issued now; `record` notes the answer. Nothing here remembers an event: the same
operation and the same snapshot always give the same result, so a start after a crash goes on where the journal ends.

    reserve -> signal -> acknowledgement or grace over -> requeue or shrink -> nodes free -> the urgent job runs
            -> it ends -> expand, prioritise -> release

Two kinds of operations hold nodes for a start only, and let go of them when it is seen. A job that is started before its
turn keeps its operation until it ends or is evicted. The first job of the queue keeps what it has got, so its operation
gives back at once: who has made room for it goes first in the queue.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from makeway.daemon.operation.due import hold_index, hold_refused_s
from makeway.daemon.operation.observation import ENDED, UNACKNOWLEDGED, Timeouts, ended, observe, settled
from makeway.daemon.operation.returns import method_of, missing_returns
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Expand,
    Job,
    JobKind,
    JobState,
    Notice,
    Operation,
    Phase,
    Prioritise,
    Progress,
    Reason,
    Release,
    Requeue,
    Reserve,
    RestorePriority,
    Task,
    awaited,
    unbound,
)


def open_operation(
    actions: tuple[Action, ...],
    cluster: Cluster,
    *,
    deadline_s: float,
    timeouts: Timeouts,
    observe: bool,
    notice: Notice | None = None,
) -> Operation:
    """Begin an operation for a group of actions, all for the same job.

    Args:
        actions: what the policy wants, at least one; a `Reserve` in it makes the hold.
        deadline_s: when the urgent job should have started; for an announced one, when it should arrive; of a job that
            starts before its turn, when it may have to leave.
        observe: whether it is only to be recorded.
        notice: the announcement that they are for. None: they are for a job.
    """
    first = actions[0]
    hold = next((action for action in actions if isinstance(action, Reserve)), None)
    give_up_s = _give_up_s(deadline_s, cluster, timeouts, notice)
    if hold is not None and hold.reason is Reason.SPECULATIVE and not observe:
        # Its nodes are idle: if it does not start now, somebody else may.
        give_up_s = cluster.now_s + timeouts.refused_s
    return Operation(
        operation_id=f"{first.for_job_id}@{cluster.now_s:.3f}",
        for_job_id=first.for_job_id,
        policy=first.policy,
        reservation=hold.reservation if hold else "",
        nodes=hold.nodes if hold else (),
        opened_s=cluster.now_s,
        deadline_s=deadline_s,
        give_up_s=give_up_s,
        tasks=_plan(actions, cluster),
        observe=observe,
        notice=notice,
    )


def top_up(
    operation: Operation,
    actions: tuple[Action, ...],
    cluster: Cluster,
    *,
    deadline_s: float,
    timeouts: Timeouts,
) -> Operation:
    """Add what the policy wants: it makes up for nodes that were lost, or holds others for an announced job.

    A new hold replaces the old one. If it is the first one under the name of a job that was announced, the operation
    now waits for the job's start. A release turns the operation round. It is not given up before the new deadline has
    passed.
    """
    hold = next((action for action in actions if isinstance(action, Reserve)), None)
    if hold is not None and unbound(operation):
        operation = replace(
            operation, deadline_s=deadline_s, give_up_s=_give_up_s(deadline_s, cluster, timeouts, None)
        )
    tasks = tuple(
        ended(task, Progress.DROPPED, cluster.now_s, "replaced by a new hold")
        if hold is not None and isinstance(task.action, Reserve) and task.progress not in ENDED
        else task
        for task in operation.tasks
    )
    wanted = tuple(action for action in actions if not isinstance(action, Release))
    operation = replace(
        operation,
        nodes=hold.nodes if hold else operation.nodes,
        give_up_s=max(operation.give_up_s, deadline_s + timeouts.give_up_after_s),
        tasks=tasks + _plan(wanted, cluster, planned_s=cluster.now_s),
    )
    released = next((action.reason for action in actions if isinstance(action, Release)), None)
    return operation if released is None else give_back(operation, cluster, released, keep=wanted)


def advance(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> Operation:
    """Bring an operation up to date with a snapshot: what is seen done, and which phase that makes it.

    Returns the operation itself where nothing has changed.
    """
    jobs = cluster.jobs_by_id()
    if operation.observe:
        return _advance_observed(operation, cluster, jobs)
    if any(not settled(task, cluster.now_s) for task in operation.tasks):
        tasks = tuple(observe(task, cluster, jobs, timeouts) for task in operation.tasks)
        if tasks != operation.tasks:
            operation = replace(operation, tasks=tasks)
    match operation.phase:
        case Phase.MAKING_ROOM:
            operation = _advance_making_room(operation, cluster, jobs, timeouts)
        case Phase.LENT:
            borrower = jobs.get(operation.for_job_id)
            waits = borrower is not None and borrower.state is JobState.PENDING
            if borrower is None or (waits and not operation.keeps_hold):
                operation = give_back(operation, cluster, Reason.BORROWER_ENDED)
            elif waits:
                # A node failed under it, or a controller that crashed forgot its start: it needs its nodes still.
                operation = replace(operation, phase=Phase.MAKING_ROOM, started_s=None)
                operation = _advance_making_room(operation, cluster, jobs, timeouts)
        case Phase.RETURNING:
            if _waits_again(operation, cluster, jobs):
                operation = _turned_back(operation, cluster)
            else:
                operation = _advance_returning(operation, cluster)
        case Phase.CLOSED:
            pass
        case _:
            assert_never(operation.phase)
    if operation.phase is Phase.RETURNING and all(task.progress in ENDED for task in operation.tasks):
        operation = replace(operation, phase=Phase.CLOSED, outcome=_outcome(operation))
    return operation


def issuing(operation: Operation, index: int, now_s: float) -> Operation:
    """The operation as it is written down before the command of task `index` is sent.

    Whoever is made to leave has no time left to acknowledge: what comes after is not his own doing.
    """
    task = operation.tasks[index]
    if isinstance(task.action, Requeue | Cancel):
        job_id = task.action.job_id
        tasks = tuple(
            ended(other, Progress.DONE, now_s, UNACKNOWLEDGED)
            if isinstance(other.action, Checkpoint)
            and other.action.job_id == job_id
            and other.progress not in ENDED
            else other
            for other in operation.tasks
        )
        operation = replace(operation, tasks=tasks)
    return _with(operation, index, replace(task, progress=Progress.ISSUING, issued_s=now_s))


def record(operation: Operation, index: int, progress: Progress, now_s: float, detail: str = "") -> Operation:
    """The operation after the answer: ACCEPTED, REFUSED, GONE, PLANNED (try again) or ISSUING (no answer)."""
    task = operation.tasks[index]
    ended_s = now_s if progress in ENDED else None
    return _with(operation, index, replace(task, progress=progress, ended_s=ended_s, detail=detail))


def give_back(
    operation: Operation, cluster: Cluster, reason: Reason, *, keep: tuple[Action, ...] = ()
) -> Operation:
    """Turn an operation round: what was not yet done is dropped but for `keep`, what was taken goes back.

    Evictions that may have been carried out stay open until a snapshot tells.
    """
    tasks = tuple(
        ended(task, Progress.DROPPED, cluster.now_s, reason)
        if task.progress not in ENDED
        and task.action not in keep
        and (is_void(task) or method_of(task.action) is None)
        else task
        for task in operation.tasks
    )
    returns = missing_returns(operation, cluster, reason)
    return replace(
        operation,
        phase=Phase.RETURNING,
        ended_s=cluster.now_s,
        tasks=tasks + _plan(returns, cluster),
    )


def _give_up_s(deadline_s: float, cluster: Cluster, timeouts: Timeouts, notice: Notice | None) -> float:
    """Until when an operation waits: for an announced job, exactly as long as the announcement is kept."""
    from_s = deadline_s if notice is not None else max(deadline_s, cluster.now_s)
    return from_s + timeouts.give_up_after_s


def _plan(
    actions: tuple[Action, ...], cluster: Cluster, *, planned_s: float | None = None
) -> tuple[Task, ...]:
    """Tasks for actions, each with the run of the job that it means. `planned_s` None: with the operation."""
    jobs = cluster.jobs_by_id()
    tasks = []
    for action in actions:
        job = jobs.get(action.job_id)
        task = Task(action=action, planned_s=planned_s)
        if job is not None:
            task = replace(task, requeue_count=job.requeue_count, nodes=job.nodes)
        tasks.append(task)
    return tuple(tasks)


def is_void(task: Task) -> bool:
    """Whether a task need not be done any more once it is too late for it. One that was forgotten was done."""
    return task.progress is Progress.PLANNED and not task.forgotten


def _with(operation: Operation, index: int, task: Task) -> Operation:
    tasks = operation.tasks
    return replace(operation, tasks=(*tasks[:index], task, *tasks[index + 1 :]))


def _advance_making_room(
    operation: Operation, cluster: Cluster, jobs: Mapping[str, Job], timeouts: Timeouts
) -> Operation:
    borrower = jobs.get(operation.for_job_id)
    if not operation.reservation:
        # Without a hold nothing is lent: it is over with its tasks.
        over = all(task.progress in ENDED for task in operation.tasks)
        if not over or _refused_just_now(operation, cluster, timeouts):
            return operation
        return replace(operation, phase=Phase.RETURNING, ended_s=cluster.now_s)
    if borrower is None and not awaited(operation):
        return give_back(operation, cluster, Reason.BORROWER_GONE)
    if borrower is not None and borrower.state is not JobState.PENDING:
        tasks = tuple(
            ended(task, Progress.DROPPED, cluster.now_s, "the urgent job runs") if is_void(task) else task
            for task in operation.tasks
        )
        if operation.speculative and not set(borrower.nodes) <= set(operation.nodes):
            return give_back(operation, cluster, Reason.BORROWER_GONE)  # its turn came first
        started = replace(operation, phase=Phase.LENT, started_s=borrower.start_s, tasks=tasks)
        if operation.speculative:
            returns = missing_returns(started, cluster, Reason.STARTED)
            return replace(started, tasks=tasks + _plan(returns, cluster))
        return started if operation.keeps_hold else give_back(started, cluster, Reason.STARTED)
    refused_s = hold_refused_s(operation)
    over = refused_s is not None and cluster.now_s >= refused_s + timeouts.refused_s
    if over or cluster.now_s >= operation.give_up_s:
        return give_back(operation, cluster, Reason.GIVEN_UP)
    return _renew_hold(operation, borrower, cluster)


def _waits_again(operation: Operation, cluster: Cluster, jobs: Mapping[str, Job]) -> bool:
    """Whether the urgent job has run and waits again in its hold, which nobody has asked to end.

    A controller that crashed forgot that it had started, and will start it once more.
    """
    borrower = jobs.get(operation.for_job_id)
    return (
        operation.started_s is not None
        and operation.keeps_hold
        and cluster.now_s < operation.give_up_s
        and borrower is not None
        and borrower.state is JobState.PENDING
        and borrower.reservation == operation.reservation
        and any(reservation.name == operation.reservation for reservation in cluster.reservations)
        and all(is_void(task) for task in operation.tasks if isinstance(task.action, Release))
    )


def _turned_back(operation: Operation, cluster: Cluster) -> Operation:
    """The operation with its hold for the urgent job again; what was to go back goes back after its next end."""
    tasks = tuple(
        ended(task, Progress.DROPPED, cluster.now_s, "the urgent job waits again")
        if isinstance(task.action, Expand | Prioritise | Release) and is_void(task)
        else task
        for task in operation.tasks
    )
    return replace(operation, phase=Phase.MAKING_ROOM, started_s=None, ended_s=None, tasks=tasks)


def _refused_just_now(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> bool:
    """Whether a priority could not be given, or given back, just now: as long as this is open, it is not tried again."""
    return any(
        (
            isinstance(task.action, RestorePriority)
            or (isinstance(task.action, Prioritise) and task.action.queue_position is not None)
        )
        and task.progress is Progress.REFUSED
        and task.ended_s is not None
        and cluster.now_s < task.ended_s + timeouts.refused_s
        for task in operation.tasks
    )


def _advance_returning(operation: Operation, cluster: Cluster) -> Operation:
    """Nobody is asked to leave any more; whoever is now seen to have left gets a return of his own."""
    tasks = tuple(
        ended(task, Progress.DROPPED, cluster.now_s, "no longer needed")
        if is_void(task) and method_of(task.action) is not None
        else task
        for task in operation.tasks
    )
    if tasks != operation.tasks:
        operation = replace(operation, tasks=tasks)
    returns = missing_returns(operation, cluster, _return_reason(operation))
    return replace(operation, tasks=operation.tasks + _plan(returns, cluster)) if returns else operation


def _return_reason(operation: Operation) -> Reason:
    if operation.started_s is not None and not operation.keeps_hold:
        return Reason.STARTED
    return Reason.BORROWER_GONE if operation.started_s is None else Reason.BORROWER_ENDED


def _renew_hold(operation: Operation, borrower: Job | None, cluster: Cluster) -> Operation:
    """A hold that was seen is made again if it is there no more, or its job is bound to it no more.

    Somebody deleted it, or a controller that crashed forgot it. `borrower` None: the job has not arrived. Once it has,
    the hold is the policy's to make.
    """
    index = hold_index(operation)
    if index is None or operation.tasks[index].progress is not Progress.DONE or unbound(operation):
        return operation
    there = any(reservation.name == operation.reservation for reservation in cluster.reservations)
    if there and (borrower is None or borrower.reservation == operation.reservation):
        return operation
    lost = replace(
        operation.tasks[index], progress=Progress.PLANNED, ended_s=None, detail="the hold had vanished"
    )
    return _with(operation, index, lost)


def _advance_observed(operation: Operation, cluster: Cluster, jobs: Mapping[str, Job]) -> Operation:
    """An operation that is only told ends when its urgent job has started, has gone, or has waited too long.

    Where an urgent job has to wait although it would have been served, it is watched until it starts: by then its nodes would
    be lent, so they are promised to nobody any more.
    """
    borrower = jobs.get(operation.for_job_id)
    is_late = cluster.now_s >= operation.give_up_s
    is_urgent = borrower is not None and borrower.kind is JobKind.ON_DEMAND
    for_a_start = any(isinstance(task.action, Reserve | Prioritise) for task in operation.tasks)
    if awaited(operation) or not (operation.reservation or (is_urgent and for_a_start)):
        if not is_late:
            return operation
        outcome = "observed"
    elif borrower is None:
        outcome = "observed; the urgent job was gone before it started"
    elif borrower.state is not JobState.PENDING:
        outcome = "observed; the urgent job started without help"
        operation = replace(operation, started_s=borrower.start_s)
    elif not is_late or operation.phase is Phase.LENT:
        return operation
    elif is_urgent:
        return replace(operation, phase=Phase.LENT)
    else:
        outcome = "observed; the job still waits"
    return replace(operation, phase=Phase.CLOSED, ended_s=cluster.now_s, outcome=outcome)


def _outcome(operation: Operation) -> str:
    """One sentence on an operation that is over."""
    left = sum(
        1
        for task in operation.tasks
        if method_of(task.action) is not None and task.progress in (Progress.DONE, Progress.ACCEPTED)
    )
    lenders = f"{left} lender{'' if left == 1 else 's'}"
    if not operation.reservation:
        return "done"
    if operation.speculative:
        return "the job did not start" if operation.started_s is None else "the job ended, or left its nodes"
    if operation.started_s is None:
        return f"the urgent job did not start; {lenders} given back"
    late_s = operation.started_s - operation.deadline_s
    when = "on time" if late_s <= 0 else f"{late_s:.0f} s late"
    return f"the urgent job started {when}; {lenders} given back"
