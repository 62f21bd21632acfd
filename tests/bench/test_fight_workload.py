"""The workload of a fight: the same for a seed, and every job fits the cluster."""

from collections import Counter

import pytest
from bench.fight.workload import (
    CORES_PER_NODE,
    GPU_NODES,
    GPUS_PER_NODE,
    HORIZON_S,
    LOAD,
    MEMORY_MB,
    NODES,
    URGENT_KINDS,
    FightJob,
    FightKind,
    Quality,
    workload,
)

SEEDS = range(1, 21)


def option(job: FightJob, name: str) -> int:
    """The number that a job gives with an option of sbatch."""
    (found,) = [word for word in job.options if word.startswith(f"--{name}=")]
    return int(found.rpartition("=")[2].rpartition(":")[2])


def test_a_seed_has_one_workload() -> None:
    assert workload(7) == workload(7)
    assert workload(7) != workload(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_job_fits_the_cluster_by_what_it_asks_for(seed: int) -> None:
    for job in workload(seed):
        assert job.cores == option(job, "nodes") * option(job, "ntasks-per-node")
        assert job.nodes == option(job, "nodes") <= NODES
        assert option(job, "ntasks-per-node") <= CORES_PER_NODE
        assert option(job, "mem") <= MEMORY_MB
        assert job.gpus <= GPUS_PER_NODE
        assert job.gpus == (option(job, "gres") if job.gpus else 0)
        # No run reaches its limit, even with a checkpoint every 20 s; Slurm signals up to a minute earlier.
        assert 60 * option(job, "time") >= 1.15 * job.work_s + job.setup_s + 55


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cluster_is_full_and_urgent_jobs_of_every_kind_come(seed: int) -> None:
    jobs = workload(seed)
    batch = [job for job in jobs if not job.urgent]
    core_s = sum(job.core_s for job in batch)
    assert core_s >= LOAD * NODES * CORES_PER_NODE * HORIZON_S
    assert sum(job.cores * (job.tasks or 1) for job in batch if job.submit_s <= 5) >= NODES * CORES_PER_NODE
    assert sum(job.gpus * job.work_s for job in batch) >= GPU_NODES * GPUS_PER_NODE * HORIZON_S / 2
    assert Counter(job.kind for job in jobs if job.urgent) == dict.fromkeys(URGENT_KINDS, 3)
    assert {job.kind for job in batch} == set(FightKind) - set(URGENT_KINDS)
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    names = [name for job in jobs for name in job.run_names]
    assert len(names) == len(set(names))


def test_what_may_be_interrupted_saves_or_not() -> None:
    jobs = [job for seed in SEEDS for job in workload(seed)]
    for job in jobs:
        assert (job.quality is Quality.URGENT) == (job.kind in URGENT_KINDS)
        assert (job.quality is Quality.STEADY) == (job.kind is FightKind.STEADY)
    saves = {kind: {job.interval_s is not None for job in jobs if job.kind is kind} for kind in FightKind}
    assert saves[FightKind.SAVING] == saves[FightKind.WIDE] == saves[FightKind.GPU_SAVING] == {True}
    assert saves[FightKind.FIXED] == saves[FightKind.GPU_FIXED] == saves[FightKind.STEADY] == {False}
    assert saves[FightKind.ARRAY] == {True, False}
