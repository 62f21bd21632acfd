"""The life of an operation, told as snapshots in and due tasks out."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.beginning import extend
from makeway.daemon.operation.due import awaits_regular_checkpoint, next_due, wakeup_s
from makeway.daemon.operation.returns import leases
from makeway.daemon.operation.transitions import advance, issuing, record
from makeway.policies.model import (
    VERBS,
    Checkpoint,
    Ending,
    Expand,
    Job,
    JobState,
    Method,
    NodeState,
    Operation,
    Phase,
    Prioritise,
    Progress,
    Reason,
    Release,
    Requeue,
    Reservation,
)
from tests.builders import cluster, held, node_names, pending, running, urgent
from tests.daemon.acting import (
    COMMENTS,
    DEADLINE_S,
    NODES,
    PATIENCE,
    after_view,
    begun,
    due,
    held_operation,
    holding,
    issue_all,
    lent_operation,
    lent_view,
    requeue,
    reserve,
    shrink,
    signal,
)


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


def test_while_a_signalled_job_saves_time_alone_makes_nothing_due_before_its_grace_is_over() -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    operation, _ = issue_all(operation, holding(running("v", NODES, checkpoint=COMMENTS)))

    assert wakeup_s(operation, 1010.0, PATIENCE) == 1310.0


def test_the_effect_of_a_command_is_looked_for_when_it_should_have_settled() -> None:
    operation, _ = issue_all(held_operation(requeue("v")), holding(running("v", NODES)))
    assert wakeup_s(operation, 1010.0, PATIENCE) == 1010.0 + PATIENCE.settle_s


def test_what_leaves_at_the_end_of_its_grace_has_not_requeued_itself() -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM, not_after_s=1200.0))
    victim = running("v", NODES, checkpoint=COMMENTS)
    operation, _ = issue_all(operation, holding(victim))
    late = holding(victim, now_s=1310.0)
    operation, issued = issue_all(advance(operation, late, PATIENCE), late)
    assert issued == [requeue("v", Method.SYSTEM, not_after_s=1200.0)]
    asked = next(task for task in operation.tasks if isinstance(task.action, Checkpoint))
    assert (asked.progress, asked.ending) == (Progress.DONE, Ending.UNACKNOWLEDGED)


def test_at_the_latest_moment_a_job_leaves_that_waited_for_its_regular_checkpoint() -> None:
    leaves = requeue("v", Method.APPLICATION, not_after_s=1200.0)
    operation = held_operation(leaves)
    victim = running("v", NODES, checkpoint=COMMENTS)
    operation, _ = issue_all(operation, holding(victim))

    early, late = holding(victim, now_s=1199.0), holding(victim, now_s=1200.0)
    assert due(advance(operation, early, PATIENCE), early) == []
    assert due(advance(operation, late, PATIENCE), late) == [leaves]


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

    # What has ended is put back only if the signal has ended it: the adapter looks.
    assert all(isinstance(action, Requeue) and action.ended_by for action in due(operation, view))
    assert bool(due(operation, view)) is (left is None)
    assert operation.tasks[2].progress in {Progress.DONE, Progress.GONE}


def test_while_the_urgent_job_runs_nothing_is_due_and_the_lease_stands() -> None:
    operation = lent_operation(requeue("v"))

    assert operation.phase is Phase.LENT
    assert operation.started_s == 1020.0
    assert due(operation, lent_view()) == []
    (lease,) = leases(operation, lent_view())
    assert (lease.lender_job_id, lease.borrower_job_id, lease.nodes) == ("v", "u", NODES)


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


def shrunk_operation() -> Operation:
    """An operation whose urgent job runs on the last three nodes, which `v` gave up."""
    action = shrink("v", ("n1",))
    view = replace(
        holding(running("v", NODES)), jobs=(urgent("u", 3, reservation="mw_u"), running("v", NODES))
    )
    operation, issued = issue_all(held_operation(action), view)
    assert issued == [action]
    return advance(operation, lent_view(running("v", ("n1",))), PATIENCE)


def test_a_shrunk_lender_grows_back_before_the_hold_ends() -> None:
    operation = shrunk_operation()
    view = after_view(running("v", ("n1",)))
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)

    assert [type(action) for action in issued] == [Expand, Release]
    assert isinstance(issued[0], Expand)
    assert issued[0].nodes == ("n2", "n3", "n4")

    grown = after_view(running("v", NODES), reservations=False)
    assert advance(operation, grown, PATIENCE).phase is Phase.CLOSED


@pytest.mark.parametrize("why", ["drained", "another job", "another reservation", "maintenance"])
def test_a_shrunk_lender_gets_no_node_that_is_not_to_be_had(why: str) -> None:
    view = after_view(running("v", ("n1",)))
    if why == "drained":
        drained = replace(view.nodes[2], state=NodeState.DRAINED)
        view = replace(view, nodes=(*view.nodes[:2], drained, view.nodes[3]))
    elif why == "another job":
        view = replace(view, jobs=(*view.jobs, running("w", ("n3",))))
    elif why == "maintenance":
        view = replace(view, reservations=(*view.reservations, maintenance(35_999.0)))
    else:
        view = replace(view, reservations=(*view.reservations, held("w", ("n3",))))
    (expand, _) = due(advance(shrunk_operation(), view, PATIENCE), view)
    assert isinstance(expand, Expand)
    assert expand.nodes == ("n2", "n4")


def maintenance(begins_s: float) -> Reservation:
    """The time limit of the lender ends 36,000 s after its start."""
    return Reservation(name="site", nodes=("n3",), start_s=begins_s, end_s=begins_s + 3600.0)


@pytest.mark.parametrize("begins_s", [36_000.0, 1e6, -1e4])
def test_a_shrunk_lender_gets_nodes_that_the_site_reserves_only_after_its_end(begins_s: float) -> None:
    """Most of the time some maintenance is planned."""
    view = after_view(running("v", ("n1",)))
    view = replace(view, reservations=(*view.reservations, maintenance(begins_s)))
    (expand, _) = due(advance(shrunk_operation(), view, PATIENCE), view)
    assert isinstance(expand, Expand)
    assert expand.nodes == ("n2", "n3", "n4")


@pytest.mark.parametrize("held_still", [True, False])
def test_a_shrunk_lender_grows_in_the_hold_while_there_is_one(held_still: bool) -> None:
    view = after_view(running("v", ("n1",)), reservations=held_still)
    expand, *_ = due(advance(shrunk_operation(), view, PATIENCE), view)
    assert isinstance(expand, Expand)
    assert expand.reservation == ("mw_u" if held_still else None)


def test_where_jobs_cannot_grow_the_hold_just_ends() -> None:
    operation = shrunk_operation()
    view = replace(after_view(running("v", ("n1",))), actions=VERBS - {"expand"})

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


def test_an_urgent_job_that_never_starts_is_given_up() -> None:
    operation = held_operation(requeue("v"))
    view = holding(pending("v", 4, requeue_count=1), now_s=DEADLINE_S + PATIENCE.give_up_after_s)

    assert [type(action) for action in due(advance(operation, view, PATIENCE), view)] == [Prioritise]


def test_a_hold_that_was_refused_ends_the_operation_after_a_while() -> None:
    view = cluster(4, urgent("u", 4), running("v", NODES))
    operation = record(issuing(begun(view, reserve(), requeue("v")), 0, 1000.0), 0, Progress.REFUSED, 1000.0)

    assert advance(operation, replace(view, now_s=1059.0), PATIENCE).phase is Phase.MAKING_ROOM
    assert wakeup_s(operation, 1030.0, PATIENCE) == 1060.0
    assert advance(operation, replace(view, now_s=1060.0), PATIENCE).phase is Phase.CLOSED


def test_a_new_hold_replaces_the_old_one() -> None:
    operation = held_operation(requeue("v"))
    other = ("n1", "n2", "n3", "n5")
    view = replace(holding(running("v", NODES), running("w", ("n5",))), now_s=1020.0, nodes=cluster(5).nodes)
    operation = extend(
        operation, (reserve(other), requeue("w")), view, deadline_s=DEADLINE_S, timeouts=PATIENCE
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
