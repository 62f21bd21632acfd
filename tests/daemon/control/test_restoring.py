"""Cycles that give everything back, also while urgent jobs wait or run."""

from dataclasses import replace

import pytest

from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.policies.contract import PolicyFailed
from makeway.policies.model import Cluster, Decision, Expand, JobKind, JobState, LostNodes, TakenFromJob
from makeway.policies.none import NONE, NoneConfig
from makeway.policies.registry import find
from tests.builders import cluster, held, node_names, pending, running, urgent
from tests.daemon.control.loops import FOUR, busy, daemon
from tests.fakes import FakeAdapter


def restore(loop: Reconciler) -> None:
    """What the service does with its loop at `makeway stop --restore`."""
    loop.reconfigure(NONE, NoneConfig(), LoopSettings(mode=Mode.ACT, restoring=True))


def requeued() -> tuple[FakeAdapter, Reconciler]:
    """Job v has left its nodes, which are held for urgent job u."""
    adapter = FakeAdapter(busy())
    loop = daemon(adapter)
    loop.reconcile()
    loop.reconcile()
    waiting = replace(pending("v", 4), requeue_count=1, preemptible=True)
    jobs = tuple(waiting if job.job_id == "v" else job for job in adapter.view.jobs)
    adapter.view = replace(adapter.view, jobs=jobs)
    return adapter, loop


def seen_in_front(adapter: FakeAdapter, job_id: str) -> None:
    jobs = tuple(replace(job, prioritised=job.job_id == job_id) for job in adapter.view.jobs)
    adapter.view = replace(adapter.view, jobs=jobs)


def test_a_lender_gets_its_turn_and_the_hold_ends_while_the_urgent_job_waits() -> None:
    adapter, loop = requeued()
    restore(loop)
    first = loop.reconcile()
    assert adapter.calls[2:] == [("prioritise", "v")]
    assert (first.restored, first.not_given_back) == (False, ("hold mw_u is there",))
    seen_in_front(adapter, "v")
    loop.reconcile()
    assert adapter.calls[3:] == [("release", "mw_u")]
    last = loop.reconcile()
    assert (last.restored, last.not_given_back, last.actions) == (True, (), ())
    assert loop.reconcile().actions == (), "the urgent job that waits gets nothing any more"


def test_the_hold_of_an_urgent_job_that_runs_ends() -> None:
    adapter, loop = requeued()
    runs = replace(urgent("u", 2, submit_s=990.0), state=JobState.RUNNING, nodes=FOUR[:2], start_s=1000.0)
    jobs = tuple(runs if job.job_id == "u" else job for job in adapter.view.jobs)
    adapter.view = replace(adapter.view, jobs=jobs)
    lent = loop.reconcile()
    assert (lent.operations_open, adapter.calls[2:]) == (1, [])
    restore(loop)
    loop.reconcile()
    seen_in_front(adapter, "v")
    loop.reconcile()
    assert adapter.calls[2:] == [("prioritise", "v"), ("release", "mw_u")]
    assert loop.reconcile().restored


def test_what_an_earlier_life_left_goes_back_in_observe_mode_too() -> None:
    """A hold that no operation knows, and nodes that a job says were taken from it."""
    lost = LostNodes(node_count=4, kept_count=2, walltime_s=1800.0, since_s=400.0)
    taken = TakenFromJob(run=0, for_job_id="u", lost_nodes=lost)
    small = running("a", FOUR[:2], kind=JobKind.MALLEABLE, node_count_min=1, walltime_s=5400.0)
    view = cluster(4, replace(small, taken=taken), urgent("u", 4))
    adapter = FakeAdapter(replace(view, reservations=(held("z", FOUR[2:]),)))
    loop = daemon(adapter, Journal(None), mode=Mode.OBSERVE)
    loop.reconcile()
    assert adapter.calls == []
    restore(loop)
    report = loop.reconcile()
    assert adapter.calls == [("release", "mw_z")]
    assert set(report.not_given_back) == {"hold mw_z is there", "job a runs on 2 of 4 nodes"}
    loop.reconcile()
    (grown,) = (action for action in adapter.actions if isinstance(action, Expand))
    assert (grown.job_id, grown.nodes) == ("a", node_names(2, 3))


def fails(_cluster: Cluster, _config: object) -> Decision:
    raise ZeroDivisionError


def test_what_was_taken_goes_back_although_the_policy_has_a_defect() -> None:
    """And nothing more is taken: job w would have to leave for another urgent job."""
    adapter, loop = requeued()
    other = urgent("later", 1, submit_s=995.0)
    gone = tuple(job for job in adapter.view.jobs if job.job_id != "u")
    adapter.view = replace(adapter.view, jobs=(*gone, other, running("w", FOUR[3:], start_s=500.0)))
    broken = replace(find("eviction"), decide=fails)
    loop.reconfigure(broken, broken.config_type(), LoopSettings(mode=Mode.ACT))
    with pytest.raises(PolicyFailed):
        loop.reconcile()
    assert adapter.calls[2:] == [("prioritise", "v")]
    seen_in_front(adapter, "v")
    for _ in range(2):
        with pytest.raises(PolicyFailed):
            loop.reconcile()
    assert adapter.calls[3:] == [("release", "mw_u")]
