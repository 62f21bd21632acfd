"""The nouns of makeway: what a cluster looks like at one instant, and what may be done to it.

Every value is frozen. Times ending in `_s` are seconds: instants are POSIX time on a live cluster and trace time in
the simulator, durations are plain seconds. A job that is absent from `Cluster.jobs` has ended or was never there.
Standard library only, so that an adapter that imports it loads nothing else.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import filterfalse
from types import MappingProxyType
from typing import Literal, ParamSpec, TypeVar

PLACES = 1 << 15
"""Places of a planned order are numbered from 1 up to this."""
RESERVATION_PREFIX = "mw_"
"""Every reservation of ours begins with this; nothing else that is called so may exist on the cluster."""


class JobKind(StrEnum):
    """What a job lets us do with it."""

    RIGID = "rigid"
    MALLEABLE = "malleable"
    ON_DEMAND = "on_demand"


class JobState(StrEnum):
    """Where a job is. COMPLETING and SUSPENDED jobs hold their nodes; neither may be acted upon."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETING = "completing"
    SUSPENDED = "suspended"


class NodeState(StrEnum):
    """Whether a node may be given to a job. Which job has it, the jobs say."""

    UP = "up"
    DRAINED = "drained"
    DOWN = "down"


class Acknowledgement(StrEnum):
    """How a job shows that the checkpoint it was asked for is complete."""

    COMMENT = "comment"  # it writes the instant of the checkpoint into its own comment field
    REQUEUE = "requeue"  # it requeues itself
    EXIT = "exit"  # it ends
    NONE = "none"  # it does not show it: the grace period is waited out


