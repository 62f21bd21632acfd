"""Backtracking against plain enumeration; greedy against the paper's description."""

import itertools
import math
import random
from collections.abc import Callable

import pytest

from makeway.policies.model import Method
from makeway.policies.programme.items import EvictionJob
from makeway.policies.programme.knapsack import EvictionPlan, solve
from makeway.policies.programme.reference import backtracking, greedy


def item(
    job_id: str,
    node_count: int,
    loss_node_s: int,
    system_s: float | None = None,
    application_s: float | None = None,
) -> EvictionJob:
    return EvictionJob(
        job_ids=(job_id,),
        node_count=node_count,
        loss_node_s=loss_node_s,
        system_s=system_s,
        application_s=application_s,
    )


def random_items(rng: random.Random, most: int) -> list[EvictionJob]:
    return [
        item(
            f"j{index}",
            rng.randint(1, 6),
            rng.randint(0, 8),
            rng.choice((None, 1.0, 2.0)),
            rng.choice((None, 1.0, 3.0)),
        )
        for index in range(rng.randint(1, most))
    ]


def enumerated(items: list[EvictionJob], needed: int, deadline: int) -> tuple[int, int] | None:
    """The least (loss, time) over all 4^N choices."""
    best: tuple[int, int] | None = None
    for choice in itertools.product(
        (None, Method.KILL, Method.APPLICATION, Method.SYSTEM), repeat=len(items)
    ):
        durations = [
            job.duration_s(method) for job, method in zip(items, choice, strict=True) if method is not None
        ]
        if None in durations:
            continue
        time = sum(math.ceil(duration or 0.0) for duration in durations)
        pairs = list(zip(items, choice, strict=True))
        freed = sum(job.node_count for job, method in pairs if method is not None)
        loss = sum(job.loss_node_s for job, method in pairs if method is Method.KILL)
        if time <= deadline and freed >= needed and (best is None or (loss, time) < best):
            best = (loss, time)
    return best


def test_backtracking_equals_enumeration() -> None:
    rng = random.Random(7)
    for _ in range(300):
        items = random_items(rng, 4)
        needed, deadline = rng.randint(1, 14), rng.randint(0, 7)
        plan = backtracking(items, needed, float(deadline), 1.0)
        found = None if plan is None else (plan.loss_node_s, plan.checkpoint_steps)
        assert found == enumerated(items, needed, deadline)


def test_greedy_frees_enough_in_time_and_is_never_better_than_exact() -> None:
    rng = random.Random(8)
    worse = 0
    for _ in range(500):
        items = random_items(rng, 9)
        needed, deadline_s = rng.randint(1, 20), float(rng.randint(0, 7))
        quick = greedy(items, needed, deadline_s, 1.0)
        exact = solve(items, needed, deadline_s, 1.0).plan(deadline_s)
        assert (quick is None) == (exact is None)
        if quick is not None and exact is not None:
            assert quick.node_count >= needed
            assert quick.checkpoint_s <= deadline_s
            assert quick.loss_node_s >= exact.loss_node_s
            worse += quick.loss_node_s > exact.loss_node_s
    assert worse > 50


def test_greedy_checkpoints_the_dearest_and_kills_the_cheapest() -> None:
    items = [
        item("cheap", 1, 1, system_s=10.0),
        item("dear", 2, 90, system_s=50.0, application_s=20.0),
        item("middle", 2, 50, system_s=30.0),
    ]
    plan = greedy(items, 3, 40.0, 10.0)
    assert plan is not None
    assert {leaver.item.job_ids[0]: leaver.method for leaver in plan.departures} == {
        "dear": Method.APPLICATION,
        "cheap": Method.KILL,
    }
    assert (plan.loss_node_s, plan.checkpoint_s) == (1, 20.0)


def test_greedy_stops_when_enough_is_free() -> None:
    items = [item("a", 4, 9, system_s=0.0), item("b", 4, 8, system_s=0.0)]
    plan = greedy(items, 4, 0.0, 1.0)
    assert plan is not None
    assert [leaver.item.job_ids for leaver in plan.departures] == [("a",)]


def test_greedy_checkpoints_no_job_if_that_of_greatest_loss_has_no_checkpoint() -> None:
    items = [item("a", 1, 9), item("b", 1, 5, system_s=1.0)]
    plan = greedy(items, 2, 10.0, 1.0)
    assert plan is not None
    assert plan.loss_node_s == 14


@pytest.mark.parametrize("approach", [greedy, backtracking])
def test_no_time_and_no_nodes(approach: Callable[..., EvictionPlan | None]) -> None:
    assert approach([item("a", 1, 1)], 1, -1.0, 1.0) is None
    assert approach([item("a", 1, 1)], 2, 5.0, 1.0) is None
    with pytest.raises(ValueError, match="step_s"):
        approach([item("a", 1, 1)], 1, 5.0, -1.0)
