"""The base scheduler on a machine of partitions, and the daemon's policy on it."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.model import JobKind
from makeway.policies.wcjs.cost import WcjsConfig
from makeway.policies.wcjs.policy import WCJS
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.invariants import InvariantViolated
from makeway.simharness.engine.partitioned import PartitionSettings
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, Order, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.partitions import Partition, Partitions

RACK = Partitions(
    4,
    (
        *(Partition(name=f"m{index}", nodes=1 << index) for index in range(4)),
        Partition(name="m01", nodes=0b0011),
        Partition(name="m12", nodes=0b0110),
        Partition(name="m23", nodes=0b1100),
        Partition(name="m0-3", nodes=0b1111),
    ),
)
"""Four midplanes in a row: pairs of neighbours, and all of them."""


def job(
    job_id: str,
    submit_s: float,
    runtime_s: float,
    size: int,
    *,
    walltime_s: float | None = None,
    urgent: bool = False,
) -> SimJob:
    return SimJob(
        job_id,
        submit_s,
        runtime_s,
        walltime_s or runtime_s,
        size,
        kind=JobKind.ON_DEMAND if urgent else JobKind.RIGID,
    )


def cluster_of(
    jobs: Sequence[SimJob],
    *,
    order: Order = Order.FCFS,
    backfill: Backfill = Backfill.EASY,
    urgent_first: bool = False,
) -> SimCluster:
    return SimCluster(
        4,
        jobs,
        scheduler=SchedulerSettings(order=order, backfill=backfill),
        storage=StorageSettings(),
        requeue_delay_s=0.0,
        check=True,
        placed=PartitionSettings(partitions=RACK, urgent_first=urgent_first),
    )


def record_of(cluster: SimCluster) -> ReplayRecord:
    cluster.run()
    return cluster.record(policy="none")


def starts(record: ReplayRecord) -> dict[str, float | None]:
    return {one.job.job_id: one.start_s for one in record.jobs}


def places(record: ReplayRecord) -> dict[str, str]:
    return {record.jobs[stretch.job].job.job_id: f"{stretch.nodes:04b}" for stretch in record.segments}


def test_two_free_midplanes_that_are_no_partition_do_not_serve() -> None:
    jobs = [job("a", 0, 100, 1), job("b", 1, 19, 1), job("c", 2, 100, 1), job("d", 30, 10, 2)]
    record = record_of(cluster_of(jobs))
    # Each takes what it takes the fewest partitions from: the second its neighbour's pair, so that the other
    # stays whole.
    assert places(record) == {"a": "0001", "b": "0010", "c": "0100", "d": "0011"}
    assert starts(record) == {"a": 0.0, "b": 1.0, "c": 2.0, "d": 100.0}


def test_a_job_gets_the_smallest_partition_that_holds_it_and_uses_its_lowest_nodes() -> None:
    record = record_of(cluster_of([job("a", 0, 10, 3), job("b", 1, 10, 1)]))
    assert places(record) == {"a": "0111", "b": "1000"}
    assert starts(record) == {"a": 0.0, "b": 1.0}


def test_backfill_beside_the_promised_partition_or_before_it_is_due() -> None:
    jobs = [
        job("a", 0, 100, 2),  # on 0 and 1
        job("b", 1, 40, 1),  # on 3, the other midplane stays free
        job("wide", 2, 10, 4),  # promised all at 100
        job("long", 3, 99, 1),  # would put it off
        job("short", 4, 96, 1),  # does not
    ]
    assert starts(record_of(cluster_of(jobs))) == {
        "a": 0.0,
        "b": 1.0,
        "wide": 100.0,
        "long": 110.0,
        "short": 4.0,
    }
    # Midplane 2 is free once b is gone, but no job passes another.
    without = starts(record_of(cluster_of(jobs, backfill=Backfill.NONE)))
    assert (without["wide"], without["short"]) == (100.0, 110.0)


def test_only_the_first_job_that_waits_has_a_promise() -> None:
    jobs = [
        job("a", 0, 100, 2),  # on 0 and 1
        job("b", 1, 49, 1),  # on 3
        job("wide", 2, 10, 4),  # promised all at 100
        job("pair", 3, 10, 2),  # could have 2 and 3 at 50, and has no promise
        job("long", 4, 96, 1),  # ends before 100
    ]
    record = starts(record_of(cluster_of(jobs)))
    assert record == {"a": 0.0, "b": 1.0, "wide": 100.0, "pair": 110.0, "long": 4.0}


def test_wfp_serves_the_larger_of_two_that_waited_alike() -> None:
    jobs = [job("a", 0, 100, 4), job("small", 1, 50, 1), job("large", 1, 50, 4)]
    assert starts(record_of(cluster_of(jobs)))["large"] == 150.0
    record = record_of(cluster_of(jobs, order=Order.WFP))
    assert starts(record) == {"a": 0.0, "large": 100.0, "small": 150.0}


def test_wfp_serves_the_job_that_has_waited_longer_for_its_length() -> None:
    jobs = [job("a", 0, 100, 4), job("long", 1, 100, 4), job("short", 1, 50, 4)]
    record = starts(record_of(cluster_of(jobs, order=Order.WFP)))
    assert record == {"a": 0.0, "short": 100.0, "long": 150.0}
    # (90 / 90)^3 x 3 is more than (40 / 50)^3 x 4.
    jobs = [job("a", 0, 100, 4), job("x", 10, 90, 3), job("y", 60, 50, 4)]
    record = starts(record_of(cluster_of(jobs, order=Order.WFP)))
    assert record == {"a": 0.0, "x": 100.0, "y": 190.0}


def test_in_the_high_priority_queue_urgent_jobs_block_all_others() -> None:
    jobs = [
        job("a", 0, 100, 2),
        job("batch", 1, 10, 1),
        job("u", 2, 10, 4, urgent=True),
        job("later", 12, 10, 1),
        job("v", 13, 10, 1, urgent=True),
    ]
    record = starts(record_of(cluster_of(jobs, urgent_first=True)))
    # v passes u, because both are urgent; "later" passes none although it would end in time.
    assert record == {"a": 0.0, "batch": 1.0, "u": 100.0, "later": 110.0, "v": 13.0}
    assert starts(record_of(cluster_of(jobs)))["later"] == 12.0


@pytest.mark.parametrize("backfill", [Backfill.CONSERVATIVE, Backfill.EASY_CQSIM])
def test_other_backfills_are_refused(backfill: Backfill) -> None:
    with pytest.raises(ValueError, match="on partitions it must be none or easy"):
        cluster_of([job("a", 0, 10, 1)], backfill=backfill)


def test_the_checker_knows_partitions() -> None:
    cluster = cluster_of([job("a", 0, 10, 2)])
    cluster.machine.scheduler.run_pass = lambda machine: None  # type: ignore[method-assign]
    cluster.step()
    live = cluster.machine.live["a"]
    cluster.machine.scheduler.run_pass = lambda machine: machine.start_on(live, 0b0101)  # type: ignore
    cluster.machine.pass_due = True
    with pytest.raises(InvariantViolated, match="job 'a' is on no partition of the right size"):
        cluster.step()


@st.composite
def workloads(draw: st.DrawFn) -> list[SimJob]:
    """Up to twelve jobs on four midplanes, some urgent, some able to checkpoint."""
    jobs = []
    for number in range(draw(st.integers(1, 12))):
        runtime_s = float(draw(st.integers(1, 400)))
        urgent = draw(st.integers(0, 3)) == 0
        saves = not urgent and draw(st.booleans())
        jobs.append(
            SimJob(
                str(number),
                float(draw(st.integers(0, 500))),
                runtime_s,
                runtime_s + draw(st.sampled_from([40, 100, 500])),
                draw(st.sampled_from([1, 1, 2, 4])),
                kind=JobKind.ON_DEMAND if urgent else JobKind.RIGID,
                save_s=20.0 if saves else None,
                restart_s=30.0 if saves else 0.0,
            )
        )
    return jobs


@settings(deadline=None, max_examples=60)
@given(
    jobs=workloads(),
    order=st.sampled_from(list(Order)),
    backfill=st.sampled_from([Backfill.NONE, Backfill.EASY]),
)
def test_everybody_starts_and_ends_on_a_partition(
    jobs: list[SimJob], order: Order, backfill: Backfill
) -> None:
    record = record_of(cluster_of(jobs, order=order, backfill=backfill))
    assert all(one.end_s is not None for one in record.jobs)


@settings(deadline=None, max_examples=60)
@given(jobs=workloads(), threshold=st.sampled_from([1.0, 1.2]))
def test_the_policy_clears_partitions_and_everybody_ends(jobs: list[SimJob], threshold: float) -> None:
    config = WcjsConfig(
        urgent_narrow_short=threshold,
        urgent_narrow_long=threshold,
        urgent_wide_short=threshold,
        urgent_wide_long=threshold,
    )
    cluster = cluster_of(jobs, order=Order.WFP)
    record = Replay(cluster, WCJS, config, ReplaySettings(poll_interval_s=10.0)).run()
    assert all(one.end_s is not None for one in record.jobs)
    assert all(one.evictions == 0 for one in record.jobs if one.job.kind is JobKind.ON_DEMAND)


def test_a_restart_from_a_checkpoint_takes_its_time_and_is_booked() -> None:
    batch = SimJob("a", 0.0, 1000.0, 2000.0, 4, save_s=50.0, restart_s=70.0)
    urgent = SimJob("u", 200.0, 100.0, 100.0, 4, kind=JobKind.ON_DEMAND)
    config = WcjsConfig(urgent_narrow_short=1.0)
    cluster = cluster_of([batch, urgent])
    record = Replay(cluster, WCJS, config, ReplaySettings(poll_interval_s=10.0)).run()
    lender, borrower = record.jobs
    # It saves until 250, the urgent job runs until 350, then 70 s of restart and the 800 s that were left.
    assert (borrower.start_s, borrower.end_s) == (250.0, 350.0)
    assert lender.end_s == 350.0 + 70.0 + 800.0
    assert (lender.evictions, lender.lost_node_s) == (1, 0.0)
    assert lender.overhead_node_s == (50.0 + 70.0) * 4
