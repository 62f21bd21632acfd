"""The exact programme against two oracles, on thousands of random instances, and its properties."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.model import Method
from makeway.policies.programme.items import EvictionJob
from makeway.policies.programme.knapsack import solve
from makeway.policies.programme.reference import backtracking
from tests.policies.programme.knapsack_items import STEP_S, STEPS, item, price, random_items, ways


def algorithm_1(
    items: Sequence[EvictionJob], node_count_needed: int, steps: int
) -> list[tuple[int, int] | None]:
    """The paper's Algorithm 1 word for word, over dictionaries: (loss, time) for each deadline."""
    a = {(0, 0): 0}
    for job in items:
        b = dict(a)
        for (nodes, time), loss in a.items():
            options = [(0, job.loss_node_s)]
            options.extend(
                (math.ceil(duration_s / STEP_S), 0)
                for duration_s in (job.application_s, job.system_s)
                if duration_s is not None
            )
            for duration, lost in options:
                cell = (nodes + job.node_count, time + duration)
                if cell[1] <= steps and b.get(cell, math.inf) > loss + lost:
                    b[cell] = loss + lost
        a = b
    proposals: list[tuple[int, int] | None] = []
    for deadline in range(steps + 1):
        reached = [
            (loss, time)
            for (nodes, time), loss in a.items()
            if nodes >= node_count_needed and time <= deadline
        ]
        proposals.append(min(reached, default=None))
    return proposals


def test_equals_backtracking_on_ten_thousand_instances_at_every_deadline() -> None:
    rng = random.Random(20201)
    feasible = 0
    for _ in range(10_000):
        items = random_items(rng)
        total = sum(job.node_count for job in items)
        needed = rng.randint(1, total + 1)
        curve = solve(items, needed, STEPS * STEP_S, STEP_S)
        for step in range(STEPS + 1):
            exact, oracle = curve.plan(step * STEP_S), backtracking(items, needed, step * STEP_S, STEP_S)
            assert price(exact) == price(oracle)
            if exact is not None and oracle is not None:
                feasible += 1
                assert (exact.loss_node_s, exact.checkpoint_s) == (oracle.loss_node_s, oracle.checkpoint_s)
    assert feasible > 50_000


def test_equals_algorithm_1_as_printed() -> None:
    rng = random.Random(20202)
    for _ in range(1500):
        items = random_items(rng)
        needed = rng.randint(1, sum(job.node_count for job in items) + 1)
        curve = solve(items, needed, STEPS * STEP_S, STEP_S)
        plans = [curve.plan(step * STEP_S) for step in range(STEPS + 1)]
        found = [None if plan is None else (plan.loss_node_s, plan.checkpoint_steps) for plan in plans]
        assert found == algorithm_1(items, needed, STEPS)


