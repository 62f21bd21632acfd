"""What jobs get for each GPU that do not say, before and after Slurm's scheduler has looked at them."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.slurm.parse import ForEachGpu, GpuDefaults, for_each_gpu, gres
from makeway.adapters.slurm.parse_cluster import JobDefaults, RawPartition
from makeway.adapters.slurm.partitions.memory import MemoryDefault
from makeway.adapters.slurm.resources.details import MemoryPer, details
from makeway.adapters.slurm.resources.request import gres_share, request_of
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.policies.model import CPU, MEMORY
from tests.adapters.slurm.jobs.raw_jobs import NODES, PENDING
from tests.adapters.slurm.resources.test_details import COUNTS, JOB, printed

SMALL: dict[str, Any] = {"tres": "", "cpu_count": 1, "task_count": 1}
BY_CPU = JobDefaults(memory=MemoryDefault(per_cpu=True, amount_mb=100.0))


@pytest.mark.parametrize(
    ("changes", "memory_mb", "demand"),
    [
        ({"gres_per_job": gres("gres:gpu:2")}, 500.0, (4, 1000)),
        ({"gres_per_task": gres("gres/gpu=1"), "cpu_count": 2, "task_count": 2}, 500.0, (4, 1000)),
        ({"gres_per_job": gres("gres:gpu:1"), "cpu_count": 6, "task_count": 6}, 500.0, (6, 500)),
        ({"gres_per_job": gres("gres:gpu:2")}, 300.0, (4, 1200)),  # by CPU, and not the default
        ({"gres_per_job": gres("gres:gpu:1"), "cpus_per_gpu": 3}, 500.0, (3, 500)),
        ({"gres_per_job": gres("gres:gpu:2"), "cpus_per_task": 3, "cpu_count": 3}, 500.0, (3, 1000)),
        ({}, 500.0, (1, 500)),
    ],
)
@pytest.mark.parametrize(
    ("of_partition", "of_cluster_gpus"),
    [
        (GpuDefaults(cpu_count=2, memory_mb=500.0), GpuDefaults()),
        (GpuDefaults(cpu_count=2, memory_mb=500.0), GpuDefaults(cpu_count=8, memory_mb=8000.0)),
        (GpuDefaults(), GpuDefaults(cpu_count=2, memory_mb=500.0)),
        (GpuDefaults(cpu_count=2), GpuDefaults(cpu_count=8, memory_mb=500.0)),
    ],
)
def test_what_a_job_gets_for_each_gpu_that_does_not_say(
    changes: dict[str, Any],
    memory_mb: float,
    demand: tuple[int, int],
    of_partition: GpuDefaults,
    of_cluster_gpus: GpuDefaults,
) -> None:
    """A new job shows one CPU, and the default of 500 MB for each (22.05 and 24.11)."""
    by_cpu = MemoryDefault(per_cpu=True, amount_mb=500.0)
    partition = RawPartition(name="batch", state="UP", gpu_defaults=of_partition)
    of_cluster = JobDefaults(memory=by_cpu, of_gpus=of_cluster_gpus)
    job = replace(PENDING, **(SMALL | {"memory_mb": memory_mb} | changes))
    found = details(printed(JOB, ""), JOB)
    assert found is not None
    asked = SnapshotResources(
        NODES,
        (partition,),
        counts=COUNTS,
        details={job.job_id: replace(found, memory_mb=memory_mb)},
        job_defaults=of_cluster,
    ).asked(job, urgent=True)
    assert asked.demand is not None
    assert (asked.demand.amount(CPU), asked.demand.amount(MEMORY)) == demand


@pytest.mark.parametrize(
    ("memory", "cpus", "expected"),
    [
        ("gpu:500", "gpu:2", (0, 0, GpuDefaults(cpu_count=2, memory_mb=500.0))),
        ("gpu:500", "N/A", (0, 0, GpuDefaults(memory_mb=500.0))),
        ("gres:gpu:900", "gpu:2", (900, 0, GpuDefaults(cpu_count=2))),
        ("gres/gpu:900", "gres/gpu:3", (900, 3, None)),
        ("N/A", "N/A", (0, 0, None)),
    ],
)
def test_a_default_is_told_from_what_the_job_asks_for(
    memory: str, cpus: str, expected: tuple[int, int, GpuDefaults | None]
) -> None:
    """As printed by 22.05 and 24.11."""
    asked_mb, asked_cpus, by_default = expected
    assert for_each_gpu(memory, cpus) == ForEachGpu(
        memory_per_gpu_mb=asked_mb, cpus_per_gpu=asked_cpus, gpu_defaults=by_default
    )


@pytest.mark.parametrize(
    ("per", "memory_mb", "tres", "default_cpus", "expected"),
    [
        (MemoryPer.CPU, 100.0, "cpu=1,mem=100M", 2, (2, MemoryPer.GPU, 500.0)),
        (MemoryPer.NODE, 300.0, "cpu=1,mem=300M", 2, (2, MemoryPer.NODE, 300.0)),
        (MemoryPer.CPU, 150.0, "cpu=1,mem=150M", 2, (2, MemoryPer.CPU, 150.0)),
        (MemoryPer.CPU, 100.0, "cpu=1,mem=100M", 0, (0, MemoryPer.GPU, 500.0)),  # -c1
        # 24.11 shows only the default of the GPUs, and the total that was asked for.
        (MemoryPer.GPU, 500.0, "cpu=1,mem=100M", 2, (2, MemoryPer.GPU, 500.0)),
        (MemoryPer.GPU, 500.0, "cpu=1,mem=300M", 2, (2, MemoryPer.NODE, 300.0)),
    ],
)
def test_what_a_job_asks_for_after_the_scheduler_has_looked_at_it(
    per: MemoryPer, memory_mb: float, tres: str, default_cpus: int, expected: tuple[int, MemoryPer, float]
) -> None:
    by_default = GpuDefaults(cpu_count=default_cpus, memory_mb=500.0)
    job = replace(PENDING, **(SMALL | {"tres": tres}), gres_per_job=gres("gpu:2"), gpu_defaults=by_default)
    found = details(printed(JOB, ""), JOB)
    assert found is not None
    asked = request_of(job, replace(found, memory_per=per, memory_mb=memory_mb), BY_CPU)
    assert (asked.cpus_per_gpu, asked.memory_per, asked.memory_mb) == expected


@pytest.mark.parametrize(
    ("by_node", "of_job", "by_task", "node_count", "tasks", "expected"),
    [
        ("gres/gpu:4", "gres/gpu:8", "", 2, 1, {"gres/gpu": 4}),
        ("", "gres/gpu:3", "gres/gpu=1", 1, 3, {"gres/gpu": 3}),
        ("gres/gpu:4", "gres/gpu:8", "gres/gpu=1", 2, 4, {"gres/gpu": 4}),
        ("", "gres/gpu:a100:5", "gres/gpu:a100=1", 2, 3, {"gres/gpu": 3, "gres/gpu:a100": 3}),
        ("gres/licence:2", "gres/gpu:3", "", 2, 1, {"gres/licence": 2, "gres/gpu": 2}),
    ],
)
def test_gpus_that_are_asked_for_in_two_ways_are_the_same_gpus(
    by_node: str, of_job: str, by_task: str, node_count: int, tasks: int, expected: dict[str, int]
) -> None:
    wanted: dict[str, Any] = {
        "gres_per_node": gres(by_node),
        "gres_per_job": gres(of_job),
        "gres_per_task": gres(by_task),
    }
    assert gres_share(replace(PENDING, **wanted), node_count, tasks) == expected
