"""Jobs of a federation: the cluster to which a job was submitted, its origin, has the last word on it.

Reference: 22.05, 24.11, 26.05 as tried. The number of the origin in the federation is in the id of the job,
    above the 26 bits that number the jobs of one cluster. Another cluster sends each change of the job to its
    origin, which does not know the reservations of that cluster: there the job cannot be bound to a hold, and
    the attempt would undo the binding at its origin. While one cluster tries to start a job, the reason on
    the others is FedJobLock.
"""

import re
from collections.abc import Callable, Iterable

from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.resources.het_jobs import het_job_id

FROM_ELSEWHERE = "its origin in the federation, the only cluster that can bind it to nodes"
"""What a job lacks that was submitted to another cluster."""
SHOW_FEDERATION = ("scontrol", "show", "federation")
"""Print the clusters of the federation that the controller is in."""
_LOCAL_BITS = 26
_SELF = re.compile(r"^Self: .* ID:(\d+)(?: |$)", re.MULTILINE | re.ASCII)
_NUMBER = re.compile(r"\d+", re.ASCII)


def own_number(text: str) -> int | None:
    """The number of this cluster, by `scontrol show federation`. None: it is in no federation."""
    found = _SELF.search(text)
    return int(found[1]) if found is not None else None


def origin(job_id: str) -> int:
    """The number of the cluster to which the job was submitted. 0: the job is of no federation."""
    found = _NUMBER.match(job_id)
    return int(found[0]) >> _LOCAL_BITS if found is not None else 0


def not_bindable(jobs: Iterable[RawJob], own: Callable[[], int | None]) -> dict[str, str]:
    """What those waiting jobs lack that were submitted to another cluster, by their ids, or by those of
    their heterogeneous jobs. `own`: tells the number of this one; asked only if some job is of a federation.
    """
    waiting = [(job, number) for job in jobs if not job.nodes and (number := origin(job.job_id))]
    here = own() if waiting else None
    return {het_job_id(job) or job.job_id: FROM_ELSEWHERE for job, number in waiting if number != here}
