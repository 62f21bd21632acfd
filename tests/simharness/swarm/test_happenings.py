"""A simulated controller that forgets a requeue takes the job for ended, until it is put back."""

import pytest

from makeway.adapters.protocol import Gone
from makeway.policies.model import JobState, Operation, Requeue, RunIdentity
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.swarm.happenings import forget, forget_requeues, protect
from tests import acts
from tests.builders import running
from tests.daemon.acting import COMMENTS, NODES, held_operation, holding, issue_all, requeue
from tests.simharness.engine.commanded import job, seen, world

RUN = RunIdentity(requeue_count=0, start_s=0.0)
PUT_BACK = [acts.requeue("v", forgotten_run=0, run=RUN), acts.requeue("v", ended_by="TERM", run=RUN)]


def known() -> tuple[Operation, ...]:
    """What the journal has: the requeue of `v`."""
    view = holding(running("v", NODES, checkpoint=COMMENTS))
    return (issue_all(held_operation(requeue("v")), view)[0],)


def requeued() -> tuple[SimCluster, SimAdapter]:
    """Job `v` was requeued at 100 s; `b` runs on."""
    cluster, adapter = world(20, job("v", 0.0, 500.0, 10), job("b", 0.0, 500.0, 10))
    cluster.advance(100.0)
    adapter.apply(acts.requeue("v", run=RUN))
    return cluster, adapter


@pytest.mark.parametrize("put_back", PUT_BACK)
def test_a_job_whose_requeue_is_forgotten_is_gone_until_it_is_put_back(put_back: Requeue) -> None:
    cluster, adapter = requeued()
    cluster.advance(105.0)
    assert forget_requeues(cluster.machine, 100.0, known_to=known) == 1
    assert set(adapter.snapshot().jobs_by_id()) == {"b"}
    cluster.advance(110.0)
    adapter.apply(put_back)
    waits = seen(adapter, "v")
    assert (waits.state, waits.requeue_count, waits.prioritised) == (JobState.PENDING, 1, False)
    cluster.run()
    (record, _) = cluster.record(policy="none").jobs
    assert (record.end_s, record.lost_node_s) == (110.0 + 120.0 + 500.0, 1000.0)


def test_a_job_that_is_put_back_is_bound_to_its_reservation_again() -> None:
    cluster, adapter = requeued()
    adapter.apply(acts.reserve("mw_v", nodes=("n01", "n02"), duration_s=300.0, job_id="v"))
    assert forget_requeues(cluster.machine, 100.0, known_to=known) == 1
    adapter.apply(PUT_BACK[0])
    assert seen(adapter, "v").reservation == "mw_v"
    adapter.apply(acts.release("mw_v"))
    assert (seen(adapter, "v").reservation, seen(adapter, "v").reservation_lost) == (None, False)


@pytest.mark.parametrize("started_s", [0.0, 230.0])
def test_only_the_run_that_is_meant_is_put_back(started_s: float) -> None:
    cluster, adapter = requeued()
    forget_requeues(cluster.machine, 100.0, known_to=known)
    other = RunIdentity(requeue_count=1, start_s=started_s)
    for action in (
        acts.requeue("v", forgotten_run=1, run=other),
        acts.requeue("v", ended_by="TERM", run=other),
    ):
        with pytest.raises(Gone, match="has left the run"):
            adapter.apply(action)


def test_a_requeue_that_was_saved_is_not_forgotten_nor_that_of_a_job_that_runs_again() -> None:
    cluster, adapter = requeued()
    cluster.advance(106.0)
    assert forget_requeues(cluster.machine, 101.0, known_to=known) == 0
    adapter.apply(acts.prioritise("v"))
    cluster.advance(107.0)
    assert seen(adapter, "v").state is JobState.RUNNING
    assert forget_requeues(cluster.machine, 100.0, known_to=known) == 0
    with pytest.raises(Gone):
        adapter.apply(acts.requeue("v", forgotten_run=0, run=RUN))


def test_a_requeue_that_the_journal_does_not_know_is_not_forgotten() -> None:
    cluster, adapter = requeued()
    assert forget_requeues(cluster.machine, 100.0, known_to=lambda: ()) == 0
    assert seen(adapter, "v").state is JobState.PENDING


def test_the_last_change_of_an_older_hold_is_forgotten() -> None:
    cluster, _ = world(4, job("v", 0.0, 5000.0, 1))
    machine = cluster.machine
    cluster.advance(10.0)
    machine.hold("mw_old", 0b0110, 900.0)
    cluster.advance(50.0)
    machine.hold("mw_old", 0b1110, 950.0)
    machine.hold("mw_new", 0b0001, 900.0)
    assert forget(machine, 40.0) == 2
    assert {name: (hold.nodes, hold.end_s) for name, hold in machine.holds.items()} == {
        "mw_old": (0b0110, 900.0)
    }
    cluster.advance(900.0)
    assert machine.holds == {}


def test_a_running_job_is_protected_once() -> None:
    cluster, adapter = requeued()
    assert protect(cluster.machine, "b")
    assert not seen(adapter, "b").preemptible
    assert not protect(cluster.machine, "b")
    assert not protect(cluster.machine, "v"), "it waits"
    assert seen(adapter, "v").preemptible
