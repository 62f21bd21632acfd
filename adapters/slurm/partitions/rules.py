"""What holds for the jobs of each partition of a snapshot.

Reference: 22.05, 24.11 as tried. A running job goes on in a partition that is made DOWN or INACTIVE. Its
    requeue is accepted, and then it waits until an administrator opens the partition (PartitionDown,
    PartitionInactive); in one that is INACTIVE its begin time cannot be changed either. In one that is
    DRAIN it starts again. It also waits in one that by now takes no job of its size (MaxNodes, MinNodes:
    PartitionNodeLimit) or of its account (AllowAccounts; without accounting only on 22.05). A shrunk job has
    its old size again in its next run. A partition that allows an account takes those below it, too (24.11,
    26.05). A job that was submitted to several partitions waits for all of them again, but while it runs
    Slurm names only the one where it runs.
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
    open: Mapping[str, RawPartition] = field(default_factory=dict[str, RawPartition])
    """The others, by name."""
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
            open={one.name: one for one in known if one.is_open},
            overtime_s={one.name: one.times.overtime_s for one in known if one.times.overtime_s is not None},
            cluster_overtime_s=cluster_overtime_s,
        )

    def starts_again(self, raw: RawJob, size_before: int = 0) -> bool:
        """Whether one of its partitions lets a job start, and takes it as it is now. `size_before`: how many
        nodes it had before it was shrunk; it has them again in its next run.

        A longer time limit than the partition's (MaxTime) does not count: one that an administrator has set
        starts. Nor does an account or QOS that is not known: without accounting not every release looks at
        it.
        """
        node_count = max(raw.node_count, size_before)
        return any(self._starts(raw, name, node_count) for name in raw.partitions)

    def _starts(self, raw: RawJob, name: str, node_count: int) -> bool:
        one = self.open.get(name)
        if one is None:
            return name not in self.closed
        known = bool(raw.account and raw.qos)
        takes = not known or one.admission.may_take(account=raw.account, qos=raw.qos, user_id=raw.user_id)
        return takes and one.admits(None, node_count) and node_count >= one.admission.node_count_min

    def overtime_of(self, raw: RawJob) -> float:
        """How long a running job may run on after its time limit, in seconds."""
        return self.overtime_s.get(raw.partitions[0], self.cluster_overtime_s)


NO_RULES = PartitionRules()
