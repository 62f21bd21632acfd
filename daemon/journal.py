"""What the daemon remembers: operations, commands, decisions and notices, in SQLite (WAL, synchronous FULL).

A command is written down before it is sent and its answer after. Whoever reads the journal after a crash therefore
finds every command that may have reached the cluster; one without an answer is in doubt, and only a snapshot settles
it. A journal belongs to one daemon at a time, so what every cycle asks for is read once and then kept at hand, changed
after the file and never before it.
"""

import fcntl
import os
import sqlite3
import threading
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from makeway.daemon.sent import SentCommands
from makeway.policies.model import Action, Cluster, Decision, Eviction, Notice, Operation, Phase

SCHEMA_VERSION: Final = 1

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE operations (
    operation_id TEXT PRIMARY KEY, closed INTEGER NOT NULL, opened_s REAL NOT NULL, body TEXT NOT NULL) STRICT;
CREATE TABLE commands (
    command_id INTEGER PRIMARY KEY, operation_id TEXT NOT NULL, verb TEXT NOT NULL, job_id TEXT NOT NULL,
    action TEXT NOT NULL, issued_s REAL NOT NULL, answered_s REAL, outcome TEXT, detail TEXT) STRICT;
CREATE INDEX commands_by_time ON commands (issued_s);
CREATE TABLE decisions (
    decision_id INTEGER PRIMARY KEY, at_s REAL NOT NULL, policy TEXT NOT NULL, body TEXT NOT NULL,
    cluster BLOB) STRICT;
