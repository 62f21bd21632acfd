"""A job that makeway's signal ended, through the whole loop: put back, reported, and a lesson for nobody."""

from dataclasses import replace

import pytest

from makeway.adapters.protocol import Gone
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Acknowledgement, CheckpointSpec, Job, Limits, Reason, Requeue
from tests.builders import cluster, pending, running, urgent
from tests.daemon.control.loops import FOUR, daemon
from tests.fakes import FakeAdapter


def saving(acknowledgement: Acknowledgement = Acknowledgement.COMMENT) -> Job:
    spec = CheckpointSpec(system_s=60.0, acknowledgement=acknowledgement)
    return running("v", FOUR, start_s=500.0, checkpoint=spec)


def vanished(adapter: FakeAdapter) -> None:
    """The signalled job is not in the view any more."""
    waits = urgent("u", 2, submit_s=990.0, reservation="mw_u")
    adapter.view = replace(adapter.view, jobs=(waits,), now_s=1002.0)


@pytest.mark.parametrize("acknowledgement", [Acknowledgement.COMMENT, Acknowledgement.EXIT])
def test_a_job_that_the_signal_ended_is_put_back_and_reported(acknowledgement: Acknowledgement) -> None:
    adapter = FakeAdapter(cluster(4, urgent("u", 2, submit_s=990.0), saving(acknowledgement)))
    journal = Journal(None)
    loop = daemon(adapter, journal)
    loop.reconcile()
    loop.reconcile()
    assert adapter.calls == [("reserve", "mw_u"), ("checkpoint", "v")]
    vanished(adapter)
    report = loop.reconcile()
    assert adapter.calls[-1] == ("requeue", "v")
    assert "job v ended at the signal and is put back" in report.sentence
    assert [entry.action.reason for entry in report.actions] == [Reason.ENDED_BY_SIGNAL]

    lender = pending("v", 4, requeue_count=1)
    runs = replace(running("u", FOUR[:2], start_s=1003.0), submit_s=990.0)
    adapter.view = replace(adapter.view, jobs=(runs, lender), now_s=1003.0)
    report = loop.reconcile()
    (loss,) = report.losses
    assert (loss.run.method.value, loss.lost_s) == ("system", 1002.0 - 500.0)
    assert report.checkpoints == ()
    assert journal.learned() == {}, "its end was no checkpoint"
    adapter.view = replace(adapter.view, jobs=(lender,), now_s=2000.0)
    loop.reconcile()
    assert adapter.calls[-1] == ("prioritise", "v")


def test_a_job_that_saved_and_left_is_a_success() -> None:
    adapter = FakeAdapter(cluster(4, urgent("u", 2, submit_s=990.0), saving(Acknowledgement.EXIT)))
    adapter.errors["requeue"] = Gone("job v was not ended by signal USR1: COMPLETED, exit status 0:0")
    journal = Journal(None)
    loop = daemon(adapter, journal)
    loop.reconcile()
    loop.reconcile()
    vanished(adapter)
    first, second = loop.reconcile(), loop.reconcile()
    assert [one for one in adapter.calls if one[0] == "requeue"] == [("requeue", "v")]
    assert "no handler" not in first.sentence
    (loss,) = (*first.losses, *second.losses)
    assert loss.lost_s == 0.0
    assert len((*first.checkpoints, *second.checkpoints)) == 1


def test_an_open_breaker_does_not_keep_it_from_being_put_back() -> None:
    adapter = FakeAdapter(cluster(4, urgent("u", 2, submit_s=990.0), saving()))
    journal = Journal(None)
    daemon(adapter, journal).reconcile()
    daemon(adapter, journal).reconcile()
    (operation,) = journal.open_operations()
    number = journal.begin_command(operation, operation.tasks[0].action, 1001.0)
    journal.finish_command(number, operation, outcome="rejected", failed=True, detail="", now_s=1001.0)
    vanished(adapter)
    daemon(adapter, journal, limits=Limits(breaker_failures=1)).reconcile()
    assert [action.ended_by for action in adapter.actions if isinstance(action, Requeue)] == ["USR1"]