def test_the_whole_spectrum_gives_the_answer_for_every_number_of_nodes() -> None:
    rng = random.Random(20203)
    for _ in range(150):
        items = random_items(rng)
        total = sum(job.node_count for job in items)
        spectrum = solve(items, None, STEPS * STEP_S, STEP_S)
        for needed in range(0, total + 2, 1 + total // 12):
            single = solve(items, needed, STEPS * STEP_S, STEP_S)
            assert spectrum.losses(needed) == single.losses()
            for step in range(STEPS + 1):
                assert price(spectrum.plan(step * STEP_S, needed)) == price(single.plan(step * STEP_S))


items_strategy = st.lists(
    st.builds(
        EvictionJob,
        job_ids=st.just(("x",)),
        node_count=st.integers(1, 30),
        loss_node_s=st.integers(0, 50_000),
        system_s=st.none() | st.floats(0, 400),
        application_s=st.none() | st.floats(0, 400),
    ),
    max_size=12,
).map(lambda found: [replace(job, job_ids=(f"j{index:02}",)) for index, job in enumerate(found)])


@settings(deadline=None, max_examples=200)
@given(items=items_strategy, needed=st.integers(1, 120), deadline_s=st.floats(0, 700), data=st.data())
def test_a_plan_keeps_its_promise(
    items: list[EvictionJob], needed: int, deadline_s: float, data: st.DataObject
) -> None:
    plan = solve(items, needed, 600.0, 45.0).plan(deadline_s)
    assert (plan is None) == (sum(job.node_count for job in items) < needed)
    if plan is None:
        return
    durations = [leaver.item.duration_s(leaver.method) for leaver in plan.departures]
    assert None not in durations
    spent_s = sum(duration for duration in durations if duration is not None)
    assert spent_s <= plan.checkpoint_s + 1e-6
    assert plan.checkpoint_s <= min(deadline_s, 600.0)
    assert plan.loss_node_s == sum(leaver.loss_node_s for leaver in plan.departures)
    assert plan.node_count == sum(leaver.item.node_count for leaver in plan.departures) >= needed
    assert len({leaver.item.job_ids for leaver in plan.departures}) == len(plan.departures)
    assert all(plan.node_count - leaver.item.node_count < needed for leaver in plan.departures), "superfluous"
    shuffled = data.draw(st.permutations(items))
    assert solve(shuffled, needed, 600.0, 45.0).plan(deadline_s) == plan


@settings(deadline=None, max_examples=100)
@given(items=items_strategy, needed=st.integers(1, 120))
def test_more_time_never_loses_more(items: list[EvictionJob], needed: int) -> None:
    losses = [loss for loss in solve(items, needed, 900.0, 60.0).losses() if loss is not None]
    assert losses == sorted(losses, reverse=True)


def test_application_before_system_when_they_take_as_long() -> None:
    plan = solve([item("a", 4, 100, system_s=61.0, application_s=119.0)], 4, 120.0, 60.0).plan(120.0)
    assert ways(plan) == {"a": Method.APPLICATION}


def test_of_equal_losses_the_shorter_checkpoints_then_fewer_evictions_then_fewer_nodes() -> None:
    slow, quick = item("a", 4, 100, system_s=120.0), item("b", 4, 100, system_s=60.0)
    assert ways(solve([slow, quick], 4, 600.0, 60.0).plan(600.0)) == {"b": Method.SYSTEM}
    halves = [item("a", 2, 5), item("b", 2, 5)]
    assert ways(solve([*halves, item("c", 9, 10)], 4, 0.0, 60.0).plan(0.0)) == {"c": Method.KILL}
    assert ways(solve([item("a", 9, 10), item("b", 5, 10)], 4, 0.0, 60.0).plan(0.0)) == {"b": Method.KILL}


def test_a_job_without_loss_is_not_evicted_for_nothing() -> None:
    items = [item("idle", 3, 0), item("big", 10, 700)]
    assert ways(solve(items, 10, 0.0, 60.0).plan(0.0)) == {"big": Method.KILL}


def test_durations_are_rounded_up_and_deadlines_down() -> None:
    items = [item("a", 1, 10, system_s=60.5)]
    curve = solve(items, 1, 300.0, 60.0)
    assert curve.losses() == (10, 10, 0, 0, 0, 0)
    assert ways(curve.plan(119.9)) == {"a": Method.KILL}
    assert ways(curve.plan(120.0)) == {"a": Method.SYSTEM}


def test_checkpoints_run_one_after_another() -> None:
    items = [item("a", 1, 10, system_s=60.0), item("b", 1, 20, system_s=60.0)]
    assert solve(items, 2, 180.0, 60.0).losses() == (30, 10, 0, 0)


def test_impossible_and_trivial_questions() -> None:
    items = [item("a", 2, 7)]
    assert solve(items, 3, 60.0, 60.0).plan(60.0) is None
    assert solve(items, 3, 60.0, 60.0).losses() == (None, None)
    assert solve(items, 1, -1.0, 60.0).plan(60.0) is None
    assert solve(items, 1, -1.0, 60.0).losses() == ()
    assert solve(items, 1, 60.0, 60.0).plan(-0.5) is None
    assert solve([], 1, 60.0, 60.0).plan(60.0) is None
    none = solve(items, 0, 60.0, 60.0).plan(60.0)
    assert none is not None
    assert none.departures == ()


def test_no_more_nodes_can_be_asked_for_than_were_solved_for() -> None:
    curve = solve([item("a", 5, 1), item("b", 5, 2)], 4, 60.0, 60.0)
    assert ways(curve.plan(60.0, 3)) == {"a": Method.KILL}
    with pytest.raises(ValueError, match=r"solved for up to 4 nodes, 7 wanted"):
        curve.plan(60.0, 7)


@pytest.mark.parametrize("scale", [1, 10**12, 10**14, 10**15])
def test_huge_losses_are_still_compared_exactly(scale: int) -> None:
    """If 62 bits do not hold every criterion, the last ones are dropped; loss and time stay exact."""
    rng = random.Random(scale)
    for _ in range(60):
        items = [
            item(
                f"j{index}",
                rng.randint(1, 6),
                rng.randint(0, 9) * scale + rng.randint(0, 2),
                rng.uniform(0, 200),
            )
            for index in range(10)
        ]
        curve = solve(items, 12, STEPS * STEP_S, STEP_S)
        plans = [curve.plan(step * STEP_S) for step in range(STEPS + 1)]
        found = [None if plan is None else (plan.loss_node_s, plan.checkpoint_steps) for plan in plans]
        assert found == algorithm_1(items, 12, STEPS)


def test_losses_beyond_all_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match="beyond what can be weighed"):
        solve([item("a", 1, 1 << 62)], 1, 60.0, 60.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"node_count": 0},
        {"loss_node_s": -1},
        {"system_s": -0.5},
        {"application_s": math.nan},
        {"system_s": math.inf},
        {"spare_node_count": 2},
        {"spare_node_count": -1},
    ],
)
def test_a_wrong_item_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no eviction job"):
        replace(item("a", 1), **wrong)


def test_a_wrong_step_is_refused() -> None:
    with pytest.raises(ValueError, match="step_s"):
        solve([item("a", 1)], 1, 60.0, 0.0)
