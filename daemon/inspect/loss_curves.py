"""The loss of work by deadline, for a request that might be submitted: two ways to compute it.

The choice is the policy's: the one of least price, in which jobs that were evicted before count for more. The
loss is the work that this choice loses.

`whole_curve` solves the programme of policy `eviction` once for all deadlines. `policy_curve` asks the policy
itself, for each deadline at which the answer may change; it serves requests for parts of nodes, and nodes
that jobs share.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from makeway.policies.common.proposals import fits
from makeway.policies.common.requests import Proposal, Request
from makeway.policies.common.victims import VictimGroup
from makeway.policies.eviction.policy import EvictionConfig, item_of, make_room
from makeway.policies.model import Action, Cancel, Job, Method, Requeue, Reserve
from makeway.policies.programme.items import Departure
from makeway.policies.programme.knapsack import EvictionPlan, solve
from makeway.policies.safety.prices import price_node_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """Jobs that leave together, or one that shrinks."""

    job_ids: tuple[str, ...]
    method: Method
    node_count: int
    """How many nodes come free, or get room."""
    loss_node_s: int
    """Node-seconds of work that are lost."""
    nodes: tuple[str, ...]
    """These nodes. Empty: a job that shrinks, which leaves open which nodes it gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossLevel:
    """A range of deadlines with the same loss and price."""

    from_s: float
    """The shortest of these deadlines."""
    until_s: float
    """The longest of them."""
    loss_node_s: int
    """Node-seconds of work that are lost."""
    price_node_s: int
    """What the jobs that are killed count as where jobs are compared: see `price_node_s` of `safety.prices`.
    It equals the loss if none of them was evicted before.
    """
    checkpoint_s: float
    """How long the checkpoints take until there is room."""
    leavers: tuple[Leaver, ...]
    """Greatest loss first, then most nodes, then by job id."""
    nodes: tuple[str, ...] = ()
    """Where the request would be served. Empty: on free nodes and those of the jobs that leave."""

    @property
    def node_count(self) -> int:
        """How many nodes come free."""
        return sum(leaver.node_count for leaver in self.leavers)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCurve:
    """The loss by each deadline 0, step, 2 * step and so on."""

    losses_node_s: tuple[int | None, ...]
    """None: no choice of jobs is quick enough."""
    levels: tuple[LossLevel, ...]


def whole_curve(
    considered: tuple[VictimGroup, ...],
    settings: EvictionConfig,
    shortage: int,
    deadline_s: float,
    step_s: float,
) -> LossCurve:
    """The curve for whole nodes that jobs do not share.

    Args:
        considered: the groups, of which those that are not protected may leave.
        settings: of the policy.
        shortage: how many nodes they have to leave.
        deadline_s: the latest deadline, in seconds from now.
        step_s: the resolution of time.
    """
    able = [group for group in considered if not group.protected_by]
    curve = solve([item_of(group, settings) for group in able], max(0, shortage), deadline_s, step_s)
    groups = {group.job_ids: group for group in able}

    def level(index: int) -> LossLevel | None:
        plan = curve.plan(index * step_s)
        return None if plan is None else _planned(plan, groups, index * step_s)

    return _merged([level(index) for index in range(len(curve.losses()))])


def policy_curve(
    request_at: Callable[[float], Request], settings: EvictionConfig, deadline_s: float, step_s: float
) -> LossCurve:
    """The curve by the policy's own proposals.

    More time never makes the least price greater, so only deadlines between two different answers are tried.

    Args:
        request_at: the request with a deadline so many seconds from now.
        settings: of the policy. Its margin has to be 0.
        deadline_s: the latest deadline, in seconds from now.
        step_s: the resolution of time.
    """
    known: dict[int, LossLevel | None] = {}

    def level(index: int) -> LossLevel | None:
        if index not in known:
            known[index] = _proposed(request_at(index * step_s), settings, index * step_s)
        return known[index]

    count = math.floor(deadline_s / step_s)
    levels: list[LossLevel | None] = [None] * (count + 1)
    waiting = [(0, count)]
    while waiting:
        first, last = waiting.pop()
        if _are_alike(level(first), level(last)):
            for index in range(first, last + 1):
                levels[index] = _at(level(first), index * step_s)
        elif last - first > 1:
            middle = (first + last) // 2
            waiting += [(first, middle), (middle, last)]
        else:
            levels[first], levels[last] = level(first), level(last)
    return _merged(levels)


