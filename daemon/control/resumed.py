"""Which evicted jobs run again. It is only reported: no decision depends on it."""

from collections.abc import Callable, Mapping

from makeway.policies.model import Cluster, Job, JobState


class ResumedJobs:
    """Compares the runs of one snapshot with those of the one before."""

    def __init__(self) -> None:
        self._before: Mapping[str, Job] | None = None
        """The jobs of the last snapshot, by id. None: there was none yet."""

    def in_snapshot(self, seen: Cluster, past_evictions: Callable[[], Mapping[str, int]]) -> tuple[str, ...]:
        """The jobs that makeway evicted at some time and whose run is new in this snapshot, sorted.

        `past_evictions` says how often each job was evicted; it is called only if a run is new.
        """
        before, self._before = self._before, seen.jobs_by_id()
        if before is None or before is self._before:
            return ()
        new = [
            job.job_id
            for job in seen.jobs
            if job.state is JobState.RUNNING and not _is_same_run(before.get(job.job_id), job)
        ]
        if not new:
            return ()
        evicted = past_evictions()
        return tuple(sorted(job_id for job_id in new if evicted.get(job_id)))


def _is_same_run(before: Job | None, now: Job) -> bool:
    """Whether a job that runs now was in the same run before."""
    if before is now:
        return True
    return (
        before is not None and before.state is JobState.RUNNING and before.requeue_count == now.requeue_count
    )
