"""Starts before their turn, and departures for the queue's first job, as values."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.ckpt_backfill.outlook import CkptBackfillConfig, WaitingJob, outlook, predicted_s
from makeway.policies.ckpt_backfill.policy import decide
from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.model import (
    Action,
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Job,
    JobKind,
    JobState,
    Limits,
    Method,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Reason,
    Requeue,
    Reservation,
    Reserve,
    Task,
)
from tests.policies.conftest import NOW_S

Build = Callable[..., Job]
BuildCluster = Callable[..., Cluster]
SAVES = CheckpointSpec(system_s=100.0, grace_s=50.0)
P20 = CkptBackfillConfig(p=0.2, hold_slack_s=600.0)


def queued(job_id: str, node_count: int, *, ago_s: float, **changes: Any) -> Job:
    """A waiting batch job of 10,000 s that saves itself at a signal."""
    job = Job(
        job_id=job_id,
        kind=JobKind.RIGID,
        state=JobState.PENDING,
        node_count=node_count,
        walltime_s=10_000.0,
        submit_s=NOW_S - ago_s,
        user="alice",
        checkpoint=SAVES,
        preemptible=True,
    )
    return replace(job, **changes)


def test_a_job_that_has_ended_gives_its_nodes_long_before_its_limit(
    running: Build, cluster_of: BuildCluster
) -> None:
    jobs = running("a", "n0", state=JobState.COMPLETING), queued("h", 1, ago_s=100.0)
    found = outlook(cluster_of(1, *jobs), WaitingJob(job=jobs[1]), P20)
    assert found.shadow_time_s == NOW_S + 150.0


def start(job_id: str, *nodes: str, duration_s: float = 10_600.0) -> Reserve:
    return Reserve(
        job_id=job_id,
        for_job_id=job_id,
        policy="ckpt-backfill",
        reason=Reason.SPECULATIVE,
        reservation=f"mw_{job_id}",
        nodes=nodes,
        duration_s=duration_s,
        kind=OperationKind.EARLY_START,
    )


def hold(job_id: str, *nodes: str, duration_s: float = 0.0) -> Reserve:
    """The hold for the queue's first job; without nodes the promise."""
    return replace(
        start(job_id, *nodes, duration_s=duration_s), reason=Reason.HEAD_DUE, kind=OperationKind.QUEUE_HEAD
    )


def departure(job_id: str, for_job_id: str, *, walltime_s: float) -> tuple[Action, ...]:
    """It saves itself within 100 s."""
    common: dict[str, Any] = {
        "job_id": job_id,
        "for_job_id": for_job_id,
        "policy": "ckpt-backfill",
        "reason": Reason.HEAD_DUE,
    }
    return (
        Checkpoint(
            signal="USR1",
            grace_s=100.0,
            walltime_s=walltime_s + 100.0,
            until_s=NOW_S + 100.0,
            grace_min_s=50.0,
            **common,
        ),
        Requeue(method=Method.SYSTEM, not_after_s=NOW_S + 100.0, **common),
    )


def operation(hold: Reserve, *, opened_s: float, deadline_s: float, phase: Phase = Phase.LENT) -> Operation:
    progress = Progress.DONE if hold.nodes else Progress.PLANNED
    return Operation(
        operation_id=f"{hold.job_id}@{opened_s:.3f}",
        kind=hold.kind,
        for_job_id=hold.job_id,
        policy="ckpt-backfill",
        reservation=hold.reservation,
        nodes=hold.nodes,
        opened_s=opened_s,
        deadline_s=deadline_s,
        give_up_s=deadline_s + 600.0,
        phase=phase,
        tasks=(Task(action=hold, progress=progress),),
    )


@pytest.fixture
def half_full(running: Build, cluster_of: BuildCluster) -> Cluster:
    """Four of eight nodes are busy for 3000 s more; the first of the queue wants six, the second three."""
    return cluster_of(
        8,
        running("a", "n0 n1 n2 n3", start_s=NOW_S - 1000.0, walltime_s=4000.0),
        queued("h", 6, ago_s=500.0),
        queued("x", 3, ago_s=400.0),
    )


