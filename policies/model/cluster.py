"""A complete snapshot of a cluster, and what is derived from it. Imported through `model`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from makeway.policies.model.actions import VERBS, Verb
from makeway.policies.model.entities import (
    RESERVATION_PREFIX,
    Eviction,
    Job,
    JobKind,
    JobState,
    LeaderLease,
    Node,
    NodeState,
    Notice,
    Placement,
    Reservation,
    reservation_name,
)
from makeway.policies.model.memo import memoise_last
from makeway.policies.model.node_sets import NodeSets
from makeway.policies.model.operation import Lease, Operation, Phase
from makeway.policies.model.resources import NO_RESOURCES, Resources
from makeway.policies.model.unused import from_last_unused


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The order in which the jobs of one planning horizon are to start."""

    made_s: float
    """The instant of the snapshot that it was made from."""
    order: tuple[str, ...]
    """The jobs, the first to start first."""
    starts_s: tuple[float, ...]
    """When each is to start, in the same order; earlier if others end earlier."""
    value: float
    """The plan's value of the policy's objective; lower is better."""
    easy_value: float
    """The value that the cluster's scheduler would reach by EASY backfilling."""
    bound: float
    """A lower bound: no plan has a lower value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The site's limits, which hold for every policy. None: no such limit."""

    min_runtime_s: float = 0.0
    """A job is not evicted before its current run has lasted this long."""
    evictions_per_hour: int | None = None
    """How many jobs may be evicted within an hour."""
    evictions_per_job: int | None = None
    """How often one job may be evicted; requeues by others count."""
    max_nodes: int | None = None
    """How many nodes may at once be held for urgent jobs or lent to jobs that start before their turn."""
    protected_users: frozenset[str] = frozenset()
    """Jobs of these users are never touched."""
    protected_accounts: frozenset[str] = frozenset()
    """Jobs of these accounts are never touched."""
    protected_qos: frozenset[str] = frozenset()
    """Jobs with these QOS are never touched."""
    protected_partitions: frozenset[str] = frozenset()
    """Jobs in these partitions are never touched."""
    min_progress_s: float = 1800.0
    """A job that was requeued before is not evicted before its current run has done useful work for this
    long."""
    max_loss_node_hours: float | None = 200.0
    """Node-hours of work that evictions for one urgent job may lose."""
    max_loss_machine_share: float | None = None
    """This share of what all nodes can do in 24 hours may be lost for one urgent job, if that is more than
    `max_loss_node_hours`. None: 0.03 with that limit's default, and 0 with another one."""
    max_loss_node_hours_per_day: float | None = 1000.0
    """Node-hours of work that evictions for all urgent jobs may lose in 24 hours."""
    max_loss_machine_share_per_day: float | None = None
    """The same for all urgent jobs of 24 hours, next to `max_loss_node_hours_per_day`. None: 0.1 or 0."""
    max_loss_node_hours_per_user_per_day: float | None = None
    """Node-hours of work that evictions for the urgent jobs of one user may lose in 24 hours."""
    max_loss_node_hours_per_account_per_day: float | None = None
    """The same for the urgent jobs of one account."""
    price_past_evictions: bool = True
    """Whether the past evictions of a job raise its price, so that it is not always the same job that leaves.
    """
    breaker_failures: int | None = 5
    """After this many failed commands within `breaker_window_s`, nodes are only given back, not taken from
    jobs."""
    breaker_window_s: float = 3600.0
    """The time within which failed commands count for the circuit breaker."""


@memoise_last
def _up(nodes: tuple[Node, ...]) -> Mapping[str, int]:
    return MappingProxyType(
        {node.name: index for index, node in enumerate(nodes) if node.state is NodeState.UP}
    )


@memoise_last
def _by_id(jobs: tuple[Job, ...]) -> Mapping[str, Job]:
    return MappingProxyType({job.job_id: job for job in jobs})


@memoise_last
def _components(jobs: tuple[Job, ...]) -> Mapping[str, tuple[Job, ...]]:
    found: dict[str, list[Job]] = {}
    for job in jobs:
        if job.het_job_id:
            found.setdefault(job.het_job_id, []).append(job)
    return MappingProxyType(
        {name: tuple(sorted(parts, key=lambda job: job.job_id)) for name, parts in found.items()}
    )


