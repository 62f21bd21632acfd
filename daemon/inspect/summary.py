"""What the daemon decided over some time, and what became of it: the basis for the choice between observe and
act.

Reads the journal only. In observe mode the starts are those that plain Slurm gave the urgent jobs, and the
summary also says when their nodes would have been free. In act mode they are the starts that the daemon
brought about, and the losses that were measured are next to those that the decisions expected.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean

from makeway.daemon.estimate.actual_losses import NO_COST, Cost, RunLoss
from makeway.daemon.inspect.losses import expected_cost
from makeway.daemon.journal.codec import StoredDecision
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.store import Journal
from makeway.policies.model import (
    Action,
    Cancel,
    Cluster,
    JobKind,
    Method,
    Operation,
    OperationKind,
    Phase,
    Rationale,
    Requeue,
    Reserve,
    Shrink,
    kind_of,
)
from makeway.policies.safety.prices import loss_node_s

_URGENT_KINDS = frozenset({OperationKind.MAKE_WAY, OperationKind.MAKE_WAY_SHARED, OperationKind.FRONT})
UNKNOWN = "unknown"
"""The account of a job whose snapshot was not kept."""
UNKNOWN_COST = Cost(node_s=0.0, core_s=None, gpu_s=None)


class UrgentAnswer(StrEnum):
    """What was decided for an urgent job."""

    FREE = "free"  # free nodes are enough
    ROOM = "room"  # other jobs have to leave or shrink
    NONE = "none"  # no choice of jobs makes it start in time


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentJobSummary:
    """One urgent job in the summary."""

    job_id: str
    user: str
    account: str
    node_count: int
    decided_s: float
    """When the first decision about it was taken."""
    waits_since_s: float
    """When it became eligible; equal to `decided_s` if the snapshot was not kept."""
    deadline_s: float
    answer: UrgentAnswer
    ready_s: float | None
    """When its nodes were expected to be free. None: never."""
    started_s: float | None
    """When it started. None: no start was seen."""
    still_waiting: bool
    """Whether its operation is still open, so that a start may yet come."""

    @property
    def expected_on_time(self) -> bool:
        """Whether its nodes were expected in time."""
        return self.ready_s is not None and self.ready_s <= self.deadline_s

    @property
    def started_on_time(self) -> bool:
        """Whether it started in time."""
        return self.started_s is not None and self.started_s <= self.deadline_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualTotals:
    """What was measured of lenders after they had left."""

    departures: int = 0
    """How many departures were measured."""
    lost: Cost = NO_COST
    """Work that is lost."""
    overhead: Cost = NO_COST
    """Requested checkpoints, and setups that have to be repeated although the work is saved."""

    def plus(self, loss: RunLoss) -> "ActualTotals":
        """With what one more run cost."""
        return ActualTotals(
            departures=self.departures + loss.evicted,
            lost=self.lost.plus(loss.lost),
            overhead=self.overhead.plus(loss.overhead),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LenderTotals:
    """What was decided for the lenders of one account, or of all accounts."""

    jobs: int
    """Number of different jobs."""
    departures: Mapping[Method, int]
    """How often one was to leave or to shrink, by method."""
    loss_node_s: int
    """Node-seconds of work that were expected to be lost. For one account: as far as the snapshots
    were kept.
    """
    loss_core_s: float | None
    """CPU-seconds of work that were expected to be lost. None: unknown of some of them."""
    loss_gpu_s: float | None
    """GPU-seconds of work that were expected to be lost. None: unknown of some of them."""
    actual: ActualTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTotals:
    """What became of the actions with one verb and one reason."""

    verb: str
    reason: str
    decided: int
    sent: int
    """Number of commands. It may exceed `decided`: commands are repeated, and policies do not decide on
    returns.
    """
    accepted: int
    refused: int
    """Rejected by the cluster, or never answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSummary:
    """The whole summary."""

    from_s: float
    to_s: float
    decisions: int
    policies: tuple[str, ...]
    observed: int
    """Operations that were opened in observe mode."""
    acted: int
    """Operations that were opened in act mode."""
    urgent: tuple[UrgentJobSummary, ...]
    """In the order of their first decisions."""
    lenders: Mapping[str, LenderTotals]
    """By account, greatest loss first."""
    all_lenders: LenderTotals
    actions: tuple[ActionTotals, ...]

    def expected_wait_s(self) -> float | None:
        """Mean time from submission until the nodes were expected to be free, of the jobs that were served.
        None: none was.
        """
        waits = [
            max(job.ready_s, job.waits_since_s) - job.waits_since_s
            for job in self.urgent
            if job.ready_s is not None
        ]
        return fmean(waits) if waits else None

    def actual_wait_s(self) -> float | None:
        """Mean time from submission to start, of the jobs whose start was seen. None: none was."""
        waits = [job.started_s - job.waits_since_s for job in self.urgent if job.started_s is not None]
        return fmean(waits) if waits else None


