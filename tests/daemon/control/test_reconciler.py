"""One cycle: what it sends, what it keeps to itself, and what it says."""

from dataclasses import replace
from pathlib import Path

import pytest

from makeway.adapters.protocol import (
    AdapterError,
    Gone,
    NotForgotten,
    Rejected,
    Unavailable,
    Unreadable,
    Unsupported,
)
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.opening import open_decided
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.control.sentence import outcome_text
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.observation import Timeouts
from makeway.daemon.operation.tasks import ended
from makeway.policies.model import (
    Action,
    Checkpoint,
    CheckpointSpec,
    Decision,
    Ending,
    JobKind,
    JobState,
    Limits,
    Method,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Reason,
    Release,
    Requeue,
    SignalTarget,
    Task,
)
from tests.builders import cluster, held, pending, running, urgent
from tests.daemon.acting import COMMENTS, NODES, held_operation, holding, requeue, reserve
from tests.daemon.control.loops import FOUR, busy, daemon
from tests.fakes import FakeAdapter


def test_the_first_cycle_holds_and_the_second_evicts() -> None:
    adapter = FakeAdapter(busy())
    loop = daemon(adapter)
    first = loop.reconcile()

    assert adapter.calls == [("reserve", "mw_u")]
    assert first.again
    assert first.decision_id is not None
    assert (first.urgent_waiting, first.operations_open) == (1, 1)
    assert first.lost_node_s == 4 * 500.0

    second = loop.reconcile()
    assert adapter.calls == [("reserve", "mw_u"), ("requeue", "v")]
    assert "accepted requeue ×1" in second.sentence


def test_what_was_accepted_and_not_yet_seen_is_not_sent_again() -> None:
    adapter = FakeAdapter(busy())
    loop = daemon(adapter)
    for step in range(4):
        adapter.view = replace(adapter.view, now_s=1000.0 + 9.0 * step)
        loop.reconcile()

    assert adapter.calls == [("reserve", "mw_u"), ("requeue", "v")]


def test_a_run_that_goes_on_long_after_its_requeue_was_accepted_is_requeued_once_more() -> None:
    adapter = FakeAdapter(busy())
    loop = daemon(adapter)
    sentences: list[str] = []
    for step in range(8):
        adapter.view = replace(adapter.view, now_s=1000.0 + 9.0 * step)
        sentences.append(loop.reconcile().sentence)

    assert adapter.calls == [("reserve", "mw_u"), ("requeue", "v"), ("requeue", "v")]
    words = "the controller has forgotten the requeue of job v, which is put back"
    assert sum(words in sentence for sentence in sentences) == 1
    assert [action.forgotten_run for action in adapter.actions if isinstance(action, Requeue)] == [None, 0]


def test_a_job_is_signalled_as_it_wants() -> None:
    spec = CheckpointSpec(system_s=10.0, signal="USR2", signal_to=SignalTarget.STEPS)
    saving = running("v", FOUR, start_s=500.0, checkpoint=spec)
    adapter = FakeAdapter(cluster(4, urgent("u", 2, submit_s=990.0), saving))
    loop = daemon(adapter)
    loop.reconcile()
    loop.reconcile()
    assert adapter.calls == [("reserve", "mw_u"), ("checkpoint", "v")]
    (sent,) = [action for action in adapter.actions if isinstance(action, Checkpoint)]
    assert (sent.job_id, sent.signal, sent.signal_to) == ("v", "USR2", SignalTarget.STEPS)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (Unavailable("no answer in 10 s"), "unavailable"),
        (Unreadable("line 3", command=("squeue",), text="x"), "unreadable"),
    ],
)
def test_without_a_whole_snapshot_nothing_is_decided(error: AdapterError, word: str) -> None:
    adapter = FakeAdapter(busy())
    adapter.errors["snapshot"] = error
    report = daemon(adapter).reconcile()

    assert adapter.calls == []
    assert report.error is not None
    assert word in report.sentence
    assert report.snapshot_age_s is None


