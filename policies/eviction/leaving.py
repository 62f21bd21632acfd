"""The actions by which a chosen job leaves, and the words for it.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the ways in which a job leaves its nodes.

Differs from the paper:
    A checkpoint has the job's own grace, or the duration of all checkpoints if that is longer.
"""

from types import MappingProxyType

from makeway.policies.common.proposals import eviction_actions
from makeway.policies.common.requests import Request
from makeway.policies.model import Action, Job, Method

WORDS = MappingProxyType(
    {
        Method.KILL: "killed",
        Method.APPLICATION: "after its next checkpoint",
        Method.SYSTEM: "after a signal",
    }
)
"""How a job leaves, in words."""


def leave_actions(
    request: Request, job: Job, method: Method, *, saved_s: float, latest_s: float
) -> tuple[Action, ...]:
    """The actions by which one job leaves for the request.

    Args:
        request: the request.
        job: the job.
        method: how it leaves.
        saved_s: how long all checkpoints of the plan take together.
        latest_s: when the job must have left.
    """
    not_after_s = request.cluster.now_s if method is Method.KILL else latest_s
    if method is Method.SYSTEM and job.checkpoint is not None:
        wait_s = max(job.checkpoint.grace_s, saved_s)
        not_after_s = min(latest_s, request.cluster.now_s + wait_s)
    return eviction_actions(request, job, method, not_after_s)