def summarise(journal: Journal, since_s: float | None) -> DecisionSummary | None:
    """Summarise the last `since_s` seconds before the newest decision of a journal. None for `since_s`: all
    of it.

    Returns: None if no decision is stored.
    """
    newest = journal.decisions(1)
    if not newest:
        return None
    to_s = newest[0].at_s
    from_s = float("-inf") if since_s is None else to_s - since_s
    decisions = journal.decisions_since(from_s)
    operations = journal.operations_since(from_s)
    tally = _Tally(journal, operations, from_s)
    for stored in decisions:
        tally.add(stored)
    return DecisionSummary(
        from_s=min(stored.at_s for stored in decisions),
        to_s=to_s,
        decisions=len(decisions),
        policies=tuple(dict.fromkeys(stored.decision.policy for stored in decisions)),
        observed=sum(1 for operation in operations if operation.observe),
        acted=sum(1 for operation in operations if not operation.observe),
        urgent=tuple(tally.urgent.values()),
        lenders=dict(
            sorted(
                ((account, found.value()) for account, found in tally.accounts.items()),
                key=lambda entry: (-entry[1].loss_node_s, -entry[1].jobs, entry[0]),
            )
        ),
        all_lenders=tally.all_lenders.value(),
        actions=_action_totals(decisions, tally.allowed, journal, from_s),
    )


@dataclass(slots=True)
class _Leaving:
    """Lenders while they are counted."""

    jobs: set[str]
    departures: Counter[Method]
    loss_node_s: int = 0
    expected: Cost = NO_COST
    actual: ActualTotals = field(default_factory=ActualTotals)

    def value(self) -> LenderTotals:
        return LenderTotals(
            jobs=len(self.jobs),
            departures=dict(sorted(self.departures.items())),
            loss_node_s=self.loss_node_s,
            loss_core_s=self.expected.core_s,
            loss_gpu_s=self.expected.gpu_s,
            actual=self.actual,
        )


