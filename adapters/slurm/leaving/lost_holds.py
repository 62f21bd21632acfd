"""What binds jobs to holds, and what frees a waiting job that slurmctld keeps from starting because it has
lost the hold of the job.

The command that binds a job writes into its AdminComment to which hold, so that a daemon that has lost its
journal knows it. Only those words count that no user can write: an operator, who may not write AdminComment,
writes none. A job with a reservation of its own gets none either: the word could not name that.

Reference: 24.11, 26.05 as tried. An empty `ReservationName=` is enough on 24.11, and leaves the job its
    priority. On 26.05 the job has the priority 0 by then, as if an administrator held it, and only `release`
    gives it another one. Another reservation frees the job on both. 22.05 keeps no such job from starting.
"""

from collections.abc import Callable

from makeway.adapters.command import CompletedCommand
from makeway.adapters.protocol import Gone
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient
from makeway.adapters.slurm.errors import denied, refusal
from makeway.adapters.slurm.holds import with_hold_word
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.waiting.eligibility import LOSES_PRIORITY, reservation_lost

KEEPS_JOBS = (24, 11)
"""The first release that was seen to keep a waiting job from starting whose reservation it has lost."""


class Binding:
    """Binds jobs to holds, and frees them.

    Args:
        client: what runs the commands.
        now: the time, in POSIX seconds.
    """

    def __init__(self, client: SlurmClient, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._denied = False
        """Whether Slurm has refused AdminComment to this daemon, and allowed the rest of the command."""

    def bind(self, job: RawJob, hold: str | None, own: tuple[str, ...]) -> CompletedCommand:
        """Bind the job to the hold, and to the reservations `own` that it was submitted with. `hold` None: to
        these alone.
        """
        argv = build.bind(job.job_id, hold, own=own)
        known = self._client.known()
        prefix, named = known.capabilities.reservation_prefix, None if own else hold
        new = with_hold_word(job.admin_comment, prefix, named, self._now())
        if self._denied or known.release < KEEPS_JOBS or new == job.admin_comment:
            return self._client.change(argv)
        done = self._client.change((*argv, f"AdminComment={new}"))
        if denied(done):
            done = self._client.change(argv)
            self._denied = done.returncode == 0
        return done

    def unbind(self, job: RawJob, own: tuple[str, ...]) -> None:
        """Leave the job only the reservations that it was submitted with, if they are still there.

        Raises what a refusal means.
        """
        done = self.bind(job, None, own)
        if own and done.returncode != 0:
            done = self.bind(job, None, ())
        _accepted(done)

    def free(self, job: RawJob, own: tuple[str, ...]) -> None:
        """Let the job wait like any other, or for the reservations `own`, in one command.

        Raises `Gone` if it is not kept from starting, and what a refusal means.
        """
        if not reservation_lost(job):
            raise Gone(f"job {job.job_id} is not kept from starting: its reason is {job.reason}")
        if not own and self._client.known().release >= LOSES_PRIORITY:
            self._client.do(build.restore_priority(job.job_id))
        else:
            _accepted(self.bind(job, None, own))


def _accepted(done: CompletedCommand) -> None:
    if done.returncode != 0:
        raise refusal(done)
