"""Policy "eviction" where jobs share nodes: urgent jobs that wait for the room which another one leaves."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.common.shared_nodes import open_leftovers
from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    JobState,
    Method,
    Node,
    Operation,
    OperationKind,
    Phase,
    Prioritise,
    Progress,
    Rationale,
    Reservation,
    Resources,
)
from tests.policies.arriving import NOW_S, Build, decide, prioritise, victims
from tests.policies.common.operations import operation
from tests.policies.sharing import NODE, amounts, part, shared

WITHIN_S = 600.0
HANDOVER_S = 90.0
"""The margin of 30 s and the 60 s of a kill."""
ROOM_COMES = "Room comes on n0 when job u has started; no job has to leave."


def full(*more: Job, nodes: int = 2, **changes: Any) -> Cluster:
    """Each node has one job; `a`, on n0, has the least to lose."""
    jobs = (part("abcdefgh"[index], f"n{index}", amounts(8, gpu=4)) for index in range(nodes))
    older = (replace(job, start_s=NOW_S - 1000.0 - 100.0 * index) for index, job in enumerate(jobs))
    return shared(*older, *more, node_count=nodes, **changes)


def why(decision: Decision, job_id: str) -> Rationale:
    return next(one for one in decision.rationale if one.for_job_id == job_id)


def at_once(cluster: Cluster) -> Decision:
    return decide(cluster, kills="at_once")


def opened(
    *victims: str, progress: Progress = Progress.ACCEPTED, nodes: str = "n0", **changes: Any
) -> Operation:
    """The operation of u, which was opened now."""
    found = operation("u", nodes, *victims, progress=progress)
    deadline_s = NOW_S + WITHIN_S
    return replace(
        found, kind=OperationKind.MAKE_WAY_SHARED, opened_s=NOW_S, deadline_s=deadline_s, **changes
    )


def under_way(*more: Job, after_s: float, urgent: Job, operation: Operation) -> Cluster:
    """The hold of u is there."""
    own = Reservation(name="mw_u", nodes=("n0",), start_s=NOW_S, end_s=NOW_S + 9000.0)
    return full(urgent, *more, now_s=NOW_S + after_s, reservations=(own,), operations=(operation,))


@pytest.fixture
def u(waiting: Build) -> Job:
    return waiting("u", 1, demand=amounts(2, gpu=1))


@pytest.fixture
def v(waiting: Build) -> Job:
    return waiting("v", 1, demand=amounts(2, gpu=1))


def test_the_next_job_waits_in_front_for_what_the_first_one_leaves(u: Job, v: Job) -> None:
    decision = at_once(full(u, v))
    assert victims(decision) == [("a", Method.KILL)]
    assert decision.actions[-1] == prioritise("v")
    assert why(decision, "v").summary == ROOM_COMES
    assert decision.again_s == why(decision, "v").ready_s == NOW_S + HANDOVER_S


def test_it_goes_to_the_front_once(u: Job, v: Job) -> None:
    decision = at_once(full(u, replace(v, prioritised=True)))
    assert not any(isinstance(action, Prioritise) for action in decision.actions)
    assert why(decision, "v").summary == ROOM_COMES


def test_a_third_job_sees_only_the_rest(u: Job, v: Job, waiting: Build) -> None:
    third = waiting("w", 1, demand=amounts(1, gpu=3))
    assert sorted(victims(at_once(full(u, v, third)))) == [("a", Method.KILL), ("b", Method.KILL)]
    assert victims(at_once(full(u, v, replace(third, demand=amounts(1, gpu=2))))) == [("a", Method.KILL)]


def test_room_that_is_free_now_is_waited_for_too(u: Job, v: Job) -> None:
    """One job of four GPUs less, and the cluster has not started the urgent jobs yet."""
    cluster = full(u, v)
    decision = at_once(replace(cluster, jobs=cluster.jobs[1:]))
    assert victims(decision) == []
    assert why(decision, "v").summary == ROOM_COMES


def test_the_kill_that_others_wait_for_comes_sooner(u: Job, v: Job) -> None:
    """They have to be able to make jobs leave for themselves if u does not start."""
    alone, together = decide(full(u)), decide(full(u, v))
    assert (alone.again_s, together.again_s) == (NOW_S + 510.0, NOW_S + 420.0)
    assert why(together, "v").ready_s == NOW_S + 510.0
    larger = replace(v, demand=amounts(2, gpu=4))
    assert decide(full(u, larger)).again_s == NOW_S + 510.0, "nothing is left for it"
    longer = replace(v, start_within_s=WITHIN_S + 30.0)
    assert decide(full(u, longer)).again_s == NOW_S + 450.0
    urgent = replace(v, start_within_s=400.0)
    assert decide(full(u, urgent)).again_s == NOW_S + 310.0, "v cannot wait for u"


def test_work_that_is_saved_serves_several_jobs(u: Job, v: Job) -> None:
    cluster = full(u, v)
    saves = tuple(
        job if job.demand else replace(job, checkpoint=CheckpointSpec(system_s=60.0)) for job in cluster.jobs
    )
    decision = decide(replace(cluster, jobs=saves))
    assert victims(decision) == [("a", Method.SYSTEM)]
    assert why(decision, "v").ready_s == NOW_S + 60.0 + HANDOVER_S


def test_room_that_comes_too_late_is_not_waited_for(u: Job, v: Job) -> None:
    for within_s, waits in ((HANDOVER_S + 1.0, True), (HANDOVER_S - 1.0, False)):
        # Of two with one deadline the first is served first.
        decision = at_once(full(replace(u, start_within_s=within_s), replace(v, start_within_s=within_s)))
        assert (why(decision, "v").summary == ROOM_COMES) is waits


def test_late_jobs_share_the_room_too(u: Job, v: Job) -> None:
    cluster = replace(full(u, v), now_s=NOW_S + WITHIN_S + 10.0)
    decision = decide(cluster, kills="at_once", late="evict")
    assert victims(decision) == [("a", Method.KILL)]
    assert why(decision, "v").summary == ROOM_COMES


@pytest.mark.parametrize(
    "changes",
    [
        {"demand": None},
        {"eligible_nodes": frozenset({"n1"})},
        {"demand": amounts(7, gpu=1)},
        {"demand": amounts(1, mem=15_500)},
    ],
)
def test_room_that_does_not_serve_it_is_not_waited_for(u: Job, v: Job, changes: dict[str, Any]) -> None:
    decision = at_once(full(u, replace(v, **changes)))
    assert ("b", Method.KILL) in victims(decision)


def test_a_node_that_the_site_reserves_meanwhile_is_not_waited_for(u: Job, v: Job) -> None:
    starts_s = NOW_S + 4000.0
    upkeep = Reservation(name="upkeep", nodes=("n0",), start_s=starts_s, end_s=starts_s + 10.0)
    long = replace(v, walltime_s=5000.0)
    assert len(victims(at_once(full(u, v, reservations=(upkeep,))))) == 1
    assert len(victims(at_once(full(u, long, reservations=(upkeep,))))) == 2


def test_gpus_of_a_type_are_left_only_if_the_first_job_cannot_get_them(waiting: Build) -> None:
    has = Resources.with_totals({"cpu": 8, "gres/gpu:a": 2, "gres/gpu:b": 2})
    any_gpu = waiting("u", 1, demand=Resources.of({"gres/gpu": 1}))
    both = waiting("v", 1, demand=Resources.with_totals({"gres/gpu:a": 2}))
    cluster = shared(part("a", "n0", has), part("b", "n1", has, start_s=NOW_S - 2000.0), any_gpu, both)
    cluster = replace(cluster, nodes=tuple(replace(node, capacity=has) for node in cluster.nodes))
    assert len(victims(at_once(cluster))) == 2
    of_other_type = replace(any_gpu, demand=Resources.with_totals({"gres/gpu:b": 1}))
    assert len(victims(at_once(replace(cluster, jobs=(*cluster.jobs[:2], of_other_type, both))))) == 1


def test_parts_of_gpus_are_not_left_to_others(waiting: Build) -> None:
    """Which GPU the first job gets is not known."""
    has = Resources.of({"cpu": 8, "gres/shard#0/4": 4, "gres/shard#1/4": 4})
    needs = Resources.of({"cpu": 1, "gres/shard": 2})
    urgent = (waiting("u", 1, demand=needs), waiting("v", 1, demand=needs))
    cluster = shared(*(part(name, f"n{index}", has) for index, name in enumerate("ab")), *urgent)
    cluster = replace(cluster, nodes=tuple(Node(name=node.name, capacity=has) for node in cluster.nodes))
    assert len(victims(at_once(cluster))) == 2


def test_an_open_operation_leaves_room(u: Job, v: Job) -> None:
    bound = replace(u, reservation="mw_u")
    for after_s, waits in ((0.0, True), (89.0, True), (90.0, False)):
        cluster = under_way(v, after_s=after_s, urgent=bound, operation=opened("a"))
        decision = at_once(cluster)
        assert (victims(decision) == []) is waits, "n1 is left for v if u does not start in time"
    too_large = replace(v, demand=amounts(2, gpu=4))
    assert victims(at_once(under_way(too_large, after_s=0.0, urgent=bound, operation=opened("a"))))


def test_at_its_own_last_moment_it_waits_for_no_job_to_leave(u: Job, v: Job) -> None:
    bound, late = replace(u, reservation="mw_u"), replace(v, start_within_s=120.0)
    for after_s, waits in ((29.0, True), (30.0, False)):
        cluster = under_way(late, after_s=after_s, urgent=bound, operation=opened("a"))
        assert (victims(at_once(cluster)) == []) is waits


def test_a_victim_that_stays_leaves_no_room(u: Job, v: Job) -> None:
    refused = opened("a", progress=Progress.REFUSED)
    tasks = tuple(replace(task, ended_s=NOW_S) for task in refused.tasks)
    bound = replace(u, reservation="mw_u", start_within_s=10 * WITHIN_S)
    cluster = under_way(v, after_s=0.0, urgent=bound, operation=replace(refused, tasks=tasks))
    assert ("b", Method.KILL) in victims(at_once(cluster))


def test_the_rest_of_the_node_of_a_job_that_runs_is_waited_for_until_its_hold_ends(u: Job, v: Job) -> None:
    runs = replace(
        u, state=JobState.RUNNING, nodes=("n0",), allocation=(u.demand or NODE,), start_s=NOW_S + 40.0
    )
    returning = opened(phase=Phase.RETURNING, started_s=NOW_S + 40.0, ended_s=NOW_S + 50.0)
    cluster = under_way(v, after_s=50.0, urgent=runs, operation=returning)
    cluster = replace(cluster, jobs=cluster.jobs[1:])
    assert why(at_once(cluster), "v").summary == ROOM_COMES
    assert victims(at_once(replace(cluster, now_s=NOW_S + 50.0 + HANDOVER_S))) == [("b", Method.KILL)]
    free = at_once(replace(cluster, reservations=()))
    assert [action.verb for action in free.actions] == ["reserve"], "it is there now"


def test_in_observe_mode_what_is_only_observed_counts_as_done(u: Job, v: Job) -> None:
    cluster = under_way(v, after_s=500.0, urgent=u, operation=opened("a", observe=True))
    assert why(at_once(replace(cluster, reservations=())), "v").summary == ROOM_COMES


def test_components_of_a_heterogeneous_job_have_holds_of_their_own(u: Job, v: Job) -> None:
    both = (replace(u, het_job_id="u"), replace(v, het_job_id="u"))
    assert len(victims(at_once(full(*both)))) == 2


def test_several_nodes_are_waited_for_together(u: Job, waiting: Build) -> None:
    """Two jobs on one node each, and one that needs both nodes."""
    first, second = u, replace(u, job_id="v", demand=amounts(2, gpu=3))
    both = waiting("w", 2, demand=amounts(1, gpu=1))
    cluster = full(first, replace(second, demand=amounts(7, gpu=1)), both)
    decision = at_once(cluster)
    assert sorted(victims(decision)) == [("a", Method.KILL), ("b", Method.KILL)]
    text = "Room comes on n0, n1 when jobs u, v have started; no job has to leave."
    assert why(decision, "w").summary == text


def test_what_a_job_that_completes_there_has_is_left_too(u: Job) -> None:
    """The urgent job gets what one job leaves, and others may have what the other one leaves."""
    half = amounts(4, gpu=2)
    ends = part("b", "n0", half, state=JobState.COMPLETING, completing_since_s=NOW_S)
    cluster = shared(part("a", "n0", half), ends, replace(u, demand=half), operations=(opened("a"),))
    assert open_leftovers(cluster)["n0"].room == NODE.minus(half)
