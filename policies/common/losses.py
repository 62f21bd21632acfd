"""How long a checkpoint takes that a job leaves after, and what its leaving costs.

The cost is in node-seconds that the machine has to spend again: lost work, the setup, and the time of a
requested checkpoint.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the durations ts and ta of a job's checkpoints.
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-A: the overhead of a
    preemption, which adds the setup.

Differs from the paper:
    A regular checkpoint that is overdue is expected at the next multiple of its period, unless the job has
    missed several. The time that a requested checkpoint takes is a cost. Of a setup, only what is done
    counts.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from makeway.policies.model import Action, Cancel, Cluster, Job, Method, Requeue
from makeway.policies.safety.prices import (
    held_node_s,
    loss_node_s,
    node_equivalents,
    reported_s,
    reports_regularly,
    unsaved_s,
)

MISSED_PERIODS: Final = 2
"""After so many periods without a report, a job's regular checkpoints are not relied on. One may pass because
a report is lost, or because the steps of the job take longer than its class says. After two, whatever it
does, its next checkpoint cannot be foretold."""
LATE_REPORT_S: Final = 60.0
"""How late the report of a complete checkpoint may be seen: two polls of the default interval."""


def system_s(job: Job) -> float | None:
    """P2's ts: the duration of a checkpoint that a signal starts. None: the job has no such checkpoint."""
    duration_s = None if job.checkpoint is None else job.checkpoint.system_s
    return duration_s if duration_s is not None and _is_duration(duration_s) else None


def application_s(job: Job, now_s: float) -> float | None:
    """P2's ta: how long until the next regular checkpoint is complete, its own duration included.

    An overdue checkpoint is expected at the next multiple of its period. None: the job has no regular
    checkpoints, their interval or duration is unknown, or it is silent.
    """
    return None if is_silent(job, now_s) else _expected_s(job, now_s)


def wait_s(job: Job, regular_s: float | None) -> float:
    """How much of `regular_s` passes before the regular checkpoint begins.

    `regular_s`: as by `application_s`. None: there is no such checkpoint, and no wait.
    """
    if regular_s is None or job.checkpoint is None or job.checkpoint.application_s is None:
        return 0.0
    return max(0.0, regular_s - job.checkpoint.application_s)


def is_silent(job: Job, now_s: float) -> bool:
    """Whether the job has missed so many regular checkpoints by now that none is expected of it any more.

    It counts from its last report, else from the end of its setup. A job whose class does not report regular
    checkpoints is never silent: their times are assumed.
    """
    regular = _regular(job, now_s)
    if regular is None or job.checkpoint is None or not reports_regularly(job, now_s):
        return False
    base_s, period_s = regular
    late_s = (job.checkpoint.application_s or 0.0) + LATE_REPORT_S
    return now_s - base_s > MISSED_PERIODS * period_s + late_s


def _expected_s(job: Job, now_s: float) -> float | None:
    """`application_s`, whatever the job has missed."""
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


def cost_node_s(job: Job, method: Method, now_s: float) -> int:
    """Node-seconds that are spent again if the job leaves now, rounded up."""
    elapsed_s = 0.0 if job.start_s is None else max(0.0, now_s - job.start_s)
    if job.past_sizes and job.start_s is not None:
        return math.ceil(_resized_cost_node_s(job, method, job.start_s, now_s))
    setup_s = min(job.setup_s, elapsed_s)
    match method:
        case Method.SHRINK:
            return 0
        case Method.KILL:
            # Without a checkpoint in this run, the unsaved time contains the setup.
            seconds = min(elapsed_s, unsaved_s(job, now_s) + setup_s)
        case Method.APPLICATION:
            seconds = setup_s
        case Method.SYSTEM:
            seconds = setup_s + _requested_s(job)
    return math.ceil(seconds * node_equivalents(job))


def _resized_cost_node_s(job: Job, method: Method, start_s: float, now_s: float) -> float:
    """`cost_node_s` of a job whose size has changed: what it did at another size counts at that."""
    saved_s = now_s - unsaved_s(job, now_s) if method is Method.KILL else now_s
    setup_node_s = held_node_s(job, start_s, min(start_s + job.setup_s, saved_s))
    match method:
        case Method.SHRINK:
            return 0.0
        case Method.KILL:
            return setup_node_s + held_node_s(job, saved_s, now_s)
        case Method.APPLICATION:
            return setup_node_s
        case Method.SYSTEM:
            return setup_node_s + _requested_s(job) * node_equivalents(job)


def _requested_s(job: Job) -> float:
    """The time of a checkpoint that a signal starts. One that is under way costs nothing more."""
    return 0.0 if job.saving_since_s is not None else system_s(job) or 0.0


def departures(
    actions: Iterable[Action], cluster: Cluster, at_s: float | None = None
) -> tuple[tuple[Job, Method], ...]:
    """The jobs that the evictions among the actions make leave, and how, if they begin at `at_s`. None: now.

    A job that was to leave after a regular checkpoint is killed, if that checkpoint is complete before `at_s`
    and the next one would be too late. Its work is then saved up to that checkpoint.
    """
    jobs = cluster.jobs_by_id()
    found: list[tuple[Job, Method]] = []
    for action in actions:
        if not isinstance(action, Requeue | Cancel) or action.job_id not in jobs:
            continue
        job, method = jobs[action.job_id], action.method
        if method is Method.APPLICATION and at_s is not None:
            saved_s = _saved_before(job, cluster.now_s, at_s, action.not_after_s)
            if saved_s is not None:
                job, method = replace(job, last_checkpoint_s=saved_s), Method.KILL
        found.append((job, method))
    return tuple(found)


def _saved_before(job: Job, now_s: float, at_s: float, latest_s: float) -> float | None:
    """When the last regular checkpoint before `at_s` is complete. None: there is one from then on by
    `latest_s`, or none before.
    """
    first_s, next_s = _expected_s(job, now_s), _expected_s(job, at_s)
    regular = _regular(job, now_s)
    if first_s is None or next_s is None or regular is None:
        return None
    if now_s + first_s > at_s or at_s + next_s <= latest_s:
        return None
    return at_s + next_s - regular[1]


def evictions_node_s(actions: Iterable[Action], cluster: Cluster, at_s: float | None = None) -> int:
    """What the evictions among the actions cost together if they begin at `at_s`, in node-seconds. None: now.

    See `departures` for the jobs that are killed only because of the delay.
    """
    instant_s = cluster.now_s if at_s is None else at_s
    return sum(cost_node_s(job, method, instant_s) for job, method in departures(actions, cluster, at_s))


def evictions_loss_node_s(actions: Iterable[Action], cluster: Cluster, at_s: float | None = None) -> int:
    """Node-seconds of work that the evictions among the actions lose if they begin at `at_s`. None: now.

    See `departures` for the jobs that are killed only because of the delay.
    """
    instant_s = cluster.now_s if at_s is None else at_s
    return sum(
        loss_node_s(job, instant_s)
        for job, method in departures(actions, cluster, at_s)
        if method is Method.KILL
    )
