"""What must hold for an operation, whatever happened to it. The tests check it at every write of the
journal.
"""

from collections.abc import Iterator
from itertools import chain

from makeway.daemon.operation.tasks import ENDED, is_over
from makeway.policies.model import (
    Checkpoint,
    Operation,
    OperationKind,
    Phase,
    Prioritise,
    Progress,
    Reserve,
    Task,
    Verb,
)

_SERVING: frozenset[Verb] = frozenset(
    {"reserve", "checkpoint", "requeue", "cancel", "shrink", "expand", "prioritise", "release"}
)
_VERBS: dict[OperationKind, frozenset[Verb]] = {
    OperationKind.MAKE_WAY: _SERVING,
    OperationKind.MAKE_WAY_SHARED: _SERVING,
    OperationKind.NOTICE: _SERVING,
    OperationKind.ARRIVAL: _SERVING,
    OperationKind.QUEUE_HEAD: _SERVING,
    OperationKind.LEND_HELD: frozenset({"reserve", "release"}),
    OperationKind.EARLY_START: frozenset({"reserve", "release"}),
    OperationKind.FRONT: frozenset({"prioritise"}),
    OperationKind.REORDER: frozenset({"prioritise"}),
    OperationKind.CLEAN_UP: frozenset(
        {"release", "restore_priority", "restore_limit", "expand", "prioritise"}
    ),
}
"""The actions that an operation of each kind can have."""
_LENDS = frozenset(
    {
        OperationKind.MAKE_WAY,
        OperationKind.ARRIVAL,
        OperationKind.LEND_HELD,
        OperationKind.EARLY_START,
    }
)
"""The kinds whose operations stay open while their job runs."""


class InvalidOperation(AssertionError):
    """An operation that no sequence of decisions, snapshots and answers leads to: a defect."""


def validate(operation: Operation) -> None:
    """Check one operation.

    Raises:
        InvalidOperation: something does not hold; the message names the operation and says what.
    """
    for problem in chain(_of_kind(operation), _of_phase(operation), _of_tasks(operation)):
        raise InvalidOperation(
            f"operation {operation.operation_id} ({operation.kind}, {operation.phase}): {problem}"
        )


def _of_kind(operation: Operation) -> Iterator[str]:
    kind, notice = operation.kind, operation.notice
    holds = [task for task in operation.tasks if isinstance(task.action, Reserve)]
    if not (operation.operation_id and operation.for_job_id and operation.policy):
        yield "it has no id, no job, or no policy"
    if kind.holds_nodes != bool(operation.reservation) or kind.holds_nodes != bool(holds):
        yield f"its reservation is {operation.reservation!r}, and it has {len(holds)} tasks that make a hold"
    if holds and operation.nodes != _nodes_of(holds[-1]):
        yield "its nodes are not those of its latest hold"
    if sum(1 for hold in holds if hold.progress not in ENDED) > 1:
        yield "two holds are under way"
    if (kind is OperationKind.LEND_HELD) != bool(operation.out_of):
        yield f"its nodes are out of the holds {operation.out_of}"
    if kind is OperationKind.NOTICE and (notice is None or notice.notice_id != operation.for_job_id):
        yield "it is not for its announcement"
    if kind is OperationKind.ARRIVAL and (notice is None or notice.notice_id == operation.for_job_id):
        yield "it is not for the job that was announced"
    if notice is not None and kind not in (
        OperationKind.NOTICE,
        OperationKind.ARRIVAL,
        OperationKind.MAKE_WAY,
        OperationKind.MAKE_WAY_SHARED,
    ):
        yield "it has an announcement"


def _of_phase(operation: Operation) -> Iterator[str]:
    phase, kind = operation.phase, operation.kind
    over = phase in (Phase.RETURNING, Phase.CLOSED)
    if over != (operation.ended_s is not None):
        yield f"its job ended at {operation.ended_s}"
    if (phase is Phase.CLOSED) != (operation.outcome is not None):
        yield f"its outcome is {operation.outcome}"
    if phase is Phase.MAKING_ROOM and operation.started_s is not None:
        yield f"its job started at {operation.started_s}"
    if operation.give_up_s < operation.opened_s:
        yield "it was given up before it was opened"
    if operation.ended_s is not None and operation.ended_s < operation.opened_s:
        yield "it ended before it was opened"
    if operation.observe:
        if phase is Phase.RETURNING:
            yield "nothing was taken in observe mode"
        if phase is Phase.LENT and kind in (OperationKind.NOTICE, OperationKind.CLEAN_UP):
            yield "it has no job that could start"
        return
    if phase is Phase.LENT and (kind not in _LENDS or operation.started_s is None):
        yield f"its job started at {operation.started_s}"
    if phase is Phase.CLOSED and not is_over(operation):
        yield "tasks are under way"


def _of_tasks(operation: Operation) -> Iterator[str]:
    for task in operation.tasks:
        for problem in _of_task(operation, task):
            yield f"{task.action.verb} of job {task.action.job_id} ({task.progress}): {problem}"


def _of_task(operation: Operation, task: Task) -> Iterator[str]:
    action, over = task.action, task.progress in ENDED
    if action.verb not in _VERBS[operation.kind]:
        yield "an operation of this kind does not do that"
    if not over and action.for_job_id != operation.for_job_id:
        yield f"it is for job {action.for_job_id}"
    if over != (task.ending is not None) or over != (task.ended_s is not None):
        yield f"its ending is {task.ending}, at {task.ended_s}"
    if task.ending is not None and task.ending.progress is not task.progress:
        yield f"its ending is {task.ending}"
    if operation.observe and task.issued_s is not None:
        yield "it was issued in observe mode"
    if task.progress is Progress.ISSUING and task.issued_s is None:
        yield "it was never issued"
    # The signal to a run that was saving its work already is that of an earlier operation.
    issued_s = None if isinstance(action, Checkpoint) else task.issued_s
    for at_s in (task.planned_s, issued_s, task.ended_s):
        if at_s is not None and at_s < operation.opened_s:
            yield f"{at_s} is before the operation was opened"
    if isinstance(action, Prioritise) and not operation.kind.holds_nodes:
        in_order = action.queue_position is not None
        lender = action.job_id != action.for_job_id
        if in_order != (operation.kind is OperationKind.REORDER) or lender != (
            operation.kind is OperationKind.CLEAN_UP
        ):
            yield f"its position is {action.queue_position}"


def _nodes_of(hold: Task) -> tuple[str, ...]:
    return hold.action.nodes if isinstance(hold.action, Reserve) else ()
