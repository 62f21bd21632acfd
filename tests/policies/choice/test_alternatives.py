"""Nodes that can meet the demand in several ways, as those whose GPUs are given out by parts."""

from dataclasses import replace

import pytest

from makeway.policies.choice.alternatives import with_alternatives
from makeway.policies.choice.bounds import Space
from makeway.policies.choice.choose import choose
from makeway.policies.choice.covers import covers_of, crowded_nodes
from makeway.policies.choice.instance import ChoiceInstance, ChoiceProof
from makeway.policies.choice.reference import enumerate_choice
from makeway.policies.choice.table import tabulate
from makeway.policies.model import Resources, total
from tests.policies.choice.instances import (
    compare,
    faults,
    instance,
    kill,
    occupant,
    parted_instance,
    random_instance,
    with_random_ways,
)

GPU_0, GPU_1 = "gres/shard#0/4", "gres/shard#1/4"


def crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call a node crowded on which more than two jobs may leave."""
    monkeypatch.setattr("makeway.policies.choice.choose.MOST_JOBS", 2)
    monkeypatch.setattr("makeway.policies.choice.covers.MOST_JOBS", 2)
    monkeypatch.setattr("makeway.policies.choice.covers.MOST_CELLS", 0)


@pytest.mark.parametrize("block", range(4))
def test_it_loses_what_the_enumerator_loses(block: int) -> None:
    seeds = range(500 * block, 500 * (block + 1))
    proofs = [compare(with_random_ways(random_instance(seed, 9), seed)) for seed in seeds]
    assert set(proofs) == {None, ChoiceProof.BOUNDS, ChoiceProof.SOLVER}


def test_one_crowded_node_loses_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd(monkeypatch)
    asked = [replace(random_instance(seed, 9), node_count=1) for seed in range(5000, 5400)]
    assert {compare(with_random_ways(one, seed)) for seed, one in enumerate(asked)} >= {ChoiceProof.SOLVER}


def test_several_crowded_nodes_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has one way alone if one of its ways concerns many jobs, which may lose more; else no more."""
    crowd(monkeypatch)
    exact = 0
    for seed in range(6000, 6600):
        asked = with_random_ways(random_instance(seed, 9), seed)
        if tabulate(asked).names == tabulate(asked, 2).names:
            exact += compare(asked) is not None
            continue
        choice, expected = choose(asked), enumerate_choice(asked)
        assert (choice is None) == (expected is None)
        if choice is not None and expected is not None:
            assert faults(asked, choice) == []
            assert choice.loss_node_s >= expected.loss_node_s
    assert exact > 120


def test_a_crowded_node_is_chosen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its GPUs would serve at a lower loss than the other node."""
    crowd(monkeypatch)
    jobs = [
        occupant(f"{gpu}-{part}", {"n1": {gpu: 1}}, kill(1)) for gpu in (GPU_0, GPU_1) for part in range(4)
    ]
    dear = occupant("dear", {"n2": {GPU_0: 4}}, kill(100))
    plain = instance({"n1": {}, "n2": {}}, {"gres/shard": 4}, 2, *jobs, dear)
    asked = with_alternatives(plain, dict.fromkeys(("n1", "n2"), Resources.of({GPU_0: 4, GPU_1: 4})))
    choice = choose(asked)
    assert choice is not None
    assert (choice.nodes, choice.loss_node_s) == (("n1", "n2"), 104)


def test_a_job_is_shared_out_among_all_nodes_that_it_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it is in the second way alone of one of them, and another one is crowded."""
    crowd(monkeypatch)
    wide = occupant("wide", {"n1": {GPU_1: 4}, "n2": {GPU_0: 1}}, kill(1))
    narrow = [occupant(f"j{part}", {"n2": {GPU_0: 1}}, kill(1)) for part in range(3)]
    other = occupant("k", {"n1": {GPU_0: 4}}, kill(1))
    plain = instance({"n1": {}, "n2": {}}, {"gres/shard": 4}, 2, wide, other, *narrow)
    capacities = {"n1": Resources.of({GPU_0: 4, GPU_1: 4}), "n2": Resources.of({GPU_0: 4})}
    table = tabulate(with_alternatives(plain, capacities), 2)
    space = Space(table=table, covers=covers_of(table), crowded=crowded_nodes(table), count=2)
    shares = dict(zip((job.job_id for job in table.jobs), space.shares().tolist(), strict=True))
    assert shares == {"wide": 2, "k": 1, "j0": 1, "j1": 1, "j2": 1}


