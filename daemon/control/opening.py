"""From what was decided to operations: what the arbiter lets pass opens one, or is added to the open one. The
next task of an array gets one without a decision.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.beginning import extend, open_operation
from makeway.daemon.operation.changed.saving import awaiting, left_to
from makeway.daemon.operation.changed.spare_nodes import holds_with_spare_nodes
from makeway.daemon.operation.due import hold_index
from makeway.daemon.operation.handover import passed_on
from makeway.policies.gate.arbiter import Verdict, arbitrate
from makeway.policies.model import (
    Action,
    Cluster,
    Decision,
    Operation,
    OperationKind,
    Phase,
    Prioritise,
    Progress,
    Release,
    Reserve,
    kind_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What became of a decision."""

    operations: tuple[Operation, ...]
    """New operations, and open ones with more to do. Before them: open ones that leave to them the runs that
    are saving their work."""
    refused: tuple[Verdict, ...]
    """The actions that the arbiter refused."""
    observed: tuple[Action, ...]
    """The actions that are only recorded, because the mode is observe."""
    lost_node_s: float
    """Node-seconds of work that the evictions are expected to lose."""


NOTHING_OPENED: Final = Opening(operations=(), refused=(), observed=(), lost_node_s=0.0)
"""What becomes of a decision while nothing may be begun."""


def open_decided(decision: Decision, cluster: Cluster, settings: LoopSettings, journal: Journal) -> Opening:
    """Turn a decision into operations. The actions for one job pass together, or not at all. If the policy
    wants nothing, a hold may get nodes that have come free outside it.

    `journal` gives each new operation an id, and knows what was refused just now.
    """
    actions = decision.actions
    if not actions and settings.mode is Mode.ACT:
        answers = journal.hold_answers_since(cluster.now_s - settings.timeouts.refused_s)
        unchanged = frozenset(answer.hold.job_id for answer in answers if not answer.accepted)
        actions = holds_with_spare_nodes(cluster, unchanged)
    wanted = _not_refused(actions, cluster, settings, journal, among=_moves_to_front)
    if not wanted:
        return NOTHING_OPENED
    verdicts = arbitrate(wanted, cluster)
    refused = tuple(verdict for verdict in verdicts if not verdict.allowed)
    refused_jobs = {verdict.action.for_job_id for verdict in refused}
    reasons = {why.for_job_id: why for why in decision.rationale}
    operations: list[Operation] = []
    observed: list[Action] = []
    lost_node_s = 0.0
    saves = journal.save_requests(cluster.now_s)
    for for_job_id, actions in _by_job(wanted).items():
        if for_job_id in refused_jobs:
            continue
        existing = _extendable(actions, cluster)
        if existing is not None and _has_it(existing, actions, cluster):
            continue
        why = reasons.get(for_job_id)
        deadline_s = cluster.now_s if why is None else why.deadline_s
        operation = _open_or_extend(
            actions, existing, cluster, settings, journal.new_operation_id, deadline_s
        )
        operations.append(awaiting(operation, saves, cluster))
        if operation.observe:
            observed += actions
        elif why is not None:
            lost_node_s += why.loss_node_s
    leaving_it = left_to(operations, cluster.operations, cluster.now_s) if saves else ()
    return Opening(
        operations=(*leaving_it, *operations),
        refused=refused,
        observed=tuple(observed),
        lost_node_s=lost_node_s,
    )


def open_clean_up(
    actions: tuple[Action, ...], cluster: Cluster, settings: LoopSettings, journal: Journal
) -> tuple[Operation, ...]:
    """A new operation for each action that takes away what nothing needs any more. `journal`: see
    `open_decided`.

    None of them extends an open operation: no open operation does such an action, or it would not be needed.
    """
    new_id = journal.new_operation_id
    wanted = _not_refused(actions, cluster, settings, journal, among=lambda one: isinstance(one, Release))
    return tuple(
        _open_or_extend((action,), None, cluster, settings, new_id, deadline_s=cluster.now_s)
        for action in wanted
    )


