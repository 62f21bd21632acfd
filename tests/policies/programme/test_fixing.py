"""The search by bounds and fixing against the exact programme: the same plans, ties included, at any size."""

import random
from dataclasses import replace

import pytest

from makeway.policies.model import Method
from makeway.policies.programme import fixing
from makeway.policies.programme.fixing import best_plans, in_steps, least_loss_node_s
from makeway.policies.programme.items import EvictionJob
from makeway.policies.programme.knapsack import solve
from tests.policies.programme.knapsack_items import STEP_S, item, ways


@pytest.fixture(autouse=True)
def always_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small problems are searched too."""
    monkeypatch.setattr(fixing, "SMALL_CELLS", -1)


def drawn_items(rng: random.Random, count: int, most_nodes: int) -> list[EvictionJob]:
    """Items with all that an item can have; half the time so alike that ties are the rule."""
    alike = rng.random() < 0.5
    scale = rng.choice((1, 1, 1, 10**6, 10**12 if alike else 10**7))
    shrinks, dear, again = (rng.random() < 0.4 for _ in range(3))
    found: list[EvictionJob] = []
    for index in range(count):
        node_count = rng.randint(1, 3 if alike else most_nodes)
        found.append(
            EvictionJob(
                job_ids=(f"j{index:03}",),
                node_count=node_count,
                loss_node_s=(rng.choice((0, 1, 2)) if alike else rng.randint(0, 100_000)) * scale,
                setup_node_s=rng.randint(0, 5 if alike else 5000) if dear else 0,
                saving_node_s=rng.randint(0, 5 if alike else 5000) if dear else 0,
                system_s=rng.choice((None, 60.0, 120.0) if alike else (None, rng.uniform(0, 300))),
                application_s=rng.choice((None, 60.0, 120.0) if alike else (None, rng.uniform(0, 500))),
                spare_node_count=rng.randint(0, node_count) if shrinks and rng.random() < 0.5 else 0,
                past_evictions=rng.choice((0, 0, 1, 3)) if again else 0,
                alone=rng.choice((frozenset(), frozenset({Method.APPLICATION}))),
            )
        )
    rng.shuffle(found)
    return found


@pytest.mark.parametrize("many", [2, 500])
def test_the_plans_are_those_of_the_programme_on_random_instances(
    monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """`many`: from how many states on those that others beat are looked for."""
    monkeypatch.setattr("makeway.policies.programme.fixing._MANY", many)
    rng = random.Random(3601)
    feasible = 0
    for _ in range(600):
        items = drawn_items(rng, rng.choice((rng.randint(1, 9), rng.randint(5, 40))), 40)
        needed = rng.randint(0, sum(job.node_count for job in items) + 1)
        deadlines_s = (rng.randint(0, 12) * STEP_S, rng.randint(0, 12) * STEP_S)
        curve = solve(items, needed, max(deadlines_s), STEP_S)
        plans = [curve.plan(deadline_s) for deadline_s in deadlines_s]
        assert best_plans(items, needed, deadlines_s, STEP_S) == plans
        feasible += plans[0] is not None
    assert feasible > 500


def test_the_plans_are_those_of_the_programme_on_larger_instances() -> None:
    rng = random.Random(3602)
    for _ in range(15):
        items = drawn_items(rng, rng.randint(80, 150), 60)
        needed = rng.randint(1, 600)
        deadline_s = rng.randint(0, 40) * STEP_S
        expected = solve(items, needed, deadline_s, STEP_S).plan(deadline_s)
        assert best_plans(items, needed, (deadline_s,), STEP_S) == [expected]


def test_the_order_of_the_items_does_not_matter() -> None:
    rng = random.Random(3603)
    for _ in range(50):
        items = drawn_items(rng, 20, 10)
        plan = best_plans(items, 30, (5 * STEP_S,), STEP_S)
        rng.shuffle(items)
        assert best_plans(items, 30, (5 * STEP_S,), STEP_S) == plan


@pytest.mark.parametrize("most_states", [-1, 50])
def test_a_search_that_is_too_long_leaves_it_to_the_programme(
    monkeypatch: pytest.MonkeyPatch, most_states: int
) -> None:
    monkeypatch.setattr(fixing, "MOST_STATES", most_states)
    items = drawn_items(random.Random(3604), 60, 40)
    expected = solve(items, 300, 10 * STEP_S, STEP_S).plan(10 * STEP_S)
    assert best_plans(items, 300, (10 * STEP_S,), STEP_S) == [expected]


def test_impossible_and_trivial_questions() -> None:
    items = [item("a", 2, 7)]
    assert best_plans(items, 3, (60.0,), 60.0) == [None]
    assert best_plans(items, 1, (-1.0, 60.0), 60.0)[0] is None
    assert best_plans([], 1, (60.0,), 60.0) == [None]
    (nothing,) = best_plans(items, 0, (60.0,), 60.0)
    assert ways(nothing) == {}


def test_spare_nodes_alone_may_be_enough() -> None:
    giver = EvictionJob(job_ids=("a",), node_count=4, loss_node_s=5, spare_node_count=3)
    (plan,) = best_plans([giver], 2, (60.0,), 60.0)
    assert ways(plan) == {"a": Method.SHRINK}


def test_what_cannot_be_weighed_or_counted_is_refused() -> None:
    with pytest.raises(ValueError, match="beyond what can be weighed"):
        best_plans([item("a", 1, 1 << 62)], 1, (60.0,), 60.0)
    with pytest.raises(ValueError, match="step_s"):
        best_plans([item("a", 1)], 1, (60.0,), 0.0)


def test_no_choice_loses_less_than_the_bound_says() -> None:
    rng = random.Random(3605)
    bounds, losses = 0, 0
    for size in (*(rng.randint(1, 40) for _ in range(400)), 300, 300, 300):
        items = drawn_items(rng, size, 20)
        needed = rng.randint(0, sum(job.node_count for job in items) + 1)
        deadline_s = rng.randint(0, 12) * STEP_S
        bound = least_loss_node_s(items, needed, deadline_s, STEP_S)
        (plan,) = best_plans(items, needed, (deadline_s,), STEP_S)
        assert 0 <= bound <= (0 if plan is None else plan.loss_node_s)
        if plan is not None and size == 300:
            bounds, losses = bounds + bound, losses + plan.loss_node_s
    assert bounds > 0.99 * losses > 0.0


def test_nothing_is_known_of_impossible_and_trivial_questions() -> None:
    items = [item("a", 2, 7), item("b", 2, 9)]
    assert [least_loss_node_s(items, needed, 60.0, 60.0) for needed in (0, 1, 4, 5)] == [0, 2, 15, 0]
    assert least_loss_node_s(items, 1, -1.0, 60.0) == 0
    giver = EvictionJob(job_ids=("a",), node_count=4, loss_node_s=5, spare_node_count=3)
    assert least_loss_node_s([giver], 2, 60.0, 60.0) == 0


def test_deadlines_in_one_step_have_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3606)
    for _ in range(100):
        items, step = drawn_items(rng, 20, 10), rng.randint(0, 8)
        monkeypatch.setattr(fixing, "SMALL_CELLS", rng.choice((-1, 3_000_000)))
        first_s, second_s = (STEP_S * (step + rng.random()) for _ in range(2))
        assert in_steps(items, 30, (first_s, second_s), STEP_S) == (step, step)
        assert best_plans(items, 30, (first_s,), STEP_S) == best_plans(items, 30, (second_s,), STEP_S)
    monkeypatch.setattr(fixing, "MOST_CELLS", 1)
    assert in_steps(items, 30, (first_s, second_s), STEP_S) == (first_s, second_s)


def test_a_checkpoint_that_takes_too_long_is_as_none() -> None:
    """Prices need not leave it out, unless it takes no time of others."""
    rng = random.Random(3607)
    for _ in range(200):
        items, deadline_s = drawn_items(rng, 20, 10), rng.uniform(0.0, 300.0)
        short = [
            replace(one, system_s=None) if one.system_s is not None and one.system_s > deadline_s else one
            for one in items
        ]
        plans = [best_plans(each, 30, (deadline_s,), STEP_S)[0] for each in (items, short)]
        assert ways(plans[0]) == ways(plans[1])
