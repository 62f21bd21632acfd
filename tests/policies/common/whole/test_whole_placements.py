"""Where nodes are only given as whole placements, "eviction" and "least-price" clear the cheapest one."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from makeway.policies.common.placements import fitting
from makeway.policies.contract import Policy
from makeway.policies.eviction.policy import EVICTION
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Decision,
    Limits,
    Method,
    NodeState,
    Placement,
    Prioritise,
    Requeue,
    Reserve,
)
from makeway.policies.safety.prices import killed_node_s
from tests.policies.arriving import NOW_S, Build, BuildCluster, victims
from tests.policies.common.operations import operation
from tests.policies.crowds import placed_crowds
from tests.policies.sharing import amounts, part, shared

LEFT = Placement(name="left", nodes=("n0", "n1"))
RIGHT = Placement(name="right", nodes=("n2", "n3"))
HALVES = (LEFT, RIGHT)
BOTH_POLICIES = pytest.mark.parametrize("policy", [EVICTION, LEAST_PRICE], ids=lambda policy: policy.name)


def decide(policy: Policy[Any], cluster: Cluster, **changes: Any) -> Decision:
    return policy.decide(cluster, policy.config_type(**changes))


def held(decision: Decision) -> tuple[str, ...]:
    return next((action.nodes for action in decision.actions if isinstance(action, Reserve)), ())


@BOTH_POLICIES
def test_the_placement_whose_jobs_cost_least_and_not_the_cheapest_jobs(
    policy: Policy[Any], running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = [
        running(name, f"n{name}", start_s=NOW_S - lost_s)
        for name, lost_s in zip("0123", (1, 90, 50, 60), strict=True)
    ]
    cluster = cluster_of(4, *jobs, waiting("u", 2))
    assert [job_id for job_id, _ in victims(decide(policy, cluster))] == ["0", "2"]
    placed = decide(policy, replace(cluster, placements=(RIGHT, LEFT)))
    assert victims(placed) == [("0", Method.KILL), ("1", Method.KILL)]
    assert set(held(placed)) == set(LEFT.nodes)
    assert placed.rationale[0].summary.startswith("left, the cheapest of 2: ")


@BOTH_POLICIES
def test_free_nodes_of_two_placements_do_not_serve_a_job_together(
    policy: Policy[Any], running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0", start_s=NOW_S - 500.0), running("b", "n2"))
    cluster = cluster_of(4, *jobs, waiting("u", 2), placements=HALVES)
    decision = decide(policy, cluster)
    assert (held(decision), victims(decision)) == (("n1", "n0"), [("a", Method.KILL)])
    assert victims(decide(policy, replace(cluster, placements=()))) == []


@BOTH_POLICIES
def test_a_placement_that_loses_too_much_is_refused_in_words_that_fit(
    policy: Policy[Any], running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Two nodes are free, but not in one placement: no further node is needed."""
    jobs = (running("a", "n0"), running("b", "n2"))
    limits = Limits(max_loss_node_hours=0.01)
    cluster = cluster_of(4, *jobs, waiting("u", 2), placements=HALVES, limits=limits)
    decision = decide(policy, cluster)
    assert victims(decision) == []
    assert decision.rationale[0].summary.startswith("A whole placement for 2 nodes is needed: ")


