"""The mechanisms of P5 where an urgent job needs a part of a node: jobs leave one by one."""

from dataclasses import replace

import pytest

from makeway.policies.common.departures import COMPLETING_S, LEAVE_S
from makeway.policies.contract import Policy
from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.hybrid.policy import CUA_SPAA, CUP_PAA, N_PAA, N_SPAA
from makeway.policies.model import (
    CheckpointSpec,
    Decision,
    JobKind,
    JobState,
    Method,
    NodeState,
    Notice,
    Operation,
    OperationKind,
    Requeue,
    Reservation,
    Reserve,
    Resources,
)
from makeway.policies.safety.prices import hours_text
from tests.policies.arriving import Build, victims
from tests.policies.common.operations import operation
from tests.policies.sharing import NOW_S, amounts, part, shared


def the_hold(decision: Decision) -> Reserve:
    (found,) = [action for action in decision.actions if isinstance(action, Reserve)]
    return found


@pytest.mark.parametrize("policy", [N_PAA, N_SPAA, CUA_SPAA, CUP_PAA], ids=lambda policy: policy.name)
def test_the_least_overhead_leaves_first_and_what_is_not_needed_stays(
    waiting: Build, policy: Policy[HybridConfig]
) -> None:
    """The cheapest jobs free one CPU each; then one frees four, and the cheap ones need not leave."""
    cluster = shared(
        part("a", "n0", amounts(1), start_s=NOW_S - 10.0),
        part("b", "n0", amounts(1), start_s=NOW_S - 20.0),
        part("c", "n0", amounts(4), start_s=NOW_S - 100.0),
        part("d", "n0", amounts(2), preemptible=False),
        waiting("u", 1, demand=amounts(4)),
        node_count=1,
    )
    decision = policy.decide(cluster, HybridConfig())
    assert victims(decision) == [("c", Method.KILL)]
    assert the_hold(decision).kind is OperationKind.MAKE_WAY_SHARED
    assert decision.rationale[0].loss_node_s == 50
    notes = {one.job_ids: (one.chosen, one.note) for one in decision.rationale[0].candidates}
    assert notes["d",] == (False, "not_preemptible")
    assert notes["a",][0] is False


def test_past_evictions_count_in_the_order_of_single_jobs(waiting: Build) -> None:
    """Half a node each: 50 and 500 node-seconds; one eviction before, and the first counts as 200."""
    for past_evictions, gone in ((0, "fresh"), (1, "fresh"), (3, "stale")):
        cluster = shared(
            part("fresh", "n0", amounts(4), start_s=NOW_S - 100.0, past_evictions=past_evictions),
            part("stale", "n0", amounts(4)),
            waiting("u", 1, demand=amounts(4)),
            node_count=1,
        )
        decision = N_PAA.decide(cluster, HybridConfig())
        assert victims(decision) == [(gone, Method.KILL)]
        (why,) = decision.rationale
        found = {one.job_ids[0]: (one.loss_node_s, one.note) for one in why.candidates}
        evictions = f"{past_evictions} past eviction{'s' if past_evictions > 1 else ''}"
        hours = hours_text(50 * (1 + past_evictions) ** 2)
        note = f"ranked by {hours} node-hours: lost work at its price after {evictions}, and the setup"
        assert found == {"fresh": (50, note if past_evictions else ""), "stale": (500, "")}
        assert why.summary.endswith("after past evictions.") is bool(past_evictions)


def test_a_job_that_shares_a_node_that_is_down_does_not_shrink(waiting: Build) -> None:
    malleable = part("m", "n0 n1", amounts(4), kind=JobKind.MALLEABLE, node_count_min=1)
    cluster = shared(malleable, part("p", "n0", amounts(4), preemptible=False), waiting("u", 1))
    cluster = replace(cluster, nodes=(replace(cluster.nodes[0], state=NodeState.DOWN), cluster.nodes[1]))
    for policy in (N_SPAA, CUA_SPAA):
        assert victims(policy.decide(cluster, HybridConfig())) == [("m", Method.KILL)]


def test_a_malleable_job_is_warned_and_does_not_shrink(waiting: Build) -> None:
    cluster = shared(
        part(
            "m",
            "n0 n1",
            amounts(8),
            kind=JobKind.MALLEABLE,
            node_count_min=1,
            checkpoint=CheckpointSpec(system_s=30.0),
        ),
        waiting("u", 1, demand=amounts(4)),
    )
    decision = N_SPAA.decide(cluster, HybridConfig())
    assert victims(decision) == [("m", Method.SYSTEM)]
    (requeue,) = [action for action in decision.actions if isinstance(action, Requeue)]
    assert requeue.not_after_s == NOW_S + 120.0


