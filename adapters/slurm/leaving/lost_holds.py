"""How a waiting job is freed that slurmctld keeps from starting because it has lost the hold of the job.

Reference: 24.11, 26.05 as tried. An empty `ReservationName=` is enough on 24.11, and leaves the job its
    priority. On 26.05 the job has the priority 0 by then, as if an administrator held it, and only `release`
    gives it another one. Another reservation frees the job on both.
"""

from makeway.adapters.protocol import Gone
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.resources.eligibility import LOSES_PRIORITY, reservation_lost


def free(client: SlurmClient, job: RawJob, own: tuple[str, ...]) -> None:
    """Let the job wait like any other, or for the reservations `own` that it was submitted with, in one
    command.

    Raises `Gone` if it is not kept from starting, and what a refusal means.
    """
    if not reservation_lost(job):
        raise Gone(f"job {job.job_id} is not kept from starting: its reason is {job.reason}")
    released = not own and client.known().release >= LOSES_PRIORITY
    client.do(build.restore_priority(job.job_id) if released else build.bind(job.job_id, None, own=own))
