"""The sets of nodes on which a job may run: partitions of a torus, leaf switches, blocks, or any nodes.

On some machines a job gets a whole partition, on others any nodes under one switch. Both are a list of
placements (`Cluster.placements`). Without placements a job may run on any nodes.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), section 6.3,
    Algorithm 2, line 1: the partitions of the right size.

Differs from the paper:
    A placement may be larger than the job, which then gets as many of its nodes as it needs. A job that is
    larger than every placement may run on any nodes.
"""

from collections.abc import Mapping
from types import MappingProxyType

from makeway.policies.model import Cluster, Placement, memoise_last

ANYWHERE = "any nodes"
"""The name of the placement that is all nodes of the cluster."""


def fitting(cluster: Cluster, node_count: int) -> tuple[Placement, ...]:
    """The smallest placements with at least `node_count` nodes (Algorithm 2, line 1), in the cluster's order.

    If the cluster has no placements, or none is large enough: one placement of all nodes that are up.
    """
    by_size = _by_size(cluster.placements)
    sizes = [size for size in by_size if size >= node_count]
    if not sizes:
        return (_anywhere(cluster.up_nodes()),)
    return by_size[min(sizes)]


@memoise_last
def _anywhere(up: Mapping[str, int]) -> Placement:
    return Placement(name=ANYWHERE, nodes=tuple(up))


@memoise_last
def _by_size(placements: tuple[Placement, ...]) -> Mapping[int, tuple[Placement, ...]]:
    found: dict[int, list[Placement]] = {}
    for placement in placements:
        found.setdefault(len(placement.nodes), []).append(placement)
    return MappingProxyType({size: tuple(group) for size, group in found.items()})
