"""The operations of speculative backfill: a start before the turn, a promise, and way made for the queue's
first job.
"""

from dataclasses import replace

import pytest

from makeway.daemon.operation.beginning import extend, open_operation
from makeway.daemon.operation.due import wakeup_s
from makeway.daemon.operation.fitness import STALE_S, never_begun
from makeway.daemon.operation.transitions import advance
from makeway.policies.common.urgent_jobs import UrgentJob, unavailable_nodes
from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.model import (
    Action,
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Job,
    JobState,
    Limits,
    Method,
    Operation,
    OperationKind,
    OperationOutcome,
    Phase,
    Prioritise,
    Reason,
    Release,
    Requeue,
    Reservation,
    Reserve,
)
from makeway.policies.safety.protection import Refusal
from tests.builders import cluster, held, node_names, pending, running, urgent
from tests.daemon.acting import PATIENCE, issue_all

NODES = node_names(2)
ALL = node_names(4)
SAVES = CheckpointSpec(system_s=100.0)


def start(nodes: tuple[str, ...] = NODES) -> Reserve:
    return Reserve(
        job_id="x",
        for_job_id="x",
        policy="test",
        reason=Reason.SPECULATIVE,
        reservation="mw_x",
        nodes=nodes,
        duration_s=5000.0,
        kind=OperationKind.EARLY_START,
    )


def way(nodes: tuple[str, ...] = ALL) -> Reserve:
    return Reserve(
        job_id="h",
        for_job_id="h",
        policy="test",
        reason=Reason.HEAD_DUE,
        reservation="mw_h",
        nodes=nodes,
        duration_s=5000.0,
        kind=OperationKind.QUEUE_HEAD,
    )


def leaves(for_job_id: str = "h") -> tuple[Checkpoint, Requeue]:
    return (
        Checkpoint(
            job_id="x",
            for_job_id=for_job_id,
            policy="test",
            reason=Reason.HEAD_DUE,
            signal="USR1",
            grace_s=300.0,
            walltime_s=4000.0,
        ),
        Requeue(
            job_id="x",
            for_job_id=for_job_id,
            policy="test",
            reason=Reason.HEAD_DUE,
            method=Method.SYSTEM,
            not_after_s=1600.0,
        ),
    )


def opened(view: Cluster, *actions: Action, deadline_s: float = 1500.0, observe: bool = False) -> Operation:
    return open_operation(
        actions, view, operation_id="1", deadline_s=deadline_s, timeouts=PATIENCE, observe=observe
    )


def early(*, now_s: float = 1001.0, reserved: bool = True, state: JobState = JobState.RUNNING) -> Cluster:
    """x runs on its nodes, its hold still there or not."""
    job = replace(running("x", NODES, start_s=1000.0), state=state, reservation="mw_x" if reserved else None)
    return cluster(4, job, now_s=now_s, reservations=(held("x", NODES),) if reserved else ())


def lent() -> Operation:
    """The operation of x once its start was seen."""
    before = cluster(4, pending("x", 2))
    operation, issued = issue_all(opened(before, start()), before)
    assert issued == [start()]
    return advance(operation, early(), PATIENCE)


def test_the_hold_of_an_early_start_ends_when_the_job_runs_and_the_operation_when_it_is_over() -> None:
    operation = lent()
    assert (operation.phase, operation.kind) == (Phase.LENT, OperationKind.EARLY_START)
    operation, issued = issue_all(operation, early())
    assert [(type(action), action.reason) for action in issued] == [(Release, Reason.STARTED)]
    running_on = early(now_s=1010.0, reserved=False)
    operation = advance(operation, running_on, PATIENCE)
    assert operation.phase is Phase.LENT
    assert issue_all(operation, running_on)[1] == []
    assert wakeup_s(operation, 1010.0, PATIENCE) is None
    assert list(replace(running_on, operations=(operation,)).speculative_jobs()) == ["x"]
    ended = advance(operation, cluster(4, now_s=2000.0), PATIENCE)
    assert (ended.phase, ended.outcome) == (Phase.CLOSED, OperationOutcome.STARTED)


def test_it_is_over_when_the_job_is_back_in_the_queue() -> None:
    operation, _ = issue_all(lent(), early())
    back = cluster(4, pending("x", 2, requeue_count=1), now_s=1500.0)
    assert advance(operation, back, PATIENCE).phase is Phase.CLOSED


def test_a_job_whose_turn_came_elsewhere_is_not_one_that_started_early() -> None:
    before = cluster(4, pending("x", 2))
    operation, _ = issue_all(opened(before, start()), before)
    elsewhere = cluster(
        4, running("x", ("n3", "n4"), start_s=1000.0), now_s=1001.0, reservations=(held("x", NODES),)
    )
    operation = advance(operation, elsewhere, PATIENCE)
    assert operation.phase is Phase.RETURNING
    assert [type(action) for action in issue_all(operation, elsewhere)[1]] == [Release]


@pytest.mark.parametrize(("now_s", "over"), [(1059.0, False), (1060.0, True)])
def test_an_early_start_that_does_not_come_about_is_given_up_soon(now_s: float, over: bool) -> None:
    before = cluster(4, pending("x", 2))
    operation, _ = issue_all(opened(before, start(), deadline_s=90_000.0), before)
    waits = cluster(4, pending("x", 2, reservation="mw_x"), now_s=now_s, reservations=(held("x", NODES),))
    assert (advance(operation, waits, PATIENCE).phase is Phase.RETURNING) is over


