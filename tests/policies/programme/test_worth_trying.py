"""Items that are in no best choice change no plan, whether or not they are left out."""

from random import Random

import pytest

from makeway.policies.model import Method
from makeway.policies.programme import knapsack
from makeway.policies.programme.items import EvictionJob
from makeway.policies.programme.knapsack import EvictionPlan, ProgrammeItems, solve
from makeway.policies.programme.worth_trying import worth_trying

STEPS = 4


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


def test_plans_are_those_of_all_items(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, left_out = Random(7), 0
    for _ in range(1500):
        items, needed = instance(draw)
        found = plans(items, needed)
        with monkeypatch.context() as patch:
            patch.setattr(knapsack, "worth_trying", lambda ordered, lacking, price: ordered)
            assert found == plans(items, needed), (items, needed)
            all_items = ProgrammeItems.of(items, needed)
        tried = ProgrammeItems.of(items, needed)
        assert (tried.extra_node_count, tried.givers) == (all_items.extra_node_count, all_items.givers)
        left_out += len(all_items.ordered) - len(tried.ordered)
    assert left_out > 1000


def test_as_many_of_a_size_are_tried_as_free_all_nodes() -> None:
    items = [
        EvictionJob(job_ids=(f"{size}-{number}",), node_count=size, loss_node_s=9 - number // 2)
        for size in (1, 2, 5)
        for number in range(8)
    ]
    tried = worth_trying(tuple(items), 3, lambda item, method: 1 + item.cost_node_s(method))
    assert [item.job_ids[0] for item in tried] == ["1-4", "1-6", "1-7", "2-6", "2-7", "5-6"]


def test_one_that_can_save_its_work_is_tried() -> None:
    """It may be the best one by a later deadline."""
    saves = EvictionJob(job_ids=("s",), node_count=1, loss_node_s=90, system_s=60.0)
    others = [EvictionJob(job_ids=(f"j{number}",), node_count=1, loss_node_s=5) for number in range(3)]
    tried = worth_trying((*others, saves), 1, lambda item, method: 1 + item.cost_node_s(method))
    assert tried == (others[0], saves)
