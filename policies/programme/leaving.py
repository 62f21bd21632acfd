"""When the checkpoints of a plan have the file system, the actions by which a chosen job leaves, and the
words for it.

A plan counts the checkpoints for other urgent jobs. Its own are requested at once if all of them together are
complete in time for everybody; else they are requested when the others are over.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the ways in which a job leaves its nodes.

Differs from the paper:
    A job may complete its checkpoint as late as there is time to kill it before the deadline of the urgent
    job, and has its own grace at least. One that does not report it has its grace, or the duration of all
    checkpoints if that is longer.
"""

from dataclasses import dataclass, replace
from types import MappingProxyType

from makeway.policies.common.losses import wait_s
from makeway.policies.common.proposals import eviction_actions
from makeway.policies.common.requests import Request
from makeway.policies.common.victims import VictimGroup
from makeway.policies.model import Acknowledgement, Action, Job, Method
from makeway.policies.programme.items import EvictionJob

WORDS = MappingProxyType(
    {
        Method.KILL: "killed",
        Method.APPLICATION: "after its next checkpoint",
        Method.SYSTEM: "after a signal",
    }
)
"""How a job leaves, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """When the checkpoints of a plan have the file system."""

    begin_s: float | None
    """When they are requested. None: at once, next to those of other plans."""
    saved_by_s: float
    """When all of them are complete, and all that were requested before."""
    latest_s: float
    """When the jobs must have left."""
    kill_s: float
    """When a job that has not saved its work is killed in time to have left by then, if its checkpoint has
    its time and the job its grace."""


def at_once_s(request: Request, latest_s: float) -> float:
    """How many seconds of checkpoints can be requested at once, and all are complete in time: those of this
    plan by `latest_s`, those of other plans before their jobs are made to leave. 0: none.
    """
    ahead = request.backlog
    return max(0.0, min(latest_s, ahead.until_s) - request.cluster.now_s - ahead.left_s)


def in_turn_s(request: Request, latest_s: float) -> float:
    """How many seconds of checkpoints can be complete by `latest_s` if they are requested when those of other
    plans are over. 0: none.
    """
    return max(0.0, latest_s - request.cluster.now_s - request.backlog.over_s)


def turn(request: Request, *, saved_s: float, latest_s: float, leave_s: float, in_turn: bool) -> Turn:
    """When the checkpoints of a plan are requested, and how long they may take.

    Args:
        request: the request.
        saved_s: how long all checkpoints of the plan take together.
        latest_s: when the jobs must have left.
        leave_s: how long a job that is killed takes to leave its nodes.
        in_turn: whether they are requested when those of other plans are over. False: at once.
    """
    now_s, ahead = request.cluster.now_s, request.backlog
    begin_s = now_s + ahead.over_s if in_turn and saved_s else None
    ahead_s = ahead.left_s if saved_s else 0.0
    saved_by_s = (now_s + ahead_s if begin_s is None else begin_s) + saved_s
    kill_s = min(latest_s, max(saved_by_s, latest_s - leave_s))
    return Turn(begin_s=begin_s, saved_by_s=saved_by_s, latest_s=latest_s, kill_s=kill_s)


def behind(item: EvictionJob, group: VictimGroup, *, ahead_s: float) -> EvictionJob:
    """The item if the file system first writes checkpoints of other jobs, for `ahead_s` seconds. Its wait for
    its next regular checkpoint passes meanwhile.
    """
    if item.application_s is None or not ahead_s:
        return item
    own_s = wait_s(group.jobs[0], item.application_s)
    application_s = max(0.0, own_s - ahead_s) + (item.application_s - own_s)
    awaited_s = wait_s(group.jobs[0], application_s) if item.application_wait_s else 0.0
    return replace(item, application_s=application_s, application_wait_s=awaited_s)


def as_chosen(request: Request, item: EvictionJob) -> EvictionJob:
    """The item without the checkpoints after which a joint choice does not let it leave."""
    method = request.methods.get(item.job_ids[0]) if len(item.job_ids) == 1 else None
    if method is None:
        return item
    if method is not Method.APPLICATION:
        item = replace(item, application_s=None, application_wait_s=0.0)
    return item if method is Method.SYSTEM else replace(item, system_s=None)


def leave_actions(request: Request, job: Job, method: Method, plan: Turn) -> tuple[Action, ...]:
    """The actions by which one job leaves for the request. `plan`: when its checkpoints are written."""
    now_s = request.cluster.now_s
    if method is not Method.SYSTEM or job.checkpoint is None:
        return eviction_actions(request, job, method, now_s if method is Method.KILL else plan.kill_s)
    reports = job.checkpoint.acknowledgement is not Acknowledgement.NONE
    grace_end_s = (now_s if plan.begin_s is None else plan.begin_s) + job.checkpoint.grace_s
    not_after_s = min(plan.latest_s, max(grace_end_s, plan.kill_s if reports else plan.saved_by_s))
    return eviction_actions(
        request, job, method, not_after_s, not_before_s=plan.begin_s, saved_by_s=plan.saved_by_s
    )
