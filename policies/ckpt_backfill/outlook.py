"""When nodes come free for the first job of the queue, if jobs that started before their turn leave when they are asked.

Reference:
    Niu et al., "Employing Checkpoint to Improve Job Scheduling in Large-Scale Systems" (JSSPP 2012), section 3.3,
    algorithms 1 (the reservation of the queue's first job) and 2 (the predicted run time).

Differs from the paper:
    With `p` learned each user has a share of his own (the paper's is one for all). Nodes are named: a node comes free when the last of its jobs is gone, and counts for a job that it can serve. A
    prediction is never shorter than the site's minimum run time, nor longer than the time limit. The scheduler below
    makes its own backfill, and may let a job pass the first of the queue because a job that was started before its
    turn seems to stay longer: such a job too leaves when the first job was to start.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from makeway.policies.common.victims import departures, system_s
from makeway.policies.model import (
    Cluster,
    Job,
    JobState,
    NodeState,
    Operation,
    Phase,
    Reason,
)
from makeway.policies.safety.arbiter import Refusal, protection, start_protection

UNKNOWN_SHARE = 0.2
"""What is expected of users of whom too little is known: one of the paper's best values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CkptBackfillConfig:
    """Settings of policy "ckpt-backfill"."""

    p: float | Literal["learned"] = 0.2
    """The predicted run time of a job that starts before its turn is this share of its time limit; above 0, at most 1.

    `learned`: the share that finished runs of its user usually took, or 0.2 as long as too few are known."""
    threshold_s: float = 1800.0
    """A time limit below this is taken as it is (the paper's t_thr)."""
    p_by_user: Mapping[str, float] = field(default_factory=dict)
    """Users whose jobs have a `p` of their own, such as one learned from their history."""
    without_checkpoint: bool = False
    """Whether jobs that cannot checkpoint on a signal start before their turn too; they lose the run if they have to leave."""
    hold_slack_s: float = 600.0
    """How much longer than the time limit the hold lasts under which a job starts."""

    def __post_init__(self) -> None:
        for name, value in (
            *(() if self.p == "learned" else (("p", self.p),)),
            *((f"p_by_user[{user}]", p) for user, p in self.p_by_user.items()),
        ):
            if not 0.0 < value <= 1.0:
                raise ValueError(f"{name} is {value!r}, wants a share above 0 and at most 1")
        for name, value in (("threshold_s", self.threshold_s), ("hold_slack_s", self.hold_slack_s)):
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"{name} is {value!r}, wants a number of seconds, not negative")


Turn = tuple[float, float, int, str]


def turn(job: Job) -> Turn:
    """The job's place in the queue: the priority, then the submission; of equal ones the older id."""
    return (-job.priority, job.submit_s, len(job.job_id), job.job_id)


def predicted_s(
    job: Job,
    config: CkptBackfillConfig,
    min_runtime_s: float = 0.0,
    usual_shares: Mapping[str, float] = MappingProxyType({}),
) -> float:
    """Algorithm 2: how long a run of the job is expected to last. `usual_shares`: see `Cluster`.

    A resumed job is expected to need what is left of its limit, and the checkpoint and restart that cut it (section
    5.1: T_extend).
    """
    if job.walltime_s < config.threshold_s:
        expected_s = job.walltime_s
    elif job.saved_s > 0.0:
        expected_s = job.walltime_s - job.saved_s + (system_s(job) or 0.0) + job.setup_s
    else:
        expected_s = job.walltime_s * _share(job.user, config, usual_shares)
    return min(job.walltime_s, max(expected_s, min_runtime_s))


def _share(user: str, config: CkptBackfillConfig, usual_shares: Mapping[str, float]) -> float:
    """The share of the time limit that a job of that user is expected to take."""
    if user in config.p_by_user:
        return config.p_by_user[user]
    return usual_shares.get(user, UNKNOWN_SHARE) if config.p == "learned" else config.p


def may_start_early(job: Job, cluster: Cluster, config: CkptBackfillConfig) -> bool:
    """Whether a waiting job may be started before its turn: the site lets us, and it saves itself when asked to."""
    saves = system_s(job) is not None or config.without_checkpoint
    return saves and start_protection(job, cluster) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A job that waits for nodes and nothing else. `promise` None: nothing was promised to it."""

    job: Job
    promise: Operation | None = None
    """Its operation, which holds no nodes yet: it is to start by the operation's deadline."""

    @property
    def promised_s(self) -> float:
        """When it is to start at the latest. Infinite: nothing was promised."""
        return math.inf if self.promise is None else self.promise.deadline_s


def waiting(cluster: Cluster) -> list[Place]:
    """The jobs that wait for nodes and nothing else, in the queue's order."""
    served = {operation.for_job_id: operation for operation in cluster.operations}
    found = []
    for job in cluster.jobs:
        if job.state is not JobState.PENDING or job.reservation is not None:
            continue
        if job.eligible_s is not None and job.eligible_s > cluster.now_s:
            continue
        operation = served.get(job.job_id)
        if operation is None or is_promise(operation):
            found.append(Place(job=job, promise=operation))
    found.sort(key=lambda place: turn(place.job))
    return found


