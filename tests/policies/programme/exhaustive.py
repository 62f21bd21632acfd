"""The eviction problem by trying every combination: the oracle of the programme with shrinking and with
sharing."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from makeway.policies.model import Method
from makeway.policies.programme.items import EvictionJob


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


def amounts(choice: Choice) -> tuple[int, int, int, int, int]:
    """Nodes that it frees, loss, whether it leaves, nodes that it frees by that, whether by a system
    checkpoint.
    """
    loss = choice.item.cost_node_s(choice.method) if choice.method else 0
    by_leaving = choice.freed if choice.leaves else 0
    return choice.freed, loss, choice.leaves, by_leaving, choice.method is Method.SYSTEM


Price = tuple[int, int, int, int, int]
"""Loss, steps of checkpoints, items that leave, nodes that these free, system checkpoints."""


def best_prices(
    items: Sequence[EvictionJob], needed: int, steps: int, time: Callable[[Sequence[Choice]], int]
) -> list[Price | None]:
    """The best price by each deadline. `time`: by which step a combination is done."""
    found: list[Price | None] = [None] * (steps + 1)
    weighed = [[(choice, amounts(choice)) for choice in choices(item)] for item in items]
    for pairs in itertools.product(*weighed):
        freed, loss, leaving, by_leaving, system = map(sum, zip(*(of for _, of in pairs), strict=True))
        if freed < needed:
            continue
        at_once, cheapest = found[0], found[-1]
        if at_once is not None and loss > at_once[0]:
            continue  # no later deadline has a dearer best
        used = time([choice for choice, _ in pairs])
        if used > steps or (cheapest is not None and used == steps and loss > cheapest[0]):
            continue
        price = (loss, used, leaving, by_leaving, system)
        for step in range(used, steps + 1):
            known = found[step]
            if known is None or price < known:
                found[step] = price
    return found
