"""Reservations of the simulated cluster beyond what the conformance suite asks of every adapter."""

import pytest

from makeway.adapters.protocol import Gone, Rejected
from makeway.policies.model import JobState, LastHold
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.event_queue import Change, ChangeKind
from makeway.simharness.engine.scheduler import Backfill
from makeway.simharness.swarm.happenings import lose_holds
from tests import acts
from tests.simharness.engine.commanded import job, seen, starts, world

# Reservations


def test_a_verb_takes_effect_at_its_own_instant() -> None:
    cluster, adapter = world(2, job("a", 0.0, 100.0, 2), job("b", 5.0, 10.0, 2))
    cluster.advance(20.0)
    adapter.apply(acts.requeue("a"))
    assert seen(adapter, "a").state is JobState.PENDING
    assert cluster.next_event_s() == 20.0
    assert cluster.step() == [
        Change(20.0, ChangeKind.REQUEUED, "a"),
        Change(20.0, ChangeKind.STARTED, "b"),
    ]
    assert cluster.next_event_s() == 30.0


def test_a_bound_job_does_not_wait_for_its_turn() -> None:
    cluster, adapter = world(4, job("a", 0.0, 100.0, 3), job("wide", 1.0, 10.0, 4), job("u", 2.0, 200.0, 1))
    cluster.advance(5.0)
    assert seen(adapter, "u").start_s is None
    adapter.apply(acts.reserve("mw_u", nodes=("n4",), duration_s=300.0, job_id="u"))
    assert starts(cluster) == {"a": 0.0, "wide": 305.0, "u": 5.0}


def test_a_bound_job_that_would_outlast_its_reservation_waits_for_its_end() -> None:
    cluster, adapter = world(2, job("a", 0.0, 10.0, 1), job("u", 0.0, 5.0, 2, walltime_s=100.0))
    cluster.advance(1.0)
    adapter.apply(acts.reserve("mw_u", nodes=("n1", "n2"), duration_s=105.0, job_id="u"))
    assert starts(cluster) == {"a": 0.0, "u": 106.0}


def test_a_bound_job_that_just_fits_its_reservation_starts() -> None:
    cluster, adapter = world(2, job("a", 0.0, 10.0, 1), job("u", 0.0, 5.0, 2, walltime_s=100.0))
    cluster.advance(1.0)
    adapter.apply(acts.reserve("mw_u", nodes=("n1", "n2"), duration_s=109.0, job_id="u"))
    assert starts(cluster) == {"a": 0.0, "u": 10.0}


def test_backfilling_counts_reserved_nodes_from_the_end_of_the_reservation() -> None:
    """The wide job can start at 50 s, when the reservation ends, and not at 20 s; so 40 s on one node fit
    before it.
    """
    cluster, adapter = world(
        3,
        job("a", 0.0, 20.0, 2),
        job("u", 1.0, 100.0, 2, walltime_s=1000.0),
        job("wide", 2.0, 10.0, 3),
        job("fits", 3.0, 40.0, 1),
    )
    cluster.advance(2.5)
    adapter.apply(acts.reserve("mw_u", nodes=("n1", "n2"), duration_s=47.5, job_id="u"))
    assert starts(cluster) == {"a": 0.0, "fits": 3.0, "u": 50.0, "wide": 150.0}


def test_conservative_backfilling_knows_reservations_too() -> None:
    cluster, adapter = world(
        2,
        job("a", 0.0, 20.0, 1),
        job("u", 1.0, 5.0, 2, walltime_s=1000.0),
        job("wide", 2.0, 10.0, 2),
        job("fits", 3.0, 47.0, 1),
        job("too-long", 3.0, 48.0, 1),
        backfill=Backfill.CONSERVATIVE,
    )
    cluster.advance(1.0)
    adapter.apply(acts.reserve("mw_u", nodes=("n1",), duration_s=49.0, job_id="u"))
    cluster.advance(2.0)
    assert starts(cluster) == {"a": 0.0, "fits": 3.0, "u": 50.0, "wide": 55.0, "too-long": 65.0}


