"""The one door out: every command that reaches the cluster is sent here, between two journal writes."""

from collections.abc import Callable
from dataclasses import dataclass

from makeway.adapters.protocol import (
    Adapter,
    AdapterError,
    Gone,
    NotForgotten,
    Rejected,
    Unavailable,
    Unreadable,
    Unsupported,
)
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.tasks import naming_its_run
from makeway.daemon.operation.transitions import issuing, record
from makeway.policies.gate.breaker import takes
from makeway.policies.model import Action, Operation, Progress
from makeway.policies.safety.protection import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionReport:
    """One action of one cycle."""

    action: Action
    outcome: Outcome
    refusal: Refusal | None = None
    """Which limit refused it. None: none did."""
    detail: str = ""
    final: bool = False
    """Whether the cluster understood the command and refused it finally."""


@dataclass(frozen=True, slots=True)
class _Reply:
    """What the cluster said to one command."""

    progress: Progress
    outcome: Outcome
    detail: str
    final: bool = False
    """Whether the cluster understood the command and refused it finally."""
    unanswered: bool = False


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
        action = naming_its_run(operation.tasks[index])
        command_id = self._journal.begin_command(operation, action, self._now())
        reply = self._attempt(action)
        operation = record(operation, index, reply.progress, self._now(), reply.detail)
        self._journal.finish_command(
            command_id,
            operation,
            outcome=reply.outcome,
            failed=reply.unanswered or (reply.final and takes(action)),
            detail=reply.detail,
            now_s=self._now(),
        )
        report = ActionReport(action=action, outcome=reply.outcome, detail=reply.detail, final=reply.final)
        return operation, report

    def _attempt(self, action: Action) -> _Reply:
        try:
            self._adapter.apply(action)
        except NotForgotten as error:
            # A crash may make the controller forget it yet: it ends when a snapshot shows the job.
            return _Reply(Progress.ACCEPTED, Outcome.GONE, str(error))
        except Gone as error:
            return _Reply(Progress.GONE, Outcome.GONE, str(error))
        except Rejected as error:
            if error.retryable:
                return _Reply(Progress.PLANNED, Outcome.REJECTED, str(error))
            return _Reply(Progress.REFUSED, Outcome.REJECTED, str(error), final=True)
        except Unsupported as error:
            return _Reply(Progress.REFUSED, Outcome.REJECTED, str(error))
        except Unavailable as error:
            if not error.sent:
                return _Reply(Progress.PLANNED, Outcome.UNSENT, str(error), unanswered=True)
            return _Reply(Progress.ISSUING, Outcome.IN_DOUBT, str(error), unanswered=True)
        except (Unreadable, AdapterError) as error:
            return _Reply(Progress.ISSUING, Outcome.IN_DOUBT, str(error), unanswered=True)
        return _Reply(Progress.ACCEPTED, Outcome.ACCEPTED, "")
