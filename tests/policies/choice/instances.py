"""Small instances of the choice on shared nodes: by hand, and random ones for the enumerator."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from makeway.policies.choice.choose import choose
from makeway.policies.choice.instance import Choice, ChoiceInstance, ChoiceProof, Occupant, WayToLeave
from makeway.policies.choice.reference import enumerate_choice
from makeway.policies.model import Method, Resources, total

NAMES = ("cpu", "mem", "gres/gpu", "gres/gpu:a100")
"""The resources of random instances: the first one to four of them."""


def kill(loss_node_s: int) -> WayToLeave:
    return WayToLeave(method=Method.KILL, loss_node_s=loss_node_s)


def application(steps: int) -> WayToLeave:
    return WayToLeave(method=Method.APPLICATION, checkpoint_steps=steps)


def system(steps: int) -> WayToLeave:
    return WayToLeave(method=Method.SYSTEM, checkpoint_steps=steps, serial_steps=steps)


def occupant(job_id: str, held: Mapping[str, Mapping[str, int]], *ways: WayToLeave) -> Occupant:
    """A job by what it holds on each of its nodes; without ways it is protected."""
    return Occupant(
        job_id=job_id,
        nodes=tuple(held),
        allocation=tuple(Resources.of(amounts) for amounts in held.values()),
        ways=ways,
    )


def instance(
    free: Mapping[str, Mapping[str, int]],
    demand: Mapping[str, int] | None,
    node_count: int,
    *occupants: Occupant,
    budget_steps: int = 0,
) -> ChoiceInstance:
    return ChoiceInstance(
        free={name: Resources.of(amounts) for name, amounts in free.items()},
        demand=None if demand is None else Resources.of(demand),
        node_count=node_count,
        occupants=occupants,
        budget_steps=budget_steps,
    )


def random_instance(seed: int, most_jobs: int = 12) -> ChoiceInstance:
    """Up to 8 nodes, 1 to 4 resources, jobs on 1 to 8 nodes, some protected, some with checkpoints; half the
    time so alike that ties are the rule.
    """
    rng = random.Random(seed)
    alike = rng.random() < 0.5
    resources = NAMES[: rng.randint(1, len(NAMES))]
    nodes = [f"n{index}" for index in range(rng.randint(1, 8))]
    occupants = [
        _random_occupant(rng, f"j{index}", nodes, resources, alike)
        for index in range(rng.randint(0, most_jobs))
    ]
    free = {name: {resource: rng.choice((0, 0, 1, 2, 3)) for resource in resources} for name in nodes}
    return instance(
        free,
        None if rng.random() < 0.1 else {name: rng.randint(0, 5) for name in resources},
        rng.randint(1, min(4, len(nodes))),
        *occupants,
        budget_steps=rng.choice((0, 2, 4, 6)),
    )


def with_random_ways(asked: ChoiceInstance, seed: int) -> ChoiceInstance:
    """The instance, in which most nodes can meet the demand in one to four ways."""
    rng = random.Random(seed)
    if asked.demand is None:
        return asked
    names = [name for name in asked.free if rng.random() < 0.8]
    resources = [*(name for name, _ in asked.demand.amounts), "gres/shard#0/4", "gres/shard#1/4"]

    def way() -> Resources:
        return Resources.of(
            {name: rng.randint(0, 4) for name in rng.sample(resources, min(3, len(resources)))}
        )

    ways = {name: tuple(way() for _ in range(rng.randint(1, 4))) for name in names}
    return replace(asked, alternatives=ways)


def parted_instance(seed: int, node_count: int = 1) -> tuple[ChoiceInstance, dict[str, Resources]]:
    """Nodes with up to three GPUs of four shards, on which jobs have shards or GPUs, and what the nodes have.

    Up to 9 jobs, on one node or two; some are protected.
    """
    rng = random.Random(seed)
    gpus = [f"gres/shard#{number}/4" for number in range(rng.randint(1, 3))]
    whole = {"cpu": 8} | dict.fromkeys(gpus, 4)
    free = {f"n{index}": dict(whole) for index in range(rng.randint(node_count, 3))}
    occupants: list[Occupant] = []
    for number in range(rng.randint(1, 9)):
        held: dict[str, dict[str, int]] = {}
        for name in rng.sample(sorted(free), rng.choice((1, 1, min(2, len(free))))):
            gpu, parts = rng.choice(gpus), rng.choice((1, 1, 2, 3, 4))
            if free[name][gpu] >= parts:
                free[name][gpu] -= parts
                held[name] = {"cpu": 1, gpu: parts}
        ways = [kill(rng.randint(0, 9)), *([system(rng.randint(1, 3))] if rng.random() < 0.3 else [])]
        if held:
            occupants.append(occupant(f"j{number}", held, *(ways if rng.random() < 0.8 else [])))
    demand = {"cpu": 1} | rng.choice(({"gres/shard": rng.randint(1, 5)}, {"gres/gpu": rng.randint(1, 3)}))
    asked = instance(free, demand, node_count, *occupants, budget_steps=rng.choice((0, 2)))
    return asked, dict.fromkeys(free, Resources.of(whole))


def _random_occupant(
    rng: random.Random, job_id: str, nodes: Sequence[str], resources: Sequence[str], alike: bool
) -> Occupant:
    width = rng.choice((1, 1, 2, rng.randint(1, len(nodes))))
    held = {
        name: {resource: rng.randint(0, 5) for resource in resources}
        for name in rng.sample(nodes, min(width, len(nodes)))
    }
    ways = [kill(rng.choice((0, 1, 2)) if alike else rng.randint(0, 100_000))]
    if rng.random() < 0.15:
        ways.append(application(rng.randint(0, 6)))
    if rng.random() < 0.4:
        ways.append(system(rng.randint(0, 4)))
    return occupant(job_id, held, *([] if rng.random() < 0.15 else ways))


def faults(asked: ChoiceInstance, choice: Choice) -> list[str]:
    """What is wrong with a choice, whatever it loses; recomputed from the instance alone."""
    held = {job.job_id: dict(zip(job.nodes, job.allocation, strict=True)) for job in asked.occupants}
    gone = {leaving.occupant.job_id for leaving in choice.leaving}
    found: list[str] = []
    if len(set(choice.nodes)) != asked.node_count or not set(choice.nodes) <= set(asked.free):
        found.append(f"{choice.nodes} are not {asked.node_count} candidates")
    for node in choice.nodes:
        there = {job_id for job_id, nodes in held.items() if node in nodes}
        freed = total([asked.free[node], *(held[job_id][node] for job_id in there & gone)])
        ways = () if asked.demand is None else asked.alternatives.get(node, (asked.demand,))
        if there - gone if asked.demand is None else not any(map(freed.covers, ways)):
            found.append(f"{node} does not serve")
    if any(leaving.way not in leaving.occupant.ways for leaving in choice.leaving):
        found.append("a job leaves in a way that it does not have")
    if choice.serial_steps > asked.budget_steps:
        found.append("over the budget")
    if choice.loss_node_s != sum(leaving.way.loss_node_s for leaving in choice.leaving):
        found.append("the loss is not the sum of the losses")
    if not 0 <= choice.bound_node_s <= choice.loss_node_s:
        found.append("the bound is no bound")
    if choice.proven != (choice.bound_node_s == choice.loss_node_s):
        found.append("proven, and not by its bound")
    return found


def price(choice: Choice) -> tuple[int, int, int]:
    return choice.loss_node_s, choice.checkpoint_steps, len(choice.leaving)


def compare(asked: ChoiceInstance) -> ChoiceProof | None:
    """Assert that the choice loses what the enumerator's loses; how it was proven."""
    choice, expected = choose(asked), enumerate_choice(asked)
    if choice is None or expected is None:
        assert choice is expected
        return None
    assert faults(asked, choice) == []
    assert choice.loss_node_s == expected.loss_node_s
    assert choice.proven
    assert price(choice) >= price(expected)
    return choice.proof


