"""One urgent job's request for nodes: what it can have without an eviction, and what a policy proposes for
it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from makeway.policies.common.commitments import Commitments, soonest
from makeway.policies.common.departures import NO_BACKLOG, Backlog, NodeRelease, node_release_of
from makeway.policies.common.losses import evictions_loss_node_s
from makeway.policies.common.placements import ANYWHERE, confined, fitting, least_wanted_first
from makeway.policies.common.shared_nodes import leftovers_of
from makeway.policies.common.urgent_jobs import (
    LatestStart,
    UrgentJob,
    asleep_too_late,
    keeping_until,
    latest_starts,
    wakes_after_s,
)
from makeway.policies.common.victims import SharedCandidates, shared_candidates
from makeway.policies.model import (
    Action,
    Candidate,
    Cluster,
    Method,
    NodeSet,
    OperationKind,
    Rationale,
    Reason,
    Reserve,
    Resources,
)
from makeway.policies.safety.prices import limits_losses, price_refusal
from makeway.policies.safety.protection import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request for nodes, with everything that a policy needs to know to serve it."""

    cluster: Cluster
    urgent: UrgentJob
    policy: str
    deadline_s: float
    """The latest instant at which the start is on time; `wakes_s` before that."""
    duration_s: float
    """How long a hold for it lasts at most."""
    ends_s: float
    """When the job ends at the latest: it may not have nodes that the site has reserved from before that on.
    """
    wakes_s: float = 0.0
    """How long its nodes may take to wake that sleep once other jobs have left them. 0: it gets none."""
    now_only: bool = False
    """Whether the job has to start now to end in time: no job has time to leave."""
    free: tuple[str, ...]
    """Free nodes that could serve the job, no more than it could use: of more, those that are awake, and then
    those that the fewest other urgent jobs may have. None sleeps that cannot be woken by
    `latest_start_s`."""
    releasing: tuple[str, ...]
    """Nodes that could serve it and that other jobs leave in time anyway, no more than are then missing."""
    releasing_s: float
    """When the last of `releasing`, and of the nodes that its hold keeps, is free; now, if all are."""
    unusable: NodeSet | frozenset[str]
    """Nodes that are promised or reserved, or are in `releasing`."""
    excluded: frozenset[str]
    """Jobs that another decision concerns already, and those that are spared."""
    concerned: frozenset[str] = frozenset()
    """Those that another decision concerns, among them urgent jobs."""
    leaving: Mapping[str, NodeRelease] = field(default_factory=dict[str, NodeRelease])
    """The jobs that leave for other components of the same job, and those that leave anyway, by id."""
    methods: Mapping[str, Method] = field(default_factory=dict[str, Method])
    """The only way besides a kill in which a joint choice lets a job leave, by id. Absent: any way."""
    killed_node_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """Node-seconds of work that earlier proposals of the same decision lose, by urgent job."""
    spent_node_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """The same with what they postpone, at their last moments."""
    evictions_node_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """What all of these evictions cost, with repeated setups and requested checkpoints, by urgent job."""
    backlog: Backlog = NO_BACKLOG
    """What the file system has still to write for other urgent jobs."""
    guest_nodes: tuple[str, ...] = ()
    """Nodes that the job's guests leave for it, no more than are still missing."""
    guest_actions: tuple[Action, ...] = ()
    """The actions by which the guests leave."""
    sooner_s: Mapping[Resources, float] = field(default_factory=dict[Resources, float])
    """What other urgent jobs need on each node that could wait for what this one leaves, with how much sooner
    than for its own start there has to be room for it then: see `room_sooner_s`."""
    place: str = ""
    """The placement whose nodes alone it may have. Empty: it may have any nodes."""
    places: tuple["Request", ...] = ()
    """The same request within each placement of the right size, in the cluster's order. Empty: any nodes
    serve, or those of `place`."""

    @property
    def shortage(self) -> int:
        """How many nodes other jobs have to leave."""
        return self.urgent.missing - len(self.free) - len(self.releasing) - len(self.guest_nodes)

    @property
    def latest_start_s(self) -> float:
        """The latest instant at which the start is on time."""
        return self.deadline_s + self.wakes_s

    @property
    def late(self) -> bool:
        """Whether the start can no longer be on time."""
        return self.cluster.now_s > self.deadline_s

    def reason(self, *, fits: bool) -> Reason:
        """The reason of the actions that serve it. `fits`: enough nodes are free."""
        operation = self.urgent.operation
        if self.urgent.announced:
            return Reason.ANNOUNCED
        if operation is not None and operation.kind is not OperationKind.ARRIVAL:
            return Reason.SHORTFALL
        return Reason.URGENT_FITS if fits else Reason.URGENT_ARRIVAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a policy wants done for one request, and why."""

    rationale: Rationale
    actions: tuple[Action, ...] = ()
    again_s: float | None = None
    """When another proposal may be made because time passes. None: only a change of the cluster changes it.
    """
    planned: tuple[str, ...] = ()
    """Nodes that are not held yet: they may serve urgent jobs whose time limits end before `planned_s`."""
    planned_s: float = math.inf


def request_for(
    commitments: Commitments,
    urgent: UrgentJob,
    policy: str,
    deadline_s: float,
    duration_s: float,
    *,
    ends_s: float | None = None,
    wakes_s: float = 0.0,
    unusable: NodeSet | None = None,
) -> Request:
    """What an urgent job asks for: the nodes that it can have without an eviction, and what it may not touch.

    Args:
        commitments, urgent, policy: what is promised or under way, the job, and the policy's name.
        deadline_s: the latest instant at which the start is on time.
        duration_s, ends_s, wakes_s: see `Request`. `ends_s` None: `duration_s` from now.
        unusable: the nodes that it may not have. None: those that are unavailable or promised.
    """
    cluster, sets, now_s = commitments.cluster, commitments.cluster.node_sets(), commitments.cluster.now_s
    ends_s = now_s + duration_s if ends_s is None else ends_s
    unusable = commitments.unusable(urgent, ends_s) if unusable is None else unusable
    too_late = asleep_too_late(cluster, urgent.job, deadline_s, wakes_s)
    unusable = NodeSet(sets, unusable.bits | too_late) if too_late else unusable
    suitable = _suitable(cluster, urgent, unusable)
    free = _free_for(commitments, urgent, suitable)
    short, kept = urgent.missing - len(free), urgent.kept_nodes
    coming = commitments.coming_free(urgent.job.demand) if short > 0 or kept else ()
    by_s = math.inf if now_s > deadline_s else deadline_s - wakes_s
    releasing = soonest(sets, coming, suitable, by_s, short)
    awaited = sets.of(releasing) | sets.of(kept)
    return Request(
        cluster=cluster,
        urgent=urgent,
        policy=policy,
        deadline_s=deadline_s - wakes_s,
        duration_s=duration_s,
        ends_s=ends_s,
        wakes_s=wakes_s,
        free=free,
        releasing=releasing,
        releasing_s=max((at_s for at_s, nodes in coming if nodes & awaited), default=now_s),
        unusable=unusable.union(releasing) if releasing else unusable,
        excluded=commitments.excluded,
        leaving=dict(commitments.releases) if urgent.job.het_job_id else {},
        killed_node_s=dict(commitments.killed_node_s),
        spent_node_s=commitments.spent_node_s(),
        evictions_node_s=dict(commitments.evictions_node_s),
        backlog=commitments.backlog(suitable),
    )


def requests_for(
    commitments: Commitments,
    urgent: UrgentJob,
    policy: str,
    deadline_s: float,
    *,
    start_within_s: float,
    hold_slack_s: float,
) -> tuple[Request, ...]:
    """The request of an urgent job, then those for which other jobs leave so early that nodes can wake which
    sleep first, then those for sooner starts that give it nodes which the site has reserved for later: see
    `wakes_after_s` and `latest_starts`.

    The deadline of one for a sooner start is that start. It is the job's own if the job is late in any case,
    or has to start now.

    Args:
        commitments: what is promised or under way.
        urgent: the job.
        policy: the policy's name.
        deadline_s: the latest instant at which the start is on time.
        start_within_s: within which time a job starts that is served although it is late.
        hold_slack_s: how much longer than the deadline and the walltime together a hold may last.
    """
    cluster, now_s = commitments.cluster, commitments.cluster.now_s
    late = now_s > deadline_s
    duration_s = max(0.0, deadline_s - now_s) + urgent.job.walltime_s + hold_slack_s
    first, *sooner = latest_starts(cluster, urgent.job, now_s + start_within_s if late else deadline_s)

    def request(start: LatestStart, by_s: float, wakes_s: float = 0.0) -> Request:
        kept = keeping_until(cluster, urgent, start.ends_s)
        return request_for(commitments, kept, policy, by_s, duration_s, ends_s=start.ends_s, wakes_s=wakes_s)

    wakes = wakes_after_s(cluster, urgent.job, deadline_s)
    found = [request(first, deadline_s, wakes_s) for wakes_s in (0.0, *wakes)]
    for start in sooner:
        now_only = start.at_s <= now_s
        own_s = deadline_s if late or now_only else start.at_s
        found.append(replace(request(start, start.at_s), deadline_s=own_s, now_only=now_only))
    return tuple(found)


def loss_refusal(request: Request, given: Proposal, at_s: float | None = None) -> tuple[Refusal, str] | None:
    """Why the site's limits on lost work do not allow the evictions of a proposal, with the figures. None:
    they do, or it has none. What earlier proposals of the same decision postpone counts as lost.

    `at_s`: when its evictions begin. None: now.
    """
    if not limits_losses(request.cluster.limits):
        return None
    return price_refusal(
        request.cluster,
        request.urgent.job.job_id,
        evictions_loss_node_s(given.actions, request.cluster, at_s),
        request.spent_node_s,
    )


def with_places(commitments: Commitments, request: Request) -> Request:
    """The request, with the same request within each placement of the right size.

    Any nodes serve a job that needs parts of nodes, and one that is larger than every placement.
    """
    urgent, cluster = request.urgent, commitments.cluster
    if not cluster.placements or urgent.job.demand is not None:
        return request
    places = fitting(cluster, urgent.job.node_count, urgent.job.eligible_nodes)
    if places[0].name == ANYWHERE:
        return request
    unusable = commitments.unusable(urgent, request.ends_s)
    return replace(
        request,
        places=tuple(
            replace(
                request_for(
                    commitments,
                    confined(urgent, place),
                    request.policy,
                    request.latest_start_s,
                    request.duration_s,
                    ends_s=request.ends_s,
                    wakes_s=request.wakes_s,
                    unusable=unusable,
                ),
                place=place.name,
                concerned=request.concerned,
            )
            for place in places
        ),
    )


def _suitable(cluster: Cluster, urgent: UrgentJob, unusable: NodeSet) -> int:
    """The nodes that could serve the job beyond those that it keeps."""
    sets, eligible = cluster.node_sets(), urgent.job.eligible_nodes
    suitable = ~(unusable.bits | sets.of(urgent.kept_nodes))
    return suitable if eligible is None else suitable & sets.of(eligible)


def _free_for(commitments: Commitments, urgent: UrgentJob, suitable: int) -> tuple[str, ...]:
    """The free nodes that could serve the job, no more than it could use."""
    # The site's limit counts nodes: makeway holds no more of them than the job needs.
    wanted = urgent.most_missing if commitments.cluster.limits.max_nodes is None else urgent.missing
    if wanted <= 0:
        return ()
    free = commitments.free_for(urgent.job.demand) & suitable
    asleep = free & commitments.cluster.node_sets().asleep
    awake = least_wanted_first(commitments.cluster, free & ~asleep, wanted)[:wanted]
    rest = wanted - len(awake)
    return awake + least_wanted_first(commitments.cluster, asleep, rest)[:rest] if asleep and rest else awake


def gone_by(request: Request, latest_s: float) -> dict[str, NodeRelease]:
    """Those of `Request.leaving` that have left all of their nodes by an instant."""
    return {
        job_id: release
        for job_id, release in request.leaving.items()
        if release.by_s <= latest_s and not release.kept_nodes
    }


def candidates_of(
    request: Request, latest_s: float, ending: Mapping[str, NodeRelease] = MappingProxyType({})
) -> SharedCandidates:
    """The nodes that could serve the request beyond those that it has without an eviction, and their jobs.

    `latest_s`: when there must be room. `ending`: further jobs that are gone by then, by id.
    """
    leaving = gone_by(request, latest_s)
    return shared_candidates(
        request.cluster,
        request.urgent,
        unusable=request.unusable.union(request.free, request.guest_nodes),
        excluded=request.excluded,
        latest_s=latest_s,
        ending={**leaving, **ending} if leaving else ending,
    )


def room_sooner_s(request: Request, given: Proposal) -> float:
    """How much sooner than for its own start there has to be room by a proposal, so that other urgent jobs
    can wait for what it leaves. 0: they find too little there.
    """
    releases = ((one.job_id, node_release_of(one, request.cluster.now_s)) for one in given.actions)
    leaving = {job_id: release for job_id, release in releases if release is not None}
    nodes = [name for one in given.actions if isinstance(one, Reserve) for name in one.nodes]
    if not request.sooner_s or not nodes:
        return 0.0
    left = leftovers_of(request.cluster, nodes, request.urgent.job, leaving, request.cluster.now_s).values()
    serving = (
        sooner_s
        for demand, sooner_s in request.sooner_s.items()
        if any(one.room.covers(demand) for one in left)
    )
    return max(serving, default=0.0)


def node_text(count: int, more: str = "") -> str:
    """`1 node`, `2 nodes`; with `more`, `1 more node`."""
    return f"{count} {more}node{'' if count == 1 else 's'}"


def needed(request: Request) -> str:
    """How many more nodes the urgent job needs, or that guests have to leave theirs, or that it needs a whole
    placement, in words.
    """
    if request.guest_nodes and request.shortage <= 0:
        return f"Guests have to leave {len(request.guest_nodes)} of the nodes held for it"
    if request.places or request.shortage <= 0:
        return f"A whole placement for {node_text(request.urgent.job.node_count)} is needed"
    return f"{node_text(request.shortage, 'more ')} {'is' if request.shortage == 1 else 'are'} needed"


def wanted(request: Request) -> str:
    """The room that other jobs have to make, in words."""
    demand, nodes = request.urgent.job.demand, "node" if request.shortage == 1 else "nodes"
    if demand is None:
        return f"Room on {request.shortage} more whole {nodes}"
    return f"Room for {demand.text} on {'each of ' * (request.shortage > 1)}{request.shortage} more {nodes}"


def rationale(
    request: Request,
    summary: str,
    *,
    candidates: tuple[Candidate, ...] = (),
    loss_node_s: int = 0,
    ready_s: float | None = None,
) -> Rationale:
    """The rationale of a proposal for the request. `ready_s` None: no nodes are made ready."""
    job = request.urgent.job
    return Rationale(
        for_job_id=job.job_id,
        node_count=job.node_count,
        free_node_count=len(request.free),
        deadline_s=request.latest_start_s,
        summary=summary,
        candidates=candidates,
        loss_node_s=loss_node_s,
        ready_s=None if ready_s is None else ready_s + request.wakes_s,
    )
