"""What a site tells us about its Slurm: where it is, and which job is what."""

from dataclasses import dataclass
from enum import StrEnum

from makeway.policies.model import CheckpointSpec, JobKind


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """What is true of the jobs that fulfil all conditions. An empty condition is fulfilled by every job."""

    name: str
    partitions: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    """The job asks for at least one of these node features."""
    words: frozenset[str] = frozenset()
    """The job's comment has at least one of these as `makeway:WORD`. Every user may write what he likes there."""
    kind: JobKind = JobKind.RIGID
    preemptible: bool = False
    """Whether we may touch these jobs. An urgent job is never touched."""
    node_count_min: int | None = None
    """Malleable jobs: the smallest size, unless the job says `makeway:min-nodes=N`. None: its full size."""
    checkpoint: CheckpointSpec | None = None
    """How these jobs checkpoint. None: they cannot."""
    setup_s: float = 0.0
    start_within_s: float | None = None
    """Urgent jobs: within what time a start is on time. None: the policy's default."""


class Placing(StrEnum):
    """Which nodes may serve a job as a whole, for policies that ask."""

    ANY = "any"  # any nodes
    TOPOLOGY = "topology"  # those of one switch, at whatever level, or of one block


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Where Slurm is, and the classes of its jobs."""

    classes: tuple[JobClass, ...] = ()
    """The first class whose conditions a job fulfils is its class. A job of no class is rigid and never touched."""
    conf: str | None = None
    """The path of slurm.conf. None: where Slurm's commands look by themselves."""
    bin_dir: str | None = None
    """The folder of Slurm's commands. None: the usual ones of the system."""
    timeout_s: float = 20.0
    """How long a command may take."""
    placements: Placing = Placing.ANY
