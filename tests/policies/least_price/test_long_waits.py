"""Starts that wait for jobs to end: what stands idle meanwhile has a price, nodes are not held long before,
and a hold that serves no more is released.
"""

from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.common.departures import OVERDUE_S
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    Method,
    Node,
    NodeState,
    OperationKind,
    Progress,
    Release,
    Requeue,
    Reservation,
    Reserve,
)
from tests.policies.arriving import NOW_S, Build, BuildCluster, victims
from tests.policies.common.operations import operation

HOUR_S = 3600.0
WITHIN_S = 4 * HOUR_S


def decide(cluster: Cluster, **settings: Any) -> Decision:
    return LEAST_PRICE.decide(cluster, LeastPriceConfig(instant_machine_hours=0.0, **settings))


def verbs(decision: Decision, job_id: str = "u") -> list[str]:
    return [action.verb for action in decision.actions if action.for_job_id == job_id]


def ending(job: Job, left_s: float) -> Job:
    assert job.start_s is not None
    return replace(job, walltime_s=NOW_S - job.start_s + left_s)


@pytest.fixture
def far(running: Build, waiting: Build, cluster_of: BuildCluster) -> Cluster:
    """Three nodes are free. A job that may not be evicted ends in three hours on the fourth."""
    stays = ending(running("p", "n3", preemptible=False), 3 * HOUR_S)
    return cluster_of(4, stays, waiting("u", 4, start_within_s=WITHIN_S))


def test_nodes_are_not_held_long_before_the_start(far: Cluster) -> None:
    decision = decide(far)
    assert verbs(decision) == ["prioritise"]
    assert decision.again_s == NOW_S + 2 * HOUR_S
    (why,) = decision.rationale
    assert why.summary.endswith("No job leaves for 14310 s. The nodes are held in 7200 s.")
    assert verbs(decide(replace(far, now_s=NOW_S + 2 * HOUR_S))) == ["reserve"]
    assert verbs(decide(far, hold_ahead_s=3 * HOUR_S)) == ["reserve"]


def test_the_components_of_a_heterogeneous_job_are_held_together(far: Cluster) -> None:
    jobs = tuple(replace(job, het_job_id="u") if job.job_id == "u" else job for job in far.jobs)
    assert verbs(decide(replace(far, jobs=jobs))) == ["reserve"]


@pytest.mark.parametrize(("walltime_s", "served"), [(14_310.0, True), (14_311.0, False)])
def test_meanwhile_the_nodes_serve_urgent_jobs_that_end_before_the_last_moment(
    far: Cluster, waiting: Build, walltime_s: float, served: bool
) -> None:
    second = waiting("v", 1, submit_s=NOW_S + 1.0, walltime_s=walltime_s, start_within_s=WITHIN_S)
    decision = decide(replace(far, jobs=(*far.jobs, second)))
    assert verbs(decision) == ["prioritise"]
    assert verbs(decision, "v") == (["reserve"] if served else ["prioritise"])


@pytest.mark.parametrize(("ran_s", "waits"), [(1700.0, False), (1900.0, True)])
def test_nodes_that_stand_idle_meanwhile_have_a_price(
    running: Build, waiting: Build, cluster_of: BuildCluster, ran_s: float, waits: bool
) -> None:
    """Six nodes are idle for 300 s each."""
    last = ending(running("a", "n6", start_s=NOW_S - ran_s), 300.0)
    decision = decide(cluster_of(7, last, waiting("u", 7)))
    assert victims(decision) == ([] if waits else [("a", Method.KILL)])