def test_a_job_starts_before_its_turn_if_its_predicted_run_fits(half_full: Cluster) -> None:
    decision = decide(half_full, P20)
    assert decision.actions == (hold("h"), start("x", "n4", "n5", "n6"))
    assert [why.deadline_s for why in decision.rationale] == [NOW_S + 3000.0] * 2
    assert all(verdict.allowed for verdict in arbitrate(decision.actions, half_full))


def test_a_job_that_can_never_start_is_passed_as_if_it_were_not_there(half_full: Cluster) -> None:
    giant = queued("giant", 9, ago_s=900.0)
    config = replace(P20, p=0.31)
    assert decide(replace(half_full, jobs=(giant, *half_full.jobs)), P20) == decide(half_full, P20)
    assert decide(replace(half_full, jobs=(giant, *half_full.jobs)), config).actions == ()


def test_one_whose_predicted_run_does_not_fit_takes_only_what_is_left_over(half_full: Cluster) -> None:
    config = replace(P20, p=0.31)
    assert decide(half_full, config).actions == ()
    small = replace(
        half_full, jobs=(*half_full.jobs[:2], queued("x", 2, ago_s=400.0), queued("y", 1, ago_s=300.0))
    )
    assert decide(small, config).actions == (hold("h"), start("x", "n4", "n5"))


@pytest.mark.parametrize(
    ("changes", "starts"),
    [
        ({}, True),
        ({"preemptible": False}, False),
        ({"checkpoint": None}, False),
        ({"user": "root"}, False),
        ({"kind": JobKind.ON_DEMAND}, False),
        ({"requeue_count": 3}, False),
        ({"eligible_s": NOW_S + 1.0}, False),
        ({"reservation": "theirs"}, False),
        ({"eligible_nodes": frozenset({"n4", "n5"})}, False),
        ({"eligible_nodes": frozenset({"n4", "n5", "n7"})}, True),
    ],
)
def test_only_jobs_that_may_be_asked_to_leave_start_early(
    half_full: Cluster, changes: dict[str, Any], starts: bool
) -> None:
    limits = Limits(protected_users=frozenset({"root"}), evictions_per_job=3)
    jobs = (*half_full.jobs[:2], replace(half_full.jobs[2], **changes))
    assert bool(decide(replace(half_full, jobs=jobs, limits=limits), P20).actions) is starts


def test_jobs_without_checkpoints_start_early_only_where_the_site_says_so(half_full: Cluster) -> None:
    bare = replace(half_full, jobs=(*half_full.jobs[:2], replace(half_full.jobs[2], checkpoint=None)))
    assert decide(bare, replace(P20, without_checkpoint=True)).actions == (
        hold("h"),
        start("x", "n4", "n5", "n6"),
    )


def test_where_the_first_of_the_queue_fits_nothing_is_done(half_full: Cluster) -> None:
    fits = replace(
        half_full, jobs=(half_full.jobs[0], replace(half_full.jobs[1], node_count=4), half_full.jobs[2])
    )
    assert decide(fits, P20).actions == ()


def test_no_job_passes_an_urgent_one_unless_it_also_fits_before_that(
    running: Build, cluster_of: BuildCluster
) -> None:
    # In 500 s there will be nodes for the urgent job, were it the first; for the one that is the first in
    # 3000 s.
    cluster = cluster_of(
        8,
        running("a", "n0 n1 n2 n3", start_s=NOW_S - 1000.0, walltime_s=4000.0),
        running("b", "n4", start_s=NOW_S - 500.0, walltime_s=1000.0),
        queued("h", 6, ago_s=500.0),
        queued("before", 1, ago_s=450.0),
        queued("u", 4, ago_s=400.0, kind=JobKind.ON_DEMAND, preemptible=False, checkpoint=None),
        queued("long", 1, ago_s=300.0),
        queued("short", 1, ago_s=200.0, walltime_s=400.0),
    )
    assert decide(cluster, P20).actions == (
        hold("h"),
        start("before", "n5"),
        start("short", "n6", duration_s=1000.0),
    )


def test_the_promise_is_made_once(half_full: Cluster) -> None:
    commitments = operation(
        hold("h"), opened_s=NOW_S - 5.0, deadline_s=NOW_S + 2000.0, phase=Phase.MAKING_ROOM
    )
    assert decide(replace(half_full, operations=(commitments,)), P20).actions == (
        start("x", "n4", "n5", "n6"),
    )


