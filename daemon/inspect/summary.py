"""What the daemon decided over some time, and what became of it: the basis for the choice between observe and
act.

Reads the journal only. In observe mode the starts are those that plain Slurm gave the urgent jobs, and the
summary also says when their nodes would have been free. In act mode they are the starts that the daemon
brought about, and the losses that were measured are next to those that the decisions expected.

A hold may wait, and its jobs leave at the last moment. In act mode a later decision makes them leave. In
observe mode there is none, so the choice that the hold waits with is counted.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from makeway.daemon.estimate.actual_losses import NO_COST, Cost, RunLoss, held_amounts
from makeway.daemon.inspect.departures import (
    DepartureFate,
    Leaving,
    decided_for,
    fate_of,
    greatest_first,
    loss_as_made,
)
from makeway.daemon.inspect.explain import NOT_BEGUN
from makeway.daemon.inspect.losses import expected_cost
from makeway.daemon.inspect.summary_values import (
    UNKNOWN,
    ActionTotals,
    DecisionSummary,
    MissedCheckpoints,
    UrgentAnswer,
    UrgentJobSummary,
)
from makeway.daemon.journal.codec import StoredDecision
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.store import Journal
from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.model import (
    Action,
    Cancel,
    Cluster,
    Job,
    JobKind,
    LateDeparture,
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
from makeway.policies.safety.prices import loss_node_s, payer_of, unsaved_work_s
from makeway.policies.safety.protection import Refusal

_URGENT_KINDS = frozenset({OperationKind.MAKE_WAY, OperationKind.MAKE_WAY_SHARED, OperationKind.FRONT})
_UNKNOWN_COST = Cost(node_s=0.0, core_s=None, gpu_s=None)
_LIMIT_NAMED = re.compile(r"\((max_loss_\w+|ceiling_machine_hours|budget_machine_hours)\)")
"""The setting that a policy names if a limit on lost work refuses its choice."""
_ANSWERS_AFTER: Final = {
    UrgentAnswer.NONE: frozenset(UrgentAnswer) - {UrgentAnswer.NONE},
    UrgentAnswer.LIMIT: frozenset({UrgentAnswer.FREE, UrgentAnswer.WAIT, UrgentAnswer.ROOM}),
    UrgentAnswer.WAIT: frozenset(UrgentAnswer) - {UrgentAnswer.WAIT},
}
"""The later answers that take the place of an earlier one. Of others, the first stands."""


def summarise(journal: Journal, since_s: float | None) -> DecisionSummary | None:
    """Summarise the last `since_s` seconds before the newest decision of a journal. None for `since_s`: all
    of it.

    Returns: None if no decision is stored.
    """
    newest = journal.decisions(1)
    if not newest:
        return None
    to_s = newest[0].at_s
    from_s = -math.inf if since_s is None else to_s - since_s
    decisions = journal.decisions_since(from_s)
    operations = _operations(journal, decisions, from_s)
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
        lenders=greatest_first(tally.accounts),
        urgent_users=greatest_first(tally.urgent_users),
        all_lenders=tally.all_lenders.value(),
        actions=_action_totals(decisions, tally.allowed, journal, from_s),
        missed_checkpoints=tuple(
            sorted(tally.missed.values(), key=lambda one: (-one.lost.node_s, -one.times, one.job_id))
        ),
        unrecorded=len(tally.unrecorded),
        only_observed=tally.fates[DepartureFate.OBSERVED] + tally.all_lenders.postponed,
        to_come=tally.fates[DepartureFate.TO_COME],
        called_off=tally.fates[DepartureFate.CALLED_OFF],
    )


def _operations(
    journal: Journal, decisions: Iterable[StoredDecision], from_s: float
) -> tuple[Operation, ...]:
    """The operations that were opened since then, and the older ones that decisions or commands since then
    belong to.
    """
    known = journal.operations_since(-math.inf)
    decided = {why.for_job_id for stored in decisions for why in stored.decision.rationale}
    sent = {command.operation_id for command in journal.commands_since(from_s)}
    return tuple(
        operation
        for operation in known
        if operation.opened_s >= from_s
        or operation.operation_id in sent
        or (
            not decided.isdisjoint(name for name, _ in decided_for(operation))
            and (operation.ended_s is None or operation.ended_s >= from_s)
        )
    )


class _Tally:
    """Counts decisions one by one, so that only one snapshot at a time is in memory."""

    def __init__(self, journal: Journal, operations: Iterable[Operation], from_s: float) -> None:
        self._journal = journal
        self._losses = {(job_id, loss.run.decided_s): loss for job_id, loss in journal.losses(from_s)}
        self._operations: dict[str, list[Operation]] = {}
        self._decided: dict[tuple[str, float], list[Operation]] = {}
        """The operations that were opened or extended by a decision, by its job, or its announcement, and its
        time."""
        for operation in operations:
            self._operations.setdefault(operation.for_job_id, []).append(operation)
            for key in decided_for(operation):
                self._decided.setdefault(key, []).append(operation)
        self.allowed = frozenset(self._decided)
        """Job and time of the decisions that the arbiter allowed."""
        self.urgent: dict[str, UrgentJobSummary] = {}
        self.accounts: dict[str, Leaving] = {}
        """By the account of the job that leaves."""
        self.urgent_users: dict[str, Leaving] = {}
        """By the user of the urgent job."""
        self.missed: dict[str, MissedCheckpoints] = {}
        self.all_lenders = Leaving()
        self.fates = Counter[DepartureFate]()
        self.unrecorded: set[str] = set()
        """Urgent jobs for which jobs would leave at the last moment, but which ones was not recorded."""

    def add(self, stored: StoredDecision) -> None:
        """Count a decision."""
        actions = [one for one in stored.decision.actions if (one.for_job_id, stored.at_s) in self.allowed]
        leaving = [action for action in actions if isinstance(action, Requeue | Cancel | Shrink)]
        new = [why for why in stored.decision.rationale if self._is_new(why, stored)]
        late = [why for why in stored.decision.rationale if self._is_late(why, stored)]
        cluster: Cluster | None = None
        if leaving or new or late:
            whole = self._journal.decision(stored.decision_id)
            cluster = None if whole is None else whole.cluster
        for why in new:
            self._add_urgent(why, stored, cluster)
        made: list[Action] = []
        for action in leaving:
            loss = self._losses.get((action.job_id, stored.at_s))
            operations = self._decided[action.for_job_id, stored.at_s]
            fate = fate_of(action, stored.at_s, operations, loss)
            self.fates[fate] += 1
            if fate in {DepartureFate.MADE, DepartureFate.OBSERVED}:
                made.append(action)
                self._add_lender(action, cluster, loss)
            elif loss is not None:
                self._add_in_vain(action, cluster, loss)
        for why in late:
            self._add_late(why, cluster)
        self.all_lenders.loss_node_s += sum(
            loss_as_made(why, leaving, made, cluster) for why in stored.decision.rationale
        )

    def _is_new(self, why: Rationale, stored: StoredDecision) -> bool:
        """Whether it is the first rationale about its job, or one with an answer that takes the place of an
        earlier one.
        """
        known = self.urgent.get(why.for_job_id)
        return known is None or self._answer(why, stored) in _ANSWERS_AFTER.get(known.answer, ())

    def _is_late(self, why: Rationale, stored: StoredDecision) -> bool:
        """Whether jobs leave for it at the last moment only, and no later decision says which."""
        observed = any(one.observe for one in self._decided.get((why.for_job_id, stored.at_s), ()))
        return observed and _answer(why, stored.decision.actions) is UrgentAnswer.WAIT

    def _answer(self, why: Rationale, stored: StoredDecision) -> UrgentAnswer:
        """What a decision means for a job, as far as it was allowed."""
        answer = _answer(why, stored.decision.actions)
        if (why.for_job_id, stored.at_s) in self.allowed or not any(
            isinstance(action, Reserve) and action.for_job_id == why.for_job_id
            for action in stored.decision.actions
        ):
            return answer
        return UrgentAnswer.LIMIT

    def _add_urgent(self, why: Rationale, stored: StoredDecision, cluster: Cluster | None) -> None:
        mine = tuple(action for action in stored.decision.actions if action.for_job_id == why.for_job_id)
        job = None if cluster is None else cluster.jobs_by_id().get(why.for_job_id)
        if job is None and (cluster is not None or kind_of(mine) not in _URGENT_KINDS):
            return  # announced and not submitted yet, or not urgent
        if job is not None and job.kind is not JobKind.ON_DEMAND:
            return
        known = self.urgent.get(why.for_job_id)
        answer, why_not = self._answer(why, stored), ""
        if answer in {UrgentAnswer.LIMIT, UrgentAnswer.NONE}:
            answer, why_not = _why_not(answer, why, stored.decision.actions, cluster)
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
            answer=answer,
            ready_s=None if why_not else why.ready_s,
            started_s=max(started, default=None),
            still_waiting=not started and any(one.phase is not Phase.CLOSED for one in operations),
            why=why_not,
        )

    def _add_lender(
        self, action: Requeue | Cancel | Shrink, cluster: Cluster | None, actual: RunLoss | None
    ) -> None:
        job = None if cluster is None else cluster.jobs_by_id().get(action.job_id)
        method = Method.SHRINK if isinstance(action, Shrink) else action.method
        parties = self._parties(action.job_id, action.for_job_id, cluster, actual)
        if job is not None and cluster is not None and method is Method.KILL:
            for found in parties:
                found.loss_node_s += loss_node_s(job, cluster.now_s)
        if actual is not None and actual.missed_checkpoint:
            self._add_missed(action.job_id, job, actual)
        expected = expected_cost(action, cluster, actual)
        for found in (*parties, self.all_lenders):
            found.add(action.job_id, method, _UNKNOWN_COST if expected is None else expected)
            if actual is not None:
                found.actual = found.actual.plus(actual)

    def _add_in_vain(self, action: Action, cluster: Cluster | None, actual: RunLoss) -> None:
        """Count what it cost that a job saved its work, and did not have to leave then."""
        for found in (*self._parties(action.job_id, action.for_job_id, cluster, actual), self.all_lenders):
            found.actual = found.actual.plus(actual)

    def _add_late(self, why: Rationale, cluster: Cluster | None) -> None:
        """Count what happens at the last moment."""
        if why.postponed is None:
            self.unrecorded |= self.urgent.keys() & {why.for_job_id}
            return
        for departure in why.postponed.departures:
            expected = _late_cost(departure, cluster, why.postponed.until_s)
            parties = self._parties(departure.job_id, why.for_job_id, cluster)
            for found in (*parties, self.all_lenders):
                found.loss_node_s += departure.loss_node_s
                found.add(departure.job_id, departure.method, expected)
                found.postponed += 1

    def _parties(
        self, job_id: str, for_job_id: str, cluster: Cluster | None, actual: RunLoss | None = None
    ) -> tuple[Leaving, Leaving]:
        """The lenders of the account that a job belongs to, and those of the user for whose urgent job it
        leaves.
        """
        job = None if cluster is None else cluster.jobs_by_id().get(job_id)
        account = UNKNOWN if job is None else job.account
        user = "" if actual is None else actual.run.for_user
        if cluster is not None:
            user = payer_of(cluster, for_job_id).user or user
        return (
            self.accounts.setdefault(account, Leaving()),
            self.urgent_users.setdefault(user or UNKNOWN, Leaving()),
        )

    def _add_missed(self, job_id: str, job: Job | None, actual: RunLoss) -> None:
        """Count a departure without the regular checkpoint that was waited for."""
        known = self.missed.get(job_id) or MissedCheckpoints(
            job_id=job_id,
            user=UNKNOWN if job is None else job.user,
            account=UNKNOWN if job is None else job.account,
            times=0,
            lost=NO_COST,
        )
        self.missed[job_id] = known.plus(actual.lost)


def _answer(why: Rationale, actions: Iterable[Action]) -> UrgentAnswer:
    """How a decision serves a job, if all of it is allowed."""
    mine = [action for action in actions if action.for_job_id == why.for_job_id]
    holds = any(isinstance(action, Reserve) for action in mine)
    if not holds and why.ready_s is None:
        return UrgentAnswer.LIMIT if _LIMIT_NAMED.search(why.summary) else UrgentAnswer.NONE
    if any(isinstance(action, Requeue | Cancel | Shrink) for action in mine):
        return UrgentAnswer.ROOM
    return UrgentAnswer.WAIT if _waits(why) else UrgentAnswer.FREE


def _waits(why: Rationale) -> bool:
    """Whether jobs leave at the last moment for a hold that is made without evictions."""
    if why.postponed is not None:
        return bool(why.postponed.departures)
    # Of older journals, and of components that wait for each other: jobs were compared, and none was chosen.
    return why.free_node_count < why.node_count and any(one.method is not None for one in why.candidates)


def _why_not(
    answer: UrgentAnswer, why: Rationale, actions: tuple[Action, ...], cluster: Cluster | None
) -> tuple[UrgentAnswer, str]:
    """Why a job is not served, in words: what the arbiter refuses, else what the policy says."""
    if not any(isinstance(action, Reserve) and action.for_job_id == why.for_job_id for action in actions):
        return answer, why.summary or "the policy does not say why"
    if cluster is None:
        return answer, "a limit refused it: which one is unknown, because the snapshot was not kept"
    refused = [
        verdict
        for verdict in arbitrate(actions, cluster)
        if verdict.action.for_job_id == why.for_job_id and not verdict.allowed
    ]
    if not refused:
        return UrgentAnswer.NONE, NOT_BEGUN
    # One refusal takes the other actions with it; without one of its own, another component was refused.
    first = min(refused, key=lambda verdict: verdict.refusal is Refusal.GROUP)
    return answer, f"{first.refusal}: {first.detail}"


def _late_cost(departure: LateDeparture, cluster: Cluster | None, at_s: float) -> Cost:
    """The loss of work that is expected of a job that leaves at `at_s`."""
    if departure.method is not Method.KILL:
        return NO_COST
    job = None if cluster is None else cluster.jobs_by_id().get(departure.job_id)
    if job is None or cluster is None:
        return _UNKNOWN_COST
    return held_amounts(job, cluster.capacities()).cost(unsaved_work_s(job, at_s))


def _action_totals(
    decisions: Iterable[StoredDecision],
    allowed: frozenset[tuple[str, float]],
    journal: Journal,
    from_s: float,
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