def test_those_that_end_soon_are_left_to_end_and_the_others_are_not(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """`b` would keep three nodes idle for an hour; its kill loses half an hour."""
    soon = ending(running("a", "n0 n1 n2", start_s=NOW_S - 9000.0), 300.0)
    long = ending(running("b", "n3", start_s=NOW_S - 1800.0), 3 * HOUR_S)
    cluster = cluster_of(4, soon, long, waiting("u", 4, start_within_s=WITHIN_S))
    decision = decide(cluster)
    assert verbs(decision) == ["reserve"]
    ended = replace(cluster, jobs=cluster.jobs[1:], now_s=NOW_S + 300.0)
    assert victims(decide(ended)) == [("b", Method.KILL)]


def held(cluster: Cluster, *evicted: str, progress: Progress = Progress.PLANNED) -> Cluster:
    """The cluster with the hold of `u` on all of its nodes."""
    names = [node.name for node in cluster.nodes]
    one = replace(operation("u", " ".join(names), *evicted, progress=progress), deadline_s=NOW_S + WITHIN_S)
    own = Reservation(name="mw_u", nodes=tuple(names), start_s=NOW_S - 100.0, end_s=NOW_S + 2 * WITHIN_S)
    return replace(cluster, operations=(one,), reservations=(own,))


def test_a_hold_that_its_decision_has_no_use_for_is_released(far: Cluster) -> None:
    """The time limit of the last job was extended."""
    stays, urgent = far.jobs
    longer = replace(far, jobs=(ending(stays, 5 * HOUR_S), urgent))
    decision = decide(held(longer))
    assert verbs(decision) == ["prioritise", "release"]
    assert isinstance(release := decision.actions[1], Release)
    assert release.reservation == "mw_u"
    assert verbs(decide(held(longer, "gone", progress=Progress.DROPPED))) == ["prioritise", "release"]


def test_a_hold_that_is_made_too_early_is_released_too(far: Cluster) -> None:
    assert verbs(decide(held(far))) == ["prioritise", "release"]
    assert verbs(decide(held(replace(far, now_s=NOW_S + 2 * HOUR_S)))) == []


@pytest.mark.parametrize("progress", [Progress.PLANNED, Progress.ACCEPTED])
def test_a_hold_that_jobs_have_been_asked_to_leave_is_kept(far: Cluster, progress: Progress) -> None:
    stays, urgent = far.jobs
    longer = replace(far, jobs=(ending(stays, 5 * HOUR_S), urgent))
    assert verbs(decide(held(longer, "gone", progress=progress))) == ["prioritise"]


@pytest.mark.parametrize(("left_s", "kept"), [(OVERDUE_S, True), (OVERDUE_S + 1.0, False)])
def test_a_hold_is_kept_whose_last_job_is_about_to_end(far: Cluster, left_s: float, kept: bool) -> None:
    """The deadline is over, and no job leaves any more."""
    now_s = NOW_S + WITHIN_S + 1.0
    stays, urgent = far.jobs
    late = replace(held(far), now_s=now_s, jobs=(ending(stays, now_s - NOW_S + left_s), urgent))
    assert verbs(decide(late)) == (["prioritise"] if kept else ["prioritise", "release"])


def test_a_hold_with_a_node_that_is_down_is_left_to_the_operation(far: Cluster) -> None:
    nodes: tuple[Node, ...] = (replace(far.nodes[0], state=NodeState.DOWN), *far.nodes[1:])
    assert verbs(decide(held(replace(far, nodes=nodes)))) == []


def test_on_shared_nodes_the_same_holds_are_released(far: Cluster) -> None:
    stays, urgent = far.jobs
    cluster = held(replace(far, jobs=(ending(stays, 5 * HOUR_S), urgent)))
    one = replace(cluster.operations[0], kind=OperationKind.MAKE_WAY_SHARED)
    assert verbs(decide(replace(cluster, operations=(one,)))) == ["prioritise", "release"]


def test_a_start_at_the_end_of_its_hold_keeps_it(far: Cluster) -> None:
    """Nothing is made again in each cycle."""
    for after_s in (2 * HOUR_S, 2.5 * HOUR_S, 3 * HOUR_S, 3 * HOUR_S + OVERDUE_S - 1.0):
        decision = decide(held(replace(far, now_s=NOW_S + after_s)))
        assert not any(isinstance(action, Reserve | Release) for action in decision.actions), after_s


@pytest.fixture
def leaving(running: Build, waiting: Build, cluster_of: BuildCluster) -> Cluster:
    """`b` leaves two nodes for `v`, which needs one of them, and `a` ends soon: `u` gets the other two."""
    jobs = running("b", "n0 n1"), ending(running("a", "n2"), 300.0)
    urgents = waiting("v", 1, submit_s=NOW_S - 50.0), waiting("u", 2)
    making = operation("v", "n0", "b", progress=Progress.ACCEPTED)
    hold = Reservation(name="mw_v", nodes=("n0",), start_s=NOW_S - 50.0, end_s=NOW_S + WITHIN_S)
    return replace(cluster_of(3, *jobs, *urgents), operations=(making,), reservations=(hold,))


def test_a_hold_of_a_node_that_a_job_leaves_for_another_one_is_kept(leaving: Cluster) -> None:
    """The time limit of `b` ends in five hours, which is not when the node is free."""
    first = decide(leaving)
    (made,) = first.actions
    assert isinstance(made, Reserve)
    assert set(made.nodes) == {"n1", "n2"}
    own = replace(operation("u", " ".join(made.nodes)), deadline_s=NOW_S + 600.0)
    hold = Reservation(name="mw_u", nodes=made.nodes, start_s=NOW_S, end_s=NOW_S + WITHIN_S)
    second = decide(
        replace(
            leaving,
            operations=(*leaving.operations, own),
            reservations=(*leaving.reservations, hold),
        )
    )
    assert second.actions == ()
    assert second.again_s == first.again_s
    assert [why.summary for why in second.rationale] == [why.summary for why in first.rationale]


def test_a_start_is_not_at_once_if_a_held_node_comes_free_later(
    leaving: Cluster, running: Build, waiting: Build
) -> None:
    """A kill of `c` would be cheap, but `b` still saves its work: there is time for the checkpoint of `c`."""
    (making,) = leaving.operations
    (task,) = making.tasks
    assert isinstance(task.action, Requeue)
    slow = replace(making, tasks=(replace(task, action=replace(task.action, not_after_s=NOW_S + 400.0)),))
    saves = running("c", "n2", checkpoint=CheckpointSpec(system_s=200.0))
    batch, v = leaving.jobs_by_id()["b"], leaving.jobs_by_id()["v"]
    own = replace(operation("u", "n1 n2"), deadline_s=NOW_S + 600.0)
    hold = Reservation(name="mw_u", nodes=own.nodes, start_s=NOW_S, end_s=NOW_S + WITHIN_S)
    cluster = replace(
        leaving,
        jobs=(batch, saves, v, waiting("u", 2)),
        operations=(slow, own),
        reservations=(*leaving.reservations, hold),
    )
    assert victims(LEAST_PRICE.decide(cluster, LeastPriceConfig())) == [("c", Method.SYSTEM)]
    cheap = LeastPriceConfig(instant_machine_hours=1.0)
    assert victims(LEAST_PRICE.decide(cluster, cheap)) == [("c", Method.SYSTEM)]
    at_once = replace(cluster, operations=(making, own))
    assert victims(LEAST_PRICE.decide(at_once, cheap)) == [("c", Method.KILL)]
