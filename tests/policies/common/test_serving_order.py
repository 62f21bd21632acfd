"""In which order the urgent jobs of one decision are served, and who gets which of the free nodes."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.common.urgent_jobs import UrgentJob, urgency
from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.hybrid.policy import N_PAA
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import Cluster, Decision, Job, NodeState, Progress, Reservation, Reserve, Task
from tests.builders import cluster, held, running, urgent
from tests.policies.arriving import victims
from tests.policies.common.operations import operation

NOW_S = 1000.0


def waiting(job_id: str, ago_s: float, *nodes: str, count: int = 1, **changes: Any) -> Job:
    """An urgent job that was submitted `ago_s` before now. `nodes`: those that may serve it; none: all."""
    job = urgent(job_id, count, submit_s=NOW_S - ago_s)
    return replace(job, eligible_nodes=frozenset(nodes) or None, **changes)


def batch(*names: str, start_s: float = 0.0) -> tuple[Job, ...]:
    """A job on each of these nodes."""
    return tuple(running(f"b{name}", (name,), start_s=start_s) for name in names)


def by_eviction(view: Cluster) -> Decision:
    return EVICTION.decision(view, EvictionConfig())


def by_price(view: Cluster, **changes: Any) -> Decision:
    return LEAST_PRICE.decision(view, LeastPriceConfig(**changes))


def by_overhead(view: Cluster) -> Decision:
    return N_PAA.decision(view, HybridConfig())


def holds(decision: Decision) -> dict[str, tuple[str, ...]]:
    return {one.job_id: one.nodes for one in decision.actions if isinstance(one, Reserve)}


def test_jobs_under_way_come_first_then_vital_ones_then_the_earliest_deadline() -> None:
    leaving = operation("o", "n1", "b")
    (hold,) = by_eviction(cluster(1, waiting("h", 90.0))).actions
    only_held = replace(operation("h", "n1"), tasks=(Task(action=hold),))
    first = UrgentJob(job=waiting("o", 1.0), operation=replace(leaving, deadline_s=9000.0))
    held = UrgentJob(job=waiting("h", 90.0), operation=replace(only_held, deadline_s=8000.0))
    vital = UrgentJob(job=waiting("v", 1.0, start_within_s=7200.0))
    soon, alike = UrgentJob(job=waiting("b", 2.0)), UrgentJob(job=waiting("a", 2.0))
    long_ago = UrgentJob(job=waiting("l", 99.0, start_within_s=699.0))
    urgents = [long_ago, held, soon, alike, vital, first]
    found = sorted(urgents, key=lambda one: urgency(one, 600.0, vital=one is vital))
    assert [one.job.job_id for one in found] == ["o", "v", "a", "b", "l", "h"]


@pytest.mark.parametrize("decided", [by_eviction, by_price])
def test_the_free_node_goes_to_the_job_with_the_earliest_deadline(decided: Any) -> None:
    view = cluster(
        2, *batch("n2"), waiting("u1", 2.0, start_within_s=7200.0), waiting("u2", 1.0), now_s=NOW_S
    )
    assert holds(decided(view))["u2"] == ("n1",)


def test_the_mechanisms_of_the_papers_serve_in_the_order_of_submission() -> None:
    view = cluster(
        2, *batch("n2"), waiting("u1", 2.0, start_within_s=7200.0), waiting("u2", 1.0), now_s=NOW_S
    )
    assert holds(by_overhead(view))["u1"] == ("n1",)


def test_the_free_node_goes_to_a_vital_job() -> None:
    vital = waiting("u2", 1.0, start_within_s=7200.0, user="doctor")
    view = cluster(2, *batch("n2"), waiting("u1", 2.0), vital, now_s=NOW_S)
    assert holds(by_price(view))["u1"] == ("n1",)
    assert holds(by_price(view, vital_users=frozenset({"doctor"})))["u2"] == ("n1",)


@pytest.mark.parametrize("decided", [by_eviction, by_price, by_overhead])
def test_a_job_takes_free_nodes_first_that_few_others_may_have(decided: Any) -> None:
    others = (waiting("u2", 1.0, "n1", "n2"), waiting("u3", 0.0, "n2", "n1", "n3"))
    view = cluster(4, waiting("u1", 2.0), *others, now_s=NOW_S)
    assert holds(decided(view)) == {"u1": ("n4",), "u2": ("n1",), "u3": ("n3",)}
    alike = tuple(replace(job, eligible_nodes=None) for job in view.jobs)
    assert holds(decided(replace(view, jobs=alike))) == {"u1": ("n1",), "u2": ("n2",), "u3": ("n3",)}


def test_a_job_that_needs_all_free_nodes_has_them_in_the_order_of_the_cluster() -> None:
    view = cluster(2, waiting("u1", 2.0, count=2), waiting("u2", 1.0, "n1"), now_s=NOW_S)
    assert holds(by_eviction(view))["u1"] == ("n1", "n2")


@pytest.mark.parametrize("decided", [by_eviction, by_price, by_overhead])
def test_a_job_without_room_comes_first_in_a_second_try(decided: Any) -> None:
    """The only free node would go to `u1`, for which a job could leave; no other node may serve `u2`."""
    view = cluster(2, *batch("n2"), waiting("u1", 2.0), waiting("u2", 1.0, "n1"), now_s=NOW_S)
    decision = decided(view)
    assert holds(decision) == {"u2": ("n1",), "u1": ("n2",)}
    assert [job_id for job_id, _ in victims(decision)] == ["bn2"]


@pytest.mark.parametrize(
    "last",
    [
        waiting("u2", 1.0, "n1", start_within_s=0.5),  # it is late in any case
        waiting("u2", 1.0, "n3"),  # there is no such node
        waiting("u2", 1.0, "n1", "n2", count=3),  # there would not be room without the first either
    ],
)
def test_the_first_try_stays_if_the_second_one_makes_no_more_room(last: Job) -> None:
    view = cluster(2, *batch("n2"), waiting("u1", 2.0), last, now_s=NOW_S)
    assert holds(by_overhead(view)) == {"u1": ("n1",)}


def test_no_job_loses_its_room_in_the_second_try() -> None:
    protected = tuple(replace(job, preemptible=False) for job in batch("n2"))
    view = cluster(2, *protected, waiting("u1", 2.0), waiting("u2", 1.0, "n1"), now_s=NOW_S)
    assert holds(by_eviction(view)) == {"u1": ("n1",)}


def with_a_lost_node(*, protected: bool = False) -> Cluster:
    """A job has left for `u1`, whose node is down since. `u2` has an earlier deadline, and runs too long to
    have `n2`, which the site needs later. `n3` is free.
    """
    under_way = replace(
        operation("u1", "n1", "b", progress=Progress.ACCEPTED), deadline_s=NOW_S + 900.0, give_up_s=1e5
    )
    stays = tuple(replace(job, preemptible=not protected) for job in batch("n2"))
    site = Reservation(name="site", nodes=("n2",), start_s=NOW_S + 9000.0, end_s=1e6)
    view = cluster(
        3,
        *stays,
        waiting("u1", 2.0, reservation="mw_u1", start_within_s=902.0),
        waiting("u2", 1.0, walltime_s=36_000.0),
        now_s=NOW_S,
        operations=(under_way,),
        reservations=(held("u1", ("n1",)), site),
    )
    return replace(view, nodes=(replace(view.nodes[0], state=NodeState.DOWN), *view.nodes[1:]))


@pytest.mark.parametrize("decided", [by_eviction, by_price])
def test_a_job_under_way_leaves_the_free_node_to_an_earlier_deadline_if_it_has_room_elsewhere(
    decided: Any,
) -> None:
    decision = decided(with_a_lost_node())
    assert holds(decision) == {"u2": ("n3",), "u1": ("n2",)}
    assert [job_id for job_id, _ in victims(decision)] == ["bn2"]


@pytest.mark.parametrize("decided", [by_eviction, by_price])
def test_a_job_under_way_keeps_its_room_if_there_is_none_elsewhere(decided: Any) -> None:
    """What has left for it would have left in vain."""
    assert holds(decided(with_a_lost_node(protected=True))) == {"u1": ("n3",)}
