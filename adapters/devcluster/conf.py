"""The configuration files of a development cluster: pure text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

PROMPT_SCHEDULING = (
    "batch_sched_delay=0",
    "sched_interval=1",
    "sched_min_interval=0",
    "bf_interval=1",
    "bf_continue",
)
"""A job starts within a second of the instant at which it can."""
CLUSTER_NAME = "makeway-dev"


@dataclass(frozen=True, slots=True, kw_only=True)
class DevSpec:
    """What a development cluster looks like. Its nodes are called n1, n2, ..."""

    node_count: int = 8
    cpus_per_node: int = 2
    memory_mb: int = 1000
    threads_per_core: int = 1
    """How many of a node's CPUs are the threads of one core."""
    memory_counts: bool = False
    """Whether memory is given out like cores (CR_Core_Memory). A job that does not ask for memory then gets
    the part of its CPUs. False: only cores count.
    """
    gpus: Mapping[str, str] = field(default_factory=dict[str, str])
    """By node: its GPUs by type, such as `a100:4`, `a100:2,h100:1`, or `4` without a type."""
    root: str | None = None
    """A chroot that holds the Slurm to start. None: the Slurm of this machine."""
    expansion: bool = False
    """Whether running jobs may grow."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Lines `key=value` of slurm.conf. They replace the default lines of the same keys, or are added."""
    partitions: tuple[str, ...] = ("PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",)
    """The partition lines of slurm.conf."""
    node_options: Mapping[str, str] = field(default_factory=dict[str, str])
    """By node: more for its NodeName line, such as `Feature=big RealMemory=64000`. It replaces what the line
    would say of the same keys.
    """
    gres: tuple[str, ...] = ()
    """Lines of gres.conf, besides those of `gpus`."""
    switches: tuple[str, ...] = ()
    """The lines of topology.conf, such as `SwitchName=s1 Nodes=n[1-4]`. Empty: the cluster has no
    topology.
    """

    topologies: str = ""
    """The text of topology.yaml (from 25.05 on). Empty: there is none."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes, in order."""
        return tuple(f"n{number}" for number in range(1, self.node_count + 1))


def slurm_conf(
    spec: DevSpec, *, folder: PurePosixPath, host: str, address: str | None, user: str, ports: range
) -> str:
    """The text of slurm.conf.

    Args:
        spec: the cluster.
        folder: the state folder as Slurm sees it.
        host: the short name of this machine.
        address: the loopback address that this name resolves to. None: it resolves to none, so slurmctld
            listens on every address.
        user: the user that runs the daemons.
        ports: the first is slurmctld's, each other one a node's.
    """
    settings = {
        "ClusterName": CLUSTER_NAME,
        "SlurmctldHost": f"{host}({address or '127.0.0.1'})",
        "SlurmctldPort": str(ports[0]),
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge.socket",
        "CommunicationParameters": "NoInAddrAny,NoCtldInAddrAny" if address else "NoInAddrAny",
        "StateSaveLocation": f"{folder}/state",
        "SlurmdSpoolDir": f"{folder}/spool/%n",
        "SlurmctldPidFile": f"{folder}/slurmctld.pid",
        "SlurmdPidFile": f"{folder}/slurmd.%n.pid",
        "SlurmctldLogFile": f"{folder}/slurmctld.log",
        "SlurmdLogFile": f"{folder}/slurmd.%n.log",
        "SlurmctldDebug": "verbose",
        "MailProg": "/bin/true",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "SelectType": "select/cons_tres",
        **dict(_resources(spec)),
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": ",".join(_scheduling(spec)),
        "ReturnToService": "2",
        "JobRequeue": "1",
        "KillWait": "5",
        "MinJobAge": "300",
        "SlurmdParameters": "config_overrides",
        **({"TopologyPlugin": "topology/tree"} if spec.switches else {}),
        **spec.settings,
    }
    lines = [f"{key}={value}" for key, value in settings.items()]
    return "\n".join([*lines, *_node_lines(spec, host, ports[1:]), *spec.partitions, ""])


def _resources(spec: DevSpec) -> Iterator[tuple[str, str]]:
    """The settings of what is given to jobs: cores, memory, GPUs."""
    yield "SelectTypeParameters", "CR_Core_Memory" if spec.memory_counts else "CR_Core"
    if spec.memory_counts:
        yield "DefMemPerCPU", str(max(1, spec.memory_mb // spec.cpus_per_node))
    if spec.gpus:
        yield "GresTypes", "gpu"


def _node_lines(spec: DevSpec, host: str, ports: range) -> Iterator[str]:
    for port, node in zip(ports, spec.nodes, strict=True):
        address = f"NodeAddr=127.0.0.1 NodeHostname={host} Port={port}"
        pairs = (word.partition("=") for word in spec.node_options.get(node, "").split())
        options = _hardware(spec, node) | {key: value for key, _, value in pairs}
        yield " ".join([f"NodeName={node}", address, *(f"{key}={value}" for key, value in options.items())])


def _hardware(spec: DevSpec, node: str) -> dict[str, str]:
    found = {"CPUs": str(spec.cpus_per_node), "RealMemory": str(spec.memory_mb)}
    if spec.threads_per_core > 1:
        cores = spec.cpus_per_node // spec.threads_per_core
        found |= {"Sockets": "1", "CoresPerSocket": str(cores), "ThreadsPerCore": str(spec.threads_per_core)}
    if node in spec.gpus:
        found["Gres"] = ",".join(f"gpu:{part}" for part in spec.gpus[node].split(","))
    return found


def _scheduling(spec: DevSpec) -> tuple[str, ...]:
    return (*PROMPT_SCHEDULING, "permit_job_expansion") if spec.expansion else PROMPT_SCHEDULING


def other_files(spec: DevSpec, version: tuple[int, int], folder: PurePosixPath) -> dict[str, str]:
    """What the state folder needs next to slurm.conf: texts by file name.

    The empty files are the devices of GPUs, which the nodes share: Slurm wants a file for each.

    Args:
        spec: the cluster.
        version: year and month of the Slurm release.
        folder: the state folder as Slurm sees it.
    """
    files: dict[str, str] = {}
    if version >= (24, 5):
        files["cgroup.conf"] = "CgroupPlugin=disabled\n"
    if gres := [*spec.gres, *(line for node in spec.nodes for line in _gpu_lines(spec, node, folder))]:
        files["gres.conf"] = "\n".join([*gres, ""])
    if spec.switches:
        files["topology.conf"] = "\n".join([*spec.switches, ""])
    if spec.topologies:
        files["topology.yaml"] = spec.topologies
    most = max(sum(number for _, number in _gpus(spec, node)) for node in spec.nodes)
    return files | {f"gpu{number}": "" for number in range(most)}


def _gpu_lines(spec: DevSpec, node: str, folder: PurePosixPath) -> Iterator[str]:
    first = 0
    for gpu_type, number in _gpus(spec, node):
        typed = f" Type={gpu_type}" if gpu_type else ""
        yield f"NodeName={node} Name=gpu{typed} File={folder}/gpu[{first}-{first + number - 1}]"
        first += number


def _gpus(spec: DevSpec, node: str) -> Iterator[tuple[str, int]]:
    """The types of a node's GPUs, empty for none, each with its number."""
    for part in spec.gpus[node].split(",") if node in spec.gpus else ():
        gpu_type, _, number = part.rpartition(":")
        yield gpu_type, int(number)
