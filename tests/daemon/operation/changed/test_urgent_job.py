"""The urgent job is changed while others save their work for it: its nodes, its class, its time limit."""

import math
from dataclasses import replace

import pytest

from makeway.daemon.operation.changed.hold_end import LAST_S, LONGEST_S
from makeway.daemon.operation.observation import only_awaits_end
from makeway.daemon.operation.transitions import advance, record
from makeway.daemon.operation.validation import validate
from makeway.policies.common.departures import OVERDUE_S
from makeway.policies.common.holds import shortfall
from makeway.policies.model import (
    Action,
    Cluster,
    Ending,
    Job,
    JobKind,
    JobState,
    Method,
    Operation,
    OperationOutcome,
    Phase,
    Prioritise,
    Progress,
    Reason,
    Release,
    Requeue,
    Reservation,
    Reserve,
)
from tests.builders import held, pending, running
from tests.daemon.acting import (
    COMMENTS,
    NODES,
    PATIENCE,
    begun,
    due,
    held_operation,
    holding,
    issue_all,
    lent_view,
    requeue,
    reserve,
    signal,
)

SAVING = running("v", NODES, checkpoint=COMMENTS)
SAVED = replace(SAVING, last_checkpoint_s=1060.0)


def saving() -> Operation:
    """An operation whose victim is saving its work."""
    operation, issued = issue_all(held_operation(signal("v"), requeue("v", Method.SYSTEM)), holding(SAVING))
    assert issued == [signal("v")]
    return operation


def changed(*others: Job, now_s: float = 1061.0, **changes: object) -> Cluster:
    """The hold is there, and the urgent job is another one."""
    view = holding(*others, now_s=now_s)
    return replace(view, jobs=(replace(view.jobs[0], **changes), *view.jobs[1:]))  # type: ignore[arg-type]


# The nodes on which it may run

ELSEWHERE = frozenset({"n8", "n9"})


def test_no_job_leaves_nodes_on_which_the_urgent_job_may_not_run_any_more() -> None:
    operation = saving()
    view = changed(SAVED, eligible_nodes=ELSEWHERE)
    operation = advance(operation, view, PATIENCE)
    assert due(operation, view) == []
    assert (
        next(task.ending for task in operation.tasks if isinstance(task.action, Requeue)) is Ending.OUTDATED
    )


def test_a_hold_of_such_nodes_is_short_and_goes_back() -> None:
    operation = saving()
    view = changed(SAVED, eligible_nodes=ELSEWHERE)
    assert shortfall(operation, view) == NODES
    operation = advance(operation, view, PATIENCE)
    assert operation.short_since_s == 1061.0
    late = replace(view, now_s=1061.0 + PATIENCE.refused_s)
    operation, issued = issue_all(advance(operation, late, PATIENCE), late)
    assert [type(action) for action in issued] == [Release]


def test_a_hold_that_waits_for_jobs_to_end_is_short_too() -> None:
    """No job was asked to leave, and the nodes are not those of the urgent job any more."""
    view = changed(SAVING, eligible_nodes=None)
    operation, _ = issue_all(begun(replace(view, reservations=()), reserve()), view)
    operation = advance(operation, view, PATIENCE)
    assert operation.short_since_s is None
    assert advance(operation, changed(SAVING, eligible_nodes=ELSEWHERE), PATIENCE).short_since_s == 1061.0


def test_the_nodes_of_a_running_job_are_not_lost() -> None:
    operation = saving()
    view = holding(SAVING)
    runs = replace(running("u", NODES), eligible_nodes=ELSEWHERE)
    assert shortfall(operation, replace(view, jobs=(runs,))) == ()


# Its class


@pytest.mark.parametrize("kind", [JobKind.RIGID, JobKind.MALLEABLE])
def test_what_is_held_goes_back_if_the_job_is_not_urgent_any_more(kind: JobKind) -> None:
    operation = saving()
    view = changed(SAVED, kind=kind)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    validate(operation)
    assert [(type(action), action.reason) for action in issued] == [(Release, Reason.BORROWER_GONE)]
    gone = replace(view, now_s=1070.0, reservations=())
    operation = advance(operation, gone, PATIENCE)
    assert (operation.phase, operation.outcome) == (Phase.CLOSED, OperationOutcome.NOT_STARTED)


def test_a_job_that_has_left_for_it_gets_its_turn() -> None:
    operation, _ = issue_all(held_operation(requeue("v")), holding(SAVING))
    view = changed(pending("v", 4, requeue_count=1), kind=JobKind.RIGID)
    _, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [(type(action), action.job_id) for action in issued] == [(Prioritise, "v")]