def test_the_age_of_the_last_snapshot_grows_while_there_is_none() -> None:
    adapter = FakeAdapter(busy())
    loop = daemon(adapter, mode=Mode.OBSERVE)
    loop.reconcile()
    adapter.errors["snapshot"] = Unavailable("down")
    adapter.view = replace(adapter.view, now_s=1060.0)

    assert loop.reconcile().snapshot_age_s == 60.0


@pytest.mark.parametrize(
    ("error", "outcome", "progress"),
    [
        (Rejected("no"), Outcome.REJECTED, Progress.REFUSED),
        (Rejected("try again in a bit", retryable=True), Outcome.REJECTED, Progress.PLANNED),
        (Unsupported("never"), Outcome.REJECTED, Progress.REFUSED),
        (Gone("over"), Outcome.GONE, Progress.GONE),
        (NotForgotten("it waits"), Outcome.GONE, Progress.ACCEPTED),
        (Unavailable("no answer"), Outcome.IN_DOUBT, Progress.ISSUING),
        (Unavailable("no answer", sent=False), Outcome.UNSENT, Progress.PLANNED),
    ],
)
def test_each_answer_is_noted(error: AdapterError, outcome: Outcome, progress: Progress) -> None:
    adapter = FakeAdapter(busy())
    adapter.errors["reserve"] = error
    journal = Journal(None)
    report = daemon(adapter, journal).reconcile()

    assert [action.outcome for action in report.actions] == [outcome]
    (operation,) = journal.open_operations()
    assert operation.tasks[0].progress is progress
    (command,) = journal.commands()
    assert (command.outcome, command.detail) == (outcome, str(error))
    final = isinstance(error, Rejected) and not error.retryable
    assert report.again is final, "the next snapshot may show why the hold was refused"


def test_a_refused_hold_evicts_nobody() -> None:
    adapter = FakeAdapter(busy())
    adapter.errors["reserve"] = Rejected("Access denied")
    loop = daemon(adapter)
    for step in range(5):
        loop.reconcile()
        adapter.view = replace(adapter.view, now_s=1001.0 + step)

    assert not [call for call in adapter.calls if call[0] == "requeue"]


def test_repeated_failures_trip_the_breaker() -> None:
    adapter = FakeAdapter(busy())
    lenders = [running(f"b{number}", (node,), start_s=500.0) for number, node in enumerate(FOUR[:3])]
    adapter.view = replace(cluster(3), jobs=(*lenders, *(urgent(name, 1, submit_s=990.0) for name in "uvx")))
    adapter.errors["reserve"] = Rejected("Access denied")
    loop = daemon(adapter, limits=Limits(breaker_failures=3, breaker_window_s=3600.0))
    reports = []
    for step in range(30):
        reports.append(loop.reconcile())
        adapter.view = replace(adapter.view, now_s=1001.0 + 10.0 * step)

    assert [name for verb, name in adapter.calls if verb == "reserve"] == ["mw_u", "mw_v", "mw_x"]
    refusals = [action.refusal for report in reports for action in report.actions if action.refusal]
    assert "breaker" in refusals
    adapter.view = replace(adapter.view, now_s=1001.0 + 3600.0, jobs=(urgent("w", 1, submit_s=4600.0),))
    loop.reconcile()
    assert adapter.calls[-1] == ("reserve", "mw_w")


def test_limits_refuse_a_plan_whole_and_say_so_once() -> None:
    adapter = FakeAdapter(busy())
    loop = daemon(adapter, limits=Limits(evictions_per_hour=0))
    first, second = loop.reconcile(), loop.reconcile()

    assert adapter.calls == []
    assert {action.outcome for action in first.actions} == {Outcome.REFUSED}
    assert second.actions == ()


def test_why_nothing_is_done_for_an_urgent_job_is_stored_once() -> None:
    """`makeway explain` tells it."""
    lacks = replace(urgent("u", 2), blocked_by="a licence")
    adapter = FakeAdapter(cluster(4, lacks, running("v", FOUR)))
    loop = daemon(adapter)
    first, second = loop.reconcile(), loop.reconcile()
    assert [why.for_job_id for why in first.stored_rationale] == ["u"]
    assert (second.decision_id, second.stored_rationale) == (None, ())
    adapter.view = replace(adapter.view, jobs=(*adapter.view.jobs, replace(lacks, job_id="w")))
    assert [why.for_job_id for why in loop.reconcile().stored_rationale] == ["u", "w"]


