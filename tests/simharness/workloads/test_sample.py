"""The shipped workload: small, busy, and with urgent jobs that a plain scheduler lets wait."""

from pathlib import Path
from statistics import mean

import pytest

from makeway.policies.model import JobKind
from makeway.simharness.workloads.job import SimJob, WorkloadError
from makeway.simharness.workloads.sample import sample_workload
from makeway.simharness.workloads.trace import read_trace, write_swf


def easy_starts(jobs: list[SimJob], node_count: int) -> dict[str, float]:
    """First come, first served with EASY backfilling, as plainly as it can be written: when each job
    starts.
    """
    starts: dict[str, float] = {}
    running: list[SimJob] = []
    queue: list[SimJob] = []
    instants = {job.submit_s for job in jobs}
    while instants:
        now_s = min(instants)
        instants.remove(now_s)
        running = [job for job in running if starts[job.job_id] + job.runtime_s > now_s]
        queue += [job for job in jobs if job.submit_s == now_s]
        for job in list(queue):
            free = node_count - sum(other.node_count for other in running)
            if job.node_count <= free and (
                job is queue[0] or harmless(job, queue[0], running, starts, free, now_s)
            ):
                starts[job.job_id] = now_s
                instants.add(now_s + job.runtime_s)
                running.append(job)
                queue.remove(job)
    return starts


def harmless(
    job: SimJob, head: SimJob, running: list[SimJob], starts: dict[str, float], free: int, now_s: float
) -> bool:
    """Whether `job`, started now, leaves the head of the queue the nodes it is to have."""
    ends = sorted((starts[other.job_id] + other.walltime_s, other.node_count) for other in running)
    for head_s, _ in ends:
        at_head = free + sum(count for end_s, count in ends if end_s <= head_s)
        if at_head >= head.node_count:
            return now_s + job.walltime_s <= head_s or job.node_count <= at_head - head.node_count
    raise AssertionError("the head of the queue is larger than the machine")


@pytest.mark.parametrize("seed", range(6))
def test_it_is_small_and_loaded_and_its_urgent_jobs_wait_for_long_under_plain_easy(seed: int) -> None:
    node_count, jobs = sample_workload(seed)
    assert node_count == 64
    assert len(jobs) == 380
    assert 1.5 < jobs[-1].submit_s / 86_400 < 4
    assert 0.85 < sum(job.node_count * job.runtime_s for job in jobs) / (64 * jobs[-1].submit_s) < 0.92

    urgent = [job for job in jobs if job.kind is JobKind.ON_DEMAND]
    starts = easy_starts(jobs, node_count)
    waits_s = [starts[job.job_id] - job.submit_s for job in urgent]
    assert mean(waits_s) > 3600
    assert sum(wait_s > 600 for wait_s in waits_s) > len(urgent) / 2


def test_its_jobs_can_make_way() -> None:
    _, jobs = sample_workload(1)
    by_kind = {kind: [job for job in jobs if job.kind is kind] for kind in JobKind}
    assert len(by_kind[JobKind.ON_DEMAND]) == 20
    for job in by_kind[JobKind.ON_DEMAND]:
        assert 4 <= job.node_count <= 24
        assert job.start_within_s == 600
        assert job.runtime_s <= job.walltime_s
    assert len(by_kind[JobKind.MALLEABLE]) > 50
    assert all((job.node_count_min or 0) <= job.node_count for job in by_kind[JobKind.MALLEABLE])
    regular = [
        job
        for job in by_kind[JobKind.RIGID]
        if job.setup_s + (job.checkpoint_interval_s or 0) + job.checkpoint_cost_s < job.runtime_s
    ]
    assert len(regular) > 40
    assert all(900 < (job.checkpoint_interval_s or 0) < 14_400 for job in by_kind[JobKind.RIGID])


def test_it_is_the_same_for_the_same_seed_and_can_be_saved(tmp_path: Path) -> None:
    node_count, jobs = sample_workload(3)
    assert (node_count, jobs) == sample_workload(3)
    assert jobs != sample_workload(4)[1]
    assert len({job.job_id for job in jobs}) == len(jobs)
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    write_swf(tmp_path / "sample.swf.gz", node_count, jobs)
    saved = read_trace(tmp_path / "sample.swf.gz")
    assert saved.node_count == node_count
    assert [
        (job.job_id, job.submit_s, job.runtime_s, job.walltime_s, job.node_count) for job in saved.jobs
    ] == [(job.job_id, job.submit_s, job.runtime_s, job.walltime_s, job.node_count) for job in jobs]


def test_a_seed_below_zero_is_refused() -> None:
    with pytest.raises(WorkloadError, match="seed: -1"):
        sample_workload(-1)
