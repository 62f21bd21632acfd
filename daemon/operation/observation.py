"""What a snapshot shows of a task: done, gone, accepted, or nothing yet."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from makeway.policies.model import (
    Acknowledgement,
    Cancel,
    Checkpoint,
    Cluster,
    Expand,
    Job,
    JobState,
    Prioritise,
    Progress,
    Reason,
    Release,
    Requeue,
    Reserve,
    RestorePriority,
    Shrink,
    Task,
)

ENDED = frozenset({Progress.DONE, Progress.REFUSED, Progress.GONE, Progress.DROPPED})
"""No task that is here is ever issued (again)."""

FORGETS_S = 60.0
"""A controller that crashes may forget what it did so short a while ago; Slurm's saves its state every five seconds."""
UNACKNOWLEDGED = "grace over without an acknowledgement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long an operation waits for what. All in seconds."""

    give_up_after_s: float = 600.0
    """After its deadline, until the nodes of an urgent job that does not start go back."""
    settle_s: float = 30.0
    """Until a command without an answer that no snapshot shows counts as not carried out."""
    retry_s: float = 5.0
    """Until a command that the cluster asked us to repeat is repeated."""
    refused_s: float = 60.0
    """Until a hold that the cluster refused is thought over anew: not again on the same state."""


def ended(task: Task, progress: Progress, now_s: float, detail: str = "") -> Task:
    """The task, over."""
    return replace(task, progress=progress, ended_s=now_s, detail=detail or task.detail)


def observe(task: Task, cluster: Cluster, jobs: Mapping[str, Job], timeouts: Timeouts) -> Task:
    """The task as the snapshot shows it; itself where the snapshot shows nothing new."""
    if isinstance(task.action, Requeue) and _is_forgotten(task, task.action, cluster, jobs, timeouts):
        return replace(
            task,
            action=replace(task.action, forgotten_run=task.requeue_count),
            progress=Progress.PLANNED,
            ended_s=None,
            detail="the cluster has forgotten it",
        )
    if task.progress in ENDED:
        return task
    seen = _seen(task, cluster, jobs)
    if seen is not None:
        progress, detail = seen
        if progress is Progress.ACCEPTED:
            return task if task.progress is Progress.ACCEPTED else replace(task, progress=progress)
        return ended(task, progress, cluster.now_s, detail)
    if task.issued_s is None:
        return task
    if task.progress is Progress.ISSUING:
        return _doubt(task, task.issued_s, cluster, jobs, timeouts)
    gives = isinstance(task.action, Release | Prioritise | RestorePriority)
    if gives and task.progress is Progress.ACCEPTED and cluster.now_s >= task.issued_s + timeouts.settle_s:
        # Forgotten, or undone by somebody: it takes nothing from anybody, so it may be asked for again.
        return replace(task, progress=Progress.PLANNED, detail="accepted, and not seen done")
    return task


def settled(task: Task, now_s: float) -> bool:
    """Whether no snapshot can tell anything new of a task: it is over, and too long ago to be forgotten."""
    if task.progress not in ENDED:
        return False
    fresh = task.ended_s is not None and now_s < task.ended_s + FORGETS_S
    return not (fresh and task.progress is Progress.DONE and isinstance(task.action, Requeue))


def _is_forgotten(
    task: Task, action: Requeue, cluster: Cluster, jobs: Mapping[str, Job], timeouts: Timeouts
) -> bool:
    """Whether a requeue that was accepted, or even seen done just now, was forgotten by a controller that crashed.

    Then its job is in the run that it had left, or it is not there: the controller took the kill for the job's own end.
    (No end follows a requeue by itself. Somebody may have ended the waiting job; the cluster can tell.)
    """
    job = jobs.get(action.job_id)
    same_run = (
        job is not None
        and job.state is JobState.RUNNING
        and bool(task.nodes)
        and job.requeue_count == task.requeue_count
    )
    if task.progress is Progress.DONE and task.ended_s is not None:
        return (job is None or same_run) and cluster.now_s < task.ended_s + FORGETS_S
    if task.progress is not Progress.ACCEPTED or task.issued_s is None:
        return False
    # Whoever is requeued runs no longer, at once; what runs after a while is in the memory of the controller alone.
    return job is None or (same_run and cluster.now_s >= task.issued_s + timeouts.settle_s)


