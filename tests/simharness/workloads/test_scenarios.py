"""P2's scenarios: as many jobs as the paper has, none expendable, on nearly the whole machine."""

import gzip
from pathlib import Path

import pytest

from makeway.policies.model import Cluster, JobState
from makeway.simharness.workloads.job import WorkloadError
from makeway.simharness.workloads.sample import sample_workload
from makeway.simharness.workloads.scenarios import SCENARIO_JOBS, TRACE, scenario
from makeway.simharness.workloads.swf import SwfReader
from makeway.simharness.workloads.trace import TraceError, write_swf


@pytest.mark.shared
@pytest.mark.parametrize(("number", "busy"), [(1, 4352), (2, 4352), (3, 4139)])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_scenario_is_an_instant_of_the_recorded_schedule(
    shared_traces: Path, number: int, busy: int, seed: int
) -> None:
    cluster = scenario(number, shared_traces, seed)
    assert len(cluster.jobs) == SCENARIO_JOBS[number - 1]
    assert len(cluster.nodes) == busy
    held = [name for job in cluster.jobs for name in job.nodes]
    assert sorted(held) == sorted(node.name for node in cluster.nodes)
    assert cluster.free_nodes() == ()

    recorded = {
        job_id: (submit_s + wait_s, run_s, allocated)
        for block in SwfReader(path=shared_traces / TRACE).blocks()
        for job_id, submit_s, wait_s, run_s, allocated in zip(
            block.job_id, block.submit_s, block.wait_s, block.run_s, block.allocated, strict=True
        )
    }
    running = {
        job_id
        for job_id, (start_s, run_s, _) in recorded.items()
        if run_s >= 1800 and start_s <= cluster.now_s < start_s + run_s
    }
    assert {job.job_id for job in cluster.jobs} == running
    for job in cluster.jobs:
        start_s, run_s, allocated = recorded[job.job_id]
        assert (job.start_s, job.node_count, len(job.nodes)) == (start_s, allocated, allocated)
        assert job.walltime_s >= run_s
        assert job.state is JobState.RUNNING
        assert job.preemptible


@pytest.mark.shared
def test_checkpoints_are_hourly_and_as_long_as_equation_1_says(shared_traces: Path) -> None:
    fast = scenario(2, shared_traces, 5)
    slow = scenario(2, shared_traces, 5, node_gb_per_s=0.7)
    waits: list[bool] = []
    for job, slower in zip(fast.jobs, slow.jobs, strict=True):
        assert job.checkpoint is not None
        assert slower.checkpoint is not None
        assert job.start_s is not None
        assert job.checkpoint.interval_s == 3600
        assert job.checkpoint.system_s is not None
        assert job.checkpoint.application_s is not None
        # From 128 nodes on the file system is slower than the node's memory, but not than its disk.
        assert 0.4 * 208 * job.node_count / 250 <= job.checkpoint.system_s <= 0.9 * 208 * job.node_count / 250
        assert 0.2 <= job.checkpoint.application_s / job.checkpoint.system_s <= 0.6
        assert slower.checkpoint.system_s == pytest.approx(
            max(job.checkpoint.system_s, job.checkpoint.system_s * 250 / job.node_count / 0.7)
        )
        assert job.checkpoint.grace_s >= job.checkpoint.system_s
        last_s = job.last_checkpoint_s if job.last_checkpoint_s is not None else job.start_s
        assert 0 <= fast.now_s - last_s < 3600
        assert (last_s - job.start_s) % 3600 == 0
        waits.append(job.last_checkpoint_s is None)
    assert not all(waits)


@pytest.mark.shared
def test_a_seed_decides_everything(shared_traces: Path) -> None:
    one: Cluster = scenario(1, shared_traces, 1)
    assert one == scenario(1, shared_traces, 1)
    assert one.now_s != scenario(1, shared_traces, 2).now_s


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        WorkloadError, match="scenario 4, seed 0; accepted: scenario 1, 2 or 3, and a seed from 0"
    ):
        scenario(4, tmp_path, 0)
    with pytest.raises(WorkloadError, match="seed -1"):
        scenario(1, tmp_path, -1)
    with pytest.raises(TraceError, match=r"ANL-Theta-2023.swf.gz: cannot be read"):
        scenario(1, tmp_path, 0)
    (tmp_path / TRACE).write_bytes(gzip.compress(b"; MaxProcs: 4360\n"))
    with pytest.raises(TraceError, match="has no jobs; accepted: Theta's trace of 2023"):
        scenario(1, tmp_path, 0)
    write_swf(tmp_path / TRACE, 64, sample_workload(1)[1][:5])
    with pytest.raises(TraceError, match="never were 12 long jobs running"):
        scenario(1, tmp_path, 0)
