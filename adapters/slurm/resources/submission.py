"""What a job would ask for that is submitted with given options of sbatch. Pure functions.

Only options are read that say what the job needs, and those that never matter for it. Any other is refused:
an answer without it would be about another job.
"""

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NoReturn

from makeway.adapters.hostlist import expand
from makeway.adapters.site.times import UNLIMITED_S
from makeway.adapters.slurm.parse import Gres, gres, memory_mb
from makeway.adapters.slurm.parse_cluster import JobDefaults, RawPartition
from makeway.adapters.slurm.resources.details import MemoryPer
from makeway.adapters.slurm.resources.request import JobRequest

_COUNTS = (
    ("-n", "--ntasks"),
    ("-c", "--cpus-per-task"),
    ("--ntasks-per-node",),
    ("--ntasks-per-core",),
    ("--threads-per-core",),
    ("--cpus-per-gpu",),
    ("--mincpus",),
)
_TEXTS = (
    ("-p", "--partition"),
    ("-C", "--constraint"),
    ("-G", "--gpus"),
    ("--gpus-per-node",),
    ("--gpus-per-task",),
    ("--gres",),
)
_WITHOUT_EFFECT = (
    ("-J", "--job-name"),
    ("-A", "--account"),
    ("-q", "--qos"),
    ("-o", "--output"),
    ("-e", "--error"),
    ("-D", "--chdir"),
    ("-i", "--input"),
    ("--comment",),
    ("--export",),
    ("--mail-type",),
    ("--mail-user",),
    ("--open-mode",),
    ("--signal",),
    ("--wckey",),
    ("--wrap",),
)
"""Options with a value that does not change which nodes may serve the job."""
_SWITCHES_WITHOUT_EFFECT = (
    ("-k", "--no-kill"),
    ("-Q", "--quiet"),
    ("-v", "--verbose"),
    ("--parsable",),
    ("--requeue",),
    ("--no-requeue",),
)
"""Options without a value that do not change it either."""
_MEMORY = ("--mem", "--mem-per-cpu", "--mem-per-gpu")
_NO_LIMIT = frozenset({"UNLIMITED", "INFINITE"})
_ONE_THREAD = frozenset({"nomultithread", "compute_bound"})
"""The hints by which a job uses one thread of each core."""
_OTHERS = (
    *("--nodes", "--time", "--nodelist", "--exclude", *_MEMORY, "--tmp", "--exclusive", "--hint"),
    "--overcommit",
)
_AMOUNT = re.compile(r"\d+(?:[KMGT]B?)?", re.ASCII | re.IGNORECASE)
_RANGE = re.compile(r"([1-9][0-9]{0,6})(?:-([1-9][0-9]{0,6}))?", re.ASCII)
_DAYS = re.compile(r"(?P<d>\d+)-(?P<h>\d+)(?::(?P<m>\d+)(?::(?P<s>\d+))?)?", re.ASCII)
_CLOCK = re.compile(r"(?:(?P<h>\d+):(?=\d+:))?(?P<m>\d+)(?::(?P<s>\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a job would ask for."""

    request: JobRequest
    exclusive: bool
    """Whether it shares its nodes with no job, or with none of other users."""
    limit_s: float | None
    """None: the options have no time limit."""


def submission(
    options: Sequence[str], partitions: Sequence[RawPartition], job_defaults: JobDefaults
) -> Submission:
    """Read options of sbatch.

    Args:
        options: the arguments before the script.
        partitions: those of the cluster.
        job_defaults: what jobs get that do not say, where the partition has no default of its own.

    Raises:
        ValueError: an option that is not known, or a value that sbatch would not accept.
    """
    given = _parser().parse_args(list(options), _Options())
    names = tuple(given.partition.split(",")) if given.partition else _default(partitions)
    known = {one.name: one for one in partitions}
    for name in names:
        if name not in known:
            raise ValueError(f"--partition: there is no partition {name!r}; accepted: {', '.join(known)}")
    first = known[names[0]]
    return Submission(
        request=_request(given, names, job_defaults.in_partition(first), _least_in(first, names)),
        exclusive=given.exclusive is not None,
        limit_s=given.time,
    )


class _Options(Namespace):
    """The values of the options; None, or empty, where one is not given."""

    partition: str
    constraint: str
    nodes: tuple[int, int] | None
    nodelist: tuple[str, ...]
    exclude: tuple[str, ...]
    ntasks: int | None
    cpus_per_task: int | None
    ntasks_per_node: int | None
    ntasks_per_core: int | None
    threads_per_core: int | None
    cpus_per_gpu: int | None
    mincpus: int | None
    mem: float | None
    mem_per_cpu: float | None
    mem_per_gpu: float | None
    tmp: float | None
    gres: str
    gpus: str
    gpus_per_node: str
    gpus_per_task: str
    exclusive: str | None
    hint: str | None
    overcommit: bool
    time: float | None


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raises where the program would end."""
        message = message.removeprefix("argument ")
        if message.startswith("unrecognized"):
            read = (*_COUNTS, *_TEXTS, *_WITHOUT_EFFECT, *_SWITCHES_WITHOUT_EFFECT)
            known = {names[-1] for names in read}
            message += f"; accepted: {', '.join(sorted(known.union(_OTHERS)))}"
        raise ValueError(message)


def _parser() -> ArgumentParser:
    parser = _Parser(prog="sbatch", add_help=False, usage="")
    for names in _COUNTS:
        parser.add_argument(*names, type=_checked(int, "a number above 0", lambda number: number > 0))
    for names in _TEXTS:
        parser.add_argument(*names, default="")
    for names in _WITHOUT_EFFECT:
        parser.add_argument(*names)
    for names in _SWITCHES_WITHOUT_EFFECT:
        parser.add_argument(*names, action="store_true")
    parser.add_argument("-O", "--overcommit", action="store_true")
    parser.add_argument("-N", "--nodes", type=_checked(_nodes, "a number of nodes, or a range such as 2-4"))
    parser.add_argument("-t", "--time", type=_checked(_limit_s, "a time such as 90, 1:30:00 or 2-12"))
    hosts = _checked(lambda text: tuple(expand(text)), "node names such as n[1-3]")
    parser.add_argument("-w", "--nodelist", type=hosts, default=())
    parser.add_argument("-x", "--exclude", type=hosts, default=())
    memory = parser.add_mutually_exclusive_group()
    for name in _MEMORY:
        memory.add_argument(name, type=_checked(_amount_mb, "an amount such as 500, 4000M or 64G"))
    parser.add_argument("--tmp", type=_checked(_amount_mb, "an amount such as 500, 4000M or 64G"))
    parser.add_argument("--exclusive", nargs="?", const="", choices=["", "user", "mcs"])
    parser.add_argument("--hint", choices=["nomultithread", "multithread", "compute_bound"])
    return parser


def _checked(
    read: Callable[[str], object], accepted: str, good: Callable[[int], bool] | None = None
) -> Callable[[str], object]:
    """A reader of values whose error says what is accepted."""

    def reader(text: str) -> object:
        try:
            found = read(text)
        except ValueError:
            found = None
        if found is None or (good is not None and isinstance(found, int) and not good(found)):
            raise ArgumentTypeError(f"{text!r} is not accepted; accepted: {accepted}")
        return found

    return reader


def _amount_mb(text: str) -> float:
    """Megabytes of `500`, `64G`, `64g` or `64GB`."""
    if _AMOUNT.fullmatch(text) is None:
        raise ValueError(text)
    return memory_mb(text.upper().removesuffix("B"))


def _nodes(text: str) -> tuple[int, int]:
    """The least and the largest number of nodes."""
    found = _RANGE.fullmatch(text)
    if found is None or int(found[2] or found[1]) < int(found[1]):
        raise ValueError(text)
    return int(found[1]), int(found[2] or found[1])


def _limit_s(text: str) -> float:
    """Seconds of sbatch's forms of a time: minutes, m:s, h:m:s, d-h, d-h:m, d-h:m:s, and no limit."""
    if text.upper() in _NO_LIMIT:
        return UNLIMITED_S
    found = _DAYS.fullmatch(text) or _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(text)
    parts = {name: int(number or 0) for name, number in found.groupdict().items()}
    return float(((parts.get("d", 0) * 24 + parts["h"]) * 60 + parts["m"]) * 60 + parts["s"])


def _default(partitions: Sequence[RawPartition]) -> tuple[str, ...]:
    found = tuple(one.name for one in partitions if one.by_default)
    if not found:
        raise ValueError("--partition: the cluster has no default partition, so that one is expected")
    return found


def _gpus(text: str) -> tuple[Gres, ...]:
    """The GPUs of `2`, `a100:2` or `a100:1,v100:1`."""
    return gres(",".join(f"gpu:{part}" for part in text.split(","))) if text else ()


def _least_in(partition: RawPartition, names: tuple[str, ...]) -> int:
    """To which number of nodes Slurm raises a smaller one that may be larger: that of the only partition."""
    return partition.admission.node_count_min if len(names) == 1 else 0


def _request(
    given: _Options, names: tuple[str, ...], defaults: JobDefaults, least_in_partition: int
) -> JobRequest:
    per_node = given.ntasks_per_node or 0
    of_job, of_task = _gpus(given.gpus), _gpus(given.gpus_per_task)
    of_node = (*_gres(given.gres), *_gpus(given.gpus_per_node))
    by_gpus = _nodes_by_gpus(of_job, of_node)
    least, most = _node_range(given, by_gpus)
    tasks = given.ntasks or 0
    if not tasks and of_job and of_task:
        tasks = ceil(sum(one.count for one in of_job) / max(1, sum(one.count for one in of_task)))
    tasks = tasks or least * max(1, per_node)
    if per_node:
        least = max(least, ceil(tasks / per_node))
    least = max(1, min(least, tasks))
    _require_startable(given, tasks, least, by_gpus)
    if given.ntasks and of_job:  # 22.05 refuses it on more nodes, and later releases never start it
        most = min(most or tasks, max(tasks, least_in_partition))
    per_task = given.cpus_per_task or 1
    if given.overcommit and not per_node:
        tasks = min(tasks, least)
    if most is None or most >= least_in_partition:
        least = max(least, least_in_partition)
    with_gpus = any(one.name == "gpu" for one in (*of_job, *of_task, *of_node))
    defaults = defaults if with_gpus else JobDefaults(memory=defaults.memory)
    memory_per, memory = _memory(given, defaults)
    return JobRequest(
        partitions=names,
        features=given.constraint,
        required=given.nodelist[:least],
        excluded=given.exclude,
        node_count=least,
        most_nodes=most,
        cpu_count=tasks * per_task,
        task_count=tasks,
        cpus_per_task=per_task,
        tasks_per_node=per_node,
        least_cpus_per_node=max(given.mincpus or 0, per_task * max(1, per_node)),
        memory_per=memory_per,
        memory_mb=memory,
        gres_per_node=of_node,
        gres_per_job=of_job if not of_task else (),
        gres_per_task=of_task,
        cpus_per_gpu=given.cpus_per_gpu or (0 if given.cpus_per_task else defaults.of_gpus.cpu_count),
        threads_per_core=1 if given.hint in _ONE_THREAD else given.threads_per_core,
        tasks_per_core=given.ntasks_per_core,
        temporary_disk_mb=given.tmp or 0.0,
        takes_all=given.exclusive == "",
    )


def _require_startable(given: _Options, tasks: int, least: int, by_gpus: int) -> None:
    """Refuse what Slurm refuses, or takes and never starts. `least`, `by_gpus`: how many nodes are asked for,
    and how many the GPUs make.
    """
    if least < by_gpus:
        raise ValueError(
            "--gpus and --gpus-per-node with fewer tasks than nodes: "
            "24.11 never starts such a job, and 26.05 refuses it"
        )
    several_cpus = given.cpus_per_task is not None and given.cpus_per_task > 1
    if given.overcommit and not given.ntasks_per_node and tasks > least and several_cpus:
        raise ValueError(
            "--overcommit with --cpus-per-task and more tasks than nodes: "
            "24.11 and 26.05 never start such a job"
        )


def _nodes_by_gpus(of_job: tuple[Gres, ...], of_node: tuple[Gres, ...]) -> int:
    """On how many nodes a job runs that says how many GPUs in all and how many on each. 0: it does not."""
    in_all, on_each = (sum(one.count for one in gres if one.name == "gpu") for gres in (of_job, of_node))
    if not in_all or not on_each:
        return 0
    if in_all % on_each:
        raise ValueError(f"--gpus: {in_all} is not accepted; accepted: a multiple of the {on_each} of a node")
    return in_all // on_each


def _gres(text: str) -> tuple[Gres, ...]:
    return () if text.lower() == "none" else gres(text)


def _node_range(given: _Options, by_gpus: int) -> tuple[int, int | None]:
    """The least and the largest number of nodes; None: there is no largest one. Nodes that are named are that
    many, as far as the job may have them. `by_gpus`: the number that its GPUs make, 0 for none.
    """
    named = len(given.nodelist)
    if by_gpus:
        least, most = given.nodes or (1, by_gpus)
        if not max(least, named) <= by_gpus <= most:
            raise ValueError(f"--nodes: accepted with these GPUs: {by_gpus}, which they need")
        return by_gpus, by_gpus
    if given.nodes is None:
        return max(1, named), None
    least, most = given.nodes
    return max(least, min(named, most)), most


def _memory(given: _Options, defaults: JobDefaults) -> tuple[MemoryPer, float]:
    """What the memory is counted by, and how much. 0: all memory of each node."""
    if given.mem is not None:
        return MemoryPer.NODE, given.mem
    if given.mem_per_cpu is not None:
        return MemoryPer.CPU, given.mem_per_cpu
    if given.mem_per_gpu is not None:
        return MemoryPer.GPU, given.mem_per_gpu
    if defaults.of_gpus.memory_mb:
        return MemoryPer.GPU, defaults.of_gpus.memory_mb
    if defaults.memory is None:
        return MemoryPer.NODE, 0.0
    return MemoryPer.CPU if defaults.memory.per_cpu else MemoryPer.NODE, defaults.memory.amount_mb
