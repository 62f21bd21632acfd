"""The journal's files: closed to others, and watched while the daemon runs."""

import errno
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from makeway.daemon.errors import CANNOT_GO_ON, TRY_AGAIN
from makeway.daemon.journal import file_guard
from makeway.daemon.journal.errors import JournalError, JournalInUse, JournalReplaced, JournalUnavailable
from makeway.daemon.journal.store import Journal
from tests.daemon.journal.entries import operation


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "j.sqlite"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with closing(Journal(path)) as opened:
        opened.save(operation("1"))
        yield opened


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def with_suffixes(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in (*file_guard.SUFFIXES, ".lock")]


# Who may touch the files


def test_the_files_are_for_their_owner_alone_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        with closing(Journal(path)) as journal:
            journal.save(operation("1"))
            assert [mode(one) for one in with_suffixes(path)] == [0o600] * 4
    finally:
        os.umask(before)


def test_the_files_of_an_earlier_version_are_closed_to_others(path: Path) -> None:
    Journal(path).close()
    for one in (path, path.with_name("j.sqlite.lock")):
        one.chmod(0o644)
    with closing(Journal(path)) as journal:
        journal.save(operation("1"))
        assert [mode(one) for one in with_suffixes(path)] == [0o600] * 4


def test_a_log_that_a_killed_daemon_left_is_closed_to_others_before_it_is_read(path: Path) -> None:
    files = with_suffixes(path)[:3]
    for one in files:
        one.touch()
        one.chmod(0o644)
    file_guard.make_private(path)
    assert [mode(one) for one in files] == [0o600] * 3


def test_a_folder_into_which_others_can_write_is_refused(path: Path) -> None:
    path.parent.chmod(0o775)
    with pytest.raises(JournalError, match="other users can write into this folder") as error:
        file_guard.check_folder(path.parent)
    assert error.value.exit_status == CANNOT_GO_ON
    path.parent.chmod(0o1777)  # there nobody can replace the files of another user
    file_guard.check_folder(path.parent)
    with pytest.raises(JournalUnavailable):
        file_guard.check_folder(path.parent / "not-mounted")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_is_no_regular_file_is_refused_and_stays_as_it_is(path: Path) -> None:
    """Otherwise makeway, as root, would close /dev/null to all other users."""
    os.mkfifo(path)
    path.chmod(0o666)
    with pytest.raises(JournalError, match="not a regular file"):
        file_guard.make_private(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_a_file_of_another_user_is_refused(path: Path) -> None:
    path.touch()
    os.chown(path, 12_345, -1)
    with pytest.raises(JournalError, match="owned by user 12345, and the daemon is user 0"):
        Journal(path)


# Errors that pass


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (errno.ENOSPC, TRY_AGAIN),
        (errno.EDQUOT, TRY_AGAIN),
        (errno.EROFS, TRY_AGAIN),
        (errno.EIO, TRY_AGAIN),
        (errno.ENOENT, TRY_AGAIN),
        (errno.EACCES, CANNOT_GO_ON),
        (errno.EISDIR, CANNOT_GO_ON),
    ],
)
def test_a_full_disk_or_a_late_mount_passes_and_a_wrong_path_does_not(number: int, status: int) -> None:
    error = file_guard.os_failure(Path("/j"), OSError(number, os.strerror(number)))
    assert error.exit_status == status


def test_a_folder_that_is_not_there_yet_may_be_mounted_later(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable, match="No such file or directory") as error:
        Journal(tmp_path / "not-mounted" / "j.sqlite")
    assert error.value.exit_status == TRY_AGAIN


def test_a_full_disk_passes_in_sqlite_too_and_damage_does_not(path: Path) -> None:
    with closing(Journal(path)) as journal:
        journal.save(operation("1"))
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE more (body BLOB)")
        database.execute("PRAGMA max_page_count = 1")
        with pytest.raises(sqlite3.OperationalError) as full:
            database.execute("INSERT INTO more VALUES (zeroblob(100000))")
    assert isinstance(file_guard.sqlite_failure("j", full.value), JournalUnavailable)
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(JournalError) as damage:
        Journal(path)
    assert not isinstance(damage.value, JournalUnavailable)


