"""Which jobs may not be made to leave any more, because they were changed after the decision, or the site's
limits were.

The arbiter would refuse such an eviction when it is sent, at the end of the grace. By then others would have
left for an urgent job that lacks these nodes.
"""

from makeway.daemon.operation.tasks import is_eviction, leave_themselves, may_be_dropped
from makeway.policies.model import (
    Cluster,
    Ending,
    Job,
    JobState,
    Operation,
    Progress,
    Task,
)
from makeway.policies.safety.protection import Refusal, hard_protection


def protected_since(operation: Operation, cluster: Cluster) -> dict[str, str]:
    """Jobs that were to leave, have not been told to yet, and may not be made to any more: by id, each with
    why.

    A job that is completing leaves in any case, and so does one that is saving its work and then leaves by
    itself. One that is suspended does not keep other jobs from its nodes.
    """
    jobs = cluster.jobs_by_id()
    planned = {
        job.job_id: job
        for task in operation.tasks
        if is_eviction(task) and may_be_dropped(task) and (job := jobs.get(task.action.job_id)) is not None
    }
    refusals = {job_id: refusal for job_id, job in planned.items() if (refusal := _refusal(job, cluster))}
    if not refusals:
        return {}
    leaving = leave_themselves(operation, cluster)
    return {
        job_id: f"the job may not be made to leave any more: {refusal}"
        for job_id, refusal in refusals.items()
        if job_id not in leaving
    }


def called_off(before: Task, after: Task, cluster: Cluster) -> Refusal | None:
    """Why an eviction ended in this cycle, if its job may not be made to leave any more. None: it did not, or
    for another reason.
    """
    ended_now = before.progress is Progress.PLANNED and after.ending is Ending.OUTDATED
    job = cluster.jobs_by_id().get(after.action.job_id) if ended_now and is_eviction(after) else None
    return None if job is None else _refusal(job, cluster)


def _refusal(job: Job, cluster: Cluster) -> Refusal | None:
    return hard_protection(job, cluster) if job.state is JobState.RUNNING and job.nodes else None
