"""Crowded nodes: some good covers of each, and a bound of what its cheapest cover costs."""

from collections.abc import Iterable, Sequence

import numpy as np

from makeway.policies.choice.covers import Covers
from makeway.policies.choice.table import ChoiceTable, Integers, Reals


def with_good_covers(
    covers: Covers, table: ChoiceTable, nodes: Sequence[int], prices: Iterable[Integers]
) -> Covers:
    """The covers, and for each of some crowded nodes good ones by several prices of jobs."""
    more: set[tuple[int, tuple[int, ...]]] = set()
    for by_job in prices:
        for node in nodes:
            here = slice(int(table.first_place[node]), int(table.first_place[node + 1]))
            price = by_job[table.place_job[here]].astype(np.float64)
            need = np.maximum(1, table.need[node])
            parts = table.gives[here] / need
            orders = {
                tuple((here.start + np.argsort(price / worth, kind="stable")).tolist())
                for worth in (parts.sum(axis=1), parts.max(axis=1))
            }
            more.update((node, cover_in_order(table, node, order)) for order in orders)
    return covers.extended(table, sorted(more))


def cover_in_order(table: ChoiceTable, node: int, places: Sequence[int]) -> tuple[int, ...]:
    """The first of the places that are enough for the node, without those that are not needed, the last ones
    first. All places together are enough.
    """
    lacking: list[int] = table.need[node].tolist()  # for a few numbers lists are faster than arrays
    gives: dict[int, list[int]] = dict(zip(places, table.gives[list(places)].tolist(), strict=True))
    taken: list[int] = []
    for place in places:
        if max(lacking) <= 0:
            break
        if any(more and lacks > 0 for more, lacks in zip(gives[place], lacking, strict=True)):
            taken.append(place)
            lacking = [lacks - more for lacks, more in zip(lacking, gives[place], strict=True)]
    for place in reversed(taken.copy()):
        without = [lacks + more for lacks, more in zip(lacking, gives[place], strict=True)]
        if max(without) <= 0:
            taken.remove(place)
            lacking = without
    return tuple(sorted(taken))


class CrowdedNodes:
    """Some crowded nodes, and their places in rows: what does not depend on prices is worked out once."""

    def __init__(self, table: ChoiceTable, nodes: Integers) -> None:
        """`nodes`: ascending."""
        self.counts = np.diff(table.first_place)[nodes]
        row = np.repeat(np.arange(len(nodes)), self.counts)
        self.first = np.cumsum(self.counts) - self.counts
        self.places = np.arange(len(row)) + np.repeat(table.first_place[nodes] - self.first, self.counts)
        self.gives: Reals = table.gives[self.places].astype(np.float64).T.copy()
        self.need: Integers = table.need[nodes][row].T.copy()

    def least(self, prices: Integers) -> Integers:
        """For each node a bound of its cheapest cover: the dearest resource, had jobs in parts.

        `prices`: of all places of the table.
        """
        price = prices[self.places].astype(np.float64)
        least = np.zeros(len(self.counts))
        for gives, need in zip(self.gives, self.need, strict=True):
            order = _in_rows(price / np.maximum(gives, 1e-9), self.counts, self.first)
            given, cost = gives[order], price[order]
            before = np.cumsum(given) - given
            before -= np.repeat(before[self.first], self.counts)
            taken = np.clip(need - before, 0.0, given)
            value = np.add.reduceat(taken / np.maximum(given, 1e-9) * cost, self.first)
            least = np.maximum(least, value)
        return np.floor(least * (1.0 - 1e-9)).astype(np.int64)


def _in_rows(values: Reals, counts: Integers, first: Integers) -> Integers:
    """The order of values that are in rows: within each row the least first, of equal ones the first.

    Short rows of about the same length are sorted side by side, as by `lexsort` in a fraction of its time.

    Args:
        values: finite numbers, one row after another.
        counts: how many each row has.
        first: where each row begins.
    """
    width = int(counts.max(initial=0))
    if width * len(counts) > 2 * len(values):
        return np.lexsort((values, np.repeat(np.arange(len(counts)), counts)))
    if width * len(counts) == len(values):
        return (np.argsort(values.reshape(-1, width), axis=1, kind="stable") + first[:, None]).ravel()
    there = np.arange(width) < counts[:, None]
    rows = np.full(there.shape, np.inf)
    rows[there] = values
    order: Integers = (np.argsort(rows, axis=1, kind="stable") + first[:, None])[there]
    return order
