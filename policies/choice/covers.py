"""The covers of each node: the sets of jobs whose leaving is enough there, and too little without any one of
them.

What a choice loses depends on a node by one of its covers alone, so that a least choice takes one cover of
each of its nodes. A node with many jobs has too many of them: it is crowded, and has only a few.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from makeway.policies.choice.table import ChoiceTable, Flags, Integers

MOST_JOBS = 10
"""A node with more jobs that may leave is crowded: not all of its sets of jobs are tried."""
MOST_CELLS = 1 << 16
"""How many (set of jobs, node) cells of nodes with more jobs are tried nevertheless."""
_CELLS = 1_000_000
"""How many (set of jobs, node) cells are tried in one step: what bounds the memory."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Covers:
    """Covers of nodes, in the order of the nodes. Every cover has a place, every node of `nodes` a cover."""

    node: Integers
    """The node of each cover; ascending."""
    size: Integers
    """How many places each cover has."""
    places: Integers
    """The places of all covers, one cover after another."""
    jobs: Integers
    """The jobs of `places`."""
    nodes: Integers
    """The nodes that have covers; ascending."""
    first: Integers
    """Where the covers of each of `nodes` begin."""
    count: Integers
    """How many covers each of `nodes` has."""
    start: Integers
    """Where the places of each cover begin."""

    def costs(self, price_of_place: Integers) -> Integers:
        """The cost of each cover, from the prices of all places."""
        return np.add.reduceat(price_of_place[self.places], self.start)

    def costs_by_job(self, price_of_job: Integers) -> Integers:
        """The cost of each cover, from the prices of all jobs."""
        return np.add.reduceat(price_of_job[self.jobs], self.start)

    def least(self, costs: Integers) -> Integers:
        """The least cost of a cover on each of `nodes`."""
        return np.minimum.reduceat(costs, self.first)

    def spread(self, values_of_nodes: Integers) -> Integers:
        """For each cover the value of its node, from the values of `nodes`."""
        return np.repeat(values_of_nodes, self.count)

    def only(self, kept: Flags) -> "Covers":
        """The covers that are kept; at least one."""
        inside = np.repeat(kept, self.size)
        return _covers(self.node[kept], self.size[kept], self.places[inside], self.jobs[inside])

    def jobs_of(self, cover: int) -> Integers:
        """The jobs of one cover."""
        begin = int(self.start[cover])
        return self.jobs[begin : begin + int(self.size[cover])]

    def extended(self, table: ChoiceTable, more: Sequence[tuple[int, Sequence[int]]]) -> "Covers":
        """These covers, and some more, each a node and its places."""
        if not more:
            return self
        part = (
            np.array([node for node, _ in more], dtype=np.int64),
            np.array([len(places) for _, places in more], dtype=np.int64),
            np.concatenate([np.array(places, dtype=np.int64) for _, places in more]),
        )
        return _merged(table, [(self.node, self.size, self.places), part])


_Part = tuple[Integers, Integers, Integers]
"""Node and size of each cover, and the places of all."""


def _covers(node: Integers, size: Integers, places: Integers, jobs: Integers) -> Covers:
    new = np.ones(len(node) + 1, dtype=np.bool_)
    new[1:-1] = node[1:] != node[:-1]
    bounds = np.flatnonzero(new)
    first = bounds[:-1]
    return Covers(
        node=node,
        size=size,
        places=places,
        jobs=jobs,
        nodes=node[first],
        first=first,
        count=bounds[1:] - first,
        start=np.cumsum(size) - size,
    )


def _merged(table: ChoiceTable, parts: Sequence[_Part]) -> Covers:
    """All covers of all parts, in the order of the nodes."""
    node, size, places = (np.concatenate([part[index] for part in parts]) for index in range(3))
    order = np.argsort(node, kind="stable")
    start, sizes = (np.cumsum(size) - size)[order], size[order]
    shift = np.repeat(start - (np.cumsum(sizes) - sizes), sizes)
    places = places[np.arange(len(places)) + shift]
    return _covers(node[order], sizes, places, table.place_job[places])


def covers_of(table: ChoiceTable) -> Covers:
    """All covers of the nodes of a table that has nodes; of a crowded node, that all of its jobs leave."""
    return _merged(table, list(_parts(table)))


def crowded_nodes(table: ChoiceTable) -> Flags:
    """For each node whether it is crowded. Of the nodes with many jobs, a few with the fewest are not."""
    counts = _place_counts(table)
    crowded: Flags = counts > MOST_JOBS
    order = np.lexsort((np.arange(len(counts)), counts))
    order = order[crowded[order]]
    cells = np.cumsum(2.0 ** counts[order])
    crowded[order[cells <= MOST_CELLS]] = False
    return crowded


def _place_counts(table: ChoiceTable) -> Integers:
    counts: Integers = np.diff(table.first_place)
    return counts


def _parts(table: ChoiceTable) -> Iterator[_Part]:
    """The covers of nodes with equally many places at once."""
    counts, crowded = _place_counts(table), crowded_nodes(table)
    if crowded.any():
        places = np.flatnonzero(crowded[table.place_node])
        yield np.flatnonzero(crowded), counts[crowded], places
    sizes: list[int] = counts[~crowded].tolist()
    for count in sorted(set(sizes)):
        alike = np.flatnonzero((counts == count) & ~crowded)
        at_once = max(1, _CELLS >> count)
        for begin in range(0, len(alike), at_once):
            nodes = alike[begin : begin + at_once]
            rows: Integers = np.add.outer(table.first_place[nodes], np.arange(count))
            sets, which = _minimal(table.gives[rows], table.need[nodes])
            members = _members(count)[sets]
            yield table.host[nodes[which]], members.sum(axis=1), rows[which][members]


def _minimal(gives: Integers, need: Integers) -> tuple[Integers, Integers]:
    """The sets of places that are covers, as bits, each with its row of `gives` and `need`.

    Args:
        gives: (nodes, places, resources).
        need: (nodes, resources).
    """
    count = gives.shape[1]
    members = _members(count).astype(np.float64)  # whole numbers below 2**53: exact, and much faster
    enough = np.ones((1 << count, len(need)), dtype=np.bool_)
    for resource in range(need.shape[1]):
        enough &= members @ gives[:, :, resource].T.astype(np.float64) >= need[:, resource]
    least = enough.copy()
    for place in range(count):
        shape = (-1, 2, 1 << place, len(need))
        least.reshape(shape)[:, 1] &= ~enough.reshape(shape)[:, 0]
    which, sets = np.nonzero(least.T)
    return sets, which


@lru_cache(maxsize=16)
def _members(count: int) -> Flags:
    """(2**count, count): which places each set has."""
    members: Flags = (np.right_shift.outer(np.arange(1 << count), np.arange(count)) & 1) == 1
    return members