def test_a_reservation_of_an_earlier_life_is_released() -> None:
    view = cluster(4, running("x", ("n4",)), reservations=(held("lost", ("n1", "n2")),))
    adapter = FakeAdapter(view)
    loop = daemon(adapter)
    for _ in range(3):
        loop.reconcile()

    assert adapter.calls == [("release", "mw_lost")]


def test_a_time_that_the_clock_has_not_reached_delays_nothing() -> None:
    """The daemon starts with a clock that is an hour fast, and the clock is then set right."""
    view = cluster(4, running("x", ("n4",)), reservations=(held("lost", ("n1", "n2")),))
    adapter = FakeAdapter(replace(view, now_s=view.now_s + 3600.0))
    adapter.errors["release"] = Rejected("try again in a bit", retryable=True)
    journal = Journal(None)
    loop = daemon(adapter, journal)
    loop.reconcile()
    del adapter.errors["release"]
    adapter.view = replace(view, now_s=view.now_s + 1.0)
    loop.reconcile()
    (task,) = journal.open_operations()[0].tasks
    assert (task.progress, task.issued_s) == (Progress.PLANNED, adapter.view.now_s)

    adapter.view = replace(view, now_s=view.now_s + 1.0 + Timeouts().retry_s)
    loop.reconcile()
    assert adapter.calls == [("release", "mw_lost")] * 2


def test_reservations_of_others_are_left_alone() -> None:
    other = replace(held("x", ("n1",)), name="maintenance")
    adapter = FakeAdapter(cluster(4, reservations=(other,)))
    daemon(adapter).reconcile()

    assert adapter.calls == []


def test_a_restart_goes_on_where_the_journal_ends(tmp_path: Path) -> None:
    adapter = FakeAdapter(busy())
    journal = Journal(tmp_path / "j")
    daemon(adapter, journal).reconcile()
    journal.close()
    again = Journal(tmp_path / "j")
    daemon(adapter, again).reconcile()

    assert adapter.calls == [("reserve", "mw_u"), ("requeue", "v")]


def test_the_whole_story() -> None:
    adapter = FakeAdapter(busy())
    journal = Journal(None)
    loop = daemon(adapter, journal)
    loop.reconcile()
    loop.reconcile()
    lender = pending("v", 4, requeue_count=1)
    bound = urgent("u", 2, submit_s=990.0, reservation="mw_u")
    adapter.view = replace(adapter.view, now_s=1002.0, jobs=(bound, lender))
    loop.reconcile()
    runs = replace(running("u", ("n1", "n2"), start_s=1002.0), submit_s=990.0)
    adapter.view = replace(adapter.view, now_s=1003.0, jobs=(runs, lender))
    assert loop.reconcile().urgent_started == (12.0,)

    adapter.view = replace(adapter.view, now_s=2000.0, jobs=(lender,))
    loop.reconcile()
    adapter.view = replace(adapter.view, jobs=(replace(lender, prioritised=True),))
    loop.reconcile()
    assert adapter.calls[-2:] == [("prioritise", "v"), ("release", "mw_u")]
    adapter.view = replace(adapter.view, jobs=(running("v", FOUR, requeue_count=1),))
    report = loop.reconcile()
    assert "started on time" in outcome_text(report.closed[0])
    assert journal.open_operations() == ()


def test_nothing_wakes_a_daemon_without_operations() -> None:
    assert daemon(FakeAdapter(cluster(4))).wakeup_s(0.0, 30.0) is None


def test_a_deadline_wakes_the_daemon() -> None:
    adapter = FakeAdapter(busy())
    journal = Journal(None)
    loop = daemon(adapter, journal)
    loop.reconcile()
    requeue = Requeue(
        job_id="v",
        for_job_id="u",
        policy="eviction",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.APPLICATION,
        not_after_s=1234.0,
    )
    (operation,) = journal.open_operations()
    hold = ended(operation.tasks[0], Ending.SEEN, 1000.0)
    journal.save(replace(operation, tasks=(hold, Task(action=requeue))))

    assert loop.wakeup_s(1100.0, 500.0) == 1234.0
    assert loop.wakeup_s(1100.0, 30.0) == 1130.0


