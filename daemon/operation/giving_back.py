"""How an operation gives back what it took."""

from dataclasses import replace

from makeway.daemon.operation.returns import method_of, missing_returns
from makeway.daemon.operation.tasks import ENDED, ended, may_be_dropped, planned
from makeway.policies.model import Action, Cluster, Ending, Operation, Phase, Reason


def give_back(
    operation: Operation, cluster: Cluster, reason: Reason, *, keep: tuple[Action, ...] = ()
) -> Operation:
    """Let an operation return what it took. What was not yet done is dropped, but for `keep`.

    Evictions that may have been carried out stay open until a snapshot shows whether they were.
    """
    tasks = tuple(
        ended(task, Ending.TURNED_BACK, cluster.now_s)
        if task.progress not in ENDED
        and task.action not in keep
        and (may_be_dropped(task) or method_of(task.action) is None)
        else task
        for task in operation.tasks
    )
    returns = missing_returns(operation, cluster, reason)
    return replace(
        operation,
        phase=Phase.RETURNING,
        ended_s=cluster.now_s,
        tasks=tasks + planned(returns, cluster),
    )


def go_on_returning(operation: Operation, cluster: Cluster) -> Operation:
    """Plan what has to go back by now. No job is asked to leave any more; one that is now seen to have left
    returns too.
    """
    tasks = tuple(
        ended(task, Ending.NOT_NEEDED, cluster.now_s)
        if may_be_dropped(task) and method_of(task.action) is not None
        else task
        for task in operation.tasks
    )
    if tasks != operation.tasks:
        operation = replace(operation, tasks=tasks)
    returns = missing_returns(operation, cluster, _label(operation))
    return replace(operation, tasks=operation.tasks + planned(returns, cluster)) if returns else operation


def _label(operation: Operation) -> Reason:
    if operation.started_s is None:
        return Reason.BORROWER_GONE
    return Reason.BORROWER_ENDED if operation.kind.holds_while_running else Reason.STARTED
