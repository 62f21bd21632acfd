"""The urgent job wants less than when it was decided on: jobs that were not yet made to leave stay."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.tasks import ended
from makeway.daemon.operation.transitions import advance
from makeway.daemon.operation.validation import validate
from makeway.policies.model import (
    CPU,
    Acknowledgement,
    Action,
    Cluster,
    Ending,
    Job,
    JobState,
    Method,
    Node,
    NodeState,
    Operation,
    OperationKind,
    Phase,
    Requeue,
    Reserve,
    Resources,
)
from tests.builders import cluster, held, node_names, pending, running, urgent
from tests.daemon.acting import (
    COMMENTS,
    NODES,
    PATIENCE,
    begun,
    issue_all,
    requeue,
    reserve,
    shrink,
    signal,
)

REQUEUES = replace(COMMENTS, acknowledgement=Acknowledgement.REQUEUE)


def on(number: int, *, last: int | None = None, **changes: object) -> Job:
    """A job with a checkpoint on one node, or on those up to number `last`."""
    nodes = node_names((last or number) - number + 1, first=number)
    job = running(f"v{number}", nodes, checkpoint=COMMENTS)
    return replace(job, **changes)  # type: ignore[arg-type]


def view_of(size: int, *jobs: Job, now_s: float = 1010.0) -> Cluster:
    """The urgent job wants so many whole nodes, and waits in its hold of four."""
    waits = urgent("u", size, reservation="mw_u")
    return cluster(4, waits, *jobs, now_s=now_s, reservations=(held("u", NODES),))


def held_for(*actions: Action, jobs: tuple[Job, ...]) -> Operation:
    """The operation of an urgent job of four nodes whose hold was seen, with what was due then sent."""
    before = cluster(4, urgent("u", 4), *jobs)
    operation, _ = issue_all(begun(before, reserve(), *actions), before)
    seen = view_of(4, *jobs)
    operation, _ = issue_all(advance(operation, seen, PATIENCE), seen)
    return operation


def held_unsent(*actions: Action, jobs: tuple[Job, ...]) -> Operation:
    """The same, with nothing sent but the hold: a held node is silent."""
    before = cluster(4, urgent("u", 4), *jobs)
    operation, _ = issue_all(begun(before, reserve(), *actions), before)
    silent = Node(name="n1", state=NodeState.SILENT)
    seen = replace(view_of(4, *jobs), nodes=(silent, *before.nodes[1:]))
    operation, issued = issue_all(advance(operation, seen, PATIENCE), seen)
    assert issued == []
    return operation


def leave_after(operation: Operation, view: Cluster) -> list[str]:
    """The jobs that are made to leave once the operation has seen the view."""
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    validate(operation)
    return [action.job_id for action in issued if not isinstance(action, Reserve)]


def planned(operation: Operation) -> list[str]:
    """The jobs that are still to leave."""
    return [
        task.action.job_id
        for task in operation.tasks
        if isinstance(task.action, Requeue) and task.ending is None and not task.puts_back
    ]


def saving(*jobs: Job) -> Operation:
    """An operation all jobs of which were asked to save their work."""
    actions = [action for job in jobs for action in (signal(job.job_id), requeue(job.job_id, Method.SYSTEM))]
    return held_for(*actions, jobs=jobs)


FOUR = (on(1, setup_s=40.0), on(2, setup_s=10.0), on(3, setup_s=30.0), on(4, setup_s=20.0))


@pytest.mark.parametrize(
    ("size", "leave"),
    [(4, ["v1", "v2", "v3", "v4"]), (3, ["v2", "v3", "v4"]), (2, ["v2", "v4"]), (1, ["v2"])],
)
def test_those_that_lose_most_stay_first(size: int, leave: list[str]) -> None:
    operation = advance(saving(*FOUR), view_of(size, *FOUR, now_s=1060.0), PATIENCE)
    validate(operation)
    assert planned(operation) == leave
    saved = tuple(replace(job, last_checkpoint_s=1110.0) for job in FOUR)
    assert leave_after(operation, view_of(size, *saved, now_s=1111.0)) == leave


def test_what_is_called_off_is_said_to_be_outdated() -> None:
    operation = advance(saving(*FOUR), view_of(1, *FOUR, now_s=1060.0), PATIENCE)
    ends = {task.action.job_id: task.ending for task in operation.tasks if isinstance(task.action, Requeue)}
    assert ends == {"v1": Ending.OUTDATED, "v2": None, "v3": Ending.OUTDATED, "v4": Ending.OUTDATED}


def test_the_largest_loss_is_taken_if_no_other_makes_room() -> None:
    jobs = (on(1, setup_s=1.0), on(2, last=4, setup_s=500.0))
    assert planned(advance(saving(*jobs), view_of(3, *jobs), PATIENCE)) == ["v2"]


def test_a_kill_that_was_not_sent_is_called_off() -> None:
    """A job that is killed loses its run, one that saves its work only its setup."""
    jobs = (on(1, last=2), on(3, last=4, setup_s=40.0))
    operation = held_unsent(requeue("v1"), signal("v3"), requeue("v3", Method.SYSTEM), jobs=jobs)
    assert leave_after(operation, view_of(2, *jobs)) == ["v3"]


def test_a_signal_that_was_not_sent_is_called_off() -> None:
    jobs = (on(1, last=2), on(3, last=4, setup_s=9.0))
    actions = (signal("v1"), requeue("v1", Method.SYSTEM), signal("v3"), requeue("v3", Method.SYSTEM))
    operation = advance(held_unsent(*actions, jobs=jobs), view_of(2, *jobs), PATIENCE)
    assert [task.ending for task in operation.tasks[1:]] == [None, None, Ending.OUTDATED, Ending.OUTDATED]


def test_a_shrink_that_was_not_sent_is_called_off() -> None:
    jobs = (replace(on(1, last=3), node_count_min=1), on(4))
    operation = held_unsent(shrink("v1", ("n1",)), requeue("v4"), jobs=jobs)
    assert leave_after(operation, view_of(2, *jobs)) == ["v1"]
    assert leave_after(operation, view_of(1, *jobs)) == ["v1"]


def test_a_job_that_has_worked_on_since_its_checkpoint_loses_that() -> None:
    """One has saved 40 s ago; the other one, with a setup of 20 s, is saving still."""
    jobs = (on(1, last=2), on(3, last=4, setup_s=20.0))
    operation = saving(*jobs)
    view = view_of(4, replace(jobs[0], last_checkpoint_s=1020.0), jobs[1], now_s=1020.0)
    operation = advance(operation, view, PATIENCE)
    view = view_of(2, replace(jobs[0], last_checkpoint_s=1020.0), jobs[1], now_s=1060.0)
    assert planned(advance(operation, view, PATIENCE)) == ["v3"]


def test_nodes_that_are_free_or_come_free_are_counted() -> None:
    """One job has ended, and one is ending."""
    operation = saving(*FOUR)
    ending = replace(FOUR[2], state=JobState.COMPLETING)
    assert planned(advance(operation, view_of(2, FOUR[0], FOUR[1], ending), PATIENCE)) == ["v3"]
    assert planned(advance(operation, view_of(3, FOUR[0], FOUR[1], ending), PATIENCE)) == ["v2", "v3"]


def test_a_job_that_is_stuck_makes_no_room() -> None:
    """It is on one node, and another node is free."""
    ending = replace(FOUR[2], state=JobState.COMPLETING, completing_since_s=1000.0)
    for now_s, leave in ((1089.0, []), (1090.0, ["v2"])):
        seen = view_of(2, FOUR[0], FOUR[1], ending, now_s=now_s)
        assert planned(advance(saving(*FOUR[:2]), seen, PATIENCE)) == leave


def test_one_that_was_requeued_makes_room_however_long_its_epilog_takes() -> None:
    operation = saving(*FOUR[:3])
    gone = tuple(
        ended(task, Ending.SEEN, 1010.0) if task.action.job_id == "v3" else task for task in operation.tasks
    )
    epilog = replace(FOUR[2], state=JobState.COMPLETING, completing_since_s=1010.0, requeue_count=1)
    seen = view_of(2, FOUR[0], FOUR[1], epilog, now_s=1200.0)
    assert planned(advance(replace(operation, tasks=gone), seen, PATIENCE)) == []


def test_what_was_sent_is_counted_and_stays() -> None:
    jobs = (on(1, last=2), on(3, last=4))
    operation = held_for(requeue("v1"), signal("v3"), requeue("v3", Method.SYSTEM), jobs=jobs)
    operation = advance(operation, view_of(2, *jobs, now_s=1012.0), PATIENCE)
    assert planned(operation) == ["v1"]


def test_a_job_that_requeues_itself_after_its_checkpoint_makes_room() -> None:
    """It leaves anyway, and keeps its turn."""
    jobs = (on(1, checkpoint=REQUEUES, setup_s=500.0), on(2), on(3), on(4))
    operation = advance(saving(*jobs), view_of(1, *jobs, now_s=1060.0), PATIENCE)
    assert planned(operation) == ["v1"]


def test_a_job_that_does_not_requeue_itself_after_all_stays() -> None:
    """Its grace is over at 1310 s; by then the urgent job may not run on its node any more."""
    jobs = (on(1, last=4, checkpoint=REQUEUES),)
    operation = saving(*jobs)
    moved = view_of(4, *jobs, now_s=1060.0)
    elsewhere = replace(moved.jobs[0], eligible_nodes=frozenset({"n9"}))
    moved = replace(moved, jobs=(elsewhere, *jobs))
    operation = advance(operation, moved, PATIENCE)
    assert planned(operation) == ["v1"]
    assert planned(advance(operation, replace(moved, now_s=1311.0), PATIENCE)) == []


def test_a_job_that_requeues_itself_gets_its_turn() -> None:
    jobs = (on(1, last=4, checkpoint=REQUEUES),)
    view = view_of(4, *jobs, now_s=1060.0)
    elsewhere = replace(view.jobs[0], eligible_nodes=frozenset({"n9"}))
    operation = advance(saving(*jobs), replace(view, jobs=(elsewhere, *jobs)), PATIENCE)
    left = replace(view, now_s=1070.0, jobs=(elsewhere, pending("v1", 4, requeue_count=1)))
    operation = advance(operation, left, PATIENCE)
    done = next(task for task in operation.tasks if isinstance(task.action, Requeue))
    assert done.ending is Ending.SEEN


def test_as_long_as_a_held_node_is_silent_no_departure_is_called_off() -> None:
    view = view_of(1, *FOUR, now_s=1060.0)
    view = replace(view, nodes=(*view.nodes[:3], Node(name="n4", state=NodeState.SILENT)))
    assert len(planned(advance(saving(*FOUR), view, PATIENCE))) == 4


def test_a_departure_that_another_operation_needs_too_stays() -> None:
    jobs = (on(1, setup_s=500.0), *FOUR[1:])
    operation = saving(*jobs)
    other = begun(cluster(4, urgent("u", 1)), reserve(("n1",)))
    other = replace(other, operation_id="2", for_job_id="w", reservation="mw_w")
    view = replace(view_of(1, *jobs, now_s=1060.0), operations=(operation, other))
    assert planned(advance(operation, view, PATIENCE)) == ["v1"]
    over = replace(other, phase=Phase.RETURNING, ended_s=1020.0)
    view = replace(view, operations=(operation, over))
    assert planned(advance(operation, view, PATIENCE)) == ["v2"]


# Shared nodes

EIGHT = Resources.of({CPU: 8})


def shared_view(demand: int, size: int, *jobs: Job, now_s: float = 1010.0) -> Cluster:
    """Two nodes of 8 CPUs; the urgent job wants `demand` of them on `size` nodes."""
    waits = replace(urgent("u", size, reservation="mw_u"), demand=Resources.of({CPU: demand}))
    view = cluster(2, waits, *jobs, now_s=now_s, reservations=(held("u", ("n1", "n2")),))
    return replace(view, nodes=tuple(replace(node, capacity=EIGHT) for node in view.nodes))


def part(job_id: str, cpus: int, *nodes: str, setup_s: float = 0.0) -> Job:
    job = running(job_id, nodes, checkpoint=COMMENTS, setup_s=setup_s)
    return replace(job, allocation=(Resources.of({CPU: cpus}),) * len(nodes))


PARTS = (part("a", 4, "n1"), part("b", 4, "n1", setup_s=9.0), part("c", 6, "n2", setup_s=5.0))


def shared_saving() -> Operation:
    before = replace(shared_view(8, 2, *PARTS, now_s=1000.0), reservations=())
    actions: list[Action] = [replace(reserve(("n1", "n2")), kind=OperationKind.MAKE_WAY_SHARED)]
    for job in PARTS:
        actions += (signal(job.job_id), requeue(job.job_id, Method.SYSTEM))
    operation, _ = issue_all(begun(before, *actions), before)
    seen = shared_view(8, 2, *PARTS)
    operation, issued = issue_all(advance(operation, seen, PATIENCE), seen)
    assert len(issued) == 3
    return operation


@pytest.mark.parametrize(
    ("demand", "size", "leave"),
    [
        (8, 2, ["a", "b", "c"]),
        (8, 1, ["c"]),  # `a` and `b` leave one node only together
        (4, 2, ["a", "c"]),
        (4, 1, ["a"]),
        (2, 2, ["a"]),  # two CPUs of n2 are free
        (2, 1, []),
    ],
)
def test_what_a_smaller_demand_does_not_need_stays(demand: int, size: int, leave: list[str]) -> None:
    operation = advance(shared_saving(), shared_view(demand, size, *PARTS, now_s=1060.0), PATIENCE)
    validate(operation)
    assert planned(operation) == leave


def test_what_a_job_has_of_nodes_outside_the_hold_says_nothing() -> None:
    wide = part("a", 6, "n1", "n3")
    before = shared_view(8, 1, wide, now_s=1000.0)
    before = replace(before, nodes=(*before.nodes, Node(name="n3", capacity=EIGHT)), reservations=())
    hold = replace(reserve(("n1",)), kind=OperationKind.MAKE_WAY_SHARED)
    operation, _ = issue_all(begun(before, hold, signal("a"), requeue("a", Method.SYSTEM)), before)
    for demand, leave in ((8, ["a"]), (2, [])):
        view = replace(shared_view(demand, 1, wide), nodes=before.nodes)
        view = replace(view, reservations=(held("u", ("n1",)),))
        assert planned(advance(operation, view, PATIENCE)) == leave


def test_jobs_that_share_a_whole_node_leave_together_or_not_at_all() -> None:
    a, b, c = PARTS
    jobs = (a, b, replace(c, allocation=None))
    view = replace(shared_view(8, 2, *jobs), jobs=(urgent("u", 2), *jobs), reservations=())
    actions: list[Action] = [reserve(("n1", "n2"))]
    for job in jobs:
        actions += (signal(job.job_id), requeue(job.job_id, Method.SYSTEM))
    operation, _ = issue_all(begun(view, *actions), view)
    for size, leave in ((2, ["a", "b", "c"]), (1, ["c"])):
        held_by_it = replace(shared_view(8, 2, *jobs), jobs=(urgent("u", size, reservation="mw_u"), *jobs))
        operation, _ = issue_all(advance(operation, held_by_it, PATIENCE), held_by_it)
        assert planned(operation) == leave
