"""The sets of nodes on which a job may run: partitions of a torus, leaf switches, blocks, or any nodes.

On some machines a job gets a whole partition, on others any nodes under one switch. Both are a list of
placements (`Cluster.placements`). Without placements a job may run on any nodes.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), section 6.3,
    Algorithm 2, line 1: the partitions of the right size.

Differs from the paper:
    A placement may be larger than the job, which then gets as many of its nodes as it needs. Where switches
    differ in size, larger ones serve too. A job that is larger than every placement may run on any nodes.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from makeway.policies.common.urgent_jobs import UrgentJob, urgent_jobs
from makeway.policies.model import Cluster, Placement, memoise_last

ANYWHERE = "any nodes"
"""The name of the placement that is all nodes of the cluster."""


def fitting(
    cluster: Cluster, node_count: int, eligible: frozenset[str] | None = None
) -> tuple[Placement, ...]:
    """The placements of the right size (Algorithm 2, line 1): those with at least `node_count` usable nodes
    that contain no other such one. If a job gets whole placements and some have exactly `node_count`, only
    those. The smallest come first; equal ones are in the order of the cluster.

    If the cluster has no placements, or none is large enough: one placement of all nodes that are up.

    Args:
        cluster: the snapshot. Nodes that are not up are not usable.
        node_count: how many nodes the job needs.
        eligible: the nodes that may serve it. None: all.
    """
    up = cluster.up_nodes()
    found = _right_sized(cluster.placements, up, eligible)(node_count)
    return found or (_anywhere(up),)


def confined(urgent: UrgentJob, place: Placement) -> UrgentJob:
    """The urgent job as one that may run on the nodes of one placement alone, and keeps only those."""
    nodes = frozenset(place.nodes)
    eligible = urgent.job.eligible_nodes
    job = replace(urgent.job, eligible_nodes=nodes if eligible is None else nodes & eligible)
    return replace(urgent, job=job, kept_nodes=tuple(name for name in urgent.kept_nodes if name in nodes))


def least_wanted_first(cluster: Cluster, nodes: int, wanted: int) -> tuple[str, ...]:
    """The names of a set of nodes. If more nodes than wanted are in it, those that the fewest urgent jobs may
    have come first, in the cluster's order where these are equally many.
    """
    sets = cluster.node_sets()
    found = sets.names(nodes)
    if len(found) <= wanted:
        return found
    parts = [(nodes & able, count) for able, count in _restricted(cluster)]
    parts = [(common, count) for common, count in parts if common and common != nodes]
    if not parts:
        return found
    return tuple(
        sorted(found, key=lambda name: sum(count for common, count in parts if sets.has(common, name)))
    )


@memoise_last
def _restricted(cluster: Cluster) -> tuple[tuple[int, int], ...]:
    """The sets of nodes that urgent jobs need now which may not have all nodes, each with the number of these
    jobs.
    """
    eligible = [urgent.job.eligible_nodes for urgent in urgent_jobs(cluster)]
    counts = Counter(nodes for nodes in eligible if nodes is not None)
    return tuple((cluster.node_sets().of(nodes), count) for nodes, count in counts.items())


@memoise_last
def _anywhere(up: Mapping[str, int]) -> Placement:
    return Placement(name=ANYWHERE, nodes=tuple(up))


@memoise_last
def _right_sized(
    placements: tuple[Placement, ...], up: Mapping[str, int], eligible: frozenset[str] | None
) -> Callable[[int], tuple[Placement, ...]]:
    """The placements of the right size for a number of nodes."""
    usable = frozenset(up) if eligible is None else eligible.intersection(up)
    by_size = sorted(((usable.intersection(place.nodes), place) for place in placements), key=_size)

    @cache
    def found(node_count: int) -> tuple[Placement, ...]:
        right: list[tuple[frozenset[str], Placement]] = []
        exact = any(place.whole and len(nodes) == node_count for nodes, place in by_size)
        for nodes, place in by_size:
            if len(nodes) < node_count or (exact and place.whole and len(nodes) > node_count):
                continue
            if not any(smaller < nodes for smaller, _ in right):
                right.append((nodes, place))
        return tuple(place for _, place in right)

    return found


def _size(usable: tuple[frozenset[str], Placement]) -> int:
    return len(usable[0])
