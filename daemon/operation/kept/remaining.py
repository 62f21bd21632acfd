"""What of makeway's a snapshot still shows, in sentences."""

from collections.abc import Mapping

from makeway.daemon.operation.tasks import ENDED
from makeway.policies.model import (
    Cluster,
    Job,
    JobState,
    Operation,
    Prioritise,
    Progress,
    TakenFromJob,
    Task,
)

_MINUTE_S = 60.0


def remaining(cluster: Cluster) -> tuple[str, ...]:
    """The holds, and what jobs still miss, a sentence each. Empty: nothing."""
    holds = [f"hold {one.name} is there" for one in cluster.reservations if one.by_makeway]
    missed = [
        _missed(job, job.taken)
        for job in sorted(cluster.jobs, key=lambda one: (one.submit_s, one.job_id))
        if job.taken is not None
    ]
    return (*holds, *filter(None, missed))


def is_restored(cluster: Cluster, operations: tuple[Operation, ...]) -> bool:
    """Whether the open operations have given back what they can, and no hold is left.

    A job that is seen first in the queue has its turn back: it is not waited for.
    """
    jobs = cluster.jobs_by_id()
    holds = any(one.by_makeway for one in cluster.reservations)
    return not holds and all(
        operation.observe or task.progress in ENDED or _is_in_front(task, jobs)
        for operation in operations
        for task in operation.tasks
    )


def _is_in_front(task: Task, jobs: Mapping[str, Job]) -> bool:
    job = jobs.get(task.action.job_id)
    return (
        isinstance(task.action, Prioritise)
        and task.progress is Progress.ACCEPTED
        and job is not None
        and job.prioritised
    )


def _missed(job: Job, taken: TakenFromJob) -> str:
    """What a job misses. Empty: nothing that counts in its present state."""
    later = job.requeue_count > taken.run
    if job.state is JobState.PENDING:
        has_turn = not later or taken.for_job_id is None or job.prioritised
        return "" if has_turn else f"job {job.job_id} waits and is not first in the queue"
    if job.state is not JobState.RUNNING:
        return ""
    lost = taken.lost_nodes
    if lost is not None and not later and job.node_count < lost.node_count:
        return f"job {job.job_id} runs on {job.node_count} of {lost.node_count} nodes"
    usual_s = taken.usual_walltime_s(job.walltime_s)
    if usual_s is None:
        return ""
    present_min, usual_min = round(job.walltime_s / _MINUTE_S), round(usual_s / _MINUTE_S)
    return f"job {job.job_id} has a time limit of {present_min} minutes in this run, not of {usual_min}"
