"""The journal's tables, and how those of an older makeway become these.

Every change of the schema is one transaction: a process that is killed at any instant leaves the old schema
or the new one. Statements of versions 1 to 3 say IF NOT EXISTS because makeway used to carry them out one by
one: they complete what a killed start left half done then. Only the change of `auto_vacuum` cannot be part of
a transaction. It is asked for at every start until the file has it, and VACUUM is atomic by itself.
"""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_OPERATIONS_AND_DECISIONS: Final = (
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    (
        "CREATE TABLE IF NOT EXISTS operations (operation_id TEXT PRIMARY KEY, closed INTEGER NOT NULL,"
        " opened_s REAL NOT NULL, body TEXT NOT NULL) STRICT"
    ),
    (
        "CREATE TABLE IF NOT EXISTS commands (command_id INTEGER PRIMARY KEY, operation_id TEXT NOT NULL,"
        " verb TEXT NOT NULL, job_id TEXT NOT NULL, action TEXT NOT NULL, issued_s REAL NOT NULL,"
        " answered_s REAL, outcome TEXT, detail TEXT) STRICT"
    ),
    "CREATE INDEX IF NOT EXISTS commands_by_time ON commands (issued_s)",
    (
        "CREATE TABLE IF NOT EXISTS decisions (decision_id INTEGER PRIMARY KEY, at_s REAL NOT NULL,"
        " policy TEXT NOT NULL, body TEXT NOT NULL, cluster BLOB) STRICT"
    ),
    "CREATE TABLE IF NOT EXISTS notices (notice_id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT",
)
_CHECKPOINT_DURATIONS: Final = (
    "CREATE INDEX IF NOT EXISTS commands_by_job ON commands (job_id, issued_s)",
    "CREATE INDEX IF NOT EXISTS commands_by_operation ON commands (operation_id)",
    "CREATE INDEX IF NOT EXISTS operations_by_age ON operations (closed, opened_s)",
    "CREATE INDEX IF NOT EXISTS decisions_by_time ON decisions (at_s)",
    (
        "CREATE TABLE IF NOT EXISTS checkpoints (operation_id TEXT NOT NULL, job_id TEXT NOT NULL, issued_s "
        "REAL NOT NULL, user TEXT NOT NULL, account TEXT NOT NULL, partition TEXT NOT NULL, size INTEGER NOT "
        "NULL, ends INTEGER NOT NULL, duration_s REAL, acknowledged INTEGER, PRIMARY KEY (operation_id, "
        "job_id, issued_s)) STRICT"
    ),
)
_ENDED_RUNS: Final = (
    (
        "CREATE TABLE IF NOT EXISTS runs (job_id TEXT NOT NULL, user TEXT NOT NULL, ended_s REAL NOT NULL,"
        " share REAL NOT NULL, PRIMARY KEY (job_id, ended_s)) STRICT"
    ),
    "CREATE INDEX IF NOT EXISTS runs_by_user ON runs (user, ended_s)",
)
_FAILURES_AND_DAMAGE: Final = (
    # Which commands the circuit breaker counts. Before, a request to try again was not told from a final
    # refusal.
    "ALTER TABLE commands ADD COLUMN failed INTEGER NOT NULL DEFAULT 0",
    (
        "UPDATE commands SET failed = 1 WHERE outcome = 'in_doubt' OR (outcome = 'rejected' AND verb IN "
        "('checkpoint', 'requeue', 'cancel', 'shrink', 'reserve'))"
    ),
    # Rows that a start could not read, as they were.
    (
        "CREATE TABLE set_aside (source TEXT NOT NULL, key TEXT NOT NULL, problem TEXT NOT NULL, body "
        "BLOB) STRICT"
    ),
)
_LOSSES: Final = (
    # A row without `left_s` is a run that is still to leave.
    (
        "CREATE TABLE losses (operation_id TEXT NOT NULL, job_id TEXT NOT NULL, requeue_count INTEGER NOT "
        "NULL, for_job_id TEXT NOT NULL, decided_s REAL NOT NULL, method TEXT NOT NULL, acknowledgement TEXT "
        "NOT NULL, nodes REAL NOT NULL, cpus INTEGER, gpus INTEGER, expected_s REAL NOT NULL, start_s REAL "
        "NOT NULL, setup_s REAL NOT NULL, saved_s REAL, requested_s REAL, reported_s REAL, completed_s REAL, "
        "left_s REAL, lost_s REAL, overhead_s REAL, evicted INTEGER, PRIMARY KEY (operation_id, job_id, "
        "requeue_count)) STRICT"
    ),
    "CREATE INDEX losses_by_decision ON losses (decided_s)",
)
_WHO_TAKES: Final = (
    # Who pays for a loss: the user and the account of the urgent job.
    "ALTER TABLE losses ADD COLUMN for_user TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE losses ADD COLUMN for_account TEXT NOT NULL DEFAULT ''",
    # What users announced: `missed_s` is when the job was missed; it is null if the job came or may still
    # come.
    (
        "CREATE TABLE announcements (notice_id TEXT PRIMARY KEY, user TEXT NOT NULL, announced_s REAL NOT "
        "NULL, node_s REAL NOT NULL, missed_s REAL) STRICT"
    ),
    "CREATE INDEX announcements_by_time ON announcements (announced_s)",
)
STEPS: Final = (
    _OPERATIONS_AND_DECISIONS,
    _CHECKPOINT_DURATIONS,
    _ENDED_RUNS,
    _FAILURES_AND_DAMAGE,
    _LOSSES,
    _WHO_TAKES,
)
"""The statements at index n lead from version n to version n + 1; version 0 is an empty file."""
SCHEMA_VERSION: Final = len(STEPS)
_TABLES: Final = frozenset(
    {"meta", "operations", "commands", "decisions", "notices", "checkpoints", "runs", "set_aside"}
)
_INCREMENTAL: Final = 2
"""What `PRAGMA auto_vacuum` answers if the file can shrink in small steps."""


class ForeignSchema(ValueError):
    """The file's tables are not a journal's. The message says what is wrong, without the file."""


@contextmanager
def transaction(database: sqlite3.Connection) -> Generator[None]:
    """All statements inside, or none of them. The connection must be in autocommit mode
    (`isolation_level=None`).
    """
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def version_of(database: sqlite3.Connection) -> int:
    """The version of the schema. 0: the file is empty, or an older makeway was killed while it made the
    tables.

    Raises:
        ForeignSchema: it is not makeway's.
    """
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return 0
    if "meta" not in tables:
        raise ForeignSchema("it has no table 'meta'")
    row = database.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    if row is None and tables <= _TABLES and not any(_has_rows(database, table) for table in tables):
        return 0
    version = None if row is None else row[0]
    if not (isinstance(version, str) and version.isascii() and version.isdecimal() and int(version) > 0):
        raise ForeignSchema(f"its schema version is {version!r}")
    return int(version)


def _has_rows(database: sqlite3.Connection, table: str) -> bool:
    return database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None


def bring_up_to_date(database: sqlite3.Connection, version: int) -> None:
    """Make the tables, or change those of an older version, and let the file shrink from now on when entries
    go.
    """
    if version < SCHEMA_VERSION:
        with transaction(database):
            for statements in STEPS[version:]:
                for statement in statements:
                    database.execute(statement)
            database.execute(
                "INSERT OR REPLACE INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),)
            )
    if database.execute("PRAGMA auto_vacuum").fetchone() != (_INCREMENTAL,):
        database.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
        database.execute("VACUUM")
