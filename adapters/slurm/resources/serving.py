"""How many nodes serve a request, which ones may, and what it needs on each. Pure functions."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from makeway.adapters.slurm.nodes.uneven import holding_together, most_tasks
from makeway.adapters.slurm.parse_cluster import RawNode
from makeway.adapters.slurm.resources.counting import (
    NO_LIMITS,
    Counting,
    CpuLimit,
    CpuUnit,
    capacity,
    cpus_in,
    cpus_per_core,
    gres_amounts,
)
from makeway.adapters.slurm.resources.features import alternatives, satisfying
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


_NodeKind = tuple[Resources, NodeShape, int | None]
"""The hardware of a node, its shape, and how many CPUs of it the jobs of a partition may have. None: all."""


class Serving:
    """Fits the requests of one snapshot.

    Args:
        nodes: the nodes of the snapshot, up or not: what fits on a node that is down does not fit elsewhere.
        open_partitions: the partitions that start jobs and whose jobs share nodes.
        counts: what this Slurm counts.
        limits: how many CPUs of a node the jobs of a partition may have together, where there is a limit.
    """

    def __init__(
        self,
        nodes: tuple[RawNode, ...],
        open_partitions: frozenset[str],
        counts: Counting,
        limits: Mapping[str, CpuLimit] = NO_LIMITS,
    ) -> None:
        self._nodes = nodes
        self._open = open_partitions
        self._counts = counts
        self._limits = limits
        self._has = {one.name: _hardware(one, counts) for one in nodes}
        self._shapes = {one.name: _shape(one, counts) for one in nodes}
        self._sockets = {one.name: one.socket_count for one in nodes}
        self._counted = {one.name: capacity(one, counts, open_partitions) for one in nodes}
        self._uncounted = _uncounted(nodes, counts)
        # Most jobs of a queue ask for the same: the answer is worked out once.
        self.fit: Callable[[JobRequest], Fit] = lru_cache(maxsize=None)(self._fit)

    def _fit(self, request: JobRequest) -> Fit:
        """How the request can be served; by no node, if nothing fits."""
        groups = [
            (name, self._candidates(request, name, features))
            for name in request.partitions
            if name in self._open
            for features in alternatives(request.features)
        ]
        # One node may be in any of the partitions; several have to be in the same one, and so has one where
        # the jobs of a partition may have so many CPUs of a node.
        if request.node_count == 1 and self._limits.keys().isdisjoint(request.partitions):
            names = frozenset[str]().union(*(names for _, names in groups))
            single = self._fit_on(request, names, 1)
            if single is not None:
                return single
        for fit_on in (self._fit_on, self._uneven_fit_on):
            found = ((name, fit_on(request, names, len(names), name)) for name, names in groups)
            fits = [(name, fit) for name, fit in found if fit is not None]
            if fits:
                return max(fits, key=self._rank)[1]
        return Fit(
            node_count=request.node_count,
            demand=self._largest(request, request.node_count, self._has),
            eligible=frozenset(),
        )

    def _rank(self, found: tuple[str, Fit]) -> tuple[int, bool]:
        """How good a partition is for a request: by how many of its nodes may serve it, then without a
        limit.
        """
        partition, fit = found
        return len(self._nodes if fit.eligible is None else fit.eligible), partition not in self._limits

    def _candidates(self, request: JobRequest, partition: str, features: str) -> frozenset[str]:
        """The nodes of a partition with these features that the request may get, whatever they have."""
        there = {
            one.name: one.features
            for one in self._nodes
            if partition in one.partitions
            and one.name not in request.excluded
            and one.temporary_disk_mb >= request.temporary_disk_mb
            and cpus_per_core(one) >= (request.threads_per_core or 1)
        }
        return satisfying(features, there)

    def _fit_on(
        self, request: JobRequest, names: frozenset[str], most: int, partition: str = ""
    ) -> Fit | None:
        """The fit on the least number of these nodes, up to `most`. None: there is none.

        `partition`: whose jobs may have so many CPUs of each. Empty: there is no limit.
        """
        limit = self._limits.get(partition)

        def kind_of(name: str) -> _NodeKind:
            most_cpus = None if limit is None else limit.on(self._sockets[name])
            return self._has[name], self._shapes[name], most_cpus

        kinds = Counter(map(kind_of, names))
        for node_count in range(request.node_count, min(most, _most_nodes(request)) + 1):
            fits = {kind for kind in kinds if self._serves(request, node_count, kind)}
            if sum(kinds[kind] for kind in fits) < node_count:
                continue
            serve = frozenset(name for name in names if kind_of(name) in fits)
            if request.required:
                # A set of nodes cannot say "these, and some others": then no nodes are the right ones.
                if len(request.required) < node_count or not serve.issuperset(request.required):
                    return None
                serve = frozenset(request.required)
            needed = self._largest(request, node_count, serve)
            return Fit(
                node_count=node_count,
                demand=None if self._whole(request, needed, serve) else self._demand(needed, partition),
                eligible=None if len(serve) == len(self._nodes) else serve,
            )
        return None

    def _uneven_fit_on(
        self, request: JobRequest, names: frozenset[str], most: int, partition: str
    ) -> Fit | None:
        """The fit on whole nodes of different sizes, as `_fit_on`. Generic resources of the whole job, tasks
        by node, nodes by name and CPUs by partition are not looked at: None.
        """
        if request.gres_per_job or request.tasks_per_node or request.required or partition in self._limits:
            return None

        def with_tasks(tasks: int) -> JobRequest:
            cpus = ceil(request.cpu_count * tasks / request.task_count)
            return replace(request, task_count=tasks, cpu_count=cpus)

        def held_by(kind: _NodeKind) -> int:
            return most_tasks(lambda tasks: self._serves(with_tasks(tasks), 1, kind), request.task_count)

        kinds: dict[str, _NodeKind] = {name: (self._has[name], self._shapes[name], None) for name in names}
        sizes = {kind: held_by(kind) for kind in frozenset(kinds.values())}
        found = holding_together(
            {name: sizes[kind] for name, kind in kinds.items()},
            request.task_count,
            request.node_count,
            min(most, _most_nodes(request)),
        )
        return None if found is None else Fit(node_count=found[0], demand=None, eligible=found[1])

    def _serves(self, request: JobRequest, node_count: int, kind: _NodeKind) -> bool:
        """Whether a node of such a kind serves the request as one of so many."""
        has, shape, most_cpus = kind
        needed = self._share(request, node_count, shape)
        return has.covers(needed) and (most_cpus is None or needed.amount(CPU) <= most_cpus)

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

    def _demand(self, needed: Resources, partition: str) -> Resources:
        """What of it this Slurm counts, also for the limit of the partition."""
        counted = {name: amount for name, amount in needed.amounts if name not in self._uncounted}
        if partition in self._limits:
            counted[cpus_in(partition)] = needed.amount(CPU)
        return Resources.of(counted)


def _shape(one: RawNode, counts: Counting) -> NodeShape:
    """In which steps the node gives out its CPUs."""
    by_socket = counts.unit is CpuUnit.SOCKET
    return NodeShape(
        cpus_per_core=cpus_per_core(one),
        cores_per_unit=max(1, one.core_count // one.socket_count) if by_socket else 1,
    )


def _hardware(one: RawNode, counts: Counting) -> Resources:
    """What a node can give to one job that makeway makes room for, counted or not."""
    amounts = {CPU: one.usable_cpu_count, MEMORY: int(one.usable_memory_mb)}
    whole = Resources.of(amounts | gres_amounts(one.gres))
    parted = parted_gpus(one.gres)
    if parted is None:
        return whole
    return parted.capacity(whole, across_gpus=counts.parts_across_gpus)


def _uncounted(nodes: Iterable[RawNode], counts: Counting) -> frozenset[str]:
    """The names of what any number of jobs may use."""
    names = set(gres_amounts(gres for one in nodes for gres in one.gres if not gres.consumable))
    if not counts.memory:
        names.add(MEMORY)
    if not counts.cpus:
        names.add(CPU)
    return frozenset(names)


def _most_nodes(request: JobRequest) -> int:
    """On more nodes than this an even share gets no smaller, or the request does not want them, or some would
    have no task.
    """
    parts = (request.task_count, request.cpu_count, *(one.count for one in request.gres_per_job))
    most = max(request.node_count, *parts)
    if request.task_count > request.node_count:
        # Slurm shows one task for each node of a job that does not say how many tasks it has.
        most = request.task_count
    return most if request.most_nodes is None else min(most, request.most_nodes)
