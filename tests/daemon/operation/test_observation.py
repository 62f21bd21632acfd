"""What a snapshot shows of a single task."""

from dataclasses import replace

import pytest

from makeway.daemon.operation.observation import observe, observe_all
from makeway.policies.model import (
    Action,
    Ending,
    Expand,
    Job,
    Method,
    Prioritise,
    Progress,
    Reason,
    RestoreLimit,
    RestorePriority,
    TakenFromJob,
    Task,
)
from tests.builders import cluster, pending, running
from tests.daemon.acting import NODES, PATIENCE, held_operation, holding, requeue, shrink, signal

TAKEN = TakenFromJob(run=0, for_job_id="u", walltime_s=1800.0, raised_to_s=5400.0)
EXPAND = Expand(
    job_id="v",
    for_job_id="u",
    policy="test",
    reason=Reason.BORROWER_ENDED,
    nodes=NODES[1:],
    reservation="mw_u",
)
RESTORE_PRIORITY = RestorePriority(job_id="v", for_job_id="v", policy="test", reason=Reason.STARTED)
RESTORE_LIMIT = RestoreLimit(
    job_id="v", for_job_id="v", policy="test", reason=Reason.STARTED, walltime_s=1800.0, taken=TAKEN
)


def ending(action: Action, *jobs: Job, nodes: tuple[str, ...] = NODES) -> Ending | None:
    """How a task ends whose job had these nodes when it was planned."""
    task = Task(action=action, nodes=nodes, start_s=0.0 if nodes else None)
    view = cluster(4, *jobs)
    return observe(task, view, view.jobs_by_id(), PATIENCE).ending


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (shrink("v", NODES[:1]), Ending.LEFT_ITSELF),
        (EXPAND, Ending.RUN_OVER),
        (RESTORE_PRIORITY, Ending.RUN_OVER),
        (RESTORE_LIMIT, Ending.RUN_OVER),
    ],
    ids=["shrink", "expand", "restore_priority", "restore_limit"],
)
def test_what_is_for_a_run_ends_with_it(action: Action, expected: Ending) -> None:
    assert ending(action) is expected, "the job is gone"
    waits_again = replace(pending("v", 4, requeue_count=1), prioritised=True, taken=TAKEN)
    assert ending(action, waits_again) is expected


def test_a_priority_is_given_back_to_a_job_that_never_ran() -> None:
    first = replace(pending("v", 4), prioritised=True)
    assert ending(RESTORE_PRIORITY, first, nodes=()) is None
    assert ending(RESTORE_PRIORITY, replace(first, prioritised=False), nodes=()) is Ending.SEEN


def test_a_priority_is_given_back_while_the_job_runs() -> None:
    job = running("v", NODES)
    assert ending(RESTORE_PRIORITY, replace(job, prioritised=True)) is None
    assert ending(RESTORE_PRIORITY, job) is Ending.SEEN


def test_a_limit_is_given_back_in_the_run_or_to_a_job_that_waits() -> None:
    job = replace(running("v", NODES), taken=TAKEN)
    assert ending(RESTORE_LIMIT, job) is None
    assert ending(RESTORE_LIMIT, replace(job, taken=None)) is Ending.SEEN
    assert ending(RESTORE_LIMIT, replace(pending("v", 4), taken=TAKEN), nodes=()) is None


FRONT = Prioritise(job_id="v", for_job_id="u", policy="test", reason=Reason.BORROWER_ENDED)


@pytest.mark.parametrize(
    ("action", "nodes", "expected", "noted"),
    [
        (requeue("v"), NODES, Ending.SEEN, True),
        (shrink("v", NODES[:1]), NODES, Ending.LEFT_ITSELF, False),
        (RESTORE_LIMIT, NODES, Ending.RUN_OVER, False),
        (FRONT, (), Ending.STARTED, False),
    ],
    ids=["requeue", "shrink", "restore_limit", "front"],
)
def test_only_of_a_requeue_it_is_noted_that_its_job_runs_again(
    action: Action, nodes: tuple[str, ...], expected: Ending, noted: bool
) -> None:
    task = Task(action=action, nodes=nodes, start_s=0.0 if nodes else None)
    view = cluster(4, replace(running("v", NODES), requeue_count=1))
    seen = observe(task, view, view.jobs_by_id(), PATIENCE)
    assert (seen.ending, seen.ran_again) == (expected, noted)


@pytest.mark.parametrize(
    ("signalled", "requeued_s", "planned"),
    [
        (Ending.REQUEUED_ITSELF, None, ["planned", "planned"]),
        (Ending.REQUEUED_ITSELF, 1005.0, ["planned", "puts back"]),
        (Ending.UNACKNOWLEDGED, None, ["done", "puts back"]),
    ],
    ids=["neither was sent", "the requeue was sent", "the signal was not wanted"],
)
def test_a_signal_is_sent_after_all_if_an_old_view_kept_it_back(
    signalled: Ending, requeued_s: float | None, planned: list[str]
) -> None:
    """Its job is in its run again. A requeue that was sent is forgotten: it puts the job back."""
    way_out = replace(requeue("v"), method=Method.SYSTEM)
    over = Task(action=signal("v"), progress=Progress.DONE, ended_s=1010.0, nodes=NODES, start_s=0.0)
    signal_over = replace(over, ending=signalled)
    requeue_over = replace(over, action=way_out, ending=Ending.SEEN, issued_s=requeued_s)
    operation = replace(held_operation(signal("v"), way_out), tasks=(signal_over, requeue_over))
    view = holding(running("v", NODES), now_s=1020.0)
    seen = observe_all(operation, view, view.jobs_by_id(), PATIENCE)
    assert ["puts back" if task.puts_back else task.progress.value for task in seen] == planned
