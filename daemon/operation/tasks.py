"""The tasks of an operation: how they are planned, how they end, and the times that they were given."""

from typing import Final

from makeway.policies.model import (
    Acknowledgement,
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Ending,
    Job,
    NodeSets,
    Operation,
    Progress,
    Requeue,
    RunIdentity,
    Shrink,
    Task,
    changed,
    memoise_each,
)

_LEAVE: Final = (Requeue, Cancel)
_EVICTIONS: Final = (Checkpoint, *_LEAVE, Shrink)
ENDED = frozenset({Progress.DONE, Progress.REFUSED, Progress.GONE, Progress.DROPPED})
"""A task that is this far is over; it is issued again only if the cluster forgot it."""


def planned(
    actions: tuple[Action, ...], cluster: Cluster, *, planned_s: float | None = None
) -> tuple[Task, ...]:
    """Tasks for actions, each with the run of the job that it means. `planned_s` None: with the operation."""
    jobs = cluster.jobs_by_id()
    tasks: list[Task] = []
    for action in actions:
        job = jobs.get(action.job_id)
        task = Task(action=action, planned_s=planned_s)
        if job is not None:
            task = changed(
                task,
                requeue_count=job.requeue_count,
                start_s=job.start_s if job.nodes else None,
                nodes=job.nodes,
            )
        tasks.append(task)
    return tuple(tasks)


def naming_its_run(task: Task) -> Action:
    """The task's action as it is sent: with the run of the job that is meant, if the job ran at its
    planning.
    """
    action = task.action
    if not isinstance(action, Checkpoint | Requeue | Cancel | Shrink) or not task.nodes:
        return action
    return changed(action, run=RunIdentity(requeue_count=task.requeue_count, start_s=task.start_s))


def ended(task: Task, ending: Ending, now_s: float, detail: str = "") -> Task:
    """The task, over. `detail`: see `Task`; empty: what was said before."""
    return changed(task, progress=ending.progress, ending=ending, ended_s=now_s, detail=detail or task.detail)


def to_do_again(task: Task) -> Task:
    """The task, to be issued once more."""
    return changed(task, progress=Progress.PLANNED, ending=None, ended_s=None)


def is_eviction(task: Task) -> bool:
    """Whether a task makes its job leave nodes, or asks it to save its work before that."""
    return isinstance(task.action, _EVICTIONS)


def may_be_dropped(task: Task) -> bool:
    """Whether a task was never carried out, so that it can simply be left out. A job that was
    stopped already has to be put back.
    """
    return task.progress is Progress.PLANNED and not task.puts_back


def with_task(operation: Operation, index: int, task: Task) -> Operation:
    """The operation with another task in place of number `index`."""
    tasks = operation.tasks
    return changed(operation, tasks=(*tasks[:index], task, *tasks[index + 1 :]))


@memoise_each
def planned_places(operation: Operation) -> tuple[int, ...]:
    """The indices of its tasks that are still to be issued."""
    return tuple(place for place, task in enumerate(operation.tasks) if task.progress is Progress.PLANNED)


@memoise_each
def signals(operation: Operation) -> tuple[Task, ...]:
    """Its tasks that ask jobs to save their work."""
    return tuple(task for task in operation.tasks if isinstance(task.action, Checkpoint))


@memoise_each
def evictions(operation: Operation) -> tuple[Task, ...]:
    """Its tasks that make jobs leave all their nodes."""
    return tuple(task for task in operation.tasks if isinstance(task.action, _LEAVE))


@memoise_each
def open_evictions(operation: Operation) -> tuple[Task, ...]:
    """Those of them that have not ended."""
    return tuple(task for task in evictions(operation) if task.progress not in ENDED)


def is_over(operation: Operation) -> bool:
    """Whether all its tasks have ended."""
    return all(task.progress in ENDED for task in operation.tasks)


def signal_of(operation: Operation, eviction: Task) -> Task | None:
    """The last task before an eviction that asks its job to save its work. None: no task does."""
    signal: Task | None = None
    for task in operation.tasks:
        if task is eviction:
            break
        if isinstance(task.action, Checkpoint) and task.action.job_id == eviction.action.job_id:
            signal = task
    return signal


def requeue_themselves(operation: Operation, cluster: Cluster) -> set[str]:
    """The jobs that are saving their work at makeway's signal and go back into the queue after that."""
    return _saving(operation, cluster, Acknowledgement.REQUEUE)


def leave_themselves(operation: Operation, cluster: Cluster) -> set[str]:
    """The same jobs, and those that end after that."""
    return _saving(operation, cluster, Acknowledgement.REQUEUE, Acknowledgement.EXIT)


def _saving(operation: Operation, cluster: Cluster, *acknowledgements: Acknowledgement) -> set[str]:
    """The jobs that are saving their work at makeway's signal and report it in one of these ways."""
    jobs = cluster.jobs_by_id()
    return {
        job.job_id
        for task in operation.tasks
        if isinstance(task.action, Checkpoint)
        and task.progress in (Progress.ISSUING, Progress.ACCEPTED)
        and (job := jobs.get(task.action.job_id)) is not None
        and job.checkpoint is not None
        and job.checkpoint.acknowledgement in acknowledgements
    }


def freed_set(task: Task, job: Job, sets: NodeSets) -> int:
    """The nodes that the job leaves by the task."""
    kept = sets.of(task.action.keep_nodes) if isinstance(task.action, Shrink) else 0
    return sets.of(job.nodes) & ~kept


def without_times_to_come(operation: Operation, now_s: float) -> Operation:
    """The operation with no time of what was done to it later than `now_s`, of the clock that it is written
    by. Deadlines and planned times stay. Returns the operation itself where no such time is later.

    The clock may have been set back. A retry or the end of a grace is waited for from such a time on: if a
    machine starts with a clock that is an hour fast, both would otherwise come an hour late.
    """
    if _latest_s(operation) <= now_s:
        return operation
    return changed(
        operation,
        opened_s=min(operation.opened_s, now_s),
        ended_s=_at_most(operation.ended_s, now_s),
        short_since_s=_at_most(operation.short_since_s, now_s),
        tasks=tuple(
            changed(task, issued_s=_at_most(task.issued_s, now_s), ended_s=_at_most(task.ended_s, now_s))
            for task in operation.tasks
        ),
    )


@memoise_each
def _latest_s(operation: Operation) -> float:
    """The latest time at which something was done for it."""
    times_s = [operation.opened_s, operation.ended_s, operation.short_since_s]
    for task in operation.tasks:
        times_s += (task.issued_s, task.ended_s)
    return max(time_s for time_s in times_s if time_s is not None)


def _at_most(time_s: float | None, now_s: float) -> float | None:
    return None if time_s is None else min(time_s, now_s)
