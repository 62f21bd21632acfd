"""Kills that wait: where jobs share nodes, no job is killed before the urgent job's deadline asks for it.

The nodes of the choice are held at once. As long as there is time, a job may end by itself, save its work, or
make room elsewhere; each cycle decides again. A choice that loses nothing is carried out at once, and so is
one that would lose more than twice as much by waiting: a job that has just started is killed cheaply now.
Jobs whose time limits end before the last moment count as leaving by themselves.

While a job waits, its nodes are lost to other urgent jobs. If one of these finds no room, no job waits.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the loss of a kill, which is what waiting may save.

Differs from the paper:
    The paper decides once, when the urgent job arrives.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from makeway.policies.common.departures import NodeRelease, ends_by
from makeway.policies.common.requests import Proposal, Request, candidates_of
from makeway.policies.model import (
    Action,
    Cancel,
    Cluster,
    Decision,
    LateDeparture,
    Method,
    OperationKind,
    Postponement,
    Requeue,
    Reserve,
    Shrink,
)
from makeway.policies.safety.prices import killed_node_s

_MOST_GROWTH = 2
"""How many times the loss of a kill at once waiting may cost, if nothing comes of it."""

Room = Callable[[Request, Mapping[str, NodeRelease]], Proposal]
"""The proposal of least loss for a request, if these further jobs leave by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How long kills may wait."""

    margin_s: float
    """How long before the deadline the last job must have left."""
    leave_s: float
    """How long a job that is killed takes to leave its nodes."""

    def make_room(self, request: Request, room: Room) -> Proposal:
        """What `room` proposes, or only its hold as long as waiting may save work."""
        now_s, cluster = request.cluster.now_s, request.cluster
        last_s = request.deadline_s - self.margin_s - self.leave_s
        at_once = room(request, {})
        if (
            now_s >= last_s
            or not cluster.capacities()
            or not _within_half_the_limit(at_once.actions, cluster)
        ):
            return at_once
        hopeless, lost_node_s = _hold_of(at_once) is None, at_once.rationale.loss_node_s
        if not hopeless and not lost_node_s:
            return at_once
        ending = ends_by(cluster, last_s)
        later = room(request, ending) if ending else at_once
        best = later if _is_better(later, at_once) else at_once
        if best is at_once and hopeless:
            return at_once
        if not hopeless and killed_node_s(best.actions, cluster, last_s) > _MOST_GROWTH * lost_node_s:
            return at_once
        saving_s = 0.0 if best.rationale.ready_s is None else best.rationale.ready_s - now_s
        until_s = last_s - max(0.0, saving_s)
        return hold_only(request, best, until_s, last_s) if now_s < until_s else at_once


def is_in_the_way(decision: Decision, cluster: Cluster) -> bool:
    """Whether an urgent job finds no room while another one waits: then none should."""
    jobs = cluster.jobs_by_id()
    return decision.again_s is not None and any(
        why.ready_s is None and not jobs[why.for_job_id].blocked_by for why in decision.rationale
    )


def _hold_of(proposal: Proposal) -> Reserve | None:
    return next((action for action in proposal.actions if isinstance(action, Reserve)), None)


def _is_better(later: Proposal, at_once: Proposal) -> bool:
    """Whether room is made at all, or at less loss, if jobs that end by themselves are waited for."""
    if _hold_of(later) is None:
        return False
    return _hold_of(at_once) is None or later.rationale.loss_node_s < at_once.rationale.loss_node_s


def _within_half_the_limit(actions: tuple[Action, ...], cluster: Cluster) -> bool:
    """Whether the evictions, and as many more, keep within the site's limit per hour.

    Others may use what is left of it in the meantime.
    """
    limit = cluster.limits.evictions_per_hour
    leaving = sum(isinstance(action, Requeue | Cancel) for action in actions)
    return limit is None or len(cluster.evictions) + 2 * leaving <= limit


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
            candidates=tuple(replace(candidate, chosen=False) for candidate in best.rationale.candidates),
            loss_node_s=0,
            ready_s=last_s,
            postponed=_postponement(best, request.cluster, until_s),
        ),
        again_s=until_s,
    )


def _postponement(best: Proposal, cluster: Cluster, until_s: float) -> Postponement:
    """Who leaves by the proposal if its evictions begin at `until_s`."""
    return Postponement(
        until_s=until_s,
        departures=tuple(
            LateDeparture(
                job_id=action.job_id,
                method=Method.SHRINK if isinstance(action, Shrink) else action.method,
                loss_node_s=killed_node_s((action,), cluster, until_s),
            )
            for action in best.actions
            if isinstance(action, Requeue | Cancel | Shrink)
        ),
    )


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
