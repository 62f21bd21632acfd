"""The clock, the events and the accounts of the simulated cluster."""

from dataclasses import replace

import pytest

from makeway.policies.model import JobKind
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.event_queue import Change, ChangeKind, NodeFailure
from makeway.simharness.engine.records import Mark, MarkKind, RunEnding, Segment
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob
from tests import acts


def job(job_id: str, submit_s: float, runtime_s: float, node_count: int, walltime_s: float = 0.0) -> SimJob:
    return SimJob(job_id, submit_s, runtime_s, max(walltime_s, runtime_s), node_count)


def cluster_of(
    node_count: int,
    *jobs: SimJob,
    backfill: Backfill = Backfill.EASY,
    failures: tuple[NodeFailure, ...] = (),
) -> SimCluster:
    return SimCluster(
        node_count,
        jobs,
        scheduler=SchedulerSettings(backfill=backfill),
        storage=StorageSettings(),
        failures=failures,
        check=True,
    )


def starts(cluster: SimCluster) -> dict[str, float | None]:
    return {record.job.job_id: record.start_s for record in cluster.record(policy="none").jobs}


# Time


def test_the_clock_starts_at_the_first_event() -> None:
    cluster = cluster_of(2, job("late", 50.0, 5.0, 1), job("early", 20.0, 5.0, 1))
    assert cluster.now_s == cluster.next_event_s() == 20.0


def test_an_empty_cluster_has_no_future() -> None:
    cluster = cluster_of(2)
    assert cluster.next_event_s() is None
    assert cluster.step() == []
    assert cluster.advance(30.0) == []
    assert cluster.now_s == 30.0


def test_changes_come_in_the_order_in_which_they_happen() -> None:
    cluster = cluster_of(2, job("a", 0.0, 10.0, 2), job("b", 4.0, 5.0, 1))
    assert cluster.step() == [
        Change(0.0, ChangeKind.SUBMITTED, "a"),
        Change(0.0, ChangeKind.STARTED, "a"),
    ]
    assert cluster.advance(10.0) == [
        Change(4.0, ChangeKind.SUBMITTED, "b"),
        Change(10.0, ChangeKind.ENDED, "a"),
        Change(10.0, ChangeKind.STARTED, "b"),
    ]
    assert cluster.advance(14.0) == []
    assert cluster.next_event_s() == 15.0


def test_one_pass_sees_all_that_happens_at_an_instant() -> None:
    """At 10 s `a` ends and both others arrive: the first of them by submit order takes the machine."""
    cluster = cluster_of(2, job("a", 0.0, 10.0, 2), job("b", 10.0, 5.0, 2), job("c", 10.0, 5.0, 1))
    cluster.run()
    assert starts(cluster) == {"a": 0.0, "b": 10.0, "c": 15.0}


def test_the_lowest_numbered_free_nodes_are_taken_first() -> None:
    cluster = cluster_of(4, job("a", 0.0, 5.0, 1), job("b", 0.0, 9.0, 1), job("c", 6.0, 5.0, 2))
    cluster.run()
    nodes = {segment.job: segment.nodes for segment in cluster.record(policy="none").segments}
    assert nodes == {0: 0b0001, 1: 0b0010, 2: 0b0101}


def test_stepping_and_running_give_the_same_record() -> None:
    jobs = [job(f"{n}", float(n * 3 % 17), float(n % 7 + 1), n % 4 + 1, float(n % 5 + 3)) for n in range(40)]
    ran, stepped = cluster_of(5, *jobs), cluster_of(5, *jobs)
    seen: list[float] = []
    ran.run(seen.append)
    while stepped.next_event_s() is not None:
        stepped.step()
    assert ran.record(policy="p") == stepped.record(policy="p")
    assert ran.step() == []


def test_progress_is_told_now_and_then() -> None:
    cluster = cluster_of(1, *(job(f"{n}", float(n), 1.0, 1) for n in range(5000)))
    seen: list[float] = []
    cluster.run(seen.append)
    assert seen == [2047.0, 4095.0]


