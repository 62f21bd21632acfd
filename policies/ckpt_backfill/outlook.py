"""When the first job of the queue gets its nodes, if jobs that started before their turn leave in time.

Reference:
    Niu et al., "Employing Checkpoint to Improve Job Scheduling in Large-Scale Systems" (JSSPP 2012), section
    3.3, Algorithms 1 (the reservation of the queue's first job) and 2 (the predicted run time).

Differs from the paper:
    With `p: learned` each user has a share (the paper has one for all users). Nodes are distinguished: a node
    is free when the last of its jobs has left, and counts only for jobs that it can serve. A prediction is
    never shorter than the site's minimum run time, and never longer than the time limit. The cluster's
    scheduler does its own backfilling, and may start a job ahead of the first of the queue because it
    expects a job that started early to stay longer: such a job also leaves when the start that was promised
    to the first one is due.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from makeway.policies.common.departures import NodeRelease, node_releases
from makeway.policies.common.losses import system_s
from makeway.policies.common.shared_nodes import room_times_s, with_room
from makeway.policies.model import Cluster, Job, Operation, OperationKind, Phase, Resources
from makeway.policies.queue.order import queue_key, waits_for_nodes
from makeway.policies.safety.protection import Refusal, protection, start_protection

NAME = "ckpt-backfill"
UNKNOWN_SHARE = 0.2
"""The share expected for users with too few known runs: one of the paper's best values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CkptBackfillConfig:
    """Settings of policy "ckpt-backfill"."""

    p: float | Literal["learned"] = 0.2
    """The predicted run time of a job that starts before its turn, as a share of its time limit; above 0, at
    most 1.

    `learned`: the share that finished runs of its user usually took, or 0.2 while too few are known."""
    threshold_s: float = 1800.0
    """The prediction for a job with a shorter time limit is the limit itself (the paper's t_thr)."""
    p_by_user: Mapping[str, float] = field(default_factory=dict[str, float])
    """By user: a `p` for the jobs of this user, such as one learned from their history."""
    without_checkpoint: bool = False
    """Whether jobs that cannot checkpoint on a signal also start early; they lose their run if they have to
    leave."""
    hold_slack_s: float = 600.0
    """How much longer than the job's time limit the hold lasts for its start."""

    def __post_init__(self) -> None:
        for name, value in (
            *(() if self.p == "learned" else (("p", self.p),)),
            *((f"p_by_user[{user}]", p) for user, p in self.p_by_user.items()),
        ):
            if not 0.0 < value <= 1.0:
                raise ValueError(f"{name} is {value!r}; accepted: a share above 0 and at most 1")
        for name, value in (("threshold_s", self.threshold_s), ("hold_slack_s", self.hold_slack_s)):
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"{name} is {value!r}; accepted: a number of seconds, not negative")


def predicted_s(
    job: Job,
    config: CkptBackfillConfig,
    min_runtime_s: float = 0.0,
    usual_shares: Mapping[str, float] = MappingProxyType({}),
) -> float:
    """Algorithm 2: the predicted duration of a run of the job. `usual_shares`: see `Cluster`.

    A resumed job is predicted to need the rest of its limit, plus the checkpoint and restart that interrupted
    it (section 5.1: T_extend).
    """
    if job.walltime_s < config.threshold_s:
        expected_s = job.walltime_s
    elif job.saved_s > 0.0:
        expected_s = job.walltime_s - job.saved_s + (system_s(job) or 0.0) + job.setup_s
    else:
        expected_s = job.walltime_s * _share(job.user, config, usual_shares)
    return min(job.walltime_s, max(expected_s, min_runtime_s))


def _share(user: str, config: CkptBackfillConfig, usual_shares: Mapping[str, float]) -> float:
    """The share of the time limit that is predicted for a job of the user."""
    if user in config.p_by_user:
        return config.p_by_user[user]
    return usual_shares.get(user, UNKNOWN_SHARE) if config.p == "learned" else config.p


