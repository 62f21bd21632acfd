"""What an adapter is: one method to read the cluster, one to act on it, and five ways to fail."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from makeway.policies.model import RESERVATION_PREFIX, Action, Cluster, Job, LeaderLease, Resources, Verb


class AdapterError(Exception):
    """The cluster did not do as it was asked."""


class Unavailable(AdapterError):
    """No answer in time. The action may have been applied all the same, or may be yet.

    Args:
        message: what gave no answer.
        sent: False: the action was certainly not sent, because a question before it got no answer.
        starting: the cluster answers, but has just started, and cannot tell its state for some seconds.
    """

    def __init__(self, message: str, *, sent: bool = True, starting: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.starting = starting


class Unreadable(AdapterError):
    """An answer that cannot be understood. Keeps the command and the text.

    Args:
        message: what is wrong with the text.
        command: the argument list that was run, or a word for the read.
        text: what it printed. Empty: it was not kept.
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


class NotForgotten(Gone):
    """A requeue was to be repeated, and its job waits, or is in a later run: nothing was sent."""


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
      also a job that was requeued from that run and that a controller which crashed takes for ended;
      `NotForgotten` if it waits or is in a later run, `Gone` if it is over for another reason. With
      `ended_by` a job that this signal, or a requeue, has ended; `Gone` if it ended otherwise.
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
      `Gone` if there is none, `Rejected` (retryable) while its job is about to end. With `lost`, the cluster
      has lost the reservation: let the pending job start again that it keeps from starting for that; `Gone`
      if it keeps it from nothing.
    - `Prioritise`: with `queue_position` None, move the pending job to the front of the queue and lift any
      requeue delay; else give it that position of the planned order, which follows the front and precedes the
      common queue, the lowest first, and lifts no delay. `Gone` if the job is not pending.
    - `RestorePriority`: let the cluster set the job's priority again: a running job's, or that of one in a
      queue position. `Gone` if it neither runs nor waits in one, `Rejected` if it is held.
    - `RestoreLimit`: lower the job's time limit to `walltime_s`, and keep `left` with the job in place of
      what was taken from it. `Gone` if it neither runs nor waits, or if that is not `taken` any more.

    Before `Checkpoint`, `Requeue` and `Shrink` take something from a job, or together with that, the adapter
    writes it into the job, where `Job.taken` shows it. `Prioritise` to the front gives a requeued job its
    time limit back, and removes what is written there.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedJob:
    """An urgent job that a user means to submit."""

    user: str
    node_count: int
    walltime_s: float
    demand: Resources | None = None
    """What it needs on each node. None: whole nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entitlement:
    """Whether a user could submit an urgent job."""

    refusal: str | None = None
    """Why the user may not, in one line. None: the user may."""
    account: str = ""
    """The account that the job can be charged to. Empty: unknown, or refused."""


class EntitlementReader(Protocol):
    """Says who could submit an urgent job. May be called from any thread."""

    def entitlement(self, job: AnnouncedJob) -> Entitlement:
        """Whether the user could submit this job as an urgent one: one of a class of the kind on_demand,
        within the limits that the cluster has for the user.

        Raises:
            Unavailable: no answer in time.
            Unreadable: an answer that cannot be understood.
            Rejected: the cluster does not tell.
        """
        raise NotImplementedError


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


@runtime_checkable
class LeaseKeeper(Protocol):
    """What an adapter may also offer: it keeps the leases by which one of several daemons acts.

    `Cluster.leader_leases` of each snapshot has them. They are of the daemons that share an instance. Like
    `Adapter`, only the daemon's cycle calls it.
    """

    @property
    def command_s(self) -> float:
        """The longest that one command can take, in real seconds."""
        raise NotImplementedError

    @property
    def saves_s(self) -> float:
        """How long after its answer a crash of the controller may still undo a command, in real seconds."""
        raise NotImplementedError

    def create_lease(self, lease: LeaderLease) -> None:
        """Make the lease. Of several daemons that make one of the same term at once, one succeeds.

        Raises:
            Rejected: there is one of that term, or this daemon may not make any.
            Unavailable: no answer in time; it may have been made.
            Unreadable: an answer that cannot be understood; it may have been made.
        """

    def renew_lease(self, lease: LeaderLease) -> None:
        """Give the lease of that term this mark and length.

        Raises:
            Gone: there is none of that term.
            Rejected: the cluster refused it.
            Unavailable: no answer in time; it may have been changed.
            Unreadable: an answer that cannot be understood; it may have been changed.
        """

    def remove_lease(self, term: int) -> None:
        """Remove the lease of that term.

        Raises:
            Gone: there is none.
            Rejected: the cluster refused it.
            Unavailable: no answer in time; it may have been removed.
            Unreadable: an answer that cannot be understood; it may have been removed.
        """


@runtime_checkable
class GatedAdapter(Protocol):
    """What an adapter may also offer if an action can be several commands: it asks before each of them."""

    def ask_before_commands(self, may_send: Callable[[], bool]) -> None:
        """From now on, ask before each command that changes the cluster and is not about a lease. If the
        answer is no, the command is not sent and `apply` raises `Unavailable`.

        Args:
            may_send: whether a command that is sent now ends in time. May be called from any thread.
        """
