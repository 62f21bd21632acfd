"""An operation whose commands got no answer, or whose controller forgot what it had done."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.due import next_due, wakeup_s
from makeway.daemon.operation.orphans import left_behind
from makeway.daemon.operation.transitions import advance, issuing, record
from makeway.daemon.operation.validation import validate
from makeway.policies.model import (
    Acknowledgement,
    CheckpointSpec,
    Ending,
    Job,
    Method,
    Operation,
    Phase,
    Prioritise,
    Progress,
    Reason,
    Release,
    Requeue,
    Reserve,
)
from tests.builders import cluster, held, node_names, pending, running, urgent
from tests.daemon.acting import (
    COMMENTS,
    NODES,
    PATIENCE,
    after_view,
    begun,
    due,
    held_operation,
    holding,
    issue_all,
    lent_operation,
    lent_view,
    requeue,
    reserve,
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


def test_a_signal_that_an_old_view_kept_from_being_sent_is_sent() -> None:
    """The view showed the job in the queue, before its start."""
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    tasks = (
        replace(task, nodes=() if isinstance(task.action, Reserve) else NODES) for task in operation.tasks
    )
    operation = replace(operation, tasks=tuple(tasks))
    operation = advance(operation, holding(pending("v", len(NODES)), now_s=1020.0), PATIENCE)
    assert operation.tasks[-2].ending is Ending.REQUEUED_ITSELF
    view = holding(running("v", NODES), now_s=1030.0)
    _, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [action.verb for action in issued] == ["checkpoint"]


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
    operation = record(issuing(operation, index, 1300.0), index, Progress.GONE, 1300.0, "job v is over")
    waits = pending("v", 4, requeue_count=1)
    operation = advance(operation, lent_view(waits, now_s=1330.0), PATIENCE)
    operation, issued = issue_all(operation, after_view(waits))
    operation, issued = issue_all(advance(operation, after_view(waits), PATIENCE), after_view(waits))
    assert [(type(action), action.job_id) for action in issued] == [(Prioritise, "v")]


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


def test_a_release_that_is_not_seen_is_repeated() -> None:
    operation = lent_operation(requeue("v"))
    back = running("v", NODES, start_s=1990.0, requeue_count=1)
    gone = after_view(back, now_s=2000.0)
    operation, issued = issue_all(advance(operation, gone, PATIENCE), gone)
    assert [type(action) for action in issued] == [Release]
    for now_s, verbs in ((2029.0, []), (2030.0, [Release])):
        view = after_view(back, now_s=now_s)
        operation, issued = issue_all(advance(operation, view, PATIENCE), view)
        assert [type(action) for action in issued] == verbs


def test_an_urgent_job_that_waits_again_keeps_its_nodes() -> None:
    operation = lent_operation(requeue("v"))
    again = cluster(
        4,
        urgent("u", 4),
        pending("v", 4, requeue_count=1),
        now_s=1030.0,
        reservations=(held("u", NODES),),
    )
    operation, issued = issue_all(advance(operation, again, PATIENCE), again)
    assert (operation.phase, operation.started_s) == (Phase.MAKING_ROOM, None)
    assert issued == [reserve()]

    bound = replace(
        again, jobs=(urgent("u", 4, reservation="mw_u"), pending("v", 4, requeue_count=1)), now_s=1031.0
    )
    operation = advance(operation, bound, PATIENCE)
    assert due(operation, bound) == []
    operation = advance(operation, lent_view(now_s=1040.0), PATIENCE)
    assert operation.phase is Phase.LENT


def test_an_urgent_job_that_waits_again_once_its_end_was_seen_keeps_its_nodes() -> None:
    """The end may be all that a controller forgets, after the lender was asked to come back."""
    operation = lent_operation(requeue("v"))
    lender = replace(pending("v", 4, requeue_count=1), eligible_s=2060.0)
    over = after_view(lender)
    operation, issued = issue_all(advance(operation, over, PATIENCE), over)
    assert (operation.phase, [type(action) for action in issued]) == (Phase.RETURNING, [Prioritise])

    again = after_view(urgent("u", 4, reservation="mw_u"), lender, now_s=2001.0)
    operation = advance(operation, again, PATIENCE)
    assert (operation.phase, operation.started_s, operation.ended_s) == (Phase.MAKING_ROOM, None, None)
    assert due(operation, again) == []
    assert left_behind(again, (operation,), "test", plans=False) == (), "its hold is in use again"

    # It starts once more, and at its end everything goes back as ever.
    operation = advance(operation, lent_view(now_s=2010.0), PATIENCE)
    assert (operation.phase, operation.started_s) == (Phase.LENT, 1020.0)
    after = after_view(replace(pending("v", 4, requeue_count=1), prioritised=True), now_s=3000.0)
    operation, issued = issue_all(advance(operation, after, PATIENCE), after)
    assert [type(action) for action in issued] == [Release]


def test_a_hold_that_was_asked_to_end_is_not_taken_up_again() -> None:
    operation = lent_operation(requeue("v"))
    over = after_view(running("v", NODES, start_s=1990.0, requeue_count=1))
    operation, issued = issue_all(advance(operation, over, PATIENCE), over)
    assert [type(action) for action in issued] == [Release]
    again = after_view(urgent("u", 4, reservation="mw_u"), now_s=2001.0)
    assert advance(operation, again, PATIENCE).phase is Phase.RETURNING


def test_an_urgent_job_that_waits_again_too_late_gives_its_nodes_back() -> None:
    operation = lent_operation(requeue("v"))
    lender = pending("v", 4, requeue_count=1)
    late = after_view(urgent("u", 4, reservation="mw_u"), lender, now_s=operation.give_up_s)
    operation, issued = issue_all(advance(operation, late, PATIENCE), late)
    assert operation.phase is Phase.RETURNING
    assert [type(action) for action in issued] == [Prioritise]


def test_an_eviction_in_doubt_is_never_repeated_once_the_nodes_go_back() -> None:
    operation = held_operation(requeue("v"))
    view = holding(running("v", NODES))
    index = next_due(operation, view, PATIENCE)
    assert index is not None
    operation = issuing(operation, index, view.now_s)
    gone = after_view(running("v", NODES), now_s=1500.0)
    for _ in range(3):
        operation = advance(operation, gone, PATIENCE)
        operation, issued = issue_all(operation, gone)
        assert not any(isinstance(action, Requeue) for action in issued)
    closed = advance(operation, after_view(running("v", NODES), reservations=False), PATIENCE)
    assert closed.phase is Phase.CLOSED


def test_an_eviction_that_turns_out_late_is_given_back_too() -> None:
    operation = held_operation(requeue("v"))
    view = holding(running("v", NODES))
    index = next_due(operation, view, PATIENCE)
    assert index is not None
    operation = issuing(operation, index, view.now_s)
    gone = after_view(running("v", NODES), now_s=1020.0)
    operation, issued = issue_all(advance(operation, gone, PATIENCE), gone)
    assert issued == []  # the hold stays until it is known whether there is a lender

    late = after_view(pending("v", 4, requeue_count=1), now_s=1021.0)
    assert [type(action) for action in due(advance(operation, late, PATIENCE), late)] == [Prioritise]


def in_doubt(spec: CheckpointSpec | None) -> Operation:
    """The signal to `v` was written down at 1010 s, and no answer after it."""
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM), spec=spec)
    view = holding(running("v", NODES, checkpoint=spec))
    index = next_due(operation, view, PATIENCE)
    assert index is not None
    return issuing(operation, index, view.now_s)


@pytest.mark.parametrize("acknowledgement", list(Acknowledgement))
@pytest.mark.parametrize("now_s", [1039.0, 1040.0, 1309.0])
def test_a_signal_in_doubt_is_never_repeated(now_s: float, acknowledgement: Acknowledgement) -> None:
    """It cannot be seen, and it may arrive late."""
    spec = CheckpointSpec(system_s=100.0, acknowledgement=acknowledgement)
    operation = in_doubt(spec)
    view = holding(running("v", NODES, checkpoint=spec), now_s=now_s)
    assert due(advance(operation, view, PATIENCE), view) == []


def test_a_job_whose_signal_is_in_doubt_leaves_when_its_grace_is_over() -> None:
    view = holding(running("v", NODES, checkpoint=COMMENTS), now_s=1310.0)
    assert due(advance(in_doubt(COMMENTS), view, PATIENCE), view) == [requeue("v", Method.SYSTEM)]


def test_a_signal_in_doubt_that_the_job_tells_of_is_not_repeated() -> None:
    view = holding(running("v", NODES, checkpoint=COMMENTS, checkpointing_since_s=1011.0), now_s=1100.0)

    assert due(advance(in_doubt(COMMENTS), view, PATIENCE), view) == []


def test_a_command_that_is_to_be_repeated_waits_a_little() -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES))
    operation = begun(view, reserve(), requeue("v"))
    operation = record(issuing(operation, 0, 1000.0), 0, Progress.PLANNED, 1000.0, "try again in a bit")

    assert due(operation, replace(view, now_s=1004.0)) == []
    assert due(operation, replace(view, now_s=1005.0)) == [reserve()]
    assert wakeup_s(operation, 1000.0, PATIENCE) == 1005.0


def test_a_hold_that_somebody_deleted_is_made_again() -> None:
    operation = held_operation(requeue("v"))
    view = cluster(4, urgent("u", 4), running("v", NODES), now_s=1020.0)

    assert due(advance(operation, view, PATIENCE), view) == [reserve()]


def test_a_job_that_is_bound_to_its_hold_no_more_is_bound_again() -> None:
    """A controller that crashed may have kept the reservation and forgotten who waits in it."""
    operation = held_operation(requeue("v"))
    unbound = cluster(4, urgent("u", 4), running("v", NODES), now_s=1020.0, reservations=(held("u", NODES),))

    assert due(advance(operation, unbound, PATIENCE), unbound) == [reserve()]


def test_a_hold_in_doubt_is_released_all_the_same() -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES))
    operation = issuing(begun(view, reserve(), requeue("v")), 0, view.now_s)
    gone = cluster(4, running("v", NODES), now_s=1001.0, reservations=(held("u", NODES),))
    operation = advance(operation, replace(gone, reservations=()), PATIENCE)

    assert due(operation, gone) == [
        Release(
            job_id="u",
            for_job_id="u",
            policy="test",
            reason=Reason.BORROWER_GONE,
            reservation="mw_u",
        )
    ]


def test_an_old_view_from_before_its_start_does_not_show_that_a_job_was_requeued() -> None:
    operation = held_operation(requeue("v"))
    view = holding(running("v", NODES))
    index = next_due(operation, view, PATIENCE)
    assert index is not None
    operation = issuing(operation, index, view.now_s)
    operation = advance(operation, holding(pending("v", 4), now_s=1020.0), PATIENCE)
    assert operation.tasks[index].progress is Progress.ISSUING
    operation = advance(operation, holding(pending("v", 4, requeue_count=1), now_s=1030.0), PATIENCE)
    assert operation.tasks[index].ending is Ending.SEEN


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
