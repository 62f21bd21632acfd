"""Where an urgent job is served best that has a choice: of partitions, features, switches or blocks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from makeway.adapters.slurm.holds import HoldNames
from makeway.adapters.slurm.nodes.network import ONE_NETWORK, Network
from makeway.adapters.slurm.nodes.states import WakeTimes, node
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawNode, RawReservation
from makeway.policies.model import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What there is on the nodes besides the urgent job."""

    kept: frozenset[str] = frozenset()
    """The nodes of jobs that may not be made to leave."""
    busy: frozenset[str] = frozenset()
    """The nodes of all jobs."""
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The nodes of the hold, or of the site's reservation, that a job is bound to, by its id."""
    held: frozenset[str] = frozenset()
    """The nodes of all holds."""
    unusable: frozenset[str] = frozenset()
    """The nodes that are not up, or that the site has reserved."""
    network: Network = ONE_NETWORK

    def rank(
        self, job_id: str, names: frozenset[str], needed: int
    ) -> tuple[bool, bool, bool, bool, int, int, int]:
        """How well an urgent job is served by so many of these nodes: by those of its hold; where as many are
        up, exist, or could come free; then where the fewest have jobs, and where most could come free.
        """
        own = self.own.get(job_id, ())
        usable = names - self.unusable
        clearable = usable - self.kept - self.held.difference(own)
        return (
            bool(own) and names.issuperset(own),
            len(usable) >= needed,
            len(names) >= needed,
            len(clearable) >= needed,
            min(needed, len(clearable - self.busy)),
            len(clearable),
            len(names),
        )

    def confined(self, job_id: str, names: frozenset[str], needed: int) -> frozenset[str]:
        """Those of these nodes that one job of so many nodes may have together: the best ones for it."""
        own = frozenset(self.own.get(job_id, ()))
        found = self.network.confined(
            needed, lambda part: (len(part & own), *self.rank(job_id, part & names, needed))
        )
        return names if found is None else names & found


def surroundings(
    jobs: Iterable[RawJob],
    reservations: Sequence[RawReservation],
    holds: HoldNames,
    kept: frozenset[str],
    unusable: frozenset[str],
    network: Network,
) -> Surroundings:
    """What there is on the nodes of a snapshot. `kept`, `unusable`: see `Surroundings`."""
    nodes = {one.name: one.nodes for one in reservations}
    there = tuple(jobs)
    bound = ((job.job_id, holds.counting(job)) for job in there if job.reservations)
    return Surroundings(
        kept=kept,
        busy=frozenset(name for job in there for name in job.nodes),
        own={job_id: nodes.get(name, ()) for job_id, name in bound if name is not None},
        held=frozenset(name for one in reservations if holds.has(one.name) for name in one.nodes),
        unusable=unusable,
        network=network,
    )


def unusable_nodes(
    nodes: Iterable[RawNode],
    reservations: Iterable[RawReservation],
    holds: HoldNames,
    now_s: float,
    wakes: WakeTimes | None,
) -> frozenset[str]:
    """The nodes that are not up, or that the site has reserved now."""
    down = (one.name for one in nodes if node(one, wakes=wakes).state is not NodeState.UP)
    reserved = (
        one.nodes for one in reservations if not holds.has(one.name) and one.start_s <= now_s < one.end_s
    )
    return frozenset(down).union(*reserved)