def test_nodes_that_others_reserve_in_time_are_left_alone(half_full: Cluster) -> None:
    theirs = Reservation(name="site", nodes=("n4",), start_s=NOW_S + 9000.0, end_s=NOW_S + 9999.0)
    decision = decide(replace(half_full, reservations=(theirs,)), P20)
    assert decision.actions == (hold("h"), start("x", "n5", "n6", "n7"))


def test_nodes_that_the_first_cannot_use_are_taken_first(half_full: Cluster) -> None:
    picky = replace(half_full.jobs[1], eligible_nodes=frozenset(f"n{index}" for index in range(7)))
    jobs = (half_full.jobs[0], picky, half_full.jobs[2])
    assert decide(replace(half_full, jobs=jobs), P20).actions[1] == start("x", "n7", "n4", "n5")


def test_the_order_of_the_queue_is_priority_then_submission(half_full: Cluster) -> None:
    urged = replace(half_full.jobs[2], node_count=5, priority=1.0)
    decision = decide(replace(half_full, jobs=(*half_full.jobs[:2], urged)), P20)
    # x is first now, and h does not fit next to it.
    assert decision.actions == ()


@pytest.fixture
def lent(running: Build, cluster_of: BuildCluster) -> Cluster:
    """x and y were started before their turn on six nodes; h, the first of the queue, wants seven and one is
    free.
    """
    x = running("x", "n1 n2", start_s=NOW_S - 2100.0, walltime_s=10_000.0, checkpoint=SAVES)
    y = running("y", "n3 n4 n5 n6", start_s=NOW_S - 2000.0, walltime_s=10_000.0, checkpoint=SAVES)
    return cluster_of(
        8,
        running("a", "n0", start_s=NOW_S - 1000.0, walltime_s=9000.0),
        x,
        y,
        queued("h", 5, ago_s=5000.0),
        operations=(
            operation(start("x", *x.nodes), opened_s=NOW_S - 2100.0, deadline_s=NOW_S),
            operation(start("y", *y.nodes), opened_s=NOW_S - 2000.0, deadline_s=NOW_S),
            operation(hold("h"), opened_s=NOW_S - 2100.0, deadline_s=NOW_S, phase=Phase.MAKING_ROOM),
        ),
    )


def test_at_the_time_of_the_first_the_largest_leaves(lent: Cluster) -> None:
    decision = decide(lent, P20)
    assert decision.actions == (
        hold("h", "n7", "n3", "n4", "n5", "n6", duration_s=10_700.0),
        *departure("y", "h", walltime_s=10_000.0),
    )
    assert all(verdict.allowed for verdict in arbitrate(decision.actions, lent))
    (why,) = decision.rationale
    assert (why.ready_s, why.loss_node_s) == (NOW_S + 100.0, 0)


def test_an_operation_that_cleans_up_does_not_hide_the_promise(lent: Cluster) -> None:
    promise = lent.operations[2]
    cleans = replace(
        promise, operation_id="9", kind=OperationKind.CLEAN_UP, reservation="", nodes=(), tasks=()
    )
    for operations in ((*lent.operations, cleans), (cleans, *lent.operations)):
        assert decide(replace(lent, operations=operations), P20) == decide(lent, P20)


def test_before_that_no_job_leaves(lent: Cluster) -> None:
    decision = decide(replace(lent, now_s=NOW_S - 1.0), P20)
    assert decision.actions == ()
    assert decision.again_s == NOW_S


def test_as_many_leave_as_are_needed(lent: Cluster) -> None:
    jobs = tuple(replace(job, node_count=7) if job.job_id == "h" else job for job in lent.jobs)
    decision = decide(replace(lent, jobs=jobs), P20)
    assert [action.job_id for action in decision.actions] == ["h", "y", "y", "x", "x"]


