"""Where no job is on two of the nodes that are left, the choice is worked out node by node."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.choice import by_node as by_node_module
from makeway.policies.choice import covers
from makeway.policies.choice.bounds import Space
from makeway.policies.choice.by_node import best_by_node
from makeway.policies.choice.choose import choose
from makeway.policies.choice.instance import Choice, ChoiceInstance, ChoiceProof
from makeway.policies.choice.prices import price_jobs
from makeway.policies.choice.reference import enumerate_choice
from makeway.policies.choice.search import Found
from makeway.policies.choice.table import tabulate
from makeway.policies.model import Resources
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


def varied(seed: int, most: int = 40_000) -> ChoiceInstance:
    """Up to three nodes of jobs that hold unlike amounts, up to `most`, of up to three resources."""
    rng = random.Random(seed)
    resources = ("cpu", "mem", "gres/gpu")[: rng.randint(1, 3)]
    nodes = [f"n{index}" for index in range(rng.randint(1, 3))]
    jobs = [
        occupant(
            f"j{number}",
            {rng.choice(nodes): {name: rng.choice((0, rng.randint(1, most))) for name in resources}},
            kill(rng.randint(0, 9)),
            *([system(rng.randint(1, 3))] if rng.random() < 0.4 else []),
        )
        for number in range(rng.randint(3, 9))
    ]
    free = {name: {resource: rng.randint(0, min(9, most // 4)) for resource in resources} for name in nodes}
    demand = {name: rng.choice((0, rng.randint(1, most * 3 // 2))) for name in resources}
    return instance(free, demand, rng.randint(1, len(nodes)), *jobs, budget_steps=rng.randint(0, 5))


@pytest.mark.usefixtures("no_solver")
@pytest.mark.parametrize("most", [3, 40_000])
def test_amounts_may_be_large_and_unlike_each_other(most: int) -> None:
    assert {compare(varied(seed, most)) for seed in range(300)} == {None, ChoiceProof.BOUNDS}


def in_two_ways(seed: int) -> ChoiceInstance:
    """A node with four jobs, and two with fewer that can serve in two ways; two or three are needed."""
    rng = random.Random(seed)
    jobs = [
        occupant(
            f"j{node}{number}",
            {f"n{node}": {"x": rng.randint(0, 2), "y": rng.randint(0, 2)}},
            kill(rng.randint(0, 20)),
            *([system(rng.randint(1, 3))] if rng.random() < 0.4 else []),
        )
        for node in range(3)
        for number in range(2 if node else 4)
    ]
    ways = {f"n{node}": tuple(Resources.of({name: rng.randint(1, 3)}) for name in "xy") for node in (1, 2)}
    free = {f"n{node}": {"x": 0, "y": 0} for node in range(3)}
    asked = instance(free, {"x": 2}, rng.randint(2, 3), *jobs, budget_steps=rng.choice((0, 4)))
    return replace(asked, alternatives=ways)


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


def by_node(asked: ChoiceInstance, most_cells: int = 10_000_000) -> Found | None:
    """The choice among all nodes, in so much effort. None: it would be too much, or there is none."""
    table = tabulate(asked, covers.MOST_JOBS)
    count = asked.node_count - len(table.ready)
    if count <= 0 or not len(table.host):
        return None
    space = Space(
        table=table, covers=covers.covers_of(table), crowded=covers.crowded_nodes(table), count=count
    )
    return best_by_node(space, price_jobs(table, count, asked.budget_steps).full, most_cells)


@pytest.mark.parametrize(("most_jobs", "most"), [(0, 40_000), (0, 3), (3, 3)])
def test_no_other_choice_loses_less(monkeypatch: pytest.MonkeyPatch, most_jobs: int, most: int) -> None:
    """Whatever was found before."""
    monkeypatch.setattr("makeway.policies.choice.covers.MOST_JOBS", most_jobs)
    made = 0
    for seed in range(150):
        asked = in_two_ways(seed) if most_jobs else varied(seed, most)
        found, expected = by_node(asked), enumerate_choice(asked)
        if found is None:
            continue
        assert expected is not None
        table = tabulate(asked, most_jobs)
        scale = price_jobs(table, asked.node_count - len(table.ready), asked.budget_steps).full.scale
        assert found.cost // scale == expected.loss_node_s
        made += 1
    assert made > 40


@pytest.mark.parametrize(("second", "found"), [("n1", False), ("n2", True)])
def test_a_job_on_two_of_the_nodes_is_left_to_the_solver(second: str, found: bool) -> None:
    """`n2` is no node that could serve."""
    both = occupant("j0", {name: {"cpu": 1} for name in ("n0", second)}, kill(9))
    others = [occupant(f"j{number}", {f"n{number % 2}": {"cpu": 1}}, kill(5)) for number in (1, 2)]
    asked = instance({"n0": {}, "n1": {}}, {"cpu": 1}, 2, both, *others)
    assert (by_node(asked) is not None) is found
    assert compare(asked) is not None


def test_amounts_beyond_whole_numbers_of_64_bits_are_left_to_the_solver() -> None:
    most = 1 << 22
    held = {"n0": dict.fromkeys(("cpu", "mem", "gres/gpu"), most)}
    jobs = [occupant(f"j{number}", held, kill(number)) for number in range(3)]
    asked = instance({"n0": {}}, dict.fromkeys(held["n0"], most + 1), 1, *jobs)
    assert by_node(asked) is None
    assert compare(asked) is not None


def unlike(asked: ChoiceInstance) -> ChoiceInstance:
    """The same where each job holds another amount of memory."""
    rng = random.Random(1)
    jobs = (
        replace(one, allocation=(Resources.of({"cpu": 1, "mem": rng.randint(1, 7)}),))
        for one in asked.occupants
    )
    return replace(asked, occupants=tuple(jobs))


def test_what_each_unlike_node_takes_counts() -> None:
    """What the jobs of a node may free is put together once for all nodes alike."""
    alike = full(40, 16, 2, budget_steps=0)
    assert by_node(alike, 400_000) is not None
    assert by_node(unlike(alike), 400_000) is None
    assert by_node(unlike(alike), 40_000_000) is not None


@pytest.mark.parametrize(
    ("most_cells", "looked_at", "worked_out"), [(400, 0, 0), (40_000, 1, 0), (1_200_000, 16, 16)]
)
def test_what_would_take_too_long_is_not_begun(
    monkeypatch: pytest.MonkeyPatch, most_cells: int, looked_at: int, worked_out: int
) -> None:
    """Not at all, not the first node, or not the nodes after the first sixteen."""
    calls = Counter[str]()

    def count(name: str, function: Callable[..., Any]) -> None:
        def counted(*asked: Any, **named: Any) -> Any:
            calls[name] += 1
            return function(*asked, **named)

        monkeypatch.setattr(by_node_module, name, counted)

    count("_states", by_node_module._states)
    count("_layers", by_node_module._layers)
    assert by_node(unlike(full(40, 16, 2, budget_steps=0)), most_cells) is None
    assert (calls["_states"], calls["_layers"]) == (looked_at, worked_out)


@pytest.mark.parametrize("budget_steps", [0, 6])
def test_nodes_alike_may_be_worked_out_in_parts(monkeypatch: pytest.MonkeyPatch, budget_steps: int) -> None:
    asked = full(9, 12, 3, budget_steps=budget_steps)
    whole = by_node(asked, 10_000_000)
    monkeypatch.setattr("makeway.policies.choice.by_node._AT_ONCE", 1)
    assert whole is not None
    assert by_node(asked, 10_000_000) == whole


def test_many_numbers_of_steps_count() -> None:
    """A node whose jobs save their work in turn may get cheaper with each further step."""
    jobs = [
        occupant(
            f"j{number}", {f"n{number % 4}": {"cpu": 1}}, kill(10 << number // 4), system(1 << number // 4)
        )
        for number in range(28)
    ]
    asked = instance({f"n{node}": {"cpu": 0} for node in range(4)}, {"cpu": 7}, 2, *jobs, budget_steps=127)
    assert by_node(asked, 600_000) is None
    assert by_node(asked, 2_000_000) is not None
