"""A running job is signalled, once.

While two or more tasks of an array wait, slurmctld signals a running one, and then answers that the waiting
ones get no signal ("Job can not be altered now, try again later"). scancel takes that for a reason to try
again, after 5, 6, 7 s and so on, ten times in all: the task would get the signal each time, and makeway would
wait for more than a minute. So scancel is ended when it says that it tries again.

Reference: 22.05, 24.11 as tried. Both do so as well if they are given the task's own job id. `scancel --ctld`
    of 24.11 does not, but says nothing of a job that is over.
"""

from makeway.adapters.protocol import Rejected, Unavailable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient
from makeway.adapters.slurm.errors import refusal
from makeway.policies.model import Checkpoint

TRIES_AGAIN = "Job is in transitional state, retrying"
"""What `scancel --verbose` says."""


def signal_once(client: SlurmClient, action: Checkpoint) -> None:
    """Signal the batch shell of a running job, its steps, or both. Raises what a refusal means."""
    job_id = action.job_id
    first, *others = build.signal_job(job_id, action.signal, action.signal_to)
    _send(client, first)
    for command in others:
        try:
            _send(client, command)
        except Rejected as error:
            # Not as a refusal, which would let the signal be sent again, also to those that have got it.
            raise Unavailable(f"only the batch shell of job {job_id} is signalled: {error}") from error


def _send(client: SlurmClient, command: tuple[str, ...]) -> None:
    done = client.change(command, until=TRIES_AGAIN)
    if done.returncode != 0 and TRIES_AGAIN not in done.stderr:
        raise refusal(done)
