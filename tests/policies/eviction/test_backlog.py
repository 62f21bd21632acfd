"""Plans next to checkpoints for other urgent jobs: they share the file system, and none makes others late."""

import math
from dataclasses import replace

import pytest

from makeway.policies.common.departures import Backlog, backlog, pending_checkpoints, pending_of
from makeway.policies.model import (
    Action,
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Decision,
    Method,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Reason,
    Requeue,
    Task,
)
from tests.policies.arriving import NOW_S, Build, BuildCluster, decide, hold, requeue, victims

SAVES = CheckpointSpec(system_s=300.0, grace_s=300.0)


def signal(job_id: str, *, saved_by_s: float | None, not_before_s: float | None = None) -> Checkpoint:
    return Checkpoint(
        job_id=job_id,
        for_job_id="u",
        policy="eviction",
        reason=Reason.URGENT_ARRIVAL,
        signal="USR1",
        grace_s=570.0,
        walltime_s=20_000.0,
        saved_by_s=saved_by_s,
        not_before_s=not_before_s,
    )


def operation(
    *actions: Action, issued_s: float | None = NOW_S - 60.0, phase: Phase = Phase.MAKING_ROOM
) -> Operation:
    """For u, whose victims were decided on a minute ago."""
    tasks = tuple(
        Task(
            action=action,
            progress=Progress.PLANNED
            if isinstance(action, Requeue) or issued_s is None
            else Progress.ACCEPTED,
            issued_s=None if isinstance(action, Requeue) else issued_s,
        )
        for action in actions
    )
    return Operation(
        operation_id="u@1",
        kind=OperationKind.MAKE_WAY,
        for_job_id="u",
        policy="eviction",
        reservation="mw_u",
        nodes=("n0",),
        opened_s=NOW_S - 60.0,
        deadline_s=NOW_S + 540.0,
        give_up_s=NOW_S + 1140.0,
        phase=phase,
        tasks=tasks,
    )


def left(cluster: Cluster) -> Backlog:
    return backlog(pending_checkpoints(cluster).values(), cluster.now_s)


def test_nothing_is_written_for_no_job(cluster_of: BuildCluster, running: Build) -> None:
    assert left(cluster_of(2, running("a", "n0", checkpoint=SAVES))) == Backlog()


def test_a_regular_checkpoint_that_has_begun_takes_no_longer_than_is_left(
    cluster_of: BuildCluster, running: Build
) -> None:
    """From 10,000 s on it works for 600 s and writes for 300 s; 100 s of these are left."""
    spec = CheckpointSpec(interval_s=600.0, application_s=300.0)
    a = running("a", "n0", checkpoint=spec, start_s=NOW_S)
    under_way = operation(requeue("a", "u", Method.APPLICATION, NOW_S + 1100.0))
    cluster = cluster_of(2, a, operations=(under_way,))
    assert left(replace(cluster, now_s=NOW_S + 500.0)).left_s == 300.0
    assert left(replace(cluster, now_s=NOW_S + 800.0)) == Backlog(
        left_s=100.0, over_s=100.0, until_s=NOW_S + 1100.0
    )


@pytest.mark.parametrize(
    ("saved_by_s", "expected_s"),
    [
        (NOW_S + 240.0, 240.0),  # by its plan
        (
            NOW_S + 900.0,
            300.0,
        ),  # the plan had others before it, which are over: no longer than it takes alone
        (NOW_S - 1.0, 300.0),  # late by its plan: what it has done is not known
        (None, 240.0),  # without a plan: from its signal on
    ],
)
def test_what_a_requested_checkpoint_still_takes(
    cluster_of: BuildCluster, running: Build, saved_by_s: float | None, expected_s: float
) -> None:
    leaving = (signal("a", saved_by_s=saved_by_s), requeue("a", "u", Method.SYSTEM, NOW_S + 510.0))
    cluster = cluster_of(2, running("a", "n0", checkpoint=SAVES), operations=(operation(*leaving),))
    assert left(cluster) == Backlog(left_s=expected_s, over_s=expected_s, until_s=NOW_S + 510.0)


def test_a_signal_that_got_no_answer_may_have_arrived(cluster_of: BuildCluster, running: Build) -> None:
    """The job then counts as one that cannot be asked to save."""
    leaving = (signal("a", saved_by_s=NOW_S + 240.0), requeue("a", "u", Method.SYSTEM, NOW_S + 510.0))
    cluster = cluster_of(2, running("a", "n0", checkpoint=None), operations=(operation(*leaving),))
    assert left(cluster).left_s == 240.0
    unplanned = operation(signal("a", saved_by_s=None))
    assert left(replace(cluster, operations=(unplanned,))) == Backlog()


