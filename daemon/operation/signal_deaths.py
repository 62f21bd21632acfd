"""Jobs that vanish after makeway's signal: each is put back into the queue if the signal has ended it.

A snapshot does not show how a job ended. So the adapter is asked about each job that vanishes soon after a
signal: it looks, and puts back only a job that the signal has ended. One that has left by itself with success
is over.
"""

from dataclasses import replace

from makeway.daemon.operation.observation import FORGETS_S
from makeway.daemon.operation.tasks import signals
from makeway.policies.model import (
    Cancel,
    Checkpoint,
    Cluster,
    Method,
    Operation,
    Progress,
    Reason,
    Requeue,
    Task,
)


def put_back_signalled(operation: Operation, cluster: Cluster) -> Operation:
    """The operation with a task for each signalled job that has vanished; itself where there is none."""
    if not signals(operation):
        return operation
    jobs = cluster.jobs_by_id()
    tasks = tuple(
        _put_back(task, task.action, cluster)
        for task in signals(operation)
        if isinstance(task.action, Checkpoint)
        and task.action.job_id not in jobs
        and _may_have_ended_it(operation, task, cluster.now_s)
    )
    return replace(operation, tasks=operation.tasks + tasks) if tasks else operation


def put_back_of(operation: Operation, job_id: str) -> Task | None:
    """The task that puts a job back which the signal may have ended. None: there is none."""
    for task in operation.tasks:
        if isinstance(task.action, Requeue) and task.action.ended_by and task.action.job_id == job_id:
            return task
    return None


def _may_have_ended_it(operation: Operation, signal: Task, now_s: float) -> bool:
    """Whether the signal to a job that has vanished was sent, a short while ago at the most, and no command
    of the operation has ended the job.
    """
    if signal.issued_s is None or (signal.ended_s is not None and now_s >= signal.ended_s + FORGETS_S):
        return False
    job_id = signal.action.job_id
    return not any(
        isinstance(task.action, Requeue | Cancel)
        and task.action.job_id == job_id
        and (task.puts_back or task.progress in (Progress.ACCEPTED, Progress.DONE))
        for task in operation.tasks
    )


def _put_back(signal: Task, action: Checkpoint, cluster: Cluster) -> Task:
    return Task(
        action=Requeue(
            job_id=action.job_id,
            for_job_id=action.for_job_id,
            policy=action.policy,
            reason=Reason.ENDED_BY_SIGNAL,
            method=Method.SYSTEM,
            not_after_s=cluster.now_s,
            ended_by=action.signal,
        ),
        requeue_count=signal.requeue_count,
        start_s=signal.start_s,
        nodes=signal.nodes,
        planned_s=cluster.now_s,
    )
