"""The components of a heterogeneous job: what the joint choice of policy "least-price" is made among.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III: the eviction problem.

Differs from the paper:
    The paper has one urgent job at a time, which needs one sort of nodes.
"""

from makeway.policies.common.requests import Request
from makeway.policies.common.victims import VictimGroup
from makeway.policies.eviction.components import joint_rules
from makeway.policies.eviction.policy import EvictionConfig, item_of
from makeway.policies.joint.serving import JointRules
from makeway.policies.least_price.prices import priced
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import Cluster
from makeway.policies.programme.items import EvictionJob


def rules_of(cluster: Cluster, config: LeastPriceConfig) -> JointRules:
    """How jobs leave for several components."""

    def item(request: Request, group: VictimGroup, by_s: float) -> EvictionJob:
        now_s, parallel = cluster.now_s, config.checkpoints == "parallel"
        plain = item_of(group, EvictionConfig(), request.backlog.left_s)
        return priced(plain, group, now_s, by_s - now_s, parallel=parallel)

    return joint_rules(
        margin_s=config.margin_s,
        step_s=config.step_s,
        shrink=config.shrink and not cluster.shared_nodes(),
        item=item,
        shared_leave_s=config.leave_s if config.kills == "late" else None,
        whole_leave_s=2.0 * config.leave_s if config.waits_for_ends else None,
    )
