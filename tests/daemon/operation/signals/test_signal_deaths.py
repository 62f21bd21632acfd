"""A job that vanishes after makeway's signal: the signal may have ended it, and then it is put back."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.due import next_due
from makeway.daemon.operation.tasks import naming_its_run
from makeway.daemon.operation.transitions import advance, forbid, issuing, record
from makeway.daemon.operation.validation import validate
from makeway.policies.model import (
    Action,
    Cancel,
    Cluster,
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
    RunIdentity,
)
from tests.builders import cluster, node_names, pending, running, urgent
from tests.daemon.acting import (
    COMMENTS,
    NODES,
    PATIENCE,
    after_view,
    begun,
    held_operation,
    holding,
    issue_all,
    lent_view,
    requeue,
    reserve,
    signal,
)


def signalled() -> Operation:
    """`v` was signalled at 1010 s, and the cluster has accepted that."""
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    operation, issued = issue_all(operation, holding(running("v", NODES, checkpoint=COMMENTS)))
    assert issued == [signal("v")]
    return operation


def due_after(operation: Operation, view: Cluster) -> tuple[Operation, list[Action]]:
    operation = advance(operation, view, PATIENCE)
    validate(operation)
    return issue_all(operation, view)


def puts_back(issued: list[Action]) -> list[str]:
    return [action.job_id for action in issued if isinstance(action, Requeue) and action.ended_by == "USR1"]


def test_a_job_that_vanishes_after_the_signal_is_put_back_once() -> None:
    operation, issued = due_after(signalled(), holding(now_s=1015.0))
    assert puts_back(issued) == ["v"]
    (put_back,) = (task for task in operation.tasks if task.puts_back)
    assert put_back.action.reason is Reason.ENDED_BY_SIGNAL
    named = naming_its_run(put_back)
    assert isinstance(named, Requeue)
    assert named.run == RunIdentity(requeue_count=0, start_s=0.0)
    for now_s in (1016.0, 1030.0, 1200.0):
        waits = holding(pending("v", 4, requeue_count=1), now_s=now_s)
        operation, issued = due_after(operation, waits)
        assert issued == []


@pytest.mark.parametrize("starts_first", [True, False])
def test_it_is_put_back_at_once_even_if_the_urgent_job_runs(starts_first: bool) -> None:
    """Slurm forgets it after some minutes, and the urgent job may run for hours."""
    view = lent_view(urgent("other", 1)) if starts_first else lent_view(urgent("other", 1), now_s=1030.0)
    operation = signalled() if starts_first else advance(signalled(), holding(now_s=1015.0), PATIENCE)
    operation, issued = due_after(operation, view)
    assert operation.phase is Phase.LENT
    assert puts_back(issued) == ["v"]


def test_it_gets_its_turn_when_the_nodes_come_back() -> None:
    operation, _ = due_after(signalled(), holding(now_s=1015.0))
    waits = pending("v", 4, requeue_count=1)
    operation, _ = due_after(operation, lent_view(waits))
    operation, issued = due_after(operation, after_view(waits))
    assert [type(action) for action in issued] == [Prioritise]
    assert issued[0].job_id == "v"


def test_a_job_that_left_by_itself_is_over() -> None:
    operation = advance(signalled(), holding(now_s=1015.0), PATIENCE)
    index = next_due(operation, holding(now_s=1015.0), PATIENCE)
    assert index is not None
    operation = record(issuing(operation, index, 1015.0), index, Progress.GONE, 1015.0, "COMPLETED, 0:0")
    for now_s in (1016.0, 1100.0):
        operation, issued = due_after(operation, holding(now_s=now_s))
        assert issued == []


def test_it_is_put_back_although_the_urgent_job_is_gone_too() -> None:
    view = replace(holding(now_s=1015.0), jobs=())
    operation, issued = due_after(signalled(), view)
    assert operation.phase is Phase.RETURNING
    assert puts_back(issued) == ["v"]
    assert [type(action) for action in issued] == [Requeue], "the hold is kept until it is known"
    waits = pending("v", 4, requeue_count=1)
    operation, issued = due_after(operation, replace(view, jobs=(waits,), now_s=1017.0))
    assert [type(action) for action in issued] == [Prioritise]
    front = replace(waits, prioritised=True)
    operation, issued = due_after(operation, replace(view, jobs=(front,), now_s=1018.0))
    assert [type(action) for action in issued] == [Release]


def test_a_job_that_a_command_has_stopped_is_no_matter_of_the_signal() -> None:
    operation = signalled()
    saved = running("v", NODES, checkpoint=COMMENTS, last_checkpoint_s=1011.0)
    operation, issued = due_after(operation, holding(saved, now_s=1012.0))
    assert [type(action) for action in issued] == [Requeue]
    _, issued = due_after(operation, holding(now_s=1013.0))
    assert puts_back(issued) == []


def test_a_job_that_ends_long_after_its_signal_is_over() -> None:
    view = holding(running("v", NODES, checkpoint=COMMENTS), now_s=1400.0)
    operation = advance(signalled(), view, PATIENCE)  # the grace is over
    _, issued = due_after(operation, holding(now_s=1470.0))
    assert puts_back(issued) == []


def test_a_job_that_was_not_signalled_is_over() -> None:
    _, issued = due_after(held_operation(requeue("v")), holding(now_s=1015.0))
    assert puts_back(issued) == []


def test_a_job_that_vanishes_before_its_signal_was_sent_is_over() -> None:
    """Nothing of makeway's has ended it."""
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    _, issued = due_after(operation, holding(now_s=1015.0))
    assert puts_back(issued) == []


