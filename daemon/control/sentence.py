"""What a cycle did, in the one sentence that is logged, and what an operation came to."""

from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType
from typing import assert_never

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.executor import ActionReport
from makeway.daemon.control.report import Deferral, Deferred
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.operation.handover import was_passed_on
from makeway.daemon.operation.returns import method_of
from makeway.policies.model import (
    Expand,
    Operation,
    OperationKind,
    OperationOutcome,
    Prioritise,
    Progress,
    Reason,
    Requeue,
    Shrink,
    Task,
)

_WHY_DEFERRED = MappingProxyType(
    {
        Deferral.UNANSWERED: "the cluster does not answer",
        Deferral.LIMIT: "the limit of commands in a cycle is reached",
        Deferral.OLD_VIEW: "the view of the cluster is too old",
        Deferral.NOT_LEADING: "the lease of this daemon ends too soon, or has ended",
        Deferral.PAUSED: "makeway is paused",
        Deferral.REFUSED: "another eviction for the same job was refused",
    }
)


def sentence_of(
    mode: Mode,
    waiting: int,
    reports: Sequence[ActionReport],
    started: Sequence[Operation],
    closed: Sequence[Operation],
    deferred: Sequence[Deferred],
    open_count: int,
    planning_failure: str | None,
    notes: Sequence[str] = (),
) -> str:
    """What a cycle did, in the words of the log.

    Args:
        planning_failure: None: no plan failed.
        notes: what else is new; one that is empty says nothing.
    """
    parts = [*filter(None, notes), f"{waiting} urgent waiting"]
    done = Counter((report.outcome, report.action.verb) for report in reports)
    parts += [f"{outcome.replace('_', ' ')} {verb} ×{count}" for (outcome, verb), count in done.items()]
    parts += [
        _put_back(one.action)
        for one in reports
        if isinstance(one.action, Requeue) and one.action.puts_back and one.outcome is Outcome.ACCEPTED
    ]
    parts += [f"{one.count} not sent: {_WHY_DEFERRED[one.why]}" for one in deferred]
    parts += [_start(operation) for operation in started]
    parts += [
        f"operation for {operation.for_job_id} closed: {outcome_text(operation)}"
        for operation in closed
        if operation.kind.holds_nodes
    ]
    if planning_failure is not None:
        parts.append(f"no new plan: {planning_failure}")
    parts.append(f"{open_count} operation{'' if open_count == 1 else 's'} open")
    return f"{mode}: " + "; ".join(parts)


def _put_back(action: Requeue) -> str:
    if action.reason is Reason.ENDED_BY_SIGNAL:
        why = "it has no handler for it, or its own requeue was forgotten"
        return f"job {action.job_id} ended at the signal and is put back: {why}"
    return f"the controller has forgotten the requeue of job {action.job_id}, which is put back"


def outcome_text(operation: Operation) -> str:
    """What an operation came to, for a reader."""
    match operation.outcome:
        case None:
            return "not closed"
        case OperationOutcome.DONE:
            return "done"
        case OperationOutcome.EXPIRED:
            return "observed"
        case OperationOutcome.ARRIVED:
            return "observed; the announced job has arrived"
        case OperationOutcome.STILL_WAITS:
            return "observed; the job still waits"
        case OperationOutcome.MODE_CHANGED:
            return "observed until the mode became act"
        case OperationOutcome.LED_ELSEWHERE:
            return "another daemon leads now, and gives back what was taken"
        case OperationOutcome.NOT_STARTED:
            return _not_started(operation)
        case OperationOutcome.STARTED:
            return _started(operation)
        case _:
            assert_never(operation.outcome)


def _not_started(operation: Operation) -> str:
    if operation.observe:
        return "observed; the urgent job was gone before it started"
    if operation.kind.starts_early:
        return "the job did not start"
    return f"the urgent job did not start; {_nodes_now(operation)}"


def _started(operation: Operation) -> str:
    if operation.observe:
        return "observed; the urgent job started without help"
    if operation.kind.starts_early:
        return "the job ended, or left its nodes"
    late_s = 0.0 if operation.started_s is None else operation.started_s - operation.deadline_s
    when = "on time" if late_s <= 0 else f"{late_s:.0f} s late"
    return f"the urgent job started {when}; {_nodes_now(operation)}"


def _nodes_now(operation: Operation) -> str:
    """Who has the nodes of an operation that is over."""
    if was_passed_on(operation):
        return (
            f"the next {'task of its array' if operation.array_job_id else 'job of its user'} has its nodes"
        )
    return f"{_lenders(operation)} given back"


def _lenders(operation: Operation) -> str:
    """How many jobs had left, and how many of them were given back what can be given back."""
    left = {
        task.action.job_id: task
        for task in operation.tasks
        if method_of(task.action) is not None and task.progress in (Progress.DONE, Progress.ACCEPTED)
    }
    missing = sum(_misses(operation, task) for task in left.values())
    some = f"{len(left) - missing} of " if missing else ""
    return f"{some}{len(left)} lender{'' if len(left) == 1 else 's'}"


def _misses(operation: Operation, left: Task) -> bool:
    """Whether a job that had left did not get its nodes or its turn back: the cluster refused it, or lets no
    job grow.
    """
    given = [
        task
        for task in operation.tasks
        if isinstance(task.action, Expand | Prioritise) and task.action.job_id == left.action.job_id
    ]
    if not given:
        return isinstance(left.action, Shrink)
    return given[-1].progress is Progress.REFUSED


def _start(operation: Operation) -> str:
    """That the job of an operation has started, in the words of the log."""
    if operation.kind.starts_early:
        return f"job {operation.for_job_id} started before its turn"
    if operation.kind is OperationKind.QUEUE_HEAD:
        return f"job {operation.for_job_id}, first of the queue, started"
    return f"urgent job {operation.for_job_id} started"