@BOTH_POLICIES
def test_a_free_placement_is_held_and_no_job_leaves(
    policy: Policy[Any], running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(4, running("a", "n1"), waiting("u", 2), placements=HALVES)
    decision = decide(policy, cluster)
    assert (held(decision), victims(decision)) == (RIGHT.nodes, [])


@BOTH_POLICIES
def test_without_a_placement_that_can_be_cleared_no_job_leaves(
    policy: Policy[Any], running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    stays = [running(name, f"n{name}", preemptible=False) for name in "02"]
    leaves = [running(name, f"n{name}") for name in "13"]
    cluster = cluster_of(4, *stays, *leaves, waiting("u", 2), placements=HALVES)
    decision = decide(policy, cluster)
    assert [type(action) for action in decision.actions] == [Prioritise]
    text = "None of 2 placements of the right size for 2 nodes can be cleared in time: no job is evicted."
    assert decision.rationale[0].summary == text
    late = decide(policy, replace(cluster, now_s=NOW_S + 3600.0))
    assert "is free and the deadline has passed" in late.rationale[0].summary
    assert not any(isinstance(action, Requeue) for action in late.actions)


@BOTH_POLICIES
def test_the_second_urgent_job_gets_another_placement(
    policy: Policy[Any], running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0 n1", start_s=NOW_S - 10.0), running("b", "n2 n3"))
    cluster = cluster_of(4, *jobs, waiting("u", 2), waiting("v", 2), placements=HALVES)
    decision = decide(policy, cluster)
    holds = {action.job_id: action.nodes for action in decision.actions if isinstance(action, Reserve)}
    assert holds == {"u": LEFT.nodes, "v": RIGHT.nodes}


@BOTH_POLICIES
def test_a_hold_that_lost_a_node_moves_to_a_whole_placement(
    policy: Policy[Any], running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(4, running("b", "n2 n3"), waiting("u", 2), placements=HALVES)
    down = replace(cluster.nodes[1], state=NodeState.DOWN)
    nodes = (cluster.nodes[0], down, *cluster.nodes[2:])
    short = replace(cluster, nodes=nodes, operations=(operation("u", "n0 n1"),))
    decision = decide(policy, short)
    assert (held(decision), victims(decision)) == (RIGHT.nodes, [("b", Method.KILL)])
    assert "n0" in held(decide(policy, replace(short, placements=())))


@BOTH_POLICIES
def test_a_job_that_needs_a_part_of_its_nodes_may_have_any(policy: Policy[Any], waiting: Build) -> None:
    asks = replace(waiting("u", 2), demand=amounts(cpu=8))
    batch = (part("a", "n0", amounts(cpu=8)), part("b", "n2", amounts(cpu=8)))
    decision = decide(policy, shared(*batch, asks, node_count=4, placements=HALVES))
    assert (held(decision), victims(decision)) == (("n1", "n3"), [])


def test_least_price_takes_the_checkpoint_that_costs_less_in_another_placement(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """A kill of b loses less than one of a, but a can save its work."""
    saves = running("a", "n0 n1", checkpoint=CheckpointSpec(system_s=100.0))
    dies = running("b", "n2 n3", start_s=NOW_S - 400.0)
    cluster = cluster_of(4, saves, dies, waiting("u", 2), placements=HALVES)
    decision = decide(LEAST_PRICE, cluster, instant_machine_hours=0.0)
    assert victims(decision) == [("a", Method.SYSTEM)]


def test_least_price_waits_in_the_hold_of_a_placement_that_is_dear(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running(name, nodes, walltime_s=2000.0) for name, nodes in (("a", "n0 n1"), ("b", "n2 n3")))
    cluster = cluster_of(4, *jobs, waiting("u", 2), placements=HALVES)
    decision = decide(LEAST_PRICE, cluster, waiting_machine_hours=0.1)
    assert (held(decision), victims(decision)) == (LEFT.nodes, [])
    assert decision.again_s == NOW_S + 600.0 - 30.0 - 60.0
    refused = decide(LEAST_PRICE, replace(cluster, now_s=decision.again_s), ceiling_machine_hours=0.1)
    assert "the ceiling is 0.40 (ceiling_machine_hours)" in refused.rationale[0].summary


def lost_node_s(decision: Decision, cluster: Cluster) -> int:
    """What its kills lose, or those that it puts off until jobs have ended by themselves."""
    why = next(one for one in decision.rationale if one.for_job_id == "u")
    if why.postponed is not None:
        return why.postponed.loss_node_s
    return killed_node_s(decision.actions, cluster)


@BOTH_POLICIES
@settings(deadline=None, max_examples=80)
@given(placed=placed_crowds())
def test_the_loss_is_the_least_of_all_placements(policy: Policy[Any], placed: Cluster) -> None:
    """The oracle asks for each placement alone, without the others."""
    cluster = replace(placed, placements=())
    urgent = cluster.jobs_by_id()["u"]

    def alone(place: Placement) -> Decision:
        confined = replace(urgent, eligible_nodes=frozenset(place.nodes))
        jobs = tuple(confined if job is urgent else job for job in cluster.jobs)
        return decide(policy, replace(cluster, jobs=jobs))

    within = [one for one in map(alone, fitting(placed, urgent.node_count)) if held(one)]
    decision = decide(policy, placed)
    assert bool(held(decision)) == bool(within)
    if within:
        assert lost_node_s(decision, placed) == min(lost_node_s(one, cluster) for one in within)
