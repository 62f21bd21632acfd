"""Which nodes an announced job can count on, and which are taken by others.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B-1.

Differs from the paper:
    Nodes are held by reservations, of which several may contain the same node.
"""

import math
from collections.abc import Mapping

from makeway.policies.common.commitments import Commitments
from makeway.policies.common.departures import ends_by
from makeway.policies.common.holds import site_reservations
from makeway.policies.common.requests import Request
from makeway.policies.common.shared_nodes import room_times_s
from makeway.policies.model import Cluster, NodeSet, Operation, Resources, memoise_last


def end_times_s(request: Request, until_s: float) -> dict[str, float]:
    """The busy nodes that are not promised and come free by `until_s`, each with the last end of its jobs.

    For a job that needs a part of its nodes: the nodes that have room for it by then.
    """
    demand = request.urgent.job.demand
    if demand is not None:
        return _room_times_s(request, demand, until_s)
    sets = request.cluster.node_sets()
    suitable = sets.up & ~(sets.of_any(request.unusable) | sets.of(request.urgent.kept_nodes))
    shared = request.cluster.shared_nodes()
    ends_s: dict[str, float] = {}
    later: list[tuple[str, ...]] = []
    for job in request.cluster.holders():
        end_s = math.inf if job.latest_end_s is None else job.latest_end_s
        if end_s > until_s:
            if shared:
                later.append(job.nodes)
        else:
            for name in sets.among(job.nodes, suitable):
                ends_s[name] = max(end_s, ends_s.get(name, end_s))
    for name in frozenset[str]().union(*later).intersection(ends_s):
        del ends_s[name]
    return dict(sorted(ends_s.items(), key=lambda item: (item[1], item[0])))


def _room_times_s(request: Request, demand: Resources, until_s: float) -> dict[str, float]:
    """As `end_times_s`, for nodes that have room for the demand by then."""
    cluster = request.cluster
    ends = ends_by(cluster, until_s)
    leaving = [(job, ends[job.job_id]) for job in cluster.jobs if job.job_id in ends]
    barred = request.unusable.union(request.urgent.kept_nodes)
    ready_s = room_times_s(cluster, leaving, demand)
    found = {
        name: at_s for name, at_s in ready_s.items() if name not in barred and name in cluster.up_nodes()
    }
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))


@memoise_last
def _holds(cluster: Cluster) -> tuple[Mapping[str, int], int, int]:
    """The held nodes by reservation; the nodes in any hold; the nodes in more than one hold."""
    sets = cluster.node_sets()
    held = {
        reservation.name: sets.of(reservation.nodes)
        for reservation in cluster.reservations
        if reservation.start_s <= cluster.now_s < reservation.end_s
    }
    for operation in cluster.operations:
        held[operation.reservation] = held.get(operation.reservation, 0) | sets.of(operation.nodes)
    once = twice = 0
    for nodes in held.values():
        twice |= once & nodes
        once |= nodes
    return held, once, twice


def taken_nodes(commitments: Commitments, operation: Operation | None, until_s: float) -> NodeSet:
    """The nodes that are held for or promised to other jobs, or that the site reserves before `until_s`.

    Unlike for a job that has arrived, busy nodes in a hold for another notice count too.
    """
    cluster = commitments.cluster
    held, once, twice = _holds(cluster)
    sets = cluster.node_sets()
    own = 0 if operation is None else held.get(operation.reservation, 0)
    site = sets.union(
        reservation.nodes
        for reservation in site_reservations(cluster.reservations)
        if cluster.now_s < reservation.start_s <= until_s
    )
    return NodeSet(sets, (once & ~own) | (twice & own) | commitments.nodes | site)
