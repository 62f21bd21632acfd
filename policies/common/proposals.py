"""What is proposed for a request: the hold first, then the evictions; or no way at all and the front of the
queue.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B-2: an urgent job that
    cannot be given its nodes goes to the front of the queue.

Differs from the paper:
    A reservation holds the nodes before any job is evicted from them. Nodes that a victim leaves and that its
    urgent job does not need serve the next urgent job, even before the victim has left.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from makeway.policies.common.commitments import NO_SHARING_JOBS, SHRINK_S, Commitments, SharingJobs
from makeway.policies.common.components import Jointly, Together, serve_each, staying
from makeway.policies.common.departures import completing, evict_for
from makeway.policies.common.holds import is_in_vain, site_begins_s
from makeway.policies.common.requests import (
    Proposal,
    Request,
    needed,
    node_text,
    rationale,
    requests_for,
    with_places,
)
from makeway.policies.common.shared_nodes import room_comes
from makeway.policies.common.urgent_jobs import (
    Urgency,
    UrgentJob,
    blocked_rationales,
    could_start,
    urgent_jobs,
)
from makeway.policies.model import (
    Action,
    Candidate,
    Cluster,
    Decision,
    Job,
    Method,
    OperationKind,
    Prioritise,
    Reason,
    Release,
    Reserve,
    changed,
    unchosen,
)
from makeway.policies.safety.prices import killed_node_s, price_refusal

PriceT = TypeVar("PriceT", float, tuple[bool, float])


def decide_each(
    cluster: Cluster,
    policy: str,
    proposal: Callable[[Request], Proposal],
    *,
    start_within_s: float,
    hold_slack_s: float,
    evict_guests: Callable[[Request], Request] = lambda request: request,
    whole_placements: bool = False,
    handover_s: float = 0.0,
    order: Callable[[UrgentJob], Urgency] | None = None,
    spared: Mapping[str, AbstractSet[str]] = MappingProxyType({}),
    jointly: Jointly | None = None,
) -> Decision:
    """Serve every urgent job in order: from nodes that are or come free if these suffice, else by `proposal`.

    Nodes that are promised to one are not offered to the next; what a victim of one frees beyond its need is.
    The components of a heterogeneous job are served together or not at all. If a job without room can get
    some by coming first, it does (`serve_each`).

    Args:
        cluster: the snapshot.
        policy: the policy's name.
        proposal: what the policy wants done for a request that needs evictions.
        start_within_s: how long after a job became eligible its start is on time, if it declares no limit.
        hold_slack_s: how much longer than the deadline and the walltime together a hold may last.
        evict_guests: adds the guests that leave before any other job is evicted.
        whole_placements: whether nodes are only free if one placement has enough of them. `proposal` is then
            given `Request.places`, where the cluster has placements.
        handover_s: how long after kills for one job others run in what it leaves of its nodes. 0: none waits.
        order: sorts the urgent jobs. None: they are served in the order of submission.
        spared: by urgent job, those that do not leave for it, though the site allows it; without placements.
        jointly: the choice for all components of a job. None: that for one after the other counts.
    """
    blocked = blocked_rationales(cluster, start_within_s)
    urgents = urgent_jobs(cluster)
    if not urgents:
        return Decision(policy=policy, rationale=blocked)
    serving = _Serving(policy, proposal, start_within_s, hold_slack_s, evict_guests, whole_placements)
    sharing = SharingJobs.of(urgents, start_within_s)
    serving = changed(serving, handover_s=handover_s, sharing=sharing, spared=spared, jointly=jointly)
    urgents = urgents if order is None else tuple(sorted(urgents, key=order))
    serve, refuse, together = serving.serve, serving.refuse, serving.together
    proposals = serve_each(urgents, cluster, serve, refuse, together, by_deadline=order is not None)
    return Decision(
        policy=policy,
        actions=tuple(action for given in proposals for action in given.actions),
        rationale=(*(given.rationale for given in proposals), *blocked),
        again_s=min((given.again_s for given in proposals if given.again_s is not None), default=None),
    )


@dataclass(frozen=True, slots=True)
class _Serving:
    """How one urgent job is served: the arguments of `decide_each`."""

    policy: str
    proposal: Callable[[Request], Proposal]
    start_within_s: float
    hold_slack_s: float
    evict_guests: Callable[[Request], Request]
    whole_placements: bool
    handover_s: float = 0.0
    sharing: SharingJobs = NO_SHARING_JOBS
    spared: Mapping[str, AbstractSet[str]] = field(default_factory=dict[str, AbstractSet[str]])
    jointly: Jointly | None = None

    def serve(self, commitments: Commitments, urgent: UrgentJob) -> Proposal:
        """What is done for it, which is added to what is promised already."""
        request, given = self._served(commitments, self._requests(commitments, urgent))
        if makes_room(given):
            given = changed(given, actions=given.actions + request.guest_actions)
        given = affordable(request, given, commitments)
        commitments.add(given.actions, given.rationale)
        commitments.plan(given.planned, given.planned_s)
        return given

    def refuse(self, commitments: Commitments, urgent: UrgentJob, why: str) -> Proposal:
        """It gets nothing, and `why`."""
        given = no_room(self._requests(commitments, urgent)[0], why)
        commitments.add(given.actions)
        return given

    def together(
        self, commitments: Commitments, components: Sequence[UrgentJob], found: Sequence[Proposal] | None
    ) -> Together | None:
        """What is known about the choices for all components. `found`: see `Jointly`."""
        if self.jointly is None:
            return None
        return self.jointly(commitments, [self._requests(commitments, one)[0] for one in components], found)

    def _served(self, commitments: Commitments, requests: list[Request]) -> tuple[Request, Proposal]:
        """The first of an urgent job's requests for which no job has to leave, else the first that is served,
        else the first of all; and what is done for it.
        """
        for request in requests:
            ready = _ready(request)
            if ready is not None:
                return request, fits(ready)
        tried: list[tuple[Request, Proposal]] = []
        for request in requests[:1] if requests[0].late else [one for one in requests if not one.now_only]:
            given = self._wait_for_leftovers(commitments, request)
            given = self._wait_for_shrinks(commitments, request) if given is None else given
            given = self.proposal(request) if given is None else given
            if makes_room(given) or given.again_s is not None:
                return request, given
            tried.append((request, given))
        return tried[0]

    def _requests(self, commitments: Commitments, urgent: UrgentJob) -> list[Request]:
        """The request, and those for sooner starts: see `requests_for`."""
        own_s, guide = urgent.deadline_s(self.start_within_s), urgent.guide
        spared = self.spared.get(urgent.job.job_id, frozenset[str]())
        spared = spared if guide is None else staying(guide, commitments.cluster)
        sooner_s = self.sharing.sooner_s(urgent.job.demand, own_s, self.handover_s)
        requests: list[Request] = []
        for one in requests_for(
            commitments,
            urgent,
            self.policy,
            own_s,
            start_within_s=self.start_within_s,
            hold_slack_s=self.hold_slack_s,
        ):
            request = changed(one, sooner_s=sooner_s, excluded=one.excluded | spared, concerned=one.excluded)
            request = request if guide is None else changed(request, methods=guide.methods)
            request = request if one.now_only else self.evict_guests(request)
            requests.append(with_places(commitments, request) if self.whole_placements else request)
        return requests

    def _wait_for_leftovers(self, commitments: Commitments, request: Request) -> Proposal | None:
        """No job leaves for it now, because other urgent jobs will leave it room in time. None: they do not.

        It is at the front of the queue, without a hold: each node has one hold.
        """
        now_s = request.cluster.now_s
        awaited_s = commitments.take_leftovers(
            request.urgent,
            request.shortage,
            until_s=request.ends_s,
            deadline_s=now_s + self.start_within_s if request.late else request.deadline_s,
            handover_s=self.handover_s,
        )
        if not awaited_s:
            return None
        commitments.promise((*request.free, *request.releasing))
        jobs = {commitments.leftovers[name].for_job_id for name in awaited_s}
        waiting = no_room(request, room_comes(awaited_s, jobs))
        why = changed(waiting.rationale, ready_s=max(awaited_s.values()))
        return changed(waiting, rationale=why, again_s=min(awaited_s.values()))

    def _wait_for_shrinks(self, commitments: Commitments, request: Request) -> Proposal | None:
        """No job leaves for it before a job that shrinks for another one has shrunk, and can be asked again.
        None: there is none, or no time.
        """
        now_s, job_id = request.cluster.now_s, commitments.shrinks_first(request.urgent)
        if not job_id or now_s + SHRINK_S > request.deadline_s:
            return None
        commitments.promise((*request.free, *request.releasing))
        text = (
            f"{needed(request)}. Job {job_id} shrinks for another urgent job first: then it is asked again."
        )
        return Proposal(rationale=rationale(request, text), again_s=now_s + 1.0)


def _ready(request: Request) -> Request | None:
    """The request, or that within the placement which is ready first. None: some job has to leave."""
    if not request.places:
        return request if request.shortage <= 0 else None
    ready = [within for within in request.places if within.shortage <= 0]
    return min(ready, key=lambda within: within.releasing_s, default=None)


def cheapest_place(
    request: Request, room: Callable[[Request], Proposal], price: Callable[[Proposal], PriceT]
) -> Request | None:
    """The request within the placement in which room is made at the least price. None: in no placement is it.

    Of several placements at one price it is the first in the cluster's order.

    Args:
        request: one with `places`.
        room: what is proposed within one placement.
        price: what a proposal that makes room costs; or whether a limit refuses it, and what it costs.
    """
    priced = [(price(given), within) for within in request.places if makes_room(given := room(within))]
    return min(priced, key=lambda one: one[0])[1] if priced else None


def in_place(request: Request, within: Request, given: Proposal) -> Proposal:
    """The proposal within the chosen one of the request's placements, which the summary names."""
    text = f"{within.place}, the cheapest of {len(request.places)}: {given.rationale.summary}"
    return changed(given, rationale=changed(given.rationale, summary=text))


