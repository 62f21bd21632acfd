"""The files of a journal: who has them, who else may touch them, and whether they are still those that were
opened.

Who can read a file can lock it, and so keep a daemon from its start, or read it without an end, so that its
log grows. So all files of a journal are for their owner alone.
"""

import errno
import fcntl
import os
import sqlite3
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from makeway.daemon.journal.errors import JournalError, JournalUnavailable

OWNER_ONLY: Final = 0o600
SUFFIXES: Final = ("", "-wal", "-shm")
"""What the names of a journal's files end in, besides that of its lock."""
_PASSING: Final = frozenset(
    {
        *(errno.EDQUOT, errno.EIO, errno.ENODEV, errno.ENOENT, errno.ENOSPC, errno.ENOTCONN, errno.EROFS),
        *(errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETIMEDOUT),
    }
)
"""Errors of a file system that is full, not mounted yet, or gone for a while."""
_PASSING_IN_SQLITE: Final = frozenset(
    {
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR),
        *(sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY),
    }
)
MOUNTS: Final = Path("/proc/self/mountinfo")
"""Where the kernel lists what is mounted."""
_SQLITE_BEGINS: Final = b"SQLite format 3\0"
_PRIMARY: Final = 0xFF
"""The part of SQLite's error codes that says the kind."""


def is_read_only(path: Path) -> bool:
    """Whether the file system of a path accepts no writes: it was mounted so, or became so after an error.

    Newer kernels show the latter, of ext4, among the options of the mount alone (6.18 as tried): neither
    statvfs nor access tells it. False also where the path cannot be looked at.
    """
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY) or _stopped(path.stat().st_dev)
    except OSError:
        return False


def _stopped(device: int) -> bool:
    """Whether the file system of a device is shut for writes by the kernel.

    Reference: proc_pid_mountinfo(5): the third field is the device, the last one the file system's options.
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    lines = MOUNTS.read_text(errors="replace").splitlines()
    mounts = (line.split() for line in lines)
    return any(found[2] == number and "emergency_ro" in found[-1].split(",") for found in mounts)


def os_failure(path: Path, error: OSError) -> JournalError:
    """Why a file cannot be opened: for a while, or until an administrator mends it."""
    kind = JournalUnavailable if error.errno in _PASSING else JournalError
    return kind(f"{path}: cannot be opened: {error.strerror or error}")


def sqlite_failure(message: str, error: sqlite3.Error) -> JournalError:
    """The error for a file that SQLite cannot use: for a while, or until an administrator mends it."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    passing = code is not None and code & _PRIMARY in _PASSING_IN_SQLITE
    return (JournalUnavailable if passing else JournalError)(f"{message}: {error}")


def check_folder(folder: Path) -> None:
    """Raise `JournalError` if other users can put files of their own in the place of the journal's."""
    try:
        found = folder.stat()
    except OSError as error:
        raise os_failure(folder, error) from error
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others_write and not found.st_mode & stat.S_ISVTX:
        raise JournalError(f"{folder}: other users can write into this folder of the journal: chmod go-w it")


def open_private(path: Path, begins: bytes = b"") -> int:
    """Open a file that its owner alone may use, made if absent; one that others may use is closed to them.
    One that has something and does not begin with `begins` is another program's, and stays as it is.

    Raises:
        JournalUnavailable: the file system is full, or not there yet.
        JournalError: it cannot be opened, is no regular file, or another user owns it.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
    except OSError as error:
        raise os_failure(path, error) from error
    try:
        found = os.fstat(descriptor)
        # Other programs use such a file, like /dev/null: it is not closed to them.
        if not stat.S_ISREG(found.st_mode):
            raise JournalError(f"{path}: not a regular file: a journal needs a path of its own")
        if found.st_uid != os.geteuid():
            raise JournalError(
                f"{path}: owned by user {found.st_uid}, and the daemon is user {os.geteuid()}: chown it"
            )
        if not begins.startswith(os.pread(descriptor, len(begins), 0)):
            raise JournalError(f"{path}: not a journal of makeway: file is not a database")
        if stat.S_IMODE(found.st_mode) & ~OWNER_ONLY:
            os.fchmod(descriptor, OWNER_ONLY)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_private(path: Path) -> None:
    """Make the files of a journal, and close those to others that are there.

    Only before SQLite opens them: to close any descriptor of a file drops SQLite's locks on it.
    """
    os.close(open_private(path, _SQLITE_BEGINS))
    for suffix in SUFFIXES[1:]:
        found = path.with_name(path.name + suffix)
        if found.exists():
            os.close(open_private(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What identifies a file on its machine."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """Which files a journal consisted of at an instant, and when the main one was last written."""

    main: _Seen
    log: _Seen | None
    """None: there was no write-ahead log."""
    changed_ns: int
    size: int

    @classmethod
    def of(cls, path: Path) -> "FileState":
        """The files at that path now. Raises OSError if the main one is not there."""
        found = path.stat()
        try:
            log = path.with_name(f"{path.name}-wal").stat()
        except FileNotFoundError:
            log = None
        return cls(
            main=_Seen(device=found.st_dev, inode=found.st_ino),
            log=None if log is None else _Seen(device=log.st_dev, inode=log.st_ino),
            changed_ns=found.st_mtime_ns,
            size=found.st_size,
        )

    def difference(self, now: "FileState") -> str | None:
        """How the files differ from those that this process left, in words. None: they do not.

        Only the writer of a journal changes its main file, and it takes note of the state after each write.
        """
        if now.main != self.main:
            return "another file has taken its place"
        if self.log is not None and now.log != self.log:
            return "its write-ahead log was deleted or replaced"
        if (now.changed_ns, now.size) != (self.changed_ns, self.size):
            return "another program has written into it"
        return None


def move_aside(path: Path) -> list[Path]:
    """Give the files at the path of a journal other names. Returns those."""
    number = 1
    while any(path.with_name(f"{path.name}.replaced-{number}{suffix}").exists() for suffix in SUFFIXES):
        number += 1
    moved: list[Path] = []
    for suffix in SUFFIXES:
        found = path.with_name(path.name + suffix)
        if found.exists():
            moved.append(found.rename(path.with_name(f"{path.name}.replaced-{number}{suffix}")))
    return moved


def journal_owner(journal: Path) -> str | None:
    """Which process holds the lock of a journal. None: no process does, or the lock cannot be read."""
    try:
        descriptor = os.open(journal.with_name(journal.name + ".lock"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        pid = os.read(descriptor, 32).decode("ascii", "replace").strip()
        return daemon_with(pid) if pid.isdecimal() else "another daemon"
    else:
        return None
    finally:
        os.close(descriptor)


def daemon_with(pid: object) -> str:
    """How messages name the daemon with that process number."""
    return f"the daemon with pid {pid}"