def test_a_job_that_vanishes_after_its_cancellation_is_over() -> None:
    """It was signalled first, and was to be cancelled when its grace was over."""
    cancels = Cancel(
        job_id="v",
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.SYSTEM,
        not_after_s=1100.0,
    )
    operation = held_operation(signal("v"), cancels)
    lender = running("v", NODES, checkpoint=COMMENTS)
    operation, issued = issue_all(operation, holding(lender))
    assert issued == [signal("v")]
    operation, issued = due_after(operation, holding(lender, now_s=1310.0))
    assert issued == [cancels]
    _, issued = due_after(operation, holding(now_s=1315.0))
    assert issued == []


def two_lenders(*actions: Action) -> tuple[Operation, Job, Job]:
    """An operation whose hold was seen at 1010 s, with `v` and `w` on two nodes each."""
    v, w = (running(name, NODES[at : at + 2], checkpoint=COMMENTS) for name, at in (("v", 0), ("w", 2)))
    view = cluster(4, urgent("u", 4), v, w)
    operation, _ = issue_all(begun(view, reserve(), *actions), view)
    return advance(operation, holding(v, w), PATIENCE), v, w


def test_the_requeue_of_another_job_does_not_explain_why_one_vanished() -> None:
    operation, v, w = two_lenders(
        signal("v"), signal("w"), requeue("v", Method.SYSTEM), requeue("w", Method.SYSTEM)
    )
    operation, issued = issue_all(operation, holding(v, w))
    assert issued == [signal("v"), signal("w")]
    saved = replace(v, last_checkpoint_s=1012.0)
    operation, issued = due_after(operation, holding(saved, w, now_s=1015.0))
    assert issued == [requeue("v", Method.SYSTEM)]
    _, issued = due_after(operation, holding(pending("v", 2, requeue_count=1), now_s=1020.0))
    assert puts_back(issued) == ["w"]


def test_each_of_two_jobs_whose_requeues_are_in_doubt_is_put_back() -> None:
    operation, v, w = two_lenders(requeue("v"), requeue("w"))
    for index in (at for at, task in enumerate(operation.tasks) if isinstance(task.action, Requeue)):
        operation = issuing(operation, index, 1010.0)
    for lenders, now_s, expected in (((v, w), 1011.0, []), ((w,), 1015.0, ["v"]), ((), 1016.0, ["w"])):
        operation, issued = due_after(operation, holding(*lenders, now_s=now_s))
        assert [action.job_id for action in issued if isinstance(action, Requeue)] == expected


@pytest.mark.parametrize("repeated", [True, False])
def test_a_job_that_ends_in_its_next_run_is_over_though_its_requeue_was_in_doubt(repeated: bool) -> None:
    operation = in_doubt(requeue("v"))
    if repeated:
        old = holding(running("v", NODES, checkpoint=COMMENTS), now_s=1045.0)
        operation, issued = due_after(operation, old)
        assert issued == [requeue("v")]
    again = running("v", node_names(4, first=5), requeue_count=1, start_s=1050.0)
    operation, _ = due_after(operation, holding(again, now_s=1050.0))
    _, issued = due_after(operation, holding(now_s=1060.0))
    assert issued == []


def in_doubt(*actions: Action) -> Operation:
    """The requeue of `v` was written down at 1010 s, and no answer after it."""
    operation = held_operation(*actions)
    view = holding(running("v", NODES, checkpoint=COMMENTS))
    if len(actions) > 1:
        operation, _ = issue_all(operation, view)
        view = holding(running("v", NODES, checkpoint=COMMENTS, last_checkpoint_s=1011.0), now_s=1011.0)
        operation = advance(operation, view, PATIENCE)
    index = next_due(operation, view, PATIENCE)
    assert index is not None
    assert isinstance(operation.tasks[index].action, Requeue)
    return issuing(operation, index, view.now_s)


