"""What is promised to an urgent job, and the actions that keep the promise: the hold first, then who leaves.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B-2: an urgent job that cannot
    be given its nodes goes to the front of the queue.

Differs from the paper:
    The nodes are held by a reservation before anybody is asked to leave them. What a victim leaves beyond what was
    needed serves the next urgent job, even before the victim is gone.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import filterfalse, islice

from makeway.policies.common.notices import unbound
from makeway.policies.common.victims import (
    Leave,
    UrgentJob,
    VictimGroup,
    committed,
    departures,
    is_only_watched,
    leave_of,
    releasing_nodes,
    unavailable_nodes,
    urgent_jobs,
)
from makeway.policies.model import (
    Action,
    Candidate,
    Checkpoint,
    Cluster,
    Decision,
    Job,
    Method,
    Prioritise,
    Rationale,
    Reason,
    Release,
    Requeue,
    Reserve,
    memoise_last,
)
from makeway.policies.safety.arbiter import reservation_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, with everything that a policy needs to know to serve it."""

    cluster: Cluster
    urgent: UrgentJob
    policy: str
    deadline_s: float
    """The start is on time until then."""
    duration_s: float
    """How long a hold for it lasts at the most."""
    free: tuple[str, ...]
    """Nodes that could serve the job and that nobody has, as many as it would take at the most."""
    releasing: tuple[str, ...]
    """Nodes that could serve it and that others leave in time anyway, as many as are then missing at the most."""
    releasing_s: float
    """When the last of `releasing` is free; now, if there is none."""
    unusable: frozenset[str]
    """Nodes that are promised, reserved or about to be."""
    excluded: frozenset[str]
    """Jobs that another decision concerns already."""
    vacated: tuple[str, ...] = ()
    """Nodes that those leave who were let on them until the job would come, as many as are still missing at the most."""
    vacating: tuple[Action, ...] = ()
    """By which actions these leave."""

    @property
    def shortage(self) -> int:
        """How many nodes somebody has to leave."""
        return self.urgent.missing - len(self.free) - len(self.releasing) - len(self.vacated)

    @property
    def late(self) -> bool:
        """Whether the start can no longer be on time."""
        return self.cluster.now_s > self.deadline_s

    def reason(self, *, fits: bool) -> Reason:
        """The reason of the actions that serve it."""
        operation = self.urgent.operation
        if self.urgent.announced:
            return Reason.ANNOUNCED
        if operation is not None and not unbound(operation):
            return Reason.SHORTFALL
        return Reason.URGENT_FITS if fits else Reason.URGENT_ARRIVAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a policy wants done for one request, and why."""

    rationale: Rationale
    actions: tuple[Action, ...] = ()


@dataclass(slots=True)
class Commitments:
    """What is promised or under way, by open operations and by earlier answers of the same decision."""

    cluster: Cluster
    excluded: frozenset[str] = field(init=False)
    leaves: dict[str, Leave] = field(init=False)
    free: tuple[str, ...] = field(init=False)
    """The nodes that nobody has, promised ones among them."""
    nodes: set[str] = field(default_factory=set)
    _releasing: dict[str, float] | None = None
    _unusable: frozenset[str] | None = None

    def __post_init__(self) -> None:
        self.excluded, leaves, self.free = _under_way(self.cluster)
        self.leaves = dict(leaves)

    def add(self, actions: tuple[Action, ...]) -> None:
        """Take note of an answer."""
        for action in actions:
            leave = leave_of(action, self.cluster.now_s)
            if isinstance(action, Reserve):
                self.keep(action.nodes)
            else:
                self.excluded |= {action.job_id}
            if leave is not None:
                self.leaves[action.job_id] = leave
                self._releasing = None

    def keep(self, nodes: tuple[str, ...]) -> None:
        """Promise nodes."""
        self.nodes.update(nodes)
        self._unusable = None

    def releasing(self) -> dict[str, float]:
        """The nodes that come free, in the cluster's order, each with the instant by which it is free."""
        if self._releasing is None:
            up = self.cluster.up_nodes()
            ready_s = releasing_nodes(self.cluster, self.leaves)
            order = sorted(ready_s.keys() & up.keys(), key=up.__getitem__)
            self._releasing = {name: ready_s[name] for name in order}
        return self._releasing

    def unusable(self, urgent: UrgentJob, until_s: float) -> frozenset[str]:
        """The nodes that the request may not be promised; see `unavailable_nodes`.

        Requests without an operation have them in common, as long as nobody else's reservation asks for `until_s`.
        """
        alike = urgent.operation is None and all(held.ours for held in self.cluster.reservations)
        if alike and self._unusable is not None:
            return self._unusable
        found = unavailable_nodes(self.cluster, urgent, until_s=until_s) | self.nodes
        if alike:
            self._unusable = found
        return found


