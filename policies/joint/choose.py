"""The nodes for all components of a heterogeneous job, and the jobs that leave for them, at the least loss.

1. A bound by decomposition. If it is as high as the loss of a choice that is known, that one is proven.
2. Covers with which a choice loses at least as much are left out; the rest is solved as a relaxed programme,
   which gives a better bound.
3. An integer programme of the covers with which a choice may lose little more than that bound. What it finds
   is the next choice that is known; if it finds none, none loses as little. Then the same with more covers.

Programmes that are too large are not solved, and each solution has a limit to its effort. So the time is
limited, and the choice may not be the one of least loss: then the bound is lower than its loss.
"""

from makeway.policies.choice.choose import TIME_LIMIT_S
from makeway.policies.joint.bound import shared_bound
from makeway.policies.joint.highs import MOST_CELLS, JointEffort, solve_whole
from makeway.policies.joint.instance import JointChoice, JointInstance, JointResult
from makeway.policies.joint.kinds import NodeKind, node_kinds
from makeway.policies.joint.programme import cell_count
from makeway.policies.joint.relaxation import JointRelaxation, relax

PARTS = (32, 4, 1)
"""Which parts of the difference between the bound and the known loss are looked at, one after another."""


def choose_jointly(
    instance: JointInstance, below_node_s: int | None = None, time_limit_s: float = TIME_LIMIT_S
) -> JointResult | None:
    """The choice of least loss, or the best one that the effort allows, and its bound. None: there is none.

    Args:
        instance: the components and the jobs.
        below_node_s: the loss of a choice that is known: only one that loses less is looked for, and the
            bound is at most this. None: none is known.
        time_limit_s: how long an integer programme may take, if its effort does not end it before.
    """
    known, limit = None, below_node_s
    if limit is None:
        limit = 1 + sum(max((way.loss_node_s for way in job.ways), default=0) for job in instance.jobs)
    else:
        known = JointResult(bound_node_s=limit)
    bound = shared_bound(instance, node_kinds(instance), below_node_s)
    if bound is None or bound.least_node_s >= limit:
        return known
    relaxed = relax(instance, bound, limit)
    if relaxed is None:
        return known
    search = _Search(instance, relaxed, limit)
    search.run(time_limit_s)
    if search.choice is None and search.least >= limit:
        return known
    return JointResult(bound_node_s=min(search.least, search.limit), choice=search.choice)


class _Search:
    """The best choice so far, and the bound of all others."""

    def __init__(self, instance: JointInstance, relaxed: JointRelaxation, limit: int) -> None:
        self.instance = instance
        self.relaxed = relaxed
        self.limit = limit
        """Only choices that lose less are looked for."""
        self.least = relaxed.least_node_s
        self.choice: JointChoice | None = None

    def run(self, time_limit_s: float) -> None:
        """Look for choices that lose little more than the bound, then for others."""
        if self.relaxed.prices is None:
            return
        effort, start = JointEffort(), self.relaxed.likely_node_s
        gap = max(0, self.limit - start)
        fits = cell_count(self.relaxed.below(self.limit)) <= MOST_CELLS
        reaches = [start + max(1, gap // part) for part in (PARTS[-1:] if fits else PARTS)]
        while reaches and self.least < self.limit:
            wanted, *reaches = (min(self.limit, reach) for reach in reaches)
            reach, kinds = self.fitting(wanted)
            if reach <= self.least:
                return
            found, known = solve_whole(self.instance, kinds, self.limit, effort, time_limit_s), self.limit
            if found is None:
                self.least = max(self.least, reach)
            else:
                self.least = max(self.least, min(found.bound_node_s, reach))
                if found.choice is not None and found.choice.loss_node_s < self.limit:
                    self.choice, self.limit = found.choice, found.choice.loss_node_s
                    reaches = reaches[-1:]
            if reach < wanted and self.limit == known:
                return

    def fitting(self, reach: int) -> tuple[int, list[NodeKind]]:
        """The covers for choices that lose less than `reach`, or than as much as a programme may be large."""
        start, kinds = self.relaxed.least_node_s, self.relaxed.below(reach)
        while cell_count(kinds) > MOST_CELLS and reach > start:
            reach = start + (reach - start) // 2
            kinds = self.relaxed.below(reach)
        return reach, kinds


def is_separate(instance: JointInstance) -> bool:
    """Whether what is best for each component alone is best for all: no two of them may have the same node,
    no job is on nodes of two of them, and no more than one of them has jobs whose serial steps count.
    """
    nodes, jobs, timed = set[str](), set[str](), 0
    for component in instance.components:
        here = [job for job in instance.jobs if job.ways and not component.free.keys().isdisjoint(job.held)]
        if not (nodes.isdisjoint(component.free) and jobs.isdisjoint(job.job_id for job in here)):
            return False
        nodes.update(component.free)
        jobs.update(job.job_id for job in here)
        timed += any(way.serial_steps for job in here for way in job.ways)
    return timed <= 1