def test_what_is_over_or_never_comes_takes_no_time(cluster_of: BuildCluster, running: Build) -> None:
    leaving = (signal("a", saved_by_s=NOW_S + 240.0), requeue("a", "u", Method.SYSTEM, NOW_S + 510.0))
    a = running("a", "n0", checkpoint=SAVES)
    under_way = operation(*leaving)
    done = tuple(replace(task, progress=Progress.DONE) for task in under_way.tasks)
    for other in (
        replace(under_way, tasks=done),
        replace(under_way, observe=True),
        replace(under_way, phase=Phase.CLOSED),
        replace(operation(*leaving, issued_s=None), phase=Phase.RETURNING),
    ):
        assert left(cluster_of(2, a, operations=(other,))) == Backlog()
    assert left(cluster_of(2, replace(a, requeue_count=1), operations=(under_way,))) == Backlog()
    assert left(cluster_of(2, operations=(under_way,))) == Backlog()


def test_a_checkpoint_in_vain_takes_its_time_and_has_no_deadline(
    cluster_of: BuildCluster, running: Build
) -> None:
    leaving = (signal("a", saved_by_s=NOW_S + 240.0), requeue("a", "u", Method.SYSTEM, NOW_S + 510.0))
    returning = operation(*leaving, phase=Phase.RETURNING)
    cluster = cluster_of(2, running("a", "n0", checkpoint=SAVES), operations=(returning,))
    assert left(cluster) == Backlog(left_s=240.0, over_s=240.0)


def test_a_regular_checkpoint_that_is_awaited_takes_its_time_when_it_comes(
    cluster_of: BuildCluster, running: Build
) -> None:
    """It begins in 300 s and takes 100 s."""
    spec = CheckpointSpec(interval_s=1000.0, application_s=100.0)
    job = running("a", "n0", checkpoint=spec, last_checkpoint_s=NOW_S - 700.0)
    waits = operation(requeue("a", "u", Method.APPLICATION, NOW_S + 510.0))
    assert left(cluster_of(1, job, operations=(waits,))) == Backlog(
        left_s=100.0, over_s=400.0, until_s=NOW_S + 510.0
    )
    saved = replace(job, last_checkpoint_s=NOW_S - 1.0)
    assert left(cluster_of(1, saved, operations=(waits,))) == Backlog()


def later(cluster: Cluster, first: Decision, after_s: float) -> Cluster:
    """The cluster some seconds after the first decision, which was carried out as far as it goes."""
    (why, *_), actions = first.rationale, first.actions
    made = replace(operation(*actions, issued_s=NOW_S), opened_s=NOW_S, deadline_s=why.deadline_s)
    held = replace(made, nodes=actions[0].nodes)  # type: ignore[union-attr]
    tasks = tuple(
        replace(task, progress=Progress.DONE) if task.action is actions[0] else task for task in held.tasks
    )
    return replace(cluster, now_s=NOW_S + after_s, operations=(replace(held, tasks=tasks),))


def signals(decision: Decision) -> list[Checkpoint]:
    return [action for action in decision.actions if isinstance(action, Checkpoint)]


@pytest.fixture
def two(running: Build, waiting: Build, cluster_of: BuildCluster) -> Cluster:
    """Two jobs that save in 300 s each, and u, which needs the node of one."""
    jobs = [
        running("a", "n0", checkpoint=SAVES, start_s=NOW_S - 1000.0),
        running("b", "n1", checkpoint=SAVES, start_s=NOW_S - 1000.0),
    ]
    return cluster_of(2, *jobs, waiting("u", 1))


def and_v(cluster: Cluster, waiting: Build, after_s: float, **fields: float) -> Cluster:
    return replace(cluster, jobs=(*cluster.jobs, waiting("v", 1, submit_s=NOW_S + after_s, **fields)))


def test_a_job_that_cannot_save_in_time_any_more_is_priced_by_its_loss(two: Cluster, waiting: Build) -> None:
    first = decide(two)
    assert victims(first) == [("a", Method.SYSTEM)]
    second = decide(and_v(later(two, first, 5.0), waiting, 5.0))
    assert victims(second) == [("b", Method.KILL)]
    assert second.rationale[0].loss_node_s == 1005


def test_so_it_is_within_one_decision(two: Cluster, waiting: Build) -> None:
    decision = decide(and_v(two, waiting, 0.0))
    assert victims(decision) == [("a", Method.SYSTEM), ("b", Method.KILL)]


