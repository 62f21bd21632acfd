"""What a cluster consists of: jobs, nodes, placements, reservations and notices. Imported through `model`."""

from dataclasses import dataclass
from enum import StrEnum

from makeway.policies.model.resources import Resources
from makeway.policies.model.sizes import PastSize
from makeway.policies.model.taken import TakenFromJob

RESERVATION_PREFIX = "mw_"
"""The names of makeway's reservations begin with this where the adapter gives no other prefix."""


def reservation_name(for_job_id: str, prefix: str = RESERVATION_PREFIX) -> str:
    """The name of the reservation that holds nodes for an urgent job; see `Cluster.hold_name`."""
    return prefix + for_job_id


class JobKind(StrEnum):
    """Rigid: a fixed number of nodes. Malleable: may be shrunk. On demand: an urgent job."""

    RIGID = "rigid"
    MALLEABLE = "malleable"
    ON_DEMAND = "on_demand"


class JobState(StrEnum):
    """The state of a job. COMPLETING and SUSPENDED jobs hold their nodes; neither may be acted upon."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETING = "completing"
    SUSPENDED = "suspended"


class NodeState(StrEnum):
    """Whether a node may be given to a job. Which jobs use it is in `Job.nodes`."""

    UP = "up"
    DRAINED = "drained"
    DOWN = "down"
    SILENT = "silent"  # the controller waits for its answer: it comes back soon, or is down


class Acknowledgement(StrEnum):
    """How a job reports that a requested checkpoint is complete."""

    COMMENT = "comment"  # it writes the time of the checkpoint into its own comment field
    REQUEUE = "requeue"  # it requeues itself
    EXIT = "exit"  # it ends
    NONE = "none"  # it does not report it: makeway waits until the grace period is over


class SignalTarget(StrEnum):
    """Which processes of a job get the signal that requests a checkpoint."""

    BATCH = "batch"  # only the shell of its batch script, not its children
    STEPS = "steps"  # the processes of its steps, on all its nodes
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """What is known about a job's checkpoints. None means that the job has no such checkpoint."""

    interval_s: float | None = None
    """Time between two regular application checkpoints."""
    application_s: float | None = None
    """Duration of one application checkpoint, without the wait for it."""
    system_s: float | None = None
    """Duration of a checkpoint that a signal starts at once."""
    measured_count: int = 0
    """The number of measured checkpoints from which `system_s` is derived. 0: it is declared."""
    signal: str = "USR1"
    """The signal that asks the job to save its work."""
    signal_to: SignalTarget = SignalTarget.BATCH
    """Which of its processes get the signal: the shell of the batch script, the processes of its steps, or
    both."""
    grace_s: float = 300.0
    """How long makeway waits at least for the acknowledgement after the signal; never less than `system_s`.
    Policies "eviction" and "least-price" wait as long as the urgent job's deadline allows if the job
    acknowledges at all."""
    acknowledgement: Acknowledgement = Acknowledgement.COMMENT
    """How the job says that its work is saved: by `makeway:ckpt=TIME` in its comment, by requeueing itself,
    by its exit, or not at all. In the last case makeway waits for the whole grace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One compute node."""

    name: str
    state: NodeState = NodeState.UP
    capacity: Resources | None = None
    """What jobs may use of it. None: the cluster gives whole nodes only."""
    wake_s: float = 0.0
    """How long it takes at most until a job can run on it, because it sleeps or boots. 0: it is awake."""
    sleeps_first: bool = False
    """Whether it is on its way to sleep. If a job is on it, `wake_s` begins only when that has left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A set of nodes on which a job may run: a partition of a torus, the nodes of a leaf switch, a block.

    Two placements that share a node cannot both be used at once.
    """

    name: str
    nodes: tuple[str, ...]
    whole: bool = False
    """Whether a job gets all of its nodes, as those of a partition of a torus. False: any of them."""


