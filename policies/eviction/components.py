"""The components of a heterogeneous job: what the joint choice of policy "eviction" is made among.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the ways in which jobs leave, and their losses.

Differs from the paper:
    The paper has one urgent job at a time, which needs one sort of nodes.
"""

from collections.abc import Callable, Mapping

from makeway.policies.choice.instance import WayToLeave
from makeway.policies.common.departures import NodeRelease, ends_by
from makeway.policies.common.requests import Request
from makeway.policies.common.victims import VictimGroup
from makeway.policies.eviction.shared_nodes import shared_ways
from makeway.policies.joint.serving import JointRules
from makeway.policies.model import Job
from makeway.policies.programme.items import METHODS, EvictionJob, duration_steps
from makeway.policies.programme.leaving import at_once_s, in_turn_s
from makeway.policies.safety.prices import price_node_s


def joint_rules(
    *,
    margin_s: float,
    step_s: float,
    shrink: bool,
    item: Callable[[Request, VictimGroup, float], EvictionJob],
    shared_leave_s: float | None,
    whole_leave_s: float | None = None,
) -> JointRules:
    """The rules of a policy whose choice for one urgent job is that of `make_room`.

    Args:
        margin_s: how long before the deadline the last job must have left.
        step_s: the resolution of time.
        shrink: whether jobs may shrink.
        item: a job that has whole nodes, and leaves by an instant, as an item of the eviction problem.
        shared_leave_s: how long before that jobs must have ended that are waited for, where jobs share nodes.
            None: none is.
        whole_leave_s: the same on a cluster of which only whole nodes are known.
    """

    def latest_s(request: Request) -> float:
        return max(request.cluster.now_s, request.deadline_s - margin_s)

    def by_item(request: Request, group: VictimGroup, by_s: float) -> tuple[WayToLeave, ...]:
        one = item(request, group, by_s)
        steps = ((method, duration_steps(one, method, step_s)) for method in METHODS)
        return tuple(
            WayToLeave(method=method, loss_node_s=one.cost_node_s(method), serial_steps=taken)
            for method, taken in steps
            if taken is not None
        )

    def by_share(request: Request, job: Job, by_s: float) -> tuple[WayToLeave, ...]:
        now_s = request.cluster.now_s
        return shared_ways(job, price_node_s(job, now_s), now_s, within_s=by_s - now_s, step_s=step_s)

    def ending(request: Request) -> Mapping[str, NodeRelease]:
        leave_s = shared_leave_s if request.cluster.capacities() else whole_leave_s
        return {} if leave_s is None else ends_by(request.cluster, latest_s(request) - leave_s)

    return JointRules(
        latest_s=latest_s,
        checkpoint_s=lambda request, by_s: max(at_once_s(request, by_s), in_turn_s(request, by_s)),
        step_s=step_s,
        shrink=shrink,
        whole_ways=by_item,
        shared_ways=by_share,
        ending=ending,
    )
