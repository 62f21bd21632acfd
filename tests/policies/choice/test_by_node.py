"""Where no job is on two of the nodes that are left, the choice is worked out node by node."""

import random
from dataclasses import replace

import pytest

from makeway.policies.choice.by_node import best_by_node
from makeway.policies.choice.choose import choose
from makeway.policies.choice.instance import Choice, ChoiceInstance, ChoiceProof
from tests.policies.choice.instances import (
    compare,
    instance,
    kill,
    occupant,
    random_instance,
    system,
    with_random_ways,
)


@pytest.fixture(autouse=True)
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes are crowded."""
    monkeypatch.setattr("makeway.policies.choice.covers.MOST_JOBS", 0)
    monkeypatch.setattr("makeway.policies.choice.covers.MOST_CELLS", 0)


@pytest.fixture
def no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS is not asked for the loss."""
    monkeypatch.delattr("makeway.policies.choice.choose.solve_whole")


def on_one_node(asked: ChoiceInstance) -> ChoiceInstance:
    """Each job is on its first node alone."""
    alone = (replace(one, nodes=one.nodes[:1], allocation=one.allocation[:1]) for one in asked.occupants)
    return replace(asked, occupants=tuple(alone))


@pytest.mark.usefixtures("no_solver")
@pytest.mark.parametrize("ways", [False, True])
def test_it_is_the_choice_of_the_enumerator(ways: bool) -> None:
    asked = [on_one_node(random_instance(seed)) for seed in range(8000, 8300)]
    if ways:
        asked = [replace(with_random_ways(one, seed), node_count=1) for seed, one in enumerate(asked)]
    assert {compare(one) for one in asked} == {None, ChoiceProof.BOUNDS}


@pytest.mark.usefixtures("no_solver")
def test_a_node_with_fewer_jobs_is_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("makeway.policies.choice.covers.MOST_JOBS", 2)
    for seed in range(8300, 8500):
        compare(on_one_node(random_instance(seed)))


def full(nodes: int, per_node: int, count: int, *, budget_steps: int, seed: int = 1) -> ChoiceInstance:
    """Nodes full of jobs of one core each, of which an urgent job needs three quarters."""
    rng = random.Random(seed)
    names = [f"n{index:03}" for index in range(nodes)]
    jobs = [
        occupant(
            f"j{number:05}",
            {name: {"cpu": 1, "mem": 4}},
            kill(rng.randint(600, 40_000)),
            *([system(rng.randint(1, 9))] if rng.random() < 1 / 3 else []),
        )
        for number, name in enumerate(name for name in names for _ in range(per_node))
    ]
    free = {name: {"cpu": 0, "mem": 0} for name in names}
    demand = {"cpu": per_node * 3 // 4, "mem": per_node * 2}
    return instance(free, demand, count, *jobs, budget_steps=budget_steps)


def test_full_nodes_are_proven_without_the_solver(no_solver: None) -> None:
    asked = full(60, 32, 4, budget_steps=18)
    choice = choose(asked)
    assert choice is not None
    assert choice.proof is ChoiceProof.BOUNDS
    assert choice.serial_steps <= 18


def test_it_loses_no_more_than_what_the_solver_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [full(6, 12, 2, budget_steps=8, seed=seed) for seed in range(5)]
    by_node = [choose(one) for one in asked]
    monkeypatch.setattr("makeway.policies.choice.choose.best_by_node", lambda *_: None)
    for found, solved in zip(by_node, map(choose, asked), strict=True):
        assert isinstance(found, Choice)
        assert isinstance(solved, Choice)
        assert solved.bound_node_s <= found.loss_node_s <= solved.loss_node_s


def test_amounts_that_are_all_different_are_left_to_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("makeway.policies.choice.by_node._MOST_STATES", 3)
    solved: list[object] = []
    monkeypatch.setattr(
        "makeway.policies.choice.choose.best_by_node", lambda *args: solved.append(best_by_node(*args))
    )
    choice = choose(full(6, 12, 2, budget_steps=8))
    assert choice is not None
    assert solved == [None]
