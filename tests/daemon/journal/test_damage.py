"""Bodies that cannot be read: one line where they are asked for, and a start that goes on without them."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from makeway.adapters.site.checks import Level
from makeway.daemon.cli.main import run_cli
from makeway.daemon.inspect.doctor import check_journal
from makeway.daemon.journal.errors import JournalError, JournalTooNew
from makeway.daemon.journal.formats import FORMAT
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Decision, Notice, Plan
from tests.builders import closed, cluster, urgent
from tests.daemon.journal.entries import ACTIONS, operation

NEWER = json.dumps({"format": FORMAT + 1, "body": {"a": "newer makeway's"}})
CUT_SHORT = '{"format":1,"body":{"operation_id":"u@'
NOT_UTF_8 = b'{"format":1,"body":{"policy":"\xff\xfe"}}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with an open and a closed operation, two commands, two decisions, a plan and an
    announcement.
    """
    path = tmp_path / "journal.sqlite"
    plan = Plan(made_s=0.0, order=("7",), starts_s=(1.0,), value=1.0, easy_value=2.0, bound=0.5)
    with closing(Journal(path)) as journal:
        for number in (1, 2):
            mine = operation(f"u@{number}")
            journal.add_decision(number, Decision(policy="test", actions=ACTIONS), cluster(2, urgent("u", 1)))
            journal.begin_command(mine, ACTIONS[1], float(number))
        journal.save(closed(operation("u@1")))
        journal.save_plan(plan)
        journal.add_notice(
            Notice(notice_id="n", user="u", node_count=1, walltime_s=9.0, announced_s=0.0, expected_s=9.0)
        )
    return path


def damage(path: Path, table: str, column: str, where: str, body: str | bytes) -> None:
    """Replace a body, as a fault of the disk or another program would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        value = "CAST(? AS TEXT)" if column != "cluster" else "?"
        changed = database.execute(f"UPDATE {table} SET {column} = {value} WHERE {where}", (body,))
        assert changed.rowcount == 1


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    """The rows of a query."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(sql).fetchall()


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str]) -> Iterator[pytest.CaptureFixture[str]]:
    """The capture, after which nothing is on standard output."""
    yield capsys
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (NEWER, f"a newer makeway wrote it (format {FORMAT + 1}; this one reads up to {FORMAT})"),
        (CUT_SHORT, "cannot be read: it is not JSON"),
        (NOT_UTF_8, "cannot be read: it is not JSON"),
        ("{}", "cannot be read: policy: Field required"),
    ],
)
@pytest.mark.parametrize("command", [["explain"], ["explain", "2"], ["summary"]])
def test_a_decision_that_cannot_be_read_is_one_line(
    path: Path,
    command: list[str],
    body: str | bytes,
    reason: str,
    complaint: pytest.CaptureFixture[str],
) -> None:
    damage(path, "decisions", "body", "decision_id = 2", body)

    assert run_cli([*command, "--journal", str(path)], factories={}) == 2
    line = complaint.readouterr().err
    assert line.startswith(f"makeway: error: {path}: decisions, row decision_id = 2: ")
    assert reason in line
    assert line.count("\n") == 1
    assert "run that version" in line or "DELETE FROM decisions WHERE decision_id = 2" in line


def test_a_damaged_snapshot_action_or_operation_is_one_line(
    path: Path, complaint: pytest.CaptureFixture[str]
) -> None:
    damage(path, "decisions", "cluster", "decision_id = 2", b"no zlib")
    assert run_cli(["explain", "2", "--journal", str(path)], factories={}) == 2
    assert (
        "decisions, row decision_id = 2: cannot be read: it is not compressed" in complaint.readouterr().err
    )

    damage(path, "commands", "action", "command_id = 2", CUT_SHORT)
    assert run_cli(["explain", "1", "--journal", str(path)], factories={}) == 2
    assert "commands, row command_id = 2: cannot be read" in complaint.readouterr().err

    damage(path, "operations", "body", "operation_id = 'u@1'", CUT_SHORT)
    assert run_cli(["summary", "--journal", str(path)], factories={}) == 2
    assert "operations, row operation_id = 'u@1': cannot be read" in complaint.readouterr().err


