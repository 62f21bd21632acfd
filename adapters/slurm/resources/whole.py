"""Which nodes may serve a job that gets whole nodes, and how many it needs at least. Pure functions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from makeway.adapters.slurm.nodes.uneven import holding_together
from makeway.adapters.slurm.parse import Gres, RawJob
from makeway.adapters.slurm.parse_cluster import RawNode
from makeway.adapters.slurm.resources.counting import cpus_per_core
from makeway.adapters.slurm.resources.details import JobDetails, MemoryPer, least_nodes, overcommits
from makeway.adapters.slurm.resources.features import alternatives, satisfying
from makeway.adapters.slurm.resources.gpu_parts import for_one_job
from makeway.adapters.slurm.resources.request import JobRequest, gres_share
from makeway.policies.model import GPU


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
    memory_per_cpu_mb: float = 0.0
    """Memory for each CPU of the node: the job gets all of them. 0: nothing asked for."""
    memory_per_gpu_mb: float = 0.0
    """The same for each GPU."""
    gres: tuple[Gres, ...]
    threads_per_core: int = 1
    """How many threads a core has to have."""
    cpus_per_core: int = 1
    """How many of them have to be CPUs: on nodes whose cores count as CPUs Slurm gives a job no second thread
    of a core, unless it counts no cores (22.05, 24.11 and 26.05 as tried)."""
    core_count: int = 0
    """How many cores, where the job does not use every thread of a core. 0: it does not say."""
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
        self._across_gpus = parts_across_gpus
        self._gres = {
            one.name: for_one_job(one.gres, across_gpus=parts_across_gpus) for one in nodes if one.gres
        }
        self._open = open_partitions
        self._names = frozenset(one.name for one in nodes)
        cpus = {
            name: [one.cpu_count for one in nodes if name in one.partitions]
            for name in frozenset[str]().union(*(one.partitions for one in nodes))
        }
        self._least_cpus = {name: min(counts) for name, counts in cpus.items()}
        self._most_cpus = {name: max(counts) for name, counts in cpus.items()}
        # Most jobs of a queue ask for the same: the answer is worked out once.
        self.eligible: Callable[[WholeDemand], frozenset[str] | None] = lru_cache(maxsize=None)(self._serving)

    def among(self, nodes: tuple[RawNode, ...]) -> "WholeServing":
        """The same for some of the nodes."""
        return WholeServing(nodes, self._open, parts_across_gpus=self._across_gpus)

    def least_size(self, raw: RawJob, size: int) -> int:
        """The least number of nodes that a waiting job asks for.

        For a range such as 2-4 Slurm shows the size that it would give the job now, mostly the largest. The
        least one is in the requested resources. It is 1 for a job that asks for CPUs alone: such a job needs
        as many nodes as hold its CPUs.
        """
        least = self.size_for(raw.requested_node_count or size, raw.cpu_count, raw.partitions)
        return max(least_nodes(raw), min(size, least))

    def size_for(self, least: int, cpu_count: int, partitions: tuple[str, ...]) -> int:
        """How many nodes hold so many CPUs, and at least `least`."""
        least_cpus = min((self._least_cpus.get(name, 1) for name in partitions), default=1)
        return max(least, ceil(cpu_count / max(1, least_cpus)))

    def least_of_largest(self, raw: RawJob, size: int) -> int:
        """The least number of nodes that hold a waiting job if they are the largest of its partitions."""
        most_cpus = max((self._most_cpus.get(name, 1) for name in raw.partitions), default=1)
        least = max(raw.requested_node_count or size, least_nodes(raw))
        return max(least, ceil(raw.cpu_count / max(1, most_cpus)))

    def of_like_size(
        self, demand_of: Callable[[int], WholeDemand], least: int, most: int
    ) -> tuple[int, frozenset[str]] | None:
        """A number of nodes between `least` and `most`, and the nodes of which any so many hold a job and no
        fewer do. The number is the one with most such nodes, of equal ones the least. None: there is none.

        On nodes of which some are larger, the job could leave one unused for which jobs had to leave.
        """
        found: tuple[int, frozenset[str]] | None = None
        larger = frozenset[str]()
        for size in range(least, min(most, len(self._nodes)) + 1):
            eligible = self.eligible(demand_of(size))
            names = self._names if eligible is None else eligible
            like = names - larger
            if len(like) >= size and (found is None or len(like) > len(found[1])):
                found = size, like
            larger |= names
        return found

    def fewest(
        self, demand_of: Callable[[int], WholeDemand], least: int, most: int
    ) -> tuple[int, frozenset[str] | None]:
        """The least number of nodes that can serve, and which nodes may. None: every node.

        If there is no such number, it is `least`.

        Args:
            demand_of: what the job asks of each of so many nodes.
            least: the least number that is tried.
            most: the largest one. It does not matter if that is less than the least one.
        """
        for size in range(least, min(most, len(self._nodes)) + 1):
            eligible = self.eligible(demand_of(size))
            if eligible is None or len(eligible) >= size:
                return size, eligible
        return least, self.eligible(demand_of(least))

    def fewest_uneven(
        self,
        demand_of: Callable[[int], WholeDemand],
        job: RawJob | JobRequest,
        found: JobDetails | JobRequest | None,
        least: int,
        most: int | None,
    ) -> tuple[int, frozenset[str]] | None:
        """The least number of nodes of different sizes that have the CPUs of a job together, and the nodes of
        which any so many do. None if the job asks for generic resources of all nodes together, for tasks by
        node or for nodes by name.

        Args:
            demand_of: what the job asks of each of so many nodes.
            job: the job.
            found: what it says of threads and tasks of a core. None: nothing that counts.
            least: the least number of nodes.
            most: the largest one. None: any.
        """
        if job.gres_per_job or job.gres_per_task or job.tasks_per_node or demand_of(least).required:
            return None
        per_task = max(1, job.cpus_per_task)
        least_cpus = max(per_task, job.least_cpus_per_node)

        def fewest_of(demand: WholeDemand) -> tuple[int, frozenset[str]] | None:
            names = self.eligible(replace(demand, cpu_count=least_cpus, core_count=0))
            sizes = {
                one.name: _tasks_on(one, per_task, found) * per_task
                for one in self._nodes
                if names is None or one.name in names
            }
            return holding_together(sizes, job.cpu_count, least, most or len(sizes))

        # The memory of each node depends on how many there are.
        first = fewest_of(replace(demand_of(least), memory_mb=0.0))
        return None if first is None else fewest_of(demand_of(first[0]))

    def _serving(self, demand: WholeDemand) -> frozenset[str] | None:
        # A job runs in one of its partitions alone, and on nodes of one of several features: those count that
        # have most nodes for it, of equal ones the first.
        ways = ((name, one) for name in demand.partitions for one in alternatives(demand.features))
        names = max((self._serving_in(name, one, demand) for name, one in ways), key=len)
        return None if len(names) == len(self._nodes) else names

    def _serving_in(self, partition: str, features: str, demand: WholeDemand) -> frozenset[str]:
        if partition not in self._open:
            return frozenset()
        fitting = (one for one in self._nodes if partition in one.partitions and self._fits(one, demand))
        names = satisfying(features, {one.name: one.features for one in fitting})
        if not demand.required:
            return names
        # A set of nodes cannot say "these, and some others": then no nodes are the right ones.
        serves = demand.required_are_all and names.issuperset(demand.required)
        return frozenset(demand.required) if serves else frozenset()

    def _fits(self, one: RawNode, demand: WholeDemand) -> bool:
        has = self._gres.get(one.name, ())
        gpu_count = sum(gres.count for gres in has if gres.name == "gpu")
        memory_mb = max(
            demand.memory_mb,
            demand.memory_per_cpu_mb * one.usable_cpu_count,
            demand.memory_per_gpu_mb * gpu_count,
        )
        return (
            one.usable_cpu_count >= demand.cpu_count
            and one.usable_memory_mb >= memory_mb
            and one.threads_per_core >= demand.threads_per_core
            and cpus_per_core(one) >= demand.cpus_per_core
            and one.usable_cpu_count // cpus_per_core(one) >= demand.core_count
            and one.temporary_disk_mb >= demand.temporary_disk_mb
            and one.name not in demand.excluded
            and all(_has(has, wanted) for wanted in demand.gres)
        )


def whole_demand(
    raw: RawJob,
    least_size: int | None,
    found: JobDetails | None = None,
    *,
    memory: bool = False,
    cores: bool = False,
) -> WholeDemand:
    """What a job asks of each node.

    Args:
        raw: the job.
        least_size: the least number of nodes. None: as many as it has.
        found: what is known of it besides squeue's line.
        memory: whether this Slurm counts memory.
        cores: whether it counts cores and not only threads.
    """
    size = max(raw.node_count if least_size is None else least_size, 1)
    memory_mb = max(raw.memory_mb, raw.tres_memory_mb / size) if raw.memory_mb else 0.0
    tasks = raw.tasks_per_node or ceil(raw.task_count / size)
    demand = WholeDemand(
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
            *_shares(raw.gres_per_job, size),
            *_of_tasks(raw.gres_per_task, tasks),
        ),
    )
    if found is None:
        return demand
    of_tasks = 0 if overcommits(raw) else tasks * raw.cpus_per_task
    cpu_count = max(demand.cpu_count, of_tasks)
    demand = replace(
        demand,
        cpu_count=cpu_count,
        threads_per_core=(threads := found.threads_per_core or 1),
        cpus_per_core=threads if cores else 1,
        core_count=_cores(cpu_count, tasks, found) if cores else 0,
        temporary_disk_mb=found.temporary_disk_mb,
    )
    return _with_all_memory(demand, raw, found) if memory and found.takes_all else demand


def _with_all_memory(demand: WholeDemand, raw: RawJob, found: JobDetails) -> WholeDemand:
    """The demand of a job that gets the memory of all CPUs or GPUs of its nodes."""
    by_gpu = float(raw.memory_per_gpu_mb)
    if raw.gpu_defaults is not None and found.memory_per is not MemoryPer.NODE:
        by_gpu = by_gpu or raw.gpu_defaults.memory_mb
    if by_gpu:
        return replace(demand, memory_mb=0.0, memory_per_gpu_mb=by_gpu)
    by_cpu = found.memory_per is MemoryPer.CPU
    return replace(demand, memory_per_cpu_mb=found.memory_mb if by_cpu else 0.0)


def whole_demand_of(
    request: JobRequest, size: int, *, memory: bool = False, cores: bool = False
) -> WholeDemand:
    """What a request needs of each of so many whole nodes. `memory`, `cores`: see `whole_demand`."""
    tasks = request.tasks_per_node or ceil(request.task_count / size)
    generic = (
        *request.gres_per_node,
        *_shares(request.gres_per_job, size),
        *_of_tasks(request.gres_per_task, tasks),
    )
    cpu_count = max(
        request.least_cpus_per_node, ceil(request.cpu_count / size), tasks * request.cpus_per_task
    )
    by_node = request.memory_per is MemoryPer.NODE
    demand = WholeDemand(
        partitions=request.partitions,
        features=request.features,
        required=request.required,
        required_are_all=len(request.required) >= size,
        excluded=request.excluded,
        cpu_count=cpu_count,
        memory_mb=request.memory_mb if by_node else 0.0,
        gres=generic,
        threads_per_core=(threads := request.threads_per_core or 1),
        cpus_per_core=threads if cores else 1,
        core_count=_cores(cpu_count, tasks, request) if cores else 0,
        temporary_disk_mb=request.temporary_disk_mb,
    )
    if by_node or not memory:
        return demand
    by_cpu = request.memory_per is MemoryPer.CPU
    if request.takes_all and by_cpu:
        return replace(demand, memory_per_cpu_mb=request.memory_mb)
    if request.takes_all:
        return replace(demand, memory_per_gpu_mb=request.memory_mb)
    counted = cpu_count if by_cpu else gres_share(request, size, tasks).get(GPU, 0)
    return replace(demand, memory_mb=request.memory_mb * counted)


def most_size(least: int, job: RawJob | JobRequest) -> int:
    """On more nodes than this no node needs fewer GPUs and the like."""
    parts = [one.count for one in job.gres_per_job]
    if job.gres_per_task:
        parts.append(job.task_count)
    return max(least, *parts) if parts else least


def _cores(cpu_count: int, tasks: int, asked: JobDetails | JobRequest) -> int:
    """The cores of so many CPUs and tasks. 0: it does not say how many threads or tasks a core has."""
    threads, per_core = asked.threads_per_core, asked.tasks_per_core
    return max(ceil(cpu_count / threads) if threads else 0, ceil(tasks / per_core) if per_core else 0)


def _tasks_on(one: RawNode, cpus_per_task: int, asked: JobDetails | JobRequest | None) -> int:
    """How many tasks of a job a node holds, by its CPUs."""
    threads, per_core = (None, None) if asked is None else (asked.threads_per_core, asked.tasks_per_core)
    cores = one.usable_cpu_count // cpus_per_core(one)
    tasks = (cores * threads if threads else one.usable_cpu_count) // cpus_per_task
    return min(tasks, cores * per_core) if per_core else tasks


def _shares(gres: tuple[Gres, ...], size: int) -> tuple[Gres, ...]:
    """The even share of what is asked for all nodes together."""
    return tuple(replace(one, count=ceil(one.count / size)) for one in gres)


def _of_tasks(gres: tuple[Gres, ...], tasks: int) -> tuple[Gres, ...]:
    """What so many tasks need together."""
    return tuple(replace(one, count=one.count * tasks) for one in gres)


def _has(gres: tuple[Gres, ...], wanted: Gres) -> bool:
    having = (one.count for one in gres if one.name == wanted.name and wanted.type in {"", one.type})
    return sum(having) >= wanted.count
