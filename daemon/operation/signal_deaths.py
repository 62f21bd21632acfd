"""Jobs that vanish after makeway's signal or requeue: each is put back into the queue if that has ended it.

A snapshot does not show how a job ended. So the adapter is asked about each job that vanishes soon after a
signal, or before an answer to its requeue has come: it looks, and puts back only a job that the signal or the
requeue has ended. One that has left by itself with success is over.
"""

from collections.abc import Iterator
from dataclasses import replace

from makeway.daemon.operation.observation import FORGETS_S, in_its_run
from makeway.daemon.operation.tasks import ENDED, signals
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
    memoise_each,
)

_TERM = "TERM"
"""The signal by which a requeue ends a job."""


def put_back_ended(operation: Operation, cluster: Cluster) -> Operation:
    """The operation with a task for each job that has vanished, and that makeway may have ended; itself where
    there is none.
    """
    if signals(operation) and (tasks := tuple(_signalled(operation, cluster))):
        operation = replace(operation, tasks=operation.tasks + tasks)
    if _doubted(operation) and (tasks := tuple(_requeued(operation, cluster))):
        operation = replace(operation, tasks=operation.tasks + tasks)
    return operation


def put_back_of(operation: Operation, job_id: str) -> Task | None:
    """The task that puts a job back which makeway may have ended. None: there is none."""
    for task in operation.tasks:
        if isinstance(task.action, Requeue) and task.action.ended_by and task.action.job_id == job_id:
            return task
    return None


def _signalled(operation: Operation, cluster: Cluster) -> Iterator[Task]:
    """Tasks for the jobs that the signal may have ended."""
    jobs = cluster.jobs_by_id()
    for task in signals(operation):
        action = task.action
        if (
            isinstance(action, Checkpoint)
            and action.job_id not in jobs
            and _may_have_ended_it(operation, task, cluster.now_s)
        ):
            put_back = Requeue(
                job_id=action.job_id,
                for_job_id=action.for_job_id,
                policy=action.policy,
                reason=Reason.ENDED_BY_SIGNAL,
                method=Method.SYSTEM,
                not_after_s=cluster.now_s,
                ended_by=action.signal,
            )
            yield _of_the_run(task, put_back, cluster.now_s)


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


def _requeued(operation: Operation, cluster: Cluster) -> Iterator[Task]:
    """Tasks for the jobs that have vanished after a requeue of which no answer has come. A controller that
    crashed may have carried it out and forgotten it.
    """
    for task in _doubted(operation):
        action = task.action
        if (
            isinstance(action, Requeue)
            and action.job_id not in cluster.jobs_by_id()
            and put_back_of(operation, action.job_id) is None
        ):
            yield _of_the_run(task, replace(action, ended_by=_TERM), cluster.now_s)


def awaits_its_doubts(operation: Operation, cluster: Cluster) -> bool:
    """Whether an operation that is over stays open because of a requeue that it dropped after no answer came,
    while the view shows the job in the run that was meant.

    The view may be older than the requeue. If a controller that crashed has forgotten it, the job vanishes
    later, and has to be put back.
    """
    jobs = cluster.jobs_by_id()
    return any(
        task.ended_s is not None
        and cluster.now_s < task.ended_s + FORGETS_S
        and in_its_run(task, jobs.get(task.action.job_id))
        for task in _doubted(operation)
    )


@memoise_each
def _doubted(operation: Operation) -> tuple[Task, ...]:
    """The requeues without an answer that are over and were not seen done: the jobs seem to have ended by
    themselves, or the requeues were not to be repeated. They may have been carried out all the same.
    """
    return tuple(
        task
        for task in operation.tasks
        if task.doubted and task.progress in ENDED and task.progress is not Progress.DONE
    )


def _of_the_run(task: Task, put_back: Requeue, now_s: float) -> Task:
    """A task that puts the job of `task` back, in the run that `task` means."""
    return Task(
        action=put_back,
        requeue_count=task.requeue_count,
        start_s=task.start_s,
        nodes=task.nodes,
        planned_s=now_s,
    )