CREATE TABLE notices (notice_id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
"""


class JournalError(ValueError):
    """The journal cannot be used; the message names the file and says what to do."""


class JournalInUse(JournalError):
    """Another daemon has it."""

    def __init__(self, path: Path, pid: int | None) -> None:
        owner = f"the daemon with pid {pid}" if pid is not None else "another daemon"
        super().__init__(f"{path}: in use by {owner}; one journal serves one daemon")
        self.path = path
        self.pid = pid


class JournalTooNew(JournalError):
    """It was written by a newer makeway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """A decision as it was taken."""

    decision_id: int
    at_s: float
    decision: Decision
    cluster: Cluster | None
    """The snapshot that it was taken on. None: it was not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCommand:
    """One command as it was sent."""

    command_id: int
    operation_id: str
    action: Action
    issued_s: float
    answered_s: float | None
    """None: no answer was written down."""
    outcome: str | None
    detail: str


class Journal:
    """The daemon's memory. Safe to call from several threads; every write is one transaction.

    Args:
        path: the file, made if absent. None: in memory, for a replay.
        read_only: look at what another daemon writes, without taking it over. Operations, evictions, failures and
            notices are then those of the instant of opening; decisions and commands are read when they are asked for.

    Raises:
        JournalInUse: another daemon has it open.
        JournalTooNew: a newer makeway wrote it.
        JournalError: it is not a journal, or cannot be opened.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self._path = path
        self._mutex = threading.RLock()
        self._lock_file: int | None = None
        if path is not None and not read_only:
            self._lock_file = _take_lock(path)
        try:
            self._database = _connect(path, read_only)
            self._open_operations = self._load_operations()
            self._sent = self._load_sent()
            self._notices = self._load_notices()
        except BaseException:
            self._let_go()
            raise

    def open_operations(self) -> tuple[Operation, ...]:
        """The operations that are not closed, oldest first."""
        return tuple(self._open_operations.values())

    def save(self, operation: Operation) -> None:
        """Write an operation down as it is now."""
        with self._mutex:
            self._write(*self._upsert(operation))
            self._remember(operation)

    def begin_command(self, operation: Operation, action: Action, now_s: float) -> int:
        """Write down that `action` is about to be sent, together with its operation as it is then.

        Returns: the number to give to `finish_command`.
        """
        insert = (
            "INSERT INTO commands (operation_id, verb, job_id, action, issued_s) VALUES (?, ?, ?, ?, ?)",
            (operation.operation_id, action.verb, action.job_id, _dump(_action(), action), now_s),
        )
        with self._mutex:
            command_id = self._write(*self._upsert(operation), insert)
            self._remember(operation)
            self._sent.add(command_id, action.verb, action.job_id, now_s)
        return command_id

    def finish_command(
        self, command_id: int, operation: Operation, *, outcome: str, detail: str, now_s: float
    ) -> None:
        """Write down the answer to a command, together with its operation as it is then."""
        update = (
            "UPDATE commands SET answered_s = ?, outcome = ?, detail = ? WHERE command_id = ?",
            (now_s, outcome, detail, command_id),
        )
        with self._mutex:
            self._write(*self._upsert(operation), update)
            self._remember(operation)
            self._sent.answer(command_id, outcome)

    def add_decision(self, at_s: float, decision: Decision, cluster: Cluster | None) -> int:
        """Keep a decision, with its snapshot unless that is None. Returns its number."""
        blob = zlib.compress(_dump(_cluster(), cluster).encode(), 6) if cluster is not None else None
        return self._write(
            (
                "INSERT INTO decisions (at_s, policy, body, cluster) VALUES (?, ?, ?, ?)",
                (at_s, decision.policy, _dump(_decision(), decision), blob),
            )
        )

    def decision(self, decision_id: int) -> StoredDecision | None:
        """A decision by its number. None: there is none of that number."""
        row = self._read(
            "SELECT decision_id, at_s, body, cluster FROM decisions WHERE decision_id = ?", (decision_id,)
        )
        return _stored_decision(row[0]) if row else None

    def decisions(self, limit: int) -> tuple[StoredDecision, ...]:
        """The last `limit` decisions, newest first, without their snapshots."""
        rows = self._read(
            "SELECT decision_id, at_s, body, NULL FROM decisions ORDER BY decision_id DESC LIMIT ?", (limit,)
        )
        return tuple(_stored_decision(row) for row in rows)

    def commands(self) -> tuple[StoredCommand, ...]:
        """Every command, in the order in which they were sent."""
        rows = self._read(
            "SELECT command_id, operation_id, action, issued_s, answered_s, outcome, detail FROM commands"
            " ORDER BY command_id"
        )
        return tuple(
            StoredCommand(
                command_id=row[0],
                operation_id=row[1],
                action=_action().validate_json(row[2]),
                issued_s=row[3],
                answered_s=row[4],
                outcome=row[5],
                detail=row[6] or "",
            )
            for row in rows
        )

    def evictions(self, since_s: float) -> tuple[Eviction, ...]:
        """Evictions since then that were carried out or may have been, oldest first."""
        with self._mutex:
            return self._sent.evictions(since_s)

    def failures_s(self, since_s: float) -> tuple[float, ...]:
        """When commands since then were refused or got no answer, oldest first."""
        with self._mutex:
            return self._sent.failures_s(since_s)

    def add_notice(self, notice: Notice) -> None:
        """Keep an announcement; one of the same id is replaced."""
        insert = (
            "INSERT OR REPLACE INTO notices (notice_id, body) VALUES (?, ?)",
            (notice.notice_id, _dump(_notice(), notice)),
        )
        with self._mutex:
            self._write(insert)
            self._notices[notice.notice_id] = notice

    def remove_notice(self, notice_id: str) -> None:
        """Forget an announcement; one that is not there is no error."""
        with self._mutex:
            self._write(("DELETE FROM notices WHERE notice_id = ?", (notice_id,)))
            self._notices.pop(notice_id, None)

    def notices(self) -> tuple[Notice, ...]:
        """The announcements, in the order of their ids."""
        with self._mutex:
            return tuple(self._notices[notice_id] for notice_id in sorted(self._notices))

    def close(self) -> None:
        """Close the file and let another daemon have it."""
        self._database.close()
        self._let_go()

    def _load_operations(self) -> dict[str, Operation]:
        rows = self._read("SELECT body FROM operations WHERE closed = 0 ORDER BY opened_s, operation_id")
        operations = [_operation().validate_json(row[0]) for row in rows]
        return {operation.operation_id: operation for operation in operations}

    def _load_sent(self) -> SentCommands:
        sent = SentCommands()
        rows = self._read(
            "SELECT command_id, verb, job_id, issued_s, outcome FROM commands ORDER BY command_id"
        )
        for command_id, verb, job_id, issued_s, outcome in rows:
            sent.add(command_id, verb, job_id, issued_s)
            if outcome is not None:
                sent.answer(command_id, outcome)
        return sent

    def _load_notices(self) -> dict[str, Notice]:
        rows = self._read("SELECT notice_id, body FROM notices")
        return {notice_id: _notice().validate_json(body) for notice_id, body in rows}

    def _remember(self, operation: Operation) -> None:
        if operation.phase is Phase.CLOSED:
            self._open_operations.pop(operation.operation_id, None)
        else:
            self._open_operations[operation.operation_id] = operation

    def _upsert(self, operation: Operation) -> tuple[tuple[str, tuple[Any, ...]], ...]:
        """What writes an operation down: nothing in a journal without a file, which no later start can read."""
        if self._path is None:
            return ()
        sql = (
            "INSERT INTO operations (operation_id, closed, opened_s, body) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (operation_id) DO UPDATE SET closed = excluded.closed, body = excluded.body"
        )
        closed = int(operation.phase is Phase.CLOSED)
        return ((sql, (operation.operation_id, closed, operation.opened_s, _dump(_operation(), operation))),)

    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> int:
        """Carry out all statements in one transaction. Returns the last row's number."""
        with self._mutex, self._database:
            row_id = 0
            for sql, values in statements:
                row_id = self._database.execute(sql, values).lastrowid or 0
            return row_id

    def _read(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._mutex:
            return self._database.execute(sql, values).fetchall()

    def _let_go(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None


def _take_lock(path: Path) -> int:
    """Take the lock beside the journal and write our pid into it. The system drops it when we die."""
    lock_path = path.with_name(path.name + ".lock")
    try:
        lock_file = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise JournalError(f"{lock_path}: cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        text = os.read(lock_file, 32).decode("ascii", "replace").strip()
        os.close(lock_file)
        raise JournalInUse(path, int(text) if text.isdecimal() else None) from None
    os.ftruncate(lock_file, 0)
    os.write(lock_file, f"{os.getpid()}\n".encode("ascii"))
    return lock_file


def _connect(path: Path | None, read_only: bool) -> sqlite3.Connection:
    """Open the database and see that its schema is ours."""
    try:
        if path is None:
            database = sqlite3.connect(":memory:", check_same_thread=False)
        elif read_only:
            database = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False
            )
        else:
            database = sqlite3.connect(path, check_same_thread=False)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as error:
        raise JournalError(f"{path}: cannot be opened as a journal: {error}") from error
    try:
        _check_schema(database, path, read_only)
    except sqlite3.Error as error:
        database.close()
        raise JournalError(f"{path}: not a journal of makeway: {error}") from error
    except JournalError:
        database.close()
        raise
    return database


def _check_schema(database: sqlite3.Connection, path: Path | None, read_only: bool) -> None:
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables and not read_only:
        with database:
            for statement in _SCHEMA.split(";"):
                if statement.strip():
                    database.execute(statement)
            database.execute("INSERT INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))
        return
    if "meta" not in tables:
        raise JournalError(f"{path}: not a journal of makeway: it has no table 'meta'")
    row = database.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    version = row[0] if row else None
    if not isinstance(version, str) or not version.isdecimal():
        raise JournalError(f"{path}: not a journal of makeway: its schema version is {version!r}")
    if int(version) > SCHEMA_VERSION:
        raise JournalTooNew(
            f"{path}: written by a newer makeway (schema {version}; this one reads up to {SCHEMA_VERSION}):"
            " run that version, or choose another journal"
        )


def _stored_decision(row: tuple[Any, ...]) -> StoredDecision:
    cluster = _cluster().validate_json(zlib.decompress(row[3])) if row[3] is not None else None
    return StoredDecision(
        decision_id=row[0], at_s=row[1], decision=_decision().validate_json(row[2]), cluster=cluster
    )


def _dump(adapter: TypeAdapter[Any], value: object) -> str:
    return adapter.dump_json(value).decode()


@cache
def _operation() -> TypeAdapter[Operation]:
    return TypeAdapter(Operation)


@cache
def _action() -> TypeAdapter[Action]:
    return TypeAdapter(Action)


@cache
def _decision() -> TypeAdapter[Decision]:
    return TypeAdapter(Decision)


@cache
def _cluster() -> TypeAdapter[Cluster]:
    return TypeAdapter(Cluster)


@cache
def _notice() -> TypeAdapter[Notice]:
    return TypeAdapter(Notice)