@memoise_last
def _under_way(cluster: Cluster) -> tuple[frozenset[str], Mapping[str, Leave], tuple[str, ...]]:
    """Who is engaged, who leaves, and the nodes that nobody has."""
    return committed(cluster), departures(cluster), cluster.free_nodes()


def decide_each(
    cluster: Cluster,
    policy: str,
    proposal: Callable[[Request], Proposal],
    *,
    start_within_s: float,
    hold_slack_s: float,
    vacate: Callable[[Request], Request] = lambda request: request,
) -> Decision:
    """Serve every urgent request in its order: from nodes that are or come free where they suffice, else by `proposal`.

    What one request is promised, the next cannot have; what a victim of one leaves beyond that, the next can.
    `vacate` says who of those that were let on its nodes leaves before anybody else is asked.
    """
    urgents = urgent_jobs(cluster)
    if not urgents:
        return Decision(policy=policy)
    commitments = Commitments(cluster=cluster)
    proposals = []
    for urgent in urgents:
        deadline_s = urgent.deadline_s(start_within_s)
        duration_s = max(0.0, deadline_s - cluster.now_s) + urgent.job.walltime_s + hold_slack_s
        request = vacate(request_for(commitments, urgent, policy, deadline_s, duration_s))
        given = fits(request) if request.shortage <= 0 else proposal(request)
        if any(isinstance(action, Reserve) for action in given.actions):
            given = replace(given, actions=given.actions + request.vacating)
        commitments.add(given.actions)
        proposals.append(given)
    return Decision(
        policy=policy,
        actions=tuple(action for given in proposals for action in given.actions),
        rationale=tuple(given.rationale for given in proposals),
    )


def request_for(
    commitments: Commitments,
    urgent: UrgentJob,
    policy: str,
    deadline_s: float,
    duration_s: float,
    *,
    unusable: frozenset[str] | None = None,
) -> Request:
    """What there is for a request without asking anybody to leave, and what may not be touched for it.

    `unusable`: the nodes that it may not have. None: those that are spoken for or promised.
    """
    cluster = commitments.cluster
    now_s = cluster.now_s
    if unusable is None:
        unusable = commitments.unusable(urgent, now_s + duration_s)
    own = frozenset(urgent.kept)
    eligible = urgent.job.eligible_nodes
    usable = filterfalse(unusable.__contains__, filterfalse(own.__contains__, commitments.free))
    suitable = usable if eligible is None else filter(eligible.__contains__, usable)
    # The site's limit counts nodes: nodes that need not be held use up none of it.
    wanted = urgent.welcome if cluster.limits.max_nodes is None else urgent.missing
    free = tuple(islice(suitable, max(0, wanted)))
    ready_s = commitments.releasing()
    in_time = [
        name
        for name, at_s in ready_s.items()
        if (at_s <= deadline_s or now_s > deadline_s)
        and name not in unusable
        and name not in own
        and (eligible is None or name in eligible)
    ]
    releasing = sorted(in_time, key=ready_s.__getitem__)[: max(0, urgent.missing - len(free))]
    return Request(
        cluster=cluster,
        urgent=urgent,
        policy=policy,
        deadline_s=deadline_s,
        duration_s=duration_s,
        free=free,
        releasing=tuple(releasing),
        releasing_s=max((ready_s[name] for name in releasing), default=now_s),
        unusable=unusable.union(releasing) if releasing else unusable,
        excluded=commitments.excluded,
    )


def fits(request: Request) -> Proposal:
    """Enough nodes are free, or come free anyway: hold exactly as many as are needed."""
    text = f"{len(request.free)} of the free nodes are enough: nobody has to leave."
    if request.vacated:
        text = f"Whoever was let on {len(request.vacated)} of the nodes held for it leaves them: nobody else has to leave."
    elif request.releasing:
        text = f"{len(request.free)} nodes are free and {len(request.releasing)} more come free for others: nobody else has to leave."
    return Proposal(
        actions=(hold(request, (), fits=not request.releasing and not request.vacated),),
        rationale=rationale(request, text, ready_s=request.releasing_s),
    )


