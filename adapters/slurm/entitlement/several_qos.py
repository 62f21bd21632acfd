"""Jobs that ask for several QOS, such as `sbatch --qos=urgent,normal`, which Slurm knows since 24.11.

While such a job waits, Slurm prints all of them, in the user's order. It tries them by their priorities, of
equal ones in any order, and prints the one with which the job has started once it runs.

Reference: 24.11.5 and 26.05.5, as tried on 2026-11-26.
"""

from dataclasses import replace

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.translate import job_class
from makeway.policies.model import JobKind


def with_counting_qos(raw: RawJob, classes: tuple[JobClass, ...]) -> RawJob:
    """The job with the QOS first that counts for its class: any, if each makes it urgent, else the first that
    does not.

    Slurm may start it by any of them. If one that is not urgent were among them, a user could have others
    leave for more jobs than the limits of the urgent one admit.
    """
    if "," not in raw.qos:
        return raw
    names = raw.qos.split(",")
    each = ((name, job_class(replace(raw, qos=name), classes)) for name in names)
    counts = next((name for name, of in each if of is None or of.kind is not JobKind.ON_DEMAND), None)
    return raw if counts is None else replace(raw, qos=",".join(dict.fromkeys((counts, *names))))