def test_a_job_that_runs_keeps_its_nodes_whatever_its_class() -> None:
    operation, _ = issue_all(held_operation(requeue("v")), holding(SAVING))
    view = replace(holding(), jobs=(running("u", NODES, start_s=1020.0),), now_s=1021.0)
    assert advance(operation, view, PATIENCE).phase is Phase.LENT


def test_an_operation_of_observe_mode_ends_too() -> None:
    view = changed(SAVING)
    operation = begun(view, reserve(), requeue("v"), observe=True)
    assert advance(operation, view, PATIENCE).phase is Phase.MAKING_ROOM
    operation = advance(operation, changed(SAVING, kind=JobKind.RIGID), PATIENCE)
    validate(operation)
    assert (operation.phase, operation.outcome) == (Phase.CLOSED, OperationOutcome.NOT_STARTED)


# Its time limit

DAY_S = 86_400.0
HELD = held("u", NODES, end_s=6000.0)


def raised(*others: Job, now_s: float = 1061.0, walltime_s: float = DAY_S, end_s: float = 6000.0) -> Cluster:
    view = changed(*others, now_s=now_s, walltime_s=walltime_s)
    return replace(view, reservations=(replace(HELD, end_s=end_s),))


def test_the_hold_is_lengthened_before_any_job_leaves() -> None:
    operation = saving()
    view = raised(SAVED)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    validate(operation)
    (hold,) = issued
    assert isinstance(hold, Reserve)
    assert hold.nodes == NODES
    # However late the job starts, the hold lasts as long as the job.
    assert 1061.0 + hold.duration_s >= operation.give_up_s + DAY_S

    seen = raised(SAVED, now_s=1062.0, end_s=1061.0 + hold.duration_s)
    assert due(advance(operation, seen, PATIENCE), seen) == [requeue("v", Method.SYSTEM)]


def test_a_hold_that_lasts_long_enough_stays_as_it_is() -> None:
    view = raised(SAVED, walltime_s=4000.0)
    assert due(advance(saving(), view, PATIENCE), view) == [requeue("v", Method.SYSTEM)]


def test_a_longer_hold_that_an_older_view_does_not_show_is_not_asked_for_again() -> None:
    operation, _ = issue_all(advance(saving(), raised(SAVED), PATIENCE), raised(SAVED))
    for now_s in (1063.0, 1070.0, 1061.0 + PATIENCE.settle_s - 1.0):
        old = raised(SAVED, now_s=now_s)
        operation, issued = issue_all(advance(operation, old, PATIENCE), old)
        assert issued == []
    later = raised(SAVED, now_s=1061.0 + PATIENCE.settle_s)
    assert [type(action) for action in due(advance(operation, later, PATIENCE), later)] == [Reserve]


def test_a_hold_that_the_cluster_does_not_lengthen_goes_back() -> None:
    """A maintenance begins before the job could end."""
    operation, view = saving(), raised(SAVED)
    operation, _ = issue_all(advance(operation, view, PATIENCE), view)
    index = next(i for i, task in enumerate(operation.tasks) if isinstance(task.action, Reserve))
    operation = record(operation, index, Progress.REFUSED, 1061.0, "overlaps with maintenance")
    view = raised(SAVED, now_s=1062.0)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [type(action) for action in issued] == [Reserve], "the reason may be over"
    operation = record(operation, index, Progress.REFUSED, 1062.0, "overlaps with maintenance")
    urgent, *others = (view := raised(SAVED, now_s=1063.0)).jobs
    pauses = replace(urgent, blocked_by="its hold, which the cluster has refused 3 times")
    view = replace(view, jobs=(pauses, *others))
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [type(action) for action in issued] == [Release]


def maintained(begins_s: float, *others: Job, walltime_s: float, now_s: float = 1061.0) -> Cluster:
    """The hold ends when the site needs one of its nodes."""
    view = raised(*others, now_s=now_s, walltime_s=walltime_s, end_s=min(6000.0, begins_s))
    site = Reservation(name="maintenance", nodes=NODES[:1], start_s=begins_s, end_s=90_000.0)
    return replace(view, reservations=(*view.reservations, site))


