"""The life of an operation, told as snapshots in and due tasks out."""

from dataclasses import replace

import pytest

from makeway.daemon.due import awaits_regular_checkpoint, next_due, wakeup_s
from makeway.daemon.lending import leases
from makeway.daemon.observation import Patience
from makeway.daemon.operations import advance, issuing, open_operation, record, top_up
from makeway.policies.model import (
    Acknowledgement,
    Action,
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Expand,
    Job,
    JobState,
    Method,
    Operation,
    Phase,
    Prioritise,
    Progress,
    Reason,
    Release,
    Requeue,
    Reserve,
    Shrink,
)
from tests.builders import cluster, held, node_names, pending, running, urgent

PATIENCE = Patience(give_up_after_s=600.0, settle_s=30.0, retry_s=5.0)
DEADLINE_S = 1600.0
NODES = node_names(4)
COMMENTS = CheckpointSpec(system_s=100.0)


def reserve(nodes: tuple[str, ...] = NODES) -> Reserve:
    return Reserve(
        job_id="u",
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        reservation="mw_u",
        nodes=nodes,
        duration_s=5000.0,
    )


def requeue(job_id: str, method: Method = Method.KILL, not_after_s: float = DEADLINE_S) -> Requeue:
    return Requeue(
        job_id=job_id,
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=method,
        not_after_s=not_after_s,
    )


def signal(job_id: str) -> Checkpoint:
    return Checkpoint(
        job_id=job_id,
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        signal="USR1",
        grace_s=300.0,
        walltime_s=36_300.0,
    )


def shrink(job_id: str, keep: tuple[str, ...]) -> Shrink:
    return Shrink(
        job_id=job_id,
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        keep_nodes=keep,
        walltime_s=7200.0,
    )


def begun(view: Cluster, *actions: Action, observe: bool = False) -> Operation:
    return open_operation(actions, view, deadline_s=DEADLINE_S, patience=PATIENCE, observe=observe)


def due(operation: Operation, view: Cluster) -> list[Action]:
    """Everything that is issued in one cycle, each answered with yes."""
    return issue_all(operation, view)[1]


def issue_all(operation: Operation, view: Cluster) -> tuple[Operation, list[Action]]:
    issued = []
    while (index := next_due(operation, view, PATIENCE)) is not None:
        issued.append(operation.tasks[index].action)
        operation = issuing(operation, index, view.now_s)
        operation = record(operation, index, Progress.ACCEPTED, view.now_s)
    return operation, issued


def test_the_hold_comes_first_and_alone() -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES))
    operation = begun(view, reserve(), requeue("v"))

    assert due(operation, view) == [reserve()]


def test_nobody_leaves_before_the_hold_was_seen() -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES))
    operation, _ = issue_all(begun(view, reserve(), requeue("v")), view)

    later = replace(view, now_s=1010.0)
    operation = advance(operation, later, PATIENCE)
    assert due(operation, later) == []

    seen = replace(
        later,
        jobs=(urgent("u", 4, reservation="mw_u"), running("v", NODES)),
        reservations=(held("u", NODES),),
    )
    operation = advance(operation, seen, PATIENCE)
    assert due(operation, seen) == [requeue("v")]


def test_a_reservation_that_does_not_bind_the_job_is_no_hold() -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES), reservations=(held("u", NODES),))
    operation, _ = issue_all(begun(view, reserve(), requeue("v")), view)
    operation = advance(operation, view, PATIENCE)

    assert due(operation, view) == []


def holding(*jobs: Job, now_s: float = 1010.0) -> Cluster:
    """A view in which the hold stands and the urgent job waits in it."""
    return cluster(
        4,
        urgent("u", 4, reservation="mw_u"),
        *jobs,
        now_s=now_s,
        reservations=(held("u", NODES),),
    )


def held_operation(*actions: Action, spec: CheckpointSpec | None = COMMENTS) -> Operation:
    """An operation whose hold was seen at 1010 s, with `v` on all nodes."""
    view = cluster(4, urgent("u", 4), running("v", NODES, checkpoint=spec))
    operation, _ = issue_all(begun(view, reserve(), *actions), view)
    return advance(operation, holding(running("v", NODES, checkpoint=spec)), PATIENCE)


