"""What commands do to the simulated cluster beyond what the conformance suite asks of every adapter."""

from dataclasses import replace

import pytest

from makeway.adapters.protocol import Rejected, Unsupported
from makeway.policies.model import JobKind
from makeway.simharness.engine.event_queue import Change, ChangeKind
from makeway.simharness.engine.records import RunEnding
from makeway.simharness.workloads.job import SimJob
from tests import acts
from tests.simharness.engine.commanded import job, seen, starts, world

# Checkpoints on demand


def test_a_checkpoint_takes_what_the_storage_says_and_shares_it() -> None:
    """1000 GB each at 100 GB/s in all: 10 s for one alone, 20 s for two at once."""
    jobs = [replace(job(name, 0.0, 500.0, 10, 1000.0), system_gb_per_node=100.0) for name in ("a", "b")]
    cluster, adapter = world(20, *jobs)
    cluster.advance(100.0)
    spec = seen(adapter, "a").checkpoint
    assert spec is not None
    assert (spec.system_s, spec.grace_s, spec.interval_s, spec.application_s) == (10.0, 300.0, None, None)
    adapter.apply(acts.checkpoint("a", signal="USR1", walltime_s=0.0))
    adapter.apply(acts.checkpoint("b", signal="USR1", walltime_s=0.0))
    assert seen(adapter, "a").checkpointing_since_s == 100.0
    cluster.advance(119.0)
    assert seen(adapter, "a").last_checkpoint_s is None
    changes = cluster.advance(120.0)
    assert changes == [
        Change(120.0, ChangeKind.ACKNOWLEDGED, "a"),
        Change(120.0, ChangeKind.ACKNOWLEDGED, "b"),
    ]
    assert seen(adapter, "a").last_checkpoint_s == 120.0
    assert seen(adapter, "a").checkpointing_since_s is None
    cluster.run()
    for record in cluster.record(policy="none").jobs:
        assert record.end_s == 520.0
        assert record.overhead_node_s == 200.0


def test_an_eviction_in_the_middle_of_a_checkpoint_loses_it_and_frees_the_storage() -> None:
    jobs = [replace(job(name, 0.0, 500.0, 10, 1000.0), system_gb_per_node=100.0) for name in ("a", "b")]
    cluster, adapter = world(20, *jobs)
    cluster.advance(100.0)
    adapter.apply(acts.checkpoint("a", signal="USR1", walltime_s=0.0))
    adapter.apply(acts.checkpoint("b", signal="USR1", walltime_s=0.0))
    cluster.advance(110.0)
    adapter.apply(acts.requeue("a"))
    cluster.advance(115.0)
    assert seen(adapter, "b").last_checkpoint_s == 115.0
    assert cluster.next_event_s() == 230.0
    cluster.run()
    lost = cluster.record(policy="none").jobs[0]
    assert (lost.lost_node_s, lost.overhead_node_s) == (1000.0, 100.0)
    assert lost.end_s == 110.0 + 120.0 + 500.0


def test_a_second_signal_and_one_to_a_job_that_cannot_save_are_ignored() -> None:
    cluster, adapter = world(2, replace(job("a", 0.0, 50.0, 1, 99.0), save_s=10.0), job("b", 0.0, 50.0, 1))
    cluster.advance(5.0)
    adapter.apply(acts.checkpoint("a", signal="USR1", walltime_s=0.0))
    adapter.apply(acts.checkpoint("b", signal="USR1", walltime_s=0.0))
    cluster.advance(12.0)
    adapter.apply(acts.checkpoint("a", signal="USR1", walltime_s=0.0))
    cluster.advance(15.0)
    assert seen(adapter, "a").last_checkpoint_s == 15.0
    assert seen(adapter, "b").checkpoint is None
    cluster.run()
    assert [record.end_s for record in cluster.record(policy="none").jobs] == [60.0, 50.0]


def test_without_a_higher_limit_a_checkpoint_can_bring_a_job_to_its_end() -> None:
    cluster, adapter = world(2, replace(job("a", 0.0, 50.0, 2, 55.0), save_s=10.0))
    cluster.advance(45.0)
    adapter.apply(acts.checkpoint("a", signal="USR1", walltime_s=0.0))
    cluster.run()
    record = cluster.record(policy="none")
    assert (cluster.now_s, record.jobs[0].end_s) == (55.0, None)
    assert record.segments[0].ending is RunEnding.CANCELLED
    assert record.jobs[0].lost_node_s == 45.0 * 2


