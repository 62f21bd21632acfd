"""Why a decision was taken, and what became of its actions. Reads the journal only.

The arbiter is asked again about the stored snapshot, so that an answer can say which limit refused an action.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from makeway.daemon.control.metric_table import RATIONALE_METRICS, RationaleMetric
from makeway.daemon.errors import UserError, printable
from makeway.daemon.inspect.departures import decided_for
from makeway.daemon.inspect.losses import ExplainedLoss, losses_of
from makeway.daemon.journal.codec import StoredCommand, StoredDecision
from makeway.daemon.journal.store import Journal
from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.model import (
    Action,
    Cancel,
    Candidate,
    Checkpoint,
    Cluster,
    JobKind,
    Method,
    Rationale,
    Requeue,
    Reserve,
    Shrink,
)

LAST = "last"
"""Names the latest decision."""
ALLOWED = "allowed"
"""The verdict of the arbiter on an action that it does not refuse."""
NOT_BEGUN = "nothing was begun then: makeway was paused, or another daemon led"
"""Why nothing became of a decision that the arbiter allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedAction:
    """One action of a decision, and what became of it."""

    action: Action
    verdict: str
    """The arbiter's answer on the stored snapshot."""
    outcome: str
    """The answer to the last command for the action, or that none was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A stored decision with its actions."""

    stored: StoredDecision
    actions: tuple[ExplainedAction, ...]
    losses: tuple[ExplainedLoss, ...] = ()
    """What it costs the jobs that are to leave."""


