"""A signal that got no answer: no second one goes to the same run, from whatever operation."""

from dataclasses import replace
from pathlib import Path

import pytest

from makeway.adapters.protocol import Unavailable
from makeway.daemon.estimate.unsure_signals import without_signals
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.store import Journal
from makeway.policies.model import (
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Ending,
    Job,
    Method,
    Requeue,
    RunIdentity,
)
from tests.builders import cluster, running, urgent
from tests.daemon.acting import COMMENTS, NODES, held_operation, holding, issue_all, requeue, signal
from tests.daemon.control.loops import FOUR, daemon
from tests.fakes import FakeAdapter

SAVES = CheckpointSpec(system_s=10.0)
RUN = RunIdentity(requeue_count=0, start_s=500.0)
SIGNALLED = {("v", RUN): 1000.0}


def saving(**more: float) -> Job:
    return running("v", FOUR, start_s=500.0, checkpoint=SAVES, **more)  # type: ignore[arg-type]


def test_a_run_that_may_be_signalled_yet_counts_as_one_that_cannot_save() -> None:
    (job,) = without_signals((saving(),), SIGNALLED)
    assert job.checkpoint is None
    both = CheckpointSpec(system_s=10.0, application_s=5.0, interval_s=600.0)
    (job,) = without_signals((running("v", FOUR, start_s=500.0, checkpoint=both),), SIGNALLED)
    assert job.checkpoint is not None
    assert (job.checkpoint.system_s, job.checkpoint.application_s) == (None, 5.0)


@pytest.mark.parametrize(
    "job",
    [
        saving(requeue_count=1),
        saving(last_checkpoint_s=1000.0),
        saving(checkpointing_since_s=1001.0),
        running("w", FOUR, start_s=500.0, checkpoint=SAVES),
    ],
)
def test_another_run_and_a_job_that_has_answered_can_save(job: Job) -> None:
    assert without_signals((job,), SIGNALLED) == (job,)


@pytest.mark.parametrize(("ending", "may_save"), [(None, True), (Ending.UNACKNOWLEDGED, False)])
def test_a_run_that_did_not_save_in_its_grace_cannot_save_for_that_operation(
    ending: Ending | None, may_save: bool
) -> None:
    """Not even if it reports a regular checkpoint later: it leaves without another signal."""
    view = holding(running("v", NODES, checkpoint=COMMENTS))
    operation, _ = issue_all(held_operation(signal("v"), requeue("v", Method.SYSTEM)), view)
    tasks = [
        replace(task, progress=ending.progress, ending=ending, ended_s=1400.0)
        if ending is not None and isinstance(task.action, Checkpoint)
        else task
        for task in operation.tasks
    ]
    job = running("v", NODES, checkpoint=COMMENTS, last_checkpoint_s=1500.0)
    (seen,) = without_signals((job,), {}, [replace(operation, tasks=tuple(tasks))])
    assert (seen.checkpoint is not None) == may_save
    again = replace(job, requeue_count=1)
    assert without_signals((again,), {}, [operation]) == (again,)


def waiting_for(job_id: str, *jobs: Job, now_s: float) -> Cluster:
    return cluster(4, urgent(job_id, 2, submit_s=now_s - 10.0), *jobs, now_s=now_s)


def test_a_second_urgent_job_does_not_signal_the_run_again(tmp_path: Path) -> None:
    adapter = FakeAdapter(waiting_for("u", saving(), now_s=1000.0))
    journal = Journal(tmp_path / "j")
    loop = daemon(adapter, journal)
    loop.reconcile()
    adapter.errors["checkpoint"] = Unavailable("no answer")
    loop.reconcile()
    assert adapter.calls[-1] == ("checkpoint", "v")
    del adapter.errors["checkpoint"]
    # The urgent job is cancelled, and the hold goes back.
    adapter.view = cluster(4, saving(), now_s=1100.0, reservations=adapter.view.reservations)
    for _ in range(3):
        loop.reconcile()
    assert journal.open_operations() == ()

    # Also for the next life of the daemon: another urgent job comes.
    journal.close()
    journal = Journal(tmp_path / "j")
    assert journal.unanswered_signals() == {("v", RUN): 1000.0}
    loop = daemon(adapter, journal)
    adapter.view = waiting_for("u2", saving(), now_s=2000.0)
    for _ in range(4):
        loop.reconcile()
    sent = [action for action in adapter.actions if isinstance(action, Checkpoint | Requeue)]
    assert [(action.verb, action.for_job_id) for action in sent] == [("checkpoint", "u"), ("requeue", "u2")]


def test_a_signal_that_was_certainly_not_sent_is_sent_again() -> None:
    adapter = FakeAdapter(waiting_for("u", saving(), now_s=1000.0))
    journal = Journal(None)
    loop = daemon(adapter, journal)
    loop.reconcile()
    adapter.errors["checkpoint"] = Unavailable("squeue gave no answer within 20 s", sent=False)
    loop.reconcile()
    assert journal.unanswered_signals() == {}
    del adapter.errors["checkpoint"]
    adapter.view = replace(adapter.view, now_s=1005.0)
    loop.reconcile()
    assert [verb for verb, _ in adapter.calls] == ["reserve", "checkpoint", "checkpoint"]


def test_a_signal_that_was_answered_is_not_in_doubt() -> None:
    adapter = FakeAdapter(waiting_for("u", saving(), now_s=1000.0))
    journal = Journal(None)
    loop = daemon(adapter, journal)
    loop.reconcile()
    loop.reconcile()
    assert [command.outcome for command in journal.commands()] == [Outcome.ACCEPTED, Outcome.ACCEPTED]
    assert journal.unanswered_signals() == {}


def test_every_command_on_a_running_job_names_its_run() -> None:
    adapter = FakeAdapter(waiting_for("u", saving(), now_s=1000.0))
    journal = Journal(None)
    loop = daemon(adapter, journal)
    loop.reconcile()
    loop.reconcile()
    waits = urgent("u", 2, submit_s=990.0, reservation="mw_u")
    saved = saving(last_checkpoint_s=1001.0)
    adapter.view = replace(adapter.view, jobs=(waits, saved), now_s=1002.0)
    loop.reconcile()
    named = [action for action in adapter.actions if isinstance(action, Checkpoint | Requeue)]
    assert [action.verb for action in named] == ["checkpoint", "requeue"]
    assert [action.run for action in named] == [RUN, RUN]
    assert [command.action for command in journal.commands()] == adapter.actions