def test_a_signalled_job_leaves_once_it_acknowledges() -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    view = holding(running("v", NODES, checkpoint=COMMENTS))
    operation, issued = issue_all(operation, view)
    assert issued == [signal("v")]

    busy = holding(running("v", NODES, checkpoint=COMMENTS, checkpointing_since_s=1010.0), now_s=1050.0)
    operation = advance(operation, busy, PATIENCE)
    assert due(operation, busy) == []

    saved = holding(running("v", NODES, checkpoint=COMMENTS, last_checkpoint_s=1110.0), now_s=1111.0)
    operation = advance(operation, saved, PATIENCE)
    assert due(operation, saved) == [requeue("v", Method.SYSTEM)]


def test_an_old_checkpoint_is_no_acknowledgement() -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    view = holding(running("v", NODES, checkpoint=COMMENTS, last_checkpoint_s=900.0))
    operation, _ = issue_all(operation, view)
    operation = advance(operation, view, PATIENCE)

    assert due(operation, view) == []


@pytest.mark.parametrize(("now_s", "leaves"), [(1309.0, False), (1310.0, True)])
def test_a_job_that_never_acknowledges_leaves_when_its_grace_is_over(now_s: float, leaves: bool) -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    victim = running("v", NODES, checkpoint=COMMENTS)
    operation, _ = issue_all(operation, holding(victim))
    view = holding(victim, now_s=now_s)

    assert bool(due(advance(operation, view, PATIENCE), view)) is leaves


def test_what_leaves_at_the_latest_moment_has_not_requeued_itself() -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM, not_after_s=1200.0))
    victim = running("v", NODES, checkpoint=COMMENTS)
    operation, _ = issue_all(operation, holding(victim))
    late = holding(victim, now_s=1200.0)
    operation, issued = issue_all(advance(operation, late, PATIENCE), late)
    assert issued == [requeue("v", Method.SYSTEM, not_after_s=1200.0)]
    asked = next(task for task in operation.tasks if isinstance(task.action, Checkpoint))
    assert (asked.progress, asked.detail) == (Progress.DONE, "grace over without an acknowledgement")


@pytest.mark.parametrize("method", [Method.SYSTEM, Method.APPLICATION])
def test_at_the_latest_moment_everybody_leaves(method: Method) -> None:
    actions = (signal("v"), requeue("v", method, not_after_s=1200.0))
    operation = held_operation(*(actions if method is Method.SYSTEM else actions[1:]))
    victim = running("v", NODES, checkpoint=COMMENTS)
    operation, _ = issue_all(operation, holding(victim))

    early, late = holding(victim, now_s=1199.0), holding(victim, now_s=1200.0)
    assert due(advance(operation, early, PATIENCE), early) == []
    assert due(advance(operation, late, PATIENCE), late) == [actions[1]]


def test_a_regular_checkpoint_lets_a_job_leave() -> None:
    operation = held_operation(requeue("v", Method.APPLICATION))
    assert awaits_regular_checkpoint(operation)

    view = holding(running("v", NODES, last_checkpoint_s=1005.0), now_s=1020.0)
    assert due(advance(operation, view, PATIENCE), view) == [requeue("v", Method.APPLICATION)]


def test_a_refused_signal_leaves_the_job_its_time() -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    view = holding(running("v", NODES, checkpoint=COMMENTS))
    index = next_due(operation, view, PATIENCE)
    assert index is not None
    operation = record(issuing(operation, index, view.now_s), index, Progress.REFUSED, view.now_s)

    assert due(advance(operation, view, PATIENCE), view) == []
    late = holding(running("v", NODES, checkpoint=COMMENTS), now_s=DEADLINE_S)
    assert due(advance(operation, late, PATIENCE), late) == [requeue("v", Method.SYSTEM)]


@pytest.mark.parametrize(
    "left",
    [pending("v", 4, requeue_count=1), running("v", node_names(4, first=5), requeue_count=1), None],
    ids=["waits", "runs elsewhere", "ended"],
)
def test_a_job_that_left_by_itself_is_not_requeued(left: Job | None) -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    operation, _ = issue_all(operation, holding(running("v", NODES, checkpoint=COMMENTS)))
    view = holding(*([left] if left is not None else []), now_s=1030.0)
    operation = advance(operation, view, PATIENCE)

    assert due(operation, view) == []
    assert operation.tasks[-1].progress in {Progress.DONE, Progress.GONE}


