"""Policy "least-price": urgent jobs that the ceiling refuses one by one, and not together."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    Limits,
    Method,
    Placement,
    Reserve,
    Resources,
)
from tests.builders import cluster, node_names, running, urgent
from tests.policies.arriving import carried_out, victims

NOW_S = 36_000.0
UNLIMITED = Limits(max_loss_node_hours=None, max_loss_node_hours_per_day=None)


def decide(view: Cluster, ceiling_node_hours: float | None, **changes: Any) -> Decision:
    """`ceiling_node_hours`: of one urgent job."""
    ceiling = None if ceiling_node_hours is None else ceiling_node_hours / len(view.nodes)
    settings: dict[str, Any] = {"ceiling_machine_hours": ceiling, "waits_for_ends": False, **changes}
    config = LeastPriceConfig(**settings)
    return LEAST_PRICE.decision(view, config)


def full(*jobs: tuple[str, int, float], waiting: tuple[Job, ...]) -> Cluster:
    """A cluster without a free node. `jobs`: of each its id, its number of nodes, and the hours since its
    start, which a kill loses.
    """
    held, first = list[Job](), 1
    for job_id, node_count, age_h in jobs:
        nodes = node_names(node_count, first)
        held.append(running(job_id, nodes, start_s=NOW_S - 3600.0 * age_h, walltime_s=1e6))
        first += node_count
    return replace(cluster(first - 1, *held, *waiting, now_s=NOW_S), limits=UNLIMITED)


def wanting(*node_counts: int, **changes: Any) -> tuple[Job, ...]:
    """u1, u2, ..., one second apart."""
    return tuple(
        replace(urgent(f"u{index}", count, submit_s=NOW_S - 10.0 + index), walltime_s=600.0, **changes)
        for index, count in enumerate(node_counts, start=1)
    )


def holds(decision: Decision) -> dict[str, tuple[str, ...]]:
    return {one.job_id: one.nodes for one in decision.actions if isinstance(one, Reserve)}


def whys(decision: Decision) -> dict[str, str]:
    return {why.for_job_id: why.summary for why in decision.rationale}


LARGE = ("large", 8, 2.0)
"""Its eviction loses 16 node-hours."""


def test_one_eviction_that_serves_a_burst_may_cost_as_much_as_all_ceilings() -> None:
    view = full(LARGE, waiting=wanting(1, 1, 1, 1, 1, 1))
    decision = decide(view, 3.0)
    assert victims(decision) == [("large", Method.KILL)]
    assert holds(decision) == {f"u{index}": (f"n{index}",) for index in range(1, 7)}
    assert decision.again_s is None
    shared = "Urgent jobs u1, u2, u3, u4, u5, u6 share their ceilings: all of them get room for 16 of 18"
    assert all(summary.startswith(shared) for summary in whys(decision).values())


@pytest.mark.parametrize(("count", "ceiling", "leaves"), [(6, 2.66, False), (6, 2.67, True), (2, 7.9, False)])
def test_it_may_not_cost_more_than_all_ceilings(count: int, ceiling: float, leaves: bool) -> None:
    decision = decide(full(LARGE, waiting=wanting(*[1] * count)), ceiling)
    assert bool(victims(decision)) == leaves
    assert len(holds(decision)) == (count if leaves else 0)


def test_jobs_that_the_freed_nodes_do_not_serve_have_no_part_in_it() -> None:
    """The ceilings of three jobs are enough for `large`, but only two of them fit on its nodes."""
    assert not victims(decide(full(LARGE, waiting=wanting(4, 4, 1)), 6.0))
    assert not victims(decide(full(LARGE, waiting=wanting(1, 1, 8)), 6.0))
    decision = decide(full(LARGE, waiting=wanting(8, 3, 2, 3)), 6.0)
    assert holds(decision) == {"u2": ("n1", "n2", "n3"), "u3": ("n4", "n5"), "u4": ("n6", "n7", "n8")}


def test_the_cheaper_evictions_for_all_count_not_the_cheapest_for_one() -> None:
    """For one urgent job `small` would leave, which is more than its ceiling."""
    view = full(("small", 1, 3.0), ("small2", 1, 4.0), LARGE, waiting=wanting(1, 1, 1, 1, 1, 1, 1, 1))
    assert victims(decide(view, 2.0)) == [("large", Method.KILL)]
    assert not victims(decide(view, 1.9))


def test_no_job_joins_that_costs_more_than_its_ceiling_because_others_leave_some() -> None:
    """The first eight cost 16 node-hours of 24. Two more cost 15 of 6: together, 31 of 30."""
    jobs = (LARGE, ("small", 1, 3.5), ("small2", 1, 3.5))
    decision = decide(full(*jobs, waiting=wanting(*[1] * 9)), 3.0)
    assert victims(decision) == [("large", Method.KILL)]
    assert len(holds(decision)) == 8


def test_free_nodes_count_and_room_of_others_is_not_touched() -> None:
    """u0 has the free nodes. `cheap` leaves for u1, as if the burst were not there."""
    view = full(("cheap", 2, 1.0), LARGE, waiting=wanting(2, 4, 4))
    decision = decide(view, 8.0)
    assert victims(decision) == [("cheap", Method.KILL), ("large", Method.KILL)]
    assert holds(decision) == {"u1": ("n1", "n2"), "u2": node_names(4, 3), "u3": node_names(4, 7)}
    assert "share their ceilings" not in whys(decision)["u1"]
    free = full(("gone", 2, 0.0), LARGE, waiting=wanting(5, 5))
    free = replace(free, jobs=tuple(job for job in free.jobs if job.job_id != "gone"))
    assert len(holds(decide(free, 8.0))) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"eligible_nodes": frozenset(node_names(8))},
        {"het_job_id": "7"},
        {"start_within_s": 5.0},
        {"array_job_id": "7"},
    ],
)
def test_only_jobs_that_wait_in_time_for_the_same_nodes_share_and_parts_of_one_job_have_one_ceiling(
    changes: dict[str, Any],
) -> None:
    *first, last = wanting(1, 1, 1)
    first = [replace(job, **changes) for job in first]
    view = full(LARGE, waiting=(*first, last))
    assert victims(decide(replace(view, jobs=(*view.jobs[:1], *wanting(1, 1, 1))), 6.0))
    assert not victims(decide(view, 6.0))


def test_the_site_limits_hold_for_the_job_that_is_charged() -> None:
    view = full(LARGE, waiting=wanting(*[1] * 6))
    strict: tuple[dict[str, Any], ...] = (
        {"max_loss_node_hours": 15.0},
        {"max_loss_node_hours_per_user_per_day": 15.0},
        {"max_loss_node_hours_per_day": 15.0},
    )
    for limits in strict:
        limited = replace(view, limits=replace(UNLIMITED, max_loss_machine_share=0.0, **limits))
        assert not victims(decide(limited, 3.0))
    assert not victims(decide(view, 3.0, budget_machine_hours=1.9))
    assert victims(decide(view, 3.0, budget_machine_hours=2.0))


def test_a_ceiling_that_is_used_up_is_not_shared() -> None:
    view = full(LARGE, waiting=wanting(1, 1, 1))
    assert victims(decide(replace(view, lost_node_s={"u1": 2.0 * 3600.0}), 6.0))
    assert not victims(decide(replace(view, lost_node_s={"u1": 2.1 * 3600.0}), 6.0))
    assert not victims(decide(replace(view, lost_node_s={"u1": 6.0 * 3600.0}), 6.0))
    assert victims(decide(replace(view, lost_node_s={"u1": 60.0 * 3600.0}), 8.0))


def test_what_is_begun_is_not_decided_on_again_and_serves_jobs_that_come_later() -> None:
    view = full(LARGE, ("other", 8, 3.0), waiting=wanting(1, 1, 1, 1, 1, 1))
    begun = replace(carried_out(view, decide(view, 3.0)), now_s=NOW_S + 5.0)
    assert decide(begun, 3.0).actions == ()
    later = tuple(replace(job, job_id=f"v{job.job_id}", submit_s=NOW_S + 1.0) for job in wanting(1, 1))
    more = decide(replace(begun, jobs=(*begun.jobs, *later)), 3.0)
    assert holds(more) == {"vu1": ("n7",), "vu2": ("n8",)}
    assert not victims(more)


def test_no_start_waits_that_only_several_ceilings_allow() -> None:
    """`large` is likely to end in time by itself."""
    view = full(LARGE, waiting=wanting(1, 1, 1, 1, 1, 1))
    ending = tuple(replace(job, walltime_s=7800.0) if job.job_id == "large" else job for job in view.jobs)
    view = replace(view, jobs=ending)
    assert victims(decide(view, 3.0, waiting_machine_hours=0.01)) == [("large", Method.KILL)]
    alone = decide(view, 20.0, waiting_machine_hours=0.01)
    assert holds(alone)
    assert not victims(alone)


def test_jobs_that_save_their_work_serve_a_burst_too() -> None:
    """A checkpoint of `large` and its setup cost 2.9 node-hours, a kill 16."""
    view = full(LARGE, ("more", 8, 2.0), waiting=wanting(4, 4, 4, 4))
    saves = replace(view.jobs_by_id()["large"], setup_s=900.0, checkpoint=CheckpointSpec(system_s=400.0))
    view = replace(view, jobs=(saves, *view.jobs[1:]))
    assert victims(decide(view, 2.9 / 2)) == [("large", Method.SYSTEM)]
    assert not victims(decide(view, 2.8 / 2))


def test_nothing_is_shared_without_a_ceiling_or_where_urgent_jobs_get_placements() -> None:
    view = full(LARGE, waiting=wanting(1, 1))
    assert "share their ceilings" not in " ".join(whys(decide(view, None)).values())
    places = (Placement(name="p0", nodes=node_names(4)), Placement(name="p1", nodes=node_names(4, 5)))
    assert not victims(decide(replace(view, placements=places), 8.0))
    assert victims(decide(view, 8.0))


def test_whole_nodes_of_a_cluster_that_could_share_them_serve_a_burst() -> None:
    view = full(LARGE, waiting=wanting(1, 1, 1))
    amounts = Resources.of({"cpu": 8})
    view = replace(view, nodes=tuple(replace(node, capacity=amounts) for node in view.nodes))
    assert view.capacities()
    assert victims(decide(view, 6.0)) == [("large", Method.KILL)]


def test_of_many_jobs_some_numbers_are_tried() -> None:
    view = full(("large", 30, 1.0), waiting=wanting(*[1] * 30))
    assert len(holds(decide(view, 1.0))) == 30
