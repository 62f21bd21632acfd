"""What enters a job's price besides its own reports: its past evictions, and what its class reports.

A job of a class whose jobs report checkpoints, and that has reported none though it should have had one by
now, is priced as the others of its class: the median of the times since their last checkpoints. A class
without reports says nothing. What a run reports that makeway has asked to save its work says nothing, either:
the others were not asked.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from statistics import median
from types import MappingProxyType

from makeway.policies.common.losses import application_s
from makeway.policies.model import Job, JobState, memoise_last
from makeway.policies.safety.prices import reported_s


@memoise_last
def with_past_evictions(jobs: tuple[Job, ...], evictions: Mapping[str, int]) -> tuple[Job, ...]:
    """The jobs with the number of their past evictions, by job id."""
    if not evictions:
        return jobs
    return tuple(
        replace(job, past_evictions=evictions[job.job_id]) if job.job_id in evictions else job for job in jobs
    )


def with_class_reports(
    jobs: tuple[Job, ...], now_s: float, asked_s: Mapping[str, float] = MappingProxyType({})
) -> tuple[Job, ...]:
    """The jobs, with what is usual in its class for each that reports no checkpoint.

    Args:
        jobs: of a snapshot.
        now_s: the instant of the snapshot.
        asked_s: when each job was asked to save its work last, by id.
    """
    ages_s: dict[str, list[float]] = defaultdict(list)
    silent: set[str] = set()
    for job in jobs:
        if not job.job_class or job.state is not JobState.RUNNING or job.start_s is None:
            continue
        saved_s = reported_s(job, now_s)
        if saved_s is not None and saved_s >= job.start_s:
            if job.taken is None and asked_s.get(job.job_id, -inf) < job.start_s:
                ages_s[job.job_class].append(now_s - saved_s)
        elif _overdue(job, job.start_s, now_s):
            silent.add(job.job_id)
    if not silent or not ages_s:
        return jobs
    usual_s = {name: median(found) for name, found in ages_s.items()}
    return tuple(
        replace(job, usual_unsaved_s=usual_s[job.job_class])
        if job.job_id in silent and job.job_class in usual_s
        else job
        for job in jobs
    )


def _overdue(job: Job, start_s: float, now_s: float) -> bool:
    """Whether its first regular checkpoint should be complete. A job that declares none is always late."""
    at_start_s = application_s(job, start_s)
    return at_start_s is None or now_s > start_s + at_start_s