def test_a_checkpoint_can_raise_the_time_limit() -> None:
    """The job completes; and the limit is known to backfilling, which lets no job on its nodes before."""
    wide, short = job("wide", 1.0, 5.0, 3), job("short", 46.0, 20.0, 1)
    cluster, adapter = world(3, replace(job("a", 0.0, 50.0, 2, 55.0), save_s=10.0), wide, short)
    cluster.advance(45.0)
    adapter.apply(acts.checkpoint("a", signal="USR1", walltime_s=66.0))
    assert seen(adapter, "a").walltime_s == 66.0
    assert starts(cluster) == {"a": 0.0, "wide": 66.0, "short": 46.0}
    assert cluster.record(policy="none").jobs[0].end_s == 60.0


def test_the_limit_of_a_job_that_cannot_save_is_raised_all_the_same() -> None:
    cluster, adapter = world(2, job("a", 0.0, 50.0, 2, 55.0))
    cluster.advance(5.0)
    adapter.snapshot()
    adapter.apply(acts.checkpoint("a", signal="USR1", walltime_s=66.0))
    assert seen(adapter, "a").walltime_s == 66.0


# The queue


def test_jobs_are_served_in_the_order_in_which_they_were_moved_to_the_front() -> None:
    cluster, adapter = world(1, *(job(name, 0.0, 10.0, 1) for name in "abcd"))
    cluster.advance(0.0)
    adapter.apply(acts.prioritise("d"))
    adapter.apply(acts.prioritise("c"))
    assert seen(adapter, "d").prioritised
    assert starts(cluster) == {"a": 0.0, "d": 10.0, "c": 20.0, "b": 30.0}


def test_the_mark_of_a_prioritised_job_is_dropped_when_it_starts() -> None:
    cluster, adapter = world(1, job("a", 0.0, 10.0, 1), job("b", 0.0, 10.0, 1), job("c", 0.0, 10.0, 1))
    cluster.advance(0.0)
    adapter.apply(acts.prioritise("c"))
    cluster.advance(10.0)
    assert not seen(adapter, "c").prioritised
    adapter.apply(acts.requeue("c"))
    cluster.advance(12.0)
    assert seen(adapter, "b").start_s == 10.0


def test_a_requeued_job_keeps_its_place_by_submit_time() -> None:
    cluster, adapter = world(1, job("a", 0.0, 200.0, 1), job("b", 1.0, 300.0, 1), job("c", 2.0, 10.0, 1))
    cluster.advance(5.0)
    adapter.apply(acts.requeue("a"))
    assert starts(cluster) == {"a": 0.0, "b": 5.0, "c": 505.0}
    assert cluster.record(policy="none").jobs[0].end_s == 505.0


def test_a_cancelled_job_loses_what_it_has_done() -> None:
    cluster, adapter = world(2, replace(job("a", 0.0, 50.0, 2), setup_s=5.0), job("b", 0.0, 5.0, 2))
    cluster.advance(20.0)
    adapter.apply(acts.cancel("a"))
    adapter.apply(acts.cancel("b"))
    cluster.run()
    a, b = cluster.record(policy="none").jobs
    assert (a.end_s, a.lost_node_s, a.evictions) == (None, 30.0, 1)
    assert (b.start_s, b.end_s, b.lost_node_s, b.evictions) == (None, None, 0.0, 0)


# Malleable jobs


def lender() -> SimJob:
    return replace(job("m", 0.0, 100.0, 4, 200.0), kind=JobKind.MALLEABLE, node_count_min=2)


def test_a_shrink_under_the_minimum_is_rejected() -> None:
    cluster, adapter = world(4, lender())
    cluster.advance(0.0)
    with pytest.raises(Rejected, match="under its minimum of 2"):
        adapter.apply(acts.shrink("m", keep_nodes=("n1",), walltime_s=200.0))
    assert seen(adapter, "m").node_count == 4


def test_rigid_jobs_neither_shrink_nor_grow() -> None:
    cluster, adapter = world(4, job("a", 0.0, 10.0, 2))
    cluster.advance(0.0)
    with pytest.raises(Rejected, match="cannot shrink"):
        adapter.apply(acts.shrink("a", keep_nodes=("n1",), walltime_s=200.0))
    with pytest.raises(Unsupported):
        adapter.apply(acts.expand("a", nodes=("n3",), reservation=None))


