"""The choice on shared nodes compared with the plain enumerator, and with the programme for whole nodes."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.choice.choose import choose
from makeway.policies.choice.instance import ChoiceProof
from makeway.policies.choice.reference import enumerate_choice
from makeway.policies.programme.items import EvictionJob
from makeway.policies.programme.knapsack import solve
from tests.policies.choice.instances import (
    compare,
    faults,
    instance,
    kill,
    occupant,
    price,
    random_instance,
    shuffled,
    system,
)

SEEDS = st.integers(min_value=0, max_value=1 << 40)


@pytest.mark.parametrize("block", range(10))
def test_it_loses_what_the_enumerator_loses(block: int) -> None:
    proofs = [compare(random_instance(seed)) for seed in range(500 * block, 500 * (block + 1))]
    assert set(proofs) == {None, ChoiceProof.BOUNDS, ChoiceProof.SOLVER}


@pytest.mark.parametrize("most_jobs", [0, 2, 4])
def test_crowded_nodes_lose_no_more(monkeypatch: pytest.MonkeyPatch, most_jobs: int) -> None:
    monkeypatch.setattr("makeway.policies.choice.covers.MOST_JOBS", most_jobs)
    monkeypatch.setattr("makeway.policies.choice.covers.MOST_CELLS", 0)
    proofs = [compare(random_instance(seed)) for seed in range(5000, 5400)]
    assert ChoiceProof.SOLVER in proofs


@pytest.mark.parametrize("most_cells", [16, 128])
def test_of_nodes_with_many_jobs_those_with_the_fewest_are_not_crowded(
    monkeypatch: pytest.MonkeyPatch, most_cells: int
) -> None:
    monkeypatch.setattr("makeway.policies.choice.covers.MOST_JOBS", 1)
    monkeypatch.setattr("makeway.policies.choice.covers.MOST_CELLS", most_cells)
    for seed in range(6000, 6200):
        compare(random_instance(seed))


@pytest.mark.parametrize(("ascents", "few_covers"), [(0, 0), (4, 0), (0, 60)])
def test_each_step_alone_is_exact(monkeypatch: pytest.MonkeyPatch, ascents: int, few_covers: int) -> None:
    monkeypatch.setattr("makeway.policies.choice.choose._ASCENTS", ascents)
    monkeypatch.setattr("makeway.policies.choice.choose._TIE_ASCENTS", ascents)
    monkeypatch.setattr("makeway.policies.choice.choose._FEW_COVERS", few_covers)
    proofs = [compare(random_instance(seed)) for seed in range(7000, 7300)]
    assert ChoiceProof.SOLVER in proofs


@settings(deadline=None)
@given(seed=SEEDS)
def test_it_loses_what_the_enumerator_loses_on_any_seed(seed: int) -> None:
    compare(random_instance(seed, most_jobs=8))


@settings(deadline=None)
@given(seed=SEEDS)
def test_more_time_never_loses_more(seed: int) -> None:
    asked = random_instance(seed)
    choices = [choose(replace(asked, budget_steps=steps)) for steps in range(0, 9, 2)]
    losses = [None if choice is None else choice.loss_node_s for choice in choices]
    if losses[0] is None:
        assert set(losses) == {None}
    else:
        found = [loss for loss in losses if loss is not None]
        assert found == sorted(found, reverse=True)
        assert len(found) == len(losses)


@settings(deadline=None)
@given(seed=SEEDS)
def test_more_nodes_never_lose_less(seed: int) -> None:
    asked = random_instance(seed)
    losses: list[float] = []
    for node_count in range(len(asked.free) + 1):
        choice = choose(replace(asked, node_count=node_count))
        losses.append(float("inf") if choice is None else choice.loss_node_s)
    assert losses == sorted(losses)


@settings(deadline=None)
@given(seed=SEEDS)
def test_the_order_of_what_is_given_does_not_matter(seed: int) -> None:
    asked = random_instance(seed)
    choice, again = choose(asked), choose(shuffled(asked, seed))
    if choice is None or again is None:
        assert choice is again
        return
    assert (choice.nodes, price(choice), choice.proof) == (again.nodes, price(again), again.proof)
    assert [(leaving.occupant.job_id, leaving.way) for leaving in choice.leaving] == [
        (leaving.occupant.job_id, leaving.way) for leaving in again.leaving
    ]


def test_most_ties_are_broken_as_the_enumerator_breaks_them() -> None:
    pairs = [(choose(asked), enumerate_choice(asked)) for asked in map(random_instance, range(1000))]
    worse = [
        choice
        for choice, expected in pairs
        if choice is not None and expected is not None and price(choice) > price(expected)
    ]
    assert len(worse) <= 10


def test_one_node_is_always_proven() -> None:
    for seed in range(300):
        choice = choose(replace(random_instance(seed), node_count=1))
        assert choice is None or choice.proven


def test_an_effort_that_ends_gives_a_bound() -> None:
    unproven = 0
    for asked in map(random_instance, range(1000)):
        proven, ended = choose(asked), choose(asked, time_limit_s=0.0)
        if proven is None or ended is None:
            assert proven is ended
        else:
            assert faults(asked, ended) == []
            assert ended.bound_node_s <= proven.loss_node_s <= ended.loss_node_s
            unproven += not ended.proven
    assert unproven


@pytest.mark.parametrize("seed", range(60))
def test_whole_nodes_of_one_job_each_are_the_programme_of_whole_nodes(seed: int) -> None:
    rng = random.Random(seed)
    items = [
        EvictionJob(
            job_ids=(f"{index:02}",),
            node_count=rng.randint(1, 4),
            loss_node_s=rng.randint(0, 1000),
            system_s=rng.choice((None, float(rng.randint(1, 6)))),
        )
        for index in range(rng.randint(1, 12))
    ]
    needed = rng.randint(1, sum(item.node_count for item in items))
    plan = solve(items, needed, 8.0, 1.0).plan(8.0)
    jobs = [
        occupant(
            item.job_ids[0],
            {f"{item.job_ids[0]}-{node}": {"cpu": 8} for node in range(item.node_count)},
            kill(item.loss_node_s),
            *([] if item.system_s is None else [system(int(item.system_s))]),
        )
        for item in items
    ]
    free = {name: {"cpu": 0} for job in jobs for name in job.nodes}
    choice = choose(instance(free, {"cpu": 8}, needed, *jobs, budget_steps=8))
    assert plan is not None
    assert choice is not None
    assert choice.loss_node_s == plan.loss_node_s


def test_losses_of_any_size_are_weighed() -> None:
    jobs = [occupant(str(index), {f"n{index}": {"cpu": 1}}, kill((1 << 60) + index)) for index in range(3)]
    free = {f"n{index}": {"cpu": 0} for index in range(3)}
    choice = choose(instance(free, {"cpu": 1}, 2, *jobs))
    assert choice is not None
    assert choice.loss_node_s == (1 << 61) + 1
    with pytest.raises(ValueError, match="beyond what can be weighed"):
        choose(instance(free, {"cpu": 1}, 2, *jobs, occupant("4", {"n0": {"cpu": 1}}, kill(1 << 60))))
