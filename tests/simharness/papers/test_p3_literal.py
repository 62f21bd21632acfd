"""P3's algorithms as they are written: by hand, and against the simulator's EASY."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord, RunEnding
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.papers.p3.literal import LiteralSimulation
from makeway.simharness.workloads.job import SimJob

NODES = 8


def stretches(record: ReplayRecord) -> list[tuple[int, float, float, str]]:
    return sorted(
        (segment.job, segment.start_s, segment.end_s, segment.ending.value) for segment in record.segments
    )


def job(job_id: int, submit_s: float, runtime_s: float, walltime_s: float, node_count: int) -> SimJob:
    return SimJob(str(job_id), submit_s, runtime_s, walltime_s, node_count, save_s=0.0)


def test_who_lasts_longer_than_predicted_leaves_for_the_first_and_goes_on_after_it() -> None:
    jobs = [job(0, 0, 1000, 1000, 4), job(1, 10, 500, 500, 8), job(2, 20, 2000, 4000, 4)]
    assert stretches(LiteralSimulation(NODES, jobs, 0.2).run()) == [
        (0, 0, 1000, "completed"),
        (1, 1000, 1500, "completed"),
        (2, 20, 1000, "requeued"),
        (2, 1500, 2520, "completed"),
    ]


def test_the_first_does_not_wait_for_the_limit_of_those_that_are_predicted_to_end_before() -> None:
    # Job 1 wants six nodes. Job 2 is let pass, is predicted to last 400 s, and job 0 has ended by then.
    jobs = [job(0, 0, 100, 2000, 4), job(1, 10, 500, 500, 6), job(2, 20, 1900, 2000, 4)]
    assert stretches(LiteralSimulation(NODES, jobs, 0.2).run()) == [
        (0, 0, 100, "completed"),
        (1, 420, 920, "completed"),
        (2, 20, 420, "requeued"),
        (2, 920, 2420, "completed"),
    ]


def test_the_largest_leave_and_no_more_than_have_to() -> None:
    jobs = [
        job(0, 0, 1000, 1000, 5),
        job(1, 10, 500, 500, 7),
        job(2, 20, 3000, 4000, 1),
        job(3, 20, 3000, 4000, 2),
    ]
    record = LiteralSimulation(NODES, jobs, 0.2).run()
    assert [done.evictions for done in record.jobs] == [0, 0, 0, 1]
    assert record.jobs[1].start_s == 1000


@pytest.mark.parametrize(("walltime_s", "evictions"), [(1700.0, 0), (1800.0, 1)])
def test_short_limits_are_believed(walltime_s: float, evictions: int) -> None:
    jobs = [job(0, 0, 1000, 1000, 4), job(1, 10, 500, 500, 8), job(2, 20, 1600, walltime_s, 4)]
    assert LiteralSimulation(NODES, jobs, 0.2).run().jobs[2].evictions == evictions


def workload(seed: int) -> list[SimJob]:
    draw = Random(seed)
    jobs, submit_s = [], 0.0
    for index in range(40):
        submit_s += draw.choice([0, 0, 1, 2, 5, 10]) * 100.0
        runtime_s = draw.choice([20.0, 100.0, 300.0, 1000.0]) * draw.choice([1, 2, 3])
        limit_s = runtime_s * draw.choice([1, 2, 5, 10])
        jobs.append(job(index, submit_s, runtime_s, limit_s, draw.choice([1, 1, 2, 2, 3, 4, 6, NODES])))
    return jobs


@settings(deadline=None, max_examples=60)
@given(jobs=st.integers(0, 10**9).map(workload), p=st.sampled_from([None, 1.0]))
def test_without_a_share_it_is_the_simulators_easy(jobs: list[SimJob], p: float | None) -> None:
    plain = SimCluster(NODES, jobs, scheduler=SchedulerSettings(), storage=StorageSettings())
    plain.run()
    expected = [(done.start_s, done.end_s) for done in plain.record(policy="none").jobs]
    record = LiteralSimulation(NODES, jobs, p).run()
    assert [(done.start_s, done.end_s) for done in record.jobs] == expected


@settings(deadline=None, max_examples=60)
@given(jobs=st.integers(0, 10**9).map(workload), p=st.sampled_from([0.1, 0.2, 0.5]))
def test_every_job_does_all_its_work_and_no_node_serves_two(jobs: list[SimJob], p: float) -> None:
    record = LiteralSimulation(NODES, jobs, p).run()
    done_s = [0.0] * len(jobs)
    for one in record.segments:
        done_s[one.job] += one.end_s - one.start_s
        assert one.nodes.bit_count() == jobs[one.job].node_count
        for other in record.segments:
            together = one.start_s < other.end_s and other.start_s < one.end_s
            assert one is other or not together or not one.nodes & other.nodes
    assert done_s == pytest.approx([job.runtime_s for job in jobs])
    evicted = [segment.job for segment in record.segments if segment.ending is RunEnding.REQUEUED]
    assert [evicted.count(index) for index in range(len(jobs))] == [done.evictions for done in record.jobs]
