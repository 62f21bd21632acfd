"""The nodes that malleable jobs can give without leaving: how many, which ones, and the action that takes
them.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B-2 (SPAA).

Differs from the paper:
    A job never gives its batch host. Jobs that share nodes are never shrunk. The time limit of a job that is
    shrunk grows so that its remaining work fits: linearly, as the paper's estimates do (section III-A), from
    the limit that is right without earlier shrinks.
"""

import math
from collections.abc import Mapping
from typing import TypeVar

from makeway.policies.common.requests import Request
from makeway.policies.common.victims import VictimGroup
from makeway.policies.model import Job, JobKind, Shrink, fair_limit

KeyT = TypeVar("KeyT", str, tuple[str, ...])


def spare_nodes(group: VictimGroup) -> tuple[str, ...]:
    """The nodes that a malleable job can give: the last ones it holds, beyond its batch host and its smallest
    size.
    """
    job = group.jobs[0]
    if (
        len(group.jobs) > 1
        or group.shares_nodes
        or job.kind is not JobKind.MALLEABLE
        or job.node_count_min is None
    ):
        return ()
    able = max(0, len(job.nodes) - job.node_count_min)
    usable = [name for name in group.nodes if name != job.nodes[0]]
    return tuple(usable[max(0, len(usable) - able) :])


def spread_evenly(supplies: Mapping[KeyT, int], wanted: int) -> dict[KeyT, int]:
    """How many nodes each job gives: as evenly as possible, no job more than it can, `wanted` in all.

    Jobs that can give the fewest come first; a remainder goes to the last jobs in the order of (supply, job
    id).
    """
    shares: dict[KeyT, int] = {}
    order = sorted(supplies, key=lambda key: (supplies[key], key))
    left = wanted
    for index, key in enumerate(order):
        shares[key] = min(supplies[key], left // (len(order) - index))
        left -= shares[key]
    return shares


def shrink(request: Request, job: Job, given: frozenset[str]) -> Shrink:
    """Keep the batch host and the first nodes; the time limit grows so that the remaining work still fits.

    What an earlier shrink of the run has added to the limit is not scaled again.
    """
    keep = tuple(name for name in job.nodes if name not in given)
    now_s = request.cluster.now_s
    elapsed_s = 0.0 if job.start_s is None else max(0.0, now_s - job.start_s)
    fair = fair_limit(
        job.taken,
        run=job.requeue_count,
        node_count=len(job.nodes),
        walltime_s=job.walltime_s,
        now_s=now_s,
    )
    left_s = max(0.0, fair.walltime_s - elapsed_s)
    return Shrink(
        job_id=job.job_id,
        for_job_id=request.urgent.job.job_id,
        policy=request.policy,
        reason=request.reason(fits=False),
        keep_nodes=keep,
        walltime_s=float(math.ceil(elapsed_s + left_s * fair.node_count / len(keep))),
    )
