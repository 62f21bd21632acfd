"""What open operations and earlier proposals of the same decision have promised or set in motion."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace

from makeway.policies.common.departures import (
    LEAVING,
    NO_BACKLOG,
    Backlog,
    NodeRelease,
    PendingCheckpoint,
    backlog,
    committed,
    node_release_of,
    node_releases,
    pending_checkpoints,
    pending_of,
    releasing_nodes,
)
from makeway.policies.common.losses import cost_node_s, evictions_node_s
from makeway.policies.common.shared_nodes import (
    Leftover,
    free_set_for,
    leftovers_of,
    less_room,
    open_leftovers,
    room_times_s,
)
from makeway.policies.common.urgent_jobs import UrgentJob, unavailable_nodes
from makeway.policies.model import (
    Action,
    Cluster,
    Job,
    Method,
    NodeSet,
    NodeSets,
    OperationKind,
    Phase,
    Postponement,
    Rationale,
    Reserve,
    Resources,
    Shrink,
    memoise_last,
)
from makeway.policies.safety.prices import killed_node_s

SHRINK_S = 30.0
"""For how many seconds an urgent job waits for a job that shrinks for another one."""


Coming = tuple[tuple[float, int], ...]
"""When nodes come free, and which."""


@dataclass(slots=True)
class Commitments:
    """What is promised or under way, by open operations and by earlier proposals of the same decision."""

    cluster: Cluster
    excluded: frozenset[str] = field(init=False)
    """Jobs that another decision concerns already: they may not be evicted."""
    releases: dict[str, NodeRelease] = field(init=False)
    """The jobs that are leaving their nodes, by job id."""
    free: int = field(init=False)
    """The nodes that no job and no reservation holds, promised ones among them, as a set of the cluster's
    `node_sets`."""
    pending: dict[str, PendingCheckpoint] = field(init=False)
    """The checkpoints that jobs are to write before they leave, by job id."""
    leftovers: dict[str, Leftover] = field(init=False)
    """What other urgent jobs leave of the shared nodes held for them, and no proposal has promised yet, by
    node."""
    shrinking: dict[str, tuple[str, ...]] = field(init=False)
    """The jobs that shrink for other urgent jobs, each with the nodes that it keeps."""
    nodes: int = 0
    """The nodes that earlier proposals of this decision promise, likewise."""
    killed_node_s: dict[str, float] = field(default_factory=dict[str, float])
    """Node-seconds of work that the evictions of earlier proposals lose, by urgent job."""
    postponed_node_s: dict[str, float] = field(default_factory=dict[str, float])
    """The same of the evictions that earlier proposals postpone, at their last moments."""
    evictions_node_s: dict[str, float] = field(default_factory=dict[str, float])
    """What all of these evictions cost, with repeated setups and requested checkpoints, by urgent job."""
    _releasing: dict[Resources | None, dict[str, float]] = field(
        default_factory=dict[Resources | None, dict[str, float]]
    )
    _coming: dict[Resources | None, Coming] = field(default_factory=dict[Resources | None, Coming])
    _planned: tuple[tuple[int, float], ...] = ()
    _unusable: NodeSet | None = None

    def __post_init__(self) -> None:
        self.excluded, releases, self.free = _under_way(self.cluster)
        self.releases = dict(releases)
        self.pending = dict(pending_checkpoints(self.cluster))
        self.leftovers = dict(open_leftovers(self.cluster))
        self.shrinking = dict(_shrinking(self.cluster))

    def branch(self) -> "Commitments":
        """A copy, to which proposals can be added that may come to nothing."""
        other = copy(self)
        other.releases, other.pending = dict(self.releases), dict(self.pending)
        other.leftovers, other.shrinking = dict(self.leftovers), dict(self.shrinking)
        other.killed_node_s, other._releasing = dict(self.killed_node_s), dict(self._releasing)
        other._coming = dict(self._coming)
        other.postponed_node_s = dict(self.postponed_node_s)
        other.evictions_node_s = dict(self.evictions_node_s)
        return other

    def add(self, actions: tuple[Action, ...], why: Rationale | None = None) -> None:
        """Record the actions of a proposal. `why`: its rationale, for what it postpones. None: nothing."""
        if killed := killed_node_s(actions, self.cluster):
            for_job_id = actions[0].for_job_id
            self.killed_node_s[for_job_id] = self.killed_node_s.get(for_job_id, 0.0) + killed
        if cost := evictions_node_s(actions, self.cluster):
            self._count_cost(actions[0].for_job_id, cost)
        if why is not None and why.postponed is not None:
            self.postponed_node_s[why.for_job_id] = why.postponed.loss_node_s
            self._count_cost(why.for_job_id, _cost_node_s(why.postponed, self.cluster))
        self.pending.update(pending_of(actions, self.cluster))
        for action in actions:
            release = node_release_of(action, self.cluster.now_s)
            if isinstance(action, Reserve):
                self.promise(action.nodes)
            else:
                self.excluded |= {action.job_id}
            if isinstance(action, Shrink):
                self.shrinking[action.job_id] = action.keep_nodes
            if release is not None:
                self.releases[action.job_id] = release
                self._releasing.clear()
                self._coming.clear()
        if why is not None and why.ready_s is not None:
            self._add_leftovers(actions, why, why.ready_s)

    def _add_leftovers(self, actions: tuple[Action, ...], why: Rationale, ready_s: float) -> None:
        """Record what the urgent job of a proposal leaves of its nodes."""
        job = self.cluster.jobs_by_id().get(why.for_job_id)
        if job is None or job.demand is None or job.het_job_id:
            return
        kept = self.cluster.operations_by_job().get(job.job_id)
        holds = [action.nodes for action in actions if isinstance(action, Reserve)]
        if not holds and kept is not None and kept.kind is OperationKind.MAKE_WAY_SHARED:
            holds = [kept.nodes]
        late = () if why.postponed is None else why.postponed.departures
        leaving = {one.job_id: NodeRelease(by_s=ready_s) for one in late if one.method is not Method.SHRINK}
        before = {name: one for name, one in self.leftovers.items() if one.for_job_id != job.job_id}
        for nodes in holds:
            found = leftovers_of(self.cluster, nodes, job, {**self.releases, **leaving}, ready_s)
            self.leftovers = {**before, **found}

    def take_leftovers(
        self, urgent: UrgentJob, count: int, *, until_s: float, deadline_s: float, handover_s: float
    ) -> dict[str, float]:
        """As many nodes as are missing on which other urgent jobs leave room for this one in time, each with
        the instant until which it is waited for. They are promised. Empty: there are too few.

        Room that is free comes first, then what is there soonest.

        Args:
            urgent: a job that needs a part of its nodes, for which nothing is held.
            count: how many nodes are missing.
            until_s: when it ends at the latest.
            deadline_s: the latest instant at which its start is on time.
            handover_s: see `decide_each`. 0: it does not wait for what others leave.
        """
        cluster, demand = self.cluster, urgent.job.demand
        if demand is None or urgent.operation is not None or urgent.job.het_job_id or not handover_s:
            return {}
        reserved = frozenset[str]().union(
            *(one.nodes for one in cluster.reservations if not one.by_makeway and one.start_s < until_s)
        )
        eligible = urgent.job.eligible_nodes
        awaited_s, rest = dict[str, float](), dict[str, Leftover]()
        for name, one in self.leftovers.items():
            wait_s = one.awaited_until_s(cluster.now_s, deadline_s, handover_s)
            if wait_s is None or name in reserved or (eligible is not None and name not in eligible):
                continue
            left = less_room(one, demand)
            if left is not None:
                awaited_s[name], rest[name] = wait_s, left
        chosen = sorted(rest, key=lambda name: (not rest[name].is_free, rest[name].ready_s))[:count]
        if len(chosen) < count:
            return {}
        self.leftovers.update({name: rest[name] for name in chosen})
        return {name: awaited_s[name] for name in chosen}

    def shrinks_first(self, urgent: UrgentJob) -> str:
        """A job that shrinks for another urgent job and keeps nodes that could serve this one. It may be
        asked again once it has shrunk. Empty: there is none.
        """
        eligible = urgent.job.eligible_nodes
        return next(
            (
                job_id
                for job_id, nodes in self.shrinking.items()
                if eligible is None or not eligible.isdisjoint(nodes)
            ),
            "",
        )

    def _count_cost(self, for_job_id: str, cost_node_s: float) -> None:
        self.evictions_node_s[for_job_id] = self.evictions_node_s.get(for_job_id, 0.0) + cost_node_s

    def spent_node_s(self) -> dict[str, float]:
        """Node-seconds of work that earlier proposals lose, now or at their last moments, by urgent job."""
        spent = dict(self.killed_node_s)
        for job_id, lost_node_s in self.postponed_node_s.items():
            spent[job_id] = spent.get(job_id, 0.0) + lost_node_s
        return spent

    def backlog(self, suitable: int) -> Backlog:
        """What the file system has still to write for jobs that leave, without what is a part of the plan for
        an urgent job: the checkpoints that are under way of jobs which may leave for it.

        `suitable`: the nodes that may serve it, as a set of the cluster's `node_sets`.
        """
        if not self.pending:
            return NO_BACKLOG
        jobs, sets = self.cluster.jobs_by_id(), self.cluster.node_sets()
        own = {
            job_id
            for job_id in self.pending
            if job_id not in self.excluded
            and (job := jobs.get(job_id)) is not None
            and job.saving_since_s is not None
            and sets.of(job.nodes) & suitable
        }
        others = [one for job_id, one in self.pending.items() if job_id not in own]
        return backlog(others, self.cluster.now_s) if others else NO_BACKLOG

    def promise(self, nodes: Collection[str]) -> None:
        """Record nodes as promised."""
        self.nodes |= self.cluster.node_sets().of_any(nodes)
        self._unusable = None

    def plan(self, nodes: Collection[str], from_s: float) -> None:
        """Record nodes that an urgent job needs from an instant on. Others may have them whose time limits
        end before that.
        """
        if nodes:
            self._planned += ((self.cluster.node_sets().of_any(nodes), from_s),)
            self._unusable = None

    def free_for(self, demand: Resources | None) -> int:
        """The nodes, promised ones among them, that have room for the demand. None: that are wholly free."""
        if demand is None:
            return self.free
        return free_set_for(self.cluster, demand)

    def releasing(self, demand: Resources | None = None) -> dict[str, float]:
        """The nodes that jobs are leaving, in the cluster's order, each with the instant when it is free.

        `demand`: when it has room for this. None: when the whole node is free.
        """
        found = self._releasing.get(demand)
        if found is None:
            up = self.cluster.up_nodes()
            ready_s = (
                releasing_nodes(self.cluster, self.releases)
                if demand is None
                else room_times_s(self.cluster, self._leaving(), demand)
            )
            order = sorted(ready_s.keys() & up.keys(), key=up.__getitem__)
            self._releasing[demand] = found = {name: ready_s[name] for name in order}
        return found

    def coming_free(self, demand: Resources | None = None) -> Coming:
        """The same nodes by the instants when they are free, the earliest first: each with the nodes, as a
        set of the cluster's `node_sets`.
        """
        found = self._coming.get(demand)
        if found is None:
            sets, by_s = self.cluster.node_sets(), dict[float, int]()
            if demand is None and not self.cluster.shared_nodes():
                jobs = self.cluster.jobs_by_id()
                for job_id, release in self.releases.items():
                    job = jobs.get(job_id)
                    if job is None:
                        continue
                    nodes = sets.of(job.nodes) & ~sets.of(release.kept_nodes) & sets.up
                    by_s[release.by_s] = by_s.get(release.by_s, 0) | nodes
            else:
                for name, at_s in self.releasing(demand).items():
                    by_s[at_s] = by_s.get(at_s, 0) | sets.of_new((name,))
            self._coming[demand] = found = tuple(
                sorted((at_s, nodes) for at_s, nodes in by_s.items() if nodes)
            )
        return found

    def _leaving(self) -> Iterator[tuple[Job, NodeRelease]]:
        """The jobs that are leaving their nodes, each with its release."""
        for job in self.cluster.jobs:
            release = self.releases.get(job.job_id)
            if release is not None:
                yield job, release

    def unusable(self, urgent: UrgentJob, until_s: float) -> NodeSet:
        """The nodes that may not be promised to the urgent job; see `unavailable_nodes`.

        The answer is the same for all urgent jobs without an operation unless the site has reservations of
        its own, or nodes are planned for later than its time limit ends; it is then computed once.
        """
        alike = urgent.operation is None and all(held.by_makeway for held in self.cluster.reservations)
        alike = alike and not self._planned
        if alike and self._unusable is not None:
            return self._unusable
        found = unavailable_nodes(self.cluster, urgent, until_s=until_s)
        if self.nodes:
            found = NodeSet(found.sets, found.bits | self.nodes)
        for nodes, from_s in self._planned:
            if self.cluster.now_s + urgent.job.walltime_s > from_s:
                found = NodeSet(found.sets, found.bits | nodes)
        if alike:
            self._unusable = found
        return found


def soonest(sets: NodeSets, coming: Coming, suitable: int, by_s: float, wanted: int) -> tuple[str, ...]:
    """So many of the suitable nodes, or fewer, that come free by an instant: the soonest first."""
    found, joined = tuple[str, ...](), 0
    for at_s, nodes in coming:
        if at_s > by_s or len(found) >= wanted:
            break
        names = sets.names(nodes & suitable)
        if len(found) + len(names) > wanted:
            names = names[: wanted - len(found)]
        joined |= sets.of(names)
        found = found + names if found else names
    sets.keep(found, joined)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingJobs:
    """The urgent jobs of one decision that need parts of nodes."""

    counts: Mapping[tuple[float, Resources], int]
    """How many there are of each deadline and demand."""

    @classmethod
    def of(cls, urgents: Collection[UrgentJob], start_within_s: float) -> "SharingJobs":
        """Those of the urgent jobs that need parts of nodes. `start_within_s`: see `decide_each`."""
        parts = ((one.deadline_s(start_within_s), one.job.demand) for one in urgents)
        return cls(counts=Counter((at_s, demand) for at_s, demand in parts if demand is not None))

    def sooner_s(self, demand: Resources | None, own_s: float, handover_s: float) -> dict[Resources, float]:
        """The demands of those with hardly a later deadline than one of them, each with how much sooner than
        for its own start there has to be room for that one, so that they can wait for what it leaves.

        Args:
            demand: what the job needs on each of its nodes. None: whole nodes, of which nothing is left.
            own_s: its deadline.
            handover_s: see `decide_each`.
        """
        found: dict[Resources, float] = {}
        for (at_s, other), count in self.counts.items() if demand is not None else ():
            is_other = count > 1 or (at_s, other) != (own_s, demand)
            if own_s <= at_s < own_s + handover_s and is_other:
                found[other] = max(found.get(other, 0.0), own_s + handover_s - at_s)
        return found


NO_SHARING_JOBS = SharingJobs(counts={})


@memoise_last
def _shrinking(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """The jobs that open operations have asked to shrink just now, each with the nodes that it keeps."""
    since_s = cluster.now_s - SHRINK_S
    return {
        task.action.job_id: task.action.keep_nodes
        for operation in cluster.operations
        if not operation.observe and operation.phase is not Phase.CLOSED
        for task in operation.tasks
        if isinstance(task.action, Shrink) and task.progress in LEAVING
        if task.issued_s is None or task.issued_s >= since_s
    }


def _cost_node_s(postponed: Postponement, cluster: Cluster) -> int:
    """What postponed evictions cost. A kill loses what is recorded and repeats the setup: at most the run."""
    jobs, cost, at_s = cluster.jobs_by_id(), 0, postponed.until_s
    for departure in postponed.departures:
        job = jobs[departure.job_id]
        if departure.method is Method.KILL:
            run = replace(job, last_checkpoint_s=None, usual_unsaved_s=None)
            setup_node_s = cost_node_s(job, Method.APPLICATION, at_s)
            cost += min(departure.loss_node_s + setup_node_s, cost_node_s(run, Method.KILL, at_s))
        else:
            cost += cost_node_s(job, departure.method, at_s)
    return cost


@memoise_last
def _under_way(cluster: Cluster) -> tuple[frozenset[str], Mapping[str, NodeRelease], int]:
    """The committed jobs, the jobs that are leaving, and the free nodes."""
    return committed(cluster), node_releases(cluster), cluster.free_set()
