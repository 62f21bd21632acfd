"""What was decided is looked at again before each step: the urgent job, its nodes, its time, and how each job
leaves.
"""

from dataclasses import replace

import pytest

from makeway.adapters.site.times import NOT_BEFORE_S
from makeway.daemon.operation.beginning import extend
from makeway.daemon.operation.due import wakeup_s
from makeway.daemon.operation.fitness import STALE_S
from makeway.daemon.operation.transitions import advance, forbid
from makeway.daemon.operation.validation import validate
from makeway.policies.model import (
    Acknowledgement,
    Checkpoint,
    Cluster,
    Ending,
    Job,
    Method,
    Node,
    NodeState,
    Operation,
    OperationOutcome,
    Phase,
    Prioritise,
    Progress,
    Quota,
    Reason,
    Release,
    Requeue,
)
from tests.builders import cluster, held, pending, running, urgent
from tests.daemon.acting import (
    COMMENTS,
    DEADLINE_S,
    NODES,
    PATIENCE,
    begun,
    due,
    held_operation,
    holding,
    issue_all,
    requeue,
    reserve,
    shrink,
    signal,
)

SAVES = (signal("v"), requeue("v", Method.SYSTEM))
SAVING = running("v", NODES, checkpoint=COMMENTS)


def with_urgent(view: Cluster, **changes: object) -> Cluster:
    """The view with another urgent job: the first one, changed."""
    first, *others = view.jobs
    return replace(view, jobs=(replace(first, **changes), *others))  # type: ignore[arg-type]


def with_down(view: Cluster, *names: str, state: NodeState = NodeState.DRAINED) -> Cluster:
    nodes = tuple(replace(node, state=state) if node.name in names else node for node in view.nodes)
    return replace(view, nodes=nodes)


def endings(operation: Operation) -> dict[str, Ending | None]:
    return {task.action.verb: task.ending for task in operation.tasks}


# The urgent job

CANNOT_START: list[dict[str, object]] = [
    {"blocked_by": "its release from a hold (JobHeldUser)"},
    {"blocked_by": "a limit of its QOS (QOSMaxJobsPerUserLimit)"},
    {"eligible_s": NOT_BEFORE_S},
    {"quotas": (Quota(name="running jobs of user beam", needs=1.0, left=0.0),)},
]


@pytest.mark.parametrize("lacks", CANNOT_START, ids=["held", "limit", "begins later", "quota"])
@pytest.mark.parametrize(
    "action", [requeue("v"), shrink("v", ("n1",)), *SAVES[:1]], ids=["kill", "shrink", "signal"]
)
def test_nothing_is_taken_for_a_job_that_cannot_start(action: Requeue, lacks: dict[str, object]) -> None:
    operation = held_operation(action)
    view = with_urgent(holding(SAVING, now_s=1012.0), **lacks)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)

    assert [type(one) for one in issued] == [Release]
    assert issued[0].reason is Reason.BLOCKED
    gone = replace(view, reservations=())
    operation = advance(operation, gone, PATIENCE)
    validate(operation)
    assert (operation.phase, operation.outcome) == (Phase.CLOSED, OperationOutcome.NOT_STARTED)


@pytest.mark.parametrize("lacks", CANNOT_START, ids=["held", "limit", "begins later", "quota"])
def test_a_signalled_job_runs_on_if_the_urgent_job_cannot_start(lacks: dict[str, object]) -> None:
    """It has saved its work, and goes on with it."""
    operation, issued = issue_all(held_operation(*SAVES), holding(SAVING))
    assert issued == [SAVES[0]]
    saved = running("v", NODES, checkpoint=COMMENTS, last_checkpoint_s=1060.0)
    view = with_urgent(holding(saved, now_s=1061.0), **lacks)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)

    assert [type(one) for one in issued] == [Release]
    for now_s in (1062.0, 1400.0, 3000.0):
        later = replace(view, now_s=now_s, reservations=())
        operation = advance(operation, later, PATIENCE)
        assert due(operation, later) == []
    assert operation.phase is Phase.CLOSED


def test_a_job_that_the_arbiter_forbade_to_signal_does_not_leave() -> None:
    """The circuit breaker was open when the signal was due, and is closed when the time is up."""
    operation = held_operation(*SAVES)
    index = next(i for i, task in enumerate(operation.tasks) if isinstance(task.action, Checkpoint))
    operation = forbid(operation, index, 1011.0, "the circuit breaker is open")
    for now_s in (1012.0, DEADLINE_S - 1.0, DEADLINE_S + 1.0):
        view = holding(SAVING, now_s=now_s)
        operation, issued = issue_all(advance(operation, view, PATIENCE), view)
        validate(operation)
        assert not any(isinstance(action, Requeue) for action in issued)
    assert endings(operation)["requeue"] is Ending.OUTDATED


