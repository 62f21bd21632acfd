"""What the journal keeps, and which processes may open it."""

import math
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.daemon.journal.errors import JournalError, JournalInUse, JournalTooNew
from makeway.daemon.journal.schema import SCHEMA_VERSION
from makeway.daemon.journal.store import Journal
from makeway.policies.model import (
    Action,
    Cancel,
    Decision,
    Eviction,
    Notice,
    Rationale,
    Release,
    Requeue,
    Reserve,
    Shrink,
)
from tests.builders import closed, cluster, running, urgent
from tests.daemon.journal.entries import ACTIONS, NODES, filled, operation


def test_an_operation_with_every_action_survives(path: Path) -> None:
    journal = Journal(path)
    journal.save(operation())
    journal.close()

    assert Journal(path).open_operations() == (operation(),)


def test_a_closed_operation_is_not_open(path: Path) -> None:
    journal = Journal(path)
    journal.save(operation("a@0"))
    journal.save(operation("b@0"))
    journal.save(closed(operation("a@0")))

    assert [found.operation_id for found in journal.open_operations()] == ["b@0"]
    journal.close()
    assert [found.operation_id for found in Journal(path).open_operations()] == ["b@0"]


def test_a_command_is_there_before_its_answer(path: Path) -> None:
    journal = Journal(path)
    command_id = journal.begin_command(operation(), ACTIONS[1], 10.0)
    journal.close()

    (command,) = Journal(path, read_only=True).commands()
    assert (command.command_id, command.action, command.outcome) == (command_id, ACTIONS[1], None)


def test_limits_count_what_was_done_and_what_may_have_been(path: Path) -> None:
    journal = Journal(path)
    for outcome, at_s in [
        ("accepted", 10.0),
        ("rejected", 11.0),
        ("in_doubt", 12.0),
        (None, 13.0),
        ("gone", 14.0),
    ]:
        command_id = journal.begin_command(operation(), ACTIONS[1], at_s)
        if outcome is not None:
            journal.finish_command(
                command_id, operation(), outcome=outcome, failed=outcome == "in_doubt", detail="", now_s=at_s
            )
    journal.begin_command(operation(), ACTIONS[0], 15.0)

    assert [eviction.at_s for eviction in journal.evictions(0.0)] == [10.0, 12.0, 13.0]
    assert [eviction.at_s for eviction in journal.evictions(12.0)] == [12.0, 13.0]
    assert journal.failures_s(0.0) == (12.0,)


@settings(deadline=None)
@given(
    sent=st.lists(
        st.tuples(
            st.sampled_from(ACTIONS),
            st.integers(0, 9),
            st.sampled_from([None, "accepted", "rejected", "in_doubt", "gone"]),
            st.booleans(),
        ),
        max_size=12,
    ),
    since_s=st.integers(0, 10),
)
def test_the_limits_count_alike_in_memory_and_after_a_start(
    tmp_path_factory: pytest.TempPathFactory,
    sent: list[tuple[Action, int, str | None, bool]],
    since_s: int,
) -> None:
    path = tmp_path_factory.mktemp("sent") / "journal.sqlite"
    journal = Journal(path)
    for action, at_s, outcome, failed in sent:
        command_id = journal.begin_command(operation(), action, float(at_s))
        if outcome is not None:
            journal.finish_command(
                command_id, operation(), outcome=outcome, failed=failed, detail="", now_s=float(at_s)
            )
    evictions = tuple(
        Eviction(job_id="7", at_s=float(at_s))
        for action, at_s, outcome, _ in sent
        if at_s >= since_s
        and isinstance(action, Requeue | Cancel | Shrink)
        and outcome in (None, "accepted", "in_doubt")
    )
    counted = [
        (isinstance(action, Reserve) and outcome == "rejected", float(at_s))
        for action, at_s, outcome, failed in sent
        if at_s >= since_s and outcome is not None and failed
    ]
    last = max((place for place, (refused_hold, _) in enumerate(counted) if refused_hold), default=None)
    failures_s = tuple(at_s for place, (refused, at_s) in enumerate(counted) if not refused or place == last)

    assert (journal.evictions(since_s), journal.failures_s(since_s)) == (evictions, failures_s)
    journal.close()
    with closing(Journal(path)) as again:
        assert (again.evictions(since_s), again.failures_s(since_s)) == (evictions, failures_s)


def test_a_journal_that_nobody_reads_knows_what_a_cycle_asks_for_and_stores_nothing() -> None:
    journal, other = Journal(None, unread=True), Journal(None)
    notice = Notice(notice_id="n", user="u", node_count=1, walltime_s=60.0, announced_s=1.0, expected_s=9.0)
    for one in (journal, other):
        one.save(operation())
        ids = [one.begin_command(operation(), action, 5.0) for action in ACTIONS]
        assert len(set(ids)) == len(ACTIONS), "each has a number of its own"
        one.finish_command(ids[0], operation(), outcome="accepted", failed=True, detail="", now_s=6.0)
        one.add_notice(notice)
        one.add_decision(6.0, Decision(policy="test", actions=ACTIONS), None)
    assert journal.open_operations() == other.open_operations() == (operation(),)
    assert journal.evictions(0.0) == other.evictions(0.0) != ()
    assert journal.failures_s(0.0) == other.failures_s(0.0) == (5.0,)
    assert journal.notices() == other.notices() == (notice,)
    assert (len(other.decisions(9)), len(other.commands())) == (1, len(ACTIONS))
    assert (journal.decisions(9), journal.commands()) == ((), ())