def test_one_that_makes_no_other_late_is_requested_at_once(
    two: Cluster, running: Build, waiting: Build
) -> None:
    """200 s are left of the first, and 180 s are added: both are complete after 380 s in any order."""
    b = running("b", "n1", checkpoint=replace(SAVES, system_s=180.0), start_s=NOW_S - 1000.0)
    cluster = and_v(later(two, decide(two), 100.0), waiting, 100.0)
    decision = decide(replace(cluster, jobs=tuple(b if job.job_id == "b" else job for job in cluster.jobs)))
    (one,) = signals(decision)
    assert (one.not_before_s, one.saved_by_s, one.grace_s) == (None, NOW_S + 480.0, 510.0)
    assert decision.rationale[0].ready_s == NOW_S + 480.0
    assert "the nodes are free in 380 s" in decision.rationale[0].summary


def test_one_that_would_make_an_earlier_one_late_is_requested_when_that_is_over(
    two: Cluster, waiting: Build
) -> None:
    """200 s are left of the first, which has 410 s. Both together may take it 500 s."""
    decision = decide(and_v(later(two, decide(two), 100.0), waiting, 100.0))
    assert decision.actions[1:] == (
        Checkpoint(
            job_id="b",
            for_job_id="v",
            policy="eviction",
            reason=Reason.URGENT_ARRIVAL,
            signal="USR1",
            grace_s=310.0,
            walltime_s=20_000.0 + 310.0,
            not_before_s=NOW_S + 300.0,
            saved_by_s=NOW_S + 600.0,
            until_s=NOW_S + 610.0,
            grace_min_s=300.0,
        ),
        requeue("b", "v", Method.SYSTEM, NOW_S + 610.0),
    )
    assert decision.rationale[0].ready_s == NOW_S + 600.0


def test_the_wait_for_a_regular_checkpoint_passes_while_others_write(
    two: Cluster, running: Build, waiting: Build
) -> None:
    """It is complete in 400 s, of which it writes 50 s; until then the first one has written its 300 s."""
    spec = CheckpointSpec(interval_s=1000.0, application_s=50.0)
    b = running("b", "n1", checkpoint=spec, last_checkpoint_s=NOW_S - 645.0)
    cluster = and_v(later(two, decide(two), 5.0), waiting, 5.0)
    decision = decide(replace(cluster, jobs=tuple(b if job.job_id == "b" else job for job in cluster.jobs)))
    assert decision.actions[1:] == (requeue("b", "v", Method.APPLICATION, NOW_S + 515.0),)


def test_concurrent_checkpoints_are_planned_when_those_of_other_plans_are_over(
    cluster_of: BuildCluster, running: Build, waiting: Build
) -> None:
    """Two that fill half of the file system each take 150 s together, and 300 s one after another."""
    settings = {"checkpoints": "concurrent", "aggregate_gb_s": 20.0, "node_gb_s": 10.0}
    small = replace(SAVES, system_s=150.0)
    jobs = [running(name, node, checkpoint=small) for name, node in (("b", "n2"), ("c", "n3"))]
    first = cluster_of(4, running("a", "n0 n1", checkpoint=SAVES), *jobs, waiting("u", 2))
    decided = decide(first, **settings)
    if victims(decided) != [("a", Method.SYSTEM)]:
        pytest.fail("the first is served by the large job")
    cluster = later(first, decided, 5.0)
    v = waiting("v", 2, submit_s=NOW_S + 5.0)
    decision = decide(replace(cluster, jobs=(*cluster.jobs, v)), **settings)
    assert [(one.job_id, one.not_before_s, one.saved_by_s) for one in signals(decision)] == [
        ("b", NOW_S + 300.0, NOW_S + 450.0),
        ("c", NOW_S + 300.0, NOW_S + 450.0),
    ]


def test_the_checkpoints_of_a_proposal_are_known_before_they_are_requested(
    cluster_of: BuildCluster, running: Build
) -> None:
    cluster = cluster_of(1, running("a", "n0", checkpoint=SAVES))
    actions = (
        hold("u", "n0", 1.0),
        signal("a", saved_by_s=None, not_before_s=NOW_S + 50.0),
        requeue("a", "u", Method.SYSTEM, NOW_S + 510.0),
        requeue("gone", "u", Method.APPLICATION, NOW_S + 510.0),
    )
    (found,) = pending_of(actions, cluster).values()
    assert (found.turn_s, found.complete_s, found.not_after_s) == (NOW_S + 50.0, NOW_S + 350.0, NOW_S + 510.0)
    (at_once,) = pending_of((signal("a", saved_by_s=None),), cluster).values()
    assert (at_once.turn_s, at_once.complete_s, at_once.not_after_s) == (-math.inf, NOW_S + 300.0, math.inf)
