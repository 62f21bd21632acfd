"""Which urgent job, user and account pay for what a run loses, and whose signals count."""

from dataclasses import replace

from makeway.daemon.estimate.actual_losses import RunKey
from makeway.daemon.estimate.recent_losses import RecentLosses, totals
from makeway.policies.model import Ending
from tests.builders import cluster, running, urgent
from tests.daemon.estimate.test_actual_losses import FOUR, SIGNAL, WAITS, Watch, requeue, task, victim


def test_the_user_and_the_account_of_the_urgent_job_pay() -> None:
    """Both when it is decided and when it is measured: by then the urgent job may be over."""
    watch, losses = Watch(), RecentLosses()
    comes = replace(urgent("u", 4), user="beam", account="light")
    watch.see(1000.0, None, task(requeue()), view=cluster(4, victim(), comes, now_s=1000.0))
    ((key, run),) = watch.leaving.items()
    assert (run.for_job_id, run.for_user, run.for_account) == ("u", "beam", "light")
    losses.expect(key, run)
    expected = 4 * 600.0
    assert totals(losses.since(0.0)) == ({"u": expected}, {"beam": expected}, {"light": expected})
    watch.see(1060.0, WAITS, task(requeue(), issued_s=1050.0, ending=Ending.SEEN))
    losses.measured(key, watch.loss())
    lost = 4 * 650.0
    assert totals(losses.since(0.0)) == ({"u": lost}, {"beam": lost}, {"light": lost})


def test_a_signal_to_another_job_is_none_to_this_one() -> None:
    """w has saved its work at its signal. v was killed: all since its start is lost."""
    other = replace(SIGNAL, job_id="w")
    watch = Watch()
    tasks = (task(other, issued_s=1000.0), task(requeue()))
    view = cluster(6, victim(), running("w", ("n5",)), now_s=1000.0)
    watch.see(1000.0, None, *tasks, view=view)
    run = watch.leaving[RunKey("1", "v", 0)]
    assert (run.requested_s, run.held.nodes) == (None, len(FOUR))
    saved = task(other, issued_s=1000.0, ending=Ending.REQUEUED_ITSELF)
    watch.see(1060.0, WAITS, saved, task(requeue(), issued_s=1050.0, ending=Ending.SEEN))
    assert (watch.loss().lost_s, watch.loss().overhead_s) == (650.0, 0.0)


def test_a_job_that_need_not_leave_any_more_and_does_not_save_is_not_followed() -> None:
    """It was signalled, and shows nothing of a checkpoint since; or it was not signalled at all."""
    for signals in ((task(SIGNAL, issued_s=1000.0),), ()):
        for job in (
            victim(),
            replace(victim(), checkpointing_since_s=999.0),
            replace(victim(), last_checkpoint_s=999.0),
        ):
            watch = Watch()
            watch.see(1000.0, job, *signals, task(requeue()))
            assert watch.leaving
            watch.see(1010.0, job)
            assert (watch.leaving, watch.losses) == ({}, [])
