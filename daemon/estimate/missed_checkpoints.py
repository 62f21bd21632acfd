"""The jobs that should have left after a regular checkpoint, and left without one: none is waited for again.

Such a departure was expected to lose nothing, and has lost all since the last report. For a day, the later
runs of the job count as killed if they leave, until they report a regular checkpoint.
"""

from collections.abc import Iterable
from dataclasses import replace

from makeway.daemon.estimate.recent_losses import RecentLoss
from makeway.policies.model import Job
from makeway.policies.safety.prices import reported_s


def without_missed(jobs: tuple[Job, ...], losses: Iterable[RecentLoss], now_s: float) -> tuple[Job, ...]:
    """The jobs; those that have left without a checkpoint, and have reported none since, have no interval.

    Args:
        jobs: of a snapshot.
        losses: those of the last day.
        now_s: the instant of the snapshot.
    """
    missed = {loss.missed_by for loss in losses if loss.missed_by}
    if not missed:
        return jobs
    return tuple(
        _without_interval(job) if job.job_id in missed and reported_s(job, now_s) is None else job
        for job in jobs
    )


def _without_interval(job: Job) -> Job:
    return (
        job if job.checkpoint is None else replace(job, checkpoint=replace(job.checkpoint, interval_s=None))
    )
