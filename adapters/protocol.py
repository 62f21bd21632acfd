"""What an adapter is: one read, eight verbs, and five ways to fail.

A verb that returns was accepted; only a later snapshot tells that it is done. A verb that raises `Unavailable` may or
may not have been applied. Every verb is safe to repeat: it names the state that is wanted, or the run of the job that
is meant.
"""

from dataclasses import dataclass
from typing import Protocol

from makeway.policies.model import Cluster, SignalTarget


class AdapterError(Exception):
    """The cluster did not do as it was asked."""


class Unavailable(AdapterError):
    """No answer in time. A verb that raises it may have been applied all the same."""


class Unreadable(AdapterError):
    """An answer that cannot be understood. Keeps the command and the text.

    Args:
        message: what is wrong with the text.
        command: the argument list that was run, or a word for the read.
        text: what it printed.
    """

    def __init__(self, message: str, *, command: tuple[str, ...], text: str) -> None:
        super().__init__(message)
        self.command = command
        self.text = text


class Rejected(AdapterError):
    """The controller said no, in its own words.

    Args:
        message: the controller's words.
        retryable: whether it asked to be asked again in a bit.
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class Gone(AdapterError):
    """The job, or the reservation, was over before the verb arrived: success by other means."""


class Unsupported(AdapterError):
    """This cluster cannot do it at all; the arbiter should have refused it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What this cluster can do beyond what every Slurm can."""

    name: str
    """What `doctor` and the log call the cluster, with its version."""
    expand: bool
    """Whether a shrunk job can be grown back."""
    recomputes_priority: bool
    """Whether a waiting job whose queue position is taken back stands where it stood before, and not behind all others."""


class Adapter(Protocol):
    """The only way to a cluster. Implementations are not thread-safe: the daemon's cycle is the one caller."""

    @property
    def capabilities(self) -> Capabilities:
        """What this cluster can do."""

    def snapshot(self) -> Cluster:
        """The whole cluster at one instant, without operations, leases, evictions, notices and limits.

        Raises:
            Unavailable: no answer in time.
            Unreadable: an answer that is not whole or cannot be understood.
        """

    def checkpoint(
        self, job_id: str, *, signal: str, walltime_s: float, signal_to: SignalTarget = SignalTarget.BATCH
    ) -> None:
        """Raise the running job's time limit to `walltime_s` if it is less, and send `signal` to those of its processes.

        Raises `Gone` if it is not running.
        """

    def requeue(self, job_id: str) -> None:
        """Put the running job back into the queue. Raises `Gone` if it is not running."""

    def requeue_again(self, job_id: str, *, requeue_count: int) -> None:
        """Put back a job that was requeued and then taken for ended, by a controller that crashed and had forgotten it.

        `requeue_count` is that of the run that was requeued. Raises `Gone` if the job is over for another reason.
        """

    def cancel(self, job_id: str) -> None:
        """End the job. Raises `Gone` if there is none."""

    def shrink(self, job_id: str, *, keep_nodes: tuple[str, ...], walltime_s: float) -> None:
        """Leave the running job `keep_nodes` only and raise its time limit to `walltime_s`.

        Raises `Gone` if it is not running, `Rejected` if `keep_nodes` lacks the batch host or is no part of its nodes.
        """

    def expand(self, job_id: str, *, nodes: tuple[str, ...], reservation: str | None) -> None:
        """Add `nodes`, free or kept by `reservation` as long as that is there, to the running job.

        Raises `Gone` if it is not running, `Unsupported` where jobs cannot grow.
        """

    def reserve(
        self,
        name: str,
        *,
        nodes: tuple[str, ...],
        duration_s: float,
        job_id: str | None,
        user: str | None = None,
        overlap: bool = False,
    ) -> None:
        """Keep exactly `nodes`, busy ones too, until `duration_s` from now, and bind the pending job to them.

        A reservation of that name is changed to these nodes and this end. `job_id` None: the job of `user` has not
        arrived, and nothing is bound. `overlap`: other reservations may have the nodes too, and keep them. Raises
        `Gone` if the job is not pending, `Rejected` if another reservation has a node and `overlap` is not set.
        """

    def release(self, name: str) -> None:
        """End the reservation; its pending job goes back to the common queue, its running job runs on without it.

        Raises `Gone` if there is none, `Rejected` (retryable) while its job is about to end.
        """

    def prioritise(self, job_id: str, *, queue_position: int | None = None) -> None:
        """Move the pending job to the front of the queue, any requeue delay lifted, or to its queue position in a planned order.

        The planned order follows the front and comes before the common queue; `queue_position` is from 1 to `QUEUE_POSITIONS`, the lowest
        first, and lifts no delay. None: to the front. Raises `Gone` if the job is not pending.
        """

    def restore_priority(self, job_id: str) -> None:
        """Give the job the priority again that the cluster sets by itself: a running one, or one in a planned order's queue position.

        Raises `Gone` if it neither runs nor waits in such a queue position, `Rejected` if it is held.
        """

    def close(self) -> None:
        """Let go of whatever the adapter holds. Nothing may be called afterwards."""
