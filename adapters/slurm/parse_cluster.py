"""What `scontrol show` prints of nodes, partitions and reservations, as records: pure functions of text."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TypeVar

from makeway.adapters.hostlist import expand
from makeway.adapters.protocol import Unavailable, Unreadable
from makeway.adapters.slurm.parse import (
    NO_GPU_DEFAULTS,
    NOTHING,
    GpuDefaults,
    Gres,
    duration_s,
    gres,
    value,
)
from makeway.adapters.slurm.partitions.admission import ANYBODY, TakenJobs, admission
from makeway.adapters.slurm.partitions.memory import MemoryDefault, default_memory
from makeway.adapters.slurm.partitions.times import NO_TIMES, PartitionTimes, partition_times
from makeway.adapters.slurm.partitions.weights import billing_weights

RecordT = TypeVar("RecordT")
_WORD = re.compile(r"(?:^|(?<=\s))([A-Za-z]+)=(\S*)")
_OPEN_STATES = frozenset({"UP", "DRAIN"})
_NODE_KEYS = ("State", "CPUTot", "RealMemory", "ActiveFeatures", "Gres")
_NODE_OPTIONS = (
    "Sockets",
    "CoresPerSocket",
    "ThreadsPerCore",
    "CoreSpecCount",
    "CPUEfctv",
    "MemSpecLimit",
    "TmpDisk",
    "Partitions",
)
"""The words of a node that are read, and those that some releases or nodes do not have."""
_RESTRICTIONS = (
    *("Accounts", "AllowedPartitions", "BurstBuffer", "Comment", "Features", "Groups", "Licenses"),
    *("MaxStartDelay", "PartitionName", "QOS"),
)
"""What a reservation may be limited to besides nodes and users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawNode:
    """One node of `scontrol show nodes`."""

    name: str
    states: frozenset[str]
    """Its state and its flags, such as IDLE and DRAIN; NOT_RESPONDING for the asterisk."""
    cpu_count: int
    usable_cpu_count: int
    """Without those of specialised cores."""
    threads_per_core: int = 1
    """Those of the hardware: Slurm may count cores as CPUs."""
    core_count: int
    socket_count: int
    memory_mb: float
    usable_memory_mb: float
    """Without MemSpecLimit."""
    temporary_disk_mb: float = 0.0
    features: frozenset[str]
    gres: tuple[Gres, ...]
    partitions: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPartition:
    """One partition of `scontrol show partitions`."""

    name: str
    state: str
    exclusive: bool = False
    """Whether its jobs share no node with jobs of other users."""
    whole_nodes: bool = False
    """Whether its jobs get all CPUs and GPUs of their nodes."""
    takes_blocks: bool = False
    """Whether its jobs share no block with other jobs (ExclusiveTopo)."""
    topology: str = ""
    """The name of a topology of its own (topology.yaml). Empty: it has that of the cluster."""
    oversubscribed: bool = False
    """Whether it gives one CPU to several jobs at once."""
    weights: tuple[tuple[str, float], ...] | None = ()
    """TRESBillingWeights by resource, that of memory for a megabyte. Empty: it has none. None: they cannot be
    read."""
    by_default: bool = False
    """Whether jobs that name no partition go there."""
    default_memory: MemoryDefault | None = None
    """None: that of the cluster."""
    gpu_defaults: GpuDefaults = NO_GPU_DEFAULTS
    cpus_per_node_max: int | None = None
    """How many CPUs of a node its jobs may have together (MaxCPUsPerNode). None: all."""
    cpus_per_socket_max: int | None = None
    """How many of each socket of a node (MaxCPUsPerSocket, from 23.11 on). None: all."""
    qos: str = ""
    """The QOS whose limits hold for its jobs. Empty: it has none."""
    limit_max_s: float | None = None
    """The longest time limit that its jobs may have (MaxTime). None: any."""
    node_count_max: int | None = None
    """The largest number of nodes that they may have (MaxNodes). None: any."""
    times: PartitionTimes = NO_TIMES
    admission: TakenJobs = ANYBODY
    """Whose jobs it takes. pyslurm does not tell: then those of all users."""

    @property
    def is_open(self) -> bool:
        """Whether its jobs may start. One that drains takes no new jobs and goes on with its own."""
        return self.state in _OPEN_STATES

    def admits(self, limit_s: float | None, node_count: int) -> bool:
        """Whether it admits jobs of such a time limit and of no more nodes. `limit_s` None: that of the
        partition.
        """
        too_long = limit_s is not None and self.limit_max_s is not None and limit_s > self.limit_max_s
        return not too_long and (self.node_count_max is None or node_count <= self.node_count_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefaults:
    """What jobs get on a cluster that do not say, where their partition has no default of its own."""

    memory: MemoryDefault | None = None
    """None: all memory of each node."""
    of_gpus: GpuDefaults = NO_GPU_DEFAULTS

    def in_partition(self, partition: RawPartition) -> "JobDefaults":
        """What jobs get in a partition. Slurm takes the two defaults of GPUs one by one."""
        own = partition.gpu_defaults
        return JobDefaults(
            memory=partition.default_memory or self.memory,
            of_gpus=GpuDefaults(
                cpu_count=own.cpu_count or self.of_gpus.cpu_count,
                memory_mb=own.memory_mb or self.of_gpus.memory_mb,
            ),
        )


NO_JOB_DEFAULTS = JobDefaults()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReservation:
    """One reservation of `scontrol show reservations`. `nodes` is empty for one of licenses only."""

    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float
    users: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    """Such as SPEC_NODES and PURGE_COMP=00:01:00."""
    limited_by: frozenset[str] = frozenset()
    """What else restricts it, by Slurm's keys: Accounts, Licenses and the like."""
    licenses: str = ""
    """The licenses that it has, such as `fluent:2`."""


def check_answered(nodes: Sequence[RawNode]) -> None:
    """Raise `Unavailable` if slurmctld does not know the state of most nodes.

    It asks all nodes when it starts. Until they have answered, which takes some seconds, it gives no job a
    node, and what is free or lost is not known.
    """
    unknown = sum("UNKNOWN" in node.states for node in nodes)
    if 2 * unknown > len(nodes):
        raise Unavailable(
            f"slurmctld has just started: {unknown} of {len(nodes)} nodes have not answered it yet",
            starting=True,
        )


def nodes(lines: list[str], *, command: tuple[str, ...]) -> tuple[RawNode, ...]:
    """The nodes of that section; at least one must be there."""
    found = records(lines, "NodeName=", _node, command)
    if not found:
        message = "scontrol shows no node: where PrivateData has `nodes`, makeway has to run as an operator"
        raise Unreadable(message, command=command, text="\n".join(lines))
    return found


def partitions(lines: list[str], *, command: tuple[str, ...]) -> tuple[RawPartition, ...]:
    """The partitions of that section; at least one must be there."""
    found = records(lines, "PartitionName=", _partition, command)
    if not found:
        raise Unreadable("scontrol named no partition", command=command, text="\n".join(lines))
    return found


def reservations(lines: list[str], *, command: tuple[str, ...]) -> tuple[RawReservation, ...]:
    """The reservations of that section; a sentence must stand there if there are none."""
    found = records(lines, "ReservationName=", _reservation, command)
    if not found and lines != ["No reservations in the system"]:
        raise Unreadable("scontrol named no reservation", command=command, text="\n".join(lines))
    return found


def _node(line: str) -> RawNode:
    words = dict(reversed(_WORD.findall(line)))  # of several words of one key the first counts
    try:
        return node_of(words)
    except KeyError as error:
        raise ValueError(f"no {error.args[0]} in {line[:200]!r}") from None


def node_of(words: Mapping[str, str]) -> RawNode:
    """A node by scontrol's words. Raises KeyError or ValueError for what is missing or cannot be read."""
    named = _node_like(tuple(words[key] for key in _NODE_KEYS), tuple(map(words.get, _NODE_OPTIONS)))
    return named(name=words["NodeName"])


@lru_cache(maxsize=1 << 10)
def _node_like(keys: tuple[str, ...], options: tuple[str | None, ...]) -> Callable[..., RawNode]:
    """What makes a node of its name, by the values of `_NODE_KEYS` and `_NODE_OPTIONS`: most nodes of a site
    are alike.
    """
    states, cpus, memory, features, generic = keys
    sockets, cores, threads, specialised, effective, spec_memory, disk, partitions = options
    flags = frozenset(re.split(r"[+*~#!%$@^-]", states)) - {""}
    cpu_count = int(cpus)
    socket_count = cpu_count if sockets is None else int(sockets)
    core_count = socket_count * int(cores or 1)
    per_core = max(1, cpu_count // core_count)
    usable = cpu_count - int(specialised or 0) * per_core if effective is None else int(effective)
    memory_mb = float(int(memory))
    return partial(
        RawNode,
        states=flags | {"NOT_RESPONDING"} if "*" in states else flags,
        cpu_count=cpu_count,
        usable_cpu_count=usable,
        threads_per_core=per_core if threads is None else int(threads),
        core_count=core_count,
        socket_count=socket_count,
        memory_mb=memory_mb,
        usable_memory_mb=max(0.0, memory_mb - float(spec_memory or 0)),
        temporary_disk_mb=float(disk or 0),
        features=frozenset(features.split(",")) - NOTHING,
        gres=gres(generic),
        partitions=frozenset((partitions or "").split(",")) - {""},
    )


def same_hardware(before: tuple[RawNode, ...], now: tuple[RawNode, ...]) -> bool:
    """Whether both are the same nodes, but for their states."""
    return len(before) == len(now) and all(
        old == new or replace(old, states=new.states) == new for old, new in zip(before, now, strict=True)
    )


def _partition(line: str) -> RawPartition:
    # From 26.05 on one field says what were three.
    keys = ("Exclusive", "ExclusiveUser", "ExclusiveTopo")
    return partition_of(
        name=value(line, "PartitionName"),
        state=value(line, "State"),
        exclusive=any(optional(line, key, "NO") != "NO" for key in keys),
        sharing="EXCLUSIVE"
        if optional(line, "Exclusive", "NO") == "NODE"
        else optional(line, "OverSubscribe", "NO"),
        takes_blocks=optional(line, "Exclusive", optional(line, "ExclusiveTopo", "NO")) in {"TOPO", "YES"},
        topology=optional(line, "Topology", ""),
        weights=optional(line, "TRESBillingWeights", ""),
        default=optional(line, "Default", "NO"),
        memory_per_node=optional(line, "DefMemPerNode", ""),
        memory_per_cpu=optional(line, "DefMemPerCPU", ""),
        job_defaults=optional(line, "JobDefaults", ""),
        cpus_per_node_max=optional(line, "MaxCPUsPerNode", ""),
        cpus_per_socket_max=optional(line, "MaxCPUsPerSocket", ""),
        qos=optional(line, "QoS", ""),
        time_max=optional(line, "MaxTime", ""),
        nodes_max=optional(line, "MaxNodes", ""),
        times=partition_times(
            *(optional(line, key, "") for key in ("OverTimeLimit", "ResumeTimeout", "SuspendTimeout"))
        ),
        taken=admission(dict(reversed(_WORD.findall(line)))),
    )


def partition_of(
    *,
    name: str,
    state: str,
    exclusive: bool,
    sharing: str,
    weights: str,
    default: str,
    memory_per_node: str,
    memory_per_cpu: str,
    cpus_per_node_max: str,
    qos: str,
    job_defaults: str = "",
    cpus_per_socket_max: str = "",
    time_max: str = "",
    nodes_max: str = "",
    times: PartitionTimes = NO_TIMES,
    takes_blocks: bool = False,
    topology: str = "",
    taken: TakenJobs = ANYBODY,
) -> RawPartition:
    """A partition by scontrol's words. `sharing` is OverSubscribe. `taken`: whose jobs it takes."""
    return RawPartition(
        name=name,
        state=state,
        exclusive=exclusive or sharing == "EXCLUSIVE",
        whole_nodes=sharing == "EXCLUSIVE",
        takes_blocks=takes_blocks,
        topology="" if topology in NOTHING else topology,
        oversubscribed=sharing.startswith(("YES", "FORCE")) and not sharing.endswith(":1"),
        weights=billing_weights(weights),
        by_default=default == "YES",
        default_memory=default_memory(memory_per_node, memory_per_cpu),
        gpu_defaults=gpu_defaults(job_defaults),
        cpus_per_node_max=int(cpus_per_node_max) if cpus_per_node_max.isdecimal() else None,
        cpus_per_socket_max=int(cpus_per_socket_max) if cpus_per_socket_max.isdecimal() else None,
        qos="" if qos in NOTHING else qos,
        limit_max_s=duration_s(time_max) if time_max else None,
        node_count_max=int(nodes_max) if nodes_max.isdecimal() else None,
        times=times,
        admission=taken,
    )


def job_defaults(settings: Mapping[str, str]) -> JobDefaults:
    """What the settings of `scontrol show config` say."""
    return JobDefaults(
        memory=default_memory(settings.get("DefMemPerNode", ""), settings.get("DefMemPerCPU", "")),
        of_gpus=gpu_defaults(settings.get("JobDefaults", "")),
    )


def gpu_defaults(text: str) -> GpuDefaults:
    """What `DefCpuPerGPU=2,DefMemPerGPU=500` says."""
    found = dict(re.findall(r"(DefCpuPerGPU|DefMemPerGPU)=(\d+)", text, re.ASCII))
    cpus, memory_mb = (int(found.get(name, 0)) for name in ("DefCpuPerGPU", "DefMemPerGPU"))
    return GpuDefaults(cpu_count=cpus, memory_mb=float(memory_mb))


def _reservation(line: str) -> RawReservation:
    # Of all names of the site, this one alone may hold blanks.
    found = re.match(r"ReservationName=(.*?) StartTime=", line)
    return reservation_of(
        name=found.group(1) if found else value(line, "ReservationName"),
        nodes=value(line, "Nodes"),
        start=value(line, "StartTime"),
        end=value(line, "EndTime"),
        users=optional(line, "Users", ""),
        flags=optional(line, "Flags", ""),
        limited_by=frozenset(key for key in _RESTRICTIONS if optional(line, key, "") not in NOTHING),
        licenses=optional(line, "Licenses", ""),
    )


def reservation_of(
    *,
    name: str,
    nodes: str,
    start: str,
    end: str,
    users: str,
    flags: str,
    limited_by: frozenset[str],
    licenses: str = "",
) -> RawReservation:
    """A reservation by scontrol's words. Raises ValueError for what cannot be read."""
    return RawReservation(
        name=name,
        nodes=expand(nodes),
        start_s=float(start),
        end_s=float(end),
        users=listed(users),
        flags=frozenset(listed(flags)),
        limited_by=limited_by,
        licenses="" if licenses in NOTHING else licenses,
    )


def listed(text: str) -> tuple[str, ...]:
    """The parts of a list with commas; none for one of Slurm's words for no value."""
    return () if text in NOTHING else tuple(text.split(","))


def records(
    lines: list[str], start: str, parse: Callable[[str], RecordT], command: tuple[str, ...]
) -> tuple[RecordT, ...]:
    """The records of the lines that begin so. Raises Unreadable."""
    try:
        return tuple(parse(line) for line in lines if line.startswith(start))
    except (ValueError, ArithmeticError) as error:  # also a number out of all reason, such as 0 sockets
        message = f"scontrol printed what cannot be read: {error}"
        raise Unreadable(message, command=command, text="\n".join(lines)) from None


def optional(line: str, key: str, default: str) -> str:
    """The first value of that key, if the line has the key."""
    return value(line, key) if f" {key}=" in line else default
