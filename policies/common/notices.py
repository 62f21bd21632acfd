"""Announced jobs: which job is the one that was announced, and what an announcement holds until then. Pure functions.

A notice opens an operation of its own, under its own id. When its job arrives (`arrivals`) the operation passes to the
job: until the policy has made the hold anew, for the job, the operation is `unbound`.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B: advance notice and arrival.

Differs from the paper:
    It does not say how a job is known to be the announced one: `arrivals` does.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from makeway.policies.model import Job, JobKind, JobState, Notice, Operation, Reserve


def awaited(operation: Operation) -> bool:
    """Whether the operation holds nodes for an announced job that has not arrived."""
    return operation.notice is not None and operation.for_job_id == operation.notice.notice_id


def unbound(operation: Operation) -> bool:
    """Whether the announced job has arrived and no hold was asked for under its own name yet."""
    return (
        operation.notice is not None
        and not awaited(operation)
        and not any(
            isinstance(task.action, Reserve) and task.action.job_id == operation.for_job_id
            for task in operation.tasks
        )
    )


def arrivals(notices: Sequence[Notice], jobs: Iterable[Job], served: Iterable[str]) -> Mapping[str, Job]:
    """The jobs that have arrived for announcements, by the id of the notice.

    A job belongs to the notice that it names, if its user made it. One that names none belongs to the notice of its
    user, for at least as many nodes, whose expected arrival is nearest to its submission. Jobs are taken in the order
    of submission, those that name a notice first; each notice gets one job, which was not submitted before it.

    Args:
        notices: all that are kept. One that has its job gets no other, nor does that job get another notice.
        jobs: those of the snapshot.
        served: ids of jobs that have an operation already: they came without notice.
    """
    waiting = {notice.notice_id: notice for notice in notices if notice.job_id is None}
    if not waiting:
        return {}
    settled = {notice.job_id for notice in notices} | set(served)
    arrived = sorted(
        (job for job in jobs if _could_be_announced(job) and job.job_id not in settled),
        key=lambda job: (job.notice_id is None, job.submit_s, job.job_id),
    )
    found: dict[str, Job] = {}
    for job in arrived:
        notice = _notice_of(job, [notice for key, notice in waiting.items() if key not in found])
        if notice is not None:
            found[notice.notice_id] = job
    return found


def _could_be_announced(job: Job) -> bool:
    return job.kind is JobKind.ON_DEMAND and job.state in (JobState.PENDING, JobState.RUNNING)


def _notice_of(job: Job, notices: list[Notice]) -> Notice | None:
    """The announcement that one job belongs to. None: it came without."""
    # A cluster may tell whole seconds of a submission only.
    theirs = [
        notice
        for notice in notices
        if notice.user == job.user and math.floor(notice.announced_s) <= job.submit_s
    ]
    if job.notice_id is not None:
        return next((notice for notice in theirs if notice.notice_id == job.notice_id), None)
    return min(
        (notice for notice in theirs if job.node_count <= notice.node_count),
        key=lambda notice: (abs(notice.expected_s - job.submit_s), notice.announced_s, notice.notice_id),
        default=None,
    )
