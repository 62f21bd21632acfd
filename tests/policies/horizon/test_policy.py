"""Policy "horizon": when a plan is due, its problem, and which jobs get which queue positions."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.horizon.plan import AcceptanceCurve, Reading, Taken
from makeway.policies.horizon.policy import (
    HORIZON,
    STEP,
    HorizonConfig,
    decide,
    is_due,
    make,
    problem_of,
    queue_positions,
)
from makeway.policies.model import (
    QUEUE_POSITIONS,
    Cluster,
    Job,
    JobKind,
    JobState,
    Limits,
    Node,
    NodeState,
    Plan,
    Prioritise,
    Reason,
    Reservation,
)
from makeway.policies.queue.order import queue_key
from makeway.policies.safety.protection import Refusal

NOW_S = 10_000.0
HOUR_S = 3600.0


def waiting(job_id: str, node_count: int = 1, *, hours: float = 1.0, waited_s: float = 0.0) -> Job:
    return Job(
        job_id=job_id,
        kind=JobKind.RIGID,
        state=JobState.PENDING,
        node_count=node_count,
        walltime_s=hours * HOUR_S,
        submit_s=NOW_S - waited_s,
        user="alice",
        preemptible=True,
    )


def runs(job_id: str, *nodes: str, left_s: float) -> Job:
    return replace(
        waiting(job_id, len(nodes)),
        state=JobState.RUNNING,
        nodes=nodes,
        start_s=NOW_S + left_s - HOUR_S,
    )


def machine(*jobs: Job, node_count: int = 4, plan: Plan | None = None) -> Cluster:
    nodes = tuple(Node(name=f"n{number}") for number in range(node_count))
    return Cluster(now_s=NOW_S, nodes=nodes, jobs=jobs, plan=plan)


def plan_of(*order: str) -> Plan:
    starts_s = tuple(NOW_S + 60.0 * number for number in range(len(order)))
    return Plan(made_s=NOW_S, order=order, starts_s=starts_s, value=5.0, easy_value=9.0, bound=4.0)


def moves(cluster: Cluster, config: HorizonConfig | None = None) -> dict[str, int | None]:
    """Which job gets which queue position."""
    found = {}
    for action in decide(cluster, config or HorizonConfig()).actions:
        assert isinstance(action, Prioritise)
        assert action.reason is Reason.PLANNED
        found[action.job_id] = action.queue_position
    return found


QUEUE = (waiting("a", waited_s=30.0), waiting("b", waited_s=20.0), waiting("c", waited_s=10.0))


def test_without_a_plan_nothing_is_done() -> None:
    assert decide(machine(*QUEUE), HorizonConfig()).actions == ()


def test_only_those_that_have_to_move_get_a_place() -> None:
    assert moves(machine(*QUEUE, plan=plan_of("a", "b", "c"))) == {}
    assert moves(machine(*QUEUE, plan=plan_of("b", "a", "c"))) == {"b": STEP}
    assert moves(machine(*QUEUE, plan=plan_of("c", "a", "b"))) == {"c": STEP}
    assert moves(machine(*QUEUE, plan=plan_of("a", "c", "b"))) == {"a": STEP, "c": 2 * STEP}


def test_a_job_keeps_its_position_and_one_that_is_gone_is_left_out() -> None:
    placed = replace(QUEUE[2], queue_position=STEP, priority=9.0)
    assert moves(machine(QUEUE[0], QUEUE[1], placed, plan=plan_of("gone", "c", "b", "a"))) == {"b": 2 * STEP}


def test_a_newcomer_ahead_of_planned_jobs_is_passed() -> None:
    newcomer = replace(waiting("new"), priority=5.0)
    assert moves(machine(newcomer, *QUEUE, plan=plan_of("a", "b", "c"))) == {
        "a": STEP,
        "b": 2 * STEP,
        "c": 3 * STEP,
    }


def test_so_many_moves_a_cycle_the_first_ones_first() -> None:
    config = HorizonConfig(moves_per_cycle=1)
    plan = plan_of("c", "b", "a")
    assert moves(machine(*QUEUE, plan=plan), config) == {"c": STEP}
    placed = replace(QUEUE[2], queue_position=STEP, priority=9.0)
    assert moves(machine(*QUEUE[:2], placed, plan=plan), config) == {"b": 2 * STEP}


def test_no_job_behind_one_that_may_not_be_touched_is_moved() -> None:
    foreign = replace(QUEUE[1], preemptible=False)
    plan = plan_of("c", "b", "a")
    assert moves(machine(QUEUE[0], foreign, QUEUE[2], plan=plan)) == {}
    assert not is_due(machine(QUEUE[0], foreign, QUEUE[2]), HorizonConfig())
    protected = replace(
        machine(*QUEUE, plan=plan_of("b", "a", "c")), limits=Limits(protected_users=frozenset({"alice"}))
    )
    assert moves(protected) == {}


def test_a_horizon_begins_when_no_job_of_the_last_plan_waits() -> None:
    config = HorizonConfig()
    assert is_due(machine(*QUEUE), config)
    assert not is_due(machine(QUEUE[0]), config), "one job has no order"
    assert not is_due(machine(*QUEUE, plan=plan_of("x", "c")), config)
    assert is_due(machine(*QUEUE, plan=plan_of("x", "y")), config)


def test_a_horizon_does_not_wait_for_a_job_that_no_node_serves() -> None:
    stuck = replace(waiting("stuck", 2, waited_s=99.0), eligible_nodes=frozenset({"n1", "gone"}))
    assert is_due(machine(stuck, *QUEUE, plan=plan_of("x", "stuck")), HorizonConfig())
    served = replace(stuck, eligible_nodes=frozenset({"n1", "n2"}))
    assert not is_due(machine(served, *QUEUE, plan=plan_of("x", "stuck")), HorizonConfig())


def test_the_problem_is_what_the_snapshot_shows() -> None:
    cluster = replace(
        machine(
            runs("r", "n0", "n1", left_s=600.0),
            waiting("a", 2, waited_s=100.0),
            waiting("wide", 4),
            replace(waiting("later"), eligible_s=NOW_S + 5.0),
        ),
        reservations=(
            Reservation(name="maintenance", nodes=("n2",), start_s=NOW_S - 1.0, end_s=NOW_S + 50.5),
        ),
    )
    down = replace(
        cluster,
        nodes=tuple(
            replace(node, state=NodeState.DOWN) if node.name == "n1" else node for node in cluster.nodes
        ),
    )
    problem = problem_of(cluster, HorizonConfig(curve=AcceptanceCurve.MEDIAN))
    assert [(job.job_id, job.node_count, job.length_s) for job in problem.jobs] == [
        ("a", 2, 3600),
        ("wide", 4, 3600),
    ]
    assert problem.jobs[0].due_s == int(1.70 * 3600 + 29.51 * 60) - 100
    assert problem.taken == (Taken(node_count=1, until_s=51), Taken(node_count=2, until_s=600))
    fewer = problem_of(down, HorizonConfig(reading=Reading.PRINTED))
    assert (fewer.node_count, [job.job_id for job in fewer.jobs]) == (3, ["a"]), (
        "wide is larger than the machine"
    )
    assert fewer.taken == (Taken(node_count=1, until_s=51), Taken(node_count=1, until_s=600))
    assert fewer.jobs[0].due_s == int(0.70 * 3600 + 29.51 * 60) - 100


def test_a_plan_lets_a_short_job_pass_that_would_be_late() -> None:
    long, short = waiting("long", 4, hours=20.0, waited_s=60.0), waiting("short", 4, hours=0.5)
    plan = make(machine(long, short), HorizonConfig())
    assert plan.order == ("short", "long")
    assert plan.starts_s == (NOW_S, NOW_S + 0.5 * HOUR_S)
    assert plan.value == plan.bound < plan.easy_value
    assert moves(machine(long, short, plan=plan)) == {"short": STEP}


def test_the_rationale_has_the_position_and_the_value() -> None:
    decision = HORIZON.decide(machine(*QUEUE, plan=plan_of("b", "a", "c")), HorizonConfig())
    assert decision.rationale[0].for_job_id == "b"
    assert decision.rationale[0].summary == (
        "Number 1 of the 3 jobs planned at 10000 s, to start by 10000 s. "
        "The plan's value is 5 (EASY 9, lower bound 4)."
    )


@settings(deadline=None, max_examples=300)
@given(
    count=st.integers(1, 9),
    seed=st.integers(0, 10**6),
    places=st.lists(st.none() | st.integers(1, 12) | st.just(QUEUE_POSITIONS), min_size=9, max_size=9),
    newcomers=st.integers(0, 2),
)
def test_with_its_positions_the_queue_is_in_the_order_of_the_plan(
    count: int, seed: int, places: list[int | None], newcomers: int
) -> None:
    jobs = [
        replace(
            waiting(str(index), waited_s=100.0 - index),
            queue_position=place,
            priority=0.0 if place is None else 1e9 - place,
        )
        for index, place in zip(range(count), places, strict=False)
    ]
    order = list(jobs)
    Random(seed).shuffle(order)
    others = [replace(waiting(f"new{index}"), priority=float(index)) for index in range(newcomers)]
    found = queue_positions(order, others)
    assert all(1 <= place <= QUEUE_POSITIONS for place in found.values())
    after = [
        replace(job, priority=1e9 - found[job.job_id]) if job.job_id in found else job
        for job in [*order, *others]
    ]
    ranked = [job.job_id for job in sorted(after, key=queue_key)]
    assert ranked[:count] == [job.job_id for job in order]
    assert queue_positions(order, others) == found


@pytest.mark.parametrize(
    ("changed", "refusal"),
    [
        ({}, None),
        ({"preemptible": False}, Refusal.NOT_PREEMPTIBLE),
        ({"kind": JobKind.ON_DEMAND}, Refusal.URGENT),
        ({"state": JobState.RUNNING}, Refusal.NOT_WAITING),
        ({"job_id": "other"}, Refusal.NOT_WAITING),
    ],
)
def test_the_arbiter_lets_waiting_jobs_alone_be_moved_that_are_opted_in(
    changed: dict[str, Any], refusal: Refusal | None
) -> None:
    move = Prioritise(
        job_id="a", for_job_id="a", policy="horizon", reason=Reason.PLANNED, queue_position=STEP
    )
    cluster = machine(replace(waiting("a"), **changed))
    (verdict,) = arbitrate((move,), cluster)
    assert verdict.refusal is refusal
    assert verdict.detail == ("" if refusal is None else "job a")
    front = replace(move, queue_position=None)
    assert arbitrate((front,), cluster)[0].allowed, "what is given back is not judged"
    tripped = replace(
        cluster,
        limits=Limits(breaker_failures=2, breaker_window_s=60.0),
        failures_s=(NOW_S - 2.0, NOW_S - 1.0),
    )
    assert arbitrate((move,), tripped)[0].refusal is Refusal.BREAKER
    assert arbitrate((front,), tripped)[0].allowed


def test_the_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="one must be above 0"):
        HorizonConfig(tardiness_weight=0)
    with pytest.raises(ValueError, match="moves_per_cycle is 0"):
        HorizonConfig(moves_per_cycle=0)
    with pytest.raises(ValueError, match="time_limit_s is -1"):
        HorizonConfig(time_limit_s=-1.0)