def lent_operation(*actions: Action) -> Operation:
    """An operation whose urgent job runs on all four nodes since 1020 s."""
    operation = held_operation(*actions)
    operation, _ = issue_all(operation, holding(running("v", NODES)))
    view = lent_view()
    return advance(operation, view, PATIENCE)


def lent_view(*jobs: Job, now_s: float = 1020.0) -> Cluster:
    lender = jobs or (pending("v", 4, requeue_count=1),)
    return cluster(
        4,
        running("u", NODES, start_s=1020.0),
        *lender,
        now_s=now_s,
        reservations=(held("u", NODES),),
    )


def test_while_the_urgent_job_runs_nothing_is_due_and_the_lease_stands() -> None:
    operation = lent_operation(requeue("v"))

    assert operation.phase is Phase.LENT
    assert operation.started_s == 1020.0
    assert due(operation, lent_view()) == []
    (lease,) = leases(operation, lent_view())
    assert (lease.lender_job_id, lease.borrower_job_id, lease.nodes) == ("v", "u", NODES)


@pytest.mark.parametrize("progress", [Progress.ACCEPTED, Progress.DONE])
@pytest.mark.parametrize("lender", [None, running("v", NODES)])
def test_a_requeue_that_a_crashed_controller_forgot_is_repeated(
    progress: Progress, lender: Job | None
) -> None:
    """It takes the job for ended, or for running still."""
    operation = lent_operation(requeue("v"))
    place = next(place for place, task in enumerate(operation.tasks) if isinstance(task.action, Requeue))
    told = replace(operation.tasks[place], progress=progress, ended_s=1020.0, nodes=NODES)
    tasks = (*operation.tasks[:place], told, *operation.tasks[place + 1 :])
    operation = replace(operation, tasks=tasks)
    jobs = () if lender is None else (lender,)
    view = replace(lent_view(now_s=1030.0), jobs=(running("u", NODES, start_s=1020.0), *jobs))
    repeated = lender is None or progress is Progress.DONE
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert issued == ([requeue("v")] if repeated else [])
    assert operation.tasks[place].forgotten is repeated

    # Once the job waits again, its place in the queue is given back like everybody else's.
    waits = after_view(pending("v", 4, requeue_count=1), now_s=1040.0)
    operation, issued = issue_all(advance(operation, waits, PATIENCE), waits)
    assert [type(action) for action in issued] == [Prioritise]


def test_a_job_that_is_gone_long_after_it_was_requeued_was_not_forgotten() -> None:
    operation = lent_operation(requeue("v"))
    view = replace(lent_view(now_s=1081.0), jobs=(running("u", NODES, start_s=1020.0),))
    assert due(advance(operation, view, PATIENCE), view) == []


def test_a_release_that_is_not_seen_is_repeated() -> None:
    operation = lent_operation(requeue("v"))
    gone = after_view(now_s=2000.0)
    operation, issued = issue_all(advance(operation, gone, PATIENCE), gone)
    assert [type(action) for action in issued] == [Release]
    for now_s, verbs in ((2029.0, []), (2030.0, [Release])):
        view = after_view(now_s=now_s)
        operation, issued = issue_all(advance(operation, view, PATIENCE), view)
        assert [type(action) for action in issued] == verbs


def test_an_urgent_job_that_waits_again_keeps_its_nodes() -> None:
    operation = lent_operation(requeue("v"))
    again = cluster(
        4,
        urgent("u", 4),
        pending("v", 4, requeue_count=1),
        now_s=1030.0,
        reservations=(held("u", NODES),),
    )
    operation, issued = issue_all(advance(operation, again, PATIENCE), again)
    assert (operation.phase, operation.started_s) == (Phase.MAKING_ROOM, None)
    assert issued == [reserve()]

    bound = replace(
        again, jobs=(urgent("u", 4, reservation="mw_u"), pending("v", 4, requeue_count=1)), now_s=1031.0
    )
    operation = advance(operation, bound, PATIENCE)
    assert due(operation, bound) == []
    operation = advance(operation, lent_view(now_s=1040.0), PATIENCE)
    assert operation.phase is Phase.LENT


