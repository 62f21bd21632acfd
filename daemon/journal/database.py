"""The journal's file: its lock, its connection, and the transactions on it."""

import fcntl
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any, Final

from makeway.daemon.journal.errors import JournalError, JournalInUse, JournalTooNew, JournalUnfinished
from makeway.daemon.journal.schema import (
    SCHEMA_VERSION,
    ForeignSchema,
    bring_up_to_date,
    transaction,
    version_of,
)

Row = tuple[Any, ...]
"""What SQLite gives for one row: the types are those of the schema."""
Statement = tuple[str, Row]
"""SQL, and the values of its parameters."""

_WAL_BYTES: Final = 4 * 2**20
"""The size to which the write-ahead log is cut back after it was merged into the file."""


class Database:
    """One journal file. Safe to use from several threads.

    Args:
        path: the file, made if absent. None: in memory.
        read_only: read what another process writes, without the lock.

    Raises:
        JournalInUse: another daemon has the lock.
        JournalTooNew: a newer makeway made the tables.
        JournalError: it cannot be opened, or it is not a journal.
    """

    def __init__(self, path: Path | None, *, read_only: bool) -> None:
        self.path = path
        self.mutex = threading.RLock()
        self._lock_file = None if path is None or read_only else _take_lock(path)
        try:
            self._connection, self.schema_version = _connect(path, read_only=read_only)
        except BaseException:
            self._release_lock()
            raise

    def read(self, sql: str, values: Row = ()) -> list[Row]:
        """The rows of a query.

        Raises:
            JournalError: the file is damaged, or cannot be read any more.
        """
        try:
            with self.mutex:
                return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: cannot be read: {error}") from error

    def write(self, *statements: Statement) -> int:
        """Carry out all statements in one transaction. Returns the number of the last inserted row; 0: none
        was.
        """
        cursor = self._connection.cursor()
        with self.mutex, transaction(self._connection):
            for sql, values in statements:
                cursor.execute(sql, values)
        return cursor.lastrowid or 0

    def delete(self, *statements: Statement) -> list[list[Row]]:
        """Carry out all statements in one transaction. Returns the rows that each of them gave
        (RETURNING).
        """
        with self.mutex, transaction(self._connection):
            return [self._connection.execute(sql, values).fetchall() for sql, values in statements]

    def shrink(self, pages: int) -> None:
        """Give up to `pages` unused pages back to the file system."""
        with self.mutex:
            # As a script: `execute` stops after the first page, because the rows of this pragma have no
            # columns.
            self._connection.executescript(f"PRAGMA incremental_vacuum({pages})")

    def close(self) -> None:
        """Close the file and let another daemon have it."""
        self._connection.close()
        self._release_lock()

    def _release_lock(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None


def _take_lock(path: Path) -> int:
    """Take the lock of the journal and write the pid into it. The system drops it when this process ends."""
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


def _connect(path: Path | None, *, read_only: bool) -> tuple[sqlite3.Connection, int]:
    """Open the file, with the tables of this makeway unless it is only read. Returns the version of its
    schema, too.
    """
    if path is None:
        where = ":memory:"
    elif read_only:
        where = f"{path.absolute().as_uri()}?mode=ro"
    else:
        where = str(path)
    try:
        # Autocommit: Python's own transactions would commit each CREATE TABLE by itself.
        connection = sqlite3.connect(where, uri=read_only, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise JournalError(f"{path}: cannot be opened as a journal: {error}") from error
    try:
        version = _known_version(connection, path)
        if not read_only:
            _make_ready(connection, path, version)
        elif version == 0:
            raise JournalUnfinished(path)
    except BaseException:
        connection.close()
        raise
    return connection, version if read_only else SCHEMA_VERSION


def _known_version(connection: sqlite3.Connection, path: Path | None) -> int:
    try:
        version = version_of(connection)
    except sqlite3.OperationalError as error:
        raise JournalError(f"{path}: cannot be opened as a journal: {error}") from error
    except (sqlite3.Error, ForeignSchema) as error:
        raise JournalError(f"{path}: not a journal of makeway: {error}") from error
    if version > SCHEMA_VERSION:
        raise JournalTooNew(
            f"{path}: written by a newer makeway (schema {version}; this one reads up to {SCHEMA_VERSION}):"
            " run that version, or choose another journal"
        )
    return version


def _make_ready(connection: sqlite3.Connection, path: Path | None, version: int) -> None:
    """What the writer needs. Each statement may be the last one before a kill: the next start does
    the rest.
    """
    try:
        if connection.execute("PRAGMA page_count").fetchone() == (0,):
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        bring_up_to_date(connection, version)
    except sqlite3.Error as error:
        raise JournalError(f"{path}: cannot be made ready as a journal: {error}") from error
