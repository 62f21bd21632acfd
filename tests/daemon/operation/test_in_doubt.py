"""An operation whose commands got no answer, or whose controller forgot what it had done."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.due import next_due, wakeup_s
from makeway.daemon.operation.orphans import left_behind
from makeway.daemon.operation.transitions import advance, issuing, record
from makeway.policies.model import (
    Acknowledgement,
    Cancel,
    CheckpointSpec,
    Ending,
    JobState,
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
from tests.builders import cluster, held, pending, running, urgent
from tests.daemon.acting import (
    COMMENTS,
    DEADLINE_S,
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
    shrink,
    signal,
)


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


def test_a_cancel_that_old_views_kept_from_being_sent_is_sent_after_the_signal() -> None:
    """One view showed the job in the queue, the next one from before it was submitted."""
    cancel = Cancel(
        job_id="v",
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.SYSTEM,
        not_after_s=DEADLINE_S,
    )
    operation = held_operation(signal("v"), cancel)
    tasks = (
        replace(task, nodes=() if isinstance(task.action, Reserve) else NODES) for task in operation.tasks
    )
    operation = replace(operation, tasks=tuple(tasks))
    operation = advance(operation, holding(pending("v", len(NODES)), now_s=1020.0), PATIENCE)
    operation = advance(operation, holding(now_s=1025.0), PATIENCE)
    assert [task.progress for task in operation.tasks[-2:]] == [Progress.DONE, Progress.DONE]
    view = holding(running("v", NODES), now_s=1030.0)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [action.verb for action in issued] == ["checkpoint"]
    assert operation.tasks[-1].progress is Progress.PLANNED


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


def test_a_hold_whose_nodes_somebody_changed_is_made_again() -> None:
    """A controller that crashed may have forgotten the last change of a hold. Nothing is taken before."""
    operation = held_operation(requeue("v"))
    view = replace(holding(running("v", NODES), now_s=1020.0), reservations=(held("u", NODES[:2]),))

    assert due(advance(operation, view, PATIENCE), view) == [reserve()]


@pytest.mark.parametrize("answered", [True, False])
def test_a_lender_that_never_ends_does_not_keep_the_hold(answered: bool) -> None:
    """Its processes may not end, nor its epilog."""
    lender = running("v", NODES)
    operation = held_operation(requeue("v"))
    view = holding(lender)
    index = next_due(operation, view, PATIENCE)
    assert index is not None
    operation = issuing(operation, index, view.now_s)
    if answered:
        operation = record(operation, index, Progress.ACCEPTED, view.now_s)
    completing = replace(lender, state=JobState.COMPLETING)
    late_s = DEADLINE_S + PATIENCE.give_up_after_s
    operation = advance(operation, holding(completing, now_s=late_s), PATIENCE)
    assert (operation.phase, due(operation, holding(completing, now_s=late_s))) == (Phase.RETURNING, [])
    view = holding(completing, now_s=late_s + PATIENCE.settle_s)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [type(action) for action in issued] == [Release]

    # It gets its turn once it waits.
    waits = after_view(pending("v", 4, requeue_count=1), now_s=9000.0, reservations=False)
    _, issued = issue_all(advance(operation, waits, PATIENCE), waits)
    assert [(type(action), action.job_id) for action in issued] == [(Prioritise, "v")]


def test_a_shrunk_job_that_lost_one_more_node_has_shrunk() -> None:
    operation = held_operation(shrink("v", NODES[:2]))
    operation, _ = issue_all(operation, holding(running("v", NODES)))
    operation = advance(operation, holding(running("v", NODES[:1]), now_s=1020.0), PATIENCE)
    assert operation.tasks[-1].ending is Ending.SEEN


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