def test_an_urgent_job_that_waits_again_too_late_gives_its_nodes_back() -> None:
    operation = lent_operation(requeue("v"))
    lender = pending("v", 4, requeue_count=1)
    late = after_view(urgent("u", 4, reservation="mw_u"), lender, now_s=operation.give_up_s)
    operation, issued = issue_all(advance(operation, late, PATIENCE), late)
    assert operation.phase is Phase.RETURNING
    assert [type(action) for action in issued] == [Prioritise]


def after_view(*jobs: Job, reservations: bool = True, now_s: float = 2000.0) -> Cluster:
    """The urgent job is over."""
    return cluster(
        4,
        *jobs,
        now_s=now_s,
        reservations=(held("u", NODES),) if reservations else (),
    )


def test_at_its_end_the_lender_goes_first_and_then_the_hold_ends() -> None:
    operation = lent_operation(requeue("v"))
    view = after_view(pending("v", 4, requeue_count=1))
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)

    assert [type(action) for action in issued] == [Prioritise]
    assert issued[0].job_id == "v"

    first = pending("v", 4, requeue_count=1, prioritised=True)
    view = after_view(first)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [type(action) for action in issued] == [Release]

    waits = after_view(first, reservations=False)
    operation = advance(operation, waits, PATIENCE)
    assert operation.phase is Phase.RETURNING

    resumed = after_view(running("v", NODES, requeue_count=1), reservations=False)
    operation = advance(operation, resumed, PATIENCE)
    assert operation.phase is Phase.CLOSED
    assert leases(operation, resumed) == ()


@pytest.mark.parametrize(
    ("prioritised", "eligible_s", "now_s", "verbs"),
    [
        (True, None, 2002.0, [Release]),
        (True, 2003.0, 2002.0, []),
        (True, 2003.0, 2003.0, [Release]),
        (False, None, 2002.0, []),
        (True, 4e9, 2029.0, []),
        (True, 4e9, 2030.0, [Release]),
        (False, None, 2030.0, [Prioritise, Release]),
    ],
)
def test_the_hold_lasts_until_the_lender_can_start(
    prioritised: bool, eligible_s: float | None, now_s: float, verbs: list[type[Action]]
) -> None:
    """A waiting job would be on the nodes before a lender that may start only some seconds after it was put first."""
    operation = lent_operation(requeue("v"))
    view = after_view(pending("v", 4, requeue_count=1), now_s=2000.0)
    operation, _ = issue_all(advance(operation, view, PATIENCE), view)
    lender = replace(pending("v", 4, requeue_count=1, prioritised=prioritised), eligible_s=eligible_s)
    later = after_view(lender, now_s=now_s)

    issued = due(advance(operation, later, PATIENCE), later)
    assert [type(action) for action in issued] == verbs


def test_a_shrunk_lender_grows_back_before_the_hold_ends() -> None:
    operation = held_operation(shrink("v", ("n1",)))
    operation, issued = issue_all(operation, holding(running("v", NODES)))
    assert issued == [shrink("v", ("n1",))]
    operation = advance(operation, lent_view(running("v", ("n1",))), PATIENCE)
    view = after_view(running("v", ("n1",)))
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)

    assert [type(action) for action in issued] == [Expand, Release]
    assert isinstance(issued[0], Expand)
    assert issued[0].nodes == ("n2", "n3", "n4")

    grown = after_view(running("v", NODES), reservations=False)
    assert advance(operation, grown, PATIENCE).phase is Phase.CLOSED


def test_where_jobs_cannot_grow_the_hold_just_ends() -> None:
    operation = held_operation(shrink("v", ("n1",)))
    operation, _ = issue_all(operation, holding(running("v", NODES)))
    operation = advance(operation, lent_view(running("v", ("n1",))), PATIENCE)
    view = replace(after_view(running("v", ("n1",))), can_expand=False)

    assert [type(action) for action in due(advance(operation, view, PATIENCE), view)] == [Release]


