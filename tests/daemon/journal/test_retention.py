"""What the journal forgets in time, and what it keeps."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from makeway.daemon.estimate.actual_losses import HeldAmounts, LeavingRun, LossLesson, RunKey, RunLoss
from makeway.daemon.estimate.checkpoint_times import CheckpointRequest, Lesson, Likeness, Measurement, Subject
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Acknowledgement, Decision, Method, Notice
from tests.builders import closed
from tests.daemon.journal.entries import ACTIONS, filled, operation


def test_what_is_old_is_forgotten_in_small_steps(path: Path) -> None:
    journal = filled(path, 10)
    gone = [journal.prune(5.0, most=2) for _ in range(20)]
    assert max(gone) <= 4 * 2
    assert gone[-1] == 0
    assert [found.at_s for found in journal.decisions(100)] == [9.0, 8.0, 7.0, 6.0, 5.0]
    assert journal.first_decision_id() == 6
    assert [(found.operation_id, found.issued_s) for found in journal.commands()] == [
        ("open@0", 0.0),
        *[(f"u@{number}", number + 0.5) for number in range(5, 10) for _ in range(2)],
    ]
    assert [found.operation_id for found in journal.open_operations()] == ["open@0"]
    assert [eviction.at_s for eviction in journal.evictions(0.0)] == [0.0, 5.5, 6.5, 7.5, 8.5, 9.5]
    journal.close()
    with sqlite3.connect(path) as database:
        left = [row[0] for row in database.execute("SELECT operation_id FROM operations ORDER BY opened_s")]
    database.close()
    assert left == ["open@0", "u@5", "u@6", "u@7", "u@8", "u@9"]
    again = Journal(path)
    assert [eviction.at_s for eviction in again.evictions(0.0)] == [0.0, 5.5, 6.5, 7.5, 8.5, 9.5]
    again.close()


def test_no_number_is_used_twice(path: Path) -> None:
    journal = filled(path, 3)
    while journal.prune(1e9):
        pass
    assert [found.decision_id for found in journal.decisions(100)] == [3]
    assert journal.add_decision(4.0, Decision(policy="test"), None) == 4
    assert journal.begin_command(operation("u@9"), ACTIONS[1], 9.0) == 8
    journal.close()


def test_the_newest_command_keeps_its_number_where_no_decision_is_stored(path: Path) -> None:
    journal = Journal(path)
    mine = closed(operation("u@0"))
    assert [journal.begin_command(mine, ACTIONS[1], at_s) for at_s in (1.0, 2.0, 3.0)] == [1, 2, 3]
    while journal.prune(1e9):
        pass
    assert [found.command_id for found in journal.commands()] == [3]
    assert journal.begin_command(mine, ACTIONS[1], 4.0) == 4
    journal.close()


def test_a_command_stays_as_long_as_its_decision(path: Path) -> None:
    journal = Journal(path)
    mine = closed(operation("u@0"))
    for number in range(5):
        journal.add_decision(number, Decision(policy="test"), None)
    for at_s in (3.5, 4.5, 5.5):
        journal.begin_command(mine, ACTIONS[1], at_s)
    left = []
    while journal.prune(1e9, most=2):
        left.append((len(journal.decisions(9)), len(journal.commands())))
    assert left == [(3, 3), (1, 2)], "the newest decision stays, and so do the commands after it"
    journal.close()


def test_an_open_operation_without_a_command_is_not_pruned(path: Path) -> None:
    journal = Journal(path)
    journal.save(operation("open@0"))
    journal.save(closed(operation("closed@0")))
    assert journal.prune(1e9) == 1
    journal.close()
    with closing(Journal(path)) as again:
        assert [found.operation_id for found in again.operations_since(0.0)] == ["open@0"]


def test_measured_durations_are_forgotten_in_time_and_those_under_way_are_not(path: Path) -> None:
    like = Likeness("alice", "physics", "batch", 2)
    subject = Subject(likeness=like, ends=False)
    requests = [CheckpointRequest(f"u@{number}", "7", float(number)) for number in range(3)]
    journal = Journal(path)
    journal.learn(Lesson(begun=tuple((one, subject) for one in requests), measured=(), void=()))
    took = [(one, Measurement(duration_s=10.0 + one.issued_s, acknowledged=True)) for one in requests[1:]]
    journal.learn(Lesson(begun=(), measured=tuple(took), void=()))
    assert journal.learned() == {like: (11.0, 12.0)}
    while journal.prune(1.5):
        pass
    assert journal.learned() == {like: (12.0,)}
    assert dict(journal.checkpoints_under_way()) == {requests[0]: subject}
    journal.close()


def test_a_checkpoint_under_way_is_the_same_after_a_start(path: Path) -> None:
    like = Likeness("alice", "physics", "batch", 2)
    begun = tuple(
        (CheckpointRequest(f"u@{number}", "7", float(number)), Subject(likeness=like, ends=ends))
        for number, ends in enumerate((True, False))
    )
    with closing(Journal(path)) as journal:
        journal.learn(Lesson(begun=begun, measured=(), void=()))
        assert dict(journal.checkpoints_under_way()) == dict(begun)
    with closing(Journal(path)) as again:
        assert dict(again.checkpoints_under_way()) == dict(begun)
        again.learn(Lesson(begun=(), measured=(), void=(begun[0][0],)))
    with closing(Journal(path)) as again:
        assert dict(again.checkpoints_under_way()) == dict(begun[1:])


def leaving_run(decided_s: float) -> LeavingRun:
    return LeavingRun(
        for_job_id="u",
        decided_s=decided_s,
        method=Method.SYSTEM,
        acknowledgement=Acknowledgement.EXIT,
        held=HeldAmounts(nodes=1.25, cpus=40, gpus=None),
        expected_s=5.0,
        start_s=-100.0,
        setup_s=2.0,
        saved_s=decided_s - 1.0,
        completed_s=3.0,
        for_user="beam",
        for_account="light",
    )


def test_recent_losses_follow_each_change_and_the_clock() -> None:
    first, second = RunKey("u@1", "7", 1), RunKey("u@1", "8", 1)
    with closing(Journal(None)) as journal:
        begun = ((first, leaving_run(100.0)), (second, leaving_run(200.0)))
        journal.note_losses(LossLesson(begun=begun, changed=(), measured=(), void=()))
        losses = journal.recent_losses(100.0)
        assert [loss.decided_s for loss in losses] == [100.0, 200.0]
        assert journal.recent_losses(50.0) is losses, "the clock was set back"
        assert [loss.decided_s for loss in journal.recent_losses(100.5)] == [200.0]
        loss = RunLoss(run=leaving_run(200.0), left_s=210.0, lost_s=8.0, overhead_s=0.0, evicted=True)
        journal.note_losses(LossLesson(begun=(), changed=(), measured=((second, loss),), void=()))
        assert [loss.node_s for loss in journal.recent_losses(100.5)] == [10.0]
        journal.note_losses(LossLesson(begun=(), changed=(), measured=(), void=(first,)))
        assert [loss.node_s for loss in journal.recent_losses(0.0)] == [10.0]


def test_what_a_run_has_lost_stays_if_an_old_view_shows_it_again(path: Path) -> None:
    key, run = RunKey("u@1", "7", 1), leaving_run(100.0)
    again = replace(run, for_user="", for_account="", expected_s=9.0)
    loss = RunLoss(run=run, left_s=110.0, lost_s=8.0, overhead_s=0.0, evicted=True)
    with closing(Journal(path)) as journal:
        journal.note_losses(LossLesson(begun=((key, run),), changed=(), measured=(), void=()))
        journal.note_losses(LossLesson(begun=(), changed=(), measured=((key, loss),), void=()))
        journal.note_losses(LossLesson(begun=((key, again),), changed=(), measured=(), void=()))
        assert [one.user for one in journal.recent_losses(0.0)] == ["beam"]
        journal.note_losses(LossLesson(begun=(), changed=(), measured=(), void=(key,)))
        lost = journal.recent_losses(0.0)
        assert [(one.user, one.node_s) for one in lost] == [("beam", 10.0)]
    with closing(Journal(path)) as opened:
        assert opened.recent_losses(0.0) == lost


def test_losses_of_schema_5_name_nobody_who_pays(path: Path) -> None:
    key, run = RunKey("u@1", "7", 1), leaving_run(1.0)
    with closing(Journal(path)) as journal:
        journal.note_losses(LossLesson(begun=((key, run),), changed=(), measured=(), void=()))
        assert [loss.user for loss in journal.recent_losses(0.0)] == ["beam"]
    with closing(Journal(path)) as again:
        assert again.leaving_runs() == {key: run}
    with closing(sqlite3.connect(path)) as database:
        for column in ("for_user", "for_account"):
            database.execute(f"ALTER TABLE losses DROP COLUMN {column}")
        database.execute("DROP TABLE announcements")
        database.execute("UPDATE meta SET value = '5' WHERE key = 'schema_version'")
        database.commit()
    unknown = replace(run, for_user="", for_account="")
    for read_only in (True, False):
        with closing(Journal(path, read_only=read_only)) as old:
            assert old.leaving_runs() == {key: unknown}
            assert [loss.user for loss in old.recent_losses(0.0)] == [""]
            assert old.announcements() == {}


def test_announcements_are_forgotten_in_time_and_those_that_are_kept_are_not(path: Path) -> None:
    def notice(name: str, announced_s: float) -> Notice:
        return Notice(
            notice_id=name,
            user="u",
            node_count=2,
            walltime_s=60.0,
            announced_s=announced_s,
            expected_s=announced_s + 30.0,
        )

    with closing(Journal(path)) as journal:
        for name, announced_s in (("over", 1.0), ("kept", 1.0), ("missed", 1.0), ("young", 200.0)):
            journal.add_notice(notice(name, announced_s))
            if name != "kept":
                journal.remove_notice(name)
        journal.note_missed("missed", 150.0)
        journal.prune(100.0)
        assert set(journal.announcements()) == {"kept", "missed", "young"}
        assert journal.announcements()["missed"].node_s == 180.0
        journal.prune(175.0)
        assert set(journal.announcements()) == {"kept", "young"}


def test_measured_losses_are_forgotten_in_time_and_runs_that_are_to_leave_are_not(path: Path) -> None:
    keys = [RunKey(f"u@{number}", "7", number) for number in range(4)]
    runs = [leaving_run(float(number)) for number in range(4)]
    losses = [
        RunLoss(run=run, left_s=9.0, lost_s=4.0, overhead_s=0.5, evicted=run.decided_s > 1.0) for run in runs
    ]
    new = tuple(zip(keys, runs, strict=True))
    measured = tuple(zip(keys[1:3], losses[1:3], strict=True))
    with closing(Journal(path)) as journal:
        journal.note_losses(LossLesson(begun=new, changed=(), measured=(), void=()))
        assert dict(journal.leaving_runs()) == dict(new)
    with closing(Journal(path)) as journal:
        assert dict(journal.leaving_runs()) == dict(new)
        other = replace(runs[0], saved_s=0.5, requested_s=0.25, reported_s=0.75)
        last = LossLesson(begun=(), changed=((keys[0], other),), measured=measured, void=(keys[3],))
        journal.note_losses(last)
        assert dict(journal.leaving_runs()) == {keys[0]: other}
    with closing(Journal(path)) as journal:
        assert dict(journal.leaving_runs()) == {keys[0]: other}
        assert journal.losses(0.0) == (("7", losses[1]), ("7", losses[2]))
        assert journal.losses(1.0, 1.0) == (("7", losses[1]),)
        while journal.prune(1.5):
            pass
        assert journal.losses(0.0) == (("7", losses[2]),)
        assert dict(journal.leaving_runs()) == {keys[0]: other}


def test_the_file_shrinks_when_old_entries_go(path: Path) -> None:
    journal = filled(path, 400)
    journal.close()
    before = path.stat().st_size
    journal = Journal(path)
    while journal.prune(1e9):
        pass
    journal.close()
    assert path.stat().st_size < before / 4
