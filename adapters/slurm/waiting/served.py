"""For which of the urgent jobs that wait no room is made, by what the jobs are, and why. Pure functions.

squeue does not tell all that a job asks for: whether its memory is for each node or each CPU, which options
no amounts of nodes say, and, on 22.05, which nodes it excludes. scontrol does, and takes 2 ms for each job.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.resources.het_jobs import het_job_id, refusals
from makeway.adapters.slurm.translate import job_class, state
from makeway.adapters.slurm.waiting.reasons import lacks_by_reason

MOST_READ: Final = 200
"""Of so many waiting urgent jobs the whole requests are read in one cycle."""
UNREAD: Final = f"its turn: makeway looks at {MOST_READ} waiting urgent jobs at once"
"""What a job lacks whose request was not read."""


def first_read(waiting: Iterable[RawJob]) -> list[RawJob]:
    """Those of the waiting urgent jobs whose requests are read: those in holds, then those that could start,
    the first of Slurm's queue first.

    A job that is held, that depends on others, or that its array holds up, has no EligibleTime.
    """

    def turn(raw: RawJob) -> tuple[bool, bool, int]:
        return not raw.reservations, raw.eligible_s is None, -raw.priority

    return sorted(waiting, key=turn)[:MOST_READ]


def not_read(
    waiting: Sequence[RawJob], read: Sequence[RawJob], tasks_left: Mapping[str, float]
) -> dict[str, str]:
    """What the others of the waiting urgent jobs lack, by the ids of these or of their heterogeneous jobs.
    Those are left out that lack something by Slurm's reason.

    `tasks_left`: see `details.tasks_left`.
    """
    if len(read) == len(waiting):
        return {}
    known = {job.job_id for job in read}
    others = (job for job in waiting if job.job_id not in known and not lacks_by_reason(job, tasks_left))
    return {het_job_id(job) or job.job_id: UNREAD for job in others}


def not_served(jobs: Iterable[RawJob], classes: tuple[JobClass, ...]) -> dict[str, str]:
    """Why no room is made for heterogeneous jobs, by their ids: see `refusals`."""
    return refusals((job, job_class(job, classes), state(job)) for job in jobs if job.heterogeneous)


def with_excluded_nodes(jobs: Iterable[RawJob], excluded: Mapping[str, tuple[str, ...]]) -> list[RawJob]:
    """The jobs. Those of `excluded` have the nodes that scontrol says they exclude, by their ids."""
    return [
        replace(job, excluded_nodes=excluded[job.job_id]) if job.job_id in excluded else job for job in jobs
    ]
