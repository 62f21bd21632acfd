"""One whole view of a cluster, and what is derived from it. Imported through `model`."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import filterfalse
from types import MappingProxyType
from typing import ParamSpec, TypeVar

from makeway.policies.model.actions import VERBS, Verb
from makeway.policies.model.entities import Eviction, Job, Node, NodeState, Notice, Placement, Reservation
from makeway.policies.model.operation import Lease, Operation, Phase


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


def memoise_last(derive: Callable[_Question, _Answer]) -> Callable[_Question, _Answer]:
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


@memoise_last
def _up(nodes: tuple[Node, ...]) -> Mapping[str, int]:
    return MappingProxyType(
        {node.name: place for place, node in enumerate(nodes) if node.state is NodeState.UP}
    )


@memoise_last
def _by_id(jobs: tuple[Job, ...]) -> Mapping[str, Job]:
    return MappingProxyType({job.job_id: job for job in jobs})


@memoise_last
def _held(jobs: tuple[Job, ...]) -> frozenset[str]:
    return frozenset().union(*[job.nodes for job in jobs if job.nodes])


@memoise_last
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
    actions: frozenset[Verb] = VERBS
    """The kinds of action that this cluster can do."""
    recomputes_priority: bool = False
    """Whether a waiting job whose place is taken back stands where it stood before, and not behind all others."""
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
            if operation.phase is Phase.LENT and operation.kind.starts_early
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


def names(groups: Iterable[tuple[str, ...]]) -> list[str]:
    """All names of all groups, one after another."""
    return [name for group in groups for name in group]
