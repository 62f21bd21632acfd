"""A run that may still be saving its work at an earlier signal: what is left of its checkpoint counts."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.estimate.saving_jobs import with_requested_saves
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.changed.saving import SaveRequest, awaiting
from makeway.policies.common.losses import cost_node_s
from makeway.policies.model import (
    Checkpoint,
    CheckpointSpec,
    Job,
    JobState,
    Method,
    Progress,
    RunIdentity,
)
from tests.builders import cluster, running, urgent
from tests.daemon.acting import NODES, held_operation, requeue, signal

RUN = RunIdentity(requeue_count=0, start_s=500.0)
ASKED = {("v", RUN): SaveRequest(issued_s=1000.0, until_s=1300.0)}
SPEC = CheckpointSpec(system_s=100.0, grace_s=120.0)
SAVING = replace(running("v", NODES, start_s=500.0, checkpoint=SPEC), setup_s=10.0)


def seen(job: Job, now_s: float, *committed: str) -> Job:
    (found,) = with_requested_saves((job,), ASKED, lambda: frozenset(committed), now_s)
    return found


def test_what_is_left_of_the_checkpoint_counts_and_costs_nothing_more() -> None:
    job = seen(SAVING, 1040.0)
    assert job.checkpoint == replace(SPEC, system_s=60.0, grace_s=80.0)
    assert job.saving_since_s == 1000.0
    assert cost_node_s(SAVING, Method.SYSTEM, 1040.0) == 110 * len(NODES)
    assert cost_node_s(job, Method.SYSTEM, 1040.0) == 10 * len(NODES)


def test_a_request_counts_from_the_instant_at_which_it_was_sent() -> None:
    assert seen(SAVING, 1000.0).saving_since_s == 1000.0
    assert seen(SAVING, 999.0).saving_since_s is None


def test_one_that_is_late_may_need_all_of_its_time() -> None:
    assert seen(SAVING, 1150.0).checkpoint == replace(SPEC, grace_s=0.0)


@pytest.mark.parametrize(
    ("job", "now_s"),
    [
        (SAVING, 1300.0),
        (replace(SAVING, last_checkpoint_s=1001.0), 1040.0),
        (replace(SAVING, requeue_count=1), 1040.0),
        (replace(SAVING, start_s=900.0), 1040.0),
        (replace(SAVING, state=JobState.SUSPENDED), 1040.0),
        (replace(SAVING, checkpoint=None), 1040.0),
        (replace(SAVING, job_id="w"), 1040.0),
    ],
    ids=["its grace is over", "it has saved", "next run", "started again", "suspended", "no signal", "other"],
)
def test_others_stay_as_they_are(job: Job, now_s: float) -> None:
    assert seen(job, now_s) is job


def test_a_job_that_another_decision_concerns_stays_as_it_is() -> None:
    assert seen(SAVING, 1040.0, "v") is SAVING


@pytest.mark.parametrize(
    ("until_s", "grace_min_s", "grace_s"), [(1400.0, 60.0, 400.0), (1050.0, 60.0, 100.0), (None, 60.0, 100.0)]
)
def test_its_grace_is_that_of_the_new_plan(until_s: float | None, grace_min_s: float, grace_s: float) -> None:
    """The grace counts from the signal that was sent, at 1000 s."""
    view = cluster(4, urgent("u", 4), SAVING, now_s=1040.0)
    wanted = replace(signal("v"), until_s=until_s, grace_min_s=grace_min_s)
    planned = held_operation(wanted, requeue("v", Method.SYSTEM))
    planned = replace(
        planned,
        tasks=tuple(
            replace(task, start_s=500.0, nodes=NODES) if task.action.job_id == "v" else task
            for task in planned.tasks
        ),
    )
    (asked,) = [task for task in awaiting(planned, ASKED, view).tasks if isinstance(task.action, Checkpoint)]
    assert (asked.progress, asked.issued_s) == (Progress.ACCEPTED, 1000.0)
    assert isinstance(asked.action, Checkpoint)
    assert asked.action.grace_s == grace_s
    observed = replace(planned, observe=True)
    assert awaiting(observed, ASKED, view) is observed


@pytest.mark.parametrize("progress", [Progress.ISSUING, Progress.ACCEPTED])
def test_a_signal_of_the_operation_itself_keeps_its_grace(progress: Progress) -> None:
    """It is not lengthened whenever the operation gets more to do."""
    view = cluster(4, urgent("u", 4), SAVING, now_s=1040.0)
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    tasks = tuple(
        replace(task, progress=progress, issued_s=1000.0) if isinstance(task.action, Checkpoint) else task
        for task in operation.tasks
    )
    operation = replace(operation, tasks=tasks)
    assert awaiting(operation, ASKED, view) is operation


@pytest.mark.parametrize(
    ("outcome", "known"),
    [
        (Outcome.ACCEPTED, True),
        (Outcome.IN_DOUBT, True),
        (None, True),
        (Outcome.REJECTED, False),
        (Outcome.UNSENT, False),
        (Outcome.GONE, False),
    ],
)
def test_the_next_life_of_the_daemon_knows_who_was_asked(
    tmp_path: Path, outcome: Outcome | None, known: bool
) -> None:
    operation = held_operation(signal("v"), requeue("v", Method.SYSTEM))
    sent = replace(signal("v"), run=RUN, grace_s=300.0)
    journal = Journal(tmp_path / "j")
    number = journal.begin_command(operation, sent, 1000.0)
    if outcome is not None:
        journal.finish_command(number, operation, outcome=outcome, failed=False, detail="", now_s=1000.0)
    for one in (journal, None):
        with closing(one or Journal(tmp_path / "j")) as again:
            assert again.save_requests(1299.0) == (ASKED if known else {})
            if outcome is Outcome.ACCEPTED:
                assert again.save_requests(1300.0) == {}