# Files that are replaced under the running daemon


def deleted(path: Path) -> None:
    path.unlink()


def folder_emptied(path: Path) -> None:
    for one in with_suffixes(path):
        one.unlink()


def log_deleted(path: Path) -> None:
    path.with_name("j.sqlite-wal").unlink()


def lock_deleted(path: Path) -> None:
    path.with_name("j.sqlite.lock").unlink()


def replaced_by_a_backup(path: Path) -> None:
    os.replace(path.with_name("backup"), path)


def made_anew(path: Path) -> None:
    path.unlink()
    path.touch()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (deleted, "it was deleted"),
        (folder_emptied, "its lock was deleted"),
        (log_deleted, "its write-ahead log was deleted"),
        (lock_deleted, "its lock was deleted"),
        (replaced_by_a_backup, "another file has taken its place"),
        (made_anew, "another file has taken its place"),
    ],
)
def test_another_file_in_its_place_is_noticed_and_a_copy_has_everything(
    journal: Journal, path: Path, change: Callable[[Path], None], why: str
) -> None:
    journal.verify()
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(path.with_name("backup"))) as copy:
        source.backup(copy)
    journal.save(operation("2"))
    journal.verify()
    change(path)
    with pytest.raises(JournalReplaced, match=f"{why}.* while the daemon was running") as error:
        journal.verify()
    assert error.value.exit_status == TRY_AGAIN
    there = path.exists()
    moved = journal.save_copy()
    assert (path.with_name("j.sqlite.replaced-1") in moved) is there
    journal.close()
    assert mode(path) == 0o600
    with closing(Journal(path)) as again:
        assert [one.operation_id for one in again.open_operations()] == ["1", "2"]
        again.verify()


def test_a_file_that_is_set_back_in_place_is_noticed_and_not_copied(journal: Journal, path: Path) -> None:
    with closing(sqlite3.connect(path)) as source:
        source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    journal.save(operation("2"))
    backup = path.with_name("backup")
    shutil.copyfile(path, backup)
    for number in range(3, 2000):
        journal.save(operation(str(number)))  # the log is merged into the file meanwhile
    journal.verify()
    shutil.copyfile(backup, path)
    with pytest.raises(JournalReplaced, match=r"written into it|earlier state|cannot be read"):
        journal.verify()


def test_a_generation_that_is_set_back_is_noticed_and_not_copied(journal: Journal, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE meta SET value = '0' WHERE key = 'generation'")
    with pytest.raises(JournalReplaced, match="earlier state"):
        journal.verify()
    with pytest.raises(JournalError, match="nothing to save"):
        journal.save_copy()


def test_what_the_daemon_itself_writes_and_what_others_read_is_no_change(
    journal: Journal, path: Path
) -> None:
    for number in range(2, 1500):
        journal.save(operation(str(number)))
        if number % 250 == 0:
            journal.verify()
            with closing(Journal(path, read_only=True)) as reader:
                reader.verify()
    journal.prune(1e12)
    journal.verify()


def test_no_copy_replaces_the_journal_of_another_daemon(journal: Journal, path: Path) -> None:
    folder_emptied(path)
    with closing(Journal(path)) as other:
        with pytest.raises(JournalReplaced):
            journal.verify()
        with pytest.raises(JournalInUse):
            journal.save_copy()
        other.verify()


def test_a_journal_in_memory_is_always_itself() -> None:
    with closing(Journal(None)) as journal:
        journal.save(operation("1"))
        journal.verify()


def test_a_disk_without_room_for_the_lock_passes_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int, _text: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(JournalUnavailable, match=r"j\.sqlite\.lock: .*No space left") as error:
            Journal(path)
    assert error.value.exit_status == TRY_AGAIN
    Journal(path).close()


def test_a_file_of_another_program_keeps_its_mode(path: Path) -> None:
    path.write_text("root:x:0:0:root:/root:/bin/bash\n")
    path.chmod(0o644)
    with pytest.raises(JournalError, match="not a journal of makeway: file is not a database"):
        Journal(path)
    assert mode(path) == 0o644
