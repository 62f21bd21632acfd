"""What makes way costs other jobs: the loss that a decision expected, and the loss that was measured."""

from dataclasses import dataclass

from makeway.daemon.estimate.actual_losses import NO_COST, Cost, RunLoss, held_amounts
from makeway.daemon.journal.codec import StoredDecision
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.returns import method_of
from makeway.policies.model import Action, Cluster, Method
from makeway.policies.safety.prices import unsaved_work_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedLoss:
    """What it costs one job that a decision makes it leave."""

    job_id: str
    for_job_id: str
    method: Method
    expected: Cost | None
    """The loss of work by the decision. None: neither its snapshot was kept, nor was the loss measured."""
    actual: RunLoss | None
    """None: not measured, or not yet."""


def expected_cost(action: Action, cluster: Cluster | None, actual: RunLoss | None) -> Cost | None:
    """The loss of work that a decision for this action expects.

    Args:
        action: one that makes a job leave, or shrink.
        cluster: the snapshot of the decision. None: it was not kept.
        actual: what was measured, with what was expected then. None: nothing was.

    Returns: None if it is not known.
    """
    if method_of(action) is not Method.KILL:
        return NO_COST
    job = None if cluster is None else cluster.jobs_by_id().get(action.job_id)
    if job is None or cluster is None:
        return None if actual is None else actual.run.expected
    return held_amounts(job, cluster.capacities()).cost(unsaved_work_s(job, cluster.now_s))


def losses_of(stored: StoredDecision, journal: Journal) -> tuple[ExplainedLoss, ...]:
    """What a decision costs each job that is to leave by it, in the order of its actions."""
    measured = dict(journal.losses(stored.at_s, stored.at_s))
    found: list[ExplainedLoss] = []
    for action in stored.decision.actions:
        method = method_of(action)
        if method is not None:
            actual = measured.get(action.job_id)
            loss = ExplainedLoss(
                job_id=action.job_id,
                for_job_id=action.for_job_id,
                method=method,
                expected=expected_cost(action, stored.cluster, actual),
                actual=actual,
            )
            found.append(loss)
    return tuple(found)


def total_cost(parts: list[Cost]) -> Cost:
    """The sum of all parts."""
    found = NO_COST
    for part in parts:
        found = found.plus(part)
    return found
