"""The grace after a signal that is sent late."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.due import wakeup_s
from makeway.daemon.operation.transitions import advance
from makeway.policies.common.departures import evict_for
from makeway.policies.model import Action, Checkpoint, Method, Operation, Reason
from tests.builders import running
from tests.daemon.acting import (
    COMMENTS,
    NODES,
    PATIENCE,
    due,
    held_operation,
    holding,
    issue_all,
    requeue,
    signal,
)

SAVING = running("v", NODES, checkpoint=COMMENTS)
LATE_S = 1100.0


def planned(until_s: float, least_s: float) -> Checkpoint:
    return replace(signal("v"), until_s=until_s, grace_min_s=least_s)


def signalled(asked: Checkpoint, now_s: float) -> Operation:
    operation = held_operation(asked, requeue("v", Method.SYSTEM, not_after_s=1300.0))
    view = holding(SAVING, now_s=now_s)
    return issue_all(advance(operation, view, PATIENCE), view)[0]


def sent(operation: Operation) -> Action:
    """The signal as it was sent."""
    return next(task.action for task in operation.tasks if isinstance(task.action, Checkpoint))


@pytest.mark.parametrize(
    ("least_s", "until_s"), [(60.0, 1300.0), (250.0, 1350.0), (300.0, 1400.0), (900.0, 1400.0)]
)
def test_it_ends_as_planned_but_is_never_too_short(least_s: float, until_s: float) -> None:
    """The signal is 100 s late. The grace was to end at 1300 s."""
    asked = planned(1300.0, least_s)
    operation = signalled(asked, LATE_S)
    assert sent(operation) == replace(asked, grace_s=until_s - LATE_S), "the job is told so"
    assert wakeup_s(operation, until_s - 1.0, PATIENCE) == until_s
    for now_s, leaves in ((until_s - 1.0, False), (until_s, True)):
        view = holding(SAVING, now_s=now_s)
        operation = advance(operation, view, PATIENCE)
        assert bool(due(operation, view)) is leaves, now_s


def test_after_a_signal_in_time_it_is_as_planned() -> None:
    asked = planned(1400.0, 60.0)
    assert sent(signalled(asked, 1010.0)) == asked


def test_a_plan_says_when_it_ends_and_how_long_it_is_at_least() -> None:
    """At least the grace of the class, and the time for the checkpoints that are written at once."""
    for saved_by_s, least_s in (
        (None, COMMENTS.grace_s),
        (1000.0 + 2 * COMMENTS.grace_s, 2 * COMMENTS.grace_s),
    ):
        asked, _ = evict_for(
            SAVING,
            Method.SYSTEM,
            for_job_id="u",
            policy="test",
            reason=Reason.URGENT_ARRIVAL,
            now_s=1000.0,
            not_after_s=2000.0,
            saved_by_s=saved_by_s,
        )
        assert isinstance(asked, Checkpoint)
        assert (asked.grace_s, asked.until_s, asked.grace_min_s) == (1000.0, 2000.0, least_s)
