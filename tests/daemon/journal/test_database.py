"""How the file is opened, and what a failed transaction leaves."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from makeway.daemon.journal.database import Database
from makeway.daemon.journal.errors import JournalError

FULL = 2
INCREMENTAL = 2


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(Database(tmp_path / "journal.sqlite", read_only=False)) as opened:
        yield opened


def test_what_was_acknowledged_is_on_the_disk(database: Database) -> None:
    assert database.read("PRAGMA journal_mode") == [("wal",)]
    assert database.read("PRAGMA synchronous") == [(FULL,)]
    assert database.read("PRAGMA auto_vacuum") == [(INCREMENTAL,)]


def test_a_transaction_is_carried_out_whole_or_not_at_all(database: Database) -> None:
    insert = "INSERT INTO notices VALUES (?, 'x')"
    with pytest.raises(sqlite3.IntegrityError):
        database.write((insert, ("a",)), (insert, ("a",)))
    assert database.read("SELECT * FROM notices") == []

    database.write((insert, ("a",)))
    assert database.read("SELECT notice_id FROM notices") == [("a",)]


def test_a_write_returns_the_number_of_the_last_row(database: Database) -> None:
    insert = "INSERT INTO decisions (at_s, policy, body) VALUES (0.0, 'test', '{}')"
    assert database.write() == 0
    assert database.write((insert, ()), (insert, ())) == 2


def test_a_file_that_is_only_read_cannot_be_changed(database: Database) -> None:
    with closing(Database(database.path, read_only=True)) as reader, pytest.raises(sqlite3.OperationalError):
        reader.write(("DELETE FROM meta", ()))


@pytest.fixture
def read_only_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root could mount one."""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))


@pytest.mark.usefixtures("read_only_file_system")
def test_no_file_is_made_beside_one_on_a_read_only_file_system(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with closing(Database(path, read_only=False)) as writer:
        writer.write(("INSERT INTO notices (notice_id, body) VALUES (?, '{}')", ("a",)))
    kept = sorted(tmp_path.iterdir())
    with closing(Database(path, read_only=True)) as reader:
        assert reader.read("SELECT notice_id FROM notices") == [("a",)]
        assert sorted(tmp_path.iterdir()) == kept


@pytest.mark.usefixtures("read_only_file_system")
def test_there_too_a_log_of_writes_is_read(database: Database) -> None:
    database.write(("INSERT INTO notices (notice_id, body) VALUES (?, '{}')", ("a",)))
    with closing(Database(database.path, read_only=True)) as reader:
        assert reader.read("SELECT notice_id FROM notices") == [("a",)]


@pytest.mark.usefixtures("read_only_file_system")
def test_what_cannot_be_read_there_has_to_be_copied(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite does not say more than that, whatever the cause."""
    database.write(("INSERT INTO notices (notice_id, body) VALUES (?, '{}')", ("a",)))

    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(sqlite3, "connect", refuse)
    with pytest.raises(JournalError, match=r"copy it and .*journal\.sqlite-wal to another folder"):
        Database(database.path, read_only=True)


def test_a_file_that_may_change_is_not_taken_for_one_at_rest(tmp_path: Path) -> None:
    """Its log of writes is empty when the reader opens it."""
    path = tmp_path / "journal.sqlite"
    Database(path, read_only=False).close()
    with (
        closing(Database(path, read_only=True)) as reader,
        closing(Database(path, read_only=False)) as writer,
    ):
        writer.write(("INSERT INTO notices (notice_id, body) VALUES (?, '{}')", ("a",)))
        assert reader.read("SELECT notice_id FROM notices") == [("a",)]
