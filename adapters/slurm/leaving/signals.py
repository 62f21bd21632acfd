"""A running job is signalled, once.

While two or more tasks of an array wait, slurmctld signals a running one, and then answers that the waiting
ones get no signal ("Job can not be altered now, try again later"). scancel takes that for a reason to try
again, after 5, 6, 7 s and so on, ten times in all: the task would get the signal each time, and makeway would
wait for more than a minute. So scancel is ended when it says that it tries again.

scancel first tells its options, then reads the list of jobs, then names the job, and then sends the signal. A
scancel that got no answer in time, has told its options and has named no job has therefore sent nothing. If
it has told nothing at all, a site's own script around scancel may keep back what it says.

Reference: 22.05, 24.11 as tried. Both do so as well if they are given the task's own job id. `scancel --ctld`
    of 24.11 does not, but says nothing of a job that is over.
"""

from makeway.adapters.command import NoAnswer
from makeway.adapters.protocol import Rejected, Unavailable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient
from makeway.adapters.slurm.errors import refusal
from makeway.policies.model import Checkpoint

TRIES_AGAIN = "Job is in transitional state, retrying"
"""What `scancel -vvv` says."""
_OPTIONS = "job_id[0]"
"""What it says of its options."""
_SIGNALS = "Signal "
"""What it says before it sends a signal (22.05, 24.11 and 26.05 as tried)."""
_NO_LIST = "slurm_load_jobs error"
"""What it says if it could not read the list of jobs. It sends nothing then."""


class Signals:
    """Sends the signals of actions."""

    def __init__(self, client: SlurmClient) -> None:
        self._client = client

    def send(self, action: Checkpoint) -> None:
        """Signal the batch shell of a running job, its steps, or both. Raises what a refusal means."""
        job_id = action.job_id
        first, *others = build.signal_job(job_id, action.signal, action.signal_to)
        try:
            self._send(first)
        except Unavailable as error:
            if not self._has_sent_nothing(error):
                raise
            raise Unavailable(str(error), sent=False) from error
        for command in others:
            try:
                self._send(command)
            except Rejected as error:
                # Not as a refusal, which would let the signal be sent again, also to those that have got it.
                raise Unavailable(f"only the batch shell of job {job_id} is signalled: {error}") from error

    def _send(self, command: tuple[str, ...]) -> None:
        done = self._client.change(command, until=TRIES_AGAIN)
        if done.returncode != 0 and TRIES_AGAIN not in done.stderr:
            raise refusal(done)

    def _has_sent_nothing(self, error: Unavailable) -> bool:
        """Whether a scancel that failed has certainly sent no signal."""
        if isinstance(error, NoAnswer):
            return _OPTIONS in error.said and _SIGNALS not in error.said
        return _NO_LIST in str(error) and _SIGNALS not in str(error)