@pytest.mark.parametrize("now_s", [1015.0, 1200.0])
@pytest.mark.parametrize("signalled_first", [False, True])
def test_a_job_that_vanishes_before_its_requeue_is_answered_is_put_back_once(
    now_s: float, signalled_first: bool
) -> None:
    """slurmctld may have carried it out, and may have been killed before it saved that."""
    actions = (signal("v"), requeue("v", Method.SYSTEM)) if signalled_first else (requeue("v"),)
    operation, issued = due_after(in_doubt(*actions), holding(now_s=now_s))
    (put_back,) = (task for task in operation.tasks if task.puts_back)
    assert issued == [put_back.action]
    assert isinstance(put_back.action, Requeue)
    assert put_back.action.ended_by in {"TERM", "USR1"}
    named = naming_its_run(put_back)
    assert isinstance(named, Requeue)
    assert named.run == RunIdentity(requeue_count=0, start_s=0.0)
    for later_s in (1.0, 20.0, 200.0):
        waits = holding(pending("v", 4, requeue_count=1), now_s=now_s + later_s)
        operation, issued = due_after(operation, waits)
        assert issued == []
    operation, _ = due_after(operation, lent_view(waits.jobs_by_id()["v"], now_s=now_s + 201.0))
    operation, issued = due_after(operation, after_view(waits.jobs_by_id()["v"]))
    assert [(type(action), action.job_id) for action in issued] == [(Prioritise, "v")]


def test_a_job_whose_requeue_the_cluster_refused_as_over_is_over() -> None:
    view = holding(running("v", NODES, checkpoint=COMMENTS))
    operation = in_doubt(requeue("v"))
    (index,) = (at for at, task in enumerate(operation.tasks) if task.progress is Progress.ISSUING)
    operation = record(operation, index, Progress.GONE, view.now_s, "job v is over")
    _, issued = due_after(operation, holding(now_s=1015.0))
    assert issued == []


@pytest.mark.parametrize("repeated", [True, False])
def test_a_job_that_vanishes_once_its_requeue_in_doubt_is_over_is_looked_at(repeated: bool) -> None:
    """An old view showed it running. The repetition finds it over; or the requeue may not be repeated, and is
    carried out late.
    """
    old = holding(running("v", NODES, checkpoint=COMMENTS), now_s=1045.0)
    operation = advance(in_doubt(requeue("v")), old, PATIENCE)
    index = next_due(operation, old, PATIENCE)
    assert index is not None
    assert operation.tasks[index].action == requeue("v")
    if repeated:
        operation = record(issuing(operation, index, 1045.0), index, Progress.GONE, 1045.0, "job v is over")
    else:
        operation = forbid(operation, index, 1045.0, "5 commands failed within 3600 s")
    operation, issued = due_after(operation, old)
    assert issued == [], "it is not known yet that it has vanished"
    operation, issued = due_after(operation, holding(now_s=1050.0))
    assert [action.ended_by for action in issued if isinstance(action, Requeue)] == ["TERM"]
    _, issued = due_after(operation, holding(pending("v", 4, requeue_count=1), now_s=1055.0))
    assert issued == []


@pytest.mark.parametrize("vanishes", [True, False])
def test_an_operation_watches_the_job_of_a_requeue_in_doubt_that_it_drops(vanishes: bool) -> None:
    """A view from before the requeue still shows the job when all has gone back."""
    operation = in_doubt(requeue("v"))
    for now_s in (1045.0, 1100.0):
        view = after_view(running("v", NODES, checkpoint=COMMENTS), reservations=False, now_s=now_s)
        operation, issued = due_after(operation, view)
        assert issued == []
        assert operation.phase is Phase.RETURNING
    view = after_view(*(() if vanishes else view.jobs), reservations=False, now_s=1106.0)
    operation, issued = due_after(operation, view)
    assert (operation.phase is Phase.CLOSED) is not vanishes
    assert [action.ended_by for action in issued if isinstance(action, Requeue)] == ["TERM"] * vanishes


def test_a_requeue_in_doubt_is_not_repeated_while_its_job_completes() -> None:
    """The repetition would find the job over, and makeway would take that for its own end."""
    completes = replace(running("v", NODES), state=JobState.COMPLETING)
    operation = in_doubt(requeue("v"))
    for now_s in (1020.0, 1045.0, 1090.0):
        operation, issued = due_after(operation, holding(completes, now_s=now_s))
        assert issued == []
    _, issued = due_after(operation, holding(now_s=1100.0))
    assert [action.ended_by for action in issued if isinstance(action, Requeue)] == ["TERM"]
