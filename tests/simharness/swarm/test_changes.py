"""A waiting urgent job is changed on the simulated cluster, and the laws count by what it is then."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.transitions import advance
from makeway.policies.model import (
    CPU,
    Action,
    Cluster,
    JobKind,
    Node,
    Operation,
    OperationKind,
    Progress,
    Resources,
)
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.swarm.drawing import POLICIES, draw
from makeway.simharness.swarm.happenings import change
from makeway.simharness.swarm.law import Law
from makeway.simharness.swarm.story import CHANGES, Trouble, TroubleKind
from makeway.simharness.swarm.watching.taking import Taking
from tests.acts import reserve as held_for
from tests.builders import cluster, held, running, urgent
from tests.daemon.acting import NODES, PATIENCE, begun, issue_all, requeue, reserve, shrink
from tests.simharness.engine.commanded import job, seen, starts, world

FEWER, MORE = TroubleKind.FEWER_NODES, TroubleKind.MORE_NODES
SHORTER, LONGER = TroubleKind.SHORTER_LIMIT, TroubleKind.LONGER_LIMIT


def changed(kind: TroubleKind, amount: float = 0.0, subject: str = "u") -> Trouble:
    return Trouble(kind=kind, at_s=10.0, amount=amount, subject=subject)


def waiting() -> tuple[SimCluster, SimAdapter]:
    """An urgent job of 4 nodes waits for `b`, which has 6 of 8 nodes until 100 s."""
    wants = replace(job("u", 1.0, 50.0, 4, 60.0), kind=JobKind.ON_DEMAND, start_within_s=30.0)
    world_, adapter = world(8, job("b", 0.0, 100.0, 6), wants)
    world_.advance(10.0)
    return world_, adapter


def test_a_job_that_wants_fewer_nodes_starts_on_the_free_ones() -> None:
    world_, adapter = waiting()
    assert change(world_.machine, changed(FEWER, 2.0)) is not None
    assert seen(adapter, "u").node_count == 2
    assert starts(world_)["u"] == 10.0


def test_a_job_that_wants_more_nodes_waits_for_them() -> None:
    world_, adapter = waiting()
    assert change(world_.machine, changed(MORE, 8.0)) is not None
    world_.submit(replace(job("later", 20.0, 50.0, 2)))
    assert seen(adapter, "u").node_count == 8
    assert starts(world_) == {"b": 0.0, "u": 100.0, "later": 20.0}


def test_a_job_in_a_hold_starts_there_once_it_is_small_enough() -> None:
    world_, adapter = waiting()
    adapter.apply(held_for("mw_u", nodes=("n1", "n7", "n8"), duration_s=900.0, job_id="u"))
    assert change(world_.machine, changed(FEWER, 2.0)) is not None
    assert starts(world_)["u"] == 10.0
    assert world_.record(policy="none").segments[0].nodes == 0b11000000


def test_a_run_ends_by_the_limit_that_the_job_has_when_it_starts() -> None:
    world_, _ = waiting()
    assert change(world_.machine, changed(SHORTER, 20.0)) is not None
    world_.run()
    assert world_.now_s == 120.0
    world_, adapter = waiting()
    assert change(world_.machine, changed(LONGER, 900.0)) is not None
    assert seen(adapter, "u").walltime_s == 900.0


def test_a_job_that_is_not_urgent_any_more_is_an_ordinary_one() -> None:
    world_, adapter = waiting()
    assert change(world_.machine, changed(TroubleKind.URGENT_NO_MORE)) is not None
    view = seen(adapter, "u")
    assert (view.kind, view.start_within_s, view.preemptible) == (JobKind.RIGID, None, True)
    assert change(world_.machine, changed(TroubleKind.URGENT_NO_MORE)) is None


@pytest.mark.parametrize(
    "trouble",
    [
        changed(FEWER, 4.0),
        changed(MORE, 4.0),
        changed(SHORTER, 60.0),
        changed(LONGER, 60.0),
        changed(FEWER, 1.0, "b"),
        changed(FEWER, 1.0, "x"),
    ],
)
def test_what_is_no_change_has_no_effect(trouble: Trouble) -> None:
    world_, _ = waiting()
    assert change(world_.machine, trouble) is None


def test_a_job_that_runs_is_not_changed() -> None:
    world_, _ = waiting()
    world_.advance(100.0)
    assert change(world_.machine, changed(FEWER, 2.0)) is None


@pytest.mark.parametrize("seed", range(20))
def test_changes_are_drawn_apart_from_everything_else(seed: int) -> None:
    """So that the seeds of older stories still draw them."""
    without = draw(seed, kinds=tuple(kind for kind in TroubleKind if kind not in CHANGES))
    story = draw(seed)
    others = tuple(trouble for trouble in story.troubles if trouble.kind not in CHANGES)
    assert replace(story, troubles=others) == without


def test_a_heterogeneous_job_still_fits_after_its_changes() -> None:
    stories = [draw(seed, policies=POLICIES, kinds=CHANGES) for seed in range(200)]
    most = [
        trouble.amount / story.node_count
        for story in stories
        for trouble in story.troubles
        if trouble.kind is MORE and "+" in trouble.subject
    ]
    assert most
    assert max(most) <= 0.5


# What the laws say of what is sent

ONE, THREE = running("v1", ("n1",)), running("v3", ("n2", "n3", "n4"), node_count_min=1)


def sending(*actions: Action, size: int = 4) -> tuple[Operation, list[Action]]:
    """The operation of an urgent job whose hold was seen, and what it sends then."""
    before = cluster(4, urgent("u", size), ONE, THREE)
    operation, _ = issue_all(begun(before, reserve(), *actions), before)
    view = wanting(size)
    return issue_all(advance(operation, view, PATIENCE), view)


def wanting(size: int, *, end_s: float = 1e6) -> Cluster:
    waits = urgent("u", size, reservation="mw_u")
    return cluster(4, waits, ONE, THREE, now_s=1010.0, reservations=(held("u", NODES, end_s=end_s),))


def broken(
    action: Action, operation: Operation, view: Cluster, operations: tuple[Operation, ...] = ()
) -> list[Law]:
    """The laws that are broken if the action is sent on that view."""
    checks = Taking(action, operation, view, (operation, *operations)).checks()
    return [law for law, holds, _ in checks if not holds]


def test_a_job_without_which_the_nodes_suffice_need_not_leave() -> None:
    operation, (first, second) = sending(requeue("v1"), requeue("v3"))
    assert broken(first, operation, wanting(4)) == broken(second, operation, wanting(4)) == []
    assert broken(first, operation, wanting(3)) == [Law.NEEDLESS]
    assert broken(second, operation, wanting(3)) == []
    assert broken(second, operation, wanting(1)) == [Law.NEEDLESS]


def test_a_job_that_stays_after_all_makes_no_room() -> None:
    operation, (first, _) = sending(requeue("v1"), requeue("v3"))
    hold, one, three = operation.tasks
    operation = replace(operation, tasks=(hold, one, replace(three, progress=Progress.REFUSED)))
    assert broken(first, operation, wanting(1)) == []


def test_a_shrunk_job_leaves_what_it_does_not_keep() -> None:
    operation, (first, _) = sending(requeue("v1"), shrink("v3", ("n2",)), size=3)
    assert broken(first, operation, wanting(3)) == []
    assert broken(first, operation, wanting(2)) == [Law.NEEDLESS]


def test_nodes_that_another_operation_holds_are_not_counted() -> None:
    operation, (first, _) = sending(requeue("v1"), requeue("v3"))
    for nodes in (("n1",), ("n2",)):
        other = replace(operation, operation_id="other", nodes=nodes)
        assert broken(first, operation, wanting(3), (other,)) == []


def test_the_room_of_a_shared_node_is_what_the_others_leave() -> None:
    """A node of 8 CPUs has jobs of 4 and 3."""
    cpus = {count: Resources.of({CPU: count}) for count in (1, 3, 4, 5, 6, 8)}
    jobs = [replace(running(f"v{count}", ("n1",)), allocation=(cpus[count],)) for count in (4, 3)]
    before = cluster(1, urgent("u", 1), *jobs)
    operation, _ = issue_all(begun(before, reserve(("n1",)), requeue("v4"), requeue("v3")), before)
    operation = replace(operation, kind=OperationKind.MAKE_WAY_SHARED)
    for cpu, needless in ((1, True), (5, True), (6, False)):
        waits = replace(urgent("u", 1, reservation="mw_u"), demand=cpus[cpu])
        view = replace(
            cluster(1, waits, *jobs, now_s=1010.0, reservations=(held("u", ("n1",)),)),
            nodes=(Node(name="n1", capacity=cpus[8]),),
        )
        assert broken(requeue("v3"), operation, view) == [Law.NEEDLESS] * needless


def test_nothing_is_taken_for_a_job_that_outlasts_its_hold() -> None:
    operation, (first, _) = sending(requeue("v1"), requeue("v3"))
    assert broken(first, operation, wanting(4, end_s=1010.0 + 3600.0)) == []
    assert broken(first, operation, wanting(4, end_s=1010.0 + 3599.0)) == [Law.IN_VAIN]


def test_nothing_is_taken_for_a_job_that_is_not_urgent() -> None:
    operation, (first, _) = sending(requeue("v1"), requeue("v3"))
    view = wanting(4)
    ordinary = replace(view, jobs=(replace(view.jobs[0], kind=JobKind.RIGID), *view.jobs[1:]))
    assert broken(first, operation, ordinary) == [Law.NOT_URGENT]


def test_no_job_is_made_to_leave_that_was_seen_to_be_protected() -> None:
    operation, (first, _) = sending(requeue("v1"), requeue("v3"))
    view = wanting(4)
    protected = replace(view, jobs=(view.jobs[0], replace(ONE, preemptible=False), THREE))
    assert broken(first, operation, protected) == [Law.UNTOUCHABLE]


def test_no_job_leaves_for_nodes_that_do_not_suffice_then() -> None:
    """But those that leave for another urgent job count."""
    operation, (first, second) = sending(requeue("v1"), requeue("v3"))
    hold, one, three = operation.tasks
    stays = replace(operation, tasks=(hold, one, replace(three, progress=Progress.REFUSED)))
    assert broken(first, stays, wanting(2)) == [Law.IN_VAIN]
    for_another = replace(operation, operation_id="other", nodes=(), tasks=(three,))
    assert broken(first, stays, wanting(2), (for_another,)) == []
    assert broken(second, operation, wanting(4)) == []