def test_one_whose_time_is_not_over_is_waited_for(lent: Cluster) -> None:
    """Where a start was promised, its nodes are kept from then on."""
    view = outlook(lent, WaitingJob(job=lent.jobs[3]), replace(P20, p=0.25))
    assert view.shadow_time_s == NOW_S + 500.0
    kept = hold("h", "n7", "n1", "n2", "n3", "n4", duration_s=500.0 + 10_600.0)
    assert decide(lent, replace(P20, p=0.25)).actions == (kept,)
    unpromised = replace(lent, operations=lent.operations[:2])
    assert decide(unpromised, replace(P20, p=0.25)).actions == (hold("h"),)


def test_a_job_that_started_by_itself_leaves_only_if_a_promise_would_be_broken(
    running: Build, cluster_of: BuildCluster
) -> None:
    """b was let pass by the scheduler below after a start was promised to h."""
    b = running(
        "b", "n0 n1", start_s=NOW_S - 50.0, walltime_s=9000.0, checkpoint=SAVES, submit_s=NOW_S - 60.0
    )
    head = queued("h", 3, ago_s=500.0)
    commitments = operation(hold("h"), opened_s=NOW_S - 100.0, deadline_s=NOW_S, phase=Phase.MAKING_ROOM)
    view = cluster_of(4, b, head, operations=(commitments,))
    assert [action.job_id for action in decide(view, P20).actions] == ["h", "b", "b"]
    assert decide(replace(view, operations=()), P20).actions == ()
    before = replace(b, start_s=NOW_S - 101.0)
    kept = hold("h", "n2", "n3", "n0", duration_s=8899.0 + 10_600.0)
    assert decide(replace(view, jobs=(before, head)), P20).actions == (kept,)


def test_nodes_that_are_kept_for_an_overdue_job_are_left_once_it_can_start(
    running: Build, cluster_of: BuildCluster
) -> None:
    x = running("x", "n0 n1", start_s=NOW_S - 3000.0, walltime_s=10_000.0, checkpoint=SAVES)
    other = running("a", "n2", start_s=NOW_S - 1000.0, walltime_s=9000.0)
    head = replace(queued("h", 3, ago_s=5000.0), reservation="mw_h")
    operations = (
        operation(start("x", *x.nodes), opened_s=NOW_S - 3000.0, deadline_s=NOW_S - 500.0),
        operation(
            hold("h", "n0", "n1", "n2"),
            opened_s=NOW_S - 3000.0,
            deadline_s=NOW_S - 500.0,
            phase=Phase.MAKING_ROOM,
        ),
    )
    view = cluster_of(3, x, other, head, operations=operations)
    assert decide(view, P20).actions == ()
    assert decide(replace(view, jobs=(x, head)), P20).actions == departure("x", "h", walltime_s=10_000.0)


@pytest.mark.parametrize(
    ("changes", "expected_s"),
    [
        ({"walltime_s": 1799.0}, 1799.0),
        ({"walltime_s": 1800.0}, 360.0),
        ({"walltime_s": 10_000.0}, 2000.0),
        ({"walltime_s": 10_000.0, "user": "bob"}, 5000.0),
        ({"walltime_s": 10_000.0, "saved_s": 4000.0, "setup_s": 30.0}, 6130.0),
        ({"walltime_s": 10_000.0, "saved_s": 10.0, "setup_s": 30.0}, 10_000.0),
        ({"walltime_s": 100.0, "saved_s": 10.0, "setup_s": 30.0}, 100.0),
    ],
)
def test_the_predicted_run_time(changes: dict[str, Any], expected_s: float) -> None:
    """Algorithm 2, with T_extend (section 5.1) of a checkpoint of 100 s and a setup."""
    job = queued("x", 1, ago_s=0.0, **changes)
    assert predicted_s(job, replace(P20, p_by_user={"bob": 0.5})) == expected_s


def test_a_run_is_not_predicted_shorter_than_the_site_lets_it_run() -> None:
    assert predicted_s(queued("x", 1, ago_s=0.0), P20, 2500.0) == 2500.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p": 0.0}, "p is 0.0"),
        ({"p": 1.01}, "p is 1.01"),
        ({"p_by_user": {"bob": 2.0}}, r"p_by_user\[bob\] is 2.0"),
        ({"threshold_s": -1.0}, "threshold_s is -1.0"),
        ({"hold_slack_s": float("nan")}, "hold_slack_s is nan"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CkptBackfillConfig(**settings)
