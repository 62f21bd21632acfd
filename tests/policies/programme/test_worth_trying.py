"""Items that are in no best choice change no plan, whether or not they are left out."""

from random import Random

import pytest

from makeway.policies.model import Method
from makeway.policies.programme import knapsack
from makeway.policies.programme.items import METHODS, EvictionJob, duration_steps
from makeway.policies.programme.knapsack import EvictionPlan, ProgrammeItems, solve
from makeway.policies.programme.weights import PriceWeights
from makeway.policies.programme.worth_trying import best_in_any_time, worth_trying

STEPS = 4
LOSS = PriceWeights(loss=1, eviction=1, node=0, system=0)


def instance(draw: Random) -> tuple[list[EvictionJob], int]:
    """Many items of few sizes and prices, some of which can save their work or shrink, and few nodes."""
    sizes, most_loss = draw.choice([(1,), (1, 2), (1, 2, 3), (2, 5)]), draw.choice([0, 1, 3, 50])
    parallel = draw.random() < 0.4
    items: list[EvictionJob] = []
    for number in range(draw.randint(1, 20)):
        node_count = draw.choice(sizes)
        items.append(
            EvictionJob(
                job_ids=(f"j{number:02}",),
                node_count=node_count,
                spare_node_count=draw.choice([0, 0, 0, node_count - 1, node_count]),
                loss_node_s=draw.randint(0, most_loss),
                setup_node_s=draw.choice([0, 0, 1]),
                saving_node_s=draw.choice([0, 0, 1]),
                past_evictions=draw.choice([0, 0, 0, 1]),
                system_s=draw.choice([None, None, 0.0, 1.0, 2.0]),
                application_s=draw.choice([None, None, 0.0, 1.0, 3.0]),
                alone=frozenset({Method.APPLICATION, Method.SYSTEM} if parallel else {Method.APPLICATION}),
            )
        )
    draw.shuffle(items)
    return items, draw.randint(0, 5)


def plans(items: list[EvictionJob], needed: int) -> list[EvictionPlan | None]:
    curve = solve(items, needed, float(STEPS), 1.0)
    return [curve.plan(float(step), count) for step in range(STEPS + 1) for count in range(needed + 1)]


@pytest.mark.parametrize("many", [1, 100])
def test_plans_are_those_of_all_items(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """`many`: from how many items of one size on the durations are looked at."""
    monkeypatch.setattr("makeway.policies.programme.worth_trying._MANY", many)
    draw, left_out = Random(7), 0
    for _ in range(1500):
        items, needed = instance(draw)
        found = plans(items, needed)
        with monkeypatch.context() as patch:
            patch.setattr(knapsack, "worth_trying", lambda ordered, *_: ordered)
            assert found == plans(items, needed), (items, needed)
            all_items = ProgrammeItems.of(items, needed, STEPS, 1.0)
        tried = ProgrammeItems.of(items, needed, STEPS, 1.0)
        assert (tried.extra_node_count, tried.givers) == (all_items.extra_node_count, all_items.givers)
        left_out += len(all_items.ordered) - len(tried.ordered)
    assert left_out > 1000


def test_as_many_of_a_size_are_tried_as_free_all_nodes() -> None:
    items = [
        EvictionJob(job_ids=(f"{size}-{number}",), node_count=size, loss_node_s=9 - number // 2)
        for size in (1, 2, 5)
        for number in range(8)
    ]
    tried = worth_trying(tuple(items), 3, LOSS, STEPS, 60.0)
    assert [item.job_ids[0] for item in tried] == ["1-4", "1-6", "1-7", "2-6", "2-7", "5-6"]


def test_one_that_can_save_its_work_is_tried() -> None:
    """It may be the best one by a later deadline."""
    saves = EvictionJob(job_ids=("s",), node_count=1, loss_node_s=90, system_s=60.0)
    others = [EvictionJob(job_ids=(f"j{number}",), node_count=1, loss_node_s=5) for number in range(3)]
    tried = worth_trying((*others, saves), 1, LOSS, STEPS, 60.0)
    assert tried == (others[0], saves)


def plain_best(items: list[EvictionJob], most: int, weights: PriceWeights, steps: int) -> list[int]:
    """`best_in_any_time`, one number of steps after another."""
    found: set[int] = set()
    for limit in range(steps + 1):
        prices = [
            min(
                weights.price(item, method)
                for method in METHODS
                if (duration := duration_steps(item, method, 1.0)) is not None and duration <= limit
            )
            for item in items
        ]
        found |= {*sorted(range(len(items)), key=prices.__getitem__)[:most]}
    return sorted(found)


def test_the_best_in_any_time_are_those_of_each_time() -> None:
    draw = Random(8)
    for _ in range(500):
        items, needed = instance(draw)
        items.sort(key=lambda item: item.job_ids)
        weights = PriceWeights.of(items, needed)
        most, steps = draw.randint(1, 5), draw.randint(0, STEPS)
        assert best_in_any_time(items, most, weights, steps, 1.0) == plain_best(items, most, weights, steps)


def test_of_many_that_can_save_their_work_few_are_tried() -> None:
    items = tuple(
        EvictionJob(
            job_ids=(f"j{number:03}",), node_count=1, loss_node_s=900 - number, system_s=60.0 + number
        )
        for number in range(300)
    )
    tried = worth_trying(items, 2, LOSS, 10, 60.0)
    assert [item.job_ids[0] for item in tried] == ["j000", "j001", "j298", "j299"]
