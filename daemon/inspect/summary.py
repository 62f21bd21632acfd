"""What the daemon decided over some time, and what became of it: for whoever has let it observe and thinks of more.

Pure but for the journal that it reads. In observe mode the starts are those that plain Slurm gave the urgent jobs; beside
them stands when the nodes would have been free. In act mode they are the starts that the daemon made.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from makeway.daemon.journal.codec import StoredDecision
from makeway.daemon.journal.store import Journal
from makeway.policies.common.losses import loss_node_s
from makeway.policies.model import (
    Action,
    Cancel,
    Cluster,
    JobKind,
    Method,
    Operation,
    Phase,
    Rationale,
    Reason,
    Requeue,
    Reserve,
    Shrink,
)

_URGENT_REASONS = frozenset({Reason.URGENT_ARRIVAL, Reason.URGENT_FITS, Reason.NO_ROOM, Reason.SHORTFALL})
UNKNOWN = "unknown"
"""The account of a job whose snapshot was not kept."""


class Answer(StrEnum):
    """What was decided for an urgent job."""

    FREE = "free"  # free nodes are enough
    ROOM = "room"  # somebody has to leave
    NONE = "none"  # nobody can be asked so that it starts in time


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentJob:
    """One urgent job."""

    job_id: str
    user: str
    account: str
    node_count: int
    asked_s: float
    """When it was first decided about."""
    submit_s: float
    """When it was submitted; as `asked_s` where the snapshot was not kept."""
    deadline_s: float
    answer: Answer
    ready_s: float | None
    """When its nodes were to be free. None: not at all."""
    started_s: float | None
    """When it started. None: that was not seen."""
    waits_yet: bool
    """Whether nothing is known of its start because it is too early to know."""

    @property
    def promised_on_time(self) -> bool:
        """Whether the decision was to start it in time."""
        return self.ready_s is not None and self.ready_s <= self.deadline_s

    @property
    def started_on_time(self) -> bool:
        """Whether it was seen to start in time."""
        return self.started_s is not None and self.started_s <= self.deadline_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Lenders:
    """What was decided for the jobs of one account, or of all."""

    jobs: int
    """How many different ones."""
    departures: Mapping[Method, int]
    """How often one was to leave, or to shrink, by the way in which."""
    loss_node_s: int
    """Node-seconds of work that were expected to be lost. An account's: as far as the snapshots were kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deeds:
    """What became of the actions of one sort."""

    verb: str
    reason: str
    decided: int
    sent: int
    """How many commands: one may be sent again, and returns are decided by no policy."""
    accepted: int
    refused: int
    """Not accepted by the cluster, or never answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Everything."""

    from_s: float
    to_s: float
    decisions: int
    policies: tuple[str, ...]
    observed: int
    """Operations of observe mode."""
    acted: int
    """Operations of act mode."""
    urgent: tuple[UrgentJob, ...]
    """By the instant of the first decision."""
    lenders: Mapping[str, Lenders]
    """By account, the greatest loss first."""
    everybody: Lenders
    deeds: tuple[Deeds, ...]

    def promised_wait_s(self) -> float | None:
        """Mean time from submission until the nodes were to be free, of the jobs that were promised any. None: none was."""
        waits = [
            max(job.ready_s, job.submit_s) - job.submit_s for job in self.urgent if job.ready_s is not None
        ]
        return fmean(waits) if waits else None

    def seen_wait_s(self) -> float | None:
        """Mean time from submission to start, of the jobs that were seen to start. None: none was."""
        waits = [job.started_s - job.submit_s for job in self.urgent if job.started_s is not None]
        return fmean(waits) if waits else None


def summarise(journal: Journal, since_s: float | None) -> Summary | None:
    """What the journal holds of the last `since_s` seconds before its newest decision. None for `since_s`: of all time.

    Returns: None if no decision was stored.
    """
    newest = journal.decisions(1)
    if not newest:
        return None
    to_s = newest[0].at_s
    from_s = float("-inf") if since_s is None else to_s - since_s
    decisions = journal.decisions_since(from_s)
    operations = journal.operations_since(from_s)
    tally = _Tally(journal, operations)
    for stored in decisions:
        tally.add(stored)
    return Summary(
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
        everybody=tally.everybody.value(),
        deeds=_deeds(decisions, tally.allowed, journal, from_s),
    )


@dataclass(slots=True)
class _Leaving:
    """Lenders while they are counted."""

    jobs: set[str]
    departures: Counter[Method]
    loss_node_s: int = 0

    def value(self) -> Lenders:
        return Lenders(
            jobs=len(self.jobs),
            departures=dict(sorted(self.departures.items())),
            loss_node_s=self.loss_node_s,
        )


