"""How an operation is opened for a group of actions, and how more actions are added to it."""

from dataclasses import replace

from makeway.daemon.operation.fitness import was_signalled
from makeway.daemon.operation.giving_back import give_back
from makeway.daemon.operation.observation import Timeouts
from makeway.daemon.operation.tasks import ENDED, ended, planned
from makeway.policies.model import (
    Action,
    Cluster,
    Ending,
    Notice,
    Operation,
    OperationKind,
    Release,
    Reserve,
    kind_of,
)


def open_operation(
    actions: tuple[Action, ...],
    cluster: Cluster,
    *,
    operation_id: str,
    deadline_s: float,
    timeouts: Timeouts,
    observe: bool,
) -> Operation:
    """Begin an operation for a group of actions, all for the same job.

    Args:
        actions: what the policy wants, at least one; a `Reserve` among them makes the hold.
        cluster: the snapshot that they were decided on.
        operation_id: a new one.
        deadline_s: when the urgent job should have started; for an announced one, when it should arrive; of a
            job that starts before its turn, when it may have to leave.
        timeouts: how long it waits.
        observe: whether it is only recorded.
    """
    first = actions[0]
    kind = kind_of(actions)
    hold = _hold_in(actions)
    notice = _notice(hold, cluster) if kind is OperationKind.NOTICE else None
    job = cluster.jobs_by_id().get(first.for_job_id)
    give_up_s = _give_up_s(deadline_s, cluster, timeouts, notice)
    if kind.starts_early and not observe:
        # Its nodes are idle: if the job does not start now, another may.
        give_up_s = cluster.now_s + timeouts.refused_s
    return Operation(
        operation_id=operation_id,
        kind=kind,
        for_job_id=first.for_job_id,
        policy=first.policy,
        reservation=hold.reservation if hold else "",
        nodes=hold.nodes if hold else (),
        opened_s=cluster.now_s,
        deadline_s=deadline_s,
        give_up_s=give_up_s,
        tasks=planned(actions, cluster),
        observe=observe,
        notice=notice,
        out_of=hold.out_of if hold else (),
        array_job_id="" if job is None else job.array_job_id,
        user="" if job is None else job.user,
    )


def extend(
    operation: Operation,
    actions: tuple[Action, ...],
    cluster: Cluster,
    *,
    deadline_s: float,
    timeouts: Timeouts,
) -> Operation:
    """Add what the policy wants: it makes up for nodes that were lost, or holds others for an announced job.

    A new hold replaces the old one. The first hold for an announced job that has arrived is its own: the
    operation makes way for that job from then on. With a release, an operation that holds nodes gives back.
    It is not given up before the new deadline has passed. A run that the operation has signalled is signalled
    again only if it has saved its work since, and that save is out of date.
    """
    hold = _hold_in(actions)
    if hold is not None and operation.kind is OperationKind.ARRIVAL:
        operation = replace(
            operation,
            kind=hold.kind,
            deadline_s=deadline_s,
            give_up_s=_give_up_s(deadline_s, cluster, timeouts, None),
        )
    tasks = tuple(
        ended(task, Ending.REPLACED, cluster.now_s)
        if hold is not None and isinstance(task.action, Reserve) and task.progress not in ENDED
        else task
        for task in operation.tasks
    )
    # Without a hold of its own, an operation has nothing to give back: it releases what it is asked to.
    releases = [action for action in actions if operation.kind.holds_nodes and isinstance(action, Release)]
    wanted = tuple(
        action
        for action in actions
        if action not in releases and not was_signalled(operation, action, cluster)
    )
    operation = replace(
        operation,
        nodes=hold.nodes if hold else operation.nodes,
        give_up_s=max(operation.give_up_s, deadline_s + timeouts.give_up_after_s),
        tasks=tasks + planned(wanted, cluster, planned_s=cluster.now_s),
    )
    return give_back(operation, cluster, releases[0].reason, keep=wanted) if releases else operation


def _hold_in(actions: tuple[Action, ...]) -> Reserve | None:
    return next((action for action in actions if isinstance(action, Reserve)), None)


def _notice(hold: Reserve | None, cluster: Cluster) -> Notice | None:
    """The announcement that a hold is for."""
    if hold is None:
        return None
    return next((notice for notice in cluster.notices if notice.notice_id == hold.job_id), None)


def _give_up_s(deadline_s: float, cluster: Cluster, timeouts: Timeouts, notice: Notice | None) -> float:
    """Until when an operation waits: for an announced job, exactly as long as the announcement is kept."""
    from_s = deadline_s if notice is not None else max(deadline_s, cluster.now_s)
    return from_s + timeouts.give_up_after_s
