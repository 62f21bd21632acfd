"""Which job is the one that a notice announced. Pure functions.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B: advance notice and
    arrival.

Differs from the paper:
    It does not say how the announced job is recognised.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from makeway.policies.model import Job, JobKind, JobState, Notice


def arrivals(notices: Sequence[Notice], jobs: Iterable[Job], served: Iterable[str]) -> Mapping[str, Job]:
    """The jobs that have arrived for announcements, by the id of the notice.

    A job that names a notice belongs to it, if both have the same user. A job that names none belongs to a
    notice of its user for at least as many nodes: the one whose expected arrival is nearest to the job's
    submission. Jobs are matched in the order of submission, those that name a notice first. Each notice gets
    one job, submitted after the announcement.

    Args:
        notices: all that are kept. A notice that has its job gets no other, and that job gets no other
            notice.
        jobs: those of the snapshot.
        served: ids of jobs that already have an operation: they arrived without notice.
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
    # The nodes of an announcement are not divided among components.
    return (
        job.kind is JobKind.ON_DEMAND
        and not job.het_job_id
        and job.state in (JobState.PENDING, JobState.RUNNING)
    )


def _notice_of(job: Job, notices: list[Notice]) -> Notice | None:
    """The notice that one job belongs to. None: it arrived without notice."""
    # A cluster may report the submission in whole seconds.
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