def test_a_promise_is_written_down_and_not_made() -> None:
    view = cluster(4, pending("h", 4))
    operation = opened(view, way(()))
    assert issue_all(operation, view)[1] == []
    assert advance(operation, view, PATIENCE) == operation
    assert arbitrate((way(()),), view)[0].allowed
    begun = cluster(4, running("h", ALL, start_s=1200.0), now_s=1201.0)
    assert advance(operation, begun, PATIENCE).phase is Phase.CLOSED
    gone = cluster(4, now_s=1201.0)
    assert advance(operation, gone, PATIENCE).phase is Phase.CLOSED


def kept(operation: Operation, **changes: object) -> Cluster:
    """h waits in its hold over all nodes, on two of which x runs."""
    victim = replace(running("x", NODES, start_s=1000.0, checkpoint=SAVES), **changes)  # type: ignore[arg-type]
    return cluster(
        4,
        pending("h", 4, reservation="mw_h"),
        victim,
        now_s=1510.0,
        reservations=(held("h", ALL),),
        operations=(operation,),
    )


def test_way_is_made_under_a_hold_and_who_left_goes_first_as_soon_as_the_first_runs() -> None:
    view = replace(early(now_s=1500.0, reserved=False), jobs=(*early(reserved=False).jobs, pending("h", 4)))
    operation = extend(opened(view, way(())), (way(), *leaves()), view, deadline_s=1700.0, timeouts=PATIENCE)
    assert operation.give_up_s == 2300.0
    operation, issued = issue_all(operation, view)
    assert issued == [way()]
    holding = kept(operation)
    operation, issued = issue_all(advance(operation, holding, PATIENCE), holding)
    assert issued == [leaves()[0]]
    saved = kept(operation, last_checkpoint_s=1550.0)
    operation, issued = issue_all(advance(operation, saved, PATIENCE), saved)
    assert issued == [leaves()[1]]
    begun = cluster(
        4,
        running("h", ALL, start_s=1520.0),
        pending("x", 2, requeue_count=1),
        now_s=1521.0,
        reservations=(held("h", ALL),),
    )
    operation = advance(operation, begun, PATIENCE)
    assert (operation.phase, operation.started_s) == (Phase.RETURNING, 1520.0)
    operation, issued = issue_all(operation, begun)
    assert [(type(action), action.job_id, action.reason) for action in issued] == [
        (Prioritise, "x", Reason.STARTED)
    ]
    first = replace(
        begun, jobs=(begun.jobs[0], pending("x", 2, requeue_count=1, prioritised=True)), now_s=1522.0
    )
    operation, issued = issue_all(advance(operation, first, PATIENCE), first)
    assert [(type(action), action.job_id) for action in issued] == [(Release, "h")]
    back = cluster(4, running("x", ALL[:2], start_s=1585.0, requeue_count=1), now_s=1590.0)
    assert advance(operation, back, PATIENCE).phase is Phase.CLOSED


def ruling(action: Reserve, view: Cluster) -> Refusal | None:
    return arbitrate((action,), view)[0].refusal


@pytest.mark.parametrize(
    ("job", "refusal"),
    [
        (pending("x", 2), None),
        (running("x", NODES), Refusal.NOT_WAITING),
        (urgent("x", 2), Refusal.URGENT),
        (replace(pending("x", 2), preemptible=False), Refusal.NOT_PREEMPTIBLE),
        (replace(pending("x", 2), user="root"), Refusal.PROTECTED_USER),
        (pending("x", 2, requeue_count=2), Refusal.PER_JOB),
        (pending("y", 2), Refusal.NOT_WAITING),
    ],
)
def test_only_jobs_that_may_be_evicted_start_early(job: Job, refusal: Refusal | None) -> None:
    limits = Limits(protected_users=frozenset({"root"}), evictions_per_job=2)
    assert ruling(start(), replace(cluster(4, job), limits=limits)) is refusal


def test_nodes_of_running_jobs_that_started_early_count_and_are_free_for_others_holds() -> None:
    operation, _ = issue_all(lent(), early())
    operation = advance(operation, early(now_s=1010.0, reserved=False), PATIENCE)
    view = cluster(
        4, running("x", NODES, start_s=1000.0), pending("h", 4), pending("y", 2), operations=(operation,)
    )
    another = replace(start(("n3", "n4")), job_id="y", for_job_id="y", reservation="mw_y")
    assert ruling(way(), view) is None
    assert ruling(way(), replace(view, limits=Limits(max_nodes=1))) is None
    assert ruling(another, replace(view, limits=Limits(max_nodes=4))) is None
    assert ruling(another, replace(view, limits=Limits(max_nodes=3))) is Refusal.MAX_NODES
    request = UrgentJob(job=urgent("u", 2))
    assert set(unavailable_nodes(view, request, until_s=9000.0)) == set()
    handed_over = Reservation(name="mw_x", nodes=NODES, start_s=0.0, end_s=9e9)
    assert ruling(way(), replace(view, reservations=(handed_over,))) is Refusal.NODE_TAKEN


@pytest.mark.parametrize("kind", [OperationKind.EARLY_START, OperationKind.MAKE_WAY])
def test_only_a_hold_of_an_urgent_job_that_cannot_be_made_for_long_is_decided_again(
    kind: OperationKind,
) -> None:
    """Any other waits until it is given up."""
    before = cluster(4, pending("x", 2))
    hold = replace(start(), kind=kind)
    operation = opened(before, hold)
    urgent = kind is OperationKind.MAKE_WAY
    assert never_begun(operation, replace(before, now_s=operation.opened_s + STALE_S + 1.0)) is urgent
    assert not never_begun(operation, replace(before, now_s=operation.opened_s + STALE_S))