class SignalTarget(StrEnum):
    """Which processes of a job get the signal that asks for a checkpoint."""

    BATCH = "batch"  # the shell of its batch script, and no child of it
    STEPS = "steps"  # the processes of its steps, on all its nodes
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """What is known of a job's checkpoints. None means that the job has no such checkpoint."""

    interval_s: float | None = None
    """Time between two regular application checkpoints."""
    application_s: float | None = None
    """Duration of one application checkpoint, without the wait for it."""
    system_s: float | None = None
    """Duration of a checkpoint that a signal starts at once."""
    measured_count: int = 0
    """From so many measured checkpoints `system_s` is known. 0: it is declared."""
    signal: str = "USR1"
    signal_to: SignalTarget = SignalTarget.BATCH
    grace_s: float = 300.0
    """How long after the signal the acknowledgement is awaited; never less than `system_s`."""
    acknowledgement: Acknowledgement = Acknowledgement.COMMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One compute node."""

    name: str
    state: NodeState = NodeState.UP


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A set of nodes that may serve a job as a whole: a partition of a torus, a leaf switch, a block.

    Two placements that share a node conflict: jobs on both of them at once need the node twice.
    """

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, pending or holding nodes. An array task is a job of its own."""

    job_id: str
    kind: JobKind
    state: JobState
    node_count: int
    """Nodes held, or asked for while pending."""
    walltime_s: float
    submit_s: float
    user: str
    account: str = ""
    qos: str = ""
    partition: str = ""
    node_count_min: int | None = None
    """Smallest size of a malleable job. None: `node_count`, it cannot shrink."""
    node_count_max: int | None = None
    """The size that a malleable job asked for, to which it may grow; the largest that a waiting urgent job would take,
    which asks for `node_count` at the least. None: `node_count`."""
    nodes: tuple[str, ...] = ()
    """Nodes held, the batch host first. Empty while pending."""
    eligible_nodes: frozenset[str] | None = None
    """Nodes that may serve the job. None: any node."""
    start_s: float | None = None
    """When the present run began. None while pending."""
    eligible_s: float | None = None
    """A pending job may not start before this. None: no such limit."""
    setup_s: float = 0.0
    """Time that every start of the job costs before it does useful work."""
    checkpoint: CheckpointSpec | None = None
    """None: the job cannot checkpoint, an eviction loses the whole run."""
    last_checkpoint_s: float | None = None
    """When the last checkpoint of the present run was complete. None: none is known."""
    checkpointing_since_s: float | None = None
    """When the job said that it began the checkpoint that it was asked for. None: it said nothing."""
    requeue_count: int = 0
    preemptible: bool = False
    """Whether the site lets us touch it. The adapter says no for whatever is not opted in."""
    reservation: str | None = None
    """The reservation that the job is bound to."""
    start_within_s: float | None = None
    """Urgent jobs: the start is on time if it is at most this long after `submit_s`. None: the policy's default."""
    prioritised: bool = False
    """Whether we have moved the job to the front of the queue, or given it a place in a planned order."""
    place: int | None = None
    """Its place in the order that we planned: behind the front, ahead of the common queue, the lowest first. None: none."""
    notice_id: str | None = None
    """The announcement that the job says it belongs to. None: it names none."""
    priority: float = 0.0
    """Its place in the queue: the highest first, jobs of one priority in the order of their submission."""
    saved_s: float = 0.0
    """How much of its runtime earlier runs have saved, so that the present or next one goes on from there. 0: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Nodes kept for the jobs that are bound to it. `name` tells whether it is ours."""

    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float

    @property
    def ours(self) -> bool:
        """Whether makeway made it, in this life or an earlier one."""
        return self.name.startswith(RESERVATION_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An on-demand job that was announced."""

    notice_id: str
    user: str
    node_count: int
    walltime_s: float
    announced_s: float
    expected_s: float
    """When it should arrive."""
    job_id: str | None = None
    """The job, once it has arrived. None: not yet."""


class Method(StrEnum):
    """How a job leaves its nodes (P2's options without "leave", and P5's shrink)."""

    KILL = "kill"
    APPLICATION = "application"  # right after its next regular checkpoint
    SYSTEM = "system"  # right after a checkpoint that a signal starts
    SHRINK = "shrink"


class Reason(StrEnum):
    """Why an action is taken: at once the log field and the metric label."""

    URGENT_ARRIVAL = "urgent_arrival"  # an urgent job waits and too few nodes are free
    URGENT_FITS = "urgent_fits"  # an urgent job waits and enough nodes are free
    ANNOUNCED = "announced"  # an urgent job was announced and has not arrived
    NO_ROOM = "no_room"  # an urgent job waits and no choice makes room in time
    SHORTFALL = "shortfall"  # a node that was held is lost, or somebody else is on it
    BORROWER_ENDED = "borrower_ended"  # the urgent job is over: its nodes go back
    BORROWER_GONE = "borrower_gone"  # the urgent job ended before it started
    GIVEN_UP = "given_up"  # the urgent job did not start in time: the hold ends
    ORPHANED = "orphaned"  # nobody's any more: left by an earlier life
    SPECULATIVE = (
        "speculative"  # a waiting job starts before its turn, and leaves if it is still there by then
    )
    HEAD_DUE = "head_due"  # the first of the queue is due, and jobs that passed it are on its nodes
    PLANNED = "planned"  # a waiting job is given its place in the planned order
    STARTED = "started"  # a job runs that was moved to the front of the queue, or that nodes were held for


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deed:
    """What every action says of itself."""

    job_id: str
    """Whom it concerns."""
    for_job_id: str
    """The urgent job for whose sake it is done."""
    policy: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(_Deed):
    """Ask a running job to checkpoint now, by `signal` to its processes `signal_to`; it has `grace_s` to acknowledge.

    Its time limit rises to `walltime_s` from its start: the time that it spends for us is not its own.
    """

    signal: str
    grace_s: float
    walltime_s: float
    signal_to: SignalTarget = SignalTarget.BATCH
    verb: Literal["checkpoint"] = "checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue(_Deed):
    """Put a running job back into the queue, once `method` allows it or `not_after_s` is reached."""

    method: Method
    not_after_s: float
    verb: Literal["requeue"] = "requeue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(_Deed):
    """End a running job that cannot be requeued, once `method` allows it or `not_after_s` is reached."""

    method: Method
    not_after_s: float
    verb: Literal["cancel"] = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink(_Deed):
    """Let a malleable job keep `keep_nodes` only (the batch host first) and run until `walltime_s` from its start."""

    keep_nodes: tuple[str, ...]
    walltime_s: float
    verb: Literal["shrink"] = "shrink"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand(_Deed):
    """Give `nodes` back to a job that was shrunk, out of the reservation that holds them (None: they are free)."""

    nodes: tuple[str, ...]
    reservation: str | None
    verb: Literal["expand"] = "expand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve(_Deed):
    """Keep exactly `nodes` for `job_id` under the name `reservation`, for `duration_s` at the most, and bind the job.

    Without nodes it is a promise of nodes to come: its operation is opened, and nothing is issued.
    """

    reservation: str
    nodes: tuple[str, ...]
    duration_s: float
    user: str | None = None
    """Whose job it will be: `job_id` is an announcement, and there is nothing to bind. None: `job_id` is a job."""
    out_of: tuple[str, ...] = ()
    """The reservations of ours for announced jobs of which `nodes` are a part, lent to `job_id` until one of these comes."""
    verb: Literal["reserve"] = "reserve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(_Deed):
    """End a reservation of ours; a pending job that is bound to it goes back to the common queue, a running one runs on."""

    reservation: str
    verb: Literal["release"] = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prioritise(_Deed):
    """Move a pending job to the front of the queue and let it start at once, or to its place in a planned order."""

    place: int | None = None
    """Between 1 and `PLACES`: its place in the planned order, which follows the front. None: to the front."""
    verb: Literal["prioritise"] = "prioritise"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePriority(_Deed):
    """Let a running job that was moved to the front have the priority that the cluster itself gives it."""

    verb: Literal["restore_priority"] = "restore_priority"


Action = Checkpoint | Requeue | Cancel | Shrink | Expand | Reserve | Release | Prioritise | RestorePriority
"""Everything that can be done to a cluster."""


class Progress(StrEnum):
    """How far a task is. ISSUING is the state of doubt: written down, and no answer written down after it."""

    PLANNED = "planned"
    ISSUING = "issuing"
    ACCEPTED = "accepted"  # the cluster said yes; not yet seen
    DONE = "done"  # a snapshot shows it
    REFUSED = "refused"  # the cluster or the arbiter said no
    GONE = "gone"  # its job ended first
    DROPPED = "dropped"  # no longer needed, never issued


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One action of an operation, and how far it is."""

    action: Action
    progress: Progress = Progress.PLANNED
    issued_s: float | None = None
    """When it was last issued. None: never."""
    ended_s: float | None = None
    """When it was seen done, or given up. None: it is under way."""
    requeue_count: int = 0
    """The job's requeue count when the task was planned: which run of the job is meant."""
    nodes: tuple[str, ...] = ()
    """The nodes of the action's job when the task was planned."""
    planned_s: float | None = None
    """When it was planned. None: with its operation."""
    detail: str = ""
    forgotten: bool = False
    """The cluster accepted it, then took the job for ended: a controller that crashed had not yet saved it."""


class Phase(StrEnum):
    """Where an operation is."""

    MAKING_ROOM = "making_room"
    LENT = "lent"  # the urgent job runs
    RETURNING = "returning"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Everything that is done for one urgent job, from the hold to the return of the nodes."""

    operation_id: str
    for_job_id: str
    policy: str
    reservation: str
    nodes: tuple[str, ...]
    """The nodes held for the urgent job."""
    opened_s: float
    deadline_s: float
    """The start is on time until then."""
    give_up_s: float
    """If the urgent job has not started by then, the nodes go back."""
    phase: Phase = Phase.MAKING_ROOM
    tasks: tuple[Task, ...] = ()
    started_s: float | None = None
    """When the urgent job started. None: not yet."""
    ended_s: float | None = None
    """When the urgent job was seen to be over, or was given up. None: not yet."""
    observe: bool = False
    """Opened in observe mode: its actions are recorded and never issued."""
    notice: Notice | None = None
    """The announcement that it was opened for: until the job arrives, that is what `for_job_id` names. None: none."""
    outcome: str = ""
    """One sentence, once closed."""

    @property
    def first_hold(self) -> Reserve | None:
        """The action that made its first hold. None: it has none."""
        for task in self.tasks:
            if isinstance(task.action, Reserve):
                return task.action
        return None

    @property
    def reason(self) -> Reason | None:
        """Why its first hold was made. None: it has none."""
        hold = self.first_hold
        return None if hold is None else hold.reason

    @property
    def out_of(self) -> tuple[str, ...]:
        """The reservations for announced jobs out of which its job was lent idle nodes. Empty: it was lent none."""
        hold = self.first_hold
        return () if hold is None else hold.out_of

    @property
    def speculative(self) -> bool:
        """Whether its job starts before its turn: it is lent nodes that it may have to leave for the queue's first job."""
        return self.reason is Reason.SPECULATIVE

    @property
    def keeps_hold(self) -> bool:
        """Whether its hold lasts as long as its job runs; else it ends when the job has started."""
        return self.reason not in (Reason.SPECULATIVE, Reason.HEAD_DUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Nodes that a lender has given up for a borrower. It ends with the lender resumed or grown back."""

    lender_job_id: str
    borrower_job_id: str
    nodes: tuple[str, ...]
    since_s: float
    method: Method


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """One eviction of the past, for the limits."""

    job_id: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The order in which the jobs of one planning horizon are to start."""

    made_s: float
    """The instant of the snapshot that it was made from."""
    order: tuple[str, ...]
    """The jobs, the first to start first."""
    starts_s: tuple[float, ...]
    """When each is to start, in the same order; sooner if others end sooner."""
    value: float
    """What the plan is worth under the policy's objective: the less, the better."""
    easy_value: float
    """What the plan of the scheduler below would be worth."""
    bound: float
    """No plan is worth less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the site forbids, whatever the policy. None: no such limit."""

    min_runtime_s: float = 0.0
    """A run is not evicted before it has lasted this long."""
    evictions_per_hour: int | None = None
    evictions_per_job: int | None = None
    """How often one job may be evicted, its requeues by others included."""
    max_nodes: int | None = None
    """How many nodes may be held for urgent jobs, and lent to jobs that start before their turn, at once."""
    protected_users: frozenset[str] = frozenset()
    protected_accounts: frozenset[str] = frozenset()
    protected_qos: frozenset[str] = frozenset()
    protected_partitions: frozenset[str] = frozenset()
    breaker_failures: int | None = 5
    """After so many failed commands within `breaker_window_s` nothing more is taken from anybody, only given back."""
    breaker_window_s: float = 3600.0


_Question = ParamSpec("_Question")
_Answer = TypeVar("_Answer")


def kept(derive: Callable[_Question, _Answer]) -> Callable[_Question, _Answer]:
    """Remember the last answer of a pure function of frozen values; those given by name are not remembered.

    A snapshot shares with the one before what has not changed, and one decision asks the same many times. Questions
    are compared by identity, which is quick, and sound because nobody can change what is frozen.
    """
    last: tuple[tuple[object, ...], _Answer] | None = None

    def derived(*question: _Question.args, **named: _Question.kwargs) -> _Answer:
        nonlocal last
        if named:
            return derive(*question, **named)
        known = last
        if known is None or not all(mine is theirs for mine, theirs in zip(known[0], question, strict=True)):
            last = known = (question, derive(*question, **named))
        return known[1]

    return derived


@kept
def _up(nodes: tuple[Node, ...]) -> Mapping[str, int]:
    return MappingProxyType(
        {node.name: place for place, node in enumerate(nodes) if node.state is NodeState.UP}
    )


@kept
def _by_id(jobs: tuple[Job, ...]) -> Mapping[str, Job]:
    return MappingProxyType({job.job_id: job for job in jobs})


@kept
def _held(jobs: tuple[Job, ...]) -> frozenset[str]:
    return frozenset().union(*[job.nodes for job in jobs if job.nodes])


@kept
def _shared(jobs: tuple[Job, ...]) -> frozenset[str]:
    holds = [job.nodes for job in jobs if job.nodes]
    if sum(map(len, holds)) == len(_held(jobs)):
        return frozenset()
    return frozenset(name for name, count in Counter(names(holds)).items() if count > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One whole view of the cluster and of what we have under way on it.

    An adapter fills the first six fields; the daemon adds the rest from the journal and the configuration.
    `jobs` is sorted by nothing in particular: whoever depends on an order sorts, with the job id last.
    """

    now_s: float
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    reservations: tuple[Reservation, ...] = ()
    can_expand: bool = False
    """Whether a shrunk job can be grown back here."""
    placements: tuple[Placement, ...] = ()
    """The sets of nodes that may serve a job as a whole. Empty: any nodes may."""
    notices: tuple[Notice, ...] = ()
    operations: tuple[Operation, ...] = ()
    """The operations that are not closed, oldest first."""
    leases: tuple[Lease, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    """Evictions of ours that the limits still count, oldest first."""
    failures_s: tuple[float, ...] = ()
    """When commands of ours failed, as far as the circuit breaker still counts them, oldest first."""
    limits: Limits = Limits()
    usual_shares: Mapping[str, float] = field(default_factory=dict)
    """Which share of their time limits the finished runs of a user usually took, by user. Absent: too few are known."""
    plan: Plan | None = None
    """The last plan that is finished. None: there is none, or the policy does not plan."""

    def speculative_jobs(self) -> dict[str, Operation]:
        """The running jobs that we have started before their turn, by id, each with its operation."""
        return {
            operation.for_job_id: operation
            for operation in self.operations
            if operation.phase is Phase.LENT and operation.speculative
        }

    def jobs_by_id(self) -> Mapping[str, Job]:
        """Every job under its id."""
        return _by_id(self.jobs)

    def holders(self) -> tuple[Job, ...]:
        """The jobs that hold nodes."""
        return tuple(job for job in self.jobs if job.nodes)

    def held_nodes(self) -> frozenset[str]:
        """Names of the nodes that jobs hold."""
        return _held(self.jobs)

    def shared_nodes(self) -> frozenset[str]:
        """Names of the nodes that more than one job holds."""
        return _shared(self.jobs)

    def free_nodes(self, eligible: frozenset[str] | None = None) -> tuple[str, ...]:
        """Names, in the cluster's order, of nodes that are up, held by no job and in no reservation that is active.

        `eligible` restricts the answer; None: every node.
        """
        reserved = [
            reservation.nodes
            for reservation in self.reservations
            if reservation.start_s <= self.now_s < reservation.end_s
        ]
        taken = _held(self.jobs).union(*reserved)
        free = filterfalse(taken.__contains__, self.up_nodes())
        return tuple(free if eligible is None else filter(eligible.__contains__, free))

    def up_nodes(self) -> Mapping[str, int]:
        """Names of the nodes that are up, in the cluster's order, each with its place in it."""
        return _up(self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One choice that a policy looked at for one job (or for jobs that share nodes), with its price."""

    job_ids: tuple[str, ...]
    method: Method | None
    """None: leave it alone."""
    node_count: int
    loss_node_s: int
    """Node-seconds of work that would be lost."""
    delay_s: float
    """How long the nodes would take to come free."""
    chosen: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rationale:
    """Why a policy did, or did not do, something for one urgent job."""

    for_job_id: str
    node_count: int
    free_node_count: int
    deadline_s: float
    summary: str
    candidates: tuple[Candidate, ...] = ()
    loss_node_s: int = 0
    ready_s: float | None = None
    """When the nodes are expected to be free. None: not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a policy wants done, and why. The actions for one urgent job stand together, the hold first."""

    policy: str
    actions: tuple[Action, ...] = ()
    rationale: tuple[Rationale, ...] = ()
    again_s: float | None = None
    """When time alone may change the answer. None: only a change of the cluster does."""


def names(groups: Iterable[tuple[str, ...]]) -> list[str]:
    """All names of all groups, one after another."""
    return [name for group in groups for name in group]