def test_an_operation_under_way_is_given_back_if_its_job_is_cancelled() -> None:
    adapter = FakeAdapter(busy())
    journal = Journal(None)
    loop = daemon(adapter, journal)
    loop.reconcile()
    adapter.view = replace(adapter.view, now_s=1005.0, jobs=(running("v", FOUR, start_s=500.0),))
    loop.reconcile()
    loop.reconcile()

    assert adapter.calls == [("reserve", "mw_u"), ("release", "mw_u")]
    assert journal.open_operations() == ()


def test_suspended_jobs_are_never_touched() -> None:
    suspended = replace(running("v", FOUR, start_s=500.0), state=JobState.SUSPENDED)
    adapter = FakeAdapter(cluster(4, urgent("u", 2, submit_s=990.0), suspended))
    loop = daemon(adapter)
    for _ in range(3):
        loop.reconcile()

    assert adapter.calls == [("prioritise", "u")]


def test_an_operation_that_only_releases_is_over_when_the_reservation_is_gone() -> None:
    journal = Journal(None)
    release = Release(
        job_id="x", for_job_id="x", policy="eviction", reason=Reason.ORPHANED, reservation="mw_x"
    )
    journal.save(
        Operation(
            operation_id="x@0",
            kind=OperationKind.CLEAN_UP,
            for_job_id="x",
            policy="eviction",
            reservation="",
            nodes=(),
            opened_s=0.0,
            deadline_s=0.0,
            give_up_s=0.0,
            phase=Phase.MAKING_ROOM,
            tasks=(Task(action=release),),
        )
    )
    daemon(FakeAdapter(cluster(2)), journal).reconcile()

    assert journal.open_operations() == ()


def test_two_operations_of_one_job_in_one_cycle_are_two() -> None:
    """Its reservation and its place at the front of the queue are both what an earlier life left."""
    runs = replace(running("u", FOUR[:2], start_s=900.0), prioritised=True)
    adapter = FakeAdapter(cluster(4, runs, reservations=(held("u", FOUR[:2]),)))
    journal = Journal(None)
    daemon(adapter, journal).reconcile()

    assert sorted(adapter.calls) == [("release", "mw_u"), ("restore_priority", "u")]
    first, second = journal.open_operations()
    assert first.operation_id != second.operation_id


def test_only_urgent_jobs_that_wait_are_counted_as_waiting() -> None:
    starts = running("u", FOUR[:2], kind=JobKind.ON_DEMAND)
    adapter = FakeAdapter(cluster(4, starts, pending("b", 4)))
    loop = daemon(adapter)
    assert loop.reconcile().urgent_waiting == 0
    adapter.view = replace(adapter.view, jobs=(*adapter.view.jobs, urgent("w", 1)))
    assert loop.reconcile().urgent_waiting == 1


@pytest.mark.parametrize(
    ("nodes", "leaves", "opened"),
    [(NODES, False, 0), (NODES[::-1], False, 0), (NODES[:3], False, 1), (NODES, True, 1)],
    ids=["the same", "in another order", "fewer nodes", "with an eviction"],
)
def test_a_hold_that_is_there_is_not_made_again(nodes: tuple[str, ...], leaves: bool, opened: int) -> None:
    """Its nodes were to come free for another job, whose evictions were refused: it would be so for ever."""
    view = holding(running("v", NODES, checkpoint=COMMENTS))
    view = replace(view, operations=(held_operation(),), limits=Limits())
    actions: list[Action] = [replace(reserve(), nodes=nodes), *([requeue("v")] if leaves else [])]
    opening = open_decided(
        Decision(policy="test", actions=tuple(actions)), view, LoopSettings(), Journal(None)
    )
    assert not opening.refused
    assert [one.operation_id for one in opening.operations] == ["1"] * opened
