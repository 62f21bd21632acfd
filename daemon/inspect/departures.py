"""The departures that decisions want: which of them came about, and the totals of those that did."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from makeway.daemon.estimate.actual_losses import NO_COST, Cost, RunLoss
from makeway.daemon.inspect.summary_values import ActualTotals, LenderTotals
from makeway.daemon.operation.returns import method_of
from makeway.daemon.operation.signal_deaths import put_back_of
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Method,
    Operation,
    Progress,
    Rationale,
    Requeue,
    Reserve,
    Shrink,
    Task,
)
from makeway.policies.safety.prices import loss_node_s

_UNDER_WAY = frozenset({Progress.ISSUING, Progress.ACCEPTED})


class DepartureFate(Enum):
    """What became of a departure that was decided."""

    MADE = auto()
    """The job was made to leave, or may have been."""
    OBSERVED = auto()
    """In observe mode: the job would have been made to leave."""
    TO_COME = auto()
    """Its command is still to be sent."""
    CALLED_OFF = auto()
    """The job was not made to leave: the command was never sent, or was refused."""


def decided_for(operation: Operation) -> frozenset[tuple[str, float]]:
    """What was allowed to open and to extend an operation: the job, or the announcement, and the time of each
    decision. An announced job takes over the operation of its announcement, and a job that is submitted again
    that of the one before.
    """
    holds = (task.action for task in operation.tasks if isinstance(task.action, Reserve))
    names = {operation.for_job_id, *(hold.for_job_id for hold in holds)}
    if operation.notice is not None:
        names.add(operation.notice.notice_id)
    instants = {operation.opened_s, *(_planned_s(operation, task) for task in operation.tasks)}
    return frozenset((name, at_s) for name in names for at_s in instants)


def fate_of(
    action: Requeue | Cancel | Shrink, at_s: float, operations: Iterable[Operation], loss: RunLoss | None
) -> DepartureFate:
    """What became of a departure that a decision at `at_s` wants.

    Args:
        action: what makes the job leave, or shrink.
        at_s: when it was decided.
        operations: those that the decision opened or extended.
        loss: what was measured of it. None: nothing.
    """
    if loss is not None and loss.evicted:
        return DepartureFate.MADE
    fates = {
        _fate(operation, task)
        for operation in operations
        for task in operation.tasks
        if (task.action.verb, task.action.job_id) == (action.verb, action.job_id)
        and _planned_s(operation, task) == at_s
    }
    return next((fate for fate in DepartureFate if fate in fates), DepartureFate.CALLED_OFF)


def _planned_s(operation: Operation, task: Task) -> float:
    return operation.opened_s if task.planned_s is None else task.planned_s


def _fate(operation: Operation, task: Task) -> DepartureFate:
    if operation.observe:
        return DepartureFate.OBSERVED
    if task.progress in _UNDER_WAY:
        return DepartureFate.MADE
    if task.progress is Progress.PLANNED:
        return DepartureFate.TO_COME
    # A job that makeway's signal ended is put back by a task of its own.
    put_back = put_back_of(operation, task.action.job_id)
    if put_back is not None and put_back.progress in {*_UNDER_WAY, Progress.DONE}:
        return DepartureFate.MADE
    # A job may leave at the signal, before its command is sent.
    sent = task.issued_s is not None or _was_signalled(operation, task)
    return DepartureFate.MADE if sent and task.progress is Progress.DONE else DepartureFate.CALLED_OFF


def _was_signalled(operation: Operation, departure: Task) -> bool:
    return any(
        isinstance(task.action, Checkpoint)
        and task.issued_s is not None
        and task.action.job_id == departure.action.job_id
        and task.requeue_count == departure.requeue_count
        for task in operation.tasks
    )


def loss_as_made(
    why: Rationale, leaving: Sequence[Action], made: Sequence[Action], cluster: Cluster | None
) -> int:
    """Node-seconds of work that a decision expected the departures for one job to lose, as far as they were
    made. Without a snapshot a decision counts whole, if any departure was made.

    Args:
        why: the decision for the job.
        leaving: the departures that it wants, and others.
        made: those of them that were made.
        cluster: the snapshot of the decision. None: it was not kept.
    """
    if not any(action.for_job_id == why.for_job_id for action in made):
        return 0
    if cluster is None:
        return why.loss_node_s
    stayed = [one for one in leaving if one.for_job_id == why.for_job_id and one not in made]
    jobs = [cluster.jobs_by_id().get(one.job_id) for one in stayed if method_of(one) is Method.KILL]
    return why.loss_node_s - sum(loss_node_s(job, cluster.now_s) for job in jobs if job is not None)


@dataclass(slots=True)
class Leaving:
    """Lenders while they are counted."""

    jobs: set[str] = field(default_factory=set[str])
    departures: Counter[Method] = field(default_factory=Counter[Method])
    loss_node_s: int = 0
    expected: Cost = NO_COST
    actual: ActualTotals = field(default_factory=ActualTotals)
    postponed: int = 0

    def add(self, job_id: str, method: Method, expected: Cost) -> None:
        """Count one departure and the loss of work that was expected of it, but for `loss_node_s`."""
        self.jobs.add(job_id)
        self.departures[method] += 1
        self.expected = self.expected.plus(expected)

    def value(self) -> LenderTotals:
        """The totals so far."""
        return LenderTotals(
            jobs=len(self.jobs),
            departures=dict(sorted(self.departures.items())),
            loss_node_s=self.loss_node_s,
            loss_core_s=self.expected.core_s,
            loss_gpu_s=self.expected.gpu_s,
            actual=self.actual,
            postponed=self.postponed,
        )


def greatest_first(lenders: Mapping[str, Leaving]) -> dict[str, LenderTotals]:
    """The totals by name: the greatest loss first, expected or measured."""

    def order(entry: tuple[str, LenderTotals]) -> tuple[float, int, str]:
        name, totals = entry
        return -max(totals.loss_node_s, totals.actual.lost.node_s), -totals.jobs, name

    return dict(sorted(((name, found.value()) for name, found in lenders.items()), key=order))