def test_a_decision_comes_back_with_its_snapshot(path: Path) -> None:
    view = cluster(4, urgent("u", 2), running("7", NODES))
    why = Rationale(for_job_id="u", node_count=2, free_node_count=2, deadline_s=9.0, summary="free")
    decision = Decision(policy="test", actions=ACTIONS, rationale=(why,))
    journal = Journal(path)
    with_view, without = journal.add_decision(5.0, decision, view), journal.add_decision(6.0, decision, None)

    stored = journal.decision(with_view)
    assert stored is not None
    assert (stored.decision, stored.cluster, stored.at_s) == (decision, view, 5.0)
    bare = journal.decision(without)
    assert bare is not None
    assert bare.cluster is None
    assert [found.decision_id for found in journal.decisions(5)] == [without, with_view]
    assert journal.decision(99) is None


def test_notices_are_kept_replaced_and_forgotten(path: Path) -> None:
    notice = Notice(notice_id="n", user="u", node_count=2, walltime_s=60.0, announced_s=0.0, expected_s=900.0)
    journal = Journal(path)
    journal.add_notice(notice)
    journal.add_notice(replace(notice, node_count=3))
    assert [found.node_count for found in journal.notices()] == [3]

    journal.remove_notice("n")
    journal.remove_notice("n")
    assert journal.notices() == ()


def test_notices_survive_in_the_order_of_their_ids(path: Path) -> None:
    notice = Notice(notice_id="b", user="u", node_count=2, walltime_s=60.0, announced_s=0.0, expected_s=900.0)
    other = replace(notice, notice_id="a", node_count=7)
    journal = Journal(path)
    for told in (notice, other, replace(notice, notice_id="gone")):
        journal.add_notice(told)
    journal.remove_notice("gone")

    assert journal.notices() == (other, notice)
    journal.close()
    with closing(Journal(path)) as again:
        assert again.notices() == (other, notice)


def test_a_second_daemon_is_refused_by_name(path: Path) -> None:
    first = Journal(path)
    with pytest.raises(JournalInUse, match=r"in use by the daemon with pid \d+"):
        Journal(path)
    first.close()
    Journal(path).close()


def test_a_reader_may_look_while_a_daemon_writes(path: Path) -> None:
    journal = Journal(path)
    reader = Journal(path, read_only=True)
    decision_id = journal.add_decision(1.0, Decision(policy="test"), None)

    assert reader.decision(decision_id) is not None


def test_a_newer_journal_is_left_alone(path: Path) -> None:
    Journal(path).close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE meta SET value = ?", (str(SCHEMA_VERSION + 1),))
    database.close()
    before = path.read_bytes()

    with pytest.raises(JournalTooNew, match=f"schema {SCHEMA_VERSION + 1}"):
        Journal(path)
    assert path.read_bytes() == before


def test_a_journal_of_version_1_is_brought_up_to_date(path: Path) -> None:
    journal = Journal(path)
    journal.save(operation())
    journal.close()
    with sqlite3.connect(path) as database:
        for name in ("checkpoints", "runs", "set_aside", "losses", "announcements"):
            database.execute(f"DROP TABLE {name}")
        database.execute("ALTER TABLE commands DROP COLUMN failed")
        for name in ("commands_by_job", "commands_by_operation", "operations_by_age", "decisions_by_time"):
            database.execute(f"DROP INDEX {name}")
        database.execute("UPDATE meta SET value = '1' WHERE key = 'schema_version'")
        database.execute("PRAGMA auto_vacuum = NONE")
        database.commit()
        database.execute("VACUUM")
        assert database.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    database.close()

    reader = Journal(path, read_only=True)
    assert (reader.open_operations(), dict(reader.learned())) == ((operation(),), {})
    assert reader.usual_shares() == {}
    assert (reader.leaving_runs(), reader.losses(0.0)) == ({}, ())
    reader.close()
    for _ in range(2):
        journal = Journal(path)
        assert (journal.open_operations(), dict(journal.learned())) == ((operation(),), {})
        journal.close()
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        version = "SELECT value FROM meta WHERE key = 'schema_version'"
        assert database.execute(version).fetchall() == [(str(SCHEMA_VERSION),)]
    database.close()


def test_the_commands_for_one_job_are_found_without_the_others(path: Path) -> None:
    journal = filled(path, 5)
    assert [found.issued_s for found in journal.commands_of("7", 3.0)] == [3.5, 3.5, 4.5, 4.5]
    assert journal.commands_of("8", 0.0) == ()
    journal.close()
    with sqlite3.connect(path) as database:
        plan = database.execute(
            "EXPLAIN QUERY PLAN SELECT * FROM commands WHERE job_id = '7' AND issued_s >= 3 ORDER BY "
            "command_id"
        ).fetchall()
    database.close()
    assert "USING INDEX commands_by_job" in plan[0][3]


