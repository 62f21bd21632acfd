"""Prices of places that are made better step by step: always a bound, and never a worse one."""

import numpy as np
import pytest

from makeway.policies.choice.ascent import Raised, ascend
from makeway.policies.choice.bounds import Space, step_price_of
from makeway.policies.choice.covers import covers_of, crowded_nodes
from makeway.policies.choice.prices import CostObjective, price_jobs
from makeway.policies.choice.reference import enumerate_choice
from makeway.policies.choice.table import tabulate
from tests.policies.choice.instances import instance, kill, occupant, random_instance

LIMIT = 1 << 60


def space_of(seed: int) -> tuple[Space, CostObjective] | None:
    """The whole space of a random instance, and its losses; None where nothing has to leave, or cannot."""
    asked = random_instance(seed)
    table = tabulate(asked)
    missing = asked.node_count - len(table.ready)
    if not 0 < missing <= len(table.names):
        return None
    space = Space(table=table, covers=covers_of(table), crowded=crowded_nodes(table), count=missing)
    return space, price_jobs(table, missing, asked.budget_steps).loss


def bound(space: Space, raised: Raised) -> int:
    return space.cheapest(raised.prices) - raised.paid


def shared_bound(space: Space, objective: CostObjective) -> int:
    """The bound where each job costs as much on each of its nodes."""
    step_price = step_price_of(space, objective)
    prices = objective.prices(step_price) // space.shares()
    return space.cheapest(prices[space.table.place_job]) - step_price * objective.budget_steps


@pytest.mark.parametrize("most_jobs", [1, 10])
def test_no_choice_costs_less_than_the_bound(monkeypatch: pytest.MonkeyPatch, most_jobs: int) -> None:
    monkeypatch.setattr("makeway.policies.choice.covers.MOST_JOBS", most_jobs)
    monkeypatch.setattr("makeway.policies.choice.covers.MOST_CELLS", 0)
    looked_at = 0
    for seed in range(400):
        found, least = space_of(seed), enumerate_choice(random_instance(seed))
        if found is None or least is None:
            continue
        space, loss = found
        raised = ascend(space, loss, LIMIT, step_price_of(space, loss))
        again = ascend(space, loss, least.loss_node_s * loss.scale, raised)
        assert bound(space, raised) <= least.loss_node_s * loss.scale
        assert bound(space, again) <= least.loss_node_s * loss.scale
        looked_at += 1
    assert looked_at > 100


@pytest.mark.parametrize("seed", range(200))
def test_a_job_costs_at_most_what_its_leaving_costs(seed: int) -> None:
    found = space_of(seed)
    if found is None:
        return
    space, loss = found
    raised = ascend(space, loss, LIMIT, step_price_of(space, loss))
    costs = loss.prices(raised.step_price).tolist()
    assert raised.prices.min() >= 0
    for job, cost in enumerate(costs):
        prices = np.sort(raised.prices[space.table.place_job == job])
        assert prices[-space.count :].sum() <= cost


def test_the_bound_is_never_worse_than_that_of_equal_shares_and_often_better() -> None:
    better = 0
    for seed in range(400):
        found = space_of(seed)
        if found is None:
            continue
        space, loss = found
        least = enumerate_choice(random_instance(seed))
        assert least is not None
        raised = ascend(space, loss, least.loss_node_s * loss.scale, step_price_of(space, loss))
        rounding = 2 * len(space.table.place_job)
        assert bound(space, raised) >= shared_bound(space, loss) - rounding
        better += bound(space, raised) > shared_bound(space, loss) + rounding
    assert better >= 15


def test_a_job_is_paid_for_on_the_node_that_needs_it() -> None:
    """Two nodes are needed, and the second of the wide job's nodes is never one of them."""
    wide = occupant("w", {"n0": {"cpu": 4}, "n1": {"cpu": 1}}, kill(30))
    dear = occupant("d", {"n1": {"cpu": 3}}, kill(90))
    other = occupant("o", {"n2": {"cpu": 4}}, kill(50))
    asked = instance({"n0": {}, "n1": {}, "n2": {}}, {"cpu": 4}, 2, wide, dear, other)
    table = tabulate(asked)
    space = Space(table=table, covers=covers_of(table), crowded=crowded_nodes(table), count=2)
    loss = price_jobs(table, 2, 0).loss
    raised = ascend(space, loss, 81 * loss.scale, 0)
    assert shared_bound(space, loss) == 65 * loss.scale
    assert round(bound(space, raised) / loss.scale) == 80
    assert [table.names[space.covers.node[cover]] for cover in raised.chosen] == ["n0", "n2"]
