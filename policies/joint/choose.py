"""The nodes for all components of a heterogeneous job, and the jobs that leave for them, at the least loss.

1. A bound by decomposition. If it is as high as the loss of a choice that is known, that one is proven.
2. Covers with which a choice loses at least as much are left out; the rest is solved as a relaxed programme,
   whose bound is better, and leaves out more.
3. What then remains is solved as an integer programme.
"""

from makeway.policies.choice.choose import TIME_LIMIT_S
from makeway.policies.joint.bound import shared_bound
from makeway.policies.joint.highs import solve_whole
from makeway.policies.joint.instance import JointInstance, JointResult
from makeway.policies.joint.kinds import node_kinds
from makeway.policies.joint.relaxation import relax


def choose_jointly(
    instance: JointInstance, below_node_s: int | None = None, time_limit_s: float = TIME_LIMIT_S
) -> JointResult | None:
    """The choice of least loss, or the best one that the effort allows, and its bound. None: there is none.

    Args:
        instance: the components and the jobs.
        below_node_s: the loss of a choice that is known: only one that loses less is looked for, and the
            bound is at most this. None: none is known.
        time_limit_s: how long the integer programme may take, if its effort does not end it before.
    """
    kinds, least = node_kinds(instance), 0
    bound = shared_bound(instance, kinds, below_node_s)
    if bound is not None and below_node_s is not None:
        kinds, least = bound.kinds, bound.least_node_s
        if least < below_node_s:
            relaxed = relax(instance, bound, below_node_s)
            kinds, least = relaxed.kinds, relaxed.least_node_s
    known = None if below_node_s is None else JointResult(bound_node_s=below_node_s)
    if bound is None or (below_node_s is not None and least >= below_node_s):
        return known
    found = solve_whole(instance, kinds, below_node_s, time_limit_s)
    if found is None:
        return known
    least = max(found.bound_node_s, least)
    if below_node_s is None:
        return JointResult(bound_node_s=least, choice=found.choice)
    better = found.choice is not None and found.choice.loss_node_s < below_node_s
    return JointResult(bound_node_s=min(least, below_node_s), choice=found.choice if better else None)


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
