"""The journal's file: its lock, its connection, and the transactions on it."""

import fcntl
import os
import sqlite3
import threading
import weakref
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from makeway.daemon.journal.errors import (
    JournalError,
    JournalInUse,
    JournalReplaced,
    JournalTooNew,
    JournalUnfinished,
)
from makeway.daemon.journal.file_guard import (
    FileState,
    is_read_only,
    make_private,
    move_aside,
    open_private,
    os_failure,
    sqlite_failure,
)
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
"""SQL, and the values of its parameters. One that is a function is called when the statement is carried out.
"""

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
        JournalUnavailable: its disk is full, or not there yet.
        JournalError: it cannot be opened, others can write it, or it is not a journal.
    """

    def __init__(self, path: Path | None, *, read_only: bool) -> None:
        self.path = path
        self.mutex = threading.RLock()
        self._lock_file = None if path is None or read_only else _take_lock(path)
        self._generation: int | None = None
        """How many transactions the file has had. None: it is not counted, in memory or for a reader."""
        self._state: FileState | None = None
        """The files after the last transaction. None: there are none, or they are only read."""
        try:
            if path is not None and not read_only:
                make_private(path)
            self._connection, self.schema_version = _connect(path, read_only=read_only)
            # Replays drop their journals in memory. From 3.13 on Python warns of connections left open.
            weakref.finalize(self, self._connection.close)
            if path is not None and not read_only:
                self._generation = self._stored_generation()
                self._note_state()
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
        with self.mutex, self._transaction():
            for sql, values in statements:
                cursor.execute(sql, tuple(value() if callable(value) else value for value in values))
        return cursor.lastrowid or 0

    def delete(self, *statements: Statement) -> list[list[Row]]:
        """Carry out all statements in one transaction. Returns the rows that each of them gave
        (RETURNING).
        """
        with self.mutex, self._transaction():
            return [self._connection.execute(sql, values).fetchall() for sql, values in statements]

    def shrink(self, pages: int) -> None:
        """Give up to `pages` unused pages back to the file system."""
        with self.mutex:
            # As a script: `execute` stops after the first page, because the rows of this pragma have no
            # columns.
            self._connection.executescript(f"PRAGMA incremental_vacuum({pages})")
            self._note_state()

    def verify(self) -> None:
        """Check that the file is still the one that was opened, and has what was written into it.

        Raises:
            JournalReplaced: it was deleted, replaced, or set back to an earlier state.
        """
        with self.mutex:
            why = self._why_replaced()
        if why is not None:
            raise JournalReplaced(f"{self.path}: {why} while the daemon was running")

    def save_copy(self) -> list[Path]:
        """Put a copy of the file that is still open, complete, where it was. Returns the new names of what
        was there.

        For a file that was deleted or replaced. One that was written into cannot be told from what others
        wrote.

        Raises:
            JournalInUse: another daemon has the lock by now.
            JournalError: the copy cannot be made.
        """
        assert self.path is not None
        copy = self.path.with_name(f"{self.path.name}.copy")
        with self.mutex:
            if not self._has_lock():
                self._release_lock()
                self._lock_file = _take_lock(self.path)
            try:
                if self._stored_generation() != self._generation:
                    raise JournalError(f"{self.path}: the open file is not what was written: nothing to save")
                copy.unlink(missing_ok=True)
                os.close(open_private(copy))
                with closing(sqlite3.connect(copy, isolation_level=None)) as target:
                    self._connection.backup(target)
                moved = move_aside(self.path)
                copy.rename(self.path)
            except sqlite3.Error as error:
                raise sqlite_failure(f"{self.path}: cannot be copied", error) from error
            except OSError as error:
                raise os_failure(self.path, error) from error
        return moved

    def _why_replaced(self) -> str | None:
        if self.path is None or self._state is None:
            return None
        if not self._has_lock():
            return "its lock was deleted or replaced"
        try:
            difference = self._state.difference(FileState.of(self.path))
            # Without this SQLite would answer out of its memory.
            self._connection.execute("PRAGMA shrink_memory")
            same = self._stored_generation() == self._generation
        except FileNotFoundError:
            return "it was deleted"
        except (OSError, sqlite3.Error) as error:
            return f"it cannot be read any more ({error})"
        return difference or (None if same else "it was set back to an earlier state")

    def _has_lock(self) -> bool:
        """Whether the file of the lock is still the one that is locked."""
        assert self.path is not None
        assert self._lock_file is not None
        mine = os.fstat(self._lock_file)
        try:
            there = _lock_path(self.path).stat()
        except OSError:
            return False
        return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)

    def _stored_generation(self) -> int:
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()
        return int(row[0]) if row is not None and str(row[0]).isdecimal() else 0

    @contextmanager
    def _transaction(self) -> Generator[None]:
        """All statements inside, or none, and one more generation of the file."""
        if self._generation is None:
            with transaction(self._connection):
                yield
            return
        with transaction(self._connection):
            yield
            count = "INSERT OR REPLACE INTO meta VALUES ('generation', ?)"
            self._connection.execute(count, (str(self._generation + 1),))
        self._generation += 1
        self._note_state()

    def _note_state(self) -> None:
        if self.path is not None and self._generation is not None:
            with suppress(OSError):  # it is gone, which `verify` reports
                self._state = FileState.of(self.path)

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
    lock_file = open_private(_lock_path(path))
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        text = os.read(lock_file, 32).decode("ascii", "replace").strip()
        os.close(lock_file)
        raise JournalInUse(path, int(text) if text.isdecimal() else None) from None
    try:
        os.ftruncate(lock_file, 0)
        os.write(lock_file, f"{os.getpid()}\n".encode("ascii"))
    except OSError as error:
        os.close(lock_file)
        raise os_failure(_lock_path(path), error) from error
    return lock_file


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _connect(path: Path | None, *, read_only: bool) -> tuple[sqlite3.Connection, int]:
    """Open the file, with the tables of this makeway unless it is only read. Returns the version of its
    schema, too.
    """
    if path is None:
        where = ":memory:"
    elif read_only:
        where = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if _is_at_rest(path) else ''}"
    else:
        where = str(path)
    try:
        # Autocommit: Python's own transactions would commit each CREATE TABLE by itself.
        connection = sqlite3.connect(where, uri=read_only, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise _not_opened(path, error, read_only=read_only) from error
    try:
        version = _known_version(connection, path, read_only=read_only)
        if not read_only:
            _make_ready(connection, path, version)
        elif version == 0:
            raise JournalUnfinished(path)
    except BaseException:
        connection.close()
        raise
    return connection, version if read_only else SCHEMA_VERSION


def _is_at_rest(path: Path) -> bool:
    """Whether a database is on a read-only file system and has no log of writes next to it. SQLite can then
    read it without creating any files.
    """
    return is_read_only(path) and not _log_of_writes(path)


def _log_of_writes(path: Path) -> Path | None:
    """SQLite's log of writes (`-wal`) to a database. None: there is none, or it is empty."""
    log = path.with_name(path.name + "-wal")
    with suppress(OSError):
        return log if log.stat().st_size else None
    return None


def _not_opened(path: Path | None, error: sqlite3.Error, *, read_only: bool) -> JournalError:
    """Why SQLite does not open a file. A reader asks once, whether the failure may pass or not."""
    where = f"{path}: cannot be opened as a journal"
    if read_only and path is not None:
        try:
            path.open("rb").close()
        except OSError as cause:  # SQLite says the same of all of them
            return JournalError(f"{where}: {cause.strerror or cause}")
        if is_read_only(path) and (log := _log_of_writes(path)) is not None:
            return JournalError(f"{where} on a read-only file system: copy it and {log} to another folder")
    found = sqlite_failure(where, error)
    return JournalError(str(found)) if read_only else found


def _known_version(connection: sqlite3.Connection, path: Path | None, *, read_only: bool) -> int:
    try:
        version = version_of(connection)
    except sqlite3.OperationalError as error:
        raise _not_opened(path, error, read_only=read_only) from error
    except (sqlite3.Error, ForeignSchema) as error:
        damaged = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_CORRUPT
        what = "the file is damaged" if damaged else "not a journal of makeway"
        raise JournalError(f"{path}: {what}: {error}") from error
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
        raise sqlite_failure(f"{path}: cannot be made ready as a journal", error) from error