def explain(journal: Journal, decision: str) -> Explanation:
    """Explain one decision.

    Args:
        journal: the journal that holds it.
        decision: its number, or `last`.

    Raises:
        UserError: there is no such decision.
    """
    stored = _find(journal, decision)
    return Explanation(
        stored=stored, actions=tuple(_explained(stored, journal)), losses=losses_of(stored, journal)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One thing that was decided about a job, or sent for it."""

    at_s: float
    decision_id: int | None
    """The decision. None: a command."""
    what: str
    """`decision`, or the verb of the command."""
    for_job_id: str
    """The job for which it was done."""
    action: Action | None
    """What was sent. None: nothing, it was a decision."""
    outcome: str
    """Of a decision why it was taken, of a command the answer."""


def job_events(journal: Journal, job_id: str) -> tuple[JobEvent, ...]:
    """What happened to a job, oldest first: the decisions that served it or took from it, and the commands
    for it. Empty: the journal has nothing about it.
    """
    decided = [
        JobEvent(
            at_s=stored.at_s,
            decision_id=stored.decision_id,
            what="decision",
            for_job_id=why.for_job_id,
            action=None,
            outcome=why.summary,
        )
        for stored in journal.decisions_since(float("-inf"))
        for why in stored.decision.rationale
        if why.for_job_id == job_id
        or any(
            action.job_id == job_id and action.for_job_id == why.for_job_id
            for action in stored.decision.actions
        )
    ]
    sent = [
        JobEvent(
            at_s=command.issued_s,
            decision_id=None,
            what=command.action.verb,
            for_job_id=command.action.for_job_id,
            action=command.action,
            outcome=_answer(command),
        )
        for command in journal.commands_of(job_id, float("-inf"))
    ]
    return tuple(sorted((*decided, *sent), key=lambda event: event.at_s))


def jobs_named(journal: Journal) -> Iterator[str]:
    """The jobs of all decisions and commands that are stored, some of them several times."""
    for stored in journal.decisions_since(float("-inf")):
        yield from (why.for_job_id for why in stored.decision.rationale)
        yield from (action.job_id for action in stored.decision.actions)
    yield from (command.action.job_id for command in journal.commands())


def numbers(why: Rationale) -> list[tuple[RationaleMetric, float]]:
    """Every number that is declared for a rationale, with its value."""
    return [(metric, metric.read(why)) for metric in RATIONALE_METRICS]


def is_urgent(why: Rationale, cluster: Cluster | None) -> bool:
    """Whether a rationale is about an urgent job, as far as the snapshot shows; some policies act for other
    jobs too.
    """
    job = None if cluster is None else cluster.jobs_by_id().get(why.for_job_id)
    return job is None or job.kind is JobKind.ON_DEMAND


def measured_count(candidate: Candidate, cluster: Cluster | None) -> int:
    """How many measurements the checkpoint time of a candidate is based on. 0: it is declared, or unknown."""
    if candidate.method is not Method.SYSTEM or cluster is None:
        return 0
    jobs = cluster.jobs_by_id()
    specs = [jobs[job_id].checkpoint for job_id in candidate.job_ids if job_id in jobs]
    return min((spec.measured_count for spec in specs if spec is not None and spec.measured_count), default=0)


def _find(journal: Journal, text: str) -> StoredDecision:
    if text == LAST:
        latest = journal.decisions(1)
        number = latest[0].decision_id if latest else 0
    elif text.isascii() and text.isdigit() and len(text) < 19:
        number = int(text)
    else:
        raise UserError(f"{printable(text)!r} is not a decision: write its number in the log, or `{LAST}`")
    stored = journal.decision(number)
    if stored is not None:
        return stored
    first = journal.first_decision_id()
    if first is not None and 0 < number < first:
        raise UserError(
            f"decision {number} is no longer kept (journal_keep_days); the oldest one kept is {first}"
        )
    raise UserError("no decision is stored" if text == LAST else f"there is no decision {number}")


def _explained(stored: StoredDecision, journal: Journal) -> list[ExplainedAction]:
    actions = stored.decision.actions
    if stored.cluster is None:
        verdicts = ["unknown: the snapshot was not kept"] * len(actions)
    else:
        verdicts = [
            ALLOWED if verdict.refusal is None else f"refused: {verdict.refusal} ({verdict.detail})"
            for verdict in arbitrate(actions, stored.cluster)
        ]
    return [
        ExplainedAction(
            action=action,
            verdict=verdict,
            outcome=_outcome(action, stored, journal, allowed=verdict == ALLOWED),
        )
        for action, verdict in zip(actions, verdicts, strict=True)
    ]


def _as_decided(sent: Action, decided: Action) -> Action:
    """The action that was sent, without what the daemon changes at sending: it adds the run that is meant, a
    requeue may be repeated after a crash, the grace of a late signal ends as planned, and the urgent job may
    have been submitted again.
    """
    if not isinstance(sent, Checkpoint | Requeue | Cancel | Shrink):
        return sent
    sent = replace(sent, run=None, for_job_id=decided.for_job_id)
    if isinstance(sent, Requeue):
        return replace(sent, forgotten_run=None)
    if isinstance(sent, Checkpoint) and isinstance(decided, Checkpoint):
        return replace(sent, grace_s=decided.grace_s)
    return sent


def _outcome(action: Action, stored: StoredDecision, journal: Journal, *, allowed: bool) -> str:
    """The answer to the last command for an action of a decision, or why none was sent, if that is known."""
    commands = journal.commands_of(action.job_id, stored.at_s)
    sent = [command for command in commands if _as_decided(command.action, action) == action]
    if sent:
        return _answer(sent[-1])
    why = _why_not_sent(action, stored, journal)
    if not why and allowed and not _was_begun(action, stored, journal):
        why = NOT_BEGUN
    return f"not sent ({why})" if why else "not sent"


def _why_not_sent(action: Action, stored: StoredDecision, journal: Journal) -> str:
    """What was noted of the action's task. Empty: nothing."""
    known = () if stored.cluster is None else stored.cluster.operations
    opened_s = [one.opened_s for one in known if one.for_job_id == action.for_job_id]
    noted = (
        task.detail
        for operation in journal.operations_since(min((stored.at_s, *opened_s)))
        if operation.for_job_id == action.for_job_id
        for task in operation.tasks
        if (task.action == action and task.issued_s is None)
        # The signal of an earlier operation, which its run still answers.
        or (_as_decided(task.action, action) == action and (task.issued_s or math.inf) < stored.at_s)
    )
    return next(noted, "")


def _was_begun(action: Action, stored: StoredDecision, journal: Journal) -> bool:
    """Whether the decision opened or changed an operation for the job of the action. True too if it holds no
    nodes for the job: there is then nothing to begin.
    """
    if not any(
        isinstance(one, Reserve) and one.job_id == action.for_job_id for one in stored.decision.actions
    ):
        return True
    operations = journal.operations_since(stored.at_s)
    return any((action.for_job_id, stored.at_s) in decided_for(operation) for operation in operations)


def _answer(command: StoredCommand) -> str:
    words = command.outcome or "no answer was written down"
    return f"{words} ({command.detail})" if command.detail else words
