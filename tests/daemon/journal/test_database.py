"""How the file is opened, and what a failed transaction leaves."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from makeway.daemon.journal.database import Database

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
