"""The configuration files of a development cluster: pure text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_PROMPT_SCHEDULING = (
    "batch_sched_delay=0",
    "sched_interval=1",
    "sched_min_interval=0",
    "bf_interval=1",
    "bf_continue",
)
"""A job starts within a second of the instant at which it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevSpec:
    """What a development cluster looks like. Its nodes are called n1, n2, ..."""

    node_count: int = 8
    cpus_per_node: int = 2
    memory_mb: int = 1000
    root: str | None = None
    """A chroot that holds the Slurm to start. None: the Slurm of this machine."""
    expansion: bool = False
    """Whether running jobs may grow."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Lines `key=value` of slurm.conf. They replace the default lines of the same keys, or are added."""
    partitions: tuple[str, ...] = ("PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",)
    """The partition lines of slurm.conf."""
    node_options: Mapping[str, str] = field(default_factory=dict[str, str])
    """By node: more for its NodeName line, such as `Feature=big Weight=5`."""
    gres: tuple[str, ...] = ()
    """The lines of gres.conf."""
    switches: tuple[str, ...] = ()
    """The lines of topology.conf, such as `SwitchName=s1 Nodes=n[1-4]`. Empty: the cluster has no
    topology.
    """

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
        "ClusterName": "makeway-dev",
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
        "SelectTypeParameters": "CR_Core",
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


def _node_lines(spec: DevSpec, host: str, ports: range) -> Iterator[str]:
    hardware = f"CPUs={spec.cpus_per_node} RealMemory={spec.memory_mb}"
    for port, node in zip(ports, spec.nodes, strict=True):
        address = f"NodeAddr=127.0.0.1 NodeHostname={host} Port={port}"
        options = spec.node_options.get(node, "")
        yield f"NodeName={node} {address} {hardware} {options}".rstrip()


def _scheduling(spec: DevSpec) -> tuple[str, ...]:
    return (*_PROMPT_SCHEDULING, "permit_job_expansion") if spec.expansion else _PROMPT_SCHEDULING


def cgroup_conf(version: tuple[int, int]) -> str | None:
    """The text of cgroup.conf. None: this version of Slurm needs none."""
    return "CgroupPlugin=disabled\n" if version >= (24, 5) else None


def topology_conf(spec: DevSpec) -> str | None:
    """The text of topology.conf. None: the cluster has no topology."""
    return "\n".join([*spec.switches, ""]) if spec.switches else None


def gres_conf(spec: DevSpec) -> str | None:
    """The text of gres.conf. None: the cluster has no generic resources."""
    return "\n".join([*spec.gres, ""]) if spec.gres else None
