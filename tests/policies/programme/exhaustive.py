"""The eviction problem by trying every combination: the oracle of the programme with shrinking and with
sharing."""

import itertools
import operator
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


Amounts = tuple[int, int, int, int, int]
"""Nodes that come free, loss, items that leave, nodes that come free by that, system checkpoints."""


def amounts(choice: Choice) -> Amounts:
    """Those of one choice."""
    loss = choice.item.cost_node_s(choice.method) if choice.method else 0
    by_leaving = choice.freed if choice.leaves else 0
    return choice.freed, loss, choice.leaves, by_leaving, choice.method is Method.SYSTEM


def combinations(items: Sequence[EvictionJob]) -> list[tuple[tuple[Choice, ...], Amounts]]:
    """Every combination of choices, with its amounts."""
    found: list[tuple[tuple[Choice, ...], Amounts]] = [((), (0, 0, 0, 0, 0))]
    for item in items:
        each = [(choice, amounts(choice)) for choice in choices(item)]
        found = [((*chosen, choice), _sum(of, more)) for chosen, of in found for choice, more in each]
    return found


def _sum(one: Amounts, other: Amounts) -> Amounts:
    freed, loss, leaving, by_leaving, system = map(operator.add, one, other)
    return freed, loss, leaving, by_leaving, system


Price = tuple[int, int, int, int, int]
"""Loss, steps of checkpoints, items that leave, nodes that these free, system checkpoints."""


def best_prices(
    items: Sequence[EvictionJob], needed: int, steps: int, time: Callable[[Sequence[Choice]], int]
) -> list[Price | None]:
    """The best price by each deadline. `time`: by which step a combination is done."""
    found: list[Price | None] = [None] * (steps + 1)
    half = len(items) // 2
    halves = combinations(items[:half]), combinations(items[half:])
    for (chosen, one), (others, other) in itertools.product(*halves):
        if one[0] + other[0] < needed:
            continue
        loss = one[1] + other[1]
        at_once, cheapest = found[0], found[-1]
        if at_once is not None and loss > at_once[0]:
            continue  # no later deadline has a dearer best
        used = time(chosen + others)
        if used > steps or (cheapest is not None and used == steps and loss > cheapest[0]):
            continue
        _, _, leaving, by_leaving, system = _sum(one, other)
        price = (loss, used, leaving, by_leaving, system)
        for step in range(used, steps + 1):
            known = found[step]
            if known is None or price < known:
                found[step] = price
    return found
