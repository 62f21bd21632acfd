"""An instance of the choice on shared nodes as arrays of integers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from makeway.policies.choice.instance import ChoiceInstance, Occupant
from makeway.policies.model import Resources

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]
_job_id = attrgetter("job_id")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChoiceTable:
    """The nodes on which something is missing that jobs can free, and these jobs.

    A place is a job on a node, with what the node needs of what the job would free there.
    """

    ready: tuple[str, ...]
    """The nodes that serve at once, sorted by name."""
    names: tuple[str, ...]
    """The nodes that serve if jobs leave, sorted by name. A node with several ways to serve is there once for
    each of them."""
    host: Integers
    """(nodes): which of `names` a node counts as. Where more than one node is chosen, the ways of a node have
    the same host, because one of them at most is taken."""
    need: Integers
    """(nodes, resources): what is missing on each of `names`; never negative, and not all 0 on a node."""
    jobs: tuple[Occupant, ...]
    """The jobs that may leave and free something there, sorted by id."""
    place_node: Integers
    """The node of each place; ascending."""
    place_job: Integers
    """The job of each place; ascending on each node."""
    gives: Integers
    """(places, resources): what the job frees there, as far as it is missing; not all 0."""
    first_place: Integers
    """(nodes + 1): where the places of each node begin."""


def tabulate(instance: ChoiceInstance, most_jobs: int | None = None) -> ChoiceTable:
    """The instance as arrays. Nodes that cannot serve, whatever leaves, and what does not matter are left
    out.

    `most_jobs`: where several nodes are chosen, a node with a way that concerns more jobs has one way alone,
    the first that can serve. None: no number of jobs is too many.
    """
    jobs = sorted([job for job in instance.occupants if job.ways], key=_job_id)
    names, need, (node, job, amounts) = _needs(instance, jobs)
    gives = np.minimum(amounts, need[node])
    total = np.zeros_like(need)
    np.add.at(total, node, gives)
    lacking: Flags = np.any(need, axis=1)
    able: Flags = lacking & np.all(total >= need, axis=1)
    serving = frozenset(name for name, missing in zip(names, lacking.tolist(), strict=True) if not missing)
    several = bool(instance.alternatives) and instance.node_count - len(serving) > 1
    if instance.alternatives:
        able &= np.array([name not in serving for name in names])
        if most_jobs is not None and several:
            crowds = np.bincount(node[np.any(gives, axis=1)], minlength=len(names)) > most_jobs
            able &= _first_of_crowded(names, able, crowds)
    useful: Flags = able[node] & np.any(gives, axis=1)
    node, job, gives = node[useful], job[useful], gives[useful]
    order = np.lexsort((job, node))
    number = np.cumsum(able) - 1
    node = number[node[order]]
    used, job = numbered(job[order], len(jobs))
    named: list[int] = used.tolist()
    kept = tuple(name for name, can in zip(names, able.tolist(), strict=True) if can)
    return ChoiceTable(
        ready=tuple(sorted(serving)),
        names=kept,
        host=_hosts(kept, merged=several),
        need=need[able],
        jobs=tuple(jobs[index] for index in named),
        place_node=node,
        place_job=job,
        gives=gives[order],
        first_place=np.searchsorted(node, np.arange(int(able.sum()) + 1)),
    )


def numbered(members: Integers, size: int) -> tuple[Integers, Integers]:
    """The different ones of some numbers below a size, ascending, and where each number is among them."""
    there = np.zeros(size, dtype=np.bool_)
    there[members] = True
    number = np.cumsum(there) - 1
    return np.flatnonzero(there), number[members]


_Places = tuple[Integers, Integers, Integers]
"""Node, job and held amounts of places."""


def _needs(instance: ChoiceInstance, jobs: list[Occupant]) -> tuple[list[str], Integers, _Places]:
    """The nodes, each once for every way in which it can serve, what is missing there, and the places."""
    names = sorted(instance.free)
    if instance.demand is None:
        node, job, _ = _places(names, jobs, ())
        return names, _occupancy(instance, names), (node, job, np.ones((len(node), 1), dtype=np.int64))
    demands = _demands(instance, instance.demand, names)
    wanted = tuple(dict.fromkeys(name for _, demand in demands for name, _ in demand.amounts))
    places = _places(names, jobs, wanted)
    free = _rows([instance.free[name] for name in names], wanted)
    asked = _rows([demand for _, demand in demands], wanted)
    if not instance.alternatives:
        return names, np.maximum(0, asked - free), places
    nodes = [index for index, _ in demands]
    each = np.array(nodes, dtype=np.int64)
    need = np.maximum(0, asked - free[each])
    return [names[index] for index in nodes], need, _in_each_way(places, each, len(names))


def _demands(
    instance: ChoiceInstance, demand: Resources, names: Sequence[str]
) -> list[tuple[int, Resources]]:
    """What each node needs in each of its ways, with the number of the node."""
    if not instance.alternatives:
        return [(0, demand)]
    return [
        (index, way) for index, name in enumerate(names) for way in instance.alternatives.get(name, (demand,))
    ]


def _in_each_way(places: _Places, each: Integers, size: int) -> _Places:
    """The places for each way of their nodes. `each`: the node of each way, ascending, among `size` nodes."""
    node, job, amounts = places
    ways = np.bincount(each, minlength=size)
    first = np.cumsum(ways) - ways
    count = ways[node]
    place = np.repeat(np.arange(len(node)), count)
    later = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
    return first[node][place] + later, job[place], amounts[place]


def _first_of_crowded(names: Sequence[str], able: Flags, crowds: Flags) -> Flags:
    """The ways that are kept: of a node on which a way concerns too many jobs, the first that can serve."""
    crowded = {
        name for name, can, many in zip(names, able.tolist(), crowds.tolist(), strict=True) if can and many
    }
    kept = np.ones(len(names), dtype=np.bool_)
    met: set[str] = set()
    for index, name in enumerate(names):
        if able[index] and name in crowded:
            kept[index] = name not in met
            met.add(name)
    return kept


def _hosts(names: Sequence[str], *, merged: bool) -> Integers:
    if not merged:
        return np.arange(len(names))
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        first.setdefault(name, index)
    return np.array([first[name] for name in names], dtype=np.int64)


def _places(names: list[str], jobs: list[Occupant], resources: tuple[str, ...]) -> _Places:
    """Node, job and held amounts of every place of the jobs on the nodes."""
    unknown = len(names)
    index = dict(zip(names, range(unknown), strict=True))
    theirs = chain.from_iterable([job.nodes for job in jobs])
    nodes = np.array(list(map(index.get, theirs, repeat(unknown))), dtype=np.int64)
    numbers = np.repeat(np.arange(len(jobs)), [len(job.nodes) for job in jobs])
    here = nodes < unknown
    held = list(chain.from_iterable([job.allocation for job in jobs]))
    # Places share a value where a job holds the same on several of its nodes.
    _, first, same = np.unique(
        np.fromiter(map(id, held), dtype=np.int64, count=len(held)), return_index=True, return_inverse=True
    )
    which: list[int] = first.tolist()
    return nodes[here], numbers[here], _rows([held[place] for place in which], resources)[same[here]]


def _occupancy(instance: ChoiceInstance, names: list[str]) -> Integers:
    """How many jobs have to leave each node until it is unused."""
    count = dict.fromkeys(names, 0)
    for occupant in instance.occupants:
        for name in occupant.nodes:
            if name in count:
                count[name] += 1
    return np.array([*count.values()], dtype=np.int64).reshape(-1, 1)


def _rows(held: Sequence[Resources], resources: tuple[str, ...]) -> Integers:
    """(held, resources): how much there is of each resource."""
    column = {name: number for number, name in enumerate(resources)}
    unknown = len(resources)
    amounts = [each.amounts for each in held]
    pairs = list(chain.from_iterable(amounts))
    found = np.zeros((len(held), unknown + 1), dtype=np.int64)
    rows = np.repeat(np.arange(len(held)), [*map(len, amounts)])
    found[rows, [column.get(name, unknown) for name, _ in pairs]] = [amount for _, amount in pairs]
    return found[:, :unknown]
