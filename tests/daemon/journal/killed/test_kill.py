"""A journal survives SIGKILL before every statement: the next start finds the old schema or the new one, and
every row.
"""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.journal.errors import JournalError, JournalUnfinished
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Decision
from tests.builders import closed
from tests.daemon.journal import old_schemas
from tests.daemon.journal.entries import ACTIONS, operation
from tests.daemon.journal.killed import killer

INCREMENTAL = (2,)


def objects(path: Path) -> set[str]:
    """The names of all tables and indices in a file, the columns of `commands`, and the version that
    it says.
    """
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        names = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE sql NOT NULL")}
        names |= {f"commands.{row[1]}" for row in database.execute("PRAGMA table_info(commands)")}
        if "meta" in names:
            query = "SELECT 'version ' || value FROM meta WHERE key = 'schema_version'"
            names |= {row[0] for row in database.execute(query)}
        return names


def killed(job: str, template: Path, folder: Path) -> Iterator[Path]:
    """The files that the job left behind: one for each statement before which it was killed, and the whole
    one.
    """
    run = [sys.executable, killer.__file__, job, str(template), str(folder)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    starts = int(done.stdout)
    assert starts > 10
    for number in range(1, starts + 1):
        path = folder / f"{number}.sqlite"
        if not path.exists():
            path.touch()  # killed before SQLite made the file
        yield path


@pytest.fixture
def new_schema(tmp_path: Path) -> set[str]:
    """The names in a journal that was made without a disturbance."""
    path = tmp_path / "whole.sqlite"
    Journal(path).close()
    return objects(path)


def test_a_first_start_may_be_killed_before_any_statement(tmp_path: Path, new_schema: set[str]) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    for path in killed("start", tmp_path / "absent.sqlite", folder):
        assert objects(path) in (set(), new_schema), path
        with closing(Journal(path)) as journal:
            assert journal.add_decision(1.0, Decision(policy="test"), None) == 1
        assert objects(path) == new_schema
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA auto_vacuum").fetchone() == INCREMENTAL


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_migration_may_be_killed_before_any_statement(
    tmp_path: Path, new_schema: set[str], version: int
) -> None:
    template, folder = tmp_path / "old.sqlite", tmp_path / "killed"
    old_schemas.make(template, version)
    folder.mkdir()
    old_schema = objects(template)
    for path in killed("start", template, folder):
        assert objects(path) in (old_schema, new_schema), path
        with closing(Journal(path)) as journal:
            assert [found.operation_id for found in journal.open_operations()] == ["u@1"]
            assert len(journal.operations_since(0.0)) == 2
            assert [found.outcome for found in journal.commands()] == [
                "accepted",
                "rejected",
                "in_doubt",
                None,
            ]
            assert journal.failures_s(0.0) == (1.0, 1.0)
            assert [found.decision_id for found in journal.decisions(9)] == [1]
            assert [notice.notice_id for notice in journal.notices()] == ["n"]
            assert (journal.leaving_runs(), journal.losses(0.0)) == ({}, ())
        assert objects(path) == new_schema
        with closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA auto_vacuum").fetchone() == INCREMENTAL


def test_pruning_may_be_killed_before_any_statement(tmp_path: Path) -> None:
    template, folder = tmp_path / "full.sqlite", tmp_path / "killed"
    with closing(Journal(template)) as journal:
        journal.begin_command(operation("open@0"), ACTIONS[1], 0.0)
        for number in range(10):
            journal.add_decision(number, Decision(policy="test", actions=ACTIONS[1:2]), None)
            mine = replace(operation(f"u@{number}"), opened_s=number)
            journal.begin_command(mine, ACTIONS[1], number + 0.5)
            journal.save(closed(mine))
    folder.mkdir()
    sizes = []
    for path in killed("prune", template, folder):
        with closing(Journal(path)) as journal:
            decisions = {int(found.at_s) for found in journal.decisions(99)}
            commands = {found.operation_id for found in journal.commands()}
            operations = {found.operation_id for found in journal.operations_since(0.0)}
            assert [found.operation_id for found in journal.open_operations()] == ["open@0"]
        assert decisions >= set(range(5, 10))
        assert commands >= {"open@0", *(f"u@{number}" for number in decisions)}
        assert operations >= commands
        sizes.append(len(decisions))
    assert (sizes[0], sizes[-1]) == (10, 5)
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("cut", range(len(old_schemas.statements(3)) + 1))
def test_a_first_start_of_an_older_makeway_that_was_killed_is_completed(
    tmp_path: Path, new_schema: set[str], cut: int
) -> None:
    """It carried its statements out one by one, and wrote the version down last."""
    path = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        database.execute("PRAGMA journal_mode = WAL")
        for statement in old_schemas.statements(3)[:cut]:
            database.execute(statement)

    with pytest.raises(JournalUnfinished, match="the next start of `makeway run`"):
        Journal(path, read_only=True)
    Journal(path).close()
    assert objects(path) == new_schema


@pytest.mark.parametrize("version", [1, 2])
def test_a_migration_by_an_older_makeway_that_was_killed_is_completed(
    tmp_path: Path, new_schema: set[str], version: int
) -> None:
    rest = old_schemas.statements(3)[len(old_schemas.statements(version)) :]
    for cut in range(len(rest) + 1):
        path = tmp_path / f"{cut}.sqlite"
        old_schemas.make(path, version)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            for statement in rest[:cut]:
                database.execute(statement)

        with closing(Journal(path)) as journal:
            assert len(journal.operations_since(0.0)) == 2
        assert objects(path) == new_schema


def test_an_empty_file_becomes_a_journal(tmp_path: Path, new_schema: set[str]) -> None:
    path = tmp_path / "journal.sqlite"
    path.touch()

    with pytest.raises(JournalUnfinished):
        Journal(path, read_only=True)
    Journal(path).close()
    assert objects(path) == new_schema


def test_rows_without_a_version_are_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    old_schemas.make(path, 3)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("DELETE FROM meta")
    before = path.read_bytes()

    with pytest.raises(JournalError, match="not a journal of makeway: its schema version is None"):
        Journal(path)
    assert path.read_bytes() == before
