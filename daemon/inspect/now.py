"""What the daemon does now, as plain values: its status, its open operations, its latest decisions."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from makeway.daemon.errors import UserError
from makeway.daemon.journal.codec import StoredDecision
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.returns import lent_nodes, method_of
from makeway.daemon.service.socket_api import request
from makeway.policies.model import Expand, Operation, Prioritise, Progress

STATUS_WAIT_S = 2.0
"""How long the daemon may take to report its status."""


def now(journal: Journal, socket: Path) -> dict[str, Any]:
    """The state of the daemon, and the operations that are open.

    `status` is what the daemon reports; None: it does not answer, and `problem` says why.
    """
    status, problem = reported_status(socket)
    return {
        "status": status,
        "problem": problem,
        "operations": [_operation_values(operation) for operation in journal.open_operations()],
    }


def reported_status(socket: Path) -> tuple[Mapping[str, Any] | None, str]:
    """What the daemon reports of itself. None: it does not answer, and the text says why."""
    try:
        return request(socket, {"command": "status"}, wait_s=STATUS_WAIT_S)["status"], ""
    except UserError as error:
        return None, str(error)


def latest_decisions(journal: Journal, limit: int) -> list[dict[str, Any]]:
    """At most `limit` decisions, newest first, each with the sentences of its rationale and their jobs."""
    return [decision_values(stored) for stored in journal.decisions(limit)]


def decision_values(stored: StoredDecision) -> dict[str, Any]:
    """A decision as a line of a list."""
    return {
        "decision": stored.decision_id,
        "at_s": stored.at_s,
        "policy": stored.decision.policy,
        "actions": len(stored.decision.actions),
        "summaries": [f"job {why.for_job_id}: {why.summary}" for why in stored.decision.rationale],
    }


def _operation_values(operation: Operation) -> dict[str, Any]:
    return {
        "id": operation.operation_id,
        "kind": operation.kind.value,
        "for_job": operation.for_job_id,
        "phase": operation.phase.value,
        "observe": operation.observe,
        "nodes": len(operation.nodes),
        "opened_s": operation.opened_s,
        "deadline_s": operation.deadline_s,
        "tasks": [
            {"verb": task.action.verb, "job": task.action.job_id, "progress": task.progress.value}
            for task in operation.tasks
        ],
        "loans": list(loans(operation)),
    }


def loans(operation: Operation) -> Iterator[dict[str, Any]]:
    """The nodes that jobs have given up for the operation's urgent job, in the order of its tasks.

    `returned`: the job has been put first in the queue or has grown again since. Nothing of an operation that
    is only observed has been given up.
    """
    for task in operation.tasks:
        method = method_of(task.action)
        if method is None or task.progress is not Progress.DONE or operation.observe:
            continue
        yield {
            "lender": task.action.job_id,
            "method": method.value,
            "nodes": len(lent_nodes(task)),
            "since_s": task.ended_s,
            "returned": any(
                isinstance(given.action, Expand | Prioritise)
                and given.action.job_id == task.action.job_id
                and given.progress is Progress.DONE
                for given in operation.tasks
            ),
        }
