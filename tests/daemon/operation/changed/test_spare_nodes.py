"""Nodes come free outside a hold while jobs save their work for it: a job stays for each node that serves."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from makeway.adapters.protocol import Rejected
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.operation.changed.hold_end import SPARE_S
from makeway.policies.model import (
    CPU,
    Action,
    CheckpointSpec,
    Cluster,
    Job,
    Limits,
    Node,
    NodeState,
    Placement,
    Reason,
    Release,
    Reservation,
    Reserve,
    Resources,
)
from tests.builders import cluster, running, urgent
from tests.daemon.control.loops import daemon
from tests.fakes import FakeAdapter

SAVES = CheckpointSpec(system_s=100.0)
SAVING = [running(f"v{number}", (f"n{number}",), checkpoint=SAVES) for number in range(1, 7)]
POLICIES = pytest.mark.parametrize("policy", ["eviction", "least-price"])


def saving(
    policy: str = "eviction", limits: Limits | None = None, **changes: Any
) -> tuple[FakeAdapter, Reconciler, list[str]]:
    """Two of six jobs save their work for an urgent job of two nodes. Returns their ids, too."""
    adapter = FakeAdapter(replace(cluster(6, urgent("u", 2, submit_s=990.0), *SAVING), **changes))
    loop = daemon(adapter, policy=policy, limits=limits)
    for _ in range(2):
        loop.reconcile()
    asked = [job_id for verb, job_id in adapter.calls if verb == "checkpoint"]
    assert len(asked) == 2
    adapter.calls.clear()
    adapter.actions.clear()
    return adapter, loop, asked


def some_end(adapter: FakeAdapter, asked: list[str], count: int) -> tuple[str, ...]:
    """So many jobs that were not asked end. Returns their nodes."""
    others = [job for job in adapter.view.jobs if job.nodes and job.job_id not in asked]
    for job in others[:count]:
        end(adapter, job)
    return tuple(name for job in others[:count] for name in job.nodes)


def end(adapter: FakeAdapter, ended: Job) -> None:
    jobs = tuple(job for job in adapter.view.jobs if job.job_id != ended.job_id)
    adapter.view = replace(adapter.view, jobs=jobs, now_s=adapter.view.now_s + 10.0)


def save(adapter: FakeAdapter, asked: list[str]) -> None:
    """Those who were asked have saved their work."""
    view = replace(adapter.view, now_s=adapter.view.now_s + 80.0)
    jobs = (replace(job, last_checkpoint_s=view.now_s) if job.job_id in asked else job for job in view.jobs)
    adapter.view = replace(view, jobs=tuple(jobs))


def requeued(adapter: FakeAdapter, loop: Reconciler, asked: list[str]) -> list[str]:
    """Who leaves once their work is saved."""
    for _ in range(2):
        loop.reconcile()
    save(adapter, asked)
    for _ in range(3):
        loop.reconcile()
    return [job_id for verb, job_id in adapter.calls if verb == "requeue"]


def hold_of(adapter: FakeAdapter) -> set[str]:
    (hold,) = adapter.view.reservations
    return set(hold.nodes)


@POLICIES
def test_one_job_stays_for_one_node(policy: str) -> None:
    adapter, loop, asked = saving(policy)
    free = some_end(adapter, asked, 1)
    loop.reconcile()
    (hold,) = adapter.actions
    assert isinstance(hold, Reserve)
    assert hold.reason is Reason.CAME_FREE
    assert set(free) < set(hold.nodes)
    given_up_s = 990.0 + 600.0 + 600.0
    assert hold.duration_s == given_up_s - adapter.view.now_s + 3600.0 + SPARE_S
    (left,) = requeued(adapter, loop, asked)
    assert left in asked
    assert hold_of(adapter) == {*free, *adapter.view.jobs_by_id()[left].nodes}


@POLICIES
def test_nobody_leaves_if_enough_nodes_come_free(policy: str) -> None:
    adapter, loop, asked = saving(policy)
    free = some_end(adapter, asked, 3)
    assert requeued(adapter, loop, asked) == []
    assert len(hold_of(adapter) & set(free)) == 2


def test_no_more_nodes_are_added_than_spare_jobs() -> None:
    adapter, loop, asked = saving()
    some_end(adapter, asked, 3)
    for _ in range(4):
        loop.reconcile()
    (hold,) = [action for action in adapter.actions if action.reason is Reason.CAME_FREE]
    assert isinstance(hold, Reserve)
    assert len(hold.nodes) == 4


def test_a_free_node_of_the_hold_is_not_added_once_more() -> None:
    adapter = FakeAdapter(cluster(4, urgent("u", 2, submit_s=990.0), *SAVING[1:4]))
    loop = daemon(adapter)
    for _ in range(2):
        loop.reconcile()
    (asked,) = [job_id for verb, job_id in adapter.calls if verb == "checkpoint"]
    (free,) = some_end(adapter, [asked], 1)
    loop.reconcile()
    hold = adapter.actions[-1]
    assert isinstance(hold, Reserve)
    assert sorted(hold.nodes) == sorted({"n1", free, *adapter.view.jobs_by_id()[asked].nodes})


def not_eligible(view: Cluster, name: str) -> Cluster:
    others = frozenset(node.name for node in view.nodes) - {name}
    jobs = (replace(job, eligible_nodes=others) if job.job_id == "u" else job for job in view.jobs)
    return replace(view, jobs=tuple(jobs))


def asleep(view: Cluster, name: str) -> Cluster:
    nodes = (replace(node, wake_s=60.0) if node.name == name else node for node in view.nodes)
    return replace(view, nodes=tuple(nodes))


def reserved(view: Cluster, name: str, after_s: float) -> Cluster:
    start_s = view.now_s + after_s
    site = Reservation(name="maintenance", nodes=(name,), start_s=start_s, end_s=start_s + 7200.0)
    return replace(view, reservations=(*view.reservations, site))


@pytest.mark.parametrize(
    "barred",
    [
        not_eligible,
        asleep,
        partial(reserved, after_s=-1.0),
        # It starts at 1590 s at the latest, has a limit of an hour, and may leave slowly.
        partial(reserved, after_s=4200.0),
    ],
)
def test_a_node_that_the_job_may_not_have_spares_nobody(barred: Callable[[Cluster, str], Cluster]) -> None:
    adapter, loop, asked = saving()
    first, second = some_end(adapter, asked, 2)
    adapter.view = barred(adapter.view, first)
    loop.reconcile()
    (hold,) = adapter.actions
    assert isinstance(hold, Reserve)
    assert second in hold.nodes
    assert first not in hold.nodes
    assert len(requeued(adapter, loop, asked)) == 1


def test_another_urgent_job_comes_first() -> None:
    adapter, loop, asked = saving()
    (name,) = some_end(adapter, asked, 1)
    adapter.view = replace(adapter.view, jobs=(*adapter.view.jobs, urgent("w", 1, submit_s=999.0)))
    loop.reconcile()
    holds = {hold.name: set(hold.nodes) for hold in adapter.view.reservations}
    assert holds["mw_w"] == {name}
    assert sorted(requeued(adapter, loop, asked)) == sorted(asked)


def test_an_urgent_job_that_finds_no_room_yet_comes_first() -> None:
    adapter, loop, asked = saving()
    (name,) = some_end(adapter, asked, 1)
    stays = next(job for job in adapter.view.jobs if job.nodes and job.job_id not in asked)
    waits = replace(urgent("w", 2, submit_s=999.0), eligible_nodes=frozenset({name, *stays.nodes}))
    jobs = (replace(job, preemptible=False) if job == stays else job for job in adapter.view.jobs)
    adapter.view = replace(adapter.view, jobs=(*jobs, waits))
    assert sorted(requeued(adapter, loop, asked)) == sorted(asked)
    assert not any(action.reason is Reason.CAME_FREE for action in adapter.actions)


def test_an_urgent_job_that_has_lost_its_nodes_comes_first() -> None:
    stays = [replace(job, preemptible=False) for job in SAVING[4:]]
    first = replace(urgent("w", 2, submit_s=991.0), prioritised=True)
    urgents = [urgent("u", 2, submit_s=990.0), first]
    adapter = FakeAdapter(cluster(6, *urgents, *SAVING[:4], *stays))
    loop = daemon(adapter)
    for _ in range(2):
        loop.reconcile()
    lost = next(set(hold.nodes) for hold in adapter.view.reservations if hold.name == "mw_w")
    nodes = (
        replace(node, state=NodeState.DOWN) if node.name in lost else node for node in adapter.view.nodes
    )
    jobs = tuple(job for job in adapter.view.jobs if not lost.intersection(job.nodes))
    adapter.view = replace(adapter.view, nodes=tuple(nodes), jobs=jobs)
    end(adapter, stays[0])
    for _ in range(3):
        loop.reconcile()
    assert not any(action.reason is Reason.CAME_FREE for action in adapter.actions)


def test_an_urgent_job_that_waits_for_something_else_does_not_come_first() -> None:
    adapter, loop, asked = saving()
    some_end(adapter, asked, 1)
    waits = replace(urgent("w", 1, submit_s=999.0), blocked_by="a licence")
    adapter.view = replace(adapter.view, jobs=(*adapter.view.jobs, waits))
    assert len(requeued(adapter, loop, asked)) == 1


@pytest.mark.parametrize(
    "waits",
    [
        replace(urgent("w", 1, submit_s=999.0), eligible_s=5000.0),
        replace(urgent("w", 1, submit_s=999.0), eligible_s=math.inf),
        urgent("w", 7, submit_s=999.0),
    ],
    ids=["it begins later", "it waits for another job", "it is larger than the cluster"],
)
def test_an_urgent_job_that_cannot_start_now_does_not_come_first(waits: Job) -> None:
    adapter, loop, asked = saving()
    some_end(adapter, asked, 1)
    adapter.view = replace(adapter.view, jobs=(*adapter.view.jobs, waits))
    assert len(requeued(adapter, loop, asked)) == 1


def test_a_hold_that_was_refused_gets_no_spare_nodes() -> None:
    adapter = FakeAdapter(cluster(6, urgent("u", 2, submit_s=990.0), *SAVING))
    adapter.errors["reserve"] = Rejected("a node is reserved")
    loop = daemon(adapter)
    loop.reconcile()
    end(adapter, SAVING[5])
    loop.reconcile()
    first, again = adapter.actions
    assert first == again


def test_after_a_refusal_the_policy_decides_again() -> None:
    adapter, loop, asked = saving()
    (free,) = some_end(adapter, asked, 1)
    adapter.errors["reserve"] = Rejected("a node is reserved")
    loop.reconcile()
    assert adapter.calls == [("reserve", "mw_u")]
    adapter.errors.clear()
    (left,) = requeued(adapter, loop, asked)
    assert hold_of(adapter) == {free, *adapter.view.jobs_by_id()[left].nodes}


class KeepsNodes(FakeAdapter):
    """Refuses each hold with one of the nodes `kept`."""

    kept: frozenset[str] = frozenset()

    def apply(self, action: Action) -> None:
        if isinstance(action, Reserve) and self.kept.intersection(action.nodes):
            self.actions.append(action)
            raise Rejected("a node is reserved")
        super().apply(action)


@POLICIES
@pytest.mark.parametrize("count", [1, 3, 4])
def test_idle_nodes_that_the_cluster_keeps_for_something_else_cost_no_hold(policy: str, count: int) -> None:
    """The site has reserved them, and makeway is not shown that."""
    many = [running(f"v{number}", (f"n{number}",), checkpoint=SAVES) for number in range(1, 9)]
    adapter = KeepsNodes(cluster(8, urgent("u", 2, submit_s=990.0), *many))
    loop = daemon(adapter, policy=policy)
    for _ in range(2):
        loop.reconcile()
    asked = [job_id for verb, job_id in adapter.calls if verb == "checkpoint"]
    held = hold_of(adapter)
    adapter.actions.clear()
    adapter.kept = frozenset(some_end(adapter, asked, count))
    while loop.reconcile().again:
        assert len(adapter.actions) < 6
    assert sorted(requeued(adapter, loop, asked)) == sorted(asked)
    assert hold_of(adapter) == held
    assert not any(isinstance(action, Release) for action in adapter.actions)


def test_a_hold_that_was_refused_to_another_job_keeps_no_nodes_from_this_one() -> None:
    adapter = KeepsNodes(cluster(6, urgent("u", 2, submit_s=990.0), *SAVING))
    adapter.kept = frozenset({"n6"})
    other = replace(urgent("w", 1, submit_s=995.0), eligible_nodes=adapter.kept)
    adapter.view = replace(adapter.view, jobs=(*adapter.view.jobs, other))
    loop = daemon(adapter)
    while loop.reconcile().again:
        pass
    asked = [job_id for verb, job_id in adapter.calls if verb == "checkpoint"]
    assert any(action.job_id == "w" for action in adapter.actions)
    end(adapter, other)
    some_end(adapter, asked, 1)
    loop.reconcile()
    assert adapter.actions[-1].reason is Reason.CAME_FREE


def test_the_reservation_that_the_job_was_submitted_with_stays_its_own() -> None:
    adapter = FakeAdapter(cluster(3, urgent("u", 2, submit_s=990.0, reservation="course"), *SAVING[:3]))
    course = Reservation(name="course", nodes=(), start_s=0.0, end_s=1e6)
    adapter.view = replace(adapter.view, reservations=(course,))
    loop = daemon(adapter)
    for _ in range(2):
        loop.reconcile()
    asked = [job_id for verb, job_id in adapter.calls if verb == "checkpoint"]
    some_end(adapter, asked, 1)
    loop.reconcile()
    hold = adapter.actions[-1]
    assert isinstance(hold, Reserve)
    assert hold.own_reservation == "course"


def test_within_placements_the_nodes_stay_the_same() -> None:
    places = (Placement(name="a", nodes=("n1", "n2")), Placement(name="b", nodes=("n3", "n4")))
    adapter, loop, asked = saving(placements=places)
    some_end(adapter, asked, 1)
    assert sorted(requeued(adapter, loop, asked)) == sorted(asked)


def test_the_most_nodes_that_makeway_may_hold_are_not_exceeded() -> None:
    adapter, loop, asked = saving(limits=Limits(max_nodes=2))
    some_end(adapter, asked, 1)
    assert sorted(requeued(adapter, loop, asked)) == sorted(asked)


def test_in_observe_mode_no_hold_is_widened() -> None:
    adapter = FakeAdapter(cluster(3, urgent("u", 2, submit_s=990.0), *SAVING[:3]))
    loop = daemon(adapter, mode=Mode.OBSERVE)
    loop.reconcile()
    some_end(adapter, ["v2", "v3"], 1)
    loop.reconcile()
    assert adapter.actions == []


@pytest.mark.parametrize("places", [(), (Placement(name="a", nodes=("n1", "n2")),)])
def test_room_on_a_shared_node_spares_a_job(places: tuple[Placement, ...]) -> None:
    eight, four = Resources.of({CPU: 8}), Resources.of({CPU: 4})
    jobs = [
        replace(running(f"v{number}", (name,), checkpoint=SAVES), allocation=(four,), node_equivalents=0.5)
        for number, name in enumerate(("n1", "n1", "n2", "n2"), 1)
    ]
    nodes = tuple(Node(name=name, capacity=eight) for name in ("n1", "n2"))
    wanted = replace(urgent("u", 1, submit_s=990.0), demand=four)
    adapter = FakeAdapter(replace(cluster(2, wanted, *jobs), nodes=nodes, placements=places))
    loop = daemon(adapter)
    for _ in range(2):
        loop.reconcile()
    (asked,) = [job_id for verb, job_id in adapter.calls if verb == "checkpoint"]
    held = hold_of(adapter)
    ended = next(job for job in adapter.view.jobs if job.nodes and not held.issuperset(job.nodes))
    end(adapter, ended)
    assert requeued(adapter, loop, [asked]) == []
    assert hold_of(adapter) >= set(ended.nodes)
