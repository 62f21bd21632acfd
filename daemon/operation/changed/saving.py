"""The runs that makeway has asked to save their work, and that may still be doing so for no urgent job.

The job that they were to leave for has gone, or needs fewer nodes. If such a run is to leave for another
urgent job, it gets no second signal: the operation waits for the checkpoint that is under way, with the grace
of its own plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from makeway.daemon.operation.tasks import ENDED, ended, is_eviction, may_be_dropped
from makeway.policies.model import (
    Checkpoint,
    Cluster,
    Ending,
    Job,
    JobState,
    Operation,
    Phase,
    Progress,
    RunIdentity,
    Task,
    changed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRequest:
    """A signal that has asked a run of a job to save its work, or may have."""

    issued_s: float
    until_s: float
    """When the grace is over that the run was given."""


SaveRequests = Mapping[tuple[str, RunIdentity], SaveRequest]
"""The latest request to each run, by job and run."""


def unanswered_request(job: Job, requests: SaveRequests, now_s: float) -> SaveRequest | None:
    """The request by which a job may still be saving its work. None: there is none, its grace is over, or the
    job has reported a checkpoint since. Nor does one count that was sent later than now: the clock was set
    back, and it is not known how long ago that was.
    """
    if job.state is not JobState.RUNNING:
        return None
    run = RunIdentity(requeue_count=job.requeue_count, start_s=job.start_s)
    request = requests.get((job.job_id, run))
    if request is None or not request.issued_s <= now_s < request.until_s:
        return None
    saved = job.last_checkpoint_s is not None and job.last_checkpoint_s >= request.issued_s
    return None if saved else request


def awaiting(operation: Operation, requests: SaveRequests, cluster: Cluster) -> Operation:
    """The operation; in place of a signal to a run that may still be saving its work, it has the earlier one.

    The run has the grace of the new plan, counted from now on.
    """
    if not requests or operation.observe:
        return operation
    tasks = tuple(_awaited(task, requests, cluster) for task in operation.tasks)
    return operation if tasks == operation.tasks else changed(operation, tasks=tasks)


def _awaited(task: Task, requests: SaveRequests, cluster: Cluster) -> Task:
    action, job = task.action, cluster.jobs_by_id().get(task.action.job_id)
    if not isinstance(action, Checkpoint) or not may_be_dropped(task) or job is None:
        return task
    request = unanswered_request(job, requests, cluster.now_s)
    if request is None:
        return task
    least_s = cluster.now_s + action.grace_min_s
    end_s = least_s if action.until_s is None else max(action.until_s, least_s)
    return changed(
        task,
        action=changed(action, grace_s=end_s - request.issued_s),
        progress=Progress.ACCEPTED,
        issued_s=request.issued_s,
        detail="it is saving its work already, and gets no second signal",
    )


def left_to(
    newer: Sequence[Operation], operations: Iterable[Operation], now_s: float
) -> tuple[Operation, ...]:
    """Those operations that return what they took, and look for a run that saves its work and requeues itself
    after that, if it leaves for a newer one: that one gives it back its turn.
    """
    taken = {
        (task.action.job_id, task.requeue_count)
        for operation in newer
        for task in operation.tasks
        if isinstance(task.action, Checkpoint) and task.progress not in ENDED and task.issued_s is not None
    }
    own = {operation.operation_id for operation in newer}
    found: list[Operation] = []
    for operation in operations if taken else ():
        if operation.phase is not Phase.RETURNING or operation.operation_id in own:
            continue
        tasks = tuple(
            ended(task, Ending.TURNED_BACK, now_s)
            if is_eviction(task)
            and task.progress not in ENDED
            and (task.action.job_id, task.requeue_count) in taken
            else task
            for task in operation.tasks
        )
        if tasks != operation.tasks:
            found.append(changed(operation, tasks=tasks))
    return tuple(found)
