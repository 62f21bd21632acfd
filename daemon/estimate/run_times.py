"""The share of its time limit that each finished run took, by user: from this a policy may predict run times.

A run has ended if its job ran in the last snapshot and is absent or completing in this one. Some runs do not
count: those that end while makeway takes no snapshots, those of jobs that were requeued before (a part of
their work was done already), those that a requeue ends, and those with short time limits, which say little
about long ones. A job that completes because it was requeued already counts its next run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

from makeway.policies.model import Cluster, Job, JobState

LATEST: Final = 20
"""This many runs of each user count."""
TRUSTED: Final = 5
"""With fewer runs of a user, makeway makes no prediction."""
LEAST_LIMIT_S: Final = 1800.0
"""Runs with a shorter time limit do not count."""
LEAST_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that has ended."""

    job_id: str
    user: str
    ended_s: float
    share: float
    """The part of its time limit that it took, at most 1."""


class History:
    """The latest runs of each user, kept in memory for every cycle."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._shares: dict[str, tuple[float, ...]] = {}
        self.usual: Mapping[str, float] = {}
        """The median share of each user with enough runs. Another object whenever it changes."""
        self.add(runs)

    def add(self, runs: Iterable[Run]) -> None:
        """Add runs, the oldest first."""
        users: set[str] = set()
        for run in runs:
            self._shares[run.user] = (*self._shares.get(run.user, ()), run.share)[-LATEST:]
            users.add(run.user)
        known = {user: median(self._shares[user]) for user in users if len(self._shares[user]) >= TRUSTED}
        if known:
            self.usual = {**self.usual, **known}


def ended_runs(before: Mapping[str, Job], seen: Cluster) -> tuple[Run, ...]:
    """The runs that have ended since the last snapshot, by job id.

    Args:
        before: the jobs that ran then (`running`).
        seen: this snapshot.
    """
    jobs = seen.jobs_by_id()
    found: list[Run] = []
    for job_id, job in sorted(before.items()):
        now = jobs.get(job_id)
        over = now is None or (now.state is JobState.COMPLETING and now.requeue_count == job.requeue_count)
        if over and job.start_s is not None:
            lasted_s = max(0.0, seen.now_s - job.start_s)
            share = min(1.0, max(LEAST_SHARE, lasted_s / job.walltime_s))
            found.append(Run(job_id=job_id, user=job.user, ended_s=seen.now_s, share=share))
    return tuple(found)


def running(seen: Cluster) -> dict[str, Job]:
    """The running jobs whose runs will count, by id."""
    return {
        job.job_id: job
        for job in seen.holders()
        if job.state is JobState.RUNNING and not job.requeue_count and job.walltime_s >= LEAST_LIMIT_S
    }
