"""The one door out: every command that reaches the cluster is sent here, between two journal writes."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from makeway.adapters.protocol import (
    Adapter,
    AdapterError,
    Gone,
    Rejected,
    Unavailable,
    Unreadable,
    Unsupported,
)
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.transitions import issuing, record
from makeway.policies.model import Action, Operation, Progress
from makeway.policies.safety.protection import Refusal


class Outcome(StrEnum):
    """What became of an action in one cycle: the journal's word, the log field and the metric label."""

    ACCEPTED = "accepted"
    OBSERVED = "observed"  # observe mode: it would have been issued
    REFUSED = "refused"  # by our own arbiter
    REJECTED = "rejected"  # by the cluster
    GONE = "gone"  # its job was over first
    IN_DOUBT = "in_doubt"  # no answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionReport:
    """One action of one cycle."""

    action: Action
    outcome: Outcome
    refusal: Refusal | None = None
    """Which limit refused it. None: none did."""
    detail: str = ""


class Executor:
    """Sends commands, each written down before and after.

    Args:
        adapter: where they go.
        journal: where they are written down.
        now: the time, in the same seconds as the snapshots'.
    """

    def __init__(self, adapter: Adapter, journal: Journal, now: Callable[[], float]) -> None:
        self._adapter = adapter
        self._journal = journal
        self._now = now

    def issue(self, operation: Operation, index: int) -> tuple[Operation, ActionReport]:
        """Send the command of task `index` and return the operation with the answer noted.

        Never raises an `AdapterError`: every answer, and none, is an outcome.
        """
        operation = issuing(operation, index, self._now())
        action = operation.tasks[index].action
        command_id = self._journal.begin_command(operation, action, self._now())
        progress, outcome, detail = self._attempt(action)
        operation = record(operation, index, progress, self._now(), detail)
        self._journal.finish_command(command_id, operation, outcome=outcome, detail=detail, now_s=self._now())
        return operation, ActionReport(action=action, outcome=outcome, detail=detail)

    def _attempt(self, action: Action) -> tuple[Progress, Outcome, str]:
        try:
            self._adapter.apply(action)
        except Gone as error:
            return Progress.GONE, Outcome.GONE, str(error)
        except Rejected as error:
            progress = Progress.PLANNED if error.retryable else Progress.REFUSED
            return progress, Outcome.REJECTED, str(error)
        except Unsupported as error:
            return Progress.REFUSED, Outcome.REJECTED, str(error)
        except (Unavailable, Unreadable, AdapterError) as error:
            return Progress.ISSUING, Outcome.IN_DOUBT, str(error)
        return Progress.ACCEPTED, Outcome.ACCEPTED, ""