def test_the_remedy_of_the_message_helps(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(path, "decisions", "body", "decision_id = 2", CUT_SHORT)
    with closing(Journal(path, read_only=True)) as journal, pytest.raises(JournalError) as caught:
        journal.decisions(9)
    remedy = str(caught.value).rpartition(": ")[2]
    assert remedy == f'sqlite3 {path} "DELETE FROM decisions WHERE decision_id = 2"'
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(remedy.split('"')[1])

    assert run_cli(["explain", "last", "--journal", str(path)], factories={}) == 0
    assert capsys.readouterr().err == ""


def test_what_is_closed_does_not_concern_a_start(path: Path) -> None:
    damage(path, "operations", "body", "operation_id = 'u@1'", CUT_SHORT)
    damage(path, "decisions", "body", "decision_id = 2", CUT_SHORT)

    with closing(Journal(path)) as journal:
        assert journal.damaged == ()
        assert [found.operation_id for found in journal.open_operations()] == ["u@2"]
    check = check_journal(path)
    assert check.level is Level.WARNING
    assert "2 rows cannot be read, first: " in check.text
    assert "operations, row operation_id = 'u@1'" in check.text


@pytest.mark.parametrize(
    ("table", "column", "where"),
    [
        ("operations", "body", "operation_id = 'u@2'"),
        ("notices", "body", "notice_id = 'n'"),
        ("meta", "value", "key = 'plan'"),
    ],
)
def test_a_start_sets_aside_what_it_cannot_read(path: Path, table: str, column: str, where: str) -> None:
    damage(path, table, column, where, NOT_UTF_8)

    reader = Journal(path, read_only=True)
    reader.close()
    assert [f"{table}, row {where}" in row for row in reader.damaged] == [True]
    assert rows(path, "SELECT * FROM set_aside") == []
    check = check_journal(path)
    assert (check.level, f"{table}, row {where}: cannot be read" in check.text) == (Level.WARNING, True)

    with closing(Journal(path)) as journal:
        assert journal.damaged == reader.damaged
        left = (len(journal.open_operations()), len(journal.notices()), journal.plan() is not None)
        whole = {"operations": (0, 1, True), "notices": (1, 0, True), "meta": (1, 1, False)}
        assert left == whole[table]
        assert len(journal.commands()) == 2, "the limits count them, whatever becomes of their operation"
    kept = rows(path, "SELECT source, key, problem, body FROM set_aside")
    assert [(source, key, body) for source, key, _, body in kept] == [(table, where, NOT_UTF_8)]
    with closing(Journal(path)) as again:
        assert again.damaged == ()


@pytest.mark.parametrize(
    ("table", "column", "where"),
    [
        ("operations", "body", "operation_id = 'u@2'"),
        ("notices", "body", "notice_id = 'n'"),
        ("meta", "value", "key = 'plan'"),
    ],
)
def test_what_a_newer_makeway_wrote_is_left_to_it(path: Path, table: str, column: str, where: str) -> None:
    damage(path, table, column, where, NEWER)

    with pytest.raises(JournalTooNew, match=f"{table}, row {where}: .*: run that version"):
        Journal(path)
    assert rows(path, f"SELECT {column} FROM {table} WHERE {where}") == [(NEWER,)]
    check = check_journal(path)
    assert (check.level, "run that version" in check.text) == (Level.PROBLEM, True)


def test_a_file_that_is_damaged_elsewhere_is_one_line(
    path: Path, complaint: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'decisions'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())
    content[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(bytes(content))

    assert run_cli(["explain", "--journal", str(path)], factories={}) == 2
    line = complaint.readouterr().err
    assert line.startswith(f"makeway: error: {path}: cannot be read: ")
    assert line.count("\n") == 1


@pytest.mark.parametrize("command", [["explain"], ["summary"]])
def test_an_empty_journal_is_one_line(
    tmp_path: Path, command: list[str], complaint: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "journal.sqlite"
    path.touch()

    assert run_cli([*command, "--journal", str(path)], factories={}) == 2
    assert complaint.readouterr().err == (
        f"makeway: error: {path}: holds nothing yet; the next start of `makeway run` makes its tables\n"
    )
    assert check_journal(path).level is Level.OK