def may_start_early(job: Job, cluster: Cluster, config: CkptBackfillConfig) -> bool:
    """Whether a waiting job may start before its turn: the site allows it, and the job can checkpoint on a
    signal.
    """
    checkpoints = system_s(job) is not None or config.without_checkpoint
    return checkpoints and start_protection(job, cluster) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A job that waits for nodes and nothing else. `promise` None: nothing was promised to it."""

    job: Job
    promise: Operation | None = None
    """Its operation, which holds no nodes yet: it is to start by the operation's deadline."""

    @property
    def promised_s(self) -> float:
        """When it is to start at the latest. Infinite: nothing was promised."""
        return math.inf if self.promise is None else self.promise.deadline_s


def waiting_jobs(cluster: Cluster) -> list[WaitingJob]:
    """The jobs that wait for nodes and nothing else, in the queue's order."""
    served = cluster.operations_by_job()
    found: list[WaitingJob] = []
    for job in cluster.jobs:
        operation = served.get(job.job_id)
        if waits_for_nodes(job, cluster.now_s) and (operation is None or is_promise(operation)):
            found.append(WaitingJob(job=job, promise=operation))
    found.sort(key=lambda waiting: queue_key(waiting.job))
    return found


def is_promise(operation: Operation) -> bool:
    """Whether the operation promises a start to the first job of the queue and holds no nodes for it yet."""
    return (
        operation.kind is OperationKind.QUEUE_HEAD
        and operation.phase is Phase.MAKING_ROOM
        and not operation.nodes
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """For one waiting job: which nodes it can have, and from when on."""

    free: tuple[str, ...]
    """The nodes that could serve it now, in the cluster's order."""
    idle: tuple[str, ...]
    """Those of `free` that no job uses."""
    unsuitable: tuple[str, ...]
    """The idle nodes that cannot serve it."""
    shadow_time_s: float
    """When as many nodes as it needs are free: EASY's shadow time (Algorithm 1, lines 14 to 23). Infinite:
    never."""
    extra: int
    """How many more nodes are free then: EASY's extra nodes (line 25)."""
    ready_s: Mapping[str, float]
    """Every node that can serve it, with the instant at which it is free."""
    leaving: Mapping[str, float]
    """The running jobs that may be evicted for it, each with the instant from which on."""


def outlook(cluster: Cluster, head: WaitingJob, config: CkptBackfillConfig) -> Outlook:
    """Which nodes the first job of the queue can have, and when (Algorithm 1, lines 14 to 25)."""
    leaving = may_leave(cluster, head, config)
    ready_s = _ready_s(cluster, head.job, leaving)
    instants = sorted(ready_s.values())
    needed = head.job.node_count
    shadow_time_s = instants[needed - 1] if needed <= len(instants) else math.inf
    idle = _free(cluster, None)
    free, ready_now = (
        tuple(name for name in names if ready_s.get(name) == cluster.now_s)
        for names in (_free(cluster, head.job.demand), idle)
    )
    return Outlook(
        free=free,
        idle=ready_now,
        unsuitable=tuple(name for name in idle if name not in ready_s),
        shadow_time_s=shadow_time_s,
        extra=max(0, sum(1 for instant in instants if instant <= shadow_time_s) - needed),
        ready_s=ready_s,
        leaving=leaving,
    )


def may_leave(cluster: Cluster, head: WaitingJob, config: CkptBackfillConfig) -> dict[str, float]:
    """The running jobs that may be evicted for the first job of the queue, each with the instant from which
    on.

    A job that makeway started early: once its predicted run time is over. A job that the scheduler started
    ahead of the first one after a start was promised to it: once that start is due. A job that was evicted
    before is not among these.
    """
    early = cluster.speculative_jobs()
    releases = node_releases(cluster)
    least_s = cluster.limits.min_runtime_s
    found: dict[str, float] = {}
    for job in cluster.jobs:
        if (
            job.start_s is None
            or not job.nodes
            or job.job_id in releases
            or not _can_leave(job, cluster, config)
        ):
            continue
        if job.job_id in early:
            found[job.job_id] = job.start_s + predicted_s(job, config, least_s, cluster.usual_shares)
        elif _passed(job, head) and head.promised_s < job.start_s + job.walltime_s:
            found[job.job_id] = max(head.promised_s, job.start_s + least_s)
    return found


def _passed(job: Job, head: WaitingJob) -> bool:
    """Whether the scheduler started a job ahead of the first one after a start was promised to that one."""
    since_s = math.inf if head.promise is None else head.promise.opened_s
    started_s = -math.inf if job.start_s is None else job.start_s
    return started_s >= since_s and queue_key(job) > queue_key(head.job) and not job.requeue_count


def _can_leave(job: Job, cluster: Cluster, config: CkptBackfillConfig) -> bool:
    """Whether a running job may be evicted, now or when it is old enough, and can checkpoint on a signal."""
    if system_s(job) is None and not config.without_checkpoint:
        return False
    return protection(job, cluster) in {None, Refusal.MIN_RUNTIME}


def _ready_s(cluster: Cluster, head: Job, leaving: Mapping[str, float]) -> dict[str, float]:
    """The nodes that can serve the first job of the queue, each with the instant at which it is free."""
    now_s = cluster.now_s
    ready_s = dict.fromkeys(cluster.up_nodes(), now_s)
    if head.eligible_nodes is not None:
        ready_s = {name: now_s for name in ready_s if name in head.eligible_nodes}
    ends_s = _ends_s(cluster, leaving)
    if head.demand is None:
        for job in cluster.holders():
            _occupy(ready_s, job.nodes, ends_s[job.job_id])
    else:
        gone = ((job, NodeRelease(by_s=ends_s[job.job_id])) for job in cluster.holders())
        room_s = dict.fromkeys(with_room(cluster, {}, head.demand), now_s)
        room_s |= room_times_s(cluster, gone, head.demand)
        ready_s = {name: room_s[name] for name in ready_s if name in room_s}
    jobs = cluster.jobs_by_id()
    for operation in cluster.operations:
        holder = jobs.get(operation.for_job_id)
        if operation.phase is Phase.MAKING_ROOM and not operation.observe and holder is not None:
            _occupy(ready_s, operation.nodes, now_s + holder.walltime_s)
    for reservation in cluster.reservations:
        if (
            not reservation.by_makeway
            and reservation.end_s > now_s
            and reservation.start_s < now_s + head.walltime_s
        ):
            _occupy(ready_s, reservation.nodes, reservation.end_s)
    return ready_s


def _ends_s(cluster: Cluster, leaving: Mapping[str, float]) -> dict[str, float]:
    """When each job that holds nodes is gone at the latest."""
    now_s = cluster.now_s
    releases = node_releases(cluster)
    ends_s: dict[str, float] = {}
    for job in cluster.holders():
        end_s = now_s if job.start_s is None else job.start_s + job.walltime_s
        if job.job_id in releases:
            end_s = releases[job.job_id].by_s
        elif job.job_id in leaving:
            end_s = min(end_s, leaving[job.job_id])
        ends_s[job.job_id] = end_s
    return ends_s


def _occupy(ready_s: dict[str, float], nodes: tuple[str, ...], until_s: float) -> None:
    """Record that the nodes are not free before `until_s`."""
    for name in nodes:
        if name in ready_s and ready_s[name] < until_s:
            ready_s[name] = until_s


def _free(cluster: Cluster, demand: Resources | None) -> tuple[str, ...]:
    """The nodes with room for the demand and in no hold, requested or made, in the cluster's order.

    `demand` None: the nodes that no job uses.
    """
    held = {
        name
        for operation in cluster.operations
        if operation.phase is Phase.MAKING_ROOM and not operation.observe
        for name in operation.nodes
    }
    return tuple(name for name in cluster.free_nodes(None, demand) if name not in held)
