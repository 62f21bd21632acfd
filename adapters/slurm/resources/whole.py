"""Which nodes may serve a job that gets whole nodes, and how many it needs at least. Pure functions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from makeway.adapters.slurm.parse import Gres, RawJob
from makeway.adapters.slurm.parse_cluster import RawNode
from makeway.adapters.slurm.resources.details import MemoryPer
from makeway.adapters.slurm.resources.features import satisfying
from makeway.adapters.slurm.resources.gpu_parts import for_one_job
from makeway.adapters.slurm.resources.request import JobRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeDemand:
    """What a job asks of each node."""

    partitions: tuple[str, ...]
    features: str
    required: tuple[str, ...]
    required_are_all: bool
    """Whether the job asks for no node besides the required ones."""
    excluded: tuple[str, ...]
    cpu_count: int
    memory_mb: float
    gres: tuple[Gres, ...]
    temporary_disk_mb: float = 0.0


class WholeServing:
    """Finds the nodes for the jobs of one snapshot.

    Args:
        nodes: the nodes of the snapshot.
        open_partitions: the partitions that start jobs.
        parts_across_gpus: whether a job may get shards of several GPUs.
    """

    def __init__(
        self, nodes: tuple[RawNode, ...], open_partitions: frozenset[str], *, parts_across_gpus: bool = False
    ) -> None:
        self._nodes = nodes
        self._gres = {
            one.name: for_one_job(one.gres, across_gpus=parts_across_gpus) for one in nodes if one.gres
        }
        self._open = open_partitions
        self._least_cpus = {
            name: min(one.cpu_count for one in nodes if name in one.partitions)
            for name in frozenset[str]().union(*(one.partitions for one in nodes))
        }
        # Most jobs of a queue ask for the same: the answer is worked out once.
        self.eligible: Callable[[WholeDemand], frozenset[str] | None] = lru_cache(maxsize=None)(self._serving)

    def least_size(self, raw: RawJob, size: int) -> int:
        """The least number of nodes that a waiting job asks for.

        For a range such as 2-4 Slurm shows the size that it would give the job now, mostly the largest. The
        least one is in the requested resources. It is 1 for a job that asks for CPUs alone: such a job needs
        as many nodes as hold its CPUs.
        """
        return min(size, self.size_for(raw.requested_node_count or size, raw.cpu_count, raw.partitions))

    def size_for(self, least: int, cpu_count: int, partitions: tuple[str, ...]) -> int:
        """How many nodes hold so many CPUs, and at least `least`."""
        least_cpus = min((self._least_cpus.get(name, 1) for name in partitions), default=1)
        return max(least, ceil(cpu_count / max(1, least_cpus)))

    def _serving(self, demand: WholeDemand) -> frozenset[str] | None:
        # A job runs in one of its partitions alone: the one with most nodes for it, of equal ones the first.
        names = max((self._serving_in(name, demand) for name in demand.partitions), key=len)
        return None if len(names) == len(self._nodes) else names

    def _serving_in(self, partition: str, demand: WholeDemand) -> frozenset[str]:
        if partition not in self._open:
            return frozenset()
        fitting = (one for one in self._nodes if partition in one.partitions and self._fits(one, demand))
        names = satisfying(demand.features, {one.name: one.features for one in fitting})
        if not demand.required:
            return names
        # A set of nodes cannot say "these, and some others": then no nodes are the right ones.
        serves = demand.required_are_all and names.issuperset(demand.required)
        return frozenset(demand.required) if serves else frozenset()

    def _fits(self, one: RawNode, demand: WholeDemand) -> bool:
        return (
            one.usable_cpu_count >= demand.cpu_count
            and one.usable_memory_mb >= demand.memory_mb
            and one.temporary_disk_mb >= demand.temporary_disk_mb
            and one.name not in demand.excluded
            and all(_has(self._gres.get(one.name, ()), wanted) for wanted in demand.gres)
        )


def whole_demand(raw: RawJob, least_size: int | None, *, temporary_disk_mb: float = 0.0) -> WholeDemand:
    """What a job asks of each node. `least_size`: the least number of nodes; None: as many as it has."""
    size = max(raw.node_count if least_size is None else least_size, 1)
    memory_mb = max(raw.memory_mb, raw.tres_memory_mb / size) if raw.memory_mb else 0.0
    return WholeDemand(
        partitions=raw.partitions,
        features=raw.features,
        required=raw.required_nodes,
        required_are_all=len(raw.required_nodes) >= size,
        excluded=raw.excluded_nodes or (),
        cpu_count=max(raw.least_cpus_per_node, ceil(raw.cpu_count / size)),
        memory_mb=memory_mb,
        gres=(
            *raw.gres_per_node,
            *raw.gres_per_socket,
            *(replace(one, count=ceil(one.count / size)) for one in raw.gres_per_job),
        ),
        temporary_disk_mb=temporary_disk_mb,
    )


def whole_demand_of(request: JobRequest, size: int) -> WholeDemand:
    """What a request needs of each of so many whole nodes."""
    return WholeDemand(
        partitions=request.partitions,
        features=request.features,
        required=request.required,
        required_are_all=len(request.required) >= size,
        excluded=request.excluded,
        cpu_count=max(request.least_cpus_per_node, ceil(request.cpu_count / size)),
        memory_mb=request.memory_mb if request.memory_per is MemoryPer.NODE else 0.0,
        gres=(
            *request.gres_per_node,
            *(replace(one, count=ceil(one.count / size)) for one in request.gres_per_job),
        ),
        temporary_disk_mb=request.temporary_disk_mb,
    )


def _has(gres: tuple[Gres, ...], wanted: Gres) -> bool:
    having = (one.count for one in gres if one.name == wanted.name and wanted.type in {"", one.type})
    return sum(having) >= wanted.count