def test_jobs_may_be_submitted_on_the_way() -> None:
    cluster = cluster_of(2, job("a", 0.0, 10.0, 2), job("b", 30.0, 1.0, 1))
    cluster.advance(5.0)
    cluster.submit(job("c", 5.0, 1.0, 2))
    cluster.submit(job("d", 20.0, 1.0, 2))
    cluster.run()
    assert starts(cluster) == {"a": 0.0, "b": 30.0, "c": 10.0, "d": 20.0}
    with pytest.raises(ValueError, match=r"job 'e' comes at 20.0 s: it is 31.0 s already"):
        cluster.submit(job("e", 20.0, 1.0, 1))
    with pytest.raises(ValueError, match="job 'a' is in the workload already"):
        cluster.submit(job("a", 40.0, 1.0, 1))


def test_a_call_is_made_before_the_pass_of_its_instant() -> None:
    cluster = cluster_of(2, job("a", 0.0, 10.0, 2), job("b", 1.0, 5.0, 2))
    seen: list[tuple[float, int]] = []
    cluster.call_at(10.0, lambda: seen.append((cluster.now_s, cluster.machine.available())))
    cluster.run()
    assert seen == [(10.0, 2)]


# Announcements and node failures


def test_an_announcement_is_an_event_until_the_job_arrives() -> None:
    urgent = replace(job("u", 100.0, 5.0, 1), kind=JobKind.ON_DEMAND, announced_s=40.0, expected_s=90.0)
    cluster = cluster_of(2, urgent)
    assert cluster.step() == [Change(40.0, ChangeKind.ANNOUNCED, "u")]
    assert list(cluster.announced) == ["u"]
    cluster.step()
    assert not cluster.announced
    assert cluster.now_s == 100.0


def test_a_failing_node_requeues_its_job_alone() -> None:
    failure = NodeFailure(at_s=4.0, node=1, repair_s=500.0)
    cluster = cluster_of(3, job("a", 0.0, 10.0, 2), job("b", 0.0, 10.0, 1), failures=(failure,))
    changes = cluster.advance(4.0)
    assert changes[-2:] == [
        Change(4.0, ChangeKind.REQUEUED, "a"),
        Change(4.0, ChangeKind.NODE_DOWN, None),
    ]
    cluster.run()
    record = cluster.record(policy="none")
    a, b = record.jobs
    assert (a.end_s, a.evictions, a.lost_node_s) == (134.0, 0, 8.0)
    assert b.end_s == 10.0
    assert Segment(0, 0.0, 4.0, 0b011, RunEnding.NODE_FAILED) in record.segments
    assert Segment(0, 124.0, 134.0, 0b101, RunEnding.COMPLETED) in record.segments
    assert record.marks == [Mark(4.0, MarkKind.NODE_DOWN, None, 0b010)]


def test_a_node_that_fails_twice_is_down_until_the_later_repair() -> None:
    failures = (
        NodeFailure(at_s=10.0, node=0, repair_s=100.0),
        NodeFailure(at_s=20.0, node=0, repair_s=10.0),
        NodeFailure(at_s=105.0, node=0, repair_s=50.0),
    )
    cluster = cluster_of(1, job("a", 15.0, 5.0, 1), failures=failures)
    cluster.run()
    assert starts(cluster) == {"a": 155.0}


def test_a_down_node_is_no_part_of_the_first_jobs_reservation() -> None:
    """With one node of three down for ever, the start of the wide job is unknown: others pass it."""
    failure = NodeFailure(at_s=0.0, node=0, repair_s=1e6)
    cluster = cluster_of(
        3, job("a", 1.0, 10.0, 1), job("wide", 2.0, 5.0, 3), job("b", 3.0, 99.0, 1), failures=(failure,)
    )
    cluster.run()
    assert starts(cluster) == {"a": 1.0, "wide": 1e6, "b": 3.0}


# The record


def test_what_still_runs_is_cut_and_goes_on() -> None:
    cluster = cluster_of(2, job("a", 0.0, 10.0, 2))
    cluster.advance(4.0)
    assert cluster.record(policy="p").segments == [Segment(0, 0.0, 4.0, 0b11, RunEnding.CUT)]
    cluster.run()
    assert cluster.record(policy="p").segments == [Segment(0, 0.0, 10.0, 0b11, RunEnding.COMPLETED)]


