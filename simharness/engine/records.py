"""The record of a replay: which job ran where and when, what happened to it, and what it cost.

`cluster` writes it, `measures` and `report` read it.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from makeway.policies.model import Resources
from makeway.simharness.workloads.job import SimJob


class RunEnding(StrEnum):
    """Why a stretch of a job on fixed nodes ended."""

    COMPLETED = "completed"
    REQUEUED = "requeued"
    CANCELLED = "cancelled"
    RESIZED = "resized"  # the job ran on, with other nodes
    NODE_FAILED = "node_failed"
    CUT = "cut"  # the replay stopped while it ran


@dataclass(slots=True)
class Segment:
    """One stretch of one job on fixed nodes."""

    job: int
    """Index into `ReplayRecord.jobs`."""
    start_s: float
    end_s: float
    nodes: int
    """Bit i is node i."""
    ending: RunEnding
    share: float = 1.0
    """The mean share that the job had of these nodes."""


class MarkKind(StrEnum):
    """What is marked in the picture."""

    EVICTED = "evicted"
    SHRUNK = "shrunk"
    CHECKPOINTED = "checkpointed"  # a checkpoint that a signal had started is complete
    RETURNED = "returned"  # an evicted job runs again, or a shrunk one has grown back
    NODE_DOWN = "node_down"


@dataclass(slots=True)
class Mark:
    """Something that happened to one job (or node) at one instant."""

    at_s: float
    kind: MarkKind
    job: int | None
    """Index into `ReplayRecord.jobs`. None: it concerns a node."""
    nodes: int


@dataclass(slots=True)
class JobRecord:
    """What became of one job."""

    job: SimJob
    start_s: float | None = None
    """Its first start. None: it never started."""
    end_s: float | None = None
    """Its completion. None: it never completed."""
    evictions: int = 0
    shrinks: int = 0
    lost_node_s: float = 0.0
    """Node-seconds of work that were done, lost and done again, and of regular checkpoints that were cut
    short. On shared nodes a job counts by its share.
    """
    lost_cpu_s: float = 0.0
    lost_gpu_s: float = 0.0
    """The same in CPU-seconds and GPU-seconds, where nodes have resources."""
    overhead_node_s: float = 0.0
    """Node-seconds of repeated setups, of checkpoints that a signal started, and of regular ones that such a
    checkpoint has replaced.
    """


@dataclass(slots=True)
class ReplayRecord:
    """One replay. `jobs` is in the order of the workload."""

    policy: str
    backfill: str
    workload: str
    node_count: int
    jobs: list[JobRecord]
    segments: list[Segment] = field(default_factory=list[Segment])
    marks: list[Mark] = field(default_factory=list[Mark])
    excluded: int = 0
    """Number of jobs left out because this machine could never run them."""
    commands: dict[str, int] = field(default_factory=dict[str, int])
    """How many commands of each verb were accepted."""
    decision_s: list[float] = field(default_factory=list[float])
    """Processor time of each decision of the policy while an urgent job waited."""
    capacities: tuple[Resources, ...] | None = None
    """What each node has. None: the machine gives whole nodes only."""
    wall_s: float = 0.0
    """Wall-clock duration of the whole replay."""