def _seen(task: Task, cluster: Cluster, jobs: Mapping[str, Job]) -> tuple[Progress, str] | None:
    """What the snapshot says of a task: done, gone or accepted, and how that is known. None: nothing."""
    action = task.action
    job = jobs.get(action.job_id)
    match action:
        case Reserve():
            return _seen_reserve(task, action, cluster, job)
        case Release():
            held = any(reservation.name == action.reservation for reservation in cluster.reservations)
            return None if held else (Progress.DONE, "")
        case Checkpoint():
            return _seen_checkpoint(task, action, cluster, job)
        case Requeue():
            if job is None:
                # A requeue that was accepted is not followed by an end.
                taken = task.forgotten or task.progress is Progress.ACCEPTED
                return None if taken else (Progress.GONE, "ended by itself")
            left = job.requeue_count > task.requeue_count or job.state is JobState.PENDING
            return (Progress.DONE, "") if left else None
        case Cancel():
            return (Progress.DONE, "") if job is None else None
        case Shrink():
            if job is None or job.requeue_count > task.requeue_count or job.state is JobState.PENDING:
                return Progress.GONE, "left its nodes by itself"
            return (Progress.DONE, "") if set(job.nodes) == set(action.keep_nodes) else None
        case Expand():
            if job is None or job.requeue_count > task.requeue_count or job.state is JobState.PENDING:
                return Progress.GONE, "no longer in the run that was shrunk"
            return (Progress.DONE, "") if set(action.nodes) <= set(job.nodes) else None
        case Prioritise():
            return _seen_prioritise(action, job)
        case RestorePriority():
            if job is None or (job.state is JobState.PENDING and action.reason is Reason.STARTED):
                return Progress.GONE, "does not run any more"
            return None if job.prioritised else (Progress.DONE, "")
        case _:
            assert_never(action)


def _seen_prioritise(action: Prioritise, job: Job | None) -> tuple[Progress, str] | None:
    """A lender's place in the queue is given back when it runs again, an urgent job's when it stands in front.

    One of a planned order is there when it is seen.
    """
    if job is None:
        return Progress.GONE, "ended by itself"
    if job.state is not JobState.PENDING:
        return Progress.DONE, "runs"
    if action.queue_position is not None:
        return (Progress.DONE, "") if job.queue_position == action.queue_position else None
    if not job.prioritised:
        return None
    return (Progress.DONE if action.reason is Reason.NO_ROOM else Progress.ACCEPTED), ""


def _seen_reserve(
    task: Task, action: Reserve, cluster: Cluster, job: Job | None
) -> tuple[Progress, str] | None:
    if job is None and action.user is None:
        # One that was sent may still take effect: it stays in doubt, so that it is released.
        return (
            (Progress.GONE, "the urgent job ended by itself") if task.progress is Progress.PLANNED else None
        )
    for reservation in cluster.reservations:
        if reservation.name == action.reservation and set(reservation.nodes) == set(action.nodes):
            bound = job is None or job.reservation == action.reservation or job.state is not JobState.PENDING
            return (Progress.DONE, "") if bound else None
    return None


def _seen_checkpoint(
    task: Task, action: Checkpoint, cluster: Cluster, job: Job | None
) -> tuple[Progress, str] | None:
    if job is None:
        return Progress.GONE, "ended by itself"
    if job.requeue_count > task.requeue_count or job.state is JobState.PENDING:
        return Progress.DONE, "requeued itself"
    if task.issued_s is None:
        return None
    if job.last_checkpoint_s is not None and job.last_checkpoint_s >= task.issued_s:
        return Progress.DONE, "acknowledged"
    if cluster.now_s >= task.issued_s + action.grace_s:
        return Progress.DONE, UNACKNOWLEDGED
    if job.checkpointing_since_s is not None and job.checkpointing_since_s >= task.issued_s:
        return Progress.ACCEPTED, ""
    return None


def _doubt(
    task: Task, issued_s: float, cluster: Cluster, jobs: Mapping[str, Job], timeouts: Timeouts
) -> Task:
    """A command without an answer that no snapshot shows: after a while it counts as not carried out.

    A signal leaves no trace on a job that does not announce its checkpoint, so such a job is never signalled twice.
    """
    if cluster.now_s < issued_s + timeouts.settle_s:
        return task
    if isinstance(task.action, Checkpoint):
        job = jobs.get(task.action.job_id)
        spec = job.checkpoint if job is not None else None
        if spec is None or spec.acknowledgement is not Acknowledgement.COMMENT:
            return task
    return replace(task, progress=Progress.PLANNED, detail="no answer, and not seen done")
