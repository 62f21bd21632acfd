"""Whether an urgent job has ended although its cluster still shows it. Pure functions.

A job is completing until its last node is clean. That node may take long: it does not answer, or its epilog
hangs. The other nodes of the hold would be idle meanwhile, and their lenders would wait.
"""

from typing import Final

from makeway.policies.model import Cluster, Job, JobState, Operation, Reserve

ENDS_S: Final = 45.0
"""How long an urgent job may be completing, in seconds, before its nodes go back. Slurm kills what is left of
a job after 30 s (KillWait), and ends the hold of a job that has ended after 60 s (PURGE_COMP): the lenders
have to be first in the queue by then."""


def job_of(operation: Operation, cluster: Cluster) -> Job | None:
    """The job of an operation. None: it is gone, or counts as gone."""
    over_s = counts_as_gone_s(operation, cluster)
    gone = over_s is not None and cluster.now_s >= over_s
    return None if gone else cluster.jobs_by_id().get(operation.for_job_id)


def counts_as_gone_s(operation: Operation, cluster: Cluster) -> float | None:
    """From when on the job of an operation counts as gone. None: it is not completing, or starts again.

    A job that was requeued is completing too, and needs its nodes again. It has no start time or another one,
    and its requeue count is higher than when its hold was made. The start time alone does not tell: Slurm
    changes it when the nodes of the job have booted. A job that is requeued for its exit code (`RequeueExit`)
    counts as ended, because Slurm does not show the requeue before the job has completed (tried on 22.05 and
    26.05). When it waits again, it is served like a new job.
    """
    job = cluster.jobs_by_id().get(operation.for_job_id)
    if job is None or job.state is not JobState.COMPLETING or job.completing_since_s is None:
        return None
    if job.start_s is None or operation.started_s is None:
        return None
    ended = job.start_s == operation.started_s or job.requeue_count == _requeues_before(operation)
    return job.completing_since_s + ENDS_S if ended else None


def _requeues_before(operation: Operation) -> int | None:
    """How often the job had been requeued when its present hold was made. None: there is no hold."""
    holds = (task.action for task in reversed(operation.tasks))
    return next((hold.requeue_count for hold in holds if isinstance(hold, Reserve)), None)