def test_overlapping_reservations_are_rejected() -> None:
    cluster, adapter = world(3, job("a", 0.0, 10.0, 3), job("u", 0.0, 5.0, 2), job("v", 0.0, 5.0, 2))
    cluster.advance(0.0)
    adapter.apply(acts.reserve("mw_u", nodes=("n1", "n2"), duration_s=99.0, job_id="u"))
    with pytest.raises(Rejected, match="overlaps with mw_u"):
        adapter.apply(acts.reserve("mw_v", nodes=("n2", "n3"), duration_s=99.0, job_id="v"))
    assert seen(adapter, "v").reservation is None


def test_nodes_of_two_reservations_are_kept_until_both_are_over() -> None:
    cluster, adapter = world(3, job("a", 0.0, 200.0, 1), job("u", 0.0, 500.0, 3), job("v", 1.0, 300.0, 1))
    cluster.advance(1.0)
    adapter.apply(acts.reserve("mw_u", nodes=("n2", "n3"), duration_s=99.0, job_id=None, user="u"))
    adapter.apply(acts.reserve("mw_v", nodes=("n3",), duration_s=349.0, job_id="v", overlap=True))
    assert cluster.machine.releases() == [(100.0, -1, 1), (200.0, 0, 1), (350.0, -1, 1)]
    cluster.advance(2.0)
    assert seen(adapter, "v").nodes == ("n3",)
    assert cluster.machine.releases() == [(100.0, -1, 1), (200.0, 0, 1), (350.0, 2, 1)]
    adapter.apply(acts.release("mw_v"))
    assert cluster.machine.available() == 0
    assert [kept.nodes for kept in adapter.snapshot().reservations] == [("n2", "n3")]
    adapter.apply(acts.release("mw_u"))
    assert cluster.machine.available() == 1


@pytest.mark.parametrize(
    ("nodes", "duration_s", "message"),
    [((), 10.0, "no nodes"), (("n9",), 10.0, "Invalid node name"), (("n1",), 0.0, "0.0 s is invalid")],
)
def test_a_wrong_reservation_is_rejected(nodes: tuple[str, ...], duration_s: float, message: str) -> None:
    cluster, adapter = world(2, job("a", 0.0, 10.0, 2), job("u", 0.0, 5.0, 2))
    cluster.advance(0.0)
    with pytest.raises(Rejected, match=message):
        adapter.apply(acts.reserve("mw_u", nodes=nodes, duration_s=duration_s, job_id="u"))
    assert adapter.snapshot().reservations == ()


def test_a_requeued_job_stays_bound_and_is_unbound_by_the_end_of_its_reservation() -> None:
    cluster, adapter = world(2, job("a", 0.0, 10.0, 1), job("u", 0.0, 50.0, 2))
    cluster.advance(0.0)
    adapter.apply(acts.reserve("mw_u", nodes=("n1", "n2"), duration_s=200.0, job_id="u"))
    cluster.advance(15.0)
    assert seen(adapter, "u").start_s == 10.0
    adapter.apply(acts.requeue("u"))
    cluster.advance(150.0)
    assert (seen(adapter, "u").reservation, seen(adapter, "u").start_s) == ("mw_u", 135.0)
    adapter.apply(acts.requeue("u"))
    assert Change(200.0, ChangeKind.RESERVATION_ENDED, None) in cluster.advance(200.0)
    assert adapter.snapshot().reservations == ()
    assert seen(adapter, "u").reservation is None
    cluster.advance(270.0)
    assert seen(adapter, "u").start_s == 270.0
    with pytest.raises(Gone):
        adapter.apply(acts.release("mw_u"))


