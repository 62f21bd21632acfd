"""Which holds a job was bound to, and which nodes others have left for it, as the journal has it."""

from collections.abc import Iterable
from typing import Final

from makeway.daemon.journal.codec import ACTION, OPERATION, BadBody
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.database import Database
from makeway.daemon.operation.changed.refused_holds import HoldAnswer
from makeway.daemon.operation.tasks import evictions
from makeway.policies.model import Operation, Progress, Reserve

_BINDS: Final = frozenset({None, Outcome.ACCEPTED, Outcome.IN_DOUBT})
"""The outcomes of a hold that its job was bound to, or may have been. None: no answer was written down."""


def last_hold(database: Database, job_id: str, since_s: float) -> Reserve | None:
    """The last hold that the job was, or may have been, bound to. None: there is none that can be read, or no
    command for one was sent since then.
    """
    rows = database.read(
        "SELECT verb, outcome, issued_s, CAST(action AS BLOB) FROM commands WHERE job_id = ? AND verb IN "
        "('reserve', 'release') ORDER BY command_id DESC",
        (job_id,),
    )
    if not rows or rows[0][2] < since_s:
        return None
    body = next((row[3] for row in rows if row[0] == "reserve" and row[1] in _BINDS), None)
    return None if body is None else _hold(body)


def holds_since(database: Database, job_id: str, since_s: float) -> tuple[Reserve, ...]:
    """The holds that the job was, or may have been, bound to since then, the oldest first. What cannot be
    read is left out.
    """
    rows = database.read(
        "SELECT outcome, CAST(action AS BLOB) FROM commands WHERE job_id = ? AND issued_s >= ? AND verb = "
        "'reserve' ORDER BY command_id",
        (job_id, since_s),
    )
    found = (_hold(body) for outcome, body in rows if outcome in _BINDS)
    return tuple(hold for hold in found if hold is not None)


def hold_answers(database: Database, since_s: float) -> tuple[HoldAnswer, ...]:
    """The answers to the commands for holds that were sent since then, in their order: those that were
    accepted, and those that the cluster refused. What cannot be read is left out.
    """
    rows = database.read(
        "SELECT CAST(action AS BLOB), issued_s, outcome, failed, detail FROM commands WHERE issued_s >= ? "
        "AND verb = 'reserve' AND outcome IN (?, ?) ORDER BY command_id",
        (since_s, Outcome.ACCEPTED.value, Outcome.REJECTED.value),
    )
    return tuple(
        HoldAnswer(
            hold=hold,
            issued_s=issued_s,
            accepted=outcome == Outcome.ACCEPTED,
            final=bool(failed),
            words=detail or "",
        )
        for body, issued_s, outcome, failed, detail in rows
        if (hold := _hold(body)) is not None
    )


def operations_for(database: Database, job_id: str, since_s: float) -> tuple[Operation, ...]:
    """The stored operations that have held nodes for the job since then. What cannot be read is left out."""
    rows = database.read(
        "SELECT CAST(body AS BLOB) FROM operations WHERE operation_id IN (SELECT operation_id FROM commands "
        "WHERE job_id = ? AND issued_s >= ? AND verb = 'reserve')",
        (job_id, since_s),
    )
    found = (_operation(body) for (body,) in rows)
    return tuple(operation for operation in found if operation is not None)


def nodes_left(operations: Iterable[Operation]) -> frozenset[str]:
    """The nodes that the jobs have left, or may have, which operations have made to leave."""
    stays = (Progress.PLANNED, Progress.REFUSED, Progress.DROPPED)
    tasks = (task for operation in operations for task in evictions(operation) if task.progress not in stays)
    return frozenset(name for task in tasks for name in task.nodes)


def _operation(body: bytes) -> Operation | None:
    """A stored operation. None: it cannot be read."""
    try:
        return OPERATION.decode(body)
    except BadBody:
        return None


def _hold(body: bytes) -> Reserve | None:
    """The hold of a stored command. None: it cannot be read."""
    try:
        action = ACTION.decode(body)
    except BadBody:
        return None
    return action if isinstance(action, Reserve) else None
