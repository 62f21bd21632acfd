"""Policy "eviction" and the price of its evictions: limits, and past evictions."""

from dataclasses import replace

import pytest

from makeway.policies.model import Limits, Method, Resources
from tests.policies.arriving import BOTH, NOW_S, Build, BuildCluster, decide, prioritise, victims
from tests.policies.sharing import NODE, amounts


def test_an_urgent_job_that_would_cost_too_much_waits(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """The cheaper job loses 512 node-hours."""
    jobs = (
        running("dear", "n0 n1", start_s=NOW_S - 1_000 * 3600.0),
        running("cheap", "n2 n3", start_s=NOW_S - 256 * 3600.0),
    )
    cluster = cluster_of(4, *jobs, waiting("u", 2))
    decision = decide(cluster)
    assert decision.actions == (prioritise("u"),)
    (why,) = decision.rationale
    assert why.summary == (
        "2 more nodes are needed: it would cost 512 node-hours, the limit is 200 (max_loss_node_hours). "
        "No job is evicted."
    )
    assert (why.loss_node_s, why.ready_s) == (0, None)
    assert [(one.job_ids, one.chosen) for one in why.candidates] == [(("cheap",), False), (("dear",), False)]
    allowed = decide(replace(cluster, limits=Limits(max_loss_node_hours=512.0)))
    assert victims(allowed) == [("cheap", Method.KILL)]


def test_one_decision_does_not_cost_more_than_the_day_may(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = [running(name, node, start_s=NOW_S - 100 * 3600.0) for name, node in (("a", "n0"), ("b", "n1"))]
    cluster = cluster_of(2, *jobs, waiting("u", 1), waiting("v", 1))
    decision = decide(replace(cluster, limits=Limits(max_loss_node_hours_per_day=150.0)))
    assert victims(decision) == [("a", Method.KILL)]
    assert (
        "it would cost 100 node-hours, and 100 of the 150 of a day are used" in decision.rationale[1].summary
    )
    assert len(victims(decide(cluster))) == 2


def test_a_job_that_was_evicted_before_is_dearer(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Once: 300 s count as 1,200 s."""
    jobs = (
        running("again", "n0", start_s=NOW_S - 300.0, past_evictions=1),
        running("never", "n1", start_s=NOW_S - 1_000.0),
    )
    decision = decide(cluster_of(2, *jobs, waiting("u", 1)))
    assert victims(decision) == [("never", Method.KILL)]
    assert decision.rationale[0].loss_node_s == 1000, "what is lost is not the price"


def test_of_jobs_that_lose_nothing_the_one_leaves_that_left_least_often(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = [
        running(name, node, checkpoint=BOTH, past_evictions=count)
        for name, node, count in (("a", "n0", 2), ("b", "n1", 1), ("c", "n2", 2))
    ]
    assert victims(decide(cluster_of(3, *jobs, waiting("u", 1)))) == [("b", Method.SYSTEM)]


@pytest.mark.parametrize("capacity", [None, NODE], ids=["whole nodes", "shared nodes"])
def test_past_evictions_do_not_make_a_start_too_dear(
    running: Build, waiting: Build, cluster_of: BuildCluster, capacity: Resources | None
) -> None:
    """The price chooses the job that loses 300 s, which the limit refuses; the other one loses 100 s."""
    again = running("again", "n0", start_s=NOW_S - 100.0, past_evictions=1)
    never = running("never", "n1", start_s=NOW_S - 300.0)
    cluster = cluster_of(2, again, never, waiting("u", 1, demand=None if capacity is None else amounts(4)))
    nodes = tuple(replace(node, capacity=capacity) for node in cluster.nodes)
    cluster = replace(cluster, nodes=nodes, limits=Limits(min_progress_s=0.0))
    assert victims(decide(cluster, kills="at_once")) == [("never", Method.KILL)]
    limits = replace(cluster.limits, max_loss_node_hours=200.0 / 3600.0, max_loss_machine_share=0.0)
    assert victims(decide(replace(cluster, limits=limits), kills="at_once")) == [("again", Method.KILL)]
    limits = replace(limits, max_loss_node_hours=99.0 / 3600.0)
    assert decide(replace(cluster, limits=limits), kills="at_once").actions == (prioritise("u"),)
