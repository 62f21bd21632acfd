"""Which nodes an urgent job can do without: enough others are left to it. Pure functions of a snapshot.

The nodes are integers, and one set of names serves all jobs that do without the same nodes: hundreds of
urgent jobs may wait on a cluster of many thousand nodes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from makeway.policies.common.holds import eligible_set
from makeway.policies.common.shared_nodes import held_on
from makeway.policies.model import NO_RESOURCES, Cluster, Job, JobKind, Reservation, Resources


class NodesToSpare:
    """The nodes that the waiting urgent jobs of one snapshot could have.

    Args:
        seen: the snapshot.
    """

    def __init__(self, seen: Cluster) -> None:
        self._seen, self._sets = seen, seen.node_sets()
        self._holds = tuple(one for one in seen.reservations if one.by_makeway)
        self._staying = tuple(job for job in seen.jobs if job.nodes and not _may_leave(job))
        self._by_demand: dict[Resources | None, int] = {}
        self._eligible: dict[tuple[int, int], frozenset[str]] = {}

    def held(self, job: Job) -> int:
        """The nodes that makeway holds for a job now, as a set of the cluster's `node_sets`."""
        return self._sets.union(one.nodes for one in self._holds if self._is_own(one, job))

    def could_have(self, job: Job) -> int:
        """The nodes that are up, that no hold has for another job, and on which the job may run once all jobs
        have left that may.
        """
        others = self._sets.union(one.nodes for one in self._holds if not self._is_own(one, job))
        there = self._sets.up & eligible_set(job, self._seen) & ~others
        if job.demand not in self._by_demand:
            self._by_demand[job.demand] = self._room_for(job.demand)
        return there & self._by_demand[job.demand]

    def can_spare(
        self, job: Job, nodes: int, order: Sequence[str], refused: Iterable[tuple[str, ...]] = ()
    ) -> int:
        """Which of the nodes a job can do without. What is held for it already it keeps.

        Args:
            job: one of the urgent jobs.
            nodes: those that it had better not have, as a set of the cluster's `node_sets`.
            order: their names, and perhaps others: it does without the first ones, if not without all.
            refused: the holds that were refused to it. It does without one node of each first, so that none
                of them is asked for again.
        """
        unwanted, there = nodes & eligible_set(job, self._seen) & ~self.held(job), self.could_have(job)
        spare = there.bit_count() - job.node_count - self._for_components(job, there)
        wanted = unwanted & there
        if wanted.bit_count() <= spare:
            return unwanted
        gone = unwanted & ~there
        names = [name for name in order if self._sets.has(wanted, name)]
        first = self._one_of_each(names, [hold for hold in map(self._sets.of, refused) if not hold & gone])
        in_turn = [*first, *(name for name in names if name not in first)]
        return gone | self._sets.of_new(in_turn[: max(0, spare)])

    def without(self, job: Job, nodes: int) -> Job:
        """The job, which may not run on these nodes."""
        sets, eligible = self._sets, job.eligible_nodes
        key = (id(eligible), nodes)
        if key not in self._eligible:
            left = (sets.up | sets.down if eligible is None else sets.of(eligible)) & ~nodes
            self._eligible[key] = names = frozenset(sets.names(left))
            sets.keep(names, left)
        return replace(job, eligible_nodes=self._eligible[key])

    def _one_of_each(self, names: Sequence[str], holds: Sequence[int]) -> dict[str, None]:
        """Some of the names, in their order: each hold has one of them, if it has any of the names."""
        found = dict[str, None]()
        for name in names:
            rest = [hold for hold in holds if not self._sets.has(hold, name)]
            if len(rest) < len(holds):
                found[name], holds = None, rest
            if not holds:
                break
        return found

    def _is_own(self, hold: Reservation, job: Job) -> bool:
        """Whether a hold is for that job."""
        return hold.name in (job.reservation, self._seen.hold_name(job.job_id))

    def _for_components(self, job: Job, there: int) -> int:
        """How many of these nodes the other components need that start together with the job."""
        needed = 0
        for one in self._seen.components(job):
            if one.job_id != job.job_id:
                elsewhere = self.could_have(one) & ~there
                needed += max(0, one.node_count - elsewhere.bit_count())
        return needed

    def _room_for(self, demand: Resources | None) -> int:
        """The nodes with room for a demand, or without jobs, if all jobs leave that may."""
        if demand is None:
            return ~self._sets.union(job.nodes for job in self._staying)
        room = dict(self._seen.capacities())
        for job in self._staying:
            for name, held in held_on(job, self._seen).items():
                room[name] = room.get(name, NO_RESOURCES).minus(held)
        return self._sets.of_new([name for name, left in room.items() if left.covers(demand)])


def _may_leave(job: Job) -> bool:
    return job.preemptible and job.kind is not JobKind.ON_DEMAND
