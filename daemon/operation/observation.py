"""What a snapshot shows of a task: done, gone, accepted, or nothing yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from makeway.daemon.operation.tasks import ENDED, ended, evictions, signals, to_do_again
from makeway.policies.model import (
    Cancel,
    Checkpoint,
    Cluster,
    Ending,
    Expand,
    Job,
    JobState,
    Operation,
    Phase,
    Prioritise,
    Progress,
    Release,
    Requeue,
    Reserve,
    RestoreLimit,
    RestorePriority,
    Shrink,
    Task,
    changed,
    memoise_each,
)

FORGETS_S = 60.0
"""A controller that crashes may forget what it did so short a while ago; Slurm's saves its state every five
seconds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long an operation waits for what. All in seconds."""

    give_up_after_s: float = 600.0
    """After its deadline, until the nodes of an urgent job that does not start go back."""
    settle_s: float = 30.0
    """Until a command without an answer that no snapshot shows counts as not carried out."""
    retry_s: float = 5.0
    """Until a command that the cluster asked makeway to repeat is repeated."""
    refused_s: float = 60.0
    """Until what the cluster refused is decided again: not again on the same state."""
    pass_on_s: float = 14_400.0
    """Since the first task of an array was served: how long further tasks get its nodes, one after another,
    before the lenders do. The same for a job that is submitted again while others leave for it. 0: never."""
    linger_s: float = 0.0
    """After the end of an urgent job: how long its nodes stay held for the next job of its user, as long as
    no urgent job waits without room. 0: not at all."""


def observe_all(
    operation: Operation, cluster: Cluster, jobs: Mapping[str, Job], timeouts: Timeouts
) -> tuple[Task, ...]:
    """The tasks of an operation as the snapshot shows them.

    Where a signal and the requeue after it were not sent, because the job seemed to have left its run, and it
    is in that run after all, both are planned again: without the signal it would leave unsaved. What is done
    again is done for the job that the operation is for by now.
    """
    unsent = {
        (task.action.job_id, task.planned_s)
        for task in signals(operation)
        if _unsent_after_all(task, cluster, jobs)
    }
    tasks = list(operation.tasks)
    for place in _unsettled_places(operation):
        task = tasks[place]
        again = (
            (task.action.job_id, task.planned_s) in unsent
            and isinstance(task.action, Checkpoint | Requeue | Cancel)
            and task.progress is Progress.DONE
            and task.issued_s is None
        )
        seen = to_do_again(task) if again else observe(task, cluster, jobs, timeouts)
        tasks[place] = _for_its_job(seen, operation)
    return tuple(tasks)


@memoise_each
def _unsettled_places(operation: Operation) -> tuple[int, ...]:
    """The indices of its tasks that a snapshot can change: those that have not ended, and those that made a
    job leave, which may have to be done again.
    """
    return tuple(
        place
        for place, task in enumerate(operation.tasks)
        if task.progress not in ENDED or isinstance(task.action, Checkpoint | Requeue | Cancel)
    )


def _for_its_job(task: Task, operation: Operation) -> Task:
    """The task; one that is done again, and was done for an earlier task of the same array, for this one."""
    if task.progress in ENDED or task.action.for_job_id == operation.for_job_id:
        return task
    return changed(task, action=changed(task.action, for_job_id=operation.for_job_id))


def observe(task: Task, cluster: Cluster, jobs: Mapping[str, Job], timeouts: Timeouts) -> Task:
    """The task as the snapshot shows it; itself where the snapshot shows nothing new."""
    action = task.action
    if isinstance(action, Requeue):
        task = _noting_its_next_run(task, jobs)
        if _is_forgotten(task, action, cluster, jobs, timeouts):
            again = changed(action, forgotten_run=task.requeue_count)
            return changed(to_do_again(task), action=again)
    if task.progress in ENDED:
        return task
    seen = _seen(task, cluster, jobs)
    if seen is Progress.ACCEPTED:
        return task if task.progress is seen else changed(task, progress=seen)
    if seen is not None:
        over = ended(_in_doubt(task) if seen is Ending.ENDED_ITSELF else task, seen, cluster.now_s)
        return _noting_its_next_run(over, jobs) if isinstance(action, Requeue) else over
    if task.issued_s is None:
        return task
    if task.progress is Progress.ISSUING:
        return _doubt(task, task.issued_s, cluster, jobs, timeouts)
    settled = task.progress is Progress.ACCEPTED and cluster.now_s >= task.issued_s + timeouts.settle_s
    return to_do_again(task) if settled and _is_undone(task, jobs) else task


def _is_undone(task: Task, jobs: Mapping[str, Job]) -> bool:
    """Whether a command that was accepted a while ago, and that no snapshot shows, may be sent again: the
    controller crashed and has forgotten it, or others have undone it.
    """
    match task.action:
        case Release() | Prioritise() | RestorePriority() | RestoreLimit():
            return True  # it takes nothing from any job
        case Shrink() | Cancel():
            # Both show at once: the job has its nodes in the memory of the controller alone.
            return in_its_run(task, jobs.get(task.action.job_id))
        case _:
            return False


def shows_nothing_new(operation: Operation, cluster: Cluster) -> bool:
    """Whether a snapshot can show nothing new of its tasks: all have ended, and each job that was requeued
    waits, or was seen running again.
    """
    left = _waiting_after(operation)
    if left is None:
        return False
    jobs = cluster.jobs_by_id()
    return all(
        _waits_again(task, jobs.get(task.action.job_id)) or _was_unsent(task, cluster) for task in left
    )


@memoise_each
def _waiting_after(operation: Operation) -> tuple[Task, ...] | None:
    """The requeues of jobs that were not seen running again, and the cancels that were not sent because their
    jobs were seen to have left. None: some task of the operation has not ended.
    """
    if any(task.progress not in ENDED for task in operation.tasks):
        return None
    return tuple(
        task
        for task in evictions(operation)
        if task.progress is Progress.DONE
        and (task.issued_s is None if isinstance(task.action, Cancel) else not task.ran_again)
    )


@memoise_each
def only_awaits_end(operation: Operation) -> bool:
    """Whether an operation has nothing to do, and nothing to look for, until the job ends that it lent to."""
    return (
        operation.phase is Phase.LENT
        and _waiting_after(operation) == ()
        and not any(task.doubted or isinstance(task.action, Checkpoint) for task in operation.tasks)
    )


def _was_unsent(task: Task, cluster: Cluster) -> bool:
    """Whether an eviction was never sent, and its job was seen to have left its run some time ago."""
    return task.issued_s is None and task.ended_s is not None and cluster.now_s >= task.ended_s + FORGETS_S


def _waits_again(task: Task, job: Job | None) -> bool:
    return job is not None and job.state is JobState.PENDING and job.requeue_count > task.requeue_count


def _noting_its_next_run(task: Task, jobs: Mapping[str, Job]) -> Task:
    """The requeue; if its job now runs again, with that noted: the job may end at any time."""
    job = jobs.get(task.action.job_id)
    again = (
        task.progress is Progress.DONE
        and job is not None
        and job.state is JobState.RUNNING
        and not in_its_run(task, job)
    )
    return changed(task, ran_again=True) if again and not task.ran_again else task


def _is_forgotten(
    task: Task, action: Requeue, cluster: Cluster, jobs: Mapping[str, Job], timeouts: Timeouts
) -> bool:
    """Whether a requeue that was accepted, or even seen done, was forgotten by a controller that crashed,
    however long it was away.

    Then its job is in the run that it had left, or it is not there: the controller took the kill for the
    job's own end. (No end follows a requeue by itself. The waiting job may have been cancelled; the cluster
    shows that.) One that was never sent, because its job was seen to have left, counts for a while only: the
    view may have been old.
    """
    job = jobs.get(action.job_id)
    same_run = in_its_run(task, job)
    if task.progress is Progress.DONE:
        if _was_unsent(task, cluster):
            return False
        return same_run or (job is None and not task.ran_again)
    if task.progress is not Progress.ACCEPTED or task.issued_s is None:
        return False
    # A requeued job stops at once; one that runs after a while does so in the memory of the controller alone.
    return job is None or (same_run and cluster.now_s >= task.issued_s + timeouts.settle_s)


def _unsent_after_all(signal: Task, cluster: Cluster, jobs: Mapping[str, Job]) -> bool:
    """Whether a signal was not sent because its job was seen to have left its run, and the job is in that run
    again: the view was old, or the controller crashed.
    """
    if signal.ending is not Ending.REQUEUED_ITSELF:
        return False
    fresh = signal.ended_s is not None and cluster.now_s < signal.ended_s + FORGETS_S
    return signal.issued_s is None and fresh and in_its_run(signal, jobs.get(signal.action.job_id))


def in_its_run(task: Task, job: Job | None) -> bool:
    """Whether the job is seen to run in the run in which the task means it."""
    return (
        job is not None
        and job.state is JobState.RUNNING
        and bool(task.nodes)
        and job.requeue_count == task.requeue_count
        and task.start_s in {None, job.start_s}
    )


_Seen = Ending | Literal[Progress.ACCEPTED]
"""What a snapshot shows of a task: it has ended, or the cluster has begun to carry it out."""


def _seen(task: Task, cluster: Cluster, jobs: Mapping[str, Job]) -> _Seen | None:
    """What the snapshot shows of a task that has not ended. None: nothing."""
    action = task.action
    job = jobs.get(action.job_id)
    match action:
        case Reserve():
            return _seen_reserve(task, action, cluster, job)
        case Release(lost=True):
            return None if job is not None and job.reservation_lost else Ending.SEEN
        case Release():
            held = any(reservation.name == action.reservation for reservation in cluster.reservations)
            return None if held else Ending.SEEN
        case Checkpoint():
            return _seen_checkpoint(task, action, cluster, job)
        case Requeue():
            return _seen_requeue(task, job)
        case Cancel():
            return Ending.SEEN if job is None else None
        case Shrink():
            if job is None or _left_its_run(task, job):
                return Ending.LEFT_ITSELF
            # It may have lost one more node, or given it away, meanwhile.
            return Ending.SEEN if _has_all(cluster, action.keep_nodes, job.nodes) else None
        case Expand():
            if job is None or _left_its_run(task, job):
                return Ending.RUN_OVER
            return Ending.SEEN if _has_all(cluster, job.nodes, action.nodes) else None
        case Prioritise():
            return _seen_prioritise(task, action, job)
        case RestorePriority():
            # One that ran when this was planned, and waits now, was requeued and has its own priority.
            if job is None or (job.state is JobState.PENDING and task.nodes):
                return Ending.RUN_OVER
            return None if job.prioritised else Ending.SEEN
        case RestoreLimit():
            # One that ran when this was planned, and waits now, misses its turn first.
            if job is None or (task.nodes and _left_its_run(task, job)):
                return Ending.RUN_OVER
            return Ending.SEEN if job.taken != action.taken else None
        case _:
            assert_never(action)


def _has_all(cluster: Cluster, names: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether all the others are among these nodes."""
    sets = cluster.node_sets()
    return not sets.of(others) & ~sets.of(names)