def no_place(request: Request) -> Proposal:
    """No job is evicted, because room can be made in no placement."""
    asked = (
        f"{len(request.places)} placements of the right size for {node_text(request.urgent.job.node_count)}"
    )
    if request.late:
        return no_room(request, f"None of {asked} is free and the deadline has passed: no job is evicted.")
    return no_room(request, f"None of {asked} can be cleared in time: no job is evicted.")


def makes_room(given: Proposal) -> bool:
    """Whether the proposal holds nodes for the urgent job."""
    return any(isinstance(action, Reserve) for action in given.actions)


def affordable(request: Request, given: Proposal, commitments: Commitments) -> Proposal:
    """The proposal, unless its evictions lose more work than the site allows: then no job is evicted."""
    refusal = price_refusal(
        request.cluster,
        request.urgent.job.job_id,
        killed_node_s(given.actions, request.cluster),
        commitments.spent_node_s(),
    )
    if refusal is None:
        return given
    candidates = unchosen(given.rationale.candidates)
    why = f"{needed(request)}: {refusal[1]}. No job is evicted."
    return no_room(request, why, candidates)


def fits(request: Request) -> Proposal:
    """Enough nodes are or come free: hold exactly as many as are needed."""
    text = f"{len(request.free)} of the free nodes are enough: no job has to leave."
    if request.guest_nodes:
        text = f"Guests leave {len(request.guest_nodes)} of the nodes held for it: no other job has to leave."
    elif request.releasing:
        text = (
            f"{len(request.free)} nodes are free and {len(request.releasing)} more come free"
            f"{_why_free(request)}: no other job has to leave."
        )
    elif not request.free:
        text = "What it keeps of its hold is enough: no other job has to leave."
    return Proposal(
        actions=(hold(request, (), fits=not request.releasing and not request.guest_nodes),),
        rationale=rationale(request, text, ready_s=request.releasing_s),
    )


