"""Which nodes could come free for an urgent job that waits.

An urgent job asks for the fewest nodes on which it fits. Where jobs that may not leave, or other urgent jobs,
have those, it asks for others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from makeway.adapters.slurm.holds import HoldNames
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawReservation
from makeway.policies.model import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Which nodes could come free in one snapshot."""

    kept: frozenset[str] = frozenset()
    """The nodes of jobs that may not be made to leave."""
    left: Mapping[str, Resources] = field(default_factory=dict[str, Resources])
    """What these jobs leave of their nodes. Absent: nothing."""
    held: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """The nodes of makeway's holds, by the id of the waiting urgent job that is bound to the hold."""
    unusable: frozenset[str] = frozenset()
    """The nodes that are not up, or that the site has reserved."""

    def of(self, names: frozenset[str], demand: Resources | None) -> frozenset[str]:
        """Those of these nodes that could come free for an urgent job without a hold: all of the node, or as
        much as the job demands of it. `demand` None: it needs whole nodes.
        """
        if demand is None:
            return names - self.unusable - self.kept - frozenset[str]().union(*self.held.values())
        lacking = (
            name
            for name in names & self.kept
            if (left := self.left.get(name)) is None or not left.covers(demand)
        )
        return names - self.unusable - frozenset(lacking)


def reach_for(
    urgent: Iterable[RawJob],
    stay: Sequence[RawJob],
    reservations: Sequence[RawReservation],
    holds: HoldNames,
    *,
    left: Mapping[str, Resources],
    down: frozenset[str],
    now_s: float,
) -> Reach:
    """Which nodes could come free for the urgent jobs that wait.

    Args:
        urgent: these jobs.
        stay: the running jobs that may not be made to leave.
        reservations: all of the snapshot.
        holds: which of them makeway has made.
        left: what these leave of their nodes. Absent: nothing.
        down: the nodes that are not up.
        now_s: the time of the snapshot.
    """
    nodes = {one.name: frozenset(one.nodes) for one in reservations}
    of_site = (
        one.nodes for one in reservations if not holds.has(one.name) and one.start_s <= now_s < one.end_s
    )
    return Reach(
        kept=frozenset(name for job in stay for name in job.nodes),
        left=left,
        held={job.job_id: nodes.get(holds.counting(job) or "", frozenset()) for job in urgent},
        unusable=down.union(*of_site),
    )
