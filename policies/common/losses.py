"""How long a checkpoint takes that a job leaves after.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the durations ts and ta of a job's checkpoints.

Differs from the paper:
    A regular checkpoint that is overdue is expected at the next multiple of its period.
"""

import math

from makeway.policies.model import Job
from makeway.policies.safety.prices import reported_s


def system_s(job: Job) -> float | None:
    """P2's ts: the duration of a checkpoint that a signal starts. None: the job has no such checkpoint."""
    duration_s = None if job.checkpoint is None else job.checkpoint.system_s
    return duration_s if duration_s is not None and _is_duration(duration_s) else None


def application_s(job: Job, now_s: float) -> float | None:
    """P2's ta: how long until the next regular checkpoint is complete, its own duration included.

    An overdue checkpoint is expected at the next multiple of its period. None: the job has no regular
    checkpoints, or their interval or duration is unknown.
    """
    regular = _regular(job, now_s)
    if regular is None:
        return None
    base_s, period_s = regular
    periods = max(1, math.ceil((now_s - base_s) / period_s))
    return max(0.0, base_s + periods * period_s - now_s)


def overdue_s(job: Job, now_s: float) -> float | None:
    """For how long the regular checkpoint that was due last has not been reported. None: none was due yet, or
    the job has none.
    """
    regular = _regular(job, now_s)
    if regular is None or now_s < sum(regular):
        return None
    base_s, period_s = regular
    return (now_s - base_s) % period_s


def _regular(job: Job, now_s: float) -> tuple[float, float] | None:
    """From when on the job works for its next regular checkpoint, and after which time it is complete: the
    interval and its own duration. None: see `application_s`.
    """
    spec = job.checkpoint
    if spec is None or spec.interval_s is None or spec.application_s is None or job.start_s is None:
        return None
    period_s = spec.interval_s + spec.application_s
    if not (_is_duration(spec.interval_s) and _is_duration(spec.application_s) and period_s > 0.0):
        return None
    working_s = job.start_s + job.setup_s
    saved_s = reported_s(job, now_s)
    return working_s if saved_s is None else max(working_s, saved_s), period_s


def _is_duration(duration_s: float) -> bool:
    """Whether a job declared a usable duration: users may declare anything."""
    return math.isfinite(duration_s) and duration_s >= 0.0
