"""The jobs that may still be saving their work at an earlier signal: only what is left of that is counted."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace

from makeway.daemon.operation.changed.saving import SaveRequest, SaveRequests, unanswered_request
from makeway.policies.model import Job


def with_requested_saves(
    jobs: tuple[Job, ...], requests: SaveRequests, committed: Callable[[], AbstractSet[str]], now_s: float
) -> tuple[Job, ...]:
    """The jobs; those that were asked to save their work, and need not leave, say since when, and what is
    left of their checkpoints and graces.

    A checkpoint that is late may still need all of its time: it is not known what it has done so far.

    Args:
        jobs: of a snapshot.
        requests: the signals whose graces are not over.
        committed: gives the jobs that other decisions concern, which stay as they are.
        now_s: the instant of the snapshot.
    """
    if not requests:
        return jobs
    asked = {job_id for job_id, _ in requests} - committed()
    if not asked:
        return jobs
    return tuple(
        _saving(job, request, now_s)
        if job.job_id in asked and (request := unanswered_request(job, requests, now_s)) is not None
        else job
        for job in jobs
    )


def _saving(job: Job, request: SaveRequest, now_s: float) -> Job:
    spec = job.checkpoint
    if spec is None or spec.system_s is None:
        return job
    passed_s = max(0.0, now_s - request.issued_s)
    left_s = spec.system_s - passed_s
    spec = replace(
        spec,
        system_s=left_s if left_s > 0.0 else spec.system_s,
        grace_s=max(0.0, spec.grace_s - passed_s),
    )
    return replace(job, checkpoint=spec, saving_since_s=request.issued_s)
