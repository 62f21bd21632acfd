"""Placements of the simulated machine: sets of nodes that may serve a job, and their conflicts."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from makeway.daemon.errors import OneProblem
from makeway.policies.model import Placement
from makeway.simharness.workloads.nodeset import NodeNames

MIDPLANE_NODES = 512
"""Nodes of a midplane, Mira's unit of allocation: one node of the simulated machine."""
_COLUMNS = ("partition", "nodes", "midplanes")


class PartitionsError(OneProblem):
    """A list of partitions that cannot be used. The message names the file, the line and what is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition: its name and the numbers of its nodes, as a set (`nodeset`)."""

    name: str
    nodes: int


@dataclass(frozen=True, slots=True)
class Partitions:
    """Every partition of a machine. Sets of partitions are integers too: bit i is partition i.

    Partitions on the same nodes (one wired as a torus, another as a mesh) are one, under the first name.
    """

    node_count: int
    every: tuple[Partition, ...]
    sizes: tuple[int, ...] = field(init=False)
    """The sizes that there are, in ascending order."""
    conflicts: tuple[int, ...] = field(init=False)
    """For each partition those that share a node with it, itself included."""
    of_size: dict[int, int] = field(init=False)
    """The partitions of each size."""
    _blocked: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    """For every eight nodes, by which of them are taken: the partitions with one of the taken nodes."""

    def __post_init__(self) -> None:
        distinct = {partition.nodes: partition for partition in reversed(self.every)}
        every = tuple(partition for partition in self.every if distinct[partition.nodes] is partition)
        of_size: dict[int, int] = {}
        for index, partition in enumerate(every):
            size = partition.nodes.bit_count()
            of_size[size] = of_size.get(size, 0) | 1 << index
        conflicts = tuple(
            _set(i for i, other in enumerate(every) if other.nodes & one.nodes) for one in every
        )
        for name, value in (
            ("every", every),
            ("sizes", tuple(sorted(of_size))),
            ("conflicts", conflicts),
            ("of_size", of_size),
            ("_blocked", _blocked(every)),
        ):
            object.__setattr__(self, name, value)

    def size_for(self, node_count: int) -> int:
        """The size of the smallest partitions with at least `node_count` nodes.

        Raises:
            ValueError: none does.
        """
        for size in self.sizes:
            if size >= node_count:
                return size
        raise ValueError(f"no partition has {node_count} nodes; the largest has {self.sizes[-1]}")

    def idle(self, available: int) -> int:
        """The partitions all of whose nodes are available."""
        width = 8 * len(self._blocked)
        taken = ~available & ((1 << width) - 1)
        blocked = 0
        for table, byte in zip(self._blocked, taken.to_bytes(len(self._blocked), "little"), strict=True):
            blocked |= table[byte]
        return ((1 << len(self.every)) - 1) & ~blocked

    def least_blocking(self, candidates: int, idle: int) -> int:
        """The candidate that blocks the fewest idle partitions; of several the first."""
        return min(members(candidates), key=lambda index: ((self.conflicts[index] & idle).bit_count(), index))

    def placements(self, names: NodeNames) -> tuple[Placement, ...]:
        """The same as policies see it."""
        return tuple(
            Placement(name=partition.name, nodes=names.of(partition.nodes), whole=True)
            for partition in self.every
        )


def members(partitions: int) -> Iterable[int]:
    """The indices in a set."""
    while partitions:
        lowest = partitions & -partitions
        yield lowest.bit_length() - 1
        partitions ^= lowest


def _blocked(every: Sequence[Partition]) -> tuple[tuple[int, ...], ...]:
    """For every eight nodes a table: by a byte of taken nodes the partitions with one of them."""
    width = max((partition.nodes.bit_length() for partition in every), default=0)
    through = [
        _set(index for index, partition in enumerate(every) if partition.nodes >> node & 1)
        for node in range(-(-width // 8) * 8)
    ]
    tables: list[tuple[int, ...]] = []
    for first in range(0, len(through), 8):
        table = [0]
        for blocked in through[first : first + 8]:
            table += [one | blocked for one in table]
        tables.append(tuple(table))
    return tuple(tables)


def _set(indices: Iterable[int]) -> int:
    found = 0
    for index in indices:
        found |= 1 << index
    return found


def read_partitions(path: Path) -> Partitions:
    """Mira's partitions from a CSV table.

    Its columns are `partition`, `nodes` and `midplanes` (numbers from 0, one space apart).

    Raises:
        PartitionsError: no such file, other columns, or a line that cannot be.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        raise PartitionsError(f"{path}: {reason}; accepted: a CSV file of partitions") from error
    if not rows or tuple(rows[0]) != _COLUMNS:
        raise PartitionsError(f"{path}: wrong first line; accepted: {','.join(_COLUMNS)}")
    if not rows[1:]:
        raise PartitionsError(f"{path}: no partition")
    every = tuple(_partition(path, line, row) for line, row in enumerate(rows[1:], 2))
    return Partitions(max(partition.nodes.bit_length() for partition in every), every)


def _partition(path: Path, line: int, row: list[str]) -> Partition:
    try:
        name, nodes, midplanes = row
        numbers = [int(text) for text in midplanes.split(" ")]
        if (
            int(nodes) != MIDPLANE_NODES * len(numbers)
            or len(set(numbers)) != len(numbers)
            or min(numbers) < 0
        ):
            raise ValueError
    except ValueError:
        accepted = f"a name, nodes, and one distinct midplane number for every {MIDPLANE_NODES} nodes"
        raise PartitionsError(f"{path}:{line}: {','.join(row)[:80]!r}; accepted: {accepted}") from None
    return Partition(name=name, nodes=_set(numbers))
