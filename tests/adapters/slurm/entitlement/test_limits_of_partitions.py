"""Urgent jobs in several partitions whose QOS have limits: which of them are looked at."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.entitlement.assoc_mgr import Limited, Scope
from makeway.adapters.slurm.holds import HoldNames
from makeway.adapters.slurm.nodes.reach import Reach
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.resources.limits import NO_LIMITS, KnownLimits
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.adapters.slurm.translate import Translator
from makeway.policies.model import Job, JobKind
from tests.adapters.slurm.jobs.raw_jobs import NOW_S, PENDING
from tests.adapters.slurm.resources.test_partitions import LARGE, PLACED, SMALL

URGENT = JobClass(name="urgent", kind=JobKind.ON_DEMAND)


def limited_job(*names: str, limits: KnownLimits, reason: str = "Resources") -> Job:
    """An urgent job of two nodes with four CPUs, for ten minutes, as it waits in these partitions."""
    asks: dict[str, Any] = {
        "node_count": 2,
        "cpu_count": 4,
        "task_count": 2,
        "tres": "cpu=4,node=2",
        "limit_s": 600.0,
    }
    raw = replace(
        PENDING, **(asks | {"account": "a", "qos": "urgent", "reason": reason, "partitions": names})
    )
    known = tuple(RawPartition(name=name, state="UP") for name in ("small", "large"))
    resources = SnapshotResources(PLACED, known).within(Reach, limits=limits)
    holds = HoldNames(prefix="makeway_c.")
    translator = Translator((URGENT,), resources, NOW_S, exclusive_shrink=True, holds=holds, limits=limits)
    return translator.job(raw)


def limits_of(**of_qos: dict[str, float]) -> KnownLimits:
    """Limits of the QOS of the partitions small and large, and of the jobs' own."""
    limited = (Limited(scope=Scope.JOB, qos=name, left=left) for name, left in of_qos.items())
    of_partitions = {"small": "for_small", "large": "for_large"}
    return KnownLimits(limited=tuple(limited), of_partitions=of_partitions)


OVER = [{"cpu": 3.0}, {"node": 1.0}, {"cpu per node": 1.0}, {"minutes of the time limit": 9.0}]


@pytest.mark.parametrize("left", OVER)
@pytest.mark.parametrize("reason", ["Resources", "QOSMaxWallDurationPerJobLimit", "AssocMaxCpuPerJobLimit"])
def test_no_nodes_are_chosen_in_a_partition_whose_limits_the_job_is_over(
    left: dict[str, float], reason: str
) -> None:
    large, urgent = {"cpu": 40.0}, {"node": 9.0}
    for_large = limits_of(for_large=left, for_small=large, urgent=urgent)
    job = limited_job("small", "large", limits=for_large, reason=reason)
    assert (job.eligible_nodes, job.blocked_by) == (SMALL, "")
    assert [(one.name, one.left) for one in job.quotas] == [
        ("cpu of job 7, QOS for_small", 40.0),
        ("node of job 7, QOS urgent", 9.0),
    ]
    under_both = limits_of(for_large=large, for_small=large)
    for limits in (under_both, NO_LIMITS):
        job = limited_job("small", "large", limits=limits)
        assert (job.eligible_nodes, job.blocked_by) == (LARGE, "")
        kept = limited_job("small", "large", limits=limits, reason="QOSMaxGRESPerUser")
        assert "QOSMaxGRESPerUser" in kept.blocked_by


def test_a_job_that_is_over_the_limits_of_each_of_its_partitions_waits() -> None:
    both = limits_of(for_large={"cpu": 3.0}, for_small={"node": 1.0})
    job = limited_job("small", "large", limits=both)
    assert job.blocked_by == "a limit of its QOS or account in each of its partitions"
    alone = limited_job("large", limits=both)
    assert alone.blocked_by == ""
    assert [one.needs > one.left for one in alone.quotas] == [True], "one partition: the quota says it"
