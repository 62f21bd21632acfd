"""A controller that crashed has forgotten a requeue, or an old view makes it seem so."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.due import next_due
from makeway.daemon.operation.transitions import advance, issuing, record
from makeway.daemon.operation.validation import validate
from makeway.policies.model import (
    Ending,
    Job,
    Method,
    Operation,
    Phase,
    Prioritise,
    Progress,
    Requeue,
    Reserve,
)
from tests.builders import node_names, pending, running
from tests.daemon.acting import (
    NODES,
    PATIENCE,
    after_view,
    due,
    held_operation,
    holding,
    issue_all,
    lent_operation,
    lent_view,
    requeue,
    signal,
)


@pytest.mark.parametrize("progress", [Progress.ACCEPTED, Progress.DONE])
@pytest.mark.parametrize("lender", [None, running("v", NODES)])
def test_a_requeue_that_a_crashed_controller_forgot_is_repeated(
    progress: Progress, lender: Job | None
) -> None:
    """It takes the job for ended, or for running still."""
    operation = lent_operation(requeue("v"))
    place = next(place for place, task in enumerate(operation.tasks) if isinstance(task.action, Requeue))
    ending = Ending.SEEN if progress is Progress.DONE else None
    ended_s = None if ending is None else 1020.0
    told = replace(operation.tasks[place], progress=progress, ending=ending, ended_s=ended_s, nodes=NODES)
    tasks = (*operation.tasks[:place], told, *operation.tasks[place + 1 :])
    operation = replace(operation, tasks=tasks)
    jobs = () if lender is None else (lender,)
    view = replace(lent_view(now_s=1030.0), jobs=(running("u", NODES, start_s=1020.0), *jobs))
    repeated = lender is None or progress is Progress.DONE
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert issued == ([replace(requeue("v"), forgotten_run=0)] if repeated else [])
    assert operation.tasks[place].puts_back is repeated

    # Once the job waits again, its queue position is given back like that of every other job.
    waits = after_view(pending("v", 4, requeue_count=1), now_s=1040.0)
    operation, issued = issue_all(advance(operation, waits, PATIENCE), waits)
    assert [type(action) for action in issued] == [Prioritise]


@pytest.mark.parametrize("lender", [None, running("v", NODES)])
def test_a_controller_that_was_away_for_long_has_forgotten_it_too(lender: Job | None) -> None:
    """As after a crash of its machine. Whether the job was cancelled while it waited, the cluster shows."""
    operation = lent_operation(requeue("v"))
    jobs = () if lender is None else (lender,)
    view = replace(lent_view(now_s=4000.0), jobs=(running("u", NODES, start_s=1020.0), *jobs))
    operation = advance(operation, view, PATIENCE)
    index = next_due(operation, view, PATIENCE)
    assert index is not None
    assert operation.tasks[index].action == replace(requeue("v"), forgotten_run=0)
    operation = record(issuing(operation, index, 4000.0), index, Progress.GONE, 4000.0, "job v is over")
    later = replace(view, now_s=4010.0)
    assert due(advance(operation, later, PATIENCE), later) == []


def test_a_requeued_job_that_ran_again_and_ended_at_once_was_not_forgotten() -> None:
    operation = lent_operation(requeue("v"))
    elsewhere = running("v", node_names(4, first=5), requeue_count=1)
    operation = advance(operation, lent_view(elsewhere, now_s=1030.0), PATIENCE)
    validate(operation)
    ended = replace(lent_view(now_s=1040.0), jobs=(running("u", NODES, start_s=1020.0),))
    operation, issued = issue_all(advance(operation, ended, PATIENCE), ended)
    assert issued == []
    assert not any(task.puts_back for task in operation.tasks)


def test_a_job_that_an_old_view_showed_in_the_queue_is_not_requeued_long_after() -> None:
    """Nothing was sent to it: it has never left."""
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    tasks = (
        replace(task, nodes=() if isinstance(task.action, Reserve) else NODES) for task in operation.tasks
    )
    old = holding(pending("v", len(NODES)), now_s=1020.0)
    operation = advance(replace(operation, tasks=tuple(tasks)), old, PATIENCE)
    assert all(task.progress is Progress.DONE for task in operation.tasks)
    view = after_view(running("v", NODES), now_s=1100.0)
    for jobs in (view.jobs, ()):
        operation, issued = issue_all(advance(operation, replace(view, jobs=jobs), PATIENCE), view)
        assert not any(isinstance(action, Requeue) for action in issued)


def test_a_lender_that_an_old_view_shows_running_gets_its_turn_all_the_same() -> None:
    operation = lent_operation(requeue("v"))
    old = lent_view(running("v", NODES), now_s=1300.0)
    operation = advance(operation, old, PATIENCE)
    index = next_due(operation, old, PATIENCE)
    assert index is not None
    # The cluster answers that the job waits.
    operation = record(issuing(operation, index, 1300.0), index, Progress.ACCEPTED, 1300.0, "")
    waits = pending("v", 4, requeue_count=1)
    operation = advance(operation, lent_view(waits, now_s=1330.0), PATIENCE)
    operation, issued = issue_all(operation, after_view(waits))
    operation, issued = issue_all(advance(operation, after_view(waits), PATIENCE), after_view(waits))
    assert [(type(action), action.job_id) for action in issued] == [(Prioritise, "v")]


def test_a_requeue_that_is_forgotten_after_an_old_view_of_its_job_is_repeated() -> None:
    """The repeated requeue is not over with the answer that the job waits."""
    operation = lent_operation(requeue("v"))
    old = lent_view(running("v", NODES), now_s=1300.0)
    operation = advance(operation, old, PATIENCE)
    index = next_due(operation, old, PATIENCE)
    assert index is not None
    operation = record(issuing(operation, index, 1300.0), index, Progress.ACCEPTED, 1300.0, "")
    assert due(advance(operation, replace(old, now_s=1305.0), PATIENCE), old) == []
    forgotten = after_view(now_s=1310.0)
    _, issued = issue_all(advance(operation, forgotten, PATIENCE), forgotten)
    assert issued[0] == replace(requeue("v"), forgotten_run=0)


@pytest.mark.parametrize("later_s", [0.0, 5.0])
def test_a_lender_whose_requeue_was_forgotten_after_its_turn_gets_its_turn_again(later_s: float) -> None:
    """Also if it is seen to be back in the instant in which it was seen to be gone."""
    waits = pending("v", 4, requeue_count=1)
    operation, issued = issue_all(
        advance(lent_operation(requeue("v")), after_view(waits), PATIENCE), after_view(waits)
    )
    assert [type(action) for action in issued] == [Prioritise]

    forgotten = after_view(now_s=2010.0)
    operation, issued = issue_all(advance(operation, forgotten, PATIENCE), forgotten)
    assert issued == [replace(requeue("v"), forgotten_run=0)]
    again = after_view(waits, now_s=2010.0 + later_s)
    operation, issued = issue_all(advance(operation, again, PATIENCE), again)
    assert [(type(action), action.job_id) for action in issued] == [(Prioritise, "v")]
    _, issued = issue_all(advance(operation, again, PATIENCE), again)
    assert issued == []


def test_a_job_whose_start_was_forgotten_runs_again_in_a_run_of_the_same_number() -> None:
    """It was seen waiting, as one that was requeued is, and was started once more."""
    operation = lent_operation(requeue("v"))
    assert operation.tasks[-1].requeue_count == 0
    elsewhere = running("v", node_names(4, first=5), start_s=1800.0)
    for job in ((elsewhere,), ()):
        view = replace(lent_view(now_s=2000.0), jobs=(running("u", NODES, start_s=1020.0), *job))
        operation, issued = issue_all(advance(operation, view, PATIENCE), view)
        assert issued == []


def given_its_turn() -> Operation:
    """The urgent job is over, the lender `v` was put first, and the hold is gone."""
    waits = pending("v", 4, requeue_count=1)
    operation, issued = issue_all(
        advance(lent_operation(requeue("v")), after_view(waits), PATIENCE), after_view(waits)
    )
    assert [type(action) for action in issued] == [Prioritise]
    first = after_view(replace(waits, prioritised=True), now_s=2010.0, reservations=False)
    return advance(operation, first, PATIENCE)


def turn(operation: Operation) -> int:
    """Where the task is that gives the lender its turn."""
    (place,) = (at for at, task in enumerate(operation.tasks) if isinstance(task.action, Prioritise))
    return place


def test_a_lender_that_an_old_view_shows_in_its_former_run_has_not_started_again() -> None:
    old = after_view(running("v", NODES), now_s=2020.0, reservations=False)
    operation = advance(given_its_turn(), old, PATIENCE)
    assert operation.tasks[turn(operation)].progress is Progress.ACCEPTED
    again = after_view(running("v", NODES, start_s=2025.0, requeue_count=1), now_s=2030.0, reservations=False)
    operation = advance(operation, again, PATIENCE)
    assert operation.tasks[turn(operation)].ending is Ending.STARTED


def test_a_lender_that_the_cluster_says_is_gone_is_waited_for_while_the_view_shows_it_waiting() -> None:
    """The view is older, and the requeue may have been forgotten meanwhile."""
    operation = given_its_turn()
    operation = record(operation, turn(operation), Progress.GONE, 2040.0, "job v is over")
    old = after_view(pending("v", 4, requeue_count=1), now_s=2045.0, reservations=False)
    operation = advance(operation, old, PATIENCE)
    assert operation.phase is Phase.RETURNING
    gone = after_view(now_s=2050.0, reservations=False)
    _, issued = issue_all(advance(operation, gone, PATIENCE), gone)
    assert issued == [replace(requeue("v"), forgotten_run=0)]
    late = replace(old, now_s=2040.0 + PATIENCE.give_up_after_s)
    assert advance(operation, late, PATIENCE).phase is Phase.CLOSED