def _left_its_run(task: Task, job: Job) -> bool:
    """Whether the job has left the run in which the task means it."""
    return job.requeue_count > task.requeue_count or job.state is JobState.PENDING


def _seen_requeue(task: Task, job: Job | None) -> _Seen | None:
    if job is not None and task.progress is Progress.ISSUING:
        # It waits in the same run in an old view, from before its start: that does not show what was done.
        return Ending.SEEN if job.requeue_count > task.requeue_count else None
    if job is not None:
        return Ending.SEEN if _left_its_run(task, job) else None
    # No end follows a requeue that was accepted.
    taken = task.puts_back or task.progress is Progress.ACCEPTED
    return None if taken else Ending.ENDED_ITSELF


def _seen_prioritise(task: Task, action: Prioritise, job: Job | None) -> _Seen | None:
    """A lender has its place in the queue back when it runs again, an urgent job when it is first in the
    queue.

    A job of a planned order is there when it is seen in its position.
    """
    if job is None:
        return Ending.ENDED_ITSELF
    if job.state is not JobState.PENDING:
        # In an old view it still runs as it did before it left.
        return Ending.STARTED if job.requeue_count >= task.requeue_count else None
    if action.queue_position is not None:
        return Ending.SEEN if job.queue_position == action.queue_position else None
    if not job.prioritised:
        return None
    return Ending.SEEN if action.job_id == action.for_job_id else Progress.ACCEPTED


