"""Which evicted jobs run again. It is only reported: no decision depends on it."""

from collections.abc import Callable, Mapping

from makeway.policies.model import Cluster, Job, JobState, memoise_last


class ResumedJobs:
    """Compares the runs of one snapshot with those of the one before."""

    def __init__(self) -> None:
        self._before: Mapping[str, int] | None = None
        """The running jobs with their requeue counts. None: there was no snapshot yet."""

    def in_snapshot(self, seen: Cluster, past_evictions: Callable[[], Mapping[str, int]]) -> tuple[str, ...]:
        """The jobs that makeway evicted at some time and whose run is new in this snapshot, sorted.

        `past_evictions` says how often each job was evicted; it is called only if a run is new.
        """
        runs = _runs(seen.jobs)
        before, self._before = self._before, runs
        if before is None or before == runs:
            return ()
        new = [job_id for job_id, count in runs.items() if before.get(job_id) != count]
        if not new:
            return ()
        evicted = past_evictions()
        return tuple(sorted(job_id for job_id in new if evicted.get(job_id)))


@memoise_last
def _runs(jobs: tuple[Job, ...]) -> Mapping[str, int]:
    """The running jobs with their requeue counts."""
    return {job.job_id: job.requeue_count for job in jobs if job.state is JobState.RUNNING}
