"""The order in which the scheduler takes waiting jobs, and which jobs wait for nodes and nothing else."""

from makeway.policies.model import Job, JobState

QueueKey = tuple[float, float, int, str]
"""Compares as the queue does; see `queue_key`."""


def queue_key(job: Job) -> QueueKey:
    """The sort key of the queue: the highest priority first, then the earliest submission, then the older job
    id.
    """
    return (-job.priority, job.submit_s, len(job.job_id), job.job_id)


def waits_for_nodes(job: Job, now_s: float) -> bool:
    """Whether the job is pending, may start now, and is bound to no reservation."""
    return (
        job.state is JobState.PENDING
        and job.reservation is None
        and (job.eligible_s is None or job.eligible_s <= now_s)
    )
