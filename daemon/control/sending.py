"""Which of the commands that are due are sent in this cycle, and in which order.

What gives back goes first. What takes is sent only while the view that it was decided on is fresh. The first
command without an answer ends the cycle, and so does the limit of commands. If an eviction is refused, no
other job leaves for the same urgent job in this cycle: it may lack nodes by now. Whatever is left stays due:
the next cycle looks at the cluster again, and sends it if it is due still.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import assert_never

from makeway.daemon.control.executor import ActionReport, Executor
from makeway.daemon.control.permission import Permission
from makeway.daemon.control.report import Deferral, Deferred, LoopSettings
from makeway.daemon.journal.command_log import UNANSWERED_NOW, Outcome
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.changed.protected import called_off
from makeway.daemon.operation.due import all_due
from makeway.daemon.operation.tasks import is_eviction, planned_places
from makeway.daemon.operation.transitions import forbid
from makeway.policies.gate.arbiter import Verdict, arbitrate
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Expand,
    Operation,
    OperationKind,
    Prioritise,
    Progress,
    Release,
    Requeue,
    Reserve,
    RestoreLimit,
    RestorePriority,
    Shrink,
    memoise_each,
)


def gives_back(action: Action) -> bool:
    """Whether the action gives something back. Any other takes: from a job its nodes or its time, from the
    other jobs nodes or their turn.

    A job that a command has stopped, and that the cluster takes for ended, gets its place back by a requeue.
    """
    match action:
        case Release() | Expand() | RestorePriority() | RestoreLimit():
            return True
        case Prioritise():
            return action.queue_position is None and action.job_id != action.for_job_id
        case Requeue():
            return action.puts_back
        case Reserve() | Checkpoint() | Cancel() | Shrink():
            return False
        case _:
            assert_never(action)


@memoise_each
def _still_to_do(operation: Operation) -> frozenset[bool]:
    """Whether its actions that are still to be sent give something back: True for some, False for others."""
    return frozenset(gives_back(operation.tasks[place].action) for place in planned_places(operation))


@dataclass(slots=True)
class Sending:
    """The commands of one cycle.

    Args:
        executor: what sends them.
        journal: where the operations are.
        cluster: the view that they were decided on.
        settings: limits and waits.
        read_began_s: when the reading of that view began, by `clock`.
        clock: a monotonic clock, in seconds.
        permission: whether this daemon leads, and whether an operator has paused it.
    """

    executor: Executor
    journal: Journal
    cluster: Cluster
    settings: LoopSettings
    read_began_s: float
    clock: Callable[[], float]
    permission: Permission
    reports: list[ActionReport] = field(default_factory=list[ActionReport])
    """What became of each action."""
    _sent: int = 0
    _stopped: Deferral | None = None
    _refused: set[str] = field(default_factory=set[str])
    """The operations of which an eviction was refused: the policy decides again before others leave."""

    def send(self, *, takes: bool = True) -> None:
        """Send what is due of all operations. `takes`: whether also what takes something."""
        for giving in (True, False) if takes else (True,):
            # What is held for announced jobs first: they may have to give up nodes that a job which is here
            # needs.
            operations = [one for one in self.journal.open_operations() if giving in _still_to_do(one)]
            for operation in sorted(operations, key=lambda one: one.kind is not OperationKind.NOTICE):
                self._send_due(operation, giving=giving)

    def deferred(self) -> tuple[Deferred, ...]:
        """How many commands are due and were not sent, by why."""
        if not self._refused and self._deferral(gives=False) is None:
            return ()  # whatever was due was sent, for what gives back never waits longer
        reasons = [
            why
            for operation in filter(planned_places, self.journal.open_operations())
            for action in self._due(operation)
            if (why := self._deferral_of(operation, gives=gives_back(action))) is not None
        ]
        return tuple(Deferred(why=why, count=reasons.count(why)) for why in Deferral if reasons.count(why))

    def _send_due(self, operation: Operation, *, giving: bool) -> None:
        """Issue whatever of an operation is due and may be sent, one after another."""
        for _ in range(len(operation.tasks)):
            index = self._next(operation, giving=giving)
            if index is None:
                return
            verdict = arbitrate((operation.tasks[index].action,), self.cluster)[0]
            if verdict.refusal is not None:
                operation = forbid(operation, index, self.cluster.now_s, verdict.detail)
                self.journal.save(operation)
                self.reports.append(report_of_refusal(verdict))
                self._note_refusal(operation, index)
                continue
            operation, report = self.executor.issue(operation, index)
            self.reports.append(report)
            self._note_refusal(operation, index)
            self._sent += 1
            if report.outcome in UNANSWERED_NOW:
                self._stopped = Deferral.UNANSWERED
            elif self._sent == self.settings.commands_per_cycle:
                self._stopped = Deferral.LIMIT

    def _next(self, operation: Operation, *, giving: bool) -> int | None:
        """The index of the next task to send. None: there is none in this cycle."""
        due = all_due(operation, self.cluster, self.settings.timeouts)
        found = next((index for index in due if gives_back(operation.tasks[index].action) is giving), None)
        # Last, so that the lease is looked at right before the command.
        return found if found is None or self._deferral_of(operation, gives=giving) is None else None

    def _note_refusal(self, operation: Operation, index: int) -> None:
        task = operation.tasks[index]
        if is_eviction(task) and task.progress is Progress.REFUSED:
            self._refused.add(operation.operation_id)

    def _due(self, operation: Operation) -> list[Action]:
        due = all_due(operation, self.cluster, self.settings.timeouts)
        return [operation.tasks[index].action for index in due]

    def _deferral_of(self, operation: Operation, *, gives: bool) -> Deferral | None:
        """As `_deferral`, for an action of an operation."""
        refused = not gives and operation.operation_id in self._refused
        return Deferral.REFUSED if refused else self._deferral(gives=gives)

    def _deferral(self, *, gives: bool) -> Deferral | None:
        """Why an action has to wait for the next cycle. None: it may be sent now. `gives`: it gives back."""
        if self._stopped is not None:
            return self._stopped
        if not self.permission.may_act():
            return Deferral.NOT_LEADING
        if gives:
            return None
        if self.permission.paused:
            return Deferral.PAUSED
        limit_s = self.settings.view_age_max_s
        late = limit_s is not None and self.clock() - self.read_began_s > limit_s
        return Deferral.OLD_VIEW if late else None


def reports_of_protected(
    before: Iterable[Operation], after: Iterable[Operation], cluster: Cluster
) -> list[ActionReport]:
    """Reports of the evictions that this cycle has called off because their jobs may not be made to leave any
    more. `before`, `after`: the same operations, before and after they were brought up to date.
    """
    return [
        ActionReport(action=new.action, outcome=Outcome.REFUSED, refusal=refusal, detail=new.detail)
        for past, present in zip(before, after, strict=True)
        if past is not present and not past.observe
        for old, new in zip(past.tasks, present.tasks, strict=False)  # new tasks are added at the end
        if (refusal := called_off(old, new, cluster)) is not None
    ]


def report_of_refusal(verdict: Verdict) -> ActionReport:
    """The report of an action that the arbiter refused."""
    return ActionReport(
        action=verdict.action, outcome=Outcome.REFUSED, refusal=verdict.refusal, detail=verdict.detail
    )
