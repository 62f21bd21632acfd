"""What holds for the jobs of each partition of a snapshot.

Reference: 22.05, 24.11 as tried. A running job goes on in a partition that is made DOWN or INACTIVE. Its
    requeue is accepted, and then it waits until an administrator opens the partition (PartitionDown,
    PartitionInactive); in one that is INACTIVE its begin time cannot be changed either. In one that is
    DRAIN it starts again. A job that was submitted to several partitions waits for all of them again, but
    while it runs Slurm names only the one where it runs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """What the partitions and the configuration say of jobs."""

    closed: frozenset[str] = frozenset()
    """The partitions in which no job starts."""
    overtime_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """How long jobs may run on after their time limits, by partition, where it has a limit of its own."""
    cluster_overtime_s: float = 0.0
    """The same for all other jobs."""

    @classmethod
    def of(cls, partitions: Iterable[RawPartition], cluster_overtime_s: float = 0.0) -> "PartitionRules":
        """Those of a snapshot. `cluster_overtime_s`: see `Controller.overtime_s`."""
        known = tuple(partitions)
        return cls(
            closed=frozenset(one.name for one in known if not one.is_open),
            overtime_s={one.name: one.times.overtime_s for one in known if one.times.overtime_s is not None},
            cluster_overtime_s=cluster_overtime_s,
        )

    def starts_again(self, raw: RawJob) -> bool:
        """Whether one of its partitions lets a job start."""
        return not self.closed.issuperset(raw.partitions)

    def overtime_of(self, raw: RawJob) -> float:
        """How long a running job may run on after its time limit, in seconds."""
        return self.overtime_s.get(raw.partitions[0], self.cluster_overtime_s)


NO_RULES = PartitionRules()
