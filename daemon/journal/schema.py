"""The journal's file: its schema, its lock, and how it is opened."""

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Final

from makeway.daemon.journal.errors import JournalError, JournalInUse, JournalTooNew

SCHEMA_VERSION: Final = 4

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
_SINCE_2 = """
CREATE INDEX commands_by_job ON commands (job_id, issued_s);
CREATE INDEX commands_by_operation ON commands (operation_id);
CREATE INDEX operations_by_age ON operations (closed, opened_s);
CREATE INDEX decisions_by_time ON decisions (at_s);
CREATE TABLE checkpoints (
    operation_id TEXT NOT NULL, job_id TEXT NOT NULL, issued_s REAL NOT NULL, user TEXT NOT NULL,
    account TEXT NOT NULL, partition TEXT NOT NULL, size INTEGER NOT NULL, ends INTEGER NOT NULL,
    duration_s REAL, acknowledged INTEGER, PRIMARY KEY (operation_id, job_id, issued_s)) STRICT;
"""
"""What version 2 adds. The file shrinks when old entries are removed: `auto_vacuum`, which VACUUM brings into effect."""
_SINCE_3 = """
CREATE TABLE runs (
    job_id TEXT NOT NULL, user TEXT NOT NULL, ended_s REAL NOT NULL, share REAL NOT NULL,
    PRIMARY KEY (job_id, ended_s)) STRICT;
CREATE INDEX runs_by_user ON runs (user, ended_s);
"""
_WAL_BYTES: Final = 4 * 2**20
"""What of the write-ahead log stays on the disk after it was merged into the file."""


def take_lock(path: Path) -> int:
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


def connect(path: Path | None, read_only: bool) -> sqlite3.Connection:
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
            if database.execute("PRAGMA page_count").fetchone() == (0,):
                database.execute("PRAGMA auto_vacuum = INCREMENTAL")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
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
            _execute(database, _SCHEMA + _SINCE_2 + _SINCE_3)
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
    if int(version) < SCHEMA_VERSION and not read_only:
        with database:
            _execute(
                database, (_SINCE_2 if int(version) < 2 else "") + (_SINCE_3 if int(version) < 3 else "")
            )
            database.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (str(SCHEMA_VERSION),))
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        database.execute("VACUUM")


def _execute(database: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";"):
        if statement.strip():
            database.execute(statement)