@pytest.mark.parametrize("node_count", [1, 2])
def test_gpus_that_are_given_by_parts(node_count: int) -> None:
    """What the plain rule of the model calls room is room, and no cheaper set of jobs makes any."""
    served = 0
    for seed in range(400):
        plain, capacities = parted_instance(seed, node_count)
        asked = with_alternatives(plain, capacities)
        compare(asked)
        choice = choose(asked)
        if choice is not None and plain.demand is not None:
            gone = {one.occupant.job_id for one in choice.leaving}
            for node in choice.nodes:
                freed = [
                    held
                    for job in plain.occupants
                    if job.job_id in gone
                    for name, held in zip(job.nodes, job.allocation, strict=True)
                    if name == node
                ]
                assert total([plain.free[node], *freed]).covers(plain.demand)
            served += 1
    assert served > 120


def two_gpus(demand: dict[str, int]) -> ChoiceInstance:
    """A node with two GPUs of four shards, of which jobs have all."""
    jobs = [
        occupant("a", {"n1": {GPU_0: 2}}, kill(10)),
        occupant("b", {"n1": {GPU_0: 2}}, kill(1)),
        occupant("c", {"n1": {GPU_1: 2}}, kill(1)),
        occupant("d", {"n1": {GPU_1: 2}}, kill(5)),
    ]
    plain = instance({"n1": {}}, demand, 1, *jobs)
    return with_alternatives(plain, {"n1": Resources.of({GPU_0: 4, GPU_1: 4})})


def left(asked: ChoiceInstance) -> list[str] | None:
    choice = choose(asked)
    return None if choice is None else [one.occupant.job_id for one in choice.leaving]


def test_the_shards_of_one_job_come_from_one_gpu() -> None:
    """The two cheapest jobs have four shards, two of each GPU."""
    assert left(two_gpus({"gres/shard": 3})) == ["c", "d"]


def test_a_gpu_is_free_when_all_of_its_jobs_have_left() -> None:
    assert left(two_gpus({"gres/gpu": 1})) == ["c", "d"]
    assert left(two_gpus({"gres/gpu": 2})) == ["a", "b", "c", "d"]


def test_no_more_is_served_than_a_gpu_has() -> None:
    assert left(two_gpus({"gres/shard": 5})) is None
    assert left(two_gpus({"gres/gpu": 3})) is None
    assert left(two_gpus({"gres/gpu:a100": 1})) is None


def test_of_many_sets_of_gpus_the_cheap_ones_are_looked_at() -> None:
    """Eight of sixteen GPUs are 12,870 sets. The first GPU has a job that stays, the second a dear one."""
    gpus = [f"gres/shard#{number}/2" for number in range(16)]
    stays = occupant("p", {"n1": {gpus[0]: 1}})
    dear = occupant("q", {"n1": {gpus[1]: 1}}, kill(100))
    cheap = [occupant(f"r{gpu}", {"n1": {gpu: 2}}, kill(1)) for gpu in gpus[2:]]
    plain = instance({"n1": {gpus[0]: 1, gpus[1]: 1}}, {"gres/gpu": 8}, 1, stays, dear, *cheap)
    asked = with_alternatives(plain, {"n1": Resources.of(dict.fromkeys(gpus, 2))})
    assert len(asked.alternatives["n1"]) == 100
    choice = choose(asked)
    assert choice is not None
    assert choice.loss_node_s == 8
