"""What a choice on whole nodes considered, as candidates of the rationale.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the ways to leave, with their losses and durations.

Differs from the paper:
    Jobs that share nodes are one candidate, and malleable jobs may shrink.
"""

from collections.abc import Mapping
from itertools import chain

from makeway.policies.common.requests import node_text
from makeway.policies.common.shrinking import spare_nodes
from makeway.policies.common.victims import VictimGroup, stays
from makeway.policies.model import Candidate, Method, changed
from makeway.policies.programme.items import Departure, EvictionJob
from makeway.policies.programme.knapsack import EvictionPlan

Offers = Mapping[tuple[str, ...], tuple[Candidate, ...]]
"""The candidates of each group, by its jobs; none of them is chosen."""


def offer(group: VictimGroup, item: EvictionJob | None, *, shrink: bool) -> tuple[Candidate, ...]:
    """A group with the price of each way to leave; one that may not be evicted, with the reason.

    Args:
        group: the group.
        item: the item that it is compared by. None: it is compared by lost work.
        shrink: whether malleable jobs may give nodes without leaving.
    """
    if group.protected_by:
        return (stays(group),)
    prices: tuple[tuple[Method, int, float | None], ...] = (
        (Method.KILL, group.loss_node_s, 0.0),
        (Method.APPLICATION, 0, group.application_s),
        (Method.SYSTEM, 0, group.system_s),
    )
    spare = len(spare_nodes(group)) if shrink else 0
    if spare:
        prices = ((Method.SHRINK, 0, 0.0), *prices)
    return tuple(
        Candidate(
            job_ids=group.job_ids,
            method=method,
            node_count=spare if method is Method.SHRINK else len(group.nodes),
            loss_node_s=lost_node_s,
            delay_s=delay_s,
            price_node_s=None if item is None else item.cost_node_s(method),
            note=f"could give {node_text(spare)}" if method is Method.SHRINK else "",
        )
        for method, lost_node_s, delay_s in prices
        if delay_s is not None
    )


def candidates(found: Offers, plan: EvictionPlan | None) -> tuple[Candidate, ...]:
    """All candidates, with those that a plan chooses. None: nothing is chosen."""
    departures = () if plan is None else plan.departures
    taken = {
        one.item.job_ids: tuple(_taken(each, one) for each in found[one.item.job_ids]) for one in departures
    }
    return tuple(chain.from_iterable({**found, **taken}.values()))


def _taken(candidate: Candidate, departure: Departure) -> Candidate:
    """A candidate of a group that leaves or shrinks, which frees as many nodes by shrinking as are taken."""
    if candidate.method is not departure.method:
        return candidate
    if departure.method is Method.SHRINK:
        return changed(candidate, chosen=True, node_count=departure.given_node_count)
    return changed(candidate, chosen=True)