def test_since_an_instant_includes_it(path: Path) -> None:
    with closing(filled(path, 4)) as journal:
        assert [found.at_s for found in journal.decisions_since(2.0)] == [2.0, 3.0]
        assert {found.issued_s for found in journal.commands_since(2.5)} == {2.5, 3.5}
        assert {found.issued_s for found in journal.commands_of("7", 2.5)} == {2.5, 3.5}
        assert [found.operation_id for found in journal.operations_since(2.0)] == ["u@2", "u@3"]


def test_a_journal_whose_first_page_is_damaged_is_called_so(path: Path) -> None:
    Journal(path).close()
    with path.open("r+b") as file:
        file.seek(100)  # after the header
        file.write(b"\xff" * 1000)
    with pytest.raises(JournalError, match=r"journal\.sqlite: the file is damaged: .*malformed"):
        Journal(path)


@pytest.mark.parametrize("content", [b"not a database, just a text that is long enough" * 30, b"short"])
def test_something_else_is_no_journal(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    with pytest.raises(JournalError, match=r"journal\.sqlite"):
        Journal(path)
    assert path.read_bytes() == content
    path.unlink()
    Journal(path).close()  # the failed attempt kept no lock


def test_another_programs_database_is_no_journal(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE mine (x)")
    database.close()

    with pytest.raises(JournalError, match="no table 'meta'"):
        Journal(path)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal(tmp_path / "nowhere" / "journal.sqlite")


WRITER = """
import sys
from pathlib import Path
from typing import Any
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Decision

journal = Journal(Path(sys.argv[1]))
while True:
    print(journal.add_decision(0.0, Decision(policy="test"), None), flush=True)
"""


@settings(max_examples=5, deadline=None)
@given(count=st.integers(1, 40))
def test_what_was_acknowledged_survives_a_kill(tmp_path_factory: pytest.TempPathFactory, count: int) -> None:
    path = tmp_path_factory.mktemp("kill") / "journal.sqlite"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(count)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout if line.endswith(b"\n")]

    journal = Journal(path)
    assert len(acknowledged) >= count
    assert {found.decision_id for found in journal.decisions(10**6)} >= set(acknowledged)
    journal.close()


def test_an_id_of_an_operation_is_never_given_twice(path: Path) -> None:
    with closing(Journal(path)) as journal:
        first = journal.new_operation_id()
        journal.save(closed(operation(first)))
        while journal.prune(1e9):
            pass
        assert journal.operations_since(0.0) == ()
    with closing(Journal(path)) as again:
        second = again.new_operation_id()
        again.save(operation(second))
        assert again.new_operation_id() not in {first, second}
    assert second != first


def test_operations_that_are_saved_together_are_saved_all_or_none(path: Path) -> None:
    with closing(Journal(path)) as journal:
        journal.save(operation("1"))
        with pytest.raises(sqlite3.IntegrityError):
            journal.save(closed(operation("1")), replace(operation("2"), opened_s=math.nan))
        assert journal.open_operations() == (operation("1"),)
    with closing(Journal(path)) as again:
        assert again.open_operations() == (operation("1"),)
        again.save(closed(operation("1")), operation("2"))
        assert again.open_operations() == (operation("2"),)


def test_an_announcement_of_which_no_record_is_left_may_be_missed() -> None:
    """An earlier makeway kept none of it."""
    journal = Journal(None)
    journal.note_missed("notice-1", 5.0)
    assert journal.announcements() == {}


def test_the_last_hold_of_a_job_is_one_that_it_may_have_been_bound_to(tmp_path: Path) -> None:
    """How long ago counts from the newest command for a hold of it."""
    (hold,) = (action for action in ACTIONS if isinstance(action, Reserve))
    (release,) = (action for action in ACTIONS if isinstance(action, Release))
    other = replace(hold, nodes=NODES[:1])

    def last(since_s: float, *sent: tuple[Action, str | None]) -> Reserve | None:
        with closing(Journal(tmp_path / f"{len(list(tmp_path.iterdir()))}.sqlite")) as journal:
            bearer = operation("1")
            for number, (action, outcome) in enumerate(sent):
                now_s = 100.0 * (number + 1)
                command_id = journal.begin_command(bearer, action, now_s)
                if outcome is not None:
                    journal.finish_command(
                        command_id, bearer, outcome=outcome, failed=False, detail="", now_s=now_s
                    )
            return journal.last_hold("7", since_s)

    assert last(0.0) is None
    assert last(100.0, (hold, "accepted")) == hold
    assert last(101.0, (hold, "accepted")) is None
    assert last(150.0, (hold, "accepted"), (release, "accepted")) == hold
    assert last(0.0, (hold, "accepted"), (other, "in_doubt")) == other
    assert last(0.0, (hold, "accepted"), (other, None)) == other, "the daemon died before the answer"
    assert last(0.0, (hold, "accepted"), (other, "rejected")) == hold
    assert last(0.0, (release, "accepted")) is None
