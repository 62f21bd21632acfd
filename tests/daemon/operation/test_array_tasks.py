"""The operation for the next task of an array: what it takes over from the one before."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from makeway.daemon.operation.handover import passed_on
from makeway.daemon.operation.observation import Timeouts
from makeway.daemon.operation.returns import leases
from makeway.daemon.operation.transitions import advance
from makeway.daemon.operation.validation import validate
from makeway.policies.model import (
    Action,
    Cluster,
    Expand,
    Job,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Release,
    Requeue,
    Reservation,
    Reserve,
)
from tests.builders import pending, running, urgent
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
    shrink,
    signal,
)

NEXT = replace(urgent("7_1", 4), array_job_id="7")
WAITS = pending("v", 4, requeue_count=1)


def over(view: Cluster, *actions: Action) -> Operation:
    """An operation for a task of the array 7 that has ended by the time of the view."""
    operation = replace(lent_operation(*actions or (requeue("v"),)), array_job_id="7")
    return advance(operation, view, PATIENCE)


def next_of(operation: Operation, view: Cluster) -> Operation:
    ids = count(2)
    (one,) = passed_on((operation,), view, PATIENCE, lambda: str(next(ids)))
    validate(one.closed)
    validate(one.opened)
    assert one.opened.operation_id == "2"
    return one.opened


def test_another_one_that_no_task_follows_does_not_keep_it() -> None:
    view = after_view(WAITS, NEXT)
    (hold,) = view.reservations
    view = replace(view, reservations=(hold, replace(hold, name="mw_9_4")))
    operation = over(view)
    last = replace(operation, operation_id="0", for_job_id="9_4", array_job_id="9", reservation="mw_9_4")
    (one,) = passed_on((last, operation), view, PATIENCE, lambda: "2")
    assert (one.closed.operation_id, one.opened.for_job_id) == (operation.operation_id, "7_1")


def lasts_until(view: Cluster, end_s: float) -> Cluster:
    (hold,) = view.reservations
    return replace(view, reservations=(replace(hold, end_s=end_s),))


def test_it_has_the_lenders_and_gives_them_back_after_the_next_end() -> None:
    view = after_view(WAITS, NEXT)
    operation = next_of(over(view, signal("v"), requeue("v")), view)
    (lease,) = leases(operation, view)
    assert (lease.lender_job_id, lease.borrower_job_id, lease.since_s) == ("v", "7_1", 1020.0)
    operation, issued = issue_all(operation, view)
    assert [(one.verb, one.job_id) for one in issued] == [("reserve", "7_1")]

    bound = replace(NEXT, reservation="mw_u")
    view = after_view(WAITS, bound, now_s=2005.0)
    operation = advance(operation, view, PATIENCE)
    assert due(operation, view) == []
    view = after_view(WAITS, replace(running("7_1", NODES, start_s=2005.0), kind=NEXT.kind), now_s=2010.0)
    operation = advance(operation, view, PATIENCE)
    assert (operation.phase, operation.started_s) == (Phase.LENT, 2005.0)
    view = after_view(WAITS, now_s=3000.0)
    assert [(one.verb, one.job_id) for one in due(advance(operation, view, PATIENCE), view)] == [
        ("prioritise", "v")
    ]


def test_a_shrunk_lender_grows_after_the_last_task() -> None:
    keeps = running("v", ("n1",), node_count_min=1)
    before = holding(running("v", NODES))
    operation, _ = issue_all(held_operation(shrink("v", ("n1",))), before)
    operation = replace(advance(operation, lent_view(keeps), PATIENCE), array_job_id="7")
    view = after_view(keeps, replace(NEXT, node_count=3))
    # The hold has all four nodes, of which the lender has kept one.
    operation = next_of(advance(operation, view, PATIENCE), view)
    assert [lease.nodes for lease in leases(operation, view)] == [("n2", "n3", "n4")]
    gone = after_view(keeps, now_s=2010.0)
    returns = [task.action for task in advance(operation, gone, PATIENCE).tasks]
    (growth,) = [action for action in returns if isinstance(action, Expand)]
    assert (growth.job_id, growth.nodes) == ("v", ("n2", "n3", "n4"))


def test_a_requeue_that_was_forgotten_meanwhile_is_repeated_for_the_task_that_is_there() -> None:
    view = after_view(WAITS, NEXT)
    operation = next_of(over(view), view)
    assert {task.action.for_job_id for task in operation.tasks} == {"u", "7_1"}
    forgotten = after_view(running("v", NODES), NEXT, now_s=2010.0)
    operation = advance(operation, forgotten, PATIENCE)
    (task,) = [one for one in operation.tasks if isinstance(one.action, Requeue)]
    assert (task.progress, task.puts_back, task.action.for_job_id) == (Progress.PLANNED, True, "7_1")
    validate(operation)


def test_the_hold_ends_when_the_task_must_have_ended() -> None:
    view = lasts_until(after_view(WAITS, NEXT), 2001.0)
    (hold,) = [one.action for one in next_of(over(view), view).tasks if one.action.verb == "reserve"]
    assert hold.duration_s == NEXT.walltime_s + PATIENCE.give_up_after_s + 60.0


def test_the_site_s_own_reservations_come_before_it() -> None:
    site = Reservation(name="site", nodes=("n1",), start_s=2100.0, end_s=9000.0)
    view = after_view(WAITS, NEXT)
    view = replace(view, reservations=(*view.reservations, site))
    assert passed_on((over(view),), view, PATIENCE, lambda: "2") == ()
    brief = replace(NEXT, walltime_s=50.0)
    view = replace(view, jobs=(WAITS, brief))
    (hold,) = [one.action for one in next_of(over(view), view).tasks if one.action.verb == "reserve"]
    assert hold.until_s == site.start_s


def shared(operation: Operation) -> Operation:
    return replace(operation, kind=OperationKind.MAKE_WAY_SHARED)


def unknown_job(operation: Operation) -> Operation:
    """As an older makeway has written it down."""
    return replace(operation, array_job_id="", user="")


def begun(operation: Operation) -> Operation:
    return issue_all(operation, after_view(WAITS, NEXT))[0]


def as_it_is(operation: Operation) -> Operation:
    return operation


@pytest.mark.parametrize(
    ("change", "jobs", "timeouts"),
    [
        (unknown_job, (WAITS, NEXT), PATIENCE),
        (shared, (WAITS, NEXT), PATIENCE),
        (begun, (WAITS, NEXT), PATIENCE),
        (as_it_is, (WAITS,), PATIENCE),
        (as_it_is, (WAITS, NEXT), replace(PATIENCE, pass_on_s=1000.0)),
        (as_it_is, (running("x", ("n2",)), WAITS, NEXT), PATIENCE),
        (as_it_is, (WAITS, replace(NEXT, reservation="mw_7_1", blocked_by="a licence")), PATIENCE),
    ],
)
def test_nothing_is_passed_on(
    change: Callable[[Operation], Operation], jobs: tuple[Job, ...], timeouts: Timeouts
) -> None:
    view = after_view(*jobs)
    assert passed_on((change(over(view)),), view, timeouts, lambda: "2") == ()


@pytest.mark.parametrize(
    ("array_job_id", "own", "kept"),
    [("7", None, "mine"), ("7", "its", "its"), ("", None, None), ("", "its", "its")],
)
def test_the_reservation_of_a_job_is_its_own_or_that_of_the_tasks_of_its_array(
    array_job_id: str, own: str | None, kept: str | None
) -> None:
    """A job of no array that waited for another one goes back to no reservation but its own."""
    job = replace(NEXT, array_job_id=array_job_id, eligible_since_s=1500.0, reservation=own)
    view = after_view(WAITS, job)
    tasks = tuple(
        replace(task, action=replace(task.action, own_reservation="mine"))
        if isinstance(task.action, Reserve)
        else task
        for task in over(view).tasks
    )
    operation = next_of(replace(over(view), tasks=tasks, user=NEXT.user), view)
    assert operation.own_reservation == kept


def test_a_task_that_waits_with_an_operation_of_its_own_keeps_that() -> None:
    view = after_view(WAITS, NEXT)
    own = replace(over(after_view()), operation_id="9", for_job_id="7_1", phase=Phase.MAKING_ROOM)
    assert passed_on((over(view), own), view, PATIENCE, lambda: "2") == ()


def test_the_tasks_follow_each_other_in_the_order_of_their_numbers() -> None:
    tasks = [replace(NEXT, job_id=f"7_{number}") for number in (10, 8, 9)]
    view = after_view(WAITS, *tasks)
    assert next_of(over(view), view).for_job_id == "7_8"


def test_the_next_task_of_the_array_comes_before_other_jobs_of_its_user() -> None:
    other = replace(NEXT, job_id="6", array_job_id="", submit_s=-10.0, eligible_since_s=1500.0)
    view = after_view(WAITS, other, NEXT)
    assert next_of(replace(over(view), user=NEXT.user), view).for_job_id == "7_1"


def test_the_hold_is_released_once_after_the_last_task() -> None:
    view = after_view(WAITS, NEXT)
    operation = next_of(over(view), view)
    gone = after_view(WAITS, now_s=2600.0)
    releases = [one for one in advance(operation, gone, PATIENCE).tasks if isinstance(one.action, Release)]
    assert [(one.progress, one.action.job_id) for one in releases] == [(Progress.PLANNED, "7_1")]