def _seen_reserve(task: Task, action: Reserve, cluster: Cluster, job: Job | None) -> _Seen | None:
    if job is None and action.user is None:
        # One that was sent may still take effect: it stays in doubt, so that it is released.
        return Ending.ENDED_ITSELF if task.progress is Progress.PLANNED else None
    sets = cluster.node_sets()
    for reservation in cluster.reservations:
        if reservation.name == action.reservation and sets.of(reservation.nodes) == sets.of(action.nodes):
            bound = job is None or job.reservation == action.reservation or job.state is not JobState.PENDING
            return Ending.SEEN if bound else None
    return None


def _seen_checkpoint(task: Task, action: Checkpoint, cluster: Cluster, job: Job | None) -> _Seen | None:
    if job is None:
        return Ending.ENDED_ITSELF
    if _left_its_run(task, job):
        return Ending.REQUEUED_ITSELF
    if task.issued_s is None:
        return None
    if job.last_checkpoint_s is not None and job.last_checkpoint_s >= task.issued_s:
        return Ending.ACKNOWLEDGED
    if cluster.now_s >= task.issued_s + action.grace_s:
        return Ending.UNACKNOWLEDGED
    if job.checkpointing_since_s is not None and job.checkpointing_since_s >= task.issued_s:
        return Progress.ACCEPTED
    return None


def _doubt(
    task: Task, issued_s: float, cluster: Cluster, jobs: Mapping[str, Job], timeouts: Timeouts
) -> Task:
    """A command without an answer that no snapshot shows: after a while it counts as not carried out.

    A signal leaves no trace, and may arrive late: no run is signalled twice. The requeue of a job that is
    completing may have ended it, and been forgotten by a controller that crashed: that is known later.
    """
    if cluster.now_s < issued_s + timeouts.settle_s or isinstance(task.action, Checkpoint):
        return task
    job = jobs.get(task.action.job_id)
    if isinstance(task.action, Requeue) and job is not None and job.state is JobState.COMPLETING:
        return task
    return to_do_again(_in_doubt(task))


def _in_doubt(task: Task) -> Task:
    """The task; a requeue that got no answer, with that noted."""
    unanswered = isinstance(task.action, Requeue) and task.progress is Progress.ISSUING
    return changed(task, doubted=True) if unanswered and not task.puts_back else task