def test_a_hold_is_lengthened_until_the_site_needs_a_node() -> None:
    view = maintained(8000.0, SAVED, walltime_s=6000.0)
    operation, issued = issue_all(advance(saving(), view, PATIENCE), view)
    validate(operation)
    (hold,) = issued
    assert isinstance(hold, Reserve)
    assert (hold.nodes, hold.until_s) == (NODES, 8000.0)
    later = maintained(80_000.0, SAVED, walltime_s=6000.0)
    (hold,) = issue_all(advance(saving(), later, PATIENCE), later)[1]
    assert isinstance(hold, Reserve)
    assert hold.until_s is None


def test_a_hold_that_ends_when_the_site_needs_a_node_stays_as_it_is() -> None:
    view = maintained(5000.0, SAVED, walltime_s=5000.0 - 1061.0)
    assert due(advance(saving(), view, PATIENCE), view) == [requeue("v", Method.SYSTEM)]


def test_no_job_leaves_if_the_urgent_job_would_not_end_before_the_site_needs_a_node() -> None:
    operation = saving()
    view = maintained(5000.0, SAVED, walltime_s=5000.0 - 1060.0)
    assert shortfall(operation, view) == NODES[:1]
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert issued == []
    late_s = 1061.0 + PATIENCE.refused_s
    late = maintained(5000.0, SAVED, walltime_s=5000.0 - 1060.0, now_s=late_s)
    operation, issued = issue_all(advance(operation, late, PATIENCE), late)
    validate(operation)
    assert [type(action) for action in issued] == [Release]


def test_no_hold_is_lengthened_for_a_job_without_a_time_limit() -> None:
    view = raised(SAVED, walltime_s=LONGEST_S + 1.0)
    assert due(advance(saving(), view, PATIENCE), view) == [requeue("v", Method.SYSTEM)]


@pytest.mark.parametrize(("since_s", "lengthened"), [(LONGEST_S - 10 * DAY_S, False), (9 * DAY_S, True)])
def test_no_hold_is_lengthened_to_almost_a_year(since_s: float, lengthened: bool) -> None:
    """The adapter would take it for a reservation of somebody else, which nothing removes."""
    view = raised(SAVED, walltime_s=30 * DAY_S)
    (hold,) = view.reservations
    view = replace(view, reservations=(replace(hold, start_s=view.now_s - since_s),))
    verbs = [action.verb for action in due(advance(saving(), view, PATIENCE), view)]
    assert verbs == (["reserve"] if lengthened else ["requeue"])


@pytest.mark.parametrize(
    ("walltime_s", "overtime_s", "end_s", "size", "released"),
    [
        (DAY_S, 0.0, 6000.0, 4, True),
        (4000.0, 0.0, 6000.0, 4, False),
        (4000.0, DAY_S, 6000.0, 4, False),
        (500.0, DAY_S, 1021.0 + LAST_S, 4, True),
        (500.0, 0.0, 1021.0 + LAST_S, 4, False),
        (math.inf, 0.0, LONGEST_S + DAY_S, 4, False),
        (4000.0, 0.0, 6000.0, 3, True),
    ],
    ids=[
        "raised",
        "ends before",
        "overtime later",
        "overtime",
        "ends soon",
        "without a limit",
        "shrunk",
    ],
)
def test_a_running_job_loses_the_hold_that_would_end_it_or_keep_its_nodes_idle(
    walltime_s: float, overtime_s: float, end_s: float, size: int, released: bool
) -> None:
    """Slurm ends a job that runs in a reservation together with it."""
    operation, _ = issue_all(held_operation(requeue("v")), holding(running("v", NODES)))
    view = lent_view(pending("v", 4, requeue_count=1))
    operation = advance(operation, view, PATIENCE)
    assert operation.phase is Phase.LENT
    runs, lender = view.jobs
    runs = replace(runs, walltime_s=walltime_s, overtime_s=overtime_s, nodes=NODES[:size])
    hold = replace(view.reservations[0], end_s=end_s)
    view = replace(view, jobs=(runs, lender), reservations=(hold,), now_s=1021.0)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    validate(operation)
    assert [type(action) for action in issued] == [Prioritise] * released
    view = replace(view, jobs=(runs, replace(lender, prioritised=True)), now_s=1022.0)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [type(action) for action in issued] == [Release] * released
    assert operation.phase is (Phase.RETURNING if released else Phase.LENT)


LIMIT_S = 1000.0


