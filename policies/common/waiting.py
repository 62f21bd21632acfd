"""Kills that wait: where jobs share nodes, no job is killed before the urgent job's deadline asks for it.

The nodes of the choice are held at once. As long as there is time, a job may end by itself, save its work, or
make room elsewhere; each cycle decides again. A choice that loses nothing is carried out at once, and so is
one that would lose more than twice as much by waiting: a job that has just started is killed cheaply now.
Jobs whose time limits end before the last moment count as leaving by themselves. No kill waits for a moment
at which a limit on lost work would refuse it.

While a job waits, its nodes are lost to other urgent jobs. If one of these finds no room, and finds it where
no job waits, then no job does.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the loss of a kill, which is what waiting may save.

Differs from the paper:
    The paper decides once, when the urgent job arrives.
"""

import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from makeway.policies.common.departures import NodeRelease, ends_by
from makeway.policies.common.losses import departures, evictions_loss_node_s, system_s
from makeway.policies.common.requests import (
    Proposal,
    Request,
    candidates_of,
    loss_refusal,
    room_sooner_s,
)
from makeway.policies.common.urgent_jobs import held_up
from makeway.policies.model import (
    NO_RESOURCES,
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Decision,
    LateDeparture,
    Method,
    OperationKind,
    Postponement,
    Rationale,
    Requeue,
    Reserve,
    Shrink,
    unchosen,
)

_MOST_GROWTH = 2
"""How many times the loss of a kill at once waiting may cost, if nothing comes of it."""

Room = Callable[[Request, Mapping[str, NodeRelease]], Proposal]
"""The proposal of least loss for a request, if these further jobs leave by themselves."""


Refuses = Callable[[Request, Proposal, float], bool]
"""Whether a limit refuses the evictions of a proposal if they begin at an instant."""


