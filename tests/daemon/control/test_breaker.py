"""What the circuit breaker counts: final refusals of what takes something, and commands without an answer."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.adapters.protocol import (
    AdapterError,
    Gone,
    Rejected,
    Unavailable,
    Unreadable,
    Unsupported,
)
from makeway.daemon.control.executor import Executor
from makeway.daemon.journal.store import Journal
from makeway.policies.model import (
    Action,
    Limits,
    Operation,
    OperationKind,
    Prioritise,
    Reason,
    Reserve,
    RestoreLimit,
    RestorePriority,
    TakenFromJob,
)
from tests.builders import cluster, held, node_names, running, urgent
from tests.daemon.control.loops import busy, daemon
from tests.daemon.journal.entries import ACTIONS, operation
from tests.fakes import FakeAdapter

TAKING = {"checkpoint", "requeue", "cancel", "shrink", "reserve"}
EVERY_ACTION: tuple[Action, ...] = (
    *ACTIONS,
    Prioritise(job_id="7", for_job_id="7", policy="test", reason=Reason.PLANNED, queue_position=1),
    RestorePriority(job_id="7", for_job_id="7", policy="test", reason=Reason.STARTED),
    RestoreLimit(
        job_id="7",
        for_job_id="7",
        policy="test",
        reason=Reason.TAKEN,
        walltime_s=None,
        taken=TakenFromJob(run=0),
    ),
)
FINAL = Rejected("Access denied")
UNANSWERED: tuple[AdapterError, ...] = (
    Unavailable("no answer in 10 s"),
    Unavailable("no answer to the look before it", sent=False),
    Unreadable("line 3", command=("scontrol",), text="x"),
)
HARMLESS: tuple[AdapterError | None, ...] = (
    None,
    Rejected("try again in a bit", retryable=True),
    Unsupported("jobs cannot grow here"),
    Gone("the job is over"),
)


def bearing(action: Action) -> Operation:
    """An operation whose last task is this action."""
    hold = next(one for one in ACTIONS if isinstance(one, Reserve))
    match action:
        case Reserve():
            return operation("1", action)
        case RestorePriority() | RestoreLimit():
            kind = OperationKind.CLEAN_UP
        case Prioritise(queue_position=int()):
            kind = OperationKind.REORDER
        case _:
            return operation("1", hold, action)
    alone = operation("1", action)
    return replace(alone, kind=kind, for_job_id=action.for_job_id, reservation="", nodes=())


def failures(action: Action, error: AdapterError | None, path: Path) -> tuple[int, int]:
    """How many failures one command is, when it is answered and after a restart."""
    adapter = FakeAdapter(cluster(4))
    if error is not None:
        adapter.errors[action.verb] = error
    with closing(Journal(path)) as journal:
        bearer = bearing(action)
        Executor(adapter, journal, lambda: 5.0).issue(bearer, len(bearer.tasks) - 1)
        before = len(journal.failures_s(0.0))
    with closing(Journal(path)) as journal:
        return before, len(journal.failures_s(0.0))


@pytest.mark.parametrize("action", EVERY_ACTION, ids=lambda action: action.verb)
def test_which_answers_are_failures(action: Action, tmp_path: Path) -> None:
    found = {
        error: failures(action, error, tmp_path / f"{index}.sqlite")
        for index, error in enumerate((FINAL, *UNANSWERED, *HARMLESS))
    }
    expected = dict.fromkeys(HARMLESS, (0, 0))
    expected |= dict.fromkeys(UNANSWERED, (1, 1))
    expected[FINAL] = (1, 1) if action.verb in TAKING else (0, 0)
    assert found == expected


@pytest.mark.parametrize(
    "error", [Rejected("try again in a bit", retryable=True), Unsupported("never"), Rejected("no")], ids=repr
)
def test_a_hold_that_cannot_be_released_does_not_keep_an_urgent_job_waiting(error: AdapterError) -> None:
    """The reservation of an earlier life is to be released, and the cluster is busy."""
    adapter = FakeAdapter(cluster(4, reservations=(held("x", node_names(4)[:1]),)))
    adapter.errors["release"] = error
    loop = daemon(adapter, limits=Limits(breaker_failures=1))
    for step in range(6):
        loop.reconcile()
        adapter.view = replace(adapter.view, now_s=1001.0 + step)
    assert ("release", "mw_x") in adapter.calls
    victim = running("v", node_names(4)[1:], start_s=500.0)
    adapter.view = replace(adapter.view, jobs=(urgent("u", 2, submit_s=1000.0), victim))
    loop.reconcile()

    assert ("reserve", "mw_u") in adapter.calls


def test_refused_holds_of_one_job_do_not_trip_the_breaker() -> None:
    adapter = FakeAdapter(busy())
    adapter.errors["reserve"] = Rejected("Access denied")
    loop = daemon(adapter, limits=Limits(breaker_failures=2, breaker_window_s=3600.0))
    reports = []
    for step in range(30):
        reports.append(loop.reconcile())
        adapter.view = replace(adapter.view, now_s=1001.0 + 10.0 * step)

    assert len(adapter.calls) > 2
    assert set(adapter.calls) == {("reserve", "mw_u")}
    assert not [action for report in reports for action in report.actions if action.refusal]
