"""What an eviction takes from a job: the work that a kill loses, and the price by which policies choose.

The price is the loss, times the square of one more than the job's past evictions: 1, 4, 9, and so on. The
loss alone would choose the same job every time, because the run that has just begun again loses least; and so
would a price that grows no faster than the losses of the jobs that run on.

A job that never reports a checkpoint is not spared for that: if it should have had one by now, its loss
counts as that of the jobs of its class that do report.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the loss of a job that is killed.

Differs from the paper:
    Losses are whole node-seconds, not node-hours. A job on shared nodes is priced by its share of them. Past
    evictions and what other jobs report enter the price.
"""

import math
from collections.abc import Iterable

from makeway.policies.model import Action, Cancel, Cluster, Job, Method, Requeue
from makeway.policies.safety.protection import Refusal

HOUR_S = 3600.0


def reported_s(job: Job, now_s: float) -> float | None:
    """When the last checkpoint of the present run was complete. None: none is known.

    A checkpoint in the future is none.
    """
    saved_s = job.last_checkpoint_s
    return None if saved_s is None or saved_s > now_s else saved_s


def unsaved_s(job: Job, now_s: float) -> float:
    """How long the job has worked since the last checkpoint of this run, else since its start. A job that has
    not started: 0.

    Without a report it is no longer than is usual in its class (`Job.usual_unsaved_s`).
    """
    if job.start_s is None:
        return 0.0
    saved_s = reported_s(job, now_s)
    if saved_s is not None:
        return max(0.0, now_s - max(job.start_s, saved_s))
    since_start_s = max(0.0, now_s - job.start_s)
    return since_start_s if job.usual_unsaved_s is None else min(since_start_s, job.usual_unsaved_s)


def node_equivalents(job: Job) -> float:
    """How many whole nodes the job's allocation counts as."""
    return job.node_count if job.node_equivalents is None else job.node_equivalents


def loss_node_s(job: Job, now_s: float) -> int:
    """Node-seconds of work that a kill loses, rounded up: since the last checkpoint of this run, else since
    its start.

    P2, section III-B. A job that has not started loses nothing. A job on a part of its nodes loses its share
    of them.
    """
    return math.ceil(unsaved_s(job, now_s) * node_equivalents(job))


def price_node_s(job: Job, now_s: float) -> int:
    """What a kill counts as when jobs are compared: its loss, times 4 if it was evicted once before, 9 if
    twice, and so on.
    """
    return loss_node_s(job, now_s) * (1 + job.past_evictions) ** 2


def killed_node_s(actions: Iterable[Action], cluster: Cluster, at_s: float | None = None) -> int:
    """Node-seconds of work that the actions lose: jobs that leave without a checkpoint.

    `at_s`: when they are sent. None: now.
    """
    jobs = cluster.jobs_by_id()
    sent_s = cluster.now_s if at_s is None else at_s
    return sum(
        loss_node_s(jobs[action.job_id], sent_s)
        for action in actions
        if isinstance(action, Requeue | Cancel) and action.method is Method.KILL and action.job_id in jobs
    )


def price_refusal(
    cluster: Cluster, for_job_id: str, cost_node_s: float, others_node_s: float = 0.0
) -> tuple[Refusal, str] | None:
    """Why an urgent job may not cost so much work, with the figures. None: it may.

    Args:
        cluster: the snapshot, with the limits and what was lost by earlier decisions.
        for_job_id: the urgent job.
        cost_node_s: what its evictions would lose. 0 is always allowed.
        others_node_s: what other evictions of the same decision lose.
    """
    if not cost_node_s:
        return None
    limits = cluster.limits
    text = f"it would cost {_hours(cost_node_s)} node-hours"
    limit = limits.max_loss_node_hours
    before_node_s = cluster.lost_node_s.get(for_job_id, 0.0)
    if limit is not None and before_node_s + cost_node_s > limit * HOUR_S:
        before = f" after {_hours(before_node_s)} before" if before_node_s else ""
        return Refusal.MAX_LOSS, f"{text}{before}, the limit is {limit:g} (max_loss_node_hours)"
    limit = limits.max_loss_node_hours_per_day
    before_node_s = sum(cluster.lost_node_s.values()) + others_node_s
    if limit is not None and before_node_s + cost_node_s > limit * HOUR_S:
        return Refusal.MAX_LOSS_PER_DAY, (
            f"{text}, and {_hours(before_node_s)} of the {limit:g} of a day are used "
            "(max_loss_node_hours_per_day)"
        )
    return None


def _hours(node_s: float) -> str:
    return f"{node_s / HOUR_S:.4g}"