REQUEUES = replace(COMMENTS, acknowledgement=Acknowledgement.REQUEUE)


def turned_back_while_saving() -> tuple[Operation, Cluster]:
    """An operation that gives back just after it has signalled a job that requeues itself."""
    saving = running("v", NODES, checkpoint=REQUEUES)
    operation, _ = issue_all(held_operation(*SAVES, spec=REQUEUES), holding(saving))
    view = with_urgent(holding(saving, now_s=1030.0), **CANNOT_START[0])
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [type(one) for one in issued] == [Release]
    return operation, replace(view, reservations=())


def test_a_job_that_requeues_itself_at_the_signal_gets_its_turn() -> None:
    operation, view = turned_back_while_saving()
    left = replace(view, now_s=1040.0, jobs=(view.jobs[0], pending("v", 4, requeue_count=1)))
    operation, issued = issue_all(advance(operation, left, PATIENCE), left)
    assert [(type(one), one.job_id) for one in issued] == [(Prioritise, "v")]
    again = replace(left, now_s=1050.0, jobs=(view.jobs[0], running("v", NODES, requeue_count=1)))
    operation = advance(operation, again, PATIENCE)
    validate(operation)
    assert operation.phase is Phase.CLOSED


def test_a_job_that_does_not_requeue_itself_runs_on() -> None:
    operation, view = turned_back_while_saving()
    for now_s, phase in ((1309.0, Phase.RETURNING), (1310.0, Phase.CLOSED)):
        later = replace(view, now_s=now_s)
        operation = advance(operation, later, PATIENCE)
        validate(operation)
        assert (operation.phase, due(operation, later)) == (phase, [])


def test_a_lender_gets_its_turn_if_the_urgent_job_cannot_start() -> None:
    operation, _ = issue_all(held_operation(requeue("v")), holding(SAVING))
    lender = pending("v", 4, requeue_count=1)
    view = with_urgent(holding(lender, now_s=1015.0), **CANNOT_START[0])
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert [(type(one), one.job_id) for one in issued] == [(Prioritise, "v")]

    front = replace(view, now_s=1016.0, jobs=(view.jobs[0], replace(lender, prioritised=True)))
    operation, issued = issue_all(advance(operation, front, PATIENCE), front)
    assert [type(one) for one in issued] == [Release]

    again = replace(front, jobs=(view.jobs[0], running("v", NODES, requeue_count=1)), reservations=())
    assert advance(operation, again, PATIENCE).phase is Phase.CLOSED


def test_a_job_that_may_start_a_little_later_keeps_its_nodes_and_takes_nothing_yet() -> None:
    operation = held_operation(requeue("v"))
    view = with_urgent(holding(SAVING), eligible_s=1100.0)
    operation = advance(operation, view, PATIENCE)
    assert operation.phase is Phase.MAKING_ROOM
    assert due(operation, view) == []
    assert due(operation, replace(view, now_s=1100.0)) == [requeue("v")]


def test_nothing_is_taken_before_the_cluster_has_looked_at_the_job() -> None:
    """A job that was bound a moment ago waits for no reason: it may lack a licence, or be over a limit."""
    operation = held_operation(*SAVES)
    view = with_urgent(holding(SAVING, now_s=1011.0), examined=False)
    operation = advance(operation, view, PATIENCE)
    assert due(operation, view) == []
    assert wakeup_s(operation, 1011.0, PATIENCE) == 1012.0
    looked = with_urgent(holding(SAVING, now_s=1012.0))
    assert due(operation, looked) == [SAVES[0]]


def test_a_cluster_that_never_says_why_the_job_waits_is_not_waited_for() -> None:
    operation = held_operation(*SAVES)
    view = with_urgent(holding(SAVING, now_s=1010.0 + PATIENCE.settle_s), examined=False)
    assert due(advance(operation, view, PATIENCE), view) == [SAVES[0]]


def test_an_operation_is_not_over_before_the_cluster_has_looked_at_the_released_job() -> None:
    operation = held_operation(requeue("v"))
    view = with_urgent(holding(SAVING, now_s=1012.0), **CANNOT_START[1])
    operation, _ = issue_all(advance(operation, view, PATIENCE), view)
    unknown = with_urgent(replace(view, now_s=1013.0, reservations=()), blocked_by="", examined=False)
    operation = advance(operation, unknown, PATIENCE)
    assert operation.phase is Phase.RETURNING
    assert wakeup_s(operation, 1013.0, PATIENCE) == 1013.0 + PATIENCE.settle_s

    assert advance(operation, with_urgent(unknown, examined=True), PATIENCE).phase is Phase.CLOSED
    long_after = replace(unknown, now_s=1013.0 + PATIENCE.settle_s)
    assert advance(operation, long_after, PATIENCE).phase is Phase.CLOSED