class _Tally:
    """Counts decisions one by one, so that only one snapshot at a time is in memory."""

    def __init__(self, journal: Journal, operations: Iterable[Operation], from_s: float) -> None:
        self._journal = journal
        self._losses = {(job_id, loss.run.decided_s): loss for job_id, loss in journal.losses(from_s)}
        self._operations: dict[str, list[Operation]] = {}
        self.allowed: set[tuple[str, float]] = set()
        """Job and time of every opening or extension of an operation: the decisions that the arbiter
        allowed.
        """
        for operation in operations:
            self._operations.setdefault(operation.for_job_id, []).append(operation)
            instants = {operation.opened_s, *(task.planned_s for task in operation.tasks)}
            self.allowed |= {(operation.for_job_id, at_s) for at_s in instants if at_s is not None}
        self.urgent: dict[str, UrgentJobSummary] = {}
        self.accounts: dict[str, _Leaving] = {}
        self.all_lenders = _Leaving(set(), Counter())

    def add(self, stored: StoredDecision) -> None:
        """Count a decision."""
        actions = [one for one in stored.decision.actions if (one.for_job_id, stored.at_s) in self.allowed]
        leaving = [action for action in actions if isinstance(action, Requeue | Cancel | Shrink)]
        new = [why for why in stored.decision.rationale if self._is_new(why, stored)]
        cluster: Cluster | None = None
        if leaving or new:
            whole = self._journal.decision(stored.decision_id)
            cluster = None if whole is None else whole.cluster
        for why in new:
            self._add_urgent(why, stored, cluster)
        for action in leaving:
            self._add_lender(action, cluster, self._losses.get((action.job_id, stored.at_s)))
        self.all_lenders.loss_node_s += sum(
            why.loss_node_s
            for why in stored.decision.rationale
            if any(action.for_job_id == why.for_job_id for action in leaving)
        )

    def _is_new(self, why: Rationale, stored: StoredDecision) -> bool:
        """Whether it is the first rationale about its job, or the first that serves it."""
        known = self.urgent.get(why.for_job_id)
        return known is None or (
            known.answer is UrgentAnswer.NONE and bool(_served(why, stored.decision.actions))
        )

    def _add_urgent(self, why: Rationale, stored: StoredDecision, cluster: Cluster | None) -> None:
        mine = tuple(action for action in stored.decision.actions if action.for_job_id == why.for_job_id)
        job = None if cluster is None else cluster.jobs_by_id().get(why.for_job_id)
        if job is None and (cluster is not None or kind_of(mine) not in _URGENT_KINDS):
            return  # announced and not submitted yet, or not urgent
        if job is not None and job.kind is not JobKind.ON_DEMAND:
            return
        known = self.urgent.get(why.for_job_id)
        served = (
            _served(why, stored.decision.actions) if (why.for_job_id, stored.at_s) in self.allowed else None
        )
        operations = self._operations.get(why.for_job_id, [])
        started = [operation.started_s for operation in operations if operation.started_s is not None]
        self.urgent[why.for_job_id] = UrgentJobSummary(
            job_id=why.for_job_id,
            user=UNKNOWN if job is None else job.user,
            account=UNKNOWN if job is None else job.account,
            node_count=why.node_count,
            decided_s=stored.at_s if known is None else known.decided_s,
            waits_since_s=stored.at_s if job is None else job.waits_since_s,
            deadline_s=why.deadline_s,
            answer=served or UrgentAnswer.NONE,
            ready_s=why.ready_s if served else None,
            started_s=max(started, default=None),
            still_waiting=any(operation.phase is not Phase.CLOSED for operation in operations),
        )

    def _add_lender(
        self, action: Requeue | Cancel | Shrink, cluster: Cluster | None, actual: RunLoss | None
    ) -> None:
        job = None if cluster is None else cluster.jobs_by_id().get(action.job_id)
        account = UNKNOWN if job is None else job.account
        method = Method.SHRINK if isinstance(action, Shrink) else action.method
        lost = self.accounts.setdefault(account, _Leaving(set(), Counter()))
        if job is not None and cluster is not None and method is Method.KILL:
            lost.loss_node_s += loss_node_s(job, cluster.now_s)
        expected = expected_cost(action, cluster, actual)
        for found in (lost, self.all_lenders):
            found.expected = found.expected.plus(UNKNOWN_COST if expected is None else expected)
            if actual is not None:
                found.actual = found.actual.plus(actual)
            found.jobs.add(action.job_id)
            found.departures[method] += 1


def _served(why: Rationale, actions: Iterable[Action]) -> UrgentAnswer | None:
    """How a decision serves a job. None: it does not."""
    mine = [action for action in actions if action.for_job_id == why.for_job_id]
    if not any(isinstance(action, Reserve) for action in mine):
        return None
    leaves = any(isinstance(action, Requeue | Cancel | Shrink) for action in mine)
    return UrgentAnswer.ROOM if leaves else UrgentAnswer.FREE


def _action_totals(
    decisions: Iterable[StoredDecision], allowed: set[tuple[str, float]], journal: Journal, from_s: float
) -> tuple[ActionTotals, ...]:
    """What was decided and allowed, what was sent, and what was accepted, by verb and reason."""
    decided: Counter[tuple[str, str]] = Counter(
        (action.verb, str(action.reason))
        for stored in decisions
        for action in stored.decision.actions
        if (action.for_job_id, stored.at_s) in allowed
    )
    sent: Counter[tuple[str, str]] = Counter()
    accepted: Counter[tuple[str, str]] = Counter()
    refused: Counter[tuple[str, str]] = Counter()
    for command in journal.commands_since(from_s):
        sort = (command.action.verb, str(command.action.reason))
        sent[sort] += 1
        accepted[sort] += command.outcome == Outcome.ACCEPTED
        refused[sort] += command.outcome in {None, Outcome.REJECTED, Outcome.IN_DOUBT, Outcome.UNSENT}
    return tuple(
        ActionTotals(
            verb=verb,
            reason=reason,
            decided=decided[verb, reason],
            sent=sent[verb, reason],
            accepted=accepted[verb, reason],
            refused=refused[verb, reason],
        )
        for verb, reason in sorted(decided.keys() | sent.keys())
    )