def shuffled(asked: ChoiceInstance, seed: int) -> ChoiceInstance:
    """The same instance with everything in another order."""
    rng = random.Random(seed)
    occupants = [
        occupant(
            job.job_id,
            {
                name: dict(held.amounts)
                for name, held in _mixed(rng, zip(job.nodes, job.allocation, strict=True))
            },
            *_mixed(rng, job.ways),
        )
        for job in asked.occupants
    ]
    return replace(asked, free=dict(_mixed(rng, asked.free.items())), occupants=tuple(_mixed(rng, occupants)))


_Item = TypeVar("_Item")


def _mixed(rng: random.Random, items: Iterable[_Item]) -> list[_Item]:
    mixed = list(items)
    rng.shuffle(mixed)
    return mixed


def crowded_wide_instance(node_count: int, job_count: int, chosen_count: int, seed: int) -> ChoiceInstance:
    """Nodes with more jobs than all sets of them can be tried, half of the jobs on 2 to 8 nodes: no proof
    within the effort.
    """
    rng = random.Random(seed)
    names = [f"n{index:04}" for index in range(node_count)]
    free = {name: {"cpu": 64, "gres/gpu": 8, "mem": 256} for name in names}
    occupants: list[Occupant] = []
    for number in range(job_count):
        cpus = rng.choice((1, 2, 3, 4, 5, 7))
        held = {"cpu": cpus, "gres/gpu": rng.choice((0, 0, 1)), "mem": cpus * rng.randint(1, 6)}
        fits = [name for name in names if all(free[name][key] >= amount for key, amount in held.items())]
        width = rng.randint(2, 8) if rng.random() < 0.5 else 1
        if len(fits) < width:
            continue
        on = rng.sample(fits, width)
        for name in on:
            free[name] = {key: free[name][key] - amount for key, amount in held.items()}
        ways = [kill(rng.randint(1, 3600) * width)]
        if rng.random() < 0.4:
            ways.append(system(rng.randint(1, 12)))
        occupants.append(occupant(str(number), dict.fromkeys(on, held), *ways))
    demand = {"cpu": 48, "gres/gpu": 2, "mem": 150}
    return instance(free, demand, chosen_count, *occupants, budget_steps=20)
