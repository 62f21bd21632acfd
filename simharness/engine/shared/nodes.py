"""Nodes that several jobs share: what each has, what jobs hold of it and until when, and where a job fits.

Amounts are tuples of whole numbers, one for each resource of the machine in a fixed order. Sets of nodes are
integers (`nodeset`). What a question costs depends on the nodes that changed since it was last asked, not on
the size of the machine.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from makeway.policies.model import CPU, Resources, dominant_share
from makeway.simharness.workloads.nodeset import lowest
from makeway.simharness.workloads.partitions import members

Amounts = tuple[int, ...]

_LOG_LIMIT = 50_000
"""Changes of nodes after which every answer is derived from the beginning again."""


class Packing(StrEnum):
    """Which of the nodes that are free enough a job gets; of equal ones the lowest numbers."""

    DENSE = "dense"  # those with the fewest unused CPUs, which keeps whole nodes free
    LEAST_LOADED = "least-loaded"  # those with the largest share of unused CPUs, as Slurm's CR_LLN


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingSettings:
    """What the nodes have, and how jobs are packed on them."""

    capacities: tuple[Resources, ...]
    """What jobs may use of each node, in the order of the nodes."""
    packing: Packing = Packing.DENSE

    def able_count(self, demand: Resources) -> int:
        """How many of the nodes have as much when they are empty."""
        return sum(1 for capacity in self.capacities if capacity.covers(demand))


@dataclass(slots=True)
class _Fitting:
    """The nodes on which a demand fits now, and how far in the log of changes that is true."""

    nodes: int = 0
    seen: int = 0


@dataclass(slots=True)
class _Ready:
    """When a demand fits on each node at the latest, by node and sorted, and how far in the log."""

    by_node_s: list[float]
    sorted_s: list[float]
    seen: int


@dataclass(slots=True)
class _NodeUse:
    """One node: what nothing holds of it, and by job index until when what is held."""

    unused: Amounts
    jobs: dict[int, tuple[float, Amounts]] = field(default_factory=dict[int, tuple[float, Amounts]])


class SharedNodes:
    """The nodes of a machine, and what jobs hold of them.

    A demand is a tuple of amounts, or None: the whole node.
    """

    def __init__(self, settings: SharingSettings) -> None:
        self.resource_names = tuple(
            sorted({name for capacity in settings.capacities for name, _ in capacity.amounts})
        )
        self.capacity = [self.amounts(capacity) for capacity in settings.capacities]
        self.reference = Resources.of(
            dict(zip(self.resource_names, map(max, zip(*self.capacity, strict=True)), strict=True))
        )
        """The largest amount of each resource that any node has."""
        self.idle = (1 << len(self.capacity)) - 1
        """The nodes of which no job holds anything."""
        self._packing = settings.packing
        self._cpu = self.resource_names.index(CPU) if CPU in self.resource_names else None
        self._use = [_NodeUse(capacity) for capacity in self.capacity]
        self._levels: dict[float, int] = {}
        """The nodes of each level, which is lower the sooner a node is to be used."""
        for node in range(len(self.capacity)):
            self._put(node)
        self._types = _types_of(self.resource_names)
        self._log: list[int] = []
        self._fitting: dict[Amounts | None, _Fitting] = {}
        self._ready: dict[Amounts | None, _Ready] = {}
        self._resources: dict[Amounts, Resources] = {}
        self._shares: dict[tuple[Amounts, Amounts], float] = {}

    # Amounts

    def amounts(self, resources: Resources) -> Amounts:
        """The amounts of these resources in this machine's order.

        Raises:
            KeyError: no node has a resource of that name.
        """
        given = dict(resources.amounts)
        unknown = given.keys() - set(self.resource_names)
        if unknown:
            raise KeyError(min(unknown))
        return tuple(given.get(name, 0) for name in self.resource_names)

    def resources(self, amounts: Amounts) -> Resources:
        """The inverse of `amounts`."""
        found = self._resources.get(amounts)
        if found is None:
            found = Resources.of(dict(zip(self.resource_names, amounts, strict=True)))
            self._resources[amounts] = found
        return found

    def share(self, amounts: Amounts, node: int) -> float:
        """Which part of the node such an allocation takes: its dominant share."""
        key = (amounts, self.capacity[node])
        found = self._shares.get(key)
        if found is None:
            found = dominant_share(self.resources(amounts), self.resources(self.capacity[node]))
            self._shares[key] = found
        return found

    def needed(self, demand: Amounts | None, node: int) -> Amounts:
        """What a demand takes of a node."""
        return self.capacity[node] if demand is None else demand

    # What jobs hold

    def take(self, index: int, nodes: int, demand: Amounts | None, limit_s: float) -> None:
        """Give the job its demand on each of these nodes until `limit_s`; they are free enough."""
        for node in members(nodes):
            use = self._use[node]
            held = self.granted(demand, node)
            self._lift(node)
            use.unused = tuple(map(int.__sub__, use.unused, held))
            use.jobs[index] = (limit_s, held)
            self._put(node)
            self._log.append(node)
        self.idle &= ~nodes
        self._trim()

    def give_back(self, index: int, nodes: int) -> None:
        """Take the job off these nodes."""
        for node in members(nodes):
            use = self._use[node]
            _, held = use.jobs.pop(index)
            self._lift(node)
            use.unused = tuple(map(int.__add__, use.unused, held))
            self._put(node)
            self._log.append(node)
            if not use.jobs:
                self.idle |= 1 << node
        self._trim()

    def held(self, index: int, node: int) -> Amounts:
        """What the job, which is on the node, holds of it."""
        return self._use[node].jobs[index][1]

    def granted(self, demand: Amounts | None, node: int) -> Amounts:
        """What a job would hold for its demand on the node: GPUs of any type get a type.

        It is the type of which most are unused. A typed resource also counts under the general name.
        """
        wanted, unused = self.needed(demand, node), self._use[node].unused
        if demand is None or not self._types:
            return wanted
        held = list(wanted)
        for general, types in self._types.items():
            open_count = wanted[general] - sum(wanted[one] for one in types)
            for one in sorted(types, key=lambda one: wanted[one] - unused[one]):
                more = min(open_count, unused[one] - wanted[one])
                if more > 0:
                    held[one] += more
                    open_count -= more
        return tuple(held)

    def _put(self, node: int) -> None:
        level = self._level(node, self._use[node].unused)
        self._levels[level] = self._levels.get(level, 0) | 1 << node

    def _lift(self, node: int) -> None:
        level = self._level(node, self._use[node].unused)
        left = self._levels[level] & ~(1 << node)
        if left:
            self._levels[level] = left
        else:
            del self._levels[level]

    def _level(self, node: int, unused: Amounts) -> float:
        if self._cpu is None or not self.capacity[node][self._cpu]:
            return 0.0
        if self._packing is Packing.DENSE:
            return unused[self._cpu]
        return -unused[self._cpu] / self.capacity[node][self._cpu]

    # Where a job fits

    def fitting(self, demand: Amounts | None) -> int:
        """The nodes on which the demand fits now."""
        if demand is None:
            return self.idle
        known = self._fitting.get(demand)
        if known is None:
            known = self._fitting[demand] = _Fitting()
            changed: Iterable[int] = range(len(self._use))
        else:
            changed = self._changed(known.seen)
        nodes = known.nodes
        for node in changed:
            if covers(self._use[node].unused, demand):
                nodes |= 1 << node
            else:
                nodes &= ~(1 << node)
        known.nodes, known.seen = nodes, len(self._log)
        return nodes

    def choose(self, nodes: int, count: int) -> int:
        """The `count` nodes of `nodes`, which has that many, that a job gets."""
        chosen = 0
        for level in sorted(self._levels):
            found = self._levels[level] & nodes
            size = found.bit_count()
            if size >= count:
                return chosen | lowest(found, count)
            chosen |= found
            count -= size
        return chosen

    def ready_s(self, demand: Amounts | None) -> list[float]:
        """For each node when the demand fits on it if all jobs run to their limits; -inf: now.

        Infinite: never. The list must not be changed.
        """
        return self._readiness(demand).by_node_s

    def sorted_ready_s(self, demand: Amounts | None) -> list[float]:
        """The same, sorted."""
        return self._readiness(demand).sorted_s

    def fits_at(self, node: int, demand: Amounts | None, at_s: float, besides: Amounts) -> bool:
        """Whether the demand fits on the node at that time with `besides` in use there too.

        Jobs that run now are there until their limits.
        """
        use = self._use[node]
        left = list(map(int.__sub__, use.unused, besides))
        for limit_s, held in use.jobs.values():
            if limit_s <= at_s:
                left = list(map(int.__add__, left, held))
        return covers(left, self.needed(demand, node))

    def releases(self, node: int) -> list[tuple[float, Amounts]]:
        """When which amounts on a node are released at the latest, soonest first."""
        return sorted(self._use[node].jobs.values())

    def unused(self, node: int) -> Amounts:
        """What nothing holds of the node."""
        return self._use[node].unused

    def level(self, node: int, unused: Amounts) -> float:
        """How the node ranks with so much unused: jobs get nodes of low levels first."""
        return self._level(node, unused)

    def _readiness(self, demand: Amounts | None) -> _Ready:
        known = self._ready.get(demand)
        if known is None:
            times_s = [self._ready_on(node, demand) for node in range(len(self._use))]
            known = self._ready[demand] = _Ready(times_s, sorted(times_s), len(self._log))
            return known
        for node in self._changed(known.seen):
            new_s, old_s = self._ready_on(node, demand), known.by_node_s[node]
            if new_s != old_s:
                known.by_node_s[node] = new_s
                del known.sorted_s[bisect_left(known.sorted_s, old_s)]
                insort(known.sorted_s, new_s)
        known.seen = len(self._log)
        return known

    def _ready_on(self, node: int, demand: Amounts | None) -> float:
        needed, use = self.needed(demand, node), self._use[node]
        if covers(use.unused, needed):
            return -inf
        if not covers(self.capacity[node], needed):
            return inf
        left = use.unused
        for limit_s, held in sorted(use.jobs.values()):
            left = tuple(map(int.__add__, left, held))
            if covers(left, needed):
                return limit_s
        return inf

    def _changed(self, seen: int) -> Iterable[int]:
        """The nodes that have changed since the log had that length."""
        if len(self._log) - seen >= len(self._use):
            return range(len(self._use))
        return dict.fromkeys(self._log[seen:])

    def _trim(self) -> None:
        if len(self._log) > _LOG_LIMIT:
            self._log.clear()
            self._fitting.clear()
            self._ready.clear()


def _types_of(names: Sequence[str]) -> Mapping[int, tuple[int, ...]]:
    """By the index of each resource that has types (`gres/gpu`): those of its types (`gres/gpu:a100`)."""
    found: dict[int, list[int]] = {}
    for index, name in enumerate(names):
        general, colon, _ = name.partition(":")
        if colon and general in names:
            found.setdefault(names.index(general), []).append(index)
    return {general: tuple(types) for general, types in found.items()}


def covers(unused: Sequence[int], needed: Amounts) -> bool:
    """Whether there is at least as much of every resource as is needed."""
    for have, wanted in zip(unused, needed, strict=True):  # noqa: SIM110 - twice as fast as all()
        if have < wanted:
            return False
    return True
