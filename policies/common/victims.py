"""The running jobs that may be evicted for an urgent job, what that would cost, and how enough of them are
taken.

The unit is a victim group: one running job, or several that share nodes, because a node is free only when
every job on it has left. A node of a job that may not be evicted is no use: jobs that share nothing else with
that job are groups of their own.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the items among which is chosen.

Differs from the paper:
    Jobs that share nodes are one item.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from makeway.policies.common.departures import NodeRelease, node_releases
from makeway.policies.common.losses import application_s, system_s
from makeway.policies.common.shared_nodes import (
    Holder,
    apart,
    connected,
    held_on,
    room_when_left,
    sorted_holders,
)
from makeway.policies.common.urgent_jobs import UrgentJob
from makeway.policies.model import Candidate, Cluster, Job, Limits, Memo, NodeSets, Reserve, Resources, names
from makeway.policies.safety.prices import loss_node_s, price_node_s, price_of
from makeway.policies.safety.protection import protection, protections

_Item = TypeVar("_Item")
COMMITTED = "committed to another operation"
"""Why a job may not be evicted that another decision concerns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimGroup:
    """Running jobs that can only leave together, sorted by id: the nodes that come free, and what the
    eviction costs.
    """

    jobs: tuple[Job, ...]
    nodes: tuple[str, ...]
    """The nodes that would serve the urgent job, in the order in which the jobs hold them."""
    loss_node_s: int
    """Node-seconds of work that a kill loses."""
    price_node_s: int
    """What a kill counts as when groups are compared: see `price_node_s` of `safety.prices`."""
    system_s: float | None
    """How long checkpoints that a signal starts take, one after another. None: some job has none."""
    application_s: float | None
    """How long until the next regular checkpoint is complete. None: there is none, or there are several jobs.
    """
    protected_by: str = ""
    """Why the group may not be evicted. Empty: it may."""
    shares_nodes: bool = False
    """Whether one of the jobs shares a node. If that node is down, the other job is not in the group."""
    job_ids: tuple[str, ...] = field(init=False, compare=False)
    """The ids of the jobs, sorted."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "job_ids", tuple(job.job_id for job in self.jobs))

    @property
    def past_evictions(self) -> int:
        """How often the jobs were evicted before."""
        return sum(job.past_evictions for job in self.jobs)


_Known = dict[tuple[str, bool], VictimGroup]
"""Groups of one job each, by the job and whether another decision concerns it."""


def victim_groups(
    cluster: Cluster,
    urgent: UrgentJob,
    *,
    unusable: AbstractSet[str],
    excluded: AbstractSet[str],
    known: _Known | None = None,
) -> tuple[VictimGroup, ...]:
    """Every group that holds a node which could serve the urgent job, sorted by job ids; see
    `VictimGroup.protected_by`.

    Args:
        cluster: the snapshot.
        urgent: the job that needs the nodes. Those that it keeps are not offered a second time.
        unusable: nodes that may not be promised.
        excluded: jobs that may not be evicted, because another decision concerns them already.
        known: groups that were found for other urgent jobs of the same decision. Where no nodes are shared,
            others are added to it.
    """
    found = _holders(cluster, urgent, unusable)
    if cluster.shared_nodes():
        stay = frozenset(job.job_id for job, _ in found if protected_by(job, cluster, excluded))
        parts = (group for part in apart(found, stay) for group in connected(part))
        groups = [_victim_group(group, cluster, excluded) for group in parts]
    else:
        known = {} if known is None else known
        groups = [_group_of_one(holder, cluster, excluded, known) for holder in found]
    return tuple(sorted(groups, key=lambda group: group.job_ids))


def _group_of_one(holder: Holder, cluster: Cluster, excluded: AbstractSet[str], known: _Known) -> VictimGroup:
    job, nodes = holder
    key = job.job_id, job.job_id in excluded
    group = known.get(key)
    if group is None or group.nodes != nodes:
        times = system_s(job), application_s(job, cluster.now_s)
        group = known[key] = _alone(job, nodes, cluster.now_s, times, protected_by(job, cluster, excluded))
    return group


def _alone(
    job: Job, nodes: tuple[str, ...], now_s: float, saved_in_s: tuple[float | None, float | None], why: str
) -> VictimGroup:
    """A group of one job; see `VictimGroup`. `saved_in_s`: P2's ts and ta. `why`: as its `protected_by`."""
    lost_node_s = loss_node_s(job, now_s)
    return VictimGroup(
        jobs=(job,),
        nodes=nodes,
        loss_node_s=lost_node_s,
        price_node_s=price_of(lost_node_s, job),
        system_s=saved_in_s[0],
        application_s=saved_in_s[1],
        protected_by=why,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """What of a snapshot says which groups there are, and who may leave. Snapshots of one decision differ in
    their waiting jobs and in the limits on lost work, and mostly not in this.
    """

    sets: NodeSets
    now_s: float
    holders: tuple[Job, ...]
    limits: Limits

    @classmethod
    def of(cls, cluster: Cluster) -> "_Machine":
        """That of a snapshot."""
        limits = replace(
            cluster.limits,
            max_loss_node_hours=None,
            max_loss_node_hours_per_user_per_day=None,
            max_loss_node_hours_per_account_per_day=None,
        )
        return cls(sets=cluster.node_sets(), now_s=cluster.now_s, holders=cluster.holders(), limits=limits)

    def __hash__(self) -> int:
        # That of all jobs would take long. To compare them does not: they are mostly the same objects.
        return hash((self.now_s, len(self.holders)))


def remembered_groups(
    cluster: Cluster,
    urgent: UrgentJob,
    *,
    unusable: AbstractSet[str],
    excluded: AbstractSet[str],
    memo: Memo,
) -> tuple[VictimGroup, ...]:
    """`victim_groups`, found once for all urgent jobs of a decision to which the same nodes and jobs are
    open. What is the same for others is not worked out again.
    """
    machine, jobs = _Machine.of(cluster), cluster.jobs_by_id()
    key = (
        "groups",
        machine,
        urgent.job.eligible_nodes,
        urgent.kept_nodes,
        machine.sets.of_any(unusable) & cluster.held_set(),
        frozenset(job_id for job_id in excluded if job_id in jobs and jobs[job_id].nodes),
    )

    def found() -> tuple[VictimGroup, ...]:
        known = memo.once(("group of each", machine), _Known)
        return victim_groups(cluster, urgent, unusable=unusable, excluded=excluded, known=known)

    return memo.once(key, found)


def _holders(cluster: Cluster, urgent: UrgentJob, unusable: AbstractSet[str]) -> list[Holder]:
    """Every job that holds nodes which would serve the urgent job."""
    sets, eligible = cluster.node_sets(), urgent.job.eligible_nodes
    suitable = ~(sets.of_any(unusable) | sets.of(urgent.kept_nodes) | sets.down)
    if eligible is not None:
        suitable &= sets.of(eligible)
    held = ((job, sets.among(job.nodes, suitable)) for job in cluster.holders())
    return [(job, nodes) for job, nodes in held if nodes]


def _victim_group(group: list[Holder], cluster: Cluster, excluded: AbstractSet[str]) -> VictimGroup:
    jobs = tuple(job for job, _ in group)
    system = [system_s(job) for job in jobs]
    return VictimGroup(
        jobs=jobs,
        nodes=group[0][1] if len(group) == 1 else tuple(dict.fromkeys(names(nodes for _, nodes in group))),
        loss_node_s=sum(loss_node_s(job, cluster.now_s) for job in jobs),
        price_node_s=sum(price_node_s(job, cluster.now_s) for job in jobs),
        system_s=None if None in system else sum(duration for duration in system if duration is not None),
        application_s=application_s(jobs[0], cluster.now_s) if len(jobs) == 1 else None,
        protected_by=_protected_by(jobs, cluster, excluded),
        shares_nodes=not all(map(cluster.shared_nodes().isdisjoint, (job.nodes for job in jobs))),
    )


def _protected_by(jobs: tuple[Job, ...], cluster: Cluster, excluded: AbstractSet[str]) -> str:
    """The first reason why one of the jobs may not be evicted. Empty: there is none."""
    for job in jobs:
        reason = protected_by(job, cluster, excluded)
        if reason:
            return reason if len(jobs) == 1 else f"job {job.job_id}: {reason}"
    return ""


def protected_by(job: Job, cluster: Cluster, excluded: AbstractSet[str]) -> str:
    """Why a job may not be evicted; empty if it may be. `excluded`: another decision concerns these jobs."""
    if job.job_id in excluded:
        return COMMITTED
    refusal = protection(job, cluster)
    return "" if refusal is None else refusal.value


def take_until(
    ranked: Iterable[_Item], node_count: int, nodes_of: Callable[[_Item], Iterable[str]]
) -> tuple[list[_Item], list[str]]:
    """The first items of a ranking that free enough nodes together, and these nodes; all of them if too few.

    Args:
        ranked: jobs, groups or the like, the first choice first.
        node_count: how many nodes are needed. 0 or less: nothing is taken.
        nodes_of: the nodes that an item frees.
    """
    chosen: list[_Item] = []
    freed: list[str] = []
    for item in ranked:
        if len(freed) >= node_count:
            break
        chosen.append(item)
        freed.extend(nodes_of(item))
    return chosen, freed


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCandidates:
    """The nodes that could serve an urgent job, and the jobs on them, each of which may leave by itself."""

    room: Mapping[str, Resources]
    """The nodes, and what of each is free once the jobs that leave anyway are gone."""
    jobs: tuple[Job, ...]
    """The jobs that do not leave anyway, sorted by id."""
    holders: tuple[Job, ...]
    """All jobs that hold nodes, sorted by id: the same value for all urgent jobs of a decision."""
    numbers: tuple[int, ...]
    """Which of `holders` the jobs are."""
    protected_by: Mapping[str, str]
    """Why a job may not be evicted, by job id; absent if it may be."""

    def groups(self, cluster: Cluster) -> tuple[VictimGroup, ...]:
        """The jobs as groups of one."""
        return tuple(
            _alone(
                job,
                tuple(filter(self.room.__contains__, job.nodes)),
                cluster.now_s,
                (system_s(job), application_s(job, cluster.now_s)),
                self.protected_by.get(job.job_id, ""),
            )
            for job in self.jobs
        )

    def able(self, cluster: Cluster, demand: Resources | None) -> frozenset[str]:
        """The nodes with room for the demand if all jobs leave that may be evicted.

        `demand` None: those that are then unused.
        """
        staying = {name for job in self.jobs if job.job_id in self.protected_by for name in job.nodes}
        if demand is None:
            return frozenset(self.room).difference(staying)
        room = dict(self.room)
        for job in self.jobs:
            if job.job_id not in self.protected_by:
                for name, held in held_on(job, cluster).items():
                    if name in room:
                        room[name] = room[name].plus(held)
        return frozenset(name for name, free in room.items() if free.covers(demand))

    def node_count(self, job: Job) -> int:
        """How many of the nodes one of the jobs is on: at least one."""
        return 1 if len(job.nodes) == 1 else sum(1 for name in job.nodes if name in self.room)

    def protected(self, known: dict[tuple[str, int, str], Candidate] | None = None) -> tuple[Candidate, ...]:
        """The jobs that may not be evicted, as candidates of the rationale.

        `known`: those that were made for other urgent jobs of the decision. Others are added. None: there
        are none.
        """
        known, found = {} if known is None else known, list[Candidate]()
        for job in self.jobs:
            why = self.protected_by.get(job.job_id)
            if why is None:
                continue
            key = job.job_id, self.node_count(job), why
            one = known.get(key)
            if one is None:
                one = known[key] = Candidate(
                    job_ids=(job.job_id,),
                    method=None,
                    node_count=key[1],
                    loss_node_s=0,
                    delay_s=0.0,
                    note=why,
                )
            found.append(one)
        return tuple(found)


def shared_candidates(
    cluster: Cluster,
    urgent: UrgentJob,
    *,
    unusable: AbstractSet[str],
    excluded: AbstractSet[str],
    latest_s: float,
    ending: Mapping[str, NodeRelease] = MappingProxyType({}),
) -> SharedCandidates:
    """The jobs that may be evicted one by one, for an urgent job whose nodes other jobs may share.

    Args:
        cluster: the snapshot.
        urgent: the job that needs the nodes. Those that it keeps are not offered a second time.
        unusable: nodes that may not be promised.
        excluded: jobs that may not be evicted, because another decision concerns them already.
        latest_s: when there must be room. What leaves anyway by then counts as free.
        ending: further jobs that are gone by then, by id.
    """
    sets, eligible = cluster.node_sets(), urgent.job.eligible_nodes
    suitable = sets.up & ~(sets.of_any(unusable) | sets.of(urgent.kept_nodes))
    wanted = sets.names(suitable if eligible is None else suitable & sets.of(eligible))
    releases = {
        job_id: release
        for job_id, release in node_releases(cluster).items()
        if release.by_s <= latest_s and not release.kept_nodes
    } | dict(ending)
    room = room_when_left(cluster, releases)
    there = frozenset(wanted)
    holders = sorted_holders(cluster.jobs)
    numbers = tuple(
        [
            number
            for number, job in enumerate(holders)
            if job.job_id not in releases and not there.isdisjoint(job.nodes)
        ]
    )
    staying = tuple([holders[number] for number in numbers])
    here = {job.job_id for job in staying}
    reasons = {job_id: reason for job_id, reason in protections(cluster).items() if job_id in here}
    return SharedCandidates(
        room={name: room[name] for name in wanted},
        jobs=staying,
        holders=holders,
        numbers=numbers,
        protected_by={**reasons, **dict.fromkeys(here & excluded, COMMITTED)},
    )


def leavers(group: VictimGroup, held: Reserve) -> tuple[Job, ...]:
    """The jobs of a group that use a node of the hold: the others need not leave."""
    nodes = frozenset(held.nodes)
    return tuple(job for job in group.jobs if not nodes.isdisjoint(job.nodes))


def stays(group: VictimGroup) -> Candidate:
    """A group that may not be evicted, as a candidate of the rationale."""
    return Candidate(
        job_ids=group.job_ids,
        method=None,
        node_count=len(group.nodes),
        loss_node_s=0,
        delay_s=0.0,
        note=group.protected_by,
    )
