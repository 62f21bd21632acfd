"""Which jobs that makeway has evicted are seen to run again."""

from dataclasses import replace

from makeway.daemon.control.resumed import ResumedJobs
from makeway.policies.model import Cluster, Job
from tests.builders import cluster, pending, running

EVICTED = {"v": 1}
AGAIN = running("v", ("n1",), requeue_count=1)


def seen(resumed: ResumedJobs, *jobs: Job) -> tuple[str, ...]:
    view: Cluster = cluster(2, *jobs)
    return resumed.in_snapshot(view, lambda: EVICTED)


def test_a_run_that_is_new_is_told_once() -> None:
    resumed = ResumedJobs()
    assert seen(resumed, pending("v", 1, requeue_count=1), running("w", ("n2",))) == ()
    assert seen(resumed, AGAIN, running("w", ("n2",))) == ("v",)
    assert seen(resumed, replace(AGAIN, last_checkpoint_s=900.0)) == ()
    assert seen(resumed, replace(AGAIN, requeue_count=2)) == ("v",), "it left and ran again in between"


def test_runs_of_the_first_snapshot_are_not_new() -> None:
    resumed = ResumedJobs()
    assert seen(resumed, AGAIN) == ()
    assert seen(resumed) == ()
    assert seen(resumed, pending("v", 1, requeue_count=1)) == (), "it waits"
    assert seen(resumed, AGAIN) == ("v",)


def test_only_evicted_jobs_count() -> None:
    resumed = ResumedJobs()
    assert seen(resumed, pending("w", 1)) == ()
    assert seen(resumed, running("w", ("n1",))) == ()
