"""Checkpoints that share the file system: against exhaustive search, the serial model and the simulated file
system."""

import math
import random
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.model import Method
from makeway.policies.programme.concurrent import (
    fair_end_s,
    parts_needed,
    plan_fair,
    plans_concurrent,
)
from makeway.policies.programme.items import Departure, EvictionJob
from makeway.policies.programme.knapsack import EvictionPlan, make_plan, solve
from makeway.simharness.engine.storage import Storage, StorageSettings
from tests.policies.programme.exhaustive import Choice, best_prices

STEP_S = 60.0
STEPS = 5
PARTS = 12


def item(
    job_id: str,
    node_count: int,
    loss_node_s: int = 0,
    *,
    system_s: float | None = None,
    share: float = 1.0,
    application: tuple[float, float] | None = None,
    spare: int = 0,
) -> EvictionJob:
    """`application`: its wait and its duration."""
    return EvictionJob(
        job_ids=(job_id,),
        node_count=node_count,
        loss_node_s=loss_node_s,
        system_s=system_s,
        application_s=None if application is None else sum(application),
        application_wait_s=0.0 if application is None else application[0],
        bandwidth_share=share,
        spare_node_count=spare,
    )


def random_items(rng: random.Random, most: int = 4) -> list[EvictionJob]:
    alike = rng.random() < 0.5
    found = []
    for index in range(rng.randint(1, most)):
        node_count = rng.randint(1, 3 if alike else 6)
        wait_s = rng.choice((0.0, 30.0, 60.0, rng.uniform(0, 250)))
        found.append(
            item(
                f"j{index}",
                node_count,
                rng.choice((0, 1, 2)) if alike else rng.randint(0, 1000),
                system_s=rng.choice((None, 0.0, 60.0, 120.0, rng.uniform(0, 300))),
                share=rng.choice((1.0, 0.5, 0.25, rng.uniform(0.05, 1.0))),
                application=rng.choice((None, (wait_s, 60.0), (wait_s, rng.uniform(0, 200)))),
                spare=rng.choice((0, 0, node_count - 1)),
            )
        )
    return found


def first_step(combination: Sequence[Choice]) -> int:
    """The first step whose deadline all savers meet, by the definition, in exact fractions of whole parts."""
    savers = [choice for choice in combination if choice.saves]
    if not savers:
        return 0
    for step in range(STEPS + 1):
        if _meets(savers, step * STEP_S):
            return step
    return STEPS + 1


def _meets(savers: Sequence[Choice], deadline_s: float) -> bool:
    used = 0
    for choice in savers:
        begin_s = choice.item.application_wait_s if choice.method is Method.APPLICATION else 0.0
        end_s = choice.item.application_s if choice.method is Method.APPLICATION else choice.item.system_s
        assert end_s is not None
        if end_s > deadline_s:
            return False
        volume_s = choice.item.bandwidth_share * (end_s - begin_s)
        if volume_s > 0:
            used += math.ceil(PARTS * volume_s / (deadline_s - begin_s))
    return used <= PARTS


def price(plan: EvictionPlan | None) -> tuple[int, int, int, int, int] | None:
    if plan is None:
        return None
    leaving = [leaver for leaver in plan.departures if leaver.method is not Method.SHRINK]
    return (
        plan.loss_node_s,
        plan.checkpoint_steps,
        len(leaving),
        sum(leaver.node_count for leaver in leaving),
        sum(leaver.method is Method.SYSTEM for leaver in leaving),
    )


def test_loss_and_time_equal_exhaustive_search_on_ten_thousand_instances_at_every_deadline() -> None:
    rng = random.Random(20207)
    feasible = together = 0
    for _ in range(10_000):
        items = random_items(rng)
        needed = rng.randint(1, sum(job.node_count for job in items) + 1)
        plans = plans_concurrent(items, needed, STEPS * STEP_S, STEP_S, PARTS)
        oracle = best_prices(items, needed, STEPS, first_step)
        found = [None if plan is None else (plan.loss_node_s, plan.checkpoint_steps) for plan in plans]
        assert found == [None if best is None else best[:2] for best in oracle]
        if plans[-1] is None or fair_end_s(plans[-1]) <= STEPS * STEP_S:
            assert plan_fair(items, needed, STEPS * STEP_S, STEP_S, PARTS) == plans[-1]
        for plan in plans:
            if plan is not None:
                feasible += 1
                savers = [Choice(leaver.item, leaver.method) for leaver in plan.departures]
                together += sum(choice.saves for choice in savers) > 1
                assert first_step(savers) == plan.checkpoint_steps
                assert plan.node_count >= needed
    assert feasible > 40_000
    assert together > 4_000


