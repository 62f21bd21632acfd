"""Which placements are of the right size."""

from collections.abc import Callable
from dataclasses import replace

from makeway.policies.common.placements import ANYWHERE, fitting
from makeway.policies.model import Cluster, NodeState, Placement

LEFT = Placement(name="left", nodes=("n0", "n1"))
RIGHT = Placement(name="right", nodes=("n2", "n3"))
BOTH = Placement(name="both", nodes=("n0", "n1", "n2", "n3"))
WIDE = Placement(name="wide", nodes=("n3", "n4", "n5"))


def test_the_smallest_that_hold_the_job_in_the_cluster_s_order(cluster_of: Callable[..., Cluster]) -> None:
    cluster = cluster_of(6, placements=(RIGHT, BOTH, LEFT))
    assert fitting(cluster, 1) == fitting(cluster, 2) == (RIGHT, LEFT)
    assert fitting(cluster, 3) == (BOTH,)


def test_a_larger_one_serves_too_unless_it_contains_one_that_is_large_enough(
    cluster_of: Callable[..., Cluster],
) -> None:
    cluster = cluster_of(6, placements=(BOTH, WIDE, LEFT))
    assert fitting(cluster, 1) == fitting(cluster, 2) == (LEFT, WIDE)
    assert fitting(cluster, 3) == (WIDE, BOTH)
    assert fitting(cluster, 4) == (BOTH,)


def test_where_jobs_get_whole_placements_a_larger_one_serves_only_if_none_is_exact(
    cluster_of: Callable[..., Cluster],
) -> None:
    left, wide, both = (replace(place, whole=True) for place in (LEFT, WIDE, BOTH))
    cluster = cluster_of(6, placements=(both, wide, left))
    assert fitting(cluster, 1) == (left, wide)
    assert fitting(cluster, 2) == (left,)
    assert fitting(cluster, 3) == (wide,)
    assert fitting(cluster, 4) == (both,)


def test_only_nodes_count_that_are_up_and_may_serve(cluster_of: Callable[..., Cluster]) -> None:
    cluster = cluster_of(6, placements=(BOTH, LEFT, RIGHT))
    assert fitting(cluster, 2, frozenset({"n1", "n2", "n3"})) == (RIGHT,)
    assert fitting(cluster, 2, frozenset({"n1", "n2"})) == (BOTH,)
    down = tuple(replace(node, state=NodeState.DOWN) if node.name == "n0" else node for node in cluster.nodes)
    assert fitting(replace(cluster, nodes=down), 2) == (RIGHT,)
    assert fitting(replace(cluster, nodes=down), 3) == (BOTH,)


def test_any_nodes_serve_where_no_placement_is_large_enough(cluster_of: Callable[..., Cluster]) -> None:
    everything = (Placement(name=ANYWHERE, nodes=("n0", "n1", "n2", "n3", "n4", "n5")),)
    assert fitting(cluster_of(6, placements=(LEFT, BOTH)), 5) == everything
    assert fitting(cluster_of(6), 1) == everything
