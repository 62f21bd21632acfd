"""What this Slurm counts when jobs share a node, and what jobs may use of each node. Pure functions."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from makeway.adapters.slurm.parse import Gres
from makeway.adapters.slurm.parse_cluster import RawNode, RawPartition
from makeway.policies.model import CPU, MEMORY, Resources

_SHARING = frozenset({"select/cons_tres", "select/cons_res"})


class CpuUnit(StrEnum):
    """What a job gets at least when it asks for one CPU."""

    CORE = "core"
    SOCKET = "socket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """What is given to jobs in amounts, by SelectType and SelectTypeParameters of slurm.conf."""

    shares: bool = False
    """Whether jobs may share a node at all. False: every job gets whole nodes (select/linear)."""
    cpus: bool = False
    memory: bool = False
    unit: CpuUnit = CpuUnit.CORE
    one_task_per_core: bool = False
    memory_by_unit: bool = False
    """Whether memory that is asked for by CPU counts for the CPUs that a job gets and not for those that it
    asks for.
    """
    parts_across_gpus: bool = False
    """Whether the shards of one job may be those of several GPUs."""
    by_label: bool = False
    """Whether jobs share no node with jobs of another MCS label."""
    by_extra: bool = False
    """Whether `--extra` of a job says which nodes may serve it (`extra_constraints`; 24.11 and 26.05)."""


WHOLE_NODES = Counting()


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLimit:
    """How many CPUs of a node the jobs of a partition may have together."""

    of_node: int | None = None
    """MaxCPUsPerNode. None: all."""
    of_socket: int | None = None
    """MaxCPUsPerSocket. None: all."""

    def on(self, socket_count: int) -> int | None:
        """How many on a node with so many sockets. None: all."""
        of_sockets = None if self.of_socket is None else self.of_socket * socket_count
        return min((most for most in (self.of_node, of_sockets) if most is not None), default=None)


NO_LIMITS: Mapping[str, CpuLimit] = MappingProxyType({})
"""No partition has such a limit."""


def counting(settings: Mapping[str, str]) -> Counting:
    """What the settings of `scontrol show config` say."""
    by_extra = "extra_constraints" in settings.get("SchedulerParameters", "").lower().split(",")
    if settings.get("SelectType") not in _SHARING:
        return Counting(by_extra=by_extra)
    said = settings.get("SelectTypeParameters", "").upper()
    words = frozenset(re.split(r"[,_]", said))
    cpus = not words.isdisjoint({"CPU", "CORE", "SOCKET", "BOARD"})
    return Counting(
        shares=True,
        cpus=cpus,
        memory="MEMORY" in words,
        unit=CpuUnit.SOCKET if "SOCKET" in words else CpuUnit.CORE,
        one_task_per_core="ONE_TASK_PER_CORE" in said,
        memory_by_unit="CPU" not in words,
        parts_across_gpus="MULTIPLE_SHARING_GRES_PJ" in said,
        by_label=_by_label(settings),
        by_extra=by_extra,
    )


def _by_label(settings: Mapping[str, str]) -> bool:
    """Whether every job has an MCS label, and shares its nodes with jobs of that label alone."""
    has_labels = settings.get("MCSPlugin", "").startswith("mcs/") and settings["MCSPlugin"] != "mcs/none"
    return has_labels and {"enforced", "select"} <= set(settings.get("MCSParameters", "").lower().split(","))


def shared_partitions(partitions: Iterable[RawPartition], counts: Counting) -> frozenset[str]:
    """The partitions whose jobs may share nodes with the jobs of other users. None where the label of a job
    decides, which squeue does not tell.
    """
    return frozenset(one.name for one in partitions if not (one.exclusive or counts.by_label))


def cpus_in(partition: str) -> str:
    """The name of the CPUs of a node that the jobs of a partition may have together (`CpuLimit`)."""
    return f"{CPU}@{partition}"


def cpu_limits(partitions: Iterable[RawPartition], counts: Counting) -> Mapping[str, CpuLimit]:
    """How many CPUs of a node the jobs of a partition may have together, where there is a limit."""
    return {
        one.name: CpuLimit(of_node=one.cpus_per_node_max, of_socket=one.cpus_per_socket_max)
        for one in partitions
        if counts.cpus and (one.cpus_per_node_max, one.cpus_per_socket_max) != (None, None)
    }


def capacity(
    one: RawNode, counts: Counting, shared: frozenset[str], limits: Mapping[str, CpuLimit] = NO_LIMITS
) -> Resources | None:
    """What jobs may use of a node. None: it is only given as a whole.

    `limits`: see `cpu_limits`. What the jobs of such a partition may have of a node is a resource of its own.
    """
    if not counts.shares or one.partitions.isdisjoint(shared):
        return None
    cpu_count = one.usable_cpu_count if counts.cpus else 0
    counted = tuple(gres for gres in one.gres if gres.consumable)
    most = ((name, limit.on(one.socket_count)) for name, limit in limits.items() if name in one.partitions)
    limited = tuple(
        (cpus_in(name), cpu_count if cpus is None else min(cpus, cpu_count)) for name, cpus in most
    )
    return _amounts(cpu_count, int(one.usable_memory_mb) if counts.memory else 0, counted, limited)


def cpus_per_core(one: RawNode) -> int:
    """How many CPUs of a node are one core: its threads, or 1 where Slurm counts the cores as CPUs."""
    return max(1, one.cpu_count // one.core_count)


def threads_per_cpu(nodes: Iterable[RawNode]) -> Mapping[str, int]:
    """How many threads one CPU of a node is, where it is several: Slurm numbers the threads, also where it
    counts the cores as CPUs.
    """
    threads = ((one.name, one.threads_per_core // cpus_per_core(one)) for one in nodes)
    return {name: count for name, count in threads if count > 1}


@lru_cache(maxsize=1 << 10)
def _amounts(
    cpu_count: int, memory_mb: int, gres: tuple[Gres, ...], limited: tuple[tuple[str, int], ...]
) -> Resources:
    # Most nodes of a cluster are alike.
    return Resources.of({CPU: cpu_count, MEMORY: memory_mb} | gres_amounts(gres) | dict(limited))


def gres_amounts(gres: Iterable[Gres]) -> dict[str, int]:
    """Generic resources by name; those with a type count under both names."""
    found: dict[str, int] = {}
    for one in gres:
        for name in (f"gres/{one.name}", f"gres/{one.name}:{one.type}")[: 2 if one.type else 1]:
            found[name] = found.get(name, 0) + one.count
    return found
