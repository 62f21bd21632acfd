"""The operation of an urgent job that was submitted again: what it takes over."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.daemon.operation.changed.hold_end import LONGEST_S
from makeway.daemon.operation.changed.resubmitted import resubmitted
from makeway.daemon.operation.observation import Timeouts
from makeway.daemon.operation.transitions import advance
from makeway.daemon.operation.validation import validate
from makeway.policies.model import (
    CPU,
    Cluster,
    Job,
    Method,
    Node,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Reservation,
    Reserve,
    Resources,
    Task,
)
from tests.builders import cluster, held, running, urgent
from tests.daemon.acting import (
    COMMENTS,
    DEADLINE_S,
    NODES,
    PATIENCE,
    begun,
    held_operation,
    holding,
    issue_all,
    requeue,
    reserve,
    signal,
)

SAVES = (signal("v"), requeue("v", Method.SYSTEM))
SAVING = running("v", NODES, checkpoint=COMMENTS)
NOW_S = 1020.0
SECOND = replace(urgent("w", 4, submit_s=1015.0), start_within_s=900.0)


def signalled() -> Operation:
    """The job `v` was signalled for `u`, and holds four nodes."""
    operation, _ = issue_all(held_operation(*SAVES), holding(SAVING))
    return operation


def seen(*jobs: Job, operation: Operation) -> Cluster:
    """The urgent job `u` has gone."""
    return cluster(4, *jobs, now_s=NOW_S, reservations=(held("u", NODES),), operations=(operation,))


def taken_over(operation: Operation, *jobs: Job, timeouts: Timeouts = PATIENCE) -> tuple[Operation, Cluster]:
    view = seen(*jobs, operation=operation)
    (found,) = resubmitted((operation,), view, (), timeouts)
    validate(found)
    return found, view


def task_of(operation: Operation, verb: str) -> Task:
    return [task for task in operation.tasks if task.action.verb == verb][-1]


def test_what_is_under_way_is_for_the_second_job_and_the_rest_keeps_its_name() -> None:
    before = signalled()
    operation, _ = taken_over(before, SAVING, SECOND)
    assert operation.operation_id == before.operation_id
    assert (operation.for_job_id, operation.phase) == ("w", Phase.MAKING_ROOM)
    assert [(task.action.verb, task.progress, task.action.for_job_id) for task in operation.tasks] == [
        ("reserve", Progress.DONE, "u"),
        ("checkpoint", Progress.ACCEPTED, "w"),
        ("requeue", Progress.PLANNED, "w"),
        ("reserve", Progress.PLANNED, "w"),
    ]
    asked, signal_before = task_of(operation, "checkpoint"), task_of(before, "checkpoint")
    assert (asked.issued_s, asked.requeue_count) == (signal_before.issued_s, signal_before.requeue_count)
    hold = task_of(operation, "reserve").action
    assert isinstance(hold, Reserve)
    assert (hold.job_id, hold.reservation, hold.nodes) == ("w", "mw_u", NODES)


def test_it_has_the_time_of_the_second_job_and_a_hold_that_lasts_as_long() -> None:
    operation, _ = taken_over(signalled(), SAVING, SECOND)
    assert operation.deadline_s == 1015.0 + 900.0
    assert operation.give_up_s == operation.deadline_s + PATIENCE.give_up_after_s
    hold = task_of(operation, "reserve").action
    assert isinstance(hold, Reserve)
    assert NOW_S + hold.duration_s >= operation.give_up_s + SECOND.walltime_s


def test_the_first_command_is_the_hold() -> None:
    operation, view = taken_over(signalled(), SAVING, SECOND)
    operation = advance(operation, view, PATIENCE)
    operation, issued = issue_all(operation, view)
    assert [(one.verb, one.job_id) for one in issued] == [("reserve", "w")]


def test_a_hold_that_was_never_made_is_made_for_the_second_job() -> None:
    before = begun(cluster(4, urgent("u", 4), SAVING), reserve(), *SAVES)
    operation, _ = taken_over(before, SAVING, SECOND)
    holds = [task for task in operation.tasks if isinstance(task.action, Reserve)]
    assert [(task.action.job_id, task.action.for_job_id, task.progress) for task in holds] == [
        ("u", "u", Progress.DROPPED),
        ("w", "w", Progress.PLANNED),
    ]


def test_it_is_waited_for_from_now_on_if_its_time_to_start_is_over() -> None:
    before = replace(signalled(), deadline_s=1000.0, give_up_s=1100.0)
    operation, _ = taken_over(before, SAVING, replace(SECOND, start_within_s=0.0))
    assert (operation.deadline_s, operation.give_up_s) == (1015.0, NOW_S + PATIENCE.give_up_after_s)


def test_the_tasks_of_its_array_follow_it() -> None:
    operation, _ = taken_over(signalled(), SAVING, replace(SECOND, array_job_id="9"))
    assert operation.array_job_id == "9"


def test_no_hold_lasts_for_ever() -> None:
    operation, _ = taken_over(signalled(), SAVING, replace(SECOND, walltime_s=1e12))
    hold = task_of(operation, "reserve").action
    assert isinstance(hold, Reserve)
    assert LONGEST_S < hold.duration_s < 366 * 86_400.0


def refused(operation: Operation) -> Operation:
    tasks = [
        replace(task, progress=Progress.REFUSED) if isinstance(task.action, Reserve) else task
        for task in operation.tasks
    ]
    return replace(operation, tasks=tuple(tasks))


def for_a_notice(operation: Operation) -> Operation:
    return replace(operation, kind=OperationKind.NOTICE)


def observed(operation: Operation) -> Operation:
    return replace(operation, observe=True)


def gives_back(operation: Operation) -> Operation:
    return replace(operation, phase=Phase.RETURNING)


def runs(operation: Operation) -> Operation:
    return replace(operation, phase=Phase.LENT)


def of_nobody(operation: Operation) -> Operation:
    """As an older makeway has written it down."""
    return replace(operation, user="")


@pytest.mark.parametrize("change", [refused, for_a_notice, observed, gives_back, runs, of_nobody])
def test_another_operation_stays_as_it_is(change: Callable[[Operation], Operation]) -> None:
    operation = change(signalled())
    view = seen(SAVING, SECOND, operation=operation)
    assert resubmitted((operation,), view, (), PATIENCE)[0] is operation


def test_one_whose_job_is_there_stays_as_it_is() -> None:
    operation = signalled()
    view = seen(SAVING, SECOND, urgent("u", 4, reservation="mw_u"), operation=operation)
    assert resubmitted((operation,), view, (), PATIENCE)[0] is operation


@pytest.mark.parametrize(("within_s", "follows"), [(DEADLINE_S - 1015.0, True), (500.0, False)])
def test_the_jobs_have_to_leave_by_the_deadline_of_the_second(within_s: float, follows: bool) -> None:
    """The plan is for a start at 1600 s."""
    operation, _ = taken_over(signalled(), SAVING, replace(SECOND, start_within_s=within_s))
    assert operation.for_job_id == ("w" if follows else "u")


def test_a_job_in_more_of_a_hurry_than_the_first_one_follows_if_the_others_leave_in_time() -> None:
    saves = (signal("v"), requeue("v", Method.SYSTEM, not_after_s=1300.0))
    before, _ = issue_all(held_operation(*saves), holding(SAVING))
    for within_s, follows in ((285.0, True), (284.0, False)):
        operation, _ = taken_over(before, SAVING, replace(SECOND, start_within_s=within_s))
        assert operation.for_job_id == ("w" if follows else "u")


def test_a_plan_that_is_late_is_kept_for_one_with_as_much_time() -> None:
    late = replace(signalled(), deadline_s=1100.0)
    operation, _ = taken_over(late, SAVING, replace(SECOND, start_within_s=85.0))
    assert operation.for_job_id == "w"
    operation, _ = taken_over(late, SAVING, replace(SECOND, start_within_s=84.0))
    assert operation.for_job_id == "u"


def test_a_cluster_that_reports_submissions_in_whole_seconds() -> None:
    operation = replace(signalled(), opened_s=999.9)
    assert taken_over(operation, SAVING, replace(SECOND, submit_s=999.0))[0].for_job_id == "w"
    assert taken_over(operation, SAVING, replace(SECOND, submit_s=998.0))[0].for_job_id == "u"


def as_it_is(view: Cluster) -> Cluster:
    return view


def asleep(view: Cluster) -> Cluster:
    nodes = (replace(node, wake_s=0.0 if node.name in NODES else 2000.0) for node in view.nodes)
    return replace(view, nodes=tuple(nodes))


def needed_by_the_site(view: Cluster) -> Cluster:
    site = Reservation(name="site", nodes=("n8",), start_s=NOW_S + 100.0, end_s=1e6)
    return replace(view, reservations=(*view.reservations, site))


@pytest.mark.parametrize(
    ("change", "follows"), [(as_it_is, False), (asleep, True), (needed_by_the_site, True)]
)
def test_a_job_that_finds_free_nodes_in_time_does_not_follow(
    change: Callable[[Cluster], Cluster], follows: bool
) -> None:
    """Four more nodes are free."""
    operation = signalled()
    view = seen(SAVING, SECOND, operation=operation)
    view = change(replace(view, nodes=cluster(8).nodes))
    (found,) = resubmitted((operation,), view, (), PATIENCE)
    assert found.for_job_id == ("w" if follows else "u")


HALF = Resources.of({CPU: 4})


@pytest.mark.parametrize(("cpus", "follows"), [(4, True), (2, True), (6, False)])
def test_a_job_on_parts_of_nodes_gets_what_comes_free_there(cpus: int, follows: bool) -> None:
    """On each node a neighbour has four of eight CPUs, and `v` leaves the other four."""
    neighbour = replace(running("x", NODES, preemptible=False), allocation=(HALF,) * 4)
    leaves = replace(SAVING, allocation=(HALF,) * 4)
    operation = replace(signalled(), kind=OperationKind.MAKE_WAY_SHARED)
    second = replace(SECOND, demand=Resources.of({CPU: cpus}))
    nodes = tuple(Node(name=name, capacity=Resources.of({CPU: 8})) for name in NODES)
    view = replace(seen(neighbour, leaves, second, operation=operation), nodes=nodes)
    (found,) = resubmitted((operation,), view, (), PATIENCE)
    assert found.for_job_id == ("w" if follows else "u")
    hold = task_of(found, "reserve").action
    assert isinstance(hold, Reserve)
    assert not follows or hold.kind is OperationKind.MAKE_WAY_SHARED


@pytest.mark.parametrize(("cpus", "served"), [(4, []), (5, ["w2"])])
def test_two_jobs_on_parts_of_nodes_may_find_room_on_the_same_free_nodes(
    cpus: int, served: list[str]
) -> None:
    """On four more nodes eight CPUs are free."""
    operation = replace(signalled(), kind=OperationKind.MAKE_WAY_SHARED)
    jobs = [
        replace(SECOND, job_id=f"w{number}", demand=Resources.of({CPU: cpus}), submit_s=1015.0 + number)
        for number in (1, 2)
    ]
    names = cluster(8).nodes
    nodes = tuple(replace(node, capacity=Resources.of({CPU: 8})) for node in names)
    view = replace(seen(SAVING, *jobs, operation=operation), nodes=nodes)
    (found,) = resubmitted((operation,), view, (), PATIENCE)
    assert [found.for_job_id] == (served or ["u"])


@pytest.mark.parametrize(("free", "served"), [(8, "u"), (7, "w2")])
def test_two_jobs_may_find_free_nodes_enough(free: int, served: str) -> None:
    operation = signalled()
    jobs = [replace(SECOND, job_id=f"w{number}", submit_s=1015.0 + number) for number in (1, 2)]
    view = replace(seen(SAVING, *jobs, operation=operation), nodes=cluster(4 + free).nodes)
    (found,) = resubmitted((operation,), view, (), PATIENCE)
    assert found.for_job_id == served
