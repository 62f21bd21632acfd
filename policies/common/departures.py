"""Which jobs are leaving their nodes, by when, and the actions that make a job leave. Pure functions."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Expand,
    Job,
    Method,
    Operation,
    Phase,
    Progress,
    Reason,
    Requeue,
    Shrink,
    Task,
    names,
)

LEAVING = frozenset({Progress.PLANNED, Progress.ISSUING, Progress.ACCEPTED})
"""The progress of a task whose job still has to leave its nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRelease:
    """A job that is leaving its nodes: by when at the latest, and the nodes that it keeps (a shrink)."""

    by_s: float
    kept_nodes: frozenset[str] = frozenset()


def node_releases(cluster: Cluster, operations: tuple[Operation, ...] = ()) -> dict[str, NodeRelease]:
    """The jobs that open operations are still evicting or shrinking, by job id.

    Args:
        cluster: the snapshot.
        operations: further operations, which `cluster` may not contain.
    """
    found: dict[str, NodeRelease] = {}
    for operation in (*cluster.operations, *operations):
        if operation.observe or operation.phase is Phase.CLOSED:
            continue
        for task in operation.tasks:
            release = node_release_of(task.action, cluster.now_s)
            if release is not None and task.progress in LEAVING and not _called_off(operation, task):
                found[task.action.job_id] = release
    return found


def node_release_of(action: Action, now_s: float) -> NodeRelease | None:
    """How the action makes its job release nodes. None: it does not."""
    match action:
        case Requeue() | Cancel():
            return NodeRelease(by_s=max(now_s, action.not_after_s))
        case Shrink():
            return NodeRelease(by_s=now_s, kept_nodes=frozenset(action.keep_nodes))
        case _:
            return None


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
            open_yet = task.progress in LEAVING
            match task.action:
                case Checkpoint() | Requeue() | Cancel() | Shrink():
                    needed = task.progress is Progress.REFUSED or (
                        open_yet and not _called_off(operation, task)
                    )
                case _:
                    needed = open_yet and isinstance(task.action, Expand)
            if needed:
                found.add(task.action.job_id)
    return frozenset(found)


def _called_off(operation: Operation, task: Task) -> bool:
    """Whether an eviction will not be issued any more: an operation that returns nodes evicts no job."""
    return operation.phase is not Phase.MAKING_ROOM and task.progress is Progress.PLANNED


def evict_for(
    job: Job,
    method: Method,
    *,
    for_job_id: str,
    policy: str,
    reason: Reason,
    now_s: float,
    not_after_s: float,
) -> tuple[Action, ...]:
    """The actions by which one job leaves for `for_job_id`: a signal first if it is to checkpoint, then the
    requeue.
    """
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
        grace_s=not_after_s - now_s,
        walltime_s=job.walltime_s + (not_after_s - now_s),
    )
    return signal, requeue
