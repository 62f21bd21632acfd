"""Since when jobs are completing, as a daemon sees it, and what it does about one that is stuck."""

from dataclasses import replace

from makeway.daemon.estimate.completing_jobs import CompletingJobs
from makeway.policies.common.departures import COMPLETING_S
from makeway.policies.model import Cluster, JobState, Reserve
from tests.builders import cluster, running, urgent
from tests.daemon.control.loops import daemon
from tests.fakes import FakeAdapter

COMPLETING = replace(running("a", ("n1",)), state=JobState.COMPLETING)


def since_s(view: Cluster) -> list[float | None]:
    return [job.completing_since_s for job in view.jobs]


def test_the_first_snapshot_that_shows_it_counts() -> None:
    counted, other = CompletingJobs().counted, replace(COMPLETING, job_id="b")
    runs = cluster(2, replace(COMPLETING, state=JobState.RUNNING), now_s=1000.0)
    assert counted(runs) is runs
    assert since_s(counted(cluster(2, COMPLETING, now_s=1010.0))) == [1010.0]
    assert since_s(counted(cluster(2, other, COMPLETING, now_s=1020.0))) == [1020.0, 1010.0]
    requeued = replace(COMPLETING, requeue_count=1)
    assert since_s(counted(cluster(2, other, requeued, now_s=1030.0))) == [1020.0, 1010.0]
    assert since_s(counted(cluster(2, other, now_s=1040.0))) == [1020.0]
    assert since_s(counted(cluster(2, other, COMPLETING, now_s=1050.0))) == [1020.0, 1050.0]


def test_the_clock_may_be_set_back() -> None:
    counted = CompletingJobs().counted
    counted(cluster(2, COMPLETING, now_s=1010.0))
    assert since_s(counted(cluster(2, COMPLETING, now_s=900.0))) == [900.0]
    assert since_s(counted(cluster(2, COMPLETING, now_s=1020.0))) == [900.0]


def test_an_unchanged_job_is_the_same_object() -> None:
    counted = CompletingJobs().counted
    views = [counted(cluster(2, COMPLETING, now_s=1010.0 + later_s)) for later_s in (0.0, 10.0)]
    assert views[0].jobs[0] is views[1].jobs[0]


def test_a_job_that_is_stuck_costs_another_one_its_nodes_in_time_and_only_once() -> None:
    view = cluster(2, urgent("u", 1, submit_s=1000.0), COMPLETING, running("b", ("n2",)))
    adapter = FakeAdapter(view)
    loop = daemon(adapter)
    for later_s in (0.0, 10.0, COMPLETING_S - 1.0):
        adapter.view = replace(adapter.view, now_s=1000.0 + later_s)
        loop.reconcile()
    assert adapter.calls == [("reserve", "mw_u")]
    for later_s in (0.0, 5.0, 10.0):
        adapter.view = replace(adapter.view, now_s=1000.0 + COMPLETING_S + later_s)
        loop.reconcile()
    assert adapter.calls[1:] == [("reserve", "mw_u"), ("requeue", "b")]
    assert [one.nodes for one in adapter.actions if isinstance(one, Reserve)] == [("n1",), ("n2",)]


def test_a_job_that_completes_in_time_costs_no_other_one_anything() -> None:
    view = cluster(2, urgent("u", 1, submit_s=1000.0), COMPLETING, running("b", ("n2",)))
    adapter = FakeAdapter(view)
    loop = daemon(adapter)
    loop.reconcile()
    left = [job for job in adapter.view.jobs if job.job_id != "a"]
    adapter.view = replace(adapter.view, jobs=tuple(left), now_s=1040.0)
    for _ in range(3):
        loop.reconcile()
    assert adapter.calls == [("reserve", "mw_u")]