# Its nodes


TWO = (running("v", ("n1", "n2")), running("w", ("n3", "n4")))


def held_on_two_jobs() -> Operation:
    """An operation whose hold was seen, and which two jobs have to leave."""
    view = cluster(4, urgent("u", 4), *TWO)
    operation, _ = issue_all(begun(view, reserve(), requeue("v"), requeue("w")), view)
    return advance(operation, holding(*TWO), PATIENCE)


def test_nobody_leaves_a_node_that_was_drained() -> None:
    operation = held_on_two_jobs()
    view = with_down(holding(*TWO, now_s=1012.0), "n3", "n4")
    operation = advance(operation, view, PATIENCE)

    assert due(operation, view) == []
    # No job was asked yet: the policy may choose others for all nodes.
    assert [task.ending for task in operation.tasks[1:]] == [Ending.OUTDATED, Ending.OUTDATED]
    assert operation.short_since_s == 1012.0


def test_who_is_on_none_of_the_new_nodes_stays() -> None:
    view = replace(holding(*TWO, running("x", ("n5", "n6")), now_s=1012.0), nodes=cluster(6).nodes)
    operation = held_on_two_jobs()
    nodes = ("n1", "n2", "n5", "n6")
    operation = extend(
        operation, (reserve(nodes), requeue("x")), view, deadline_s=DEADLINE_S, timeouts=PATIENCE
    )
    operation, _ = issue_all(operation, view)
    seen = replace(view, reservations=(held("u", nodes),))
    operation, issued = issue_all(advance(operation, seen, PATIENCE), seen)
    assert issued == [requeue("v"), requeue("x")]


def test_a_hold_that_stays_short_goes_back() -> None:
    operation = held_operation(requeue("v"))
    view = with_down(holding(SAVING, now_s=1012.0), "n4")
    operation = advance(operation, view, PATIENCE)
    assert (operation.phase, due(operation, view)) == (Phase.MAKING_ROOM, [])
    assert wakeup_s(operation, 1012.0, PATIENCE) == 1012.0 + PATIENCE.refused_s

    late = replace(view, now_s=1012.0 + PATIENCE.refused_s)
    assert [type(one) for one in due(advance(operation, late, PATIENCE), late)] == [Release]


def test_a_node_that_comes_back_is_waited_for() -> None:
    operation, issued = issue_all(held_operation(*SAVES), holding(SAVING))
    assert issued == [SAVES[0]]
    view = with_down(holding(SAVING, now_s=1012.0), "n4", state=NodeState.DOWN)
    operation = advance(operation, view, PATIENCE)
    assert operation.short_since_s == 1012.0
    back = holding(replace(SAVING, last_checkpoint_s=1039.0), now_s=1040.0)
    operation = advance(operation, back, PATIENCE)
    assert operation.short_since_s is None
    assert due(operation, back) == [SAVES[1]]


# Silence


def after_silence(operation: Operation, job: Job, now_s: float) -> tuple[Operation, Cluster]:
    view = holding(job, now_s=now_s)
    return advance(operation, view, PATIENCE), view


def test_a_signalled_job_has_its_whole_grace_however_late_the_signal_was() -> None:
    """The signal was 100 s late: 300 s after the decision the job is still saving."""
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM, not_after_s=1300.0))
    view = holding(SAVING, now_s=1100.0)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert issued == [signal("v")]

    for now_s, leaves in ((1300.0, False), (1399.0, False), (1400.0, True)):
        operation, view = after_silence(operation, SAVING, now_s)
        assert bool(due(operation, view)) is leaves, now_s


@pytest.mark.parametrize("now_s", [1000.0 + STALE_S + 1.0, 1900.0])
@pytest.mark.parametrize("actions", [SAVES, (requeue("v"),)], ids=["save", "kill"])
def test_what_was_not_begun_in_time_is_decided_again(actions: tuple[Requeue, ...], now_s: float) -> None:
    """No signal and requeue in the same second, and no kill for a job that is late anyway."""
    operation, view = after_silence(held_operation(*actions), SAVING, now_s)
    assert due(operation, view) == []
    assert set(endings(operation).values()) == {Ending.SEEN, Ending.OUTDATED}
    validate(operation)


def test_a_silence_that_was_short_changes_nothing() -> None:
    operation, view = after_silence(held_operation(*SAVES), SAVING, 1000.0 + STALE_S)
    assert due(operation, view) == [SAVES[0]]


