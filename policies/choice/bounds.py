"""A lower bound of what a choice costs, by the prices of each job on each of its nodes.

If a job's prices on any K of its nodes are together at most what its leaving costs, then no choice of K nodes
costs less than the K cheapest nodes at these prices. A serial step may have a price, too: the bound is then
less by what all steps of the budget would cost. Prices are integers, so that the bound is exact.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from makeway.policies.choice.covers import Covers
from makeway.policies.choice.crowded import CrowdedNodes
from makeway.policies.choice.prices import CostObjective
from makeway.policies.choice.table import ChoiceTable, Flags, Integers, numbered

_STEP_PRICES = 16
"""At how many prices of a serial step, about, the shared bound is looked at."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Space:
    """The choices that are possible: the covers of some nodes, of which as many as needed are chosen."""

    table: ChoiceTable
    covers: Covers
    crowded: Flags
    """For each node of the table whether it has covers that `covers` does not have."""
    count: int
    """How many nodes are to be chosen; at least 1."""

    def shares(self) -> Integers:
        """Among how many nodes each job is shared out: at most as many of its nodes are chosen."""
        kept = numbered(self.covers.places, len(self.table.place_job))[0]
        if self.has_crowded:
            kept = np.flatnonzero(np.isin(self.table.host[self.table.place_node], self.covers.nodes))
        nodes = np.bincount(self.table.place_job[kept], minlength=len(self.table.jobs))
        return np.minimum(self.count, np.maximum(1, nodes))

    @cached_property
    def crowded_nodes(self) -> CrowdedNodes:
        """Those of the nodes that are crowded."""
        return CrowdedNodes(self.table, self.covers.nodes[self.crowded[self.covers.nodes]])

    @property
    def has_crowded(self) -> bool:
        """Whether any of the nodes is crowded."""
        return bool(self.crowded[self.covers.nodes].any())

    def costs(self, prices: Integers) -> tuple[Integers, Integers]:
        """A bound of the cost of each cover, and of the cheapest of each node, from the prices of places."""
        costs = self.covers.costs(prices)
        least = self.covers.least(costs)
        crowded = self.crowded[self.covers.nodes]
        if crowded.any():
            least[crowded] = self.crowded_nodes.least(prices)
            costs = np.where(self.crowded[self.covers.node], self.covers.spread(least), costs)
        return costs, least

    def cheapest(self, prices: Integers) -> int:
        """What no choice costs less than, from the prices of places."""
        least = self.costs(prices)[1]
        return int(np.partition(least, self.count - 1)[: self.count].sum())

    def below(self, limit: int, prices: Integers, paid: int) -> "Bounds":
        """What the prices of places say about choices that cost less than a limit.

        Args:
            limit: what a choice costs that is known.
            prices: of the places of the table.
            paid: what the serial steps of the budget cost.
        """
        costs, least = self.costs(prices)
        ordered = np.partition(least, self.count - 1)
        total = int(ordered[: self.count].sum()) - paid
        if total >= limit:
            return Bounds(least=limit, space=None)
        others = total - self.covers.spread(np.minimum(least, ordered[self.count - 1]))
        kept = others + costs < limit
        if kept.all():
            return Bounds(least=total, space=self)
        if np.count_nonzero(np.logical_or.reduceat(kept, self.covers.first)) < self.count:
            return Bounds(least=limit, space=None)
        return Bounds(least=total, space=self.only(kept))

    def only(self, kept: Flags) -> "Space":
        """The choices of the covers that are kept."""
        return Space(table=self.table, covers=self.covers.only(kept), crowded=self.crowded, count=self.count)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """What is known about choices that cost less than a limit."""

    least: int
    """No choice costs less than this; it is at most the limit."""
    step_price: int = 0
    """The price of a serial step that the bound is by."""
    space: Space | None
    """Where such a choice is, if there is one. None: there is none."""

    def then(self, later: "Bounds") -> "Bounds":
        """What is known after the space was looked at again."""
        return Bounds(least=max(self.least, later.least), space=later.space)


def shared_bounds(space: Space, objective: CostObjective, limit: int) -> Bounds:
    """The bounds where a job costs as much on each of its nodes: repeated until no more covers drop out."""
    least, step_price = 0, 0
    if objective.timed:
        # A free step already rules out covers with jobs that are too dear in every way.
        free = space.below(limit, (objective.serial // space.shares())[space.table.place_job], 0)
        if free.space is None:
            return free
        least, space = free.least, free.space
        step_price = step_price_of(space, objective)
    while True:
        prices = objective.prices(step_price) // space.shares()
        found = space.below(limit, prices[space.table.place_job], step_price * objective.budget_steps)
        least = max(least, found.least)
        if found.space is None or found.space is space:
            return Bounds(least=least, space=found.space, step_price=step_price)
        space = found.space


def step_price_of(space: Space, objective: CostObjective) -> int:
    """The price of a serial step at which the shared bound, which is concave in it, is about highest."""
    critical = critical_step_prices(objective)
    shares = space.shares()

    def value(price: int) -> int:
        prices = objective.prices(price) // shares
        return space.cheapest(prices[space.table.place_job]) - price * objective.budget_steps

    low, high = 0, len(critical) - 1
    while low < high:
        middle = (low + high) // 2
        if value(critical[middle]) < value(critical[middle + 1]):
            low = middle + 1
        else:
            high = middle
    return critical[low]


def critical_step_prices(objective: CostObjective) -> list[int]:
    """Some prices of a serial step at which a job's best way changes, ascending, 0 before them."""
    timed = objective.steps > 0
    saved = (objective.plain - objective.serial)[timed] // objective.steps[timed]
    prices = sorted({0, *saved.tolist()})
    return prices[:: 1 + len(prices) // _STEP_PRICES]