@memoise_last
def _waiting_urgent(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    return tuple(job for job in jobs if job.kind is JobKind.ON_DEMAND and job.state is JobState.PENDING)


@memoise_last
def _by_job(operations: tuple[Operation, ...]) -> Mapping[str, Operation]:
    still_open = [operation for operation in operations if operation.phase is not Phase.CLOSED]
    still_open.sort(key=lambda operation: operation.kind.holds_nodes)
    return MappingProxyType({operation.for_job_id: operation for operation in still_open})


@memoise_last
def _node_sets(nodes: tuple[Node, ...]) -> NodeSets:
    return NodeSets(nodes)


@memoise_last
def _holders(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    return tuple(job for job in jobs if job.nodes)


@memoise_last
def _held(nodes: tuple[Node, ...], jobs: tuple[Job, ...]) -> int:
    return _node_sets(nodes).union(job.nodes for job in _holders(jobs))


@memoise_last
def _held_names(jobs: tuple[Job, ...]) -> frozenset[str]:
    return frozenset[str]().union(*[job.nodes for job in _holders(jobs)])


@memoise_last
def _shared(nodes: tuple[Node, ...], jobs: tuple[Job, ...]) -> frozenset[str]:
    holds = [job.nodes for job in _holders(jobs)]
    if sum(map(len, holds)) == _held(nodes, jobs).bit_count():
        return frozenset()
    return frozenset(name for name, count in Counter(names(holds)).items() if count > 1)


@memoise_last
def _capacities(nodes: tuple[Node, ...]) -> Mapping[str, Resources]:
    return MappingProxyType({node.name: node.capacity for node in nodes if node.capacity is not None})


_unused_of: Final = from_last_unused()


@memoise_last
def _unused(nodes: tuple[Node, ...], jobs: tuple[Job, ...]) -> Mapping[str, Resources]:
    return _unused_of(nodes, _holders(jobs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A complete snapshot of the cluster and of makeway's operations on it.

    An adapter fills the fields up to `leader_leases`; the daemon adds the rest from the journal and the
    configuration. `jobs` has no particular order: code that depends on an order sorts, with the job id as the
    last key.
    """

    now_s: float
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    reservations: tuple[Reservation, ...] = ()
    actions: frozenset[Verb] = VERBS
    """The kinds of action that this cluster can do."""
    recomputes_priority: bool = False
    """Whether a waiting job gets its former priority back when its queue position is removed. False: it goes
    to the end."""
    reservation_prefix: str = RESERVATION_PREFIX
    """What the names of the reservations begin with that this makeway makes."""
    placements: tuple[Placement, ...] = ()
    """The sets of nodes on which jobs may run. Empty: a job may run on any nodes."""
    leader_leases: tuple[LeaderLease, ...] = ()
    """The leases by which one of several daemons acts. They hold no nodes, and no policy needs them."""
    notices: tuple[Notice, ...] = ()
    operations: tuple[Operation, ...] = ()
    """The operations that are not closed, the oldest first."""
    leases: tuple[Lease, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    """makeway's evictions that the limits still count, the oldest first."""
    lost_node_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """By urgent job: node-seconds of work that were lost by decisions of the last day, or are expected to be.
    """
    lost_by_user: Mapping[str, float] = field(default_factory=dict[str, float])
    """The same by the user of the urgent job. What is not known of older decisions is left out."""
    lost_by_account: Mapping[str, float] = field(default_factory=dict[str, float])
    """The same by the account of the urgent job."""
    failures_s: tuple[float, ...] = ()
    """When commands of makeway failed, as far as the circuit breaker still counts them, the oldest first."""
    limits: Limits = Limits()
    usual_shares: Mapping[str, float] = field(default_factory=dict[str, float])
    """By user: the usual share of the time limit that finished runs took. A user with too few runs is absent.
    """
    plan: Plan | None = None
    """The last finished plan. None: there is none, or the policy does not plan."""

    def speculative_jobs(self) -> dict[str, Operation]:
        """The running jobs that makeway started before their turn, by id, each with its operation."""
        return {
            operation.for_job_id: operation
            for operation in self.operations
            if operation.phase is Phase.LENT and operation.kind.starts_early
        }

    def operations_by_job(self) -> Mapping[str, Operation]:
        """The open operation of each job, or of each announcement, under its id.

        A job may have several, such as one that makes way and one for its priority: the one with a hold
        counts, and of several with a hold the newest.
        """
        return _by_job(self.operations)

    def jobs_by_id(self) -> Mapping[str, Job]:
        """Every job under its id."""
        return _by_id(self.jobs)

    def components(self, job: Job) -> tuple[Job, ...]:
        """The components that start together with this one, by id, itself among them. Of a job that is no
        component: itself.
        """
        return _components(self.jobs).get(job.het_job_id, (job,))

    def waiting_urgent_jobs(self) -> tuple[Job, ...]:
        """The urgent jobs that wait for nodes, or for something else."""
        return _waiting_urgent(self.jobs)

    def hold_name(self, for_job_id: str) -> str:
        """The name of the reservation that holds nodes for a job, or for an announced one."""
        return reservation_name(for_job_id, self.reservation_prefix)

    def owns_reservation(self, name: str) -> bool:
        """Whether makeway may make, change or release a reservation of that name.

        One in the snapshot says itself whether makeway made it. Any other bears makeway's prefix, or is the
        hold of an open operation: earlier versions had another prefix.
        """
        found = next((one for one in self.reservations if one.name == name), None)
        if found is not None:
            return found.by_makeway
        named = name.startswith(self.reservation_prefix)
        return named or any(operation.reservation == name for operation in self.operations)

    def own_reservation(self, job: Job) -> str | None:
        """The reservation that a job was submitted with; several are separated by commas. None: it has none,
        or is bound to a hold of makeway's, which may hide it.
        """
        name = job.reservation
        return None if name is None or self.owns_reservation(name) else name

    def holders(self) -> tuple[Job, ...]:
        """The jobs that hold nodes."""
        return _holders(self.jobs)

    def held_nodes(self) -> frozenset[str]:
        """Names of the nodes that jobs hold."""
        return _held_names(self.jobs)

    def held_set(self) -> int:
        """The nodes that jobs hold, as a set of `node_sets`."""
        return _held(self.nodes, self.jobs)

    def node_sets(self) -> NodeSets:
        """Sets of these nodes as integers."""
        return _node_sets(self.nodes)

    def shared_nodes(self) -> frozenset[str]:
        """Names of the nodes that more than one job holds."""
        return _shared(self.nodes, self.jobs)

    def capacities(self) -> Mapping[str, Resources]:
        """What jobs may use of each node. A node that is only given as a whole is absent."""
        return _capacities(self.nodes)

    def unused(self) -> Mapping[str, Resources]:
        """What no job holds of each node, up or not. A node that is only given as a whole is absent.

        Below 0 where a job holds the whole node and is not alone on it: what one job frees is not enough.
        """
        return _unused(self.nodes, self.jobs)

    def free_set(self) -> int:
        """Nodes that are up, in no active reservation and held by no job, as a set of `node_sets`."""
        return self._unreserved() & ~self.held_set()

    def free_nodes(
        self, eligible: frozenset[str] | None = None, demand: Resources | None = None
    ) -> tuple[str, ...]:
        """Names, in the cluster's order, of nodes that are up, in no active reservation and free enough.

        Args:
            eligible: restricts the result. None: every node.
            demand: how much of the node no job may hold. None: no job may hold any of it.
        """
        there = self.node_sets().names(self.free_set() if demand is None else self._unreserved())
        free = there if eligible is None else tuple(filter(eligible.__contains__, there))
        if demand is None:
            return free
        unused = self.unused()
        return tuple(name for name in free if unused.get(name, NO_RESOURCES).covers(demand))

    def _unreserved(self) -> int:
        """Nodes that are up and in no active reservation."""
        sets = self.node_sets()
        return sets.up & ~sets.union(
            reservation.nodes
            for reservation in self.reservations
            if reservation.start_s <= self.now_s < reservation.end_s
        )

    def up_nodes(self) -> Mapping[str, int]:
        """Names of the nodes that are up, in the cluster's order, each with its index in it."""
        return _up(self.nodes)


def names(groups: Iterable[tuple[str, ...]]) -> list[str]:
    """All names of all groups, one after another."""
    return [name for group in groups for name in group]
