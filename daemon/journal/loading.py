"""What a start reads of the journal: open operations, announcements, the plan, and the commands that the
limits count.

A body that is damaged must not keep the daemon from starting: the start is what returns nodes and priorities,
and without it a job may wait for ever. Such a row is set aside: moved to a table of its own as it is, and
reported. For the open operation in it makeway then has no record; what it left on the cluster is found and
undone as after the loss of the journal (`daemon.operation.orphans`). A body of a newer makeway is not
damaged: the start is refused, and that version goes on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from makeway.daemon.journal.archive import quoted, too_new
from makeway.daemon.journal.codec import ACTION, NOTICE, OPERATION, PLAN, BadBody, BodyTooNew
from makeway.daemon.journal.command_log import SentCommands, SignalledRun
from makeway.daemon.journal.database import Database, Statement
from makeway.policies.model import Notice, Operation, Plan

_Value = TypeVar("_Value")
_MAY_MATTER: Final = (
    "coalesce(outcome, 'in_doubt') = 'in_doubt' OR (outcome = 'accepted' AND issued_s > (SELECT issued_s "
    "FROM commands ORDER BY command_id DESC LIMIT 1) - 86400)"
)
"""SQL: whether a signal is in doubt, or was sent within a day before the last command. The graces of earlier
ones count as over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRow:
    """A row that a start cannot read."""

    table: str
    where: str
    """SQL that is true for this row alone."""
    body_column: str
    problem: str
    """Why it cannot be read."""

    def __str__(self) -> str:
        return f"{self.table}, row {self.where}: cannot be read: {self.problem}"

    def set_aside(self) -> tuple[Statement, Statement]:
        """What moves it out of its table."""
        copy = (
            f"INSERT INTO set_aside (source, key, problem, body) SELECT ?, ?, ?, CAST({self.body_column} AS "
            f"BLOB) FROM {self.table} WHERE {self.where}"
        )
        return (
            (copy, (self.table, self.where, self.problem)),
            (f"DELETE FROM {self.table} WHERE {self.where}", ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What was read."""

    operations: dict[str, Operation]
    """The open operations by id, oldest first."""
    notices: dict[str, Notice]
    plan: Plan | None
    damaged: tuple[DamagedRow, ...]


def load(database: Database) -> Loaded:
    """Read what every cycle needs.

    Raises:
        JournalTooNew: a part of it was written by a newer makeway.
        JournalError: the file cannot be read.
    """
    operations = _Reader(database, "operations", "operation_id", "body", OPERATION.decode)
    notices = _Reader(database, "notices", "notice_id", "body", NOTICE.decode)
    plans = _Reader(database, "meta", "key", "value", PLAN.decode)
    return Loaded(
        operations=operations.read("closed = 0 ORDER BY opened_s, rowid"),
        notices=notices.read("true"),
        plan=plans.read("key = 'plan'").get("plan"),
        damaged=(*operations.damaged, *notices.damaged, *plans.damaged),
    )


class _Reader(Generic[_Value]):
    """Reads the bodies of one table, and takes note of the damaged ones."""

    def __init__(
        self, database: Database, table: str, key: str, body: str, decode: Callable[[bytes], _Value]
    ) -> None:
        self._database = database
        self._table = table
        self._key = key
        self._body = body
        self._decode = decode
        self.damaged: list[DamagedRow] = []

    def read(self, which: str) -> dict[str, _Value]:
        """The values by key."""
        sql = f"SELECT {self._key}, CAST({self._body} AS BLOB) FROM {self._table} WHERE {which}"
        found: dict[str, _Value] = {}
        for key, body in self._database.read(sql):
            where = f"{self._key} = {quoted(key)}"
            try:
                found[key] = self._decode(body)
            except BodyTooNew as error:
                raise too_new(self._database.path, self._table, where, error) from error
            except BadBody as error:
                self.damaged.append(
                    DamagedRow(table=self._table, where=where, body_column=self._body, problem=str(error))
                )
        return found


def set_aside(database: Database, damaged: Sequence[DamagedRow]) -> None:
    """Move damaged rows out of their tables."""
    if damaged:
        database.write(*[statement for row in damaged for statement in row.set_aside()])


def last_operation(database: Database) -> int:
    """The number of the newest operation, whether or not it is still stored. 0: there was none."""
    stored = database.read("SELECT value FROM meta WHERE key = 'last_operation'")
    (newest,) = database.read(
        "SELECT max(CAST(operation_id AS INTEGER)) FROM operations WHERE operation_id NOT GLOB '*[^0-9]*'"
    )
    counted = int(stored[0][0]) if stored and str(stored[0][0]).isdecimal() else 0
    return max(counted, newest[0] or 0)


def load_commands(database: Database) -> SentCommands:
    """The commands that the limits count."""
    failed = "failed" if database.schema_version >= 4 else "0"
    sent = SentCommands()
    signal = f"CASE WHEN verb = 'checkpoint' AND ({_MAY_MATTER}) THEN CAST(action AS BLOB) END"
    rows = database.read(
        f"SELECT command_id, verb, job_id, issued_s, outcome, {failed}, {signal} FROM commands ORDER BY "
        "command_id"
    )
    for command_id, verb, job_id, issued_s, outcome, has_failed, body in rows:
        sent.add(command_id, verb, job_id, issued_s, signalled=_signalled(body))
        if outcome is not None:
            sent.answer(command_id, outcome, failed=bool(has_failed))
    return sent


def _signalled(body: bytes | None) -> SignalledRun | None:
    """The run that a stored signal is for. None: it cannot be read, or does not name it."""
    try:
        return None if body is None else SignalledRun.of(ACTION.decode(body))
    except BadBody:
        return None
