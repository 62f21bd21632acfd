"""The exact programme where jobs may shrink: equal to exhaustive search."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from makeway.policies.model import Method
from makeway.policies.programme.items import Departure, EvictionJob
from makeway.policies.programme.knapsack import EvictionPlan, solve
from tests.policies.programme.exhaustive import Choice, best_prices
from tests.policies.programme.knapsack_items import STEP_S, STEPS, item, price


def test_shrinking_takes_no_time_and_needs_spare_nodes() -> None:
    assert item("a", 1).duration_s(Method.SHRINK) is None
    assert replace(item("a", 2), spare_node_count=1).duration_s(Method.SHRINK) == 0.0
    assert Departure(item=item("a", 1, 5), method=Method.SYSTEM).loss_node_s == 0


def malleable_items(rng: random.Random) -> list[EvictionJob]:
    """Up to four items, most of which can shrink; half the time so alike that ties are the rule."""
    alike = rng.random() < 0.5
    found = []
    for index in range(rng.randint(1, 4)):
        node_count = rng.randint(1, 4 if alike else 7)
        found.append(
            replace(
                item(
                    f"j{index}",
                    node_count,
                    rng.choice((0, 1, 2)) if alike else rng.randint(0, 1000),
                    rng.choice((None, 60.0, 120.0, 250.0)),
                    rng.choice((None, 60.0, 120.0, 250.0)),
                ),
                spare_node_count=rng.choice((0, rng.randint(0, node_count), node_count - 1)),
            )
        )
    return found


def one_after_another(combination: Sequence[Choice]) -> int:
    return sum(
        math.ceil((choice.item.duration_s(choice.method) or 0.0) / STEP_S)
        for choice in combination
        if choice.method is not None
    )


def price_of_leaving(plan: EvictionPlan | None) -> tuple[int, int, int, int, int] | None:
    """As `price`; those that shrink are neither evicted nor count with their nodes."""
    if plan is None:
        return None
    leaving = tuple(leaver for leaver in plan.departures if leaver.method is not Method.SHRINK)
    return price(replace(plan, departures=leaving))


def test_with_shrinking_equals_exhaustive_search_on_ten_thousand_instances_at_every_deadline() -> None:
    rng = random.Random(20204)
    shrunk = mixed = 0
    for _ in range(10_000):
        items = malleable_items(rng)
        needed = rng.randint(1, sum(job.node_count for job in items) + 1)
        curve = solve(items, needed, STEPS * STEP_S, STEP_S)
        plans = [curve.plan(step * STEP_S) for step in range(STEPS + 1)]
        assert [price_of_leaving(plan) for plan in plans] == best_prices(
            items, needed, STEPS, one_after_another
        )
        for plan in plans:
            if plan is not None:
                ways_out = {leaver.method for leaver in plan.departures}
                shrunk += Method.SHRINK in ways_out
                mixed += Method.SHRINK in ways_out and len(ways_out) > 1
                assert plan.node_count == sum(leaver.node_count for leaver in plan.departures) >= needed
                for leaver in plan.departures:
                    if leaver.method is Method.SHRINK:
                        assert 1 <= leaver.given_node_count <= leaver.item.spare_node_count
                        assert plan.node_count == needed
    assert shrunk > 20_000
    assert mixed > 10_000


def test_with_shrinking_one_pass_answers_every_number_of_nodes() -> None:
    rng = random.Random(20205)
    for _ in range(500):
        items = malleable_items(rng)
        total = sum(job.node_count for job in items)
        spectrum = solve(items, None, STEPS * STEP_S, STEP_S)
        assert spectrum.items.needed == total
        for needed in range(total + 2):
            single = solve(items, needed, STEPS * STEP_S, STEP_S)
            assert spectrum.losses(needed) == single.losses()
            for step in range(STEPS + 1):
                assert spectrum.plan(step * STEP_S, needed) == single.plan(step * STEP_S)


def test_shrinking_never_loses_more_than_leaving_whole() -> None:
    rng = random.Random(20206)
    for _ in range(300):
        items = malleable_items(rng)
        whole = [replace(job, spare_node_count=0) for job in items]
        needed = rng.randint(1, sum(job.node_count for job in items))
        losses = [solve(some, needed, STEPS * STEP_S, STEP_S).losses() for some in (items, whole)]
        assert all(
            ours is not None and theirs is not None and ours <= theirs
            for ours, theirs in zip(*losses, strict=True)
        )


def test_shrinks_are_spread_evenly_over_those_that_stay() -> None:
    items = [
        replace(item("a", 10, 5), spare_node_count=8),
        replace(item("b", 10, 5), spare_node_count=2),
        replace(item("c", 10, 5), spare_node_count=8),
        replace(item("d", 10, 50), spare_node_count=0),
    ]

    def given(plan: EvictionPlan | None) -> dict[str, tuple[Method, int]]:
        assert plan is not None
        return {leaver.item.job_ids[0]: (leaver.method, leaver.node_count) for leaver in plan.departures}

    shrink = Method.SHRINK
    assert given(solve(items, 12, 0.0, 60.0).plan(0.0)) == {
        "a": (shrink, 5),
        "b": (shrink, 2),
        "c": (shrink, 5),
    }
    assert given(solve(items, 1, 0.0, 60.0).plan(0.0)) == {"c": (shrink, 1)}
    assert given(solve(items, 24, 0.0, 60.0).plan(0.0)) == {
        "a": (shrink, 7),
        "b": (Method.KILL, 10),
        "c": (shrink, 7),
    }
    curve = solve(items, 5, 0.0, 60.0)
    with pytest.raises(ValueError, match=r"solved for up to 18 nodes, 20 wanted"):
        curve.plan(0.0, 20)