def _why_free(request: Request) -> str:
    """Why the nodes come free that jobs leave anyway, in words."""
    jobs, ending = request.cluster.jobs_by_id(), completing(request.cluster)
    ended = frozenset[str]().union(*(jobs[job_id].nodes for job_id in ending)).intersection(request.releasing)
    if not ended:
        return " for other jobs"
    others = len(request.releasing) - len(ended)
    return f" ({len(ended)} completing{f', {others} for other jobs' if others else ''})"


def no_room(request: Request, why: str, candidates: tuple[Candidate, ...] = ()) -> Proposal:
    """No job is evicted: the urgent job goes to the front of the queue, once (P5, section III-B-2).

    A hold from the time of its announcement is released, and so is one that has waited for jobs to end: the
    job is then the first that the scheduler gives free nodes.
    """
    job, operation = request.urgent.job, request.urgent.operation
    actions: list[Action] = []
    # In observe mode the job is never moved to the front: that it would be is reported once.
    reported = any(
        one.for_job_id == job.job_id and one.observe and not one.kind.holds_nodes
        for one in request.cluster.operations
    )
    if not job.prioritised and not reported and could_start(request.cluster, job):
        actions.append(
            Prioritise(job_id=job.job_id, for_job_id=job.job_id, policy=request.policy, reason=Reason.NO_ROOM)
        )
    if operation is not None and is_in_vain(operation, request.cluster):
        actions.append(
            Release(
                job_id=job.job_id,
                for_job_id=job.job_id,
                policy=request.policy,
                reason=Reason.NO_ROOM,
                reservation=operation.reservation,
                own_reservation=operation.own_reservation,
            )
        )
    return Proposal(actions=tuple(actions), rationale=rationale(request, why, candidates=candidates))


