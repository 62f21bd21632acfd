"""How many nodes serve a request, which ones may, and what it needs on each. Pure functions."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from makeway.adapters.slurm.parse_cluster import RawNode
from makeway.adapters.slurm.resources.counting import Counting, CpuUnit, capacity, gres_amounts
from makeway.adapters.slurm.resources.features import satisfying
from makeway.adapters.slurm.resources.gpu_parts import parted_gpus
from makeway.adapters.slurm.resources.holdings import fills
from makeway.adapters.slurm.resources.request import JobRequest, NodeShape, share
from makeway.policies.model import CPU, MEMORY, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How a request can be served."""

    node_count: int
    """The least number of nodes on which it fits."""
    demand: Resources | None
    """What it needs on each of them. None: whole nodes."""
    eligible: frozenset[str] | None
    """Which nodes can have that much. None: every node."""


class Serving:
    """Fits the requests of one snapshot.

    Args:
        nodes: the nodes of the snapshot, up or not: what fits on a node that is down does not fit elsewhere.
        open_partitions: the partitions that start jobs and whose jobs share nodes.
        counts: what this Slurm counts.
    """

    def __init__(self, nodes: tuple[RawNode, ...], open_partitions: frozenset[str], counts: Counting) -> None:
        self._nodes = nodes
        self._open = open_partitions
        self._counts = counts
        self._has = {one.name: _hardware(one, counts) for one in nodes}
        self._shapes = {one.name: _shape(one, counts) for one in nodes}
        self._counted = {one.name: capacity(one, counts, open_partitions) for one in nodes}
        self._uncounted = _uncounted(nodes, counts)
        # Most jobs of a queue ask for the same: the answer is worked out once.
        self.fit: Callable[[JobRequest], Fit] = lru_cache(maxsize=None)(self._fit)

    def _fit(self, request: JobRequest) -> Fit:
        """How the request can be served; by no node, if nothing fits."""
        groups = [self._candidates(request, name) for name in request.partitions if name in self._open]
        # One node may be in any of the partitions; several have to be in the same one.
        single = (
            self._fit_on(request, frozenset[str]().union(*groups), 1) if request.node_count == 1 else None
        )
        if single is not None:
            return single
        fits = [found for names in groups if (found := self._fit_on(request, names, len(names))) is not None]
        if fits:
            return max(fits, key=lambda fit: len(self._nodes if fit.eligible is None else fit.eligible))
        return Fit(
            node_count=request.node_count,
            demand=self._largest(request, request.node_count, self._has),
            eligible=frozenset(),
        )

    def _candidates(self, request: JobRequest, partition: str) -> frozenset[str]:
        """The nodes of a partition that the request may get, whatever they have."""
        there = {
            one.name: one.features
            for one in self._nodes
            if partition in one.partitions
            and one.name not in request.excluded
            and one.temporary_disk_mb >= request.temporary_disk_mb
        }
        return satisfying(request.features, there)

    def _fit_on(self, request: JobRequest, names: frozenset[str], most: int) -> Fit | None:
        """The fit on the least number of these nodes, up to `most`. None: there is none."""
        kinds = Counter((self._has[name], self._shapes[name]) for name in names)
        for node_count in range(request.node_count, min(most, _most_nodes(request)) + 1):
            fits = {kind for kind in kinds if kind[0].covers(self._share(request, node_count, kind[1]))}
            if sum(kinds[kind] for kind in fits) < node_count:
                continue
            serve = frozenset(name for name in names if (self._has[name], self._shapes[name]) in fits)
            if request.required:
                # A set of nodes cannot say "these, and some others": then no nodes are the right ones.
                if len(request.required) < node_count or not serve.issuperset(request.required):
                    return None
                serve = frozenset(request.required)
            needed = self._largest(request, node_count, serve)
            return Fit(
                node_count=node_count,
                demand=None if self._whole(request, needed, serve) else self._demand(needed),
                eligible=None if len(serve) == len(self._nodes) else serve,
            )
        return None

    def _share(self, request: JobRequest, node_count: int, shape: NodeShape) -> Resources:
        return share(request, node_count, shape, self._counts)

    def _largest(self, request: JobRequest, node_count: int, names: Iterable[str]) -> Resources:
        """What the request needs on that one of the nodes where it needs most."""
        amounts: dict[str, int] = {}
        for shape in {self._shapes[name] for name in names}:
            for name, amount in self._share(request, node_count, shape).amounts:
                amounts[name] = max(amount, amounts.get(name, 0))
        return Resources.of(amounts)

    def _whole(self, request: JobRequest, needed: Resources, names: frozenset[str]) -> bool:
        """Whether nothing of any of these nodes is left for other jobs."""
        if self._counts.memory and request.memory_mb == 0:
            return True
        wholes = (self._counted[name] for name in names)
        return all(whole is None or fills(needed, whole) for whole in wholes)

    def _demand(self, needed: Resources) -> Resources:
        """What of it this Slurm counts."""
        return Resources.of({name: amount for name, amount in needed.amounts if name not in self._uncounted})


def _shape(one: RawNode, counts: Counting) -> NodeShape:
    """In which steps the node gives out its CPUs."""
    by_socket = counts.unit is CpuUnit.SOCKET
    return NodeShape(
        cpus_per_core=max(1, one.cpu_count // one.core_count),
        cores_per_unit=max(1, one.core_count // one.socket_count) if by_socket else 1,
        socket_count=one.socket_count if by_socket else 1,
    )


def _hardware(one: RawNode, counts: Counting) -> Resources:
    """What a node can give to one job that makeway makes room for, counted or not."""
    amounts = {CPU: one.usable_cpu_count, MEMORY: int(one.usable_memory_mb)}
    whole = Resources.of(amounts | gres_amounts(one.gres))
    parted = parted_gpus(one.gres)
    if parted is None:
        return whole
    return parted.most_for_one_job(whole, across_gpus=counts.parts_across_gpus)


def _uncounted(nodes: Iterable[RawNode], counts: Counting) -> frozenset[str]:
    """The names of what any number of jobs may use."""
    names = set(gres_amounts(gres for one in nodes for gres in one.gres if not gres.consumable))
    if not counts.memory:
        names.add(MEMORY)
    if not counts.cpus:
        names.add(CPU)
    return frozenset(names)


def _most_nodes(request: JobRequest) -> int:
    """On more nodes than this an even share gets no smaller."""
    parts = (request.task_count, request.cpu_count, *(one.count for one in request.gres_per_job))
    return max(request.node_count, *parts)
