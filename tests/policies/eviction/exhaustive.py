"""The eviction problem by trying every combination: the oracle of the programme with shrinking and with
sharing."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from makeway.policies.eviction.items import EvictionJob
from makeway.policies.model import Method


@dataclass(frozen=True, slots=True)
class Choice:
    """What one item does: leaves by `method`, or gives `given` nodes (0 and None: it does nothing)."""

    item: EvictionJob
    method: Method | None
    given: int = 0

    @property
    def freed(self) -> int:
        return self.given if self.method is Method.SHRINK else self.item.node_count if self.method else 0

    @property
    def leaves(self) -> bool:
        return self.method is not None and self.method is not Method.SHRINK

    @property
    def saves(self) -> bool:
        return self.method in (Method.APPLICATION, Method.SYSTEM)


def choices(item: EvictionJob) -> Iterator[Choice]:
    """Everything that an item can do; every number of nodes that it can give is a choice of its own."""
    yield Choice(item, None)
    yield Choice(item, Method.KILL)
    if item.system_s is not None:
        yield Choice(item, Method.SYSTEM)
    if item.application_s is not None:
        yield Choice(item, Method.APPLICATION)
    for given in range(1, item.spare_node_count + 1):
        yield Choice(item, Method.SHRINK, given)


Price = tuple[int, int, int, int, int]
"""Loss, steps of checkpoints, items that leave, nodes that these free, system checkpoints."""


def best_prices(
    items: Sequence[EvictionJob], needed: int, steps: int, time: Callable[[Sequence[Choice]], int]
) -> list[Price | None]:
    """The best price by each deadline. `time`: by which step a combination is done."""
    found: list[Price | None] = [None] * (steps + 1)
    for combination in itertools.product(*(list(choices(item)) for item in items)):
        if sum(choice.freed for choice in combination) < needed:
            continue
        loss = sum(choice.item.cost_node_s(choice.method) for choice in combination if choice.method)
        cheapest = found[-1]
        used = time(combination)
        if used > steps or (cheapest is not None and used == steps and loss > cheapest[0]):
            continue
        price = (
            loss,
            used,
            sum(choice.leaves for choice in combination),
            sum(choice.freed for choice in combination if choice.leaves),
            sum(choice.method is Method.SYSTEM for choice in combination),
        )
        for step in range(used, steps + 1):
            known = found[step]
            if known is None or price < known:
                found[step] = price
    return found