def test_without_regular_checkpoints_it_is_equation_1_for_all_nodes_as_one_job() -> None:
    """Sizes, bandwidths and deadlines are such that every rate is a whole number of parts."""
    rng = random.Random(20208)
    aggregate, node = 12, 1
    for _ in range(400):
        sizes = [(rng.randint(1, 12), rng.choice((60, 120, 180))) for _ in range(rng.randint(1, 5))]
        items = []
        for index, (nodes, gb_per_node) in enumerate(sizes):
            alone_s = Fraction(nodes * gb_per_node, min(aggregate, nodes * node))
            share = Fraction(min(aggregate, nodes * node), aggregate)
            items.append(item(f"j{index}", nodes, 1, system_s=float(alone_s), share=float(share)))
        total = sum(nodes for nodes, _ in sizes)
        seconds = max(
            Fraction(sum(nodes * size for nodes, size in sizes), aggregate),
            max(Fraction(size, node) for _, size in sizes),
        )
        plan = plans_concurrent(items, total, 3600.0, 60.0, 12 * 60)[-1]
        assert plan is not None
        # Parts are rounded up for each saver: one part in 720 for each at the most.
        assert plan.loss_node_s == 0
        slack = Fraction(12 * 60, 12 * 60 - len(items))
        assert math.ceil(seconds / 60) <= plan.checkpoint_steps <= math.ceil(seconds * slack / 60)


def test_never_loses_more_than_one_after_another() -> None:
    """Whatever is complete in time one after another is complete in time together, up to a part for each
    saver.
    """
    rng = random.Random(20209)
    less = 0
    for _ in range(150):
        items = random_items(rng, most=8)
        needed = rng.randint(1, sum(job.node_count for job in items))
        serial = solve(items, needed, STEPS * STEP_S, STEP_S / 64)
        together = plans_concurrent(items, needed, STEPS * STEP_S, STEP_S, 4000)
        for step in range(1, STEPS + 1):
            alone = serial.plan(step * STEP_S * 0.98)
            shared = together[step]
            assert alone is not None
            assert shared is not None
            assert shared.loss_node_s <= alone.loss_node_s
            less += shared.loss_node_s < alone.loss_node_s
    assert less > 25


def test_two_that_use_half_the_bandwidth_each_save_at_once() -> None:
    items = [item("a", 1, 10, system_s=60.0, share=0.5), item("b", 1, 20, system_s=60.0, share=0.5)]
    assert solve(items, 2, 60.0, 60.0).losses() == (30, 10)
    plans = plans_concurrent(items, 2, 120.0, 60.0)
    assert [price(plan) for plan in plans] == [(30, 0, 2, 2, 0), (0, 1, 2, 2, 2), (0, 1, 2, 2, 2)]


def test_two_that_use_all_of_it_take_turns() -> None:
    items = [item("a", 1, 10, system_s=60.0), item("b", 1, 20, system_s=60.0)]
    plans = plans_concurrent(items, 2, 120.0, 60.0)
    assert [price(plan) for plan in plans] == [(30, 0, 2, 2, 0), (10, 1, 2, 2, 1), (0, 2, 2, 2, 2)]


def test_waits_for_regular_checkpoints_overlap() -> None:
    items = [item(name, 1, 10, application=(480.0, 60.0), share=0.5) for name in ("a", "b")]
    assert solve(items, 2, 600.0, 60.0).losses()[-1] == 10
    plan = plans_concurrent(items, 2, 600.0, 60.0)[-1]
    assert price(plan) == (0, 9, 2, 2, 0)


def test_a_rate_is_rounded_up_to_whole_parts() -> None:
    assert parts_needed(item("a", 1, system_s=60.0, share=0.5), Method.SYSTEM, 60.0, 10) == 5
    assert parts_needed(item("a", 1, system_s=60.0, share=0.51), Method.SYSTEM, 60.0, 10) == 6
    assert parts_needed(item("a", 1, system_s=60.0), Method.SYSTEM, 59.0, 10) is None
    assert parts_needed(item("a", 1, system_s=0.0), Method.SYSTEM, 0.0, 10) == 0
    assert parts_needed(item("a", 1, application=(30.0, 30.0)), Method.APPLICATION, 120.0, 9) == 3
    assert parts_needed(item("a", 1), Method.APPLICATION, 120.0, 9) is None