def _not_refused(
    actions: tuple[Action, ...],
    cluster: Cluster,
    settings: LoopSettings,
    journal: Journal,
    *,
    among: Callable[[Action], bool],
) -> tuple[Action, ...]:
    """The actions without those of a kind that the cluster has refused just now. `among`: of which kind.

    It is needed where the operation of the refused action is over. Others stay open for as long.
    """
    since_s = cluster.now_s - settings.timeouts.refused_s
    return tuple(
        action
        for action in actions
        if not (among(action) and journal.was_refused(action.verb, action.job_id, since_s))
    )


def _moves_to_front(action: Action) -> bool:
    """Whether the action moves an urgent job to the front of the queue."""
    if not isinstance(action, Prioritise):
        return False
    return action.queue_position is None and action.job_id == action.for_job_id


def pass_on(
    operations: tuple[Operation, ...], seen: Cluster, settings: LoopSettings, journal: Journal
) -> tuple[Operation, ...]:
    """Let the next tasks of arrays, and jobs that waited for others, have the nodes of those that have ended:
    write that down, and return the operations, those of the ended ones closed.

    Nothing is passed on in observe mode: no operation holds nodes.
    """
    if settings.mode is Mode.OBSERVE:
        return operations
    found = passed_on(operations, seen, settings.timeouts, journal.new_operation_id)
    if not found:
        return operations
    for one in found:
        journal.save(one.closed, one.opened)  # together: each lender always has just one
    closed = {one.closed.operation_id: one.closed for one in found}
    return tuple(closed.get(operation.operation_id, operation) for operation in operations)


def _open_or_extend(
    actions: tuple[Action, ...],
    existing: Operation | None,
    cluster: Cluster,
    settings: LoopSettings,
    new_id: Callable[[], str],
    deadline_s: float,
) -> Operation:
    if existing is not None:
        return extend(existing, actions, cluster, deadline_s=deadline_s, timeouts=settings.timeouts)
    return open_operation(
        actions,
        cluster,
        operation_id=new_id(),
        deadline_s=deadline_s,
        timeouts=settings.timeouts,
        observe=settings.mode is Mode.OBSERVE,
    )


def _extendable(actions: tuple[Action, ...], cluster: Cluster) -> Operation | None:
    """The open operation that a group of actions belongs to: the one that holds nodes for its job, or one of
    its kind.
    """
    for operation in _making_room(actions, cluster):
        if operation.kind.holds_nodes:
            return operation
    return _same_kind(actions, cluster)


def _has_it(operation: Operation, actions: tuple[Action, ...], cluster: Cluster) -> bool:
    """Whether all that is wanted is the hold that the operation has already.

    The nodes were to come free for another job, whose evictions the arbiter refused. To make the same hold
    again would change nothing, in this cycle and in each one after it.
    """
    hold, *more = actions
    index, sets = hold_index(operation), cluster.node_sets()
    return (
        not more
        and isinstance(hold, Reserve)
        and hold.kind is operation.kind
        and sets.of(hold.nodes) == sets.of(operation.nodes)
        and index is not None
        and operation.tasks[index].progress is Progress.DONE
    )


def _same_kind(actions: tuple[Action, ...], cluster: Cluster) -> Operation | None:
    """An open operation without a hold, of the kind that the actions would open. One that is only observed
    stays as it is.
    """
    kind: OperationKind = kind_of(actions)
    for operation in _making_room(actions, cluster):
        if operation.kind is kind and not operation.kind.holds_nodes and not operation.observe:
            return operation
    return None


def _making_room(actions: tuple[Action, ...], cluster: Cluster) -> list[Operation]:
    for_job_id = actions[0].for_job_id
    return [
        operation
        for operation in cluster.operations
        if operation.for_job_id == for_job_id and operation.phase is Phase.MAKING_ROOM
    ]


def _by_job(actions: tuple[Action, ...]) -> dict[str, tuple[Action, ...]]:
    """Actions by the job that they are for, in the order of the decision."""
    groups: dict[str, tuple[Action, ...]] = {}
    for action in actions:
        groups[action.for_job_id] = (*groups.get(action.for_job_id, ()), action)
    return groups