def _at(level: LossLevel | None, at_s: float) -> LossLevel | None:
    """The level at another deadline."""
    return None if level is None else replace(level, from_s=at_s, until_s=at_s)


def _are_alike(one: LossLevel | None, other: LossLevel | None) -> bool:
    """Whether two deadlines belong to one level, or to none."""
    if one is None or other is None:
        return one is other
    return (one.price_node_s, one.loss_node_s) == (other.price_node_s, other.loss_node_s)


def _merged(by_deadline: Iterable[LossLevel | None]) -> LossCurve:
    """The curve. A range of deadlines with one loss and price has the choice for its shortest deadline."""
    losses: list[int | None] = []
    levels: list[LossLevel] = []
    for level in by_deadline:
        losses.append(None if level is None else level.loss_node_s)
        if level is not None and levels and _are_alike(levels[-1], level):
            levels[-1] = replace(levels[-1], until_s=level.until_s)
        elif level is not None:
            levels.append(level)
    return LossCurve(losses_node_s=tuple(losses), levels=tuple(levels))


def _planned(plan: EvictionPlan, groups: Mapping[tuple[str, ...], VictimGroup], at_s: float) -> LossLevel:
    """The level of a plan for whole nodes. Its items have prices, the groups have the losses."""

    def leaver(departure: Departure) -> Leaver:
        group = groups[departure.item.job_ids]
        return Leaver(
            job_ids=group.job_ids,
            method=departure.method,
            node_count=departure.node_count,
            loss_node_s=group.loss_node_s if departure.method is Method.KILL else 0,
            nodes=() if departure.method is Method.SHRINK else group.nodes,
        )

    leavers = by_cost(map(leaver, plan.departures))
    return LossLevel(
        from_s=at_s,
        until_s=at_s,
        loss_node_s=sum(leaver.loss_node_s for leaver in leavers),
        price_node_s=plan.loss_node_s,
        checkpoint_s=plan.checkpoint_s,
        leavers=leavers,
    )


def _proposed(request: Request, settings: EvictionConfig, at_s: float) -> LossLevel | None:
    """The level of the policy's proposal. None: it makes no room."""
    proposal = fits(request) if request.shortage <= 0 else make_room(request, settings)
    hold = next((action for action in proposal.actions if isinstance(action, Reserve)), None)
    if hold is None:
        return None
    why, now_s, jobs = proposal.rationale, request.cluster.now_s, request.cluster.jobs_by_id()
    return LossLevel(
        from_s=at_s,
        until_s=at_s,
        loss_node_s=why.loss_node_s,
        price_node_s=sum(price_node_s(jobs[job_id], now_s) for job_id in _killed(proposal.actions)),
        checkpoint_s=max(0.0, (now_s if why.ready_s is None else why.ready_s) - now_s),
        leavers=_leavers(proposal, hold, jobs),
        nodes=hold.nodes,
    )


def _killed(actions: Iterable[Action]) -> list[str]:
    """The ids of the jobs that leave without a checkpoint."""
    return [
        action.job_id
        for action in actions
        if isinstance(action, Requeue | Cancel) and action.method is Method.KILL
    ]


def by_cost(leavers: Iterable[Leaver]) -> tuple[Leaver, ...]:
    """Greatest loss first, then most nodes, then by job id."""
    return tuple(sorted(leavers, key=lambda one: (-one.loss_node_s, -one.node_count, one.job_ids)))


def _leavers(proposal: Proposal, hold: Reserve, jobs: Mapping[str, Job]) -> tuple[Leaver, ...]:
    """The jobs that a proposal makes leave, with the nodes of the hold that they are on."""
    found: list[Leaver] = []
    for candidate in proposal.rationale.candidates:
        if candidate.chosen and candidate.method is not None:
            theirs = frozenset[str]().union(*(jobs[job_id].nodes for job_id in candidate.job_ids))
            nodes = tuple(name for name in hold.nodes if name in theirs)
            leaver = Leaver(
                job_ids=candidate.job_ids,
                method=candidate.method,
                node_count=len(nodes),
                loss_node_s=candidate.loss_node_s,
                nodes=nodes,
            )
            found.append(leaver)
    return by_cost(found)
