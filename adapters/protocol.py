"""What an adapter is: one method to read the cluster, one to act on it, and five ways to fail."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from makeway.policies.model import RESERVATION_PREFIX, Action, Cluster, Job, Verb


class AdapterError(Exception):
    """The cluster did not do as it was asked."""


class Unavailable(AdapterError):
    """No answer in time. The action may have been applied all the same, or may be yet.

    Args:
        message: what gave no answer.
        sent: False: the action was certainly not sent, because a question before it got no answer.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


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
        retryable: whether the same action may succeed a little later.
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class Gone(AdapterError):
    """The job, or the reservation, was over before the action arrived: success by other means."""


class Unsupported(AdapterError):
    """This cluster cannot do it at all; the arbiter should have refused it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a cluster can do."""

    name: str
    """What `doctor` and the log call the cluster, with its version."""
    actions: frozenset[Verb]
    """The kinds of action that `apply` takes. The arbiter refuses the others. Empty: the adapter only
    reads.
    """
    reservation_prefix: str = RESERVATION_PREFIX
    """What the names of makeway's reservations begin with."""
    recomputes_priority: bool
    """Whether a waiting job gets its old queue position back when its planned one is taken away, rather than
    the last one.
    """


class Adapter(Protocol):
    """The only way to a cluster. Implementations need not be thread-safe: only the daemon's cycle calls them.

    What `apply` does with each action. One on a running job that names a `run` touches no other: it raises
    `Gone` if the job has left that run. Where the cluster cannot check that together with the command, the
    adapter looks right before it.

    - `Checkpoint`: raise the running job's time limit to `walltime_s` if it is less, and send `signal` to the
      processes that `signal_to` names. `Gone` if it is not running.
    - `Requeue`: put the running job back into the queue; `Gone` if it is not running. With `forgotten_run`
      also a job that was requeued from that run and that a controller which crashed takes for ended; `Gone`
      if it is over for another reason. With `ended_by` a job that this signal has ended; `Gone` if it ended
      otherwise.
    - `Cancel`: end the job, pending or running. `Gone` if there is none.
    - `Shrink`: leave the running job `keep_nodes` only and raise its time limit to `walltime_s` if it is
      less. `Gone` if it is not running, `Rejected` if `keep_nodes` lacks the batch host or has nodes that are
      not the job's.
    - `Expand`: add `nodes` to the running job; they are free, or held by `reservation` while that exists.
      `Gone` if it is not running.
    - `Reserve`: hold exactly `nodes`, busy ones too, until `duration_s` from now. With `user` None the
      pending job `job_id` is bound to them; else the job of `user` has not arrived, and nothing is bound. A
      reservation of that name is changed to these nodes and this end. With `out_of` other reservations may
      have the nodes too, and keep them. `Gone` if the job is not pending, `Rejected` if another reservation
      has a node and `out_of` is empty.
    - `Release`: end the reservation; its pending job goes back to the common queue, its running job runs on.
      `Gone` if there is none, `Rejected` (retryable) while its job is about to end.
    - `Prioritise`: with `queue_position` None, move the pending job to the front of the queue and lift any
      requeue delay; else give it that position of the planned order, which follows the front and precedes the
      common queue, the lowest first, and lifts no delay. `Gone` if the job is not pending.
    - `RestorePriority`: let the cluster set the job's priority again: a running job's, or that of one in a
      queue position. `Gone` if it neither runs nor waits in one, `Rejected` if it is held.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What this cluster can do."""
        raise NotImplementedError

    def snapshot(self) -> Cluster:
        """The whole cluster at one instant, without operations, leases, evictions, notices and limits.

        Raises:
            Unavailable: no answer in time.
            Unreadable: an answer that is not whole or cannot be understood.
        """
        raise NotImplementedError

    def apply(self, action: Action) -> None:
        """Send one action to the cluster. It is accepted when this returns; a later snapshot shows that it is
        done.

        Repeating it is safe: an action names the state that is wanted, or the run of the job that is meant.

        Raises:
            Unavailable: no answer in time; the action may have been applied.
            Rejected: the controller refused it.
            Gone: the job, or the reservation, was over first.
            Unsupported: its kind is not in `capabilities.actions`.
            Unreadable: the controller's answer cannot be understood; the action may have been applied.
        """

    def close(self) -> None:
        """Release whatever the adapter holds. Nothing may be called afterwards."""


def unsupported(action: Action) -> Unsupported:
    """The error for an action of a kind that this cluster cannot do."""
    return Unsupported(f"this cluster does not support the action {action.verb}")


@runtime_checkable
class SubmissionReader(Protocol):
    """What an adapter may offer besides: to say what a job would ask for that is not submitted."""

    def as_submitted(self, options: Sequence[str], *, walltime_s: float) -> Job:
        """The waiting urgent job that these options of the batch system would make. It is not submitted.

        Args:
            options: the arguments of the command that submits jobs, without a script.
            walltime_s: its time limit if the options give none.

        Raises:
            ValueError: the options are not understood. The message says which, and what is accepted.
            Unavailable: no answer in time.
            Unreadable: an answer that is not whole or cannot be understood.
        """
        raise NotImplementedError