@pytest.mark.parametrize(
    ("within_s", "gone", "ready_s"),
    [
        (600.0, ["needed"], NOW_S + COMPLETING_S + LEAVE_S),  # what completes is gone by the deadline
        (140.0, ["large", "needed"], NOW_S),  # it may be there after the deadline
    ],
)
def test_a_job_that_is_completing_counts_as_gone_by_the_deadline(
    waiting: Build, within_s: float, gone: list[str], ready_s: float
) -> None:
    """On n0, one CPU is missing that is coming free, or those of the large job."""
    cluster = shared(
        part("large", "n0", amounts(2), start_s=NOW_S - 1.0),
        part("over", "n0", amounts(1), state=JobState.COMPLETING),
        part("rest", "n0", amounts(4), preemptible=False),
        part("needed", "n1", amounts(8), start_s=NOW_S - 500.0),
        waiting("u", 2, demand=amounts(2)),
        node_count=2,
    )
    decision = N_PAA.decide(cluster, HybridConfig(start_within_s=within_s))
    assert sorted(job_id for job_id, _ in victims(decision)) == gone
    assert decision.rationale[0].ready_s == ready_s


def test_without_enough_room_no_job_leaves(waiting: Build) -> None:
    cluster = shared(
        part("a", "n0", amounts(4), preemptible=False),
        part("b", "n0", amounts(4)),
        waiting("u", 1, demand=amounts(6)),
        node_count=1,
    )
    decision = N_PAA.decide(cluster, HybridConfig())
    assert victims(decision) == []
    assert decision.rationale[0].summary == (
        "Room for cpu=6, mem=1000M on 1 more node is needed; "
        "without the preemptable jobs (1) there is room on 0 of them."
    )


def announced(node_count: int, demand: Resources | None, *, in_s: float = 1200.0) -> Notice:
    return Notice(
        notice_id="N1",
        user="anna",
        node_count=node_count,
        walltime_s=3600.0,
        announced_s=NOW_S,
        expected_s=NOW_S + in_s,
        demand=demand,
    )


def test_nodes_with_room_are_held_for_an_announced_job() -> None:
    """a's node has room for it, b's has not: CUA then waits on it too, until another node has room."""
    jobs = (part("a", "n0", amounts(3)), part("b", "n1", amounts(6)))
    cluster = shared(*jobs, notices=(announced(1, amounts(4)),))
    assert the_hold(CUA_SPAA.decide(cluster, HybridConfig())).nodes == ("n0",)
    two = shared(*jobs, notices=(announced(2, amounts(4)),))
    assert the_hold(CUA_SPAA.decide(two, HybridConfig())).nodes == ("n0", "n1")
    whole = shared(*jobs, notices=(announced(1, None),))
    assert the_hold(CUA_SPAA.decide(whole, HybridConfig())).nodes == ("n0", "n1")


def held_for_n1(*nodes: str, demand: Resources) -> Operation:
    found = operation("N1", " ".join(nodes))
    return replace(found, kind=OperationKind.NOTICE, notice=announced(1, demand))


def test_a_hold_with_room_enough_is_left_as_it_is() -> None:
    demand = amounts(4)
    cluster = shared(
        part("a", "n0", amounts(3)),
        part("b", "n1", amounts(6)),
        notices=(announced(1, demand),),
        operations=(held_for_n1("n0", demand=demand),),
        reservations=(Reservation(name="mw_N1", nodes=("n0",), start_s=0.0, end_s=NOW_S + 9000.0),),
    )
    assert CUA_SPAA.decide(cluster, HybridConfig()).actions == ()
    more = replace(cluster, jobs=(part("a", "n0", amounts(5)), cluster.jobs[1]))
    assert the_hold(CUA_SPAA.decide(more, HybridConfig())).nodes == ("n0", "n1")


def test_before_the_arrival_only_as_much_leaves_as_is_needed() -> None:
    """b ends in time and frees two CPUs; c alone frees the other two that are needed, d costs more."""
    cluster = shared(
        part("b", "n0", amounts(2), walltime_s=1500.0),
        part("c", "n0", amounts(2), start_s=NOW_S - 300.0),
        part("d", "n0", amounts(4), start_s=NOW_S - 400.0),
        notices=(announced(1, amounts(4), in_s=60.0),),
        node_count=1,
    )
    later = replace(cluster, notices=(announced(1, amounts(4), in_s=600.0),))
    early = CUP_PAA.decide(cluster, HybridConfig())
    assert victims(early) == [("d", Method.KILL)], "b does not end in time: d alone frees four CPUs"
    waits = CUP_PAA.decide(later, HybridConfig())
    assert victims(waits) == []
    assert waits.again_s == NOW_S + 480.0
    due = replace(later, now_s=NOW_S + 480.0, operations=(held_for_n1("n0", demand=amounts(4)),))
    held = Reservation(name="mw_N1", nodes=("n0",), start_s=0.0, end_s=NOW_S + 9000.0)
    assert victims(CUP_PAA.decide(replace(due, reservations=(held,)), HybridConfig())) == [("c", Method.KILL)]
