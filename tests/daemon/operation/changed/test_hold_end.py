"""A hold that would end its job is given up in time, however seldom the cluster is polled."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.changed.hold_end import LAST_S, RESUMED_S
from makeway.daemon.operation.due import NextCycle
from makeway.daemon.operation.transitions import advance
from makeway.policies.common.departures import OVERDUE_S
from makeway.policies.model import Cluster, JobState, Phase
from tests.builders import pending
from tests.daemon.acting import PATIENCE, lent_operation, lent_view, requeue

LEFT = lent_operation(requeue("v"))
"""The job `v` has left for `u`, which runs since 1020 s."""
LIMIT_S = 5000.0
POLL_S = 3600.0


def seen(
    now_s: float, end_s: float, *, overtime_s: float = 0.0, state: JobState = JobState.RUNNING
) -> Cluster:
    """The urgent job has its time limit at `LIMIT_S`; its hold ends at `end_s`."""
    view = lent_view(pending("v", 4, requeue_count=1), now_s=now_s)
    job = replace(view.jobs[0], walltime_s=LIMIT_S - 1020.0, overtime_s=overtime_s, state=state)
    hold = replace(view.reservations[0], end_s=end_s)
    return replace(view, jobs=(job, *view.jobs[1:]), reservations=(hold,))


def looks_s(view: Cluster) -> float | None:
    cycle = NextCycle()
    cycle.note((LEFT,), view, PATIENCE, again_s=None, unsent=False)
    return cycle.wakeup_s((LEFT,), view.now_s, POLL_S, PATIENCE)


@pytest.mark.parametrize(
    ("end_s", "overtime_s", "due_s"),
    [
        (LIMIT_S + 60.0, 0.0, LIMIT_S + 30.0),
        (LIMIT_S + LAST_S, 0.0, LIMIT_S + OVERDUE_S),
        (LIMIT_S + 2 * LAST_S, 0.0, LIMIT_S + LAST_S),
        (LIMIT_S + LAST_S, 2 * LAST_S, LIMIT_S),
        (LIMIT_S + LAST_S, 300.0, LIMIT_S + 300.0 + OVERDUE_S),
    ],
    ids=["brief", "suspended", "for long yet", "overtime", "some overtime"],
)
def test_time_alone_frees_a_job_that_still_runs(end_s: float, overtime_s: float, due_s: float) -> None:
    """It was suspended, or its time limit was raised since the last poll, or it may run on after it."""
    assert looks_s(seen(1030.0, end_s, overtime_s=overtime_s)) == due_s < end_s
    due = seen(due_s, end_s, overtime_s=overtime_s)
    assert advance(LEFT, due, PATIENCE).phase is Phase.RETURNING
    assert looks_s(due) is None
    before = seen(due_s - 1.0, end_s, overtime_s=overtime_s)
    assert advance(LEFT, before, PATIENCE).phase is Phase.LENT


def test_a_suspended_job_is_looked_at_until_it_runs() -> None:
    end_s = LIMIT_S + LAST_S
    suspended = seen(1030.0, end_s, state=JobState.SUSPENDED)
    assert looks_s(suspended) == LIMIT_S + OVERDUE_S
    suspended = replace(suspended, now_s=LIMIT_S + OVERDUE_S)
    assert advance(LEFT, suspended, PATIENCE).phase is Phase.LENT
    assert looks_s(suspended) == LIMIT_S + OVERDUE_S + RESUMED_S
    resumed = seen(LIMIT_S + OVERDUE_S + RESUMED_S, end_s)
    assert advance(LEFT, resumed, PATIENCE).phase is Phase.RETURNING


@pytest.mark.parametrize(
    "view",
    [
        seen(1030.0, LIMIT_S + 60.0, state=JobState.COMPLETING),
        replace(seen(1030.0, LIMIT_S), reservations=()),
        replace(seen(1030.0, LIMIT_S), jobs=()),
    ],
    ids=["completing", "no hold", "gone"],
)
def test_others_need_no_look(view: Cluster) -> None:
    assert looks_s(view) is None
