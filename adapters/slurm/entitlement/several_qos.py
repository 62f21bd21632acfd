"""Jobs that ask for several QOS, such as `sbatch --qos=urgent,normal`, which Slurm knows since 24.11.

While such a job waits, Slurm prints all of them, in the user's order. It tries them by their priorities, and
prints the one with which the job has started once it runs.

Reference: 24.11.5 and 26.05.5, as tried on 2026-11-26.
"""

from dataclasses import replace

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.translate import job_class
from makeway.policies.model import JobKind


def with_one_qos(raw: RawJob, classes: tuple[JobClass, ...]) -> RawJob:
    """The job with the one QOS that counts: of several, the first by which the job is urgent, else the first.

    Room is made for a job by the limits of its urgent QOS alone. By another one that is less limited, a user
    could have more urgent jobs at once than the site allows.
    """
    if "," not in raw.qos:
        return raw
    each = [replace(raw, qos=name) for name in raw.qos.split(",")]
    found = ((one, job_class(one, classes)) for one in each)
    urgent = (one for one, of_one in found if of_one is not None and of_one.kind is JobKind.ON_DEMAND)
    return next(urgent, each[0])
