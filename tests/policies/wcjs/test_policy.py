"""Policy "wcjs": which jobs get high priority, which placement is cleared, which jobs are not preempted."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings

from makeway.policies.model import (
    Action,
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Job,
    JobKind,
    Method,
    Node,
    NodeState,
    Operation,
    OperationKind,
    Placement,
    Prioritise,
    Reason,
    Requeue,
    Reservation,
    Reserve,
)
from makeway.policies.wcjs.cost import WcjsConfig, cost
from makeway.policies.wcjs.policy import SHOWN, WCJS, decide
from tests.policies.crowds import crowds, placed_crowds

NOW_S = 10_000.0
JIT = CheckpointSpec(system_s=120.0, grace_s=150.0)
AT_ONCE: dict[str, Any] = {
    f"urgent_{size}": 1.0 for size in ("narrow_short", "narrow_long", "wide_short", "wide_long")
}
CONFIG = WcjsConfig(**AT_ONCE, batch_narrow_long=5.0)
"""Urgent jobs are of high priority at once; the batch jobs here have walltimes of 20,000 s."""

ClusterOf = Callable[..., Cluster]
JobOf = Callable[..., Job]


def halves(count: int) -> tuple[Placement, ...]:
    """The left and the right half, and all of it."""
    nodes = tuple(f"n{index}" for index in range(count))
    return (
        Placement(name="left", nodes=nodes[: count // 2]),
        Placement(name="right", nodes=nodes[count // 2 :]),
        Placement(name="all", nodes=nodes),
    )


def held(actions: tuple[Action, ...]) -> tuple[str, ...]:
    return next((action.nodes for action in actions if isinstance(action, Reserve)), ())


def leaving(actions: tuple[Action, ...]) -> list[str]:
    return [action.job_id for action in actions if isinstance(action, Requeue)]


def test_below_its_threshold_a_job_waits_and_the_decision_says_until_when(
    cluster_of: ClusterOf, running: JobOf, waiting: JobOf
) -> None:
    config = WcjsConfig(urgent_narrow_short=1.2)
    early = waiting("u", 1, walltime_s=3600.0, submit_s=NOW_S - 719.0)
    other = waiting("v", 1, walltime_s=3600.0, submit_s=NOW_S - 600.0)
    decision = decide(cluster_of(1, running("a", "n0"), early, other), config)
    assert (decision.actions, decision.rationale, decision.again_s) == ((), (), NOW_S + 1.0)


@pytest.mark.parametrize("threshold", [math.inf, 1e308])
def test_a_threshold_that_is_never_reached_is_waited_for_without_an_instant(
    threshold: float, cluster_of: ClusterOf, waiting: JobOf
) -> None:
    cluster = cluster_of(1, waiting("u", 1, walltime_s=3600.0))
    decision = WCJS.decision(cluster, WcjsConfig(urgent_narrow_short=threshold))
    assert (decision.actions, decision.again_s) == ((), None)


def test_a_free_placement_is_taken_and_no_job_leaves(
    cluster_of: ClusterOf, running: JobOf, waiting: JobOf
) -> None:
    cluster = cluster_of(4, running("a", "n1"), waiting("u", 2), placements=halves(4))
    decision = decide(cluster, CONFIG)
    assert (held(decision.actions), leaving(decision.actions)) == (("n2", "n3"), [])
    assert decision.again_s is None


def test_free_nodes_of_two_placements_do_not_make_one(
    cluster_of: ClusterOf, running: JobOf, waiting: JobOf
) -> None:
    jobs = (running("a", "n1"), running("b", "n2"), waiting("u", 2))
    decision = decide(cluster_of(4, *jobs, placements=halves(4)), CONFIG)
    assert held(decision.actions) == ("n0", "n1")
    assert leaving(decision.actions) == ["a"]
    assert held(decide(cluster_of(4, *jobs), CONFIG).actions) == ("n0", "n3")


def requeue(job_id: str, method: Method, not_after_s: float) -> Requeue:
    return Requeue(
        job_id=job_id,
        for_job_id="u",
        policy="wcjs",
        reason=Reason.URGENT_ARRIVAL,
        method=method,
        not_after_s=not_after_s,
    )


def test_the_placement_whose_jobs_cost_least_is_cleared(
    cluster_of: ClusterOf, running: JobOf, waiting: JobOf
) -> None:
    # On the left one job that has waited long, on the right two that have not: 2 x 1.5 against 1 + 1.
    config = replace(CONFIG, checkpoint_weight=0.0, remaining_weight=0.0)
    jobs = (
        running("old", "n0 n1", submit_s=-1000.0, checkpoint=JIT),
        running("b", "n2", submit_s=9000.0, checkpoint=JIT),
        running("c", "n3", submit_s=9000.0),
        waiting("u", 2),
    )
    decision = decide(cluster_of(4, *jobs, placements=halves(4)), config)
    assert decision.actions == (
        Reserve(
            job_id="u",
            for_job_id="u",
            policy="wcjs",
            reason=Reason.URGENT_ARRIVAL,
            reservation="mw_u",
            nodes=("n2", "n3"),
            duration_s=150.0 + 1800.0 + config.hold_slack_s,
        ),
        Checkpoint(
            job_id="b",
            for_job_id="u",
            policy="wcjs",
            reason=Reason.URGENT_ARRIVAL,
            signal="USR1",
            grace_s=150.0,
            walltime_s=20_150.0,
            until_s=NOW_S + 150.0,
            grace_min_s=150.0,
        ),
        requeue("b", Method.SYSTEM, NOW_S + 150.0),
        requeue("c", Method.KILL, NOW_S),
    )
    why = decision.rationale[0]
    listed = [(one.job_ids, one.chosen, one.note) for one in why.candidates]
    assert listed == [(("b", "c"), True, "right: cost 2.0"), (("old",), False, "left: cost 3.0")]
    assert (why.loss_node_s, why.ready_s) == (1000, NOW_S + 120.0)
    assert why.summary == "2 more nodes are needed: b, c leave right, the cheapest of 2, at a cost of 2.0."


def test_past_evictions_raise_the_cost_and_the_loss_that_is_told_is_the_real_one(
    cluster_of: ClusterOf, running: JobOf, waiting: JobOf
) -> None:
    config = replace(CONFIG, slowdown_weight=0.0, remaining_weight=0.0)
    fresh = running("fresh", "n0", start_s=NOW_S - 360.0, past_evictions=2)
    decision = decide(cluster_of(2, fresh, running("stale", "n1"), waiting("u", 1)), config)
    assert leaving(decision.actions) == ["stale"]
    (why,) = decision.rationale
    assert [(one.job_ids[0], one.chosen, one.loss_node_s, one.note) for one in why.candidates] == [
        ("fresh", False, 360, "cost 3.6; lost work counts as 0.90 node-hours after past evictions"),
        ("stale", True, 1000, "cost 1.6"),
    ]
    assert why.loss_node_s == 1000


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": JobKind.ON_DEMAND}, "urgent"),
        ({"preemptible": False}, "not_preemptible"),
        ({"nodes": ("n0", "n1"), "node_count": 2}, "job a is larger"),
        ({"submit_s": -80_001.0}, "the slowdown of job a is too high"),
    ],
)
def test_the_rules_of_exclusion(
    cluster_of: ClusterOf, running: JobOf, waiting: JobOf, changes: dict[str, object], reason: str
) -> None:
    job = replace(running("a", "n0", start_s=0.0, submit_s=0.0), **changes)  # type: ignore[arg-type]
    cluster = cluster_of(len(job.nodes), job, waiting("u", 1))
    decision = decide(cluster, CONFIG)
    assert decision.actions == (Prioritise(job_id="u", for_job_id="u", policy="wcjs", reason=Reason.NO_ROOM),)
    assert [candidate.note for candidate in decision.rationale[0].candidates] == [reason]
    assert decision.rationale[0].summary.startswith("None of 1 placements")
    again = replace(cluster, jobs=(job, waiting("u", 1, prioritised=True)))
    assert decide(again, CONFIG).actions == ()


def test_the_second_rule_can_be_switched_off(cluster_of: ClusterOf, running: JobOf, waiting: JobOf) -> None:
    cluster = cluster_of(2, running("a", "n0 n1"), waiting("u", 1))
    decision = decide(cluster, replace(CONFIG, spare_larger=False))
    assert (held(decision.actions), leaving(decision.actions)) == (("n0",), ["a"])


def test_the_highest_slowdown_is_served_first(cluster_of: ClusterOf, running: JobOf, waiting: JobOf) -> None:
    early = waiting("u", 1, submit_s=NOW_S - 900.0, walltime_s=90_000.0)
    short = waiting("v", 1, submit_s=NOW_S - 60.0, walltime_s=600.0)
    decision = decide(cluster_of(1, running("a", "n0"), early, short), CONFIG)
    assert [why.for_job_id for why in decision.rationale] == ["v", "u"]
    assert [action.for_job_id for action in decision.actions if isinstance(action, Reserve)] == ["v"]


def test_two_jobs_at_once_take_two_placements(cluster_of: ClusterOf, running: JobOf, waiting: JobOf) -> None:
    jobs = (running("a", "n0 n1"), running("b", "n2 n3"), waiting("u", 2), waiting("v", 2))
    decision = decide(cluster_of(4, *jobs, placements=halves(4)), CONFIG)
    holds = [action.nodes for action in decision.actions if isinstance(action, Reserve)]
    assert sorted(holds) == [("n0", "n1"), ("n2", "n3")]
    assert sorted(leaving(decision.actions)) == ["a", "b"]


def test_a_placement_that_comes_free_anyway_is_waited_for(
    cluster_of: ClusterOf, running: JobOf, waiting: JobOf
) -> None:
    """What a victim of one leaves beyond what was needed serves the next."""
    jobs = (
        running("a", "n0 n1", checkpoint=JIT),
        waiting("u", 1, submit_s=NOW_S - 100.0),
        waiting("v", 1),
    )
    decision = decide(cluster_of(2, *jobs), replace(CONFIG, spare_larger=False))
    assert leaving(decision.actions) == ["a"]
    assert [action.nodes for action in decision.actions if isinstance(action, Reserve)] == [("n0",), ("n1",)]


def test_too_late_to_evict(cluster_of: ClusterOf, running: JobOf, waiting: JobOf) -> None:
    late = waiting("u", 1, submit_s=NOW_S - 3601.0)
    decision = decide(cluster_of(1, running("a", "n0"), late), CONFIG)
    assert [action.verb for action in decision.actions] == ["prioritise"]
    assert decision.rationale[0].summary.endswith("too late to evict.")
    assert held(decide(cluster_of(1, late), CONFIG).actions) == ("n0",)


def test_who_cannot_save_himself_in_time_is_killed(
    cluster_of: ClusterOf, running: JobOf, waiting: JobOf
) -> None:
    cluster = cluster_of(1, running("a", "n0", checkpoint=JIT), waiting("u", 1, start_within_s=119.0))
    assert [action.method for action in decide(cluster, CONFIG).actions if isinstance(action, Requeue)] == [
        Method.KILL
    ]
    in_time = cluster_of(1, running("a", "n0", checkpoint=JIT), waiting("u", 1, start_within_s=130.0))
    requeue = decide(in_time, CONFIG).actions[-1]
    assert isinstance(requeue, Requeue)
    assert (requeue.method, requeue.not_after_s) == (Method.SYSTEM, NOW_S + 130.0)


def test_a_placement_with_a_node_down_is_none(cluster_of: ClusterOf, running: JobOf, waiting: JobOf) -> None:
    cluster = cluster_of(
        4, running("a", "n0 n1", submit_s=9000.0), running("b", "n2"), waiting("u", 2), placements=halves(4)
    )
    nodes = (*cluster.nodes[:3], Node(name="n3", state=NodeState.DOWN))
    assert leaving(decide(replace(cluster, nodes=nodes), CONFIG).actions) == ["a"]


def test_a_hold_that_lost_a_node_moves_to_another_placement(
    cluster_of: ClusterOf, running: JobOf, waiting: JobOf
) -> None:
    hold = Reservation(name="mw_u", nodes=("n0", "n1"), start_s=0.0, end_s=NOW_S + 9000.0)
    operation = Operation(
        operation_id="u@1",
        kind=OperationKind.MAKE_WAY,
        for_job_id="u",
        policy="wcjs",
        reservation="mw_u",
        nodes=hold.nodes,
        opened_s=NOW_S - 10.0,
        deadline_s=NOW_S + 3000.0,
        give_up_s=NOW_S + 4000.0,
    )
    cluster = cluster_of(
        4,
        running("b", "n2 n3"),
        waiting("u", 2, reservation="mw_u"),
        placements=halves(4),
        reservations=(hold,),
        operations=(operation,),
    )
    nodes = (Node(name="n0", state=NodeState.DOWN), *cluster.nodes[1:])
    decision = decide(replace(cluster, nodes=nodes), CONFIG)
    assert decision.actions[0].reason is Reason.SHORTFALL
    assert (held(decision.actions), leaving(decision.actions)) == (("n2", "n3"), ["b"])


def test_the_rationale_names_the_cheapest_placements_only(
    cluster_of: ClusterOf, running: JobOf, waiting: JobOf
) -> None:
    count = SHOWN + 3
    jobs = [running(f"a{index:02d}", f"n{index}", submit_s=9000.0 - 10.0 * index) for index in range(count)]
    single = tuple(Placement(name=f"p{index}", nodes=(f"n{index}",)) for index in range(count))
    decision = decide(cluster_of(count, *jobs, waiting("u", 1), placements=single), CONFIG)
    listed = decision.rationale[0].candidates
    assert [one.job_ids for one in listed] == [(f"a{index:02d}",) for index in range(SHOWN)]
    assert [one.chosen for one in listed] == [True] + [False] * (SHOWN - 1)


@settings(deadline=None, max_examples=200)
@given(cluster=crowds())
def test_on_any_nodes_the_cheapest_set_of_all(cluster: Cluster) -> None:
    config = replace(CONFIG, spare_larger=False, batch_narrow_short=99.0, batch_narrow_long=99.0)
    jobs = [job for job in cluster.jobs if job.nodes]
    needed = cluster.jobs_by_id()["u"].node_count
    cheapest = min(
        sum(cost(job, NOW_S, config) for job in some)
        for count in range(1, len(jobs) + 1)
        for some in combinations(jobs, count)
        if sum(job.node_count for job in some) >= needed
    )
    decision = decide(cluster, config)
    chosen = [cluster.jobs_by_id()[job_id] for job_id in leaving(decision.actions)]
    assert sum(cost(job, NOW_S, config) for job in chosen) == pytest.approx(cheapest, rel=1e-4)
    assert len(held(decision.actions)) == needed


@settings(deadline=None, max_examples=200)
@given(placed=placed_crowds())
def test_with_placements_the_hold_is_within_one_of_the_right_size(placed: Cluster) -> None:
    blocks = [place.nodes for place in placed.placements]
    decision = decide(placed, replace(CONFIG, spare_larger=False))
    assert decision == decide(replace(placed, jobs=placed.jobs[::-1]), replace(CONFIG, spare_larger=False))
    nodes = held(decision.actions)
    needed = placed.jobs_by_id()["u"].node_count
    large = [set(block) for block in blocks if len(block) >= needed]
    exact = [set(place.nodes) for place in placed.placements if place.whole and len(place.nodes) == needed]
    right = exact or [block for block in large if not any(other < block for other in large)]
    if not nodes:
        assert [action.verb for action in decision.actions] == ["prioritise"]
        return
    assert len(nodes) == needed
    if right:
        assert any(block.issuperset(nodes) for block in right)
    freed = {name for job_id in leaving(decision.actions) for name in placed.jobs_by_id()[job_id].nodes}
    assert set(nodes) <= freed
