"""An urgent job that has ended, and is completing for long: one of its nodes may never be clean."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.changed.ended_job import ENDS_S
from makeway.daemon.operation.due import NextCycle
from makeway.daemon.operation.transitions import advance
from makeway.policies.model import Cluster, JobState, Phase, Prioritise, Release, Reserve
from tests.builders import pending, running
from tests.daemon.acting import NODES, PATIENCE, issue_all, lent_operation, lent_view, requeue

SINCE_S = 2000.0
LEFT = lent_operation(requeue("v"))
"""The job `v` has left for `u`, which runs since 1020 s."""


def completing(now_s: float, *, start_s: float | None = 1020.0, requeue_count: int = 0) -> Cluster:
    """The urgent job has one node left."""
    seen = lent_view(pending("v", 4, requeue_count=1), now_s=now_s)
    ending = replace(
        running("u", NODES[:1], requeue_count=requeue_count),
        state=JobState.COMPLETING,
        start_s=start_s,
        completing_since_s=SINCE_S,
    )
    return replace(seen, jobs=(ending, *seen.jobs[1:]))


def test_its_nodes_go_back_before_the_last_one_is_clean() -> None:
    over = completing(SINCE_S + ENDS_S)

    operation, issued = issue_all(advance(LEFT, over, PATIENCE), over)
    assert operation.phase is Phase.RETURNING
    assert [type(action) for action in issued] == [Prioritise]

    first = replace(over.jobs[1], prioritised=True)
    later = replace(over, now_s=SINCE_S + ENDS_S + 5.0, jobs=(over.jobs[0], first))
    operation, issued = issue_all(advance(operation, later, PATIENCE), later)
    assert [type(action) for action in issued] == [Release]

    back = running("v", NODES[1:], requeue_count=1)
    gone = replace(later, now_s=SINCE_S + ENDS_S + 10.0, jobs=(over.jobs[0], back), reservations=())
    assert advance(operation, gone, PATIENCE).phase is Phase.CLOSED


def test_its_nodes_go_back_if_some_had_to_boot() -> None:
    """Slurm changes the start time of the job when they are up."""
    assert advance(LEFT, completing(SINCE_S + ENDS_S, start_s=1080.0), PATIENCE).phase is Phase.RETURNING


def test_what_counts_is_its_last_hold() -> None:
    """Its first run was requeued, and it got another hold."""
    again = [
        replace(task, action=replace(task.action, requeue_count=1))
        for task in LEFT.tasks
        if isinstance(task.action, Reserve)
    ]
    ran_again = replace(LEFT, tasks=(*LEFT.tasks, *again))
    over = completing(SINCE_S + ENDS_S, start_s=1080.0, requeue_count=1)
    assert advance(ran_again, over, PATIENCE).phase is Phase.RETURNING
    assert advance(LEFT, over, PATIENCE).phase is Phase.LENT


def test_its_nodes_go_back_if_it_was_requeued_and_has_run_again_in_its_hold() -> None:
    again = completing(SINCE_S + ENDS_S, requeue_count=1)
    assert advance(LEFT, again, PATIENCE).phase is Phase.RETURNING


@pytest.mark.parametrize(
    "seen",
    [
        completing(SINCE_S + ENDS_S - 1.0),
        completing(SINCE_S + ENDS_S, start_s=None, requeue_count=1),
        completing(SINCE_S + ENDS_S, start_s=SINCE_S + ENDS_S, requeue_count=1),
    ],
    ids=["for a moment", "requeued", "requeued, as Slurm shows it"],
)
def test_its_nodes_stay_held_if_it_may_need_them(seen: Cluster) -> None:
    assert advance(LEFT, seen, PATIENCE).phase is Phase.LENT


@pytest.mark.parametrize("again_s", [None, SINCE_S - 5.0])
def test_time_alone_makes_that_due(again_s: float | None) -> None:
    """What was due before does not put that off."""
    cycle = NextCycle()
    for now_s, due_s in ((SINCE_S, SINCE_S + ENDS_S), (SINCE_S + ENDS_S, None)):
        cycle.note((LEFT,), completing(now_s), PATIENCE, again_s=again_s, unsent=False)
        assert cycle.wakeup_s((LEFT,), now_s, 300.0, PATIENCE) == due_s
