"""Which jobs are leaving their nodes, by when, and the actions that make a job leave. Pure functions.

A job that is completing has ended and leaves by itself, mostly within seconds. One that takes too long may be
stuck (an epilog that hangs, a process that cannot be killed): no urgent job counts on its nodes any more.

Jobs that leave after a checkpoint write to one file system, whichever urgent job they leave for. A plan for
the next urgent job counts what is still to be written (`Backlog`).

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: checkpoints run one after another.

Differs from the paper:
    The checkpoints of several urgent jobs share the file system.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from makeway.policies.common.losses import application_s, system_s
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Expand,
    Job,
    JobState,
    Method,
    Operation,
    Phase,
    Progress,
    Reason,
    Requeue,
    Shrink,
    Task,
    memoise_each,
    memoise_last,
    names,
)

LEAVING = frozenset({Progress.PLANNED, Progress.ISSUING, Progress.ACCEPTED})
"""The progress of a task whose job still has to leave its nodes."""


COMPLETING_S = 90.0
"""How long a job may be completing, in seconds, before it counts as stuck: Slurm waits 30 s until it kills
the processes of a job (KillWait), and drains their nodes 60 s later (UnkillableStepTimeout)."""
LEAVE_S = 60.0
"""How long jobs may take to leave their nodes, in seconds: as long as policies give a kill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRelease:
    """A job that is leaving its nodes: by when at the latest, and the nodes that it keeps (a shrink)."""

    by_s: float
    kept_nodes: frozenset[str] = frozenset()


def node_releases(cluster: Cluster, operations: tuple[Operation, ...] = ()) -> dict[str, NodeRelease]:
    """The jobs that are completing, and those that open operations are still evicting or shrinking, by job
    id.

    Args:
        cluster: the snapshot.
        operations: further operations, which `cluster` may not contain.
    """
    found = dict(completing(cluster))
    for operation in (*cluster.operations, *operations):
        if operation.observe or operation.phase is Phase.CLOSED:
            continue
        for task in operation.tasks:
            if task.progress not in LEAVING or _called_off(operation, task):
                continue
            release = node_release_of(task.action, cluster.now_s)
            if release is not None:
                found[task.action.job_id] = release
    return found


@memoise_last
def completing(cluster: Cluster) -> Mapping[str, NodeRelease]:
    """The jobs that are completing and not stuck, by id. If one turns out to be stuck, there is still time to
    make others leave instead by the instant that it comes with.
    """
    return {
        job.job_id: NodeRelease(by_s=_completing_s(job, cluster) + COMPLETING_S + LEAVE_S)
        for job in _completing(cluster.jobs)
        if cluster.now_s < _completing_s(job, cluster) + COMPLETING_S
    }


def stuck(cluster: Cluster) -> frozenset[str]:
    """The jobs that have been completing for too long, by id."""
    return frozenset(job.job_id for job in _completing(cluster.jobs)) - completing(cluster).keys()


