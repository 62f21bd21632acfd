"""What a choice on whole nodes considered, as candidates of the rationale.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the ways to leave, with their losses and durations.

Differs from the paper:
    Jobs that share nodes are one candidate, and malleable jobs may shrink.
"""

from collections.abc import Mapping
from types import MappingProxyType

from makeway.policies.common.requests import node_text
from makeway.policies.common.shrinking import spare_nodes
from makeway.policies.common.victims import VictimGroup, stays
from makeway.policies.model import Candidate, Method
from makeway.policies.programme.items import Departure, EvictionJob
from makeway.policies.programme.knapsack import EvictionPlan


def candidates(
    considered: tuple[VictimGroup, ...],
    plan: EvictionPlan | None,
    *,
    shrink: bool,
    priced: Mapping[tuple[str, ...], EvictionJob] = MappingProxyType({}),
) -> tuple[Candidate, ...]:
    """Every group with the price of each way to leave; a group that may not be evicted, with the reason.

    Args:
        considered: the groups.
        plan: what is chosen among them. None: nothing.
        shrink: whether malleable jobs may give nodes without leaving.
        priced: the items that they are compared by, by their jobs. Empty: they are compared by lost work.
    """
    chosen = {} if plan is None else {leaver.item.job_ids: leaver for leaver in plan.departures}
    found: list[Candidate] = []
    for group in considered:
        prices: tuple[tuple[Method, int, float | None], ...] = (
            (Method.KILL, group.loss_node_s, 0.0),
            (Method.APPLICATION, 0, group.application_s),
            (Method.SYSTEM, 0, group.system_s),
        )
        if group.protected_by:
            prices = ()
            found.append(stays(group))
        spare = len(spare_nodes(group)) if prices and shrink else 0
        if spare:
            prices = ((Method.SHRINK, 0, 0.0), *prices)
        leaver, item = chosen.get(group.job_ids), priced.get(group.job_ids)
        for method, lost_node_s, delay_s in prices:
            if delay_s is not None:
                taken = leaver is not None and leaver.method is method
                found.append(
                    Candidate(
                        job_ids=group.job_ids,
                        method=method,
                        node_count=_candidate_nodes(group, method, spare, leaver),
                        loss_node_s=lost_node_s,
                        delay_s=delay_s,
                        chosen=taken,
                        price_node_s=None if item is None else item.cost_node_s(method),
                        note=f"could give {node_text(spare)}" if method is Method.SHRINK else "",
                    )
                )
    return tuple(found)


def _candidate_nodes(group: VictimGroup, method: Method, spare: int, leaver: Departure | None) -> int:
    """How many nodes the group frees in this way; by shrinking, as many as are taken, else as many as it
    could give.
    """
    if method is not Method.SHRINK:
        return len(group.nodes)
    return leaver.given_node_count if leaver is not None and leaver.method is method else spare
