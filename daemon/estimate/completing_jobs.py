"""Since when jobs are completing: a cluster does not say so of a job that was requeued."""

from dataclasses import replace

from makeway.policies.model import Cluster, Job, JobState


class CompletingJobs:
    """The jobs that are completing, each with the instant at which this daemon first saw it so."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Job, Job]] = {}
        """By id: the job as the adapter has it, and with the instant."""

    def counted(self, seen: Cluster) -> Cluster:
        """The snapshot, with `Job.completing_since_s`. An unchanged job is the same object each time."""
        known, self._known = self._known, {}
        for job in seen.holders():
            if job.state is JobState.COMPLETING:
                self._known[job.job_id] = _dated(job, known.get(job.job_id), seen.now_s)
        if not self._known:
            return seen
        dated = {id(job): new for job, new in self._known.values()}
        return replace(seen, jobs=tuple(dated.get(id(job), job) for job in seen.jobs))


def _dated(job: Job, last: tuple[Job, Job] | None, now_s: float) -> tuple[Job, Job]:
    """The job as the adapter has it, and with the instant. `last`: the same in the last snapshot."""
    since_s = None if last is None else last[1].completing_since_s
    since_s = now_s if since_s is None else min(since_s, now_s)  # the clock may have been set back
    if last is not None and last[0] is job and last[1].completing_since_s == since_s:
        return last
    return job, replace(job, completing_since_s=since_s)
