"""What a waiting job asks of each node, however its user has put it. Pure functions."""

from dataclasses import dataclass
from math import ceil, isclose

from makeway.adapters.slurm.parse import Gres, RawJob
from makeway.adapters.slurm.parse_cluster import NO_JOB_DEFAULTS, JobDefaults
from makeway.adapters.slurm.resources.counting import Counting, gres_amounts
from makeway.adapters.slurm.resources.details import JobDetails, MemoryPer, least_nodes, overcommits
from makeway.policies.model import CPU, GPU, MEMORY, Resources

_ROUNDED = 0.01
"""Slurm prints amounts of memory with two decimals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What a job that shares nodes asks for."""

    partitions: tuple[str, ...]
    features: str
    required: tuple[str, ...]
    """Nodes that it has to get."""
    excluded: tuple[str, ...]
    node_count: int
    """The least number of nodes."""
    most_nodes: int | None = None
    """The largest number of nodes. None: it does not say."""
    cpu_count: int
    """CPUs on all nodes together."""
    task_count: int
    cpus_per_task: int
    tasks_per_node: int
    """0: as many as the number of nodes gives."""
    least_cpus_per_node: int
    memory_per: MemoryPer
    memory_mb: float
    """0: all memory of each node."""
    gres_per_node: tuple[Gres, ...]
    gres_per_job: tuple[Gres, ...]
    gres_per_task: tuple[Gres, ...]
    cpus_per_gpu: int
    """0: it does not say."""
    threads_per_core: int | None
    """How many threads of a core it uses at most. None: all."""
    tasks_per_core: int | None
    temporary_disk_mb: float = 0.0
    """How large the temporary disk of each node has to be."""
    takes_all: bool = False
    """Whether it gets all CPUs and GPUs of its nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """In which steps a node gives out its CPUs."""

    cpus_per_core: int
    cores_per_unit: int
    """1, or those of a socket: a job gets a multiple of it. Slurm spreads its tasks over more sockets if they
    are free, and needs no more.
    """


def request_of(job: RawJob, found: JobDetails | None, defaults: JobDefaults = NO_JOB_DEFAULTS) -> JobRequest:
    """What the job asks for by squeue and, if they are known, by its details, with what it gets by default.

    squeue does not tell whether memory is asked for by node or by CPU: without the details it is taken from
    the job's sum. `defaults`: those in its partition.
    """
    least = least_nodes(job)
    generic = (*job.gres_per_node, *job.gres_per_job, *job.gres_per_task)
    if all(one.name != "gpu" for one in generic):
        defaults = JobDefaults(memory=defaults.memory)
    per, memory_mb = _memory(job, found, least, defaults)
    return JobRequest(
        partitions=job.partitions,
        features=job.features,
        required=job.required_nodes,
        excluded=job.excluded_nodes or (),
        node_count=least,
        most_nodes=None if found is None else found.most_nodes,
        cpu_count=job.cpu_count,
        task_count=least if overcommits(job) else job.task_count,
        cpus_per_task=job.cpus_per_task,
        tasks_per_node=0 if overcommits(job) else job.tasks_per_node,
        least_cpus_per_node=job.least_cpus_per_node,
        memory_per=per,
        memory_mb=memory_mb,
        gres_per_node=job.gres_per_node,
        gres_per_job=job.gres_per_job,
        gres_per_task=job.gres_per_task,
        cpus_per_gpu=job.cpus_per_gpu or _default_cpus(job, defaults),
        threads_per_core=None if found is None else found.threads_per_core,
        tasks_per_core=None if found is None else found.tasks_per_core,
        temporary_disk_mb=0.0 if found is None else found.temporary_disk_mb,
    )


def _default_cpus(job: RawJob, defaults: JobDefaults) -> int:
    """The CPUs that a job gets for each GPU if it does not say.

    Slurm shows them only once its scheduler has looked at the job. Before that, a job that asks for one CPU a
    task looks like one that says nothing.
    """
    if job.gpu_defaults is not None:
        return job.gpu_defaults.cpu_count
    return defaults.of_gpus.cpu_count if job.cpus_per_task == 1 else 0


def _memory(
    job: RawJob, found: JobDetails | None, least: int, defaults: JobDefaults
) -> tuple[MemoryPer, float]:
    """What the job's memory is counted by, and how much. A job that asks for as much as the default of jobs
    without GPUs looks like one that does not say. `least`: the number of nodes that it asks for.
    """
    if job.memory_per_gpu_mb:
        return MemoryPer.GPU, float(job.memory_per_gpu_mb)
    usual = (MemoryPer.NODE, 0.0)
    if defaults.memory is not None:
        by = MemoryPer.CPU if defaults.memory.per_cpu else MemoryPer.NODE
        usual = (by, defaults.memory.amount_mb)
    if found is None:
        asked = MemoryPer.NODE, job.memory_mb and max(job.memory_mb, job.tres_memory_mb / least)
        says_nothing = asked == usual
    elif found.memory_per is MemoryPer.GPU:
        # With the default of GPUs, 24.11 hides whether --mem or --mem-per-cpu was asked for. --mem is usual.
        asked = MemoryPer.NODE, job.tres_memory_mb / least
        units = job.cpu_count if usual[0] is MemoryPer.CPU else least
        says_nothing = not usual[1] or isclose(job.tres_memory_mb, usual[1] * units, rel_tol=_ROUNDED)
    else:
        asked = found.memory_per, found.memory_mb
        says_nothing = asked == usual
    by_gpu = job.gpu_defaults.memory_mb if job.gpu_defaults else defaults.of_gpus.memory_mb
    return (MemoryPer.GPU, by_gpu) if by_gpu and says_nothing else asked


def share(request: JobRequest, node_count: int, shape: NodeShape, counts: Counting) -> Resources:
    """What the request needs on each of so many nodes: the even share, rounded up to what Slurm gives out."""
    tasks = request.tasks_per_node or ceil(request.task_count / node_count)
    generic = gres_share(request, node_count, tasks)
    gpus = generic.get(GPU, 0)
    asked = max(
        tasks * request.cpus_per_task,
        request.least_cpus_per_node,
        ceil(request.cpu_count / node_count),
        gpus * request.cpus_per_gpu,
    )
    threads = min(request.threads_per_core or shape.cpus_per_core, shape.cpus_per_core)
    cores = _cores(ceil(asked / threads), tasks, request, shape, counts)
    match request.memory_per:
        case MemoryPer.NODE:
            memory_mb = request.memory_mb
        case MemoryPer.CPU:
            # Threads that the job does not want to use get no memory.
            memory_mb = request.memory_mb * (cores * threads if counts.memory_by_unit else asked)
        case MemoryPer.GPU:
            memory_mb = request.memory_mb * gpus
    return Resources.of({CPU: cores * shape.cpus_per_core, MEMORY: ceil(memory_mb)} | generic)


def gres_share(request: JobRequest | RawJob, node_count: int, tasks: int) -> dict[str, int]:
    """The generic resources that a request needs on each of so many nodes with so many tasks, by name.

    What it says by node, of the whole job and by task is said of the same ones: `--gpus=8 --gpus-per-node=4`
    is four GPUs on each of two nodes.
    """
    found = gres_amounts(request.gres_per_node)
    of_job = gres_amounts(request.gres_per_job)
    of_task = gres_amounts(request.gres_per_task)
    for name in of_job.keys() | of_task.keys():
        even = ceil(of_job.get(name, 0) / node_count)
        found[name] = max(found.get(name, 0), even, of_task.get(name, 0) * tasks)
    return found


def _cores(needed: int, tasks: int, request: JobRequest, shape: NodeShape, counts: Counting) -> int:
    """The cores that a job gets whose CPUs need so many: some for each task, or whole sockets."""
    per_core = 1 if counts.one_task_per_core else request.tasks_per_core
    if per_core:
        needed = max(needed, ceil(tasks / per_core))
    return ceil(needed / shape.cores_per_unit) * shape.cores_per_unit