ANOTHER_JOB = "another job"
"""What a job lacks that may start only after others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A limit on what several jobs may have at once, as one waiting job draws on it."""

    name: str
    """The same for all jobs under the limit."""
    needs: float
    """What the job would take of it."""
    left: float
    """What running jobs leave of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastHold:
    """A hold of makeway's that a job was bound to."""

    reservation: str
    since_s: float
    """When it was bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, pending or holding nodes. An array task is a job of its own."""

    job_id: str
    kind: JobKind
    state: JobState
    node_count: int
    """Nodes held, or requested while pending."""
    walltime_s: float
    submit_s: float
    user: str
    account: str = ""
    qos: str = ""
    """A waiting job may ask for several, separated by commas: the cluster starts it by one of them."""
    partition: str = ""
    """A waiting job may be in several, separated by commas."""
    node_count_min: int | None = None
    """Smallest size of a malleable job. None: `node_count`, it cannot shrink."""
    node_count_max: int | None = None
    """A malleable job: the size that it requested, to which it may grow. A waiting urgent job: the largest
    size that it accepts, `node_count` being the smallest. None: `node_count`."""
    nodes: tuple[str, ...] = ()
    """Nodes held, the batch host first. Empty while pending."""
    allocation: tuple[Resources, ...] | None = None
    """What a job holds on each of `nodes`, in their order. None: the whole nodes, or it holds none."""
    demand: Resources | None = None
    """What a waiting job needs on each of its nodes. None: whole nodes that no other job uses."""
    node_equivalents: float | None = None
    """How many whole nodes the allocation counts as: the sum of the job's shares of its nodes. None:
    `node_count`."""
    blocked_by: str = ""
    """What a waiting job lacks besides nodes, such as a licence or `ANOTHER_JOB`: no eviction would make it
    start. The cluster's own word for it may follow in brackets. Empty: nothing is known."""
    examined: bool = True
    """Whether the cluster has looked at the waiting job since it was last changed. False: what it lacks is
    not known yet."""
    quotas: tuple[Quota, ...] = ()
    """The limits that a waiting urgent job has to share with others, as far as they are known."""
    eligible_nodes: frozenset[str] | None = None
    """Nodes that may serve the job. None: any node."""
    start_s: float | None = None
    """When the current run began. None while pending."""
    overtime_s: float = 0.0
    """How long the cluster lets it run on after its time limit."""
    eligible_s: float | None = None
    """A pending job may not start before this. None: no such limit."""
    setup_s: float = 0.0
    """Time that every start of the job costs before it does useful work."""
    checkpoint: CheckpointSpec | None = None
    """None: the job cannot checkpoint, an eviction loses the whole run."""
    last_checkpoint_s: float | None = None
    """When the last checkpoint of the current run was complete. None: none is known."""
    checkpointing_since_s: float | None = None
    """When the job reported the start of the requested checkpoint. None: it did not report it."""
    saving_since_s: float | None = None
    """When makeway asked it to save its work for an urgent job that does not need its nodes any more, if it
    may still be doing so. The daemon sets it, and what is left of the checkpoint as its duration. None: no
    such checkpoint is under way."""
    completing_since_s: float | None = None
    """When the daemon first saw that the job is completing. The daemon sets it. None: it is not completing,
    or is seen so for the first time."""
    requeue_count: int = 0
    preemptible: bool = False
    """Whether the site allows makeway to evict or move it. The adapter sets it only for jobs that are opted
    in."""
    reservation: str | None = None
    """The reservation that the job is bound to."""
    reservation_lost: bool = False
    """Whether the cluster keeps the waiting job from starting because it has lost the job's reservation."""
    last_hold: LastHold | None = None
    """Of a job with a lost reservation: makeway's hold that it was bound to last, as the cluster keeps it.
    None: the cluster does not say."""
    eligible_since_s: float | None = None
    """Urgent jobs: when the job became eligible, if not at its submission, such as at its begin time or at
    the end of what it depends on. None: at its submission, or it is held up still."""
    start_within_s: float | None = None
    """Urgent jobs: the start is on time if it is at most this long after `waits_since_s`. None: the policy's
    default."""
    start_by_s: float | None = None
    """Urgent jobs: the cluster ends the waiting job if it has not started by then. None: it does not."""
    prioritised: bool = False
    """Whether makeway moved the job to the front of the queue, or gave it a position in a planned order."""
    queue_position: int | None = None
    """The position in the planned order that makeway gave the job: after the front of the queue, before the
    common queue, the lowest first. None: it has none."""
    notice_id: str | None = None
    """The notice that the job names as its own. None: it names none."""
    priority: float = 0.0
    """The scheduler takes the highest first, and jobs of one priority in the order of their submission."""
    saved_s: float = 0.0
    """Run time of earlier runs that is saved in a checkpoint, from which the current or next run resumes. 0:
    unknown."""
    het_job_id: str = ""
    """The heterogeneous job that it is a component of: its components start together. Empty: of none."""
    array_job_id: str = ""
    """The job array that it is a task of. Empty: of none."""
    job_class: str = ""
    """The name of the site's class that the job belongs to. Empty: none, or the cluster has no classes."""
    usual_unsaved_s: float | None = None
    """Of a job that reports no checkpoint though it should have had one: how long ago those of its class
    reported theirs, the median. The daemon sets it. None: its loss counts from its start."""
    past_evictions: int = 0
    """How often makeway evicted it, if the site lets that enter its price. The daemon sets it."""
    taken: TakenFromJob | None = None
    """What makeway has taken from it, as the cluster keeps it with the job. None: nothing."""
    past_sizes: tuple[PastSize, ...] = ()
    """The sizes that the present run had before `node_count`, the first one first. Empty: none is known."""

    @property
    def waits_for_another(self) -> bool:
        """Whether it may start only after another job."""
        return self.blocked_by.split(" (")[0] == ANOTHER_JOB

    @property
    def waits_since_s(self) -> float:
        """When its waiting began that counts: when it became eligible, or else at its submission."""
        return self.submit_s if self.eligible_since_s is None else self.eligible_since_s

    @property
    def latest_end_s(self) -> float | None:
        """When the cluster ends the current run at the latest. None while pending."""
        return None if self.start_s is None else self.start_s + self.walltime_s + self.overtime_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Nodes kept for the jobs that are bound to it."""

    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float
    owned: bool | None = None
    """Whether makeway made it, where the adapter can tell by more than its name. None: its name tells."""

    @property
    def by_makeway(self) -> bool:
        """Whether makeway made it, before or after its last restart."""
        return self.name.startswith(RESERVATION_PREFIX) if self.owned is None else self.owned


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The announcement of an on-demand job."""

    notice_id: str
    user: str
    node_count: int
    walltime_s: float
    announced_s: float
    expected_s: float
    """When the job should arrive."""
    job_id: str | None = None
    """The job, once it has arrived. None: not yet."""
    demand: Resources | None = None
    """What the announced job needs on each of its nodes. None: whole nodes."""
    account: str = ""
    """The account that its job can be charged to. Empty: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """One past eviction, as the limits count it."""

    job_id: str
    at_s: float


LEASE_MARKS = 250_000_000
"""The marks of leases are whole numbers from 0 to below this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLease:
    """A lease as the cluster keeps it: the daemon that wrote it acts, as long as it changes its mark.

    It has nothing to do with `Lease`, which is about nodes.
    """

    term: int
    """Its number, from 1. There is at most one lease of a term; the highest one counts."""
    mark: int | None
    """A random number, another one each time the lease is written. None: its daemon has given it up."""
    lasts_s: float
    """It has ended once its mark has not changed for this long."""
