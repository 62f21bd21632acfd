"""The runs that may not be signalled again: no policy may plan to."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from makeway.daemon.operation.tasks import signals
from makeway.policies.model import Ending, Job, Operation, RunIdentity


def without_signals(
    jobs: tuple[Job, ...],
    unanswered: Mapping[tuple[str, RunIdentity], float],
    operations: Iterable[Operation] = (),
) -> tuple[Job, ...]:
    """The jobs; those that cannot be asked to save, because of an earlier signal to the same run, say so.

    A command that got no answer leaves no trace, and its signal may arrive late. If the job has reported a
    checkpoint since, it has arrived. A job that did not save its work in the grace after a signal leaves
    without another one: what it has not saved is lost.

    Args:
        jobs: of a snapshot.
        unanswered: when each run was signalled without an answer.
        operations: those that are open.
    """
    ignored = {
        (task.action.job_id, task.requeue_count)
        for operation in operations
        for task in signals(operation)
        if task.ending is Ending.UNACKNOWLEDGED
    }
    if not unanswered and not ignored:
        return jobs
    return tuple(
        _without_signal(job)
        if (job.job_id, job.requeue_count) in ignored or _may_arrive_yet(job, unanswered)
        else job
        for job in jobs
    )


def _may_arrive_yet(job: Job, unanswered: Mapping[tuple[str, RunIdentity], float]) -> bool:
    run = RunIdentity(requeue_count=job.requeue_count, start_s=job.start_s)
    signalled_s = unanswered.get((job.job_id, run))
    return signalled_s is not None and not any(
        at_s is not None and at_s >= signalled_s
        for at_s in (job.last_checkpoint_s, job.checkpointing_since_s)
    )


def _without_signal(job: Job) -> Job:
    spec = job.checkpoint
    if spec is None or spec.application_s is None:
        return replace(job, checkpoint=None)
    return replace(job, checkpoint=replace(spec, system_s=None))