def hold(request: Request, freed: tuple[str, ...], *, fits: bool = False) -> Reserve:
    """Hold the nodes that the job keeps or gets without an eviction, then as many of `freed` as it still
    needs.
    """
    urgent = request.urgent
    most = len(urgent.kept_nodes) + urgent.most_missing
    sets = request.cluster.node_sets()
    ready = sets.joined(urgent.kept_nodes, request.free, request.releasing, request.guest_nodes)[:most]
    nodes = sets.joined(ready, freed[: max(0, urgent.job.node_count - len(ready))])
    operation = urgent.operation
    return Reserve(
        job_id=urgent.job.job_id,
        for_job_id=urgent.job.job_id,
        policy=request.policy,
        reason=request.reason(fits=fits),
        reservation=(
            request.cluster.hold_name(urgent.job.job_id) if operation is None else operation.reservation
        ),
        nodes=nodes,
        duration_s=request.duration_s,
        until_s=site_begins_s(request.cluster, nodes, request.cluster.now_s + request.duration_s),
        kind=OperationKind.MAKE_WAY if urgent.job.demand is None else OperationKind.MAKE_WAY_SHARED,
        requeue_count=urgent.job.requeue_count,
        # While it is bound to makeway's hold, the snapshot may not show it.
        own_reservation=request.cluster.own_reservation(urgent.job)
        or (None if operation is None else operation.own_reservation),
    )


def eviction_actions(
    request: Request,
    victim: Job,
    method: Method,
    not_after_s: float,
    *,
    not_before_s: float | None = None,
    saved_by_s: float | None = None,
) -> tuple[Action, ...]:
    """The actions by which one job leaves for the request: a signal first if it is to checkpoint, then the
    requeue.

    `not_before_s`, `saved_by_s`: see `Checkpoint`.
    """
    return evict_for(
        victim,
        method,
        for_job_id=request.urgent.job.job_id,
        policy=request.policy,
        reason=request.reason(fits=False),
        now_s=request.cluster.now_s,
        not_after_s=not_after_s,
        not_before_s=not_before_s,
        saved_by_s=saved_by_s,
    )