def test_the_record_says_what_it_is_of() -> None:
    cluster = SimCluster(
        2,
        [job("a", 0.0, 10.0, 2)],
        scheduler=SchedulerSettings(backfill=Backfill.CONSERVATIVE),
        storage=StorageSettings(),
        workload="toy",
    )
    cluster.run()
    record = cluster.record(policy="p", excluded=3, commands={"requeue": 2}, decision_s=[0.5], wall_s=1.5)
    assert (record.policy, record.backfill, record.workload) == ("p", "conservative", "toy")
    assert (record.node_count, record.excluded, record.commands) == (2, 3, {"requeue": 2})
    assert (record.decision_s, record.wall_s) == ([0.5], 1.5)


def test_an_evicted_job_is_marked_and_marked_again_when_it_runs_again() -> None:
    cluster = cluster_of(2, job("a", 0.0, 10.0, 2))
    adapter = SimAdapter(cluster)
    cluster.advance(3.0)
    adapter.apply(acts.requeue("a"))
    cluster.run()
    record = cluster.record(policy="p")
    assert record.marks == [
        Mark(3.0, MarkKind.EVICTED, 0, 0b11),
        Mark(123.0, MarkKind.RETURNED, 0, 0b11),
    ]
    assert [segment.ending for segment in record.segments] == [RunEnding.REQUEUED, RunEnding.COMPLETED]
    assert (record.jobs[0].start_s, record.jobs[0].end_s) == (0.0, 133.0)


# What cannot be


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_count": 5}, "job 'a': node_count is 5: it must be from 1 to the machine's 4"),
        ({"node_count": 0}, "node_count is 0"),
        ({"submit_s": float("nan")}, "submit_s is nan"),
        ({"runtime_s": 0.0}, "runtime_s is 0.0"),
        ({"walltime_s": 9.0}, "walltime_s is 9.0: it must be finite and at least runtime_s, 10.0"),
        ({"walltime_s": float("inf")}, "walltime_s is inf"),
        ({"setup_s": 10.0}, "setup_s is 10.0"),
        ({"checkpoint_interval_s": 0.0}, "checkpoint_interval_s is 0.0"),
        ({"checkpoint_cost_s": -1.0}, "checkpoint_cost_s is -1.0"),
        ({"save_s": -1.0}, "save_s is -1.0"),
        ({"system_gb_per_node": 0.0}, "system_gb_per_node is 0.0"),
        ({"node_count_min": 1}, "node_count_min is 1: it must be None for a rigid job"),
        (
            {"kind": JobKind.MALLEABLE, "node_count_min": 3},
            "node_count_min is 3: it must be from 1 to node_count, 2",
        ),
    ],
)
def test_an_impossible_job_is_named(changes: dict[str, object], message: str) -> None:
    impossible = job("a", 0.0, 10.0, 2)
    for field, value in changes.items():
        setattr(impossible, field, value)
    with pytest.raises(ValueError, match=message):
        cluster_of(4, job("fine", 0.0, 1.0, 1), impossible)


def test_a_job_id_may_not_come_twice() -> None:
    with pytest.raises(ValueError, match="job 'a' is in the workload 2 times"):
        cluster_of(4, job("b", 0.0, 1.0, 1), job("a", 0.0, 1.0, 1), job("a", 5.0, 1.0, 1))


@pytest.mark.parametrize(
    "failure",
    [
        NodeFailure(at_s=0.0, node=4, repair_s=1.0),
        NodeFailure(at_s=0.0, node=-1, repair_s=1.0),
        NodeFailure(at_s=float("inf"), node=0, repair_s=1.0),
        NodeFailure(at_s=0.0, node=0, repair_s=-1.0),
    ],
)
def test_an_impossible_failure_is_refused(failure: NodeFailure) -> None:
    with pytest.raises(ValueError, match="nodes are 0 to 3"):
        cluster_of(4, failures=(failure,))


def test_a_machine_without_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="0 nodes"):
        cluster_of(0)
