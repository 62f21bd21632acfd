"""The one door out: every command that reaches the cluster is sent here, between two journal writes."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

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
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Expand,
    Operation,
    Prioritise,
    Progress,
    Release,
    Requeue,
    Reserve,
    RestorePriority,
    Shrink,
    Task,
)
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
        task = operation.tasks[index]
        action = task.action
        command_id = self._journal.begin_command(operation, action, self._now())
        progress, outcome, detail = self._attempt(task)
        operation = record(operation, index, progress, self._now(), detail)
        self._journal.finish_command(command_id, operation, outcome=outcome, detail=detail, now_s=self._now())
        return operation, ActionReport(action=action, outcome=outcome, detail=detail)

    def _attempt(self, task: Task) -> tuple[Progress, Outcome, str]:
        try:
            self._send(task)
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

    def _send(self, task: Task) -> None:
        adapter, action = self._adapter, task.action
        match action:
            case Checkpoint():
                adapter.checkpoint(
                    action.job_id,
                    signal=action.signal,
                    signal_to=action.signal_to,
                    walltime_s=action.walltime_s,
                )
            case Requeue():
                if task.forgotten:
                    adapter.requeue_again(action.job_id, requeue_count=task.requeue_count)
                else:
                    adapter.requeue(action.job_id)
            case Cancel():
                adapter.cancel(action.job_id)
            case Shrink():
                adapter.shrink(action.job_id, keep_nodes=action.keep_nodes, walltime_s=action.walltime_s)
            case Expand():
                adapter.expand(action.job_id, nodes=action.nodes, reservation=action.reservation)
            case Reserve():
                adapter.reserve(
                    action.reservation,
                    nodes=action.nodes,
                    duration_s=action.duration_s,
                    job_id=action.job_id if action.user is None else None,
                    user=action.user,
                    overlap=bool(action.out_of),
                )
            case Release():
                adapter.release(action.reservation)
            case Prioritise():
                adapter.prioritise(action.job_id, queue_position=action.queue_position)
            case RestorePriority():
                adapter.restore_priority(action.job_id)
            case _:
                assert_never(action)
