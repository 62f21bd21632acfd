"""The ways in which the GPUs of a node can meet a demand, where they are given out by parts.

Three parts of a GPU can be those of any GPU that has them, two GPUs can be any two. Each way is a demand of
its own, of which the choice takes the one that loses least.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

from makeway.policies.choice.instance import ChoiceInstance, Occupant
from makeway.policies.model import NO_RESOURCES, PartedGpu, Resources, alternatives, parted_gpu


def with_alternatives(instance: ChoiceInstance, capacities: Mapping[str, Resources]) -> ChoiceInstance:
    """The instance with the ways of all nodes whose GPUs are given out by parts.

    Of a node with more ways than are looked at, those count whose GPUs have no job that stays, and whose jobs
    lose little.

    Args:
        instance: the choice.
        capacities: what each node has.
    """
    demand = {} if instance.demand is None else dict(instance.demand.amounts)
    if not any(name.startswith("gres/") for name in demand):
        return instance
    parted = {name: gpus for name in instance.free if (gpus := _parted(capacities.get(name, NO_RESOURCES)))}
    losses = _losses(instance.occupants, parted) if parted else dict[tuple[str, str], float]()
    found: dict[str, tuple[Resources, ...]] = {}
    for name, gpus in parted.items():
        has = dict(capacities[name].amounts)
        if any(has.get(key, 0) < amount for key, amount in demand.items()):
            ways = alternatives(((gpu, losses.get((name, gpu.name), 0.0)) for gpu in gpus), demand)
            if ways:
                found[name] = tuple(map(Resources.of, ways))
    return replace(instance, alternatives=found) if found else instance


def _parted(capacity: Resources) -> tuple[PartedGpu, ...]:
    known = (parted_gpu(name) for name, _ in capacity.amounts if "#" in name)
    return tuple(gpu for gpu in known if gpu is not None)


def _losses(occupants: Iterable[Occupant], nodes: Iterable[str]) -> dict[tuple[str, str], float]:
    """By node and GPU: what is lost if all of its jobs leave; infinite if one of them stays."""
    there = frozenset(nodes)
    found: dict[tuple[str, str], float] = {}
    for one in occupants:
        loss = min((way.loss_node_s for way in one.ways), default=inf)
        for name, held in zip(one.nodes, one.allocation, strict=True):
            for gpu in _parted(held) if name in there else ():
                found[name, gpu.name] = found.get((name, gpu.name), 0.0) + loss
    return found