def no_room(request: Request, why: str, candidates: tuple[Candidate, ...] = ()) -> Proposal:
    """No way is made: the job goes to the front of the queue, once (P5, section III-B-2).

    What was held for it since it was announced goes back to the queue, of which it is the first then.
    """
    job, operation = request.urgent.job, request.urgent.operation
    actions: list[Action] = []
    # In observe mode the job never comes to stand in front: that it would is told once.
    told = any(one.for_job_id == job.job_id and is_only_watched(one) for one in request.cluster.operations)
    if not job.prioritised and not told:
        actions.append(
            Prioritise(job_id=job.job_id, for_job_id=job.job_id, policy=request.policy, reason=Reason.NO_ROOM)
        )
    if operation is not None and unbound(operation):
        actions.append(
            Release(
                job_id=job.job_id,
                for_job_id=job.job_id,
                policy=request.policy,
                reason=Reason.NO_ROOM,
                reservation=operation.reservation,
            )
        )
    return Proposal(actions=tuple(actions), rationale=rationale(request, why, candidates=candidates))


def hold(request: Request, freed: tuple[str, ...], *, fits: bool = False) -> Reserve:
    """Hold what the job has or can have for nothing, kept, free and coming free, then as many of `freed` as it needs."""
    job = request.urgent.job
    most = len(request.urgent.kept) + request.urgent.welcome
    ready = (*request.urgent.kept, *request.free, *request.releasing, *request.vacated)[:most]
    nodes = (*ready, *freed[: max(0, job.node_count - len(ready))])
    operation = request.urgent.operation
    return Reserve(
        job_id=job.job_id,
        for_job_id=job.job_id,
        policy=request.policy,
        reason=request.reason(fits=fits),
        reservation=reservation_name(job.job_id) if operation is None else operation.reservation,
        nodes=nodes,
        duration_s=request.duration_s,
    )


def leavers(group: VictimGroup, held: Reserve) -> tuple[Job, ...]:
    """The jobs of a bundle that are on a node which is held: the others need not leave."""
    nodes = frozenset(held.nodes)
    return tuple(job for job in group.jobs if not nodes.isdisjoint(job.nodes))


def departure(request: Request, victim: Job, method: Method, not_after_s: float) -> tuple[Action, ...]:
    """The actions by which one job leaves: a signal first if it is to checkpoint, and the requeue."""
    return departing(
        victim,
        method,
        for_job_id=request.urgent.job.job_id,
        policy=request.policy,
        reason=request.reason(fits=False),
        now_s=request.cluster.now_s,
        not_after_s=not_after_s,
    )


def departing(
    victim: Job,
    method: Method,
    *,
    for_job_id: str,
    policy: str,
    reason: Reason,
    now_s: float,
    not_after_s: float,
) -> tuple[Action, ...]:
    """The same, for whatever reason it leaves."""
    requeue = Requeue(
        job_id=victim.job_id,
        for_job_id=for_job_id,
        policy=policy,
        reason=reason,
        method=method,
        not_after_s=not_after_s,
    )
    if method is not Method.SYSTEM or victim.checkpoint is None:
        return (requeue,)
    signal = Checkpoint(
        job_id=victim.job_id,
        for_job_id=for_job_id,
        policy=policy,
        reason=reason,
        signal=victim.checkpoint.signal,
        signal_to=victim.checkpoint.signal_to,
        grace_s=not_after_s - now_s,
        walltime_s=victim.walltime_s + (not_after_s - now_s),
    )
    return signal, requeue


def rationale(
    request: Request,
    summary: str,
    *,
    candidates: tuple[Candidate, ...] = (),
    loss_node_s: int = 0,
    ready_s: float | None = None,
) -> Rationale:
    """Why, in the terms of the request. `ready_s` None: no nodes are made ready."""
    job = request.urgent.job
    return Rationale(
        for_job_id=job.job_id,
        node_count=job.node_count,
        free_node_count=len(request.free),
        deadline_s=request.deadline_s,
        summary=summary,
        candidates=candidates,
        loss_node_s=loss_node_s,
        ready_s=ready_s,
    )


def stays(group: VictimGroup) -> Candidate:
    """A bundle that may not be asked to leave, for the record."""
    return Candidate(
        job_ids=group.job_ids,
        method=None,
        node_count=len(group.nodes),
        loss_node_s=0,
        delay_s=0.0,
        note=group.protected_by,
    )


def require_durations(**settings: float) -> None:
    """Refuse settings that are no durations in seconds.

    Raises:
        ValueError: names the first setting that is negative or not finite.
    """
    for name, value in settings.items():
        if not (math.isfinite(value) and value >= 0.0):
            raise ValueError(f"{name} is {value!r}, wants a number of seconds, not negative")
