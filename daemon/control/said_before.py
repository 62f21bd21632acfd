"""What the last cycle said, so that a state that lasts is reported once. No decision depends on it."""

from makeway.daemon.control.executor import ActionReport
from makeway.daemon.control.sending import report_of_refusal
from makeway.policies.gate.arbiter import Verdict
from makeway.policies.model import Decision


class SaidBefore:
    """Compares the refusals and the urgent jobs of one cycle with those of the one before."""

    def __init__(self) -> None:
        self._refused: frozenset[tuple[str, str, str]] = frozenset()
        self._waiting: frozenset[str] = frozenset()

    def new_refusals(self, refused: tuple[Verdict, ...]) -> list[ActionReport]:
        """Reports of the refusals that the last cycle did not have too."""
        keys = frozenset((v.action.verb, v.action.job_id, str(v.refusal)) for v in refused)
        reports = [
            report_of_refusal(verdict)
            for verdict in refused
            if (verdict.action.verb, verdict.action.job_id, str(verdict.refusal)) not in self._refused
        ]
        self._refused = keys
        return reports

    def concerns_others(self, decision: Decision) -> bool:
        """Whether the decision is about a job that the last one was not about."""
        waiting = frozenset(why.for_job_id for why in decision.rationale)
        new = bool(waiting - self._waiting)
        self._waiting = waiting
        return new