@pytest.mark.parametrize("started", [False, True])
def test_an_urgent_job_that_is_gone_midway_gives_everything_back(started: bool) -> None:
    operation = held_operation(requeue("v"))
    if started:
        operation, _ = issue_all(operation, holding(running("v", NODES)))
    lender = pending("v", 4, requeue_count=1) if started else running("v", NODES)
    view = after_view(lender)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)

    assert [type(action) for action in issued] == ([Prioritise] if started else [Release])
    last = after_view(running("v", NODES, requeue_count=int(started)), reservations=False)
    assert advance(operation, last, PATIENCE).phase is Phase.CLOSED


def test_an_eviction_in_doubt_is_never_repeated_once_the_nodes_go_back() -> None:
    operation = held_operation(requeue("v"))
    view = holding(running("v", NODES))
    index = next_due(operation, view, PATIENCE)
    assert index is not None
    operation = issuing(operation, index, view.now_s)
    gone = after_view(running("v", NODES), now_s=1500.0)
    for _ in range(3):
        operation = advance(operation, gone, PATIENCE)
        operation, issued = issue_all(operation, gone)
        assert not any(isinstance(action, Requeue) for action in issued)
    closed = advance(operation, after_view(running("v", NODES), reservations=False), PATIENCE)
    assert closed.phase is Phase.CLOSED


def test_an_eviction_that_turns_out_late_is_given_back_too() -> None:
    operation = held_operation(requeue("v"))
    view = holding(running("v", NODES))
    index = next_due(operation, view, PATIENCE)
    assert index is not None
    operation = issuing(operation, index, view.now_s)
    gone = after_view(running("v", NODES), now_s=1020.0)
    operation, issued = issue_all(advance(operation, gone, PATIENCE), gone)
    assert issued == []  # the hold stays until it is known whether there is a lender

    late = after_view(pending("v", 4, requeue_count=1), now_s=1021.0)
    assert [type(action) for action in due(advance(operation, late, PATIENCE), late)] == [Prioritise]


def test_an_urgent_job_that_never_starts_is_given_up() -> None:
    operation = held_operation(requeue("v"))
    view = holding(pending("v", 4, requeue_count=1), now_s=DEADLINE_S + PATIENCE.give_up_after_s)

    assert [type(action) for action in due(advance(operation, view, PATIENCE), view)] == [Prioritise]


def in_doubt(spec: CheckpointSpec | None) -> Operation:
    """The signal to `v` was written down at 1010 s, and no answer after it."""
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM), spec=spec)
    view = holding(running("v", NODES, checkpoint=spec))
    index = next_due(operation, view, PATIENCE)
    assert index is not None
    return issuing(operation, index, view.now_s)


@pytest.mark.parametrize(
    ("now_s", "acknowledgement", "again"),
    [
        (1039.0, Acknowledgement.COMMENT, False),
        (1040.0, Acknowledgement.COMMENT, True),
        (1040.0, Acknowledgement.EXIT, False),
    ],
)
def test_a_signal_in_doubt_is_repeated_only_where_the_job_would_have_told(
    now_s: float, acknowledgement: Acknowledgement, again: bool
) -> None:
    spec = CheckpointSpec(system_s=100.0, acknowledgement=acknowledgement)
    operation = in_doubt(spec)
    view = holding(running("v", NODES, checkpoint=spec), now_s=now_s)

    assert due(advance(operation, view, PATIENCE), view) == ([signal("v")] if again else [])


def test_a_signal_in_doubt_that_the_job_tells_of_is_not_repeated() -> None:
    view = holding(running("v", NODES, checkpoint=COMMENTS, checkpointing_since_s=1011.0), now_s=1100.0)

    assert due(advance(in_doubt(COMMENTS), view, PATIENCE), view) == []


def test_a_command_that_is_to_be_repeated_waits_a_little() -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES))
    operation = begun(view, reserve(), requeue("v"))
    operation = record(issuing(operation, 0, 1000.0), 0, Progress.PLANNED, 1000.0, "try again in a bit")

    assert due(operation, replace(view, now_s=1004.0)) == []
    assert due(operation, replace(view, now_s=1005.0)) == [reserve()]
    assert wakeup_s(operation, 1000.0, PATIENCE) == 1005.0


