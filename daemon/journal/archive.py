"""What the journal has stored of the past: read from the file whenever it is asked for."""

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Final, TypeVar

from makeway.daemon.estimate.actual_losses import RunLoss
from makeway.daemon.journal.codec import (
    ACTION,
    DECISION,
    OPERATION,
    BadBody,
    BodyTooNew,
    StoredCommand,
    StoredDecision,
    unpack,
)
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.database import Database, Row
from makeway.daemon.journal.errors import JournalError, JournalTooNew
from makeway.daemon.journal.measurements import load_losses
from makeway.policies.model import Operation

_Value = TypeVar("_Value")

# Bodies are read as bytes: SQLite refuses a whole query over one text that is not UTF-8.
_DECISION_COLUMNS: Final = "decision_id, at_s, CAST(body AS BLOB)"

_BODIES: Final[tuple[tuple[str, str, str, str, Callable[[bytes], object]], ...]] = (
    ("operations", "operation_id", "body", "closed = 1", OPERATION.decode),
    ("commands", "command_id", "action", "true", ACTION.decode),
    ("decisions", "decision_id", "body", "true", DECISION.decode),
)
"""Table, key, column of the body, which rows, and what reads the body."""


def decoded(
    decode: Callable[[bytes], _Value], body: bytes, path: Path | None, table: str, row: str
) -> _Value:
    """The value in a stored body.

    Args:
        decode: reads such a body.
        body: as it is in the file.
        path: the file.
        table: the body's table.
        row: SQL that is true for the body's row alone.

    Raises:
        JournalTooNew: a newer makeway wrote the body.
        JournalError: it is damaged. The message says what to do.
    """
    try:
        return decode(body)
    except BodyTooNew as error:
        raise too_new(path, table, row, error) from error
    except BadBody as error:
        remedy = f'sqlite3 {quote(str(path))} "DELETE FROM {table} WHERE {row}"'
        raise JournalError(
            f"{path}: {table}, row {row}: cannot be read: {error}; to go on without it: {remedy}"
        ) from error


def too_new(path: Path | None, table: str, row: str, error: BodyTooNew) -> JournalTooNew:
    """The error for a body that a newer makeway wrote."""
    return JournalTooNew(f"{path}: {table}, row {row}: {error}: run that version, or choose another journal")


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


class Archive:
    """Decisions, commands and operations of the past.

    Every method raises `JournalError` if what it reads is damaged.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def decision(self, decision_id: int) -> StoredDecision | None:
        """A decision by its number, with its snapshot. None: there is none of that number."""
        rows = self._database.read(
            f"SELECT {_DECISION_COLUMNS}, cluster FROM decisions WHERE decision_id = ?", (decision_id,)
        )
        return self._decision(rows[0]) if rows else None

    def decisions(self, limit: int) -> tuple[StoredDecision, ...]:
        """The last `limit` decisions, newest first, without their snapshots."""
        return self._decisions("ORDER BY decision_id DESC LIMIT ?", limit)

    def decisions_since(self, since_s: float) -> tuple[StoredDecision, ...]:
        """The decisions since then, oldest first, without their snapshots."""
        return self._decisions("WHERE at_s >= ? ORDER BY decision_id", since_s)

    def first_decision_id(self) -> int | None:
        """The number of the oldest decision that is still stored. None: there is none."""
        ((first,),) = self._database.read("SELECT min(decision_id) FROM decisions")
        return None if first is None else int(first)

    def operations_since(self, since_s: float) -> tuple[Operation, ...]:
        """The operations that were opened since then, closed ones among them, oldest first."""
        rows = self._database.read(
            "SELECT operation_id, CAST(body AS BLOB) FROM operations WHERE opened_s >= ? ORDER BY opened_s, "
            "rowid",
            (since_s,),
        )
        path = self._database.path
        return tuple(
            decoded(OPERATION.decode, body, path, "operations", f"operation_id = {quoted(operation_id)}")
            for operation_id, body in rows
        )

    def commands(self) -> tuple[StoredCommand, ...]:
        """Every command that is still stored, in the order in which they were sent."""
        return self._commands("")

    def commands_since(self, since_s: float) -> tuple[StoredCommand, ...]:
        """The commands that were sent since then, in their order."""
        return self._commands("WHERE issued_s >= ?", since_s)

    def was_refused(self, verb: str, job_id: str, since_s: float) -> bool:
        """Whether the cluster has refused the last command of this kind for a job, which was sent since
        then.
        """
        rows = self._database.read(
            "SELECT outcome, issued_s FROM commands WHERE job_id = ? AND verb = ? ORDER BY command_id DESC "
            "LIMIT 1",
            (job_id, verb),
        )
        return bool(rows) and rows[0][0] == Outcome.REJECTED and rows[0][1] >= since_s

    def commands_of(self, job_id: str, since_s: float) -> tuple[StoredCommand, ...]:
        """The commands for one job since then, in the order in which they were sent."""
        return self._commands("WHERE job_id = ? AND issued_s >= ?", job_id, since_s)

    def losses(self, since_s: float, until_s: float = float("inf")) -> tuple[tuple[str, RunLoss], ...]:
        """What the runs cost that were to leave by decisions from `since_s` to `until_s`, each with its job.

        They are ordered by decision and job. Runs that have not left yet are not among them.
        """
        return load_losses(self._database, since_s, until_s)

    def unreadable(self) -> tuple[str, ...]:
        """Why decisions, commands and closed operations cannot be read: one sentence for each row. Snapshots
        are not read.
        """
        found: list[str] = []
        for table, key, body_column, which, decode in _BODIES:
            for row_key, body in self._database.read(
                f"SELECT {key}, CAST({body_column} AS BLOB) FROM {table} WHERE {which} ORDER BY {key}"
            ):
                row = f"{key} = {quoted(row_key) if isinstance(row_key, str) else row_key}"
                try:
                    decoded(decode, body, self._database.path, table, row)
                except JournalError as error:
                    found.append(str(error))
        return tuple(found)

    def _decisions(self, which: str, *values: float) -> tuple[StoredDecision, ...]:
        rows = self._database.read(f"SELECT {_DECISION_COLUMNS}, NULL FROM decisions {which}", values)
        return tuple(map(self._decision, rows))

    def _decision(self, row: Row) -> StoredDecision:
        """A row of number, instant, decision and snapshot; the snapshot may be None."""
        decision_id, at_s, body, blob = row
        path, where = self._database.path, f"decision_id = {decision_id}"
        return StoredDecision(
            decision_id=decision_id,
            at_s=at_s,
            decision=decoded(DECISION.decode, body, path, "decisions", where),
            cluster=None if blob is None else decoded(unpack, blob, path, "decisions", where),
        )

    def _commands(self, which: str, *values: str | float) -> tuple[StoredCommand, ...]:
        rows = self._database.read(
            "SELECT command_id, operation_id, CAST(action AS BLOB), issued_s, answered_s, outcome, detail"
            f" FROM commands {which} ORDER BY command_id",
            values,
        )
        return tuple(map(self._command, rows))

    def _command(self, row: Row) -> StoredCommand:
        command_id, operation_id, action, issued_s, answered_s, outcome, detail = row
        where = f"command_id = {command_id}"
        return StoredCommand(
            command_id=command_id,
            operation_id=operation_id,
            action=decoded(ACTION.decode, action, self._database.path, "commands", where),
            issued_s=issued_s,
            answered_s=answered_s,
            outcome=outcome,
            detail=detail or "",
        )
