"""An instance of the choice on shared nodes as arrays of integers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from makeway.policies.choice.instance import ChoiceInstance, Occupant
from makeway.policies.model import Resources

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChoiceTable:
    """The nodes on which something is missing that jobs can free, and these jobs.

    A place is a job on a node, with what the node needs of what the job would free there.
    """

    ready: tuple[str, ...]
    """The nodes that serve at once, sorted by name."""
    names: tuple[str, ...]
    """The nodes that serve if jobs leave, sorted by name."""
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


def tabulate(instance: ChoiceInstance) -> ChoiceTable:
    """The instance as arrays. Nodes that cannot serve, whatever leaves, and what does not matter are left
    out.
    """
    names = sorted(instance.free)
    jobs = sorted((job for job in instance.occupants if job.ways), key=_job_id)
    wanted = () if instance.demand is None else instance.demand.amounts
    node, job, amounts = _places(names, jobs, tuple(name for name, _ in wanted))
    if instance.demand is None:
        need = _occupancy(instance, names)
        amounts = np.ones((len(node), 1), dtype=np.int64)
    else:
        asked = np.array([amount for _, amount in wanted], dtype=np.int64)
        free = _rows([instance.free[name] for name in names], tuple(name for name, _ in wanted))
        need = np.maximum(0, asked - free)
    gives = np.minimum(amounts, need[node])
    total = np.zeros_like(need)
    np.add.at(total, node, gives)
    lacking: Flags = np.any(need, axis=1)
    able: Flags = lacking & np.all(total >= need, axis=1)
    useful: Flags = able[node] & np.any(gives, axis=1)
    node, job, gives = node[useful], job[useful], gives[useful]
    order = np.lexsort((job, node))
    number = np.cumsum(able) - 1
    node = number[node[order]]
    used, job = numbered(job[order], len(jobs))
    named: list[int] = used.tolist()
    return ChoiceTable(
        ready=tuple(name for name, missing in zip(names, lacking.tolist(), strict=True) if not missing),
        names=tuple(name for name, can in zip(names, able.tolist(), strict=True) if can),
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


def _job_id(occupant: Occupant) -> str:
    return occupant.job_id


def _places(
    names: list[str], jobs: list[Occupant], resources: tuple[str, ...]
) -> tuple[Integers, Integers, Integers]:
    """Node, job and held amounts of every place of the jobs on the nodes."""
    index = {name: number for number, name in enumerate(names)}
    unknown = len(names)
    nodes = np.array([index.get(name, unknown) for job in jobs for name in job.nodes], dtype=np.int64)
    numbers = np.repeat(np.arange(len(jobs)), [len(job.nodes) for job in jobs])
    here = nodes < unknown
    held = [amounts for job in jobs for amounts in job.allocation]
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
