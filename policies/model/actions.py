"""The actions that may be taken on a cluster. Imported through `model`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, get_args

from makeway.policies.model.entities import SignalTarget
from makeway.policies.model.kind import OperationKind
from makeway.policies.model.taken import TakenFromJob

QUEUE_POSITIONS = 1 << 15
"""The queue positions of a planned order are numbered from 1 up to this."""


class Method(StrEnum):
    """How a job leaves its nodes (P2's options without "leave", and P5's shrink)."""

    KILL = "kill"
    APPLICATION = "application"  # right after its next regular checkpoint
    SYSTEM = "system"  # right after a checkpoint that a signal starts
    SHRINK = "shrink"


class Reason(StrEnum):
    """Why an action is taken: the log field and the metric label. No code branches on it."""

    URGENT_ARRIVAL = "urgent_arrival"  # an urgent job waits and too few nodes are free
    URGENT_FITS = "urgent_fits"  # an urgent job waits and enough nodes are free
    ANNOUNCED = "announced"  # an urgent job was announced and has not arrived
    NO_ROOM = "no_room"  # an urgent job waits and no choice makes room in time
    SHORTFALL = "shortfall"  # a held node is lost: it is not up, or another job uses it
    CAME_FREE = "came_free"  # nodes are free outside a hold: with them, a job that was to leave can stay
    BORROWER_ENDED = "borrower_ended"  # the urgent job is over: its nodes go back
    BORROWER_GONE = (
        "borrower_gone"  # the urgent job ended, or was made one that is not urgent, before it started
    )
    GIVEN_UP = "given_up"  # the urgent job did not start in time: the hold ends
    BLOCKED = "blocked"  # the urgent job waits for something besides nodes: the hold ends
    HOLD_LOST = "hold_lost"  # the cluster has lost the job's hold, and keeps the job from starting
    ORPHANED = "orphaned"  # left over from before a restart: no operation needs it
    SPECULATIVE = "speculative"  # a waiting job starts before its turn, and leaves if it still runs by then
    HEAD_DUE = "head_due"  # the first of the queue is due, and jobs that passed it use its nodes
    PLANNED = "planned"  # a waiting job gets its position in the planned order
    ENDED_BY_SIGNAL = "ended_by_signal"  # makeway's signal ended a job that has no handler for it
    TAKEN = "taken"  # the job itself says what makeway has taken from it, and no operation gives it back
    STARTED = "started"  # a job has started that was moved in the queue or that nodes were held for


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionBase:
    """The fields of every action."""

    job_id: str
    """The job that it is applied to."""
    for_job_id: str
    """The job that it is done for."""
    policy: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """One run of a job, as a snapshot saw it."""

    requeue_count: int
    start_s: float | None
    """When it began. None: unknown; only the count tells it from others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActionBase(ActionBase):
    """The fields of every action on a running job."""

    run: RunIdentity | None = None
    """The run that is meant; no other may be touched. The daemon sets it before it sends the action. None:
    whichever is the present one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(RunActionBase):
    """Signal a running job to checkpoint now: `signal` to its processes `signal_to`. It has `grace_s` to
    acknowledge.

    Its time limit rises to `walltime_s` from its start, so that the checkpoint costs none of its time.
    """

    signal: str
    grace_s: float
    walltime_s: float
    signal_to: SignalTarget = SignalTarget.BATCH
    not_before_s: float | None = None
    """When its turn on the file system comes: until then the checkpoints of other operations have it. None:
    at once."""
    saved_by_s: float | None = None
    """The plan: when it is complete, and so is every other checkpoint that was requested before or with it.
    None: there is no plan."""
    until_s: float | None = None
    """The plan: when the grace ends. If the signal is sent late, the daemon shortens `grace_s` to that. None:
    the grace keeps its length."""
    grace_min_s: float = 0.0
    """The grace that the job has at least, however late the signal is sent, but never more than `grace_s`."""
    verb: Literal["checkpoint"] = "checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue(RunActionBase):
    """Put a running job back into the queue, once `method` allows it or `not_after_s` is reached."""

    method: Method
    not_after_s: float
    forgotten_run: int | None = None
    """The requeue count of a run that was requeued before, by a command that the controller forgot when it
    crashed.

    The job may then count as ended, and is put back all the same. None: the job is running.
    """
    ended_by: str | None = None
    """The signal that makeway sent to the run, which is over since; TERM: by a requeue. If it has ended the
    run, the job is put back; else the job is over. None: the job is running."""
    verb: Literal["requeue"] = "requeue"

    @property
    def puts_back(self) -> bool:
        """Whether its job may count as ended already, so that it gets something back and loses nothing."""
        return self.forgotten_run is not None or self.ended_by is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(RunActionBase):
    """End a running job that cannot be requeued, once `method` allows it or `not_after_s` is reached."""

    method: Method
    not_after_s: float
    verb: Literal["cancel"] = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink(RunActionBase):
    """Let a malleable job keep `keep_nodes` only (the batch host first) and run until `walltime_s` from its
    start.
    """

    keep_nodes: tuple[str, ...]
    walltime_s: float
    verb: Literal["shrink"] = "shrink"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand(ActionBase):
    """Give `nodes` back to a job that was shrunk, out of the reservation that holds them (None: they are
    free).
    """

    nodes: tuple[str, ...]
    reservation: str | None
    verb: Literal["expand"] = "expand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve(ActionBase):
    """Hold exactly `nodes` for `job_id` in the reservation `reservation`, for at most `duration_s`, and bind
    the job.

    Without nodes it is a promise of later nodes: its operation is opened, and no command is issued.
    """

    reservation: str
    nodes: tuple[str, ...]
    duration_s: float
    user: str | None = None
    """The user of the announced job: `job_id` is a notice, and there is no job to bind. None: `job_id` is a
    job."""
    kind: OperationKind = OperationKind.MAKE_WAY
    """The kind of operation that the hold opens."""
    out_of: tuple[str, ...] = ()
    """The holds for announced jobs that contain `nodes`, which are lent to `job_id` until one of these jobs
    arrives."""
    own_reservation: str | None = None
    """The reservation that the job was submitted with, which it keeps: see `Cluster.own_reservation`. Several
    are separated by commas. None: none, or unknown."""
    until_s: float | None = None
    """When it ends in any case, sooner than after `duration_s`: the site has reserved one of the nodes from
    then on. None: after `duration_s`."""
    requeue_count: int = 0
    """How often the job had gone back to the queue by then: for which of its starts the hold is."""
    verb: Literal["reserve"] = "reserve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(ActionBase):
    """End one of makeway's reservations. A pending job bound to it goes back to the common queue; a running
    one runs on.
    """

    reservation: str
    own_reservation: str | None = None
    """The one that its job was submitted with, and stays bound to: see `Reserve.own_reservation`."""
    lost: bool = False
    """The cluster has lost the reservation, and keeps `job_id` from starting for that: only the job goes back
    to the queue."""
    verb: Literal["release"] = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prioritise(ActionBase):
    """Move a pending job to the front of the queue and let it start at once, or to a position in a planned
    order.

    A requeued job that goes to the front also gets back the time limit that makeway has raised.
    """

    queue_position: int | None = None
    """Between 1 and `QUEUE_POSITIONS`: the job's position in the planned order, which comes after the front
    of the queue. None: to the front."""
    verb: Literal["prioritise"] = "prioritise"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePriority(ActionBase):
    """Restore the cluster's own priority of a job that has started after it was moved, or that waits in a
    queue position.
    """

    verb: Literal["restore_priority"] = "restore_priority"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreLimit(ActionBase):
    """Lower a job's time limit to `walltime_s` from its start, and let the cluster keep `left` with the job
    in place of `taken`, if it still keeps that.
    """

    walltime_s: float | None
    """None: its time limit stays as it is."""
    taken: TakenFromJob
    """What the decision saw as `Job.taken`."""
    left: TakenFromJob | None = None
    """What is to be given back later. None: nothing."""
    verb: Literal["restore_limit"] = "restore_limit"


Action = (
    Checkpoint
    | Requeue
    | Cancel
    | Shrink
    | Expand
    | Reserve
    | Release
    | Prioritise
    | RestorePriority
    | RestoreLimit
)
"""Every action that can be taken on a cluster."""

Verb = Literal[
    "checkpoint",
    "requeue",
    "cancel",
    "shrink",
    "expand",
    "reserve",
    "release",
    "prioritise",
    "restore_priority",
    "restore_limit",
]
"""The kinds of action, by the word that an action carries in `verb`."""
VERBS: Final[frozenset[Verb]] = frozenset(get_args(Verb))
"""All of them."""