def test_a_job_that_runs_on_after_its_reservation_is_bound_to_nothing() -> None:
    """The reservation is cut short under the running job's feet by binding its name to another one."""
    cluster, adapter = world(3, job("a", 0.0, 10.0, 2), job("u", 0.0, 50.0, 2), job("v", 0.0, 9.0, 3))
    cluster.advance(0.0)
    adapter.apply(acts.reserve("mw_u", nodes=("n1", "n2"), duration_s=60.0, job_id="u"))
    cluster.advance(10.0)
    adapter.apply(acts.reserve("mw_u", nodes=("n3",), duration_s=5.0, job_id="v"))
    cluster.advance(15.0)
    assert seen(adapter, "u").reservation is None
    assert seen(adapter, "u").state is JobState.RUNNING
    assert starts(cluster) == {"a": 0.0, "u": 10.0, "v": 60.0}


def test_a_job_that_is_bound_anew_leaves_its_old_reservation() -> None:
    cluster, adapter = world(4, job("a", 0.0, 99.0, 2), job("b", 0.0, 20.0, 2), job("u", 0.0, 5.0, 2))
    cluster.advance(0.0)
    adapter.apply(acts.reserve("mw_1", nodes=("n1", "n2"), duration_s=300.0, job_id="u"))
    adapter.apply(acts.reserve("mw_2", nodes=("n3", "n4"), duration_s=300.0, job_id="u"))
    assert seen(adapter, "u").reservation == "mw_2"
    adapter.apply(acts.release("mw_1"))
    assert starts(cluster)["u"] == 20.0


# A controller that keeps a waiting job from starting because it has lost the hold of the job


def lost_hold(*, bound: bool = True, free: bool = True) -> tuple[SimCluster, SimAdapter]:
    """At 20 s the controller forgets what was reserved, or released, since 5 s. Both nodes are free from 30 s
    on.
    """
    cluster, adapter = world(2, job("a", 0.0, 30.0, 2), job("u", 1.0, 10.0, 2), job("z", 40.0, 10.0, 2))
    cluster.machine.taken_clock = lambda: cluster.now_s
    cluster.advance(10.0)
    adapter.apply(acts.reserve("mw_u", nodes=("n1", "n2"), duration_s=300.0, job_id="u"))
    cluster.advance(15.0)
    if not bound:
        adapter.apply(acts.release("mw_u"))
    cluster.advance(20.0)
    assert lose_holds(cluster.machine, 5.0, lambda _: not free) == (not free)
    return cluster, adapter


@pytest.mark.parametrize("bound", [True, False])
def test_the_job_of_a_lost_hold_does_not_start_until_it_is_freed(bound: bool) -> None:
    cluster, adapter = lost_hold(bound=bound, free=False)
    waits = seen(adapter, "u")
    assert (waits.reservation, waits.reservation_lost) == (None, True)
    assert waits.last_hold == LastHold(reservation="mw_u", since_s=10.0)
    cluster.advance(45.0)
    assert seen(adapter, "z").start_s == 40.0
    adapter.apply(acts.release("mw_u", job_id="u", lost=True))
    assert not seen(adapter, "u").reservation_lost
    assert starts(cluster) == {"a": 0.0, "u": 50.0, "z": 40.0}


def test_another_hold_frees_it_too() -> None:
    cluster, adapter = lost_hold(free=False)
    adapter.apply(acts.reserve("mw_u", nodes=("n1", "n2"), duration_s=300.0, job_id="u"))
    assert not seen(adapter, "u").reservation_lost
    assert starts(cluster) == {"a": 0.0, "u": 30.0, "z": 320.0}


def test_a_job_that_is_not_kept_from_starting_is_not_freed() -> None:
    cluster, adapter = lost_hold()
    assert not seen(adapter, "u").reservation_lost
    with pytest.raises(Gone, match="not lost"):
        adapter.apply(acts.release("mw_u", job_id="u", lost=True))
    assert starts(cluster) == {"a": 0.0, "u": 30.0, "z": 40.0}