@memoise_last
def _completing(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    return tuple(job for job in jobs if job.state is JobState.COMPLETING and job.nodes)


def _completing_s(job: Job, cluster: Cluster) -> float:
    """Since when the job is completing."""
    return cluster.now_s if job.completing_since_s is None else job.completing_since_s


OVERDUE_S = 120.0
"""How long a job may outlive its time limit, in seconds: Slurm looks every 30 s, and kills KillWait later."""


def ends_by(cluster: Cluster, until_s: float) -> dict[str, NodeRelease]:
    """The jobs that end by `until_s` by their time limits, by id, each with its end.

    One that runs on long after its latest end is none of them. One that is suspended is none either: its
    limit does not pass. Nor is one that is stuck as it completes.
    """
    overdue_s = cluster.now_s - OVERDUE_S
    ends_s = _ends_s(cluster).items()
    return {job_id: NodeRelease(by_s=end_s) for job_id, end_s in ends_s if overdue_s < end_s <= until_s}


@memoise_last
def _ends_s(cluster: Cluster) -> Mapping[str, float]:
    """When the jobs that `ends_by` counts end by their time limits, by id."""
    lasting = stuck(cluster)
    jobs = [job for job in cluster.holders() if job.state is not JobState.SUSPENDED]
    ends_s = ((job.job_id, job.latest_end_s) for job in jobs if job.job_id not in lasting)
    return {job_id: end_s for job_id, end_s in ends_s if end_s is not None}


def node_release_of(action: Action, now_s: float) -> NodeRelease | None:
    """How the action makes its job release nodes. None: it does not."""
    match action:
        case Requeue() | Cancel():
            return NodeRelease(by_s=max(now_s, action.not_after_s))
        case Shrink():
            return NodeRelease(by_s=now_s, kept_nodes=_set_of(action.keep_nodes))
        case _:
            return None


@memoise_each
def _set_of(names: tuple[str, ...]) -> frozenset[str]:
    """The names as a set: the same one each time, because sets of nodes are known by it."""
    return frozenset(names)


def releasing_nodes(cluster: Cluster, releases: Mapping[str, NodeRelease]) -> dict[str, float]:
    """The nodes that are free once these jobs have left, each with the instant by which the last job has left
    it.
    """
    if not releases:
        return {}
    if not cluster.shared_nodes():
        gone = [(job, releases[job.job_id]) for job in cluster.jobs if job.job_id in releases]
        return {
            name: release.by_s
            for job, release in gone
            for name in job.nodes
            if name not in release.kept_nodes
        }
    held = Counter(names(job.nodes for job in cluster.jobs))
    left: Counter[str] = Counter()
    ready_s: dict[str, float] = {}
    for job in cluster.jobs:
        release = releases.get(job.job_id)
        for name in job.nodes if release is not None else ():
            if release is not None and name not in release.kept_nodes:
                left[name] += 1
                ready_s[name] = max(release.by_s, ready_s.get(name, release.by_s))
    return {name: at_s for name, at_s in ready_s.items() if left[name] == held[name]}


def committed(cluster: Cluster) -> frozenset[str]:
    """The jobs that an open operation still needs: to leave, even if they refused, or to grow back.

    A lender that has left, or has shrunk, is not committed: it may be evicted again like any other job.
    """
    found: set[str] = set()
    for operation in cluster.operations:
        if operation.phase is Phase.CLOSED:
            continue
        for task in operation.tasks:
            refused, open_yet = task.progress is Progress.REFUSED, task.progress in LEAVING
            match task.action:
                case Requeue() | Cancel() | Shrink():
                    needed = refused or (open_yet and not _called_off(operation, task))
                case Checkpoint():  # a job that only saves its work may leave for another one
                    needed = refused
                case _:
                    needed = open_yet and isinstance(task.action, Expand)
            if needed:
                found.add(task.action.job_id)
    return frozenset(found)


def _called_off(operation: Operation, task: Task) -> bool:
    """Whether an eviction will not be issued any more: an operation that returns nodes evicts no job."""
    return operation.phase is not Phase.MAKING_ROOM and task.progress is Progress.PLANNED


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCheckpoint:
    """A checkpoint that a job is to write before it leaves, or writes now."""

    duration_s: float
    """How long it takes if no other is written."""
    complete_s: float
    """When it is complete by the plan, and so is every other one that was requested before or with it. Of a
    regular checkpoint: when it is complete."""
    not_after_s: float
    """When its job is made to leave, whether or not it is complete. Infinite: the job stays."""
    turn_s: float
    """When it was requested, or is to be requested. Minus infinity: as soon as the hold is seen, or it is a
    regular one."""
    regular: bool
    """Whether the job waits for its next regular checkpoint. False: it was, or is to be, requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What the file system has still to write for jobs that are to leave.

    The bounds hold however the file system divides its bandwidth, as long as it is busy while there is
    something to write: all durations together are the longest time for all.
    """

    left_s: float = 0.0
    """How long all of it takes at most, in seconds from now, if no other checkpoint is added."""
    over_s: float = 0.0
    """After how many seconds from now all of it is over, with the regular checkpoints that begin later; at
    least `left_s`."""
    until_s: float = math.inf
    """The earliest instant at which one of the jobs is made to leave. Infinite: none is."""


NO_BACKLOG: Final = Backlog()


def backlog(pending: Iterable[PendingCheckpoint], now_s: float) -> Backlog:
    """What is still to be written.

    By the plan it is all written by the last of the planned instants. What is late by its plan may still need
    all of its time: it is not known what it has done so far.
    """
    known = tuple(pending)
    requested = [one for one in known if not one.regular]
    regular = [one for one in known if one.regular]
    left_s = sum(one.duration_s for one in requested)
    planned_s = max((one.complete_s - now_s for one in requested), default=0.0)
    if planned_s > 0.0:
        left_s = min(left_s, planned_s)
    left_s += sum(one.duration_s for one in regular)
    return Backlog(
        left_s=left_s,
        over_s=max(left_s, max((one.complete_s - now_s for one in regular), default=0.0)),
        until_s=min((one.not_after_s for one in known), default=math.inf),
    )


@memoise_last
def pending_checkpoints(cluster: Cluster) -> Mapping[str, PendingCheckpoint]:
    """The checkpoints that open operations wait for or will request, by job id."""
    jobs = cluster.jobs_by_id()
    found: dict[str, PendingCheckpoint] = {}
    for operation in cluster.operations:
        if operation.observe or operation.phase is Phase.CLOSED:
            continue
        steps: list[_Step] = []
        for task in operation.tasks:
            job = jobs.get(task.action.job_id)
            if task.progress in LEAVING and job is not None and job.requeue_count == task.requeue_count:
                planned_s = operation.opened_s if task.planned_s is None else task.planned_s
                if not _called_off(operation, task):
                    steps.append((task.action, task.issued_s, planned_s))
        found.update(_pending(steps, jobs, cluster.now_s))
    return found


def pending_of(actions: Iterable[Action], cluster: Cluster) -> dict[str, PendingCheckpoint]:
    """The checkpoints that the actions of a proposal add, by job id."""
    steps = [(action, None, cluster.now_s) for action in actions]
    return _pending(steps, cluster.jobs_by_id(), cluster.now_s)


_Step = tuple[Action, float | None, float]
"""An action, when it was issued (None: not yet), and when it was planned."""


def _pending(steps: Iterable[_Step], jobs: Mapping[str, Job], now_s: float) -> dict[str, PendingCheckpoint]:
    """The checkpoints of one operation, by job id."""
    known = tuple(steps)
    not_after_s = {
        action.job_id: action.not_after_s for action, _, _ in known if isinstance(action, Requeue | Cancel)
    }
    found: dict[str, PendingCheckpoint] = {}
    for action, issued_s, planned_s in known:
        job = jobs.get(action.job_id)
        if job is None or job.state is not JobState.RUNNING:
            continue
        match action:
            case Checkpoint():
                by_s = not_after_s.get(job.job_id, math.inf)
                pending = _requested(action, job, issued_s, by_s, now_s)
            case Requeue() | Cancel():
                pending = _awaited(action, job, now_s, planned_s)
            case _:
                continue
        if pending is not None:
            found[job.job_id] = pending
    return found


def _requested(
    action: Checkpoint, job: Job, issued_s: float | None, not_after_s: float, now_s: float
) -> PendingCheckpoint | None:
    """A checkpoint that a signal starts. None: the job takes none."""
    turn_s = action.not_before_s if issued_s is None else issued_s
    from_s = now_s if turn_s is None else turn_s
    duration_s = system_s(job)
    if duration_s is None and action.saved_by_s is not None:
        duration_s = max(0.0, action.saved_by_s - from_s)  # its signal got no answer, and may have arrived
    if duration_s is None:
        return None
    return PendingCheckpoint(
        duration_s=duration_s,
        complete_s=from_s + duration_s if action.saved_by_s is None else action.saved_by_s,
        not_after_s=not_after_s,
        turn_s=-math.inf if turn_s is None else turn_s,
        regular=False,
    )


def _awaited(action: Requeue | Cancel, job: Job, now_s: float, planned_s: float) -> PendingCheckpoint | None:
    """The regular checkpoint after which a job leaves. None: it leaves in another way, or has just saved."""
    if action.method is not Method.APPLICATION:
        return None
    in_s = application_s(job, now_s)
    if in_s is None or job.checkpoint is None or job.checkpoint.application_s is None:
        return None
    if job.last_checkpoint_s is not None and job.last_checkpoint_s > planned_s:
        return None
    return PendingCheckpoint(
        # One that has begun has less left to write.
        duration_s=min(job.checkpoint.application_s, in_s),
        complete_s=now_s + in_s,
        not_after_s=action.not_after_s,
        turn_s=-math.inf,
        regular=True,
    )


def evict_for(
    job: Job,
    method: Method,
    *,
    for_job_id: str,
    policy: str,
    reason: Reason,
    now_s: float,
    not_after_s: float,
    not_before_s: float | None = None,
    saved_by_s: float | None = None,
) -> tuple[Action, ...]:
    """The actions by which one job leaves for `for_job_id`: a signal first if it is to checkpoint, then the
    requeue.

    `not_before_s`, `saved_by_s`: see `Checkpoint`.
    """
    begin_s = now_s if not_before_s is None else not_before_s
    requeue = Requeue(
        job_id=job.job_id,
        for_job_id=for_job_id,
        policy=policy,
        reason=reason,
        method=method,
        not_after_s=not_after_s,
    )
    if method is not Method.SYSTEM or job.checkpoint is None:
        return (requeue,)
    signal = Checkpoint(
        job_id=job.job_id,
        for_job_id=for_job_id,
        policy=policy,
        reason=reason,
        signal=job.checkpoint.signal,
        signal_to=job.checkpoint.signal_to,
        grace_s=not_after_s - begin_s,
        walltime_s=job.walltime_s + (not_after_s - begin_s),
        not_before_s=not_before_s,
        saved_by_s=saved_by_s,
        until_s=not_after_s,
        grace_min_s=max(job.checkpoint.grace_s, 0.0 if saved_by_s is None else saved_by_s - begin_s),
    )
    return signal, requeue