def test_a_hold_that_was_refused_ends_the_operation_after_a_while() -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES))
    operation = record(issuing(begun(view, reserve(), requeue("v")), 0, 1000.0), 0, Progress.REFUSED, 1000.0)

    assert advance(operation, replace(view, now_s=1059.0), PATIENCE).phase is Phase.MAKING_ROOM
    assert wakeup_s(operation, 1030.0, PATIENCE) == 1060.0
    assert advance(operation, replace(view, now_s=1060.0), PATIENCE).phase is Phase.CLOSED


def test_a_hold_that_somebody_deleted_is_made_again() -> None:
    operation = held_operation(requeue("v"))
    view = cluster(4, urgent("u", 4), running("v", NODES), now_s=1020.0)

    assert due(advance(operation, view, PATIENCE), view) == [reserve()]


def test_a_job_that_is_bound_to_its_hold_no_more_is_bound_again() -> None:
    """A controller that crashed may have kept the reservation and forgotten who waits in it."""
    operation = held_operation(requeue("v"))
    unbound = cluster(4, urgent("u", 4), running("v", NODES), now_s=1020.0, reservations=(held("u", NODES),))

    assert due(advance(operation, unbound, PATIENCE), unbound) == [reserve()]


def test_a_new_hold_replaces_the_old_one() -> None:
    operation = held_operation(requeue("v"))
    other = ("n1", "n2", "n3", "n5")
    view = replace(holding(running("v", NODES), running("w", ("n5",))), now_s=1020.0)
    operation = top_up(
        operation, (reserve(other), requeue("w")), view, deadline_s=DEADLINE_S, patience=PATIENCE
    )
    assert due(operation, view) == [reserve(other)]

    operation, _ = issue_all(operation, view)
    seen = replace(view, reservations=(held("u", other),))
    assert due(advance(operation, seen, PATIENCE), seen) == [requeue("v"), requeue("w")]


def test_an_observed_operation_issues_nothing_and_ends_with_the_wait() -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES))
    operation = begun(view, reserve(), requeue("v"), observe=True)
    assert due(operation, view) == []
    assert advance(operation, view, PATIENCE) is operation

    started = cluster(4, running("u", NODES), now_s=1500.0)
    assert advance(operation, started, PATIENCE).phase is Phase.CLOSED


def test_an_operation_without_a_hold_is_over_with_its_action() -> None:
    front = Prioritise(job_id="u", for_job_id="u", policy="test", reason=Reason.NO_ROOM)
    view = cluster(4, urgent("u", 4), running("v", NODES))
    operation, issued = issue_all(begun(view, front), view)
    assert issued == [front]

    first = replace(view, jobs=(replace(urgent("u", 4), prioritised=True), view.jobs[1]))
    assert advance(operation, first, PATIENCE).phase is Phase.CLOSED


def test_an_unchanged_view_changes_nothing() -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    operation, _ = issue_all(operation, holding(running("v", NODES, checkpoint=COMMENTS)))
    view = holding(running("v", NODES, checkpoint=COMMENTS), now_s=1015.0)

    assert advance(operation, view, PATIENCE) is operation


def test_suspended_and_completing_jobs_still_hold_their_nodes() -> None:
    operation = held_operation(requeue("v"))
    operation, _ = issue_all(operation, holding(running("v", NODES)))
    completing = replace(running("v", NODES), state=JobState.COMPLETING)
    operation = advance(operation, holding(completing, now_s=1012.0), PATIENCE)

    assert operation.tasks[-1].progress is Progress.ACCEPTED


def test_a_hold_in_doubt_is_released_all_the_same() -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES))
    operation = issuing(begun(view, reserve(), requeue("v")), 0, view.now_s)
    gone = cluster(4, running("v", NODES), now_s=1001.0, reservations=(held("u", NODES),))
    operation = advance(operation, replace(gone, reservations=()), PATIENCE)

    assert due(operation, gone) == [
        Release(
            job_id="u",
            for_job_id="u",
            policy="test",
            reason=Reason.BORROWER_GONE,
            reservation="mw_u",
        )
    ]