def test_a_job_grows_into_free_nodes_only_and_never_over_its_size() -> None:
    cluster, adapter = world(6, lender(), job("b", 50.0, 10.0, 2))
    cluster.advance(10.0)
    adapter.apply(acts.shrink("m", keep_nodes=("n1", "n3"), walltime_s=400.0))
    with pytest.raises(Rejected, match="over its 4"):
        adapter.apply(acts.expand("m", nodes=("n2", "n4", "n5"), reservation=None))
    cluster.advance(50.0)
    assert seen(adapter, "b").nodes == ("n2", "n4")
    with pytest.raises(Rejected, match="busy: n2") as refusal:
        adapter.apply(acts.expand("m", nodes=("n2", "n5"), reservation=None))
    assert refusal.value.retryable
    adapter.apply(acts.expand("m", nodes=("n5", "n6"), reservation=None))
    adapter.apply(acts.expand("m", nodes=("n5", "n6"), reservation=None))
    assert seen(adapter, "m").nodes == ("n1", "n3", "n5", "n6")
    assert cluster.record(policy="none").jobs[0].shrinks == 1


def test_a_job_grows_into_no_reservation_but_the_named_one() -> None:
    cluster, adapter = world(4, lender(), job("u", 0.0, 5.0, 4))
    cluster.advance(10.0)
    adapter.apply(acts.shrink("m", keep_nodes=("n1", "n3"), walltime_s=400.0))
    adapter.apply(acts.reserve("mw_u", nodes=("n2", "n4"), duration_s=900.0, job_id="u"))
    with pytest.raises(Rejected, match="busy: n2"):
        adapter.apply(acts.expand("m", nodes=("n2",), reservation=None))
    with pytest.raises(Rejected, match="busy: n2"):
        adapter.apply(acts.expand("m", nodes=("n2",), reservation="mw_v"))
    adapter.apply(acts.expand("m", nodes=("n2",), reservation="mw_u"))
    assert seen(adapter, "m").nodes == ("n1", "n2", "n3")


def test_a_hold_that_was_released_meanwhile_keeps_nobody_from_growing() -> None:
    cluster, adapter = world(4, lender())
    cluster.advance(10.0)
    adapter.apply(acts.shrink("m", keep_nodes=("n1", "n3"), walltime_s=400.0))
    adapter.apply(acts.expand("m", nodes=("n2",), reservation="mw_gone"))
    assert seen(adapter, "m").nodes == ("n1", "n2", "n3")


def test_the_batch_host_stays_first_when_lower_nodes_are_added() -> None:
    cluster, adapter = world(6, job("a", 0.0, 10.0, 2), lender())
    cluster.advance(0.0)
    adapter.apply(acts.shrink("m", keep_nodes=("n3", "n5"), walltime_s=400.0))
    cluster.advance(10.0)
    adapter.apply(acts.expand("m", nodes=("n1", "n2"), reservation=None))
    assert seen(adapter, "m").nodes == ("n3", "n1", "n2", "n5")
    with pytest.raises(Rejected, match="batch host n3"):
        adapter.apply(acts.shrink("m", keep_nodes=("n1", "n2"), walltime_s=400.0))


def test_repeating_a_shrink_changes_nothing() -> None:
    cluster, adapter = world(4, lender())
    cluster.advance(10.0)
    adapter.apply(acts.shrink("m", keep_nodes=("n1", "n2"), walltime_s=400.0))
    cluster.step()
    adapter.apply(acts.shrink("m", keep_nodes=("n1", "n2"), walltime_s=400.0))
    assert cluster.advance(20.0) == []
    assert cluster.record(policy="none").jobs[0].shrinks == 1
    assert starts(cluster) == {"m": 0.0}
    assert cluster.record(policy="none").jobs[0].end_s == 10.0 + 90.0 * 2


def test_a_hold_ends_when_the_site_needs_a_node() -> None:
    cluster, adapter = world(2, job("a", 0.0, 99.0, 2), job("u", 5.0, 5.0, 2))
    cluster.advance(10.0)
    adapter.apply(acts.reserve("mw_u", nodes=("n1", "n2"), duration_s=900.0, job_id="u", until_s=50.0))
    (held,) = adapter.snapshot().reservations
    assert held.end_s == 50.0