def is_promise(operation: Operation) -> bool:
    """Whether it is there for the first of the queue and holds nothing for it yet."""
    return (
        operation.phase is Phase.MAKING_ROOM and operation.reason is Reason.HEAD_DUE and not operation.nodes
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """For one waiting job: which nodes it can have, and from when on."""

    free: tuple[str, ...]
    """The nodes that could serve it now, in the cluster's order."""
    aside: tuple[str, ...]
    """The idle nodes that cannot serve it."""
    due_s: float
    """When as many nodes as it asks for are free: its reservation (algorithm 1, lines 14 to 23). Infinite: never."""
    extra: int
    """How many more nodes are free then (line 25)."""
    ready_s: Mapping[str, float]
    """Every node that can serve it, with the instant when it is free."""
    leaving: Mapping[str, float]
    """The running jobs that may be asked to leave for it, each with the instant from which on."""


def outlook(cluster: Cluster, place: Place, config: CkptBackfillConfig) -> Outlook:
    """What there is for the first job of the queue, and when (Algorithm 1, lines 14 to 25)."""
    head = place.job
    leaving = may_leave(cluster, place, config)
    ready_s = _ready_s(cluster, head, leaving)
    instants = sorted(ready_s.values())
    due_s = instants[head.node_count - 1] if head.node_count <= len(instants) else math.inf
    idle = _idle(cluster)
    return Outlook(
        free=tuple(name for name in idle if ready_s.get(name) == cluster.now_s),
        aside=tuple(name for name in idle if name not in ready_s),
        due_s=due_s,
        extra=max(0, sum(1 for instant in instants if instant <= due_s) - head.node_count),
        ready_s=ready_s,
        leaving=leaving,
    )


def may_leave(cluster: Cluster, place: Place, config: CkptBackfillConfig) -> dict[str, float]:
    """The running jobs that may be asked to leave for the queue's first job, with the instant from when.

    One that we started: once its predicted run time is over. One that the scheduler below let pass since a start was
    promised to the first of the queue: once that start is due. Whoever had to leave before passes nobody.
    """
    early = cluster.speculative_jobs()
    gone = departures(cluster)
    least_s = cluster.limits.min_runtime_s
    found = {}
    for job in cluster.jobs:
        if job.start_s is None or not job.nodes or job.job_id in gone or not _can_leave(job, cluster, config):
            continue
        if job.job_id in early:
            found[job.job_id] = job.start_s + predicted_s(job, config, least_s, cluster.usual_shares)
        elif _passed(job, place) and place.promised_s < job.start_s + job.walltime_s:
            found[job.job_id] = max(place.promised_s, job.start_s + least_s)
    return found


def _passed(job: Job, place: Place) -> bool:
    """Whether the scheduler below has let a job pass since a start was promised to the queue's first."""
    since_s = math.inf if place.promise is None else place.promise.opened_s
    started_s = -math.inf if job.start_s is None else job.start_s
    return started_s >= since_s and turn(job) > turn(place.job) and not job.requeue_count


def _can_leave(job: Job, cluster: Cluster, config: CkptBackfillConfig) -> bool:
    """Whether a running job may be asked, now or when it is old enough, and saves itself then."""
    if system_s(job) is None and not config.without_checkpoint:
        return False
    return protection(job, cluster) in {None, Refusal.MIN_RUNTIME}


def _ready_s(cluster: Cluster, head: Job, leaving: Mapping[str, float]) -> dict[str, float]:
    """The nodes that can serve the queue's first job, each with the instant when it is free. Never: left out."""
    now_s = cluster.now_s
    gone = departures(cluster)
    ready_s = {
        node.name: now_s
        for node in cluster.nodes
        if node.state is NodeState.UP and (head.eligible_nodes is None or node.name in head.eligible_nodes)
    }
    for job in cluster.jobs:
        if not job.nodes:
            continue
        end_s = now_s if job.start_s is None else job.start_s + job.walltime_s
        if job.job_id in gone:
            end_s = gone[job.job_id].by_s
        elif job.job_id in leaving:
            end_s = min(end_s, leaving[job.job_id])
        _occupy(ready_s, job.nodes, end_s)
    jobs = cluster.jobs_by_id()
    for operation in cluster.operations:
        holder = jobs.get(operation.for_job_id)
        if operation.phase is Phase.MAKING_ROOM and not operation.observe and holder is not None:
            _occupy(ready_s, operation.nodes, now_s + holder.walltime_s)
    for reservation in cluster.reservations:
        if (
            not reservation.ours
            and reservation.end_s > now_s
            and reservation.start_s < now_s + head.walltime_s
        ):
            _occupy(ready_s, reservation.nodes, reservation.end_s)
    return ready_s


def _occupy(ready_s: dict[str, float], nodes: tuple[str, ...], until_s: float) -> None:
    """Nodes are free no sooner than then."""
    for name in nodes:
        if name in ready_s and ready_s[name] < until_s:
            ready_s[name] = until_s


def _idle(cluster: Cluster) -> tuple[str, ...]:
    """The nodes that nobody has, holds or is about to hold, in the cluster's order."""
    held = {
        name
        for operation in cluster.operations
        if operation.phase is Phase.MAKING_ROOM and not operation.observe
        for name in operation.nodes
    }
    return tuple(name for name in cluster.free_nodes() if name not in held)