def test_a_job_that_saved_long_ago_does_not_leave() -> None:
    """It went on working: a requeue would now lose what it has done since."""
    operation, _ = issue_all(held_operation(*SAVES), holding(SAVING))
    saved = running("v", NODES, checkpoint=COMMENTS, last_checkpoint_s=1060.0)
    operation, view = after_silence(operation, saved, 1900.0)
    assert due(operation, view) == []
    assert endings(operation)["checkpoint"] is Ending.ACKNOWLEDGED
    assert endings(operation)["requeue"] is Ending.OUTDATED


def test_a_regular_checkpoint_of_long_ago_does_not_let_a_job_leave() -> None:
    operation = held_operation(requeue("v", Method.APPLICATION))
    saved = running("v", NODES, checkpoint=COMMENTS, last_checkpoint_s=1060.0)
    operation, view = after_silence(operation, saved, 1500.0)
    assert due(operation, view) == []
    assert endings(operation)["requeue"] is Ending.OUTDATED


@pytest.mark.parametrize("signalled", [True, False])
def test_a_job_that_has_not_saved_does_not_leave_for_one_that_is_late(signalled: bool) -> None:
    """The least loss decides: the urgent job is late anyway."""
    leaves = requeue("v", Method.SYSTEM if signalled else Method.APPLICATION)
    operation = held_operation(*((signal("v"), leaves) if signalled else (leaves,)))
    operation, _ = issue_all(operation, holding(SAVING))
    operation, view = after_silence(operation, SAVING, DEADLINE_S + STALE_S + 1.0)
    assert due(operation, view) == []
    assert endings(operation)["requeue"] is Ending.OUTDATED


def test_a_job_that_is_saving_for_one_that_is_late_leaves_once_it_has_saved() -> None:
    operation = held_operation(*SAVES)
    now_s = 1000.0 + STALE_S
    view = holding(SAVING, now_s=now_s)
    slow = replace(advance(operation, view, PATIENCE), deadline_s=now_s + 100.0)
    operation, _ = issue_all(slow, view)
    saved = running("v", NODES, checkpoint=COMMENTS, last_checkpoint_s=now_s + 250.0)
    operation, view = after_silence(operation, saved, now_s + 251.0)
    assert due(operation, view) == [SAVES[1]]


def test_a_hold_that_could_not_be_made_is_decided_again() -> None:
    view = cluster(4, urgent("u", 4), SAVING, reservations=(held("other", ("n1",)),))
    operation = begun(view, reserve(), requeue("v"))
    waits = replace(view, now_s=1000.0 + STALE_S)
    operation = advance(operation, waits, PATIENCE)
    assert (operation.phase, due(operation, waits)) == (Phase.MAKING_ROOM, [])
    late = replace(view, now_s=1000.0 + STALE_S + 1.0)
    assert advance(operation, late, PATIENCE).phase is Phase.CLOSED


def test_a_requeue_that_the_controller_forgot_is_done_again_however_late() -> None:
    """The job is in the run that it had left: only the controller's memory is wrong."""
    operation, _ = issue_all(held_operation(requeue("v")), holding(SAVING))
    left = holding(pending("v", 4, requeue_count=1), now_s=1900.0)
    operation = advance(operation, left, PATIENCE)
    forgotten = holding(running("v", NODES), now_s=1910.0)
    operation, issued = issue_all(advance(operation, forgotten, PATIENCE), forgotten)
    assert [(type(one), one.job_id) for one in issued] == [(Requeue, "v")]


def test_a_new_decision_signals_again() -> None:
    operation, _ = issue_all(held_operation(*SAVES), holding(SAVING))
    saved = running("v", NODES, checkpoint=COMMENTS, last_checkpoint_s=1060.0)
    operation, view = after_silence(operation, saved, 1900.0)
    operation = extend(operation, (reserve(), *SAVES), view, deadline_s=2400.0, timeouts=PATIENCE)
    operation, _ = issue_all(operation, view)
    operation, issued = issue_all(advance(operation, view, PATIENCE), view)
    assert issued == [SAVES[0]]
    assert [task.progress for task in operation.tasks if isinstance(task.action, Checkpoint)] == [
        Progress.DONE,
        Progress.ACCEPTED,
    ]


def test_nodes_that_are_not_held_do_not_count() -> None:
    """A node outside of the hold may be in any state."""
    operation = held_operation(requeue("v"))
    view = holding(SAVING, now_s=1012.0)
    view = replace(view, nodes=(*view.nodes, Node(name="n9", state=NodeState.DOWN)))
    assert due(advance(operation, view, PATIENCE), view) == [requeue("v")]