class _Tally:
    """Counts decisions one after another, so that one snapshot at a time is in memory."""

    def __init__(self, journal: Journal, operations: Iterable[Operation]) -> None:
        self._journal = journal
        self._operations: dict[str, list[Operation]] = {}
        self.allowed: set[tuple[str, float]] = set()
        """For which job, and when, an operation was opened or topped up: what the arbiter let pass."""
        for operation in operations:
            self._operations.setdefault(operation.for_job_id, []).append(operation)
            instants = {operation.opened_s, *(task.planned_s for task in operation.tasks)}
            self.allowed |= {(operation.for_job_id, at_s) for at_s in instants if at_s is not None}
        self.urgent: dict[str, UrgentJob] = {}
        self.accounts: dict[str, _Leaving] = {}
        self.everybody = _Leaving(set(), Counter())

    def add(self, stored: StoredDecision) -> None:
        """Count a decision."""
        actions = [one for one in stored.decision.actions if (one.for_job_id, stored.at_s) in self.allowed]
        leaving = [action for action in actions if isinstance(action, Requeue | Cancel | Shrink)]
        news = [why for why in stored.decision.rationale if self._is_news(why, stored)]
        cluster: Cluster | None = None
        if leaving or news:
            whole = self._journal.decision(stored.decision_id)
            cluster = None if whole is None else whole.cluster
        for why in news:
            self._note(why, stored, cluster)
        for action in leaving:
            self._leave(action, cluster)
        self.everybody.loss_node_s += sum(
            why.loss_node_s
            for why in stored.decision.rationale
            if any(action.for_job_id == why.for_job_id for action in leaving)
        )

    def _is_news(self, why: Rationale, stored: StoredDecision) -> bool:
        """Whether it is the first one about its job, or the first that serves it."""
        known = self.urgent.get(why.for_job_id)
        return known is None or (known.answer is Answer.NONE and bool(_served(why, stored.decision.actions)))

    def _note(self, why: Rationale, stored: StoredDecision, cluster: Cluster | None) -> None:
        mine = [action for action in stored.decision.actions if action.for_job_id == why.for_job_id]
        job = None if cluster is None else cluster.jobs_by_id().get(why.for_job_id)
        if job is None and (cluster is not None or not any(one.reason in _URGENT_REASONS for one in mine)):
            return  # announced, and not there yet; or not urgent
        if job is not None and job.kind is not JobKind.ON_DEMAND:
            return
        known = self.urgent.get(why.for_job_id)
        served = (
            _served(why, stored.decision.actions) if (why.for_job_id, stored.at_s) in self.allowed else None
        )
        operations = self._operations.get(why.for_job_id, [])
        started = [operation.started_s for operation in operations if operation.started_s is not None]
        self.urgent[why.for_job_id] = UrgentJob(
            job_id=why.for_job_id,
            user=UNKNOWN if job is None else job.user,
            account=UNKNOWN if job is None else job.account,
            node_count=why.node_count,
            asked_s=stored.at_s if known is None else known.asked_s,
            submit_s=stored.at_s if job is None else job.submit_s,
            deadline_s=why.deadline_s,
            answer=served or Answer.NONE,
            ready_s=why.ready_s if served else None,
            started_s=max(started, default=None),
            waits_yet=any(operation.phase is not Phase.CLOSED for operation in operations),
        )

    def _leave(self, action: Requeue | Cancel | Shrink, cluster: Cluster | None) -> None:
        job = None if cluster is None else cluster.jobs_by_id().get(action.job_id)
        account = UNKNOWN if job is None else job.account
        method = Method.SHRINK if isinstance(action, Shrink) else action.method
        lost = self.accounts.setdefault(account, _Leaving(set(), Counter()))
        if job is not None and cluster is not None and method is Method.KILL:
            lost.loss_node_s += loss_node_s(job, cluster.now_s)
        for found in (lost, self.everybody):
            found.jobs.add(action.job_id)
            found.departures[method] += 1


def _served(why: Rationale, actions: Iterable[Action]) -> Answer | None:
    """How a decision serves a job. None: not at all."""
    mine = [action for action in actions if action.for_job_id == why.for_job_id]
    if not any(isinstance(action, Reserve) for action in mine):
        return None
    leaves = any(isinstance(action, Requeue | Cancel | Shrink) for action in mine)
    return Answer.ROOM if leaves else Answer.FREE


def _deeds(
    decisions: Iterable[StoredDecision], allowed: set[tuple[str, float]], journal: Journal, from_s: float
) -> tuple[Deeds, ...]:
    """What was decided and let pass, and what was sent and accepted, by verb and reason."""
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
        accepted[sort] += command.outcome == "accepted"
        refused[sort] += command.outcome in {None, "rejected", "in_doubt"}
    return tuple(
        Deeds(
            verb=verb,
            reason=reason,
            decided=decided[verb, reason],
            sent=sent[verb, reason],
            accepted=accepted[verb, reason],
            refused=refused[verb, reason],
        )
        for verb, reason in sorted(decided.keys() | sent.keys())
    )
