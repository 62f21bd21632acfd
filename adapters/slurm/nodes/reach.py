"""Which nodes could come free for an urgent job that waits, and where it is served best.

An urgent job asks for the fewest nodes on which it fits. Where jobs that may not leave, or other urgent jobs,
have those, it asks for others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from makeway.adapters.slurm.holds import HoldNames
from makeway.adapters.slurm.nodes.network import Network
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawReservation
from makeway.policies.model import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What there is on the nodes of one snapshot besides an urgent job that waits."""

    kept: frozenset[str] = frozenset()
    """The nodes of jobs that may not be made to leave."""
    left: Mapping[str, Resources] = field(default_factory=dict[str, Resources])
    """What these jobs leave of their nodes. Absent: nothing."""
    busy: frozenset[str] = frozenset()
    """The nodes of all jobs."""
    of_jobs: tuple[frozenset[str], ...] = ()
    """The nodes of each job."""
    own: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """The nodes of the hold, or of the site's reservation, that a job is bound to, by its id."""
    held: frozenset[str] = frozenset()
    """The nodes of all holds."""
    unusable: frozenset[str] = frozenset()
    """The nodes that are not up, or that the site has reserved."""

    def of(self, names: frozenset[str], demand: Resources | None) -> frozenset[str]:
        """Those of these nodes that could come free for an urgent job without a hold: all of the node, or as
        much as the job demands of it. `demand` None: it needs whole nodes.
        """
        if demand is None:
            return names - self.unusable - self.kept - self.held
        lacking = (
            name
            for name in names & self.kept
            if (left := self.left.get(name)) is None or not left.covers(demand)
        )
        return names - self.unusable - frozenset(lacking)

    def rank(
        self, job_id: str, names: frozenset[str], needed: int
    ) -> tuple[bool, bool, bool, bool, int, int, int]:
        """How well an urgent job is served by so many of these nodes: by those of its hold; where as many are
        up, exist, or could come free; then where the fewest have jobs, and where most could come free.
        """
        own = self.own.get(job_id, frozenset())
        usable = names - self.unusable
        clearable = usable - self.kept - (self.held - own)
        return (
            bool(own) and names >= own,
            len(usable) >= needed,
            len(names) >= needed,
            len(clearable) >= needed,
            min(needed, len(clearable - self.busy)),
            len(clearable),
            len(names),
        )

    def confined(self, network: Network, job_id: str, names: frozenset[str], needed: int) -> frozenset[str]:
        """Those of these nodes that one job of so many nodes may have together: the best ones for it."""
        own = self.own.get(job_id, frozenset())
        found = network.confined(
            needed, lambda part: (len(part & own), *self.rank(job_id, part & names, needed))
        )
        return names if found is None else names & found


def reach_for(
    jobs: Iterable[RawJob],
    stay: Sequence[RawJob],
    reservations: Sequence[RawReservation],
    holds: HoldNames,
    *,
    left: Mapping[str, Resources],
    down: frozenset[str],
    now_s: float,
) -> Reach:
    """What there is on the nodes of a snapshot.

    Args:
        jobs: all of the snapshot.
        stay: the running ones that may not be made to leave.
        reservations: all of the snapshot.
        holds: which of them makeway has made.
        left: what the jobs that stay leave of their nodes. Absent: nothing.
        down: the nodes that are not up.
        now_s: the time of the snapshot.
    """
    there = tuple(jobs)
    nodes = {one.name: frozenset(one.nodes) for one in reservations}
    bound = ((job.job_id, holds.counting(job)) for job in there if job.reservations)
    of_site = (
        one.nodes for one in reservations if not holds.has(one.name) and one.start_s <= now_s < one.end_s
    )
    return Reach(
        kept=frozenset(name for job in stay for name in job.nodes),
        left=left,
        busy=frozenset(name for job in there for name in job.nodes),
        of_jobs=tuple(frozenset(job.nodes) for job in there if job.nodes),
        own={job_id: nodes.get(name, frozenset()) for job_id, name in bound if name is not None},
        held=frozenset(name for one in reservations if holds.has(one.name) for name in one.nodes),
        unusable=down.union(*of_site),
    )