@pytest.mark.parametrize(
    ("now_s", "overtime_s", "end_s", "released"),
    [
        (LIMIT_S + OVERDUE_S, 0.0, LIMIT_S + LAST_S, True),
        (LIMIT_S + OVERDUE_S, 0.0, LIMIT_S + OVERDUE_S + LAST_S + 1.0, False),
        (LIMIT_S + OVERDUE_S, 5.0, LIMIT_S + LAST_S, False),
        (LIMIT_S + OVERDUE_S - 1.0, 0.0, LIMIT_S + LAST_S, False),
        (LIMIT_S + 5.0, 0.0, LIMIT_S + 10.0, True),
        (LIMIT_S + 4.0, 0.0, LIMIT_S + 10.0, False),
        (LIMIT_S - 1.0, 0.0, LIMIT_S, False),
    ],
    ids=[
        "suspended",
        "for long yet",
        "overtime",
        "at its limit",
        "ends soon",
        "ends soon, at its limit",
        "as long as its job",
    ],
)
def test_a_job_that_was_suspended_loses_the_hold_that_would_end_it(
    now_s: float, overtime_s: float, end_s: float, released: bool
) -> None:
    """Slurm ends others up to half a minute after their limit. What they leave goes back with the hold."""
    operation, _ = issue_all(held_operation(requeue("v")), holding(running("v", NODES)))
    view = lent_view(pending("v", 4, requeue_count=1))
    operation = advance(operation, view, PATIENCE)
    runs = replace(view.jobs[0], start_s=0.0, walltime_s=LIMIT_S, overtime_s=overtime_s)
    hold = replace(view.reservations[0], end_s=end_s)
    view = replace(view, jobs=(runs, view.jobs[1]), reservations=(hold,), now_s=now_s)
    assert advance(operation, view, PATIENCE).phase is (Phase.RETURNING if released else Phase.LENT)


@pytest.mark.parametrize(("state", "released"), [(JobState.RUNNING, True), (JobState.COMPLETING, False)])
def test_the_hold_of_a_job_whose_limit_is_raised_ends_also_when_the_lenders_run_again(
    state: JobState, released: bool
) -> None:
    """Then nothing but its end is waited for. One that is completing is about to end."""
    operation, _ = issue_all(held_operation(requeue("v")), holding(running("v", NODES)))
    view = lent_view(running("v", ("n5",), requeue_count=1))
    for _ in range(2):
        operation = advance(operation, view, PATIENCE)
    assert only_awaits_end(operation)
    runs = replace(view.jobs[0], walltime_s=DAY_S, state=state)
    hold = replace(view.reservations[0], end_s=6000.0)
    view = replace(view, jobs=(runs, *view.jobs[1:]), reservations=(hold,), now_s=1021.0)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [type(action) for action in issued] == [Release] * released
    assert operation.phase is (Phase.RETURNING if released else Phase.LENT)


@pytest.mark.parametrize(
    ("size", "phase", "verbs"),
    [(4, Phase.LENT, []), (3, Phase.RETURNING, [Prioritise]), (1, Phase.RETURNING, [Prioritise])],
)
def test_the_hold_ends_if_the_job_starts_on_fewer_nodes(
    size: int, phase: Phase, verbs: list[type[Action]]
) -> None:
    """The rest of its nodes would be idle until its end; the lender goes first in the queue for them."""
    operation, _ = issue_all(held_operation(requeue("v")), holding(running("v", NODES)))
    view = lent_view(pending("v", 4, requeue_count=1))
    view = replace(view, jobs=(running("u", NODES[:size], start_s=1020.0), *view.jobs[1:]))
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    validate(operation)
    assert operation.phase is phase
    assert [type(action) for action in issued] == verbs
    first = replace(view.jobs[1], prioritised=True)
    view = replace(view, jobs=(view.jobs[0], first), now_s=1021.0)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [type(action) for action in issued] == [Release] * len(verbs)
    assert operation.started_s == 1020.0


def test_a_job_that_starts_before_its_hold_is_moved_has_the_nodes_of_the_earlier_one() -> None:
    """The others are not held for it: they are there for other urgent jobs."""
    operation, _ = issue_all(held_operation(requeue("v")), holding(running("v", NODES)))
    elsewhere = (*NODES[:3], "n9")
    index = next(i for i, task in enumerate(operation.tasks) if isinstance(task.action, Reserve))
    moved = replace(operation.tasks[index], action=replace(reserve(), nodes=elsewhere))
    tasks = (*operation.tasks[:index], moved, *operation.tasks[index + 1 :])
    operation = replace(operation, nodes=elsewhere, tasks=tasks)
    operation = record(operation, index, Progress.GONE, 1019.0, "job u does not wait: it is RUNNING")
    operation = advance(operation, lent_view(pending("v", 4, requeue_count=1)), PATIENCE)
    validate(operation)
    assert (operation.phase, operation.nodes) == (Phase.LENT, NODES)
