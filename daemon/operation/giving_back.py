"""How an operation gives back what it took."""

from makeway.daemon.operation.returns import method_of, missing_returns
from makeway.daemon.operation.tasks import (
    ENDED,
    ended,
    may_be_dropped,
    planned,
    requeue_themselves,
    signal_of,
)
from makeway.policies.model import (
    Action,
    Cluster,
    Ending,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Reason,
    Task,
    changed,
)


def give_back(
    operation: Operation, cluster: Cluster, reason: Reason, *, keep: tuple[Action, ...] = ()
) -> Operation:
    """Let an operation return what it took. What was not yet done is dropped, but for `keep`.

    Evictions that may have been carried out stay open until a snapshot shows whether they were. So do those
    of jobs that were signalled and will requeue themselves, which get back their turn.
    """
    leaving = requeue_themselves(operation, cluster)
    tasks = tuple(
        ended(task, Ending.TURNED_BACK, cluster.now_s)
        if task.progress not in ENDED
        and task.action not in keep
        and task.action.job_id not in leaving
        and (may_be_dropped(task) or method_of(task.action) is None)
        else task
        for task in operation.tasks
    )
    returns = missing_returns(operation, cluster, reason)
    return changed(
        operation,
        phase=Phase.RETURNING,
        ended_s=cluster.now_s,
        tasks=tasks + planned(returns, cluster),
    )


def give_everything_back(operation: Operation, cluster: Cluster) -> Operation:
    """Let an operation return what it took also while its urgent job runs, which then runs on without a hold.

    One that returns already, or that does nothing else, goes on as it is. So does one of observe mode.
    """
    returns = operation.phase in (Phase.RETURNING, Phase.CLOSED) or operation.kind is OperationKind.CLEAN_UP
    return operation if returns or operation.observe else give_back(operation, cluster, Reason.GIVEN_UP)


def go_on_returning(operation: Operation, cluster: Cluster) -> Operation:
    """Plan what has to go back by now. No job is asked to leave any more; one that is now seen to have left
    returns too.
    """
    tasks = tuple(
        ended(task, Ending.NOT_NEEDED, cluster.now_s)
        if may_be_dropped(task) and method_of(task.action) is not None and not _is_saving(operation, task)
        else task
        for task in operation.tasks
    )
    if tasks != operation.tasks:
        operation = changed(operation, tasks=tasks)
    returns = missing_returns(operation, cluster, _label(operation))
    return changed(operation, tasks=operation.tasks + planned(returns, cluster)) if returns else operation


def _is_saving(operation: Operation, eviction: Task) -> bool:
    """Whether the signal to the job of an eviction is not answered yet."""
    signal = signal_of(operation, eviction)
    return signal is not None and signal.progress in (Progress.ISSUING, Progress.ACCEPTED)


def _label(operation: Operation) -> Reason:
    if operation.started_s is None:
        return Reason.BORROWER_GONE
    return Reason.BORROWER_ENDED if operation.kind.holds_while_running else Reason.STARTED
