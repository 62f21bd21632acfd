"""What waiting jobs will count as under limits: more than they ask for, as three releases showed.

Recorded on 22.05.8, 24.11.5 and 26.05.5 on 2026-11-26, alike on all: nodes of two cores with two threads,
4,000 MB and two GPUs, CR_Core_Memory, DefMemPerCPU=1000. On all of them a job waits for a limit that is one
below these numbers (QOSGrpCpuLimit, QOSGrpGRES, QOSGrpMemLimit), and runs under one that is equal.
"""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.slurm.entitlement.assoc_mgr import Limited, Scope
from makeway.adapters.slurm.entitlement.charged import least_held, needs_of
from makeway.adapters.slurm.parse import Gres
from makeway.adapters.slurm.parse_cluster import RawNode, RawPartition, partitions
from makeway.adapters.slurm.resources.counting import WHOLE_NODES, Counting
from makeway.adapters.slurm.resources.details import JobDetails, MemoryPer, details
from makeway.adapters.slurm.resources.limits import KnownLimits, quotas
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.policies.model import JobKind
from tests.adapters.slurm.jobs.raw_jobs import ANY, PENDING, raw_node, translated
from tests.adapters.slurm.resources.test_details import JOB, printed

COUNTS = Counting(shares=True, cpus=True, memory=True, memory_by_unit=True)
NODE = replace(
    raw_node(1),
    cpu_count=4,
    usable_cpu_count=4,
    core_count=2,
    threads_per_core=2,
    memory_mb=4000.0,
    usable_memory_mb=4000.0,
    gres=(Gres(name="gpu", type="", count=2),),
)
NODES = tuple(replace(NODE, name=f"n{number}") for number in range(1, 5))


def asks(cpus: int, nodes: int = 1) -> Any:
    """A job that waits for so many CPUs on so many nodes, for a minute."""
    tres = f"cpu={cpus},mem={cpus}000M,node={nodes},billing={cpus}"
    return replace(PENDING, tres=tres, cpu_count=cpus, task_count=cpus, node_count=nodes, limit_s=60.0)


def told(**changes: Any) -> JobDetails:
    found = details(printed(JOB, ""), JOB)
    assert found is not None
    return replace(found, held=None, memory_per=MemoryPer.CPU, memory_mb=1000.0, **changes)


ALL = {"exclusive": True, "takes_all": True}


@pytest.mark.parametrize(
    ("cpus", "nodes", "said", "held"),
    [
        (1, 1, {}, {"cpu": 2.0, "mem": 2000.0, "node": 1.0}),
        (3, 1, {}, {"cpu": 4.0, "mem": 4000.0, "node": 1.0}),
        (2, 2, {}, {"cpu": 4.0, "mem": 4000.0, "node": 2.0}),
        (2, 1, {"threads_per_core": 1}, {"cpu": 4.0, "mem": 2000.0, "node": 1.0}),
        (1, 1, {"exclusive": True}, {"cpu": 2.0, "mem": 2000.0, "node": 1.0}),
        (1, 1, ALL, {"cpu": 4.0, "mem": 4000.0, "node": 1.0, "gres/gpu": 2.0}),
        (2, 2, ALL, {"cpu": 8.0, "mem": 8000.0, "node": 2.0, "gres/gpu": 4.0}),
        (5, 1, ALL, {"cpu": 8.0, "mem": 8000.0, "node": 1.0, "gres/gpu": 2.0}),
        (
            1,
            1,
            {**ALL, "memory_per": MemoryPer.NODE, "memory_mb": 500.0},
            {"cpu": 4.0, "mem": 1000.0, "node": 1.0, "gres/gpu": 2.0},
        ),
    ],
)
def test_what_a_job_counts_as(cpus: int, nodes: int, said: dict[str, Any], held: dict[str, float]) -> None:
    raw = asks(cpus, nodes)
    found = replace(told(), **said)
    needs = needs_of(raw, least_held(raw, found, NODES, COUNTS, whole=False))
    counted = {"billing": float(cpus), **held}
    minutes = {
        f"{what} {of}": amount
        for what, amount in counted.items()
        for of in ("run minutes", "minutes in all", "job minutes")
    }
    per_node = {f"{what} per node": amount // counted["node"] for what, amount in counted.items()}
    assert needs == {"jobs": 1.0, **counted, **minutes, **per_node, "minutes of the time limit": 1.0}


@pytest.mark.parametrize(
    ("counts", "whole", "cpus"), [(COUNTS, True, 4.0), (COUNTS, False, 2.0), (WHOLE_NODES, False, 4.0)]
)
def test_a_partition_or_the_whole_slurm_may_give_whole_nodes(
    counts: Counting, whole: bool, cpus: float
) -> None:
    assert least_held(asks(1), None, NODES, counts, whole=whole)["cpu"] == cpus


def test_of_nodes_that_differ_the_smallest_count() -> None:
    """Otherwise a job could wait for a limit that Slurm does not hold it to."""
    large = replace(NODE, name="n5", cpu_count=16, usable_cpu_count=16, core_count=16, gres=())
    there: tuple[RawNode, ...] = (*NODES, large)
    assert least_held(asks(6), told(**ALL), there, COUNTS, whole=False) == {
        "cpu": 4.0,
        "mem": 4000.0,
        "gres/gpu": 0.0,
    }
    assert needs_of(asks(6), {"cpu": 4.0})["cpu"] == 6.0
    assert least_held(asks(5), told(), there, COUNTS, whole=False)["cpu"] == 5.0
    assert least_held(asks(5), told(), (), COUNTS, whole=False)["cpu"] == 0.0


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        ("ExclusiveUser=NO OverSubscribe=EXCLUSIVE", True),
        ("Exclusive=NODE OverSubscribe=NO", True),
        ("ExclusiveUser=YES OverSubscribe=NO", False),
        ("Exclusive=USER OverSubscribe=NO", False),
        ("Exclusive=NO OverSubscribe=FORCE:4", False),
    ],
)
def test_the_partitions_that_give_whole_nodes(words: str, whole: bool) -> None:
    (found,) = partitions([f"PartitionName=batch State=UP {words}"], command=("scontrol",))
    assert found.whole_nodes == whole


@pytest.mark.parametrize(("whole", "needs"), [(True, 4.0), (False, 2.0)])
def test_a_limit_is_compared_with_what_the_job_will_get(whole: bool, needs: float) -> None:
    """The partition gives whole nodes: the QOS admits three CPUs more, and Slurm will not admit the job."""
    raw = asks(1)
    there = (RawPartition(name="batch", state="UP", exclusive=whole, whole_nodes=whole),)
    resources = SnapshotResources(NODES, there, counts=COUNTS, details={raw.job_id: told()})
    limited = KnownLimits(limited=(Limited(scope=Scope.QOS, qos=raw.qos, left={"cpu": 3.0}),))
    least = resources.least_held(raw, resources.asked(raw, urgent=True))
    assert [(one.needs, one.left) for one in quotas(raw, limited, least)] == [(needs, 3.0)]


def test_the_urgent_jobs_of_a_snapshot_say_what_they_will_get() -> None:
    """Here the Slurm gives whole nodes, of which the smallest have two CPUs."""
    raw = replace(PENDING, tres="cpu=2,node=2", cpu_count=2, task_count=2)
    limits = KnownLimits(limited=(Limited(scope=Scope.QOS, qos=raw.qos, left={"cpu": 3.0}),))
    job = translated(raw, replace(ANY, kind=JobKind.ON_DEMAND), limits=limits)
    assert [(one.needs, one.left) for one in job.quotas] == [(4.0, 3.0)]
