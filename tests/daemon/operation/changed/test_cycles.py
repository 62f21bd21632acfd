"""The urgent job is changed while jobs save their work for it: from the snapshot to what is sent."""

from dataclasses import replace

import pytest

from makeway.daemon.control.reconciler import Reconciler
from makeway.policies.model import CheckpointSpec, JobKind, Method, Requeue
from tests.builders import cluster, running, urgent
from tests.daemon.control.loops import daemon
from tests.fakes import FakeAdapter

SAVES = CheckpointSpec(system_s=100.0)


def saving(policy: str) -> tuple[FakeAdapter, Reconciler, list[str]]:
    """Two of four jobs save their work for an urgent job of two nodes. Returns their ids, too."""
    victims = [running(f"v{number}", (f"n{number}",), checkpoint=SAVES) for number in range(1, 5)]
    adapter = FakeAdapter(cluster(4, urgent("u", 2, submit_s=990.0), *victims))
    loop = daemon(adapter, policy=policy)
    for _ in range(2):
        loop.reconcile()
    asked = [job_id for verb, job_id in adapter.calls if verb == "checkpoint"]
    assert len(asked) == 2
    adapter.calls.clear()
    return adapter, loop, asked


def later(adapter: FakeAdapter, by_s: float, **changes: object) -> None:
    """Some time later the urgent job is another one, and who was asked to has saved its work."""
    view = adapter.view
    first, *others = view.jobs
    first = replace(first, **changes)  # type: ignore[arg-type]
    adapter.view = replace(view, jobs=(first, *others), now_s=view.now_s + by_s)


def saved(adapter: FakeAdapter, job_ids: list[str]) -> None:
    view = adapter.view
    jobs = tuple(
        replace(job, last_checkpoint_s=view.now_s) if job.job_id in job_ids else job for job in view.jobs
    )
    adapter.view = replace(view, jobs=jobs)


POLICIES = pytest.mark.parametrize("policy", ["eviction", "least-price"])


@POLICIES
def test_one_of_two_leaves_if_one_node_is_wanted(policy: str) -> None:
    adapter, loop, asked = saving(policy)
    later(adapter, 60.0, node_count=1)
    loop.reconcile()
    later(adapter, 40.0)
    saved(adapter, asked)
    for _ in range(2):
        loop.reconcile()
    sent = [call for call in adapter.calls if call[0] != "reserve"]
    assert len(sent) == 1
    assert sent[0][0] == "requeue"
    (hold,) = adapter.view.reservations
    assert hold.nodes == adapter.view.jobs_by_id()[sent[0][1]].nodes


@POLICIES
def test_what_was_saved_serves_a_job_that_wants_one_more_node(policy: str) -> None:
    adapter, loop, asked = saving(policy)
    later(adapter, 60.0, node_count=3)
    loop.reconcile()
    saved(adapter, asked)
    for _ in range(2):
        loop.reconcile()
    (third,) = [job_id for verb, job_id in adapter.calls if verb == "checkpoint"]
    assert third not in asked
    assert [call for call in adapter.calls if call[0] != "checkpoint"] == [
        ("reserve", "mw_u"),
        *(("requeue", job_id) for job_id in asked),
    ]
    methods = {action.method for action in adapter.actions if isinstance(action, Requeue)}
    assert methods == {Method.SYSTEM}


@POLICIES
def test_the_hold_is_moved_if_the_urgent_job_may_only_run_elsewhere(policy: str) -> None:
    adapter, loop, asked = saving(policy)
    theirs = {name for job in adapter.view.jobs if job.job_id in asked for name in job.nodes}
    elsewhere = frozenset({"n1", "n2", "n3", "n4"} - theirs)
    later(adapter, 60.0, eligible_nodes=elsewhere)
    loop.reconcile()
    saved(adapter, asked)
    for _ in range(2):
        loop.reconcile()
    (hold,) = adapter.view.reservations
    assert set(hold.nodes) == elsewhere
    assert all(job_id not in asked for _, job_id in adapter.calls)
    assert len([verb for verb, _ in adapter.calls if verb == "checkpoint"]) == 2


@POLICIES
def test_everything_goes_back_if_the_job_is_not_urgent_any_more(policy: str) -> None:
    adapter, loop, asked = saving(policy)
    later(adapter, 60.0, kind=JobKind.RIGID)
    saved(adapter, asked)
    for _ in range(3):
        loop.reconcile()
    assert adapter.calls == [("release", "mw_u")]


@POLICIES
def test_the_hold_is_lengthened_first_if_the_time_limit_is_raised(policy: str) -> None:
    adapter, loop, asked = saving(policy)
    later(adapter, 60.0, walltime_s=86_400.0)
    saved(adapter, asked)
    loop.reconcile()
    assert adapter.calls == [("reserve", "mw_u")]
    assert adapter.view.reservations[0].end_s > adapter.view.now_s + 86_400.0
    loop.reconcile()
    assert adapter.calls[1:] == [("requeue", job_id) for job_id in asked]