def test_impossible_and_trivial_questions() -> None:
    items = [item("a", 2, 7)]
    assert plans_concurrent(items, 3, 60.0, 60.0) == (None, None)
    assert plan_fair(items, 3, 60.0, 60.0) is None
    assert plan_fair(items, 1, -1.0, 60.0) is None
    assert plans_concurrent(items, 1, -1.0, 60.0) == ()
    none = plans_concurrent(items, 0, 60.0, 60.0)[-1]
    assert none is not None
    assert none.departures == ()
    assert fair_end_s(none) == 0.0
    for step_s, parts in ((0.0, 10), (60.0, 0)):
        with pytest.raises(ValueError, match="accepted: positive numbers"):
            plan_fair(items, 1, 60.0, step_s, parts)


NODE_GB_S = 0.5
AGGREGATE_GB_S = 4.0

savers_strategy = st.lists(
    st.tuples(
        st.integers(1, 12), st.floats(1.0, 100.0), st.sampled_from((0.0, 0.0, 5.0, 17.5)) | st.floats(0, 60)
    ),
    min_size=1,
    max_size=7,
)
"""Nodes, GB of each, and when they begin."""


@settings(deadline=None, max_examples=300)
@given(savers=savers_strategy)
def test_equal_shares_end_when_they_do_on_the_simulated_file_system(
    savers: list[tuple[int, float, float]],
) -> None:
    simulated = StorageSettings(aggregate_gb_s=AGGREGATE_GB_S, node_gb_s=NODE_GB_S)
    departures = []
    for index, (nodes, gb_per_node, begin_s) in enumerate(savers):
        alone_s = simulated.alone_s(gb_per_node, nodes)
        share = min(1.0, nodes * NODE_GB_S / AGGREGATE_GB_S)
        if begin_s:
            job = item(f"j{index}", nodes, share=share, application=(begin_s, alone_s))
            departures.append(Departure(item=job, method=Method.APPLICATION))
        else:
            job = item(f"j{index}", nodes, share=share, system_s=alone_s)
            departures.append(Departure(item=job, method=Method.SYSTEM))
    plan = make_plan(departures, 0, 1.0)
    storage = Storage(simulated)
    begins = sorted((begin_s, index) for index, (_, _, begin_s) in enumerate(savers))
    last_s = 0.0
    while begins or storage.next_end_s() is not None:
        end_s = storage.next_end_s()
        if end_s is None or (begins and begins[0][0] < end_s):
            begin_s, index = begins.pop(0)
            nodes, gb_per_node, _ = savers[index]
            storage.begin(index, gb_per_node=gb_per_node, node_count=nodes, now_s=begin_s)
        else:
            last_s = end_s
            storage.finish(end_s)
    assert fair_end_s(plan) == pytest.approx(last_s, rel=1e-6)


def test_a_plan_for_equal_shares_is_complete_in_time_with_them() -> None:
    """Ideal rates would save all three by 600 s; with equal shares the wide ones take what the narrow one
    needs.
    """
    items = [
        item("narrow", 4, 1000, system_s=600.0, share=0.4),
        item("wide1", 10, 1000, system_s=180.0),
        item("wide2", 10, 900, system_s=180.0),
    ]
    ideal = plans_concurrent(items, 24, 600.0, 60.0)[-1]
    assert ideal is not None
    assert ideal.loss_node_s == 0
    assert fair_end_s(ideal) > 600.0
    fair = plan_fair(items, 24, 600.0, 60.0)
    assert fair is not None
    assert fair.loss_node_s > 0
    assert fair_end_s(fair) <= 600.0


def test_a_plan_for_equal_shares_keeps_its_promise() -> None:
    rng = random.Random(20210)
    tightened = 0
    for _ in range(400):
        deadline_s = rng.uniform(60, STEPS * STEP_S)
        items = random_items(rng, most=5)
        for index in range(3):  # so slow that it needs nearly all of the time
            slow_s = deadline_s * rng.uniform(0.8, 1.0)
            share = rng.uniform(0.05, 0.4)
            items.append(item(f"slow{index}", 2, rng.randint(0, 1000), system_s=slow_s, share=share))
        needed = rng.randint(1, sum(job.node_count for job in items))
        ideal = plans_concurrent(items, needed, deadline_s, STEP_S / 4, 100)[-1]
        fair = plan_fair(items, needed, deadline_s, STEP_S / 4, 100)
        assert ideal is not None
        assert fair is not None
        assert fair_end_s(fair) <= deadline_s
        assert fair.node_count >= needed
        assert fair.loss_node_s >= ideal.loss_node_s
        tightened += fair != ideal
    assert tightened
