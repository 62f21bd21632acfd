"""The runs that may have been signalled, or may be yet: no policy may plan to signal them again."""

from collections.abc import Mapping
from dataclasses import replace

from makeway.policies.model import Job, RunIdentity


def without_signals(
    jobs: tuple[Job, ...], unanswered: Mapping[tuple[str, RunIdentity], float]
) -> tuple[Job, ...]:
    """The jobs; those that cannot be asked to save, because an earlier signal got no answer, say so.

    A signal that got no answer leaves no trace and may arrive late. If the job has reported a checkpoint
    since, it has arrived.

    Args:
        jobs: of a snapshot.
        unanswered: when each run was signalled without an answer.
    """
    return tuple(_without_signal(job, unanswered) for job in jobs) if unanswered else jobs


def _without_signal(job: Job, unanswered: Mapping[tuple[str, RunIdentity], float]) -> Job:
    spec = job.checkpoint
    run = RunIdentity(requeue_count=job.requeue_count, start_s=job.start_s)
    signalled_s = unanswered.get((job.job_id, run))
    if spec is None or signalled_s is None:
        return job
    if any(
        at_s is not None and at_s >= signalled_s
        for at_s in (job.last_checkpoint_s, job.checkpointing_since_s)
    ):
        return job
    if spec.application_s is None:
        return replace(job, checkpoint=None)
    return replace(job, checkpoint=replace(spec, system_s=None))