def exceeds_limits(request: Request, given: Proposal, at_s: float) -> bool:
    """Whether the site's limits on lost work refuse the proposal if its evictions begin at `at_s`."""
    return loss_refusal(request, given, at_s) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How long kills may wait."""

    margin_s: float
    """How long before the deadline the last job must have left."""
    leave_s: float
    """How long a job that is killed takes to leave its nodes."""
    step_s: float
    """The resolution of time, to which checkpoints are rounded up."""

    def make_room(self, request: Request, room: Room, refuses: Refuses = exceeds_limits) -> Proposal:
        """What `room` proposes, or only its hold as long as waiting may save work and no limit refuses the
        evictions in the end. `refuses`: whether a limit refuses evictions at an instant.
        """
        now_s, cluster = request.cluster.now_s, request.cluster
        last_s = request.deadline_s - self.margin_s - self.leave_s
        at_once = room(request, {})
        if (
            now_s >= last_s
            or not cluster.capacities()
            or not _within_half_the_limit(at_once.actions, cluster)
        ):
            return at_once
        hopeless = _hold_of(at_once) is None or refuses(request, at_once, now_s)
        lost_node_s = at_once.rationale.loss_node_s
        if not hopeless and not lost_node_s:
            return at_once
        allowed = None if hopeless else at_once
        later = self._after_ends(request, room, last_s, allowed) or at_once
        best = later if _is_better(later, allowed) else at_once
        if best is later and refuses(request, later, last_s + self.leave_s):
            best = at_once  # in the end the other jobs may not leave
        if best is at_once and hopeless:
            return at_once
        if not hopeless and evictions_loss_node_s(best.actions, cluster, last_s) > _MOST_GROWTH * lost_node_s:
            return at_once
        saving_s = writing_s(request, best, self.step_s)
        # Jobs that are to end by themselves need all of the time.
        sooner_s = room_sooner_s(request, best) if best is at_once else 0.0
        until_s = allowed_until_s(request, best, last_s - sooner_s - saving_s, self.leave_s, refuses)
        return hold_only(request, best, until_s, until_s + saving_s) if now_s < until_s else at_once

    def _after_ends(
        self, request: Request, room: Room, last_s: float, at_once: Proposal | None
    ) -> Proposal | None:
        """The proposal of least loss if jobs whose time limits end by `last_s` end by themselves. None: none
        does.

        No job is asked to leave before there is room but for those that are asked to. Where checkpoints are
        requested, they have to begin before `last_s`. If a job on the same nodes ends only after that, it
        would be too late for them: either its end does not count, or no checkpoint is requested. `at_once`
        None: it counts all the same, because nothing may be done without it.
        """
        cluster, until_s = request.cluster, last_s
        found: list[Proposal] = []
        while ending := ends_by(cluster, until_s):
            later = room(request, ending)
            begin_s = last_s - writing_s(request, later, self.step_s)
            if at_once is None or ended_s(later, ending, cluster) <= begin_s:
                found.append(later)
                break
            if until_s == last_s:
                unasked = room(without_signals(request), ending)
                found += [] if writing_s(request, unasked, self.step_s) else [unasked]
            until_s = begin_s

        def loss(given: Proposal) -> tuple[bool, int]:
            return _hold_of(given) is None, evictions_loss_node_s(given.actions, cluster, last_s)

        return min(reversed(found), key=loss, default=None)


def without_room(decision: Decision) -> frozenset[str]:
    """The urgent jobs for which a decision makes no room."""
    return frozenset(why.for_job_id for why in decision.rationale if why.ready_s is None)


def serves_more(decision: Decision, waiting: Decision, lacking: AbstractSet[str], cluster: Cluster) -> bool:
    """Whether a decision in which no job waits makes room for a job of `lacking`, now or as soon as another
    one has ended, and takes room from none.

    Args:
        decision: the decision in which no job waits.
        waiting: the decision on the same snapshot in which jobs may wait.
        lacking: urgent jobs for which `waiting` makes no room.
        cluster: the snapshot.
    """
    lack = without_room(decision)
    if not lack <= without_room(waiting):
        return False
    stuck = held_up(cluster)
    return not lacking <= lack or any(
        _follows_in_time(why, decision, waiting, cluster)
        for why in decision.rationale
        if why.for_job_id in lacking and why.for_job_id not in stuck
    )


def _follows_in_time(why: Rationale, decision: Decision, waiting: Decision, cluster: Cluster) -> bool:
    """Whether an urgent job without room is on time on the nodes of another one that has ended by its time
    limit, and only if that one does not wait.
    """
    jobs, capacities = cluster.jobs_by_id(), cluster.capacities()
    job = jobs[why.for_job_id]
    ready_s, late_s = (
        {one.for_job_id: one.ready_s for one in each.rationale} for each in (decision, waiting)
    )
    for hold in decision.actions:
        at_s, later_s = ready_s.get(hold.for_job_id), late_s.get(hold.for_job_id)
        if not isinstance(hold, Reserve) or at_s is None or later_s is None:
            continue
        walltime_s = jobs[hold.for_job_id].walltime_s
        fitting = [
            name
            for name in hold.nodes
            if (job.eligible_nodes is None or name in job.eligible_nodes)
            and (job.demand is None or capacities.get(name, NO_RESOURCES).covers(job.demand))
        ]
        if len(fitting) >= job.node_count and at_s + walltime_s <= why.deadline_s < later_s + walltime_s:
            return True
    return False


def _hold_of(proposal: Proposal) -> Reserve | None:
    return next((action for action in proposal.actions if isinstance(action, Reserve)), None)


def ended_s(given: Proposal, ending: Mapping[str, NodeRelease], cluster: Cluster) -> float:
    """When the last job on nodes of a proposal's hold that ends by itself has ended. Minus infinity: none
    does.
    """
    held, jobs = _hold_of(given), cluster.jobs_by_id()
    nodes = frozenset[str]() if held is None else frozenset(held.nodes)
    theirs = (one.by_s for job_id, one in ending.items() if not nodes.isdisjoint(jobs[job_id].nodes))
    return max(theirs, default=-math.inf)


def without_signals(request: Request) -> Request:
    """The request for which no job is asked to write a checkpoint."""
    saving = [job.job_id for job in request.cluster.holders() if system_s(job) is not None]
    return replace(request, methods={**dict.fromkeys(saving, Method.APPLICATION), **request.methods})


def _is_better(later: Proposal, at_once: Proposal | None) -> bool:
    """Whether room is made at less loss if jobs that end by themselves are waited for.

    `at_once`: what is proposed otherwise. None: nothing that may be done.
    """
    if _hold_of(later) is None:
        return False
    return at_once is None or later.rationale.loss_node_s < at_once.rationale.loss_node_s


def allowed_until_s(
    request: Request, given: Proposal, until_s: float, leave_s: float, refuses: Refuses
) -> float:
    """The latest instant, up to `until_s`, at which the evictions of a proposal may begin: no limit refuses
    them even `leave_s` later. The present or an earlier instant: they may not be put off.

    What a kill loses grows with time, so that the instant is found by halving, to the second.
    """
    now_s = request.cluster.now_s
    if now_s >= until_s or not refuses(request, given, until_s + leave_s):
        return until_s
    allowed, refused = 0, math.ceil(until_s - now_s)
    while refused - allowed > 1:
        middle = (allowed + refused) // 2
        if refuses(request, given, now_s + middle + leave_s):
            refused = middle
        else:
            allowed = middle
    return now_s + allowed


def writing_s(request: Request, given: Proposal, step_s: float, *, parallel: bool = False) -> float:
    """How long the requested checkpoints of a proposal take, after those of other plans. 0: it has none.

    Args:
        request: the request.
        given: the proposal.
        step_s: the resolution of time, to which durations are rounded up.
        parallel: whether they are written at the same time. False: one after another.
    """
    asked = [action for action in given.actions if isinstance(action, Checkpoint)]
    if not asked:
        return 0.0
    jobs, ahead = request.cluster.jobs_by_id(), request.backlog
    times_s = [math.ceil((system_s(jobs[one.job_id]) or 0.0) / step_s) * step_s for one in asked]
    in_turn = any(action.not_before_s is not None for action in asked)
    return (ahead.over_s if in_turn else ahead.left_s) + (max(times_s) if parallel else sum(times_s))


def _within_half_the_limit(actions: tuple[Action, ...], cluster: Cluster) -> bool:
    """Whether the evictions, and as many more, keep within the site's limit per hour.

    Others may use what is left of it in the meantime.
    """
    limit = cluster.limits.evictions_per_hour
    leaving = sum(isinstance(action, Requeue | Cancel) for action in actions)
    return limit is None or len(cluster.evictions) + 2 * leaving <= limit


def exceeds_hour(request: Request, given: Proposal) -> bool:
    """Whether more jobs leave by a proposal and by other decisions than the site allows in an hour."""
    cluster, limit = request.cluster, request.cluster.limits.evictions_per_hour
    if limit is None:
        return False
    leaving = request.concerned.difference(job.job_id for job in cluster.waiting_urgent_jobs())
    leaving |= {action.job_id for action in given.actions if isinstance(action, Requeue | Cancel | Shrink)}
    return len(cluster.evictions) + len(leaving) > limit


def hold_only(request: Request, best: Proposal, until_s: float, last_s: float) -> Proposal:
    """The hold of a proposal without the evictions, unless the job has one that still serves. The rationale
    keeps who would leave (`Rationale.postponed`).

    `until_s`: when the evictions of `best` begin. `last_s`: when there must be room but for the time that a
    kill takes.
    """
    held = None if _may_keep(request, best, last_s) else _hold_of(best)
    wait_s = until_s - request.cluster.now_s
    return Proposal(
        actions=() if held is None else (held,),
        rationale=replace(
            best.rationale,
            summary=f"No job is killed for {wait_s:.0f} s, in which there may be room without that. "
            f"Else: {best.rationale.summary}",
            candidates=unchosen(best.rationale.candidates),
            loss_node_s=0,
            ready_s=last_s,
            postponed=postponement(best, request.cluster, until_s),
        ),
        again_s=until_s,
    )


def postponement(best: Proposal, cluster: Cluster, until_s: float) -> Postponement:
    """Who leaves by the proposal if its evictions begin at `until_s`."""
    found: list[LateDeparture] = []
    for action in best.actions:
        if isinstance(action, Shrink):
            found.append(LateDeparture(job_id=action.job_id, method=Method.SHRINK, loss_node_s=0))
        for job, method in departures((action,), cluster, until_s):
            lost_node_s = evictions_loss_node_s((action,), cluster, until_s)
            found.append(LateDeparture(job_id=job.job_id, method=method, loss_node_s=lost_node_s))
    return Postponement(until_s=until_s, departures=tuple(found))


def _may_keep(request: Request, best: Proposal, latest_s: float) -> bool:
    """Whether the job has a hold of its own that is as good: there can still be room on each of its nodes."""
    operation, held = request.urgent.operation, _hold_of(best)
    if operation is None or operation.kind is OperationKind.ARRIVAL:
        return False
    if held is not None and set(held.nodes) == set(operation.nodes):
        return True
    candidates = candidates_of(request, latest_s, ends_by(request.cluster, latest_s))
    able = candidates.able(request.cluster, request.urgent.job.demand)
    return able.union(request.urgent.kept_nodes, request.free).issuperset(operation.nodes)
