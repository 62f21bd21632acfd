"""A simulated cluster to which tests send commands."""

from makeway.policies.model import Job
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob

STORAGE = StorageSettings(aggregate_gb_s=100.0, node_gb_s=10.0)


def job(job_id: str, submit_s: float, runtime_s: float, node_count: int, walltime_s: float = 0.0) -> SimJob:
    return SimJob(job_id, submit_s, runtime_s, max(walltime_s, runtime_s), node_count)


def world(
    node_count: int, *jobs: SimJob, backfill: Backfill = Backfill.EASY
) -> tuple[SimCluster, SimAdapter]:
    cluster = SimCluster(
        node_count, jobs, scheduler=SchedulerSettings(backfill=backfill), storage=STORAGE, check=True
    )
    return cluster, SimAdapter(cluster)


def seen(adapter: SimAdapter, job_id: str) -> Job:
    return adapter.snapshot().jobs_by_id()[job_id]


def starts(cluster: SimCluster) -> dict[str, float | None]:
    cluster.run()
    return {record.job.job_id: record.start_s for record in cluster.record(policy="none").jobs}
