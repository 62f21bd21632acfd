"""Policy "eviction": an urgent job gets free nodes, else the set of jobs with the least loss leaves in time
for it.

The nodes are held first. Which jobs leave, and how (killed, after an application checkpoint or after a system
checkpoint), is the exact solution of the eviction problem for the time that is left. If no choice meets the
deadline, no job is evicted, and the urgent job goes to the front of the queue. With `shrink`, malleable jobs
may give nodes without leaving.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), sections II and III.

Differs from the paper:
    The paper simulates the trade-off between loss and time; here one point of it is used, the urgent job's
    own deadline. Where jobs share nodes, the nodes are chosen too (`eviction.shared_nodes`); with `shrink`
    and an urgent job that needs whole nodes, jobs that share nodes leave together instead. Malleable jobs may
    shrink if that saves other jobs from leaving (`shrink`). Checkpoints may be planned as written at the same
    time (`checkpoints: concurrent`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Literal

from makeway.policies.common.components import leave_one_by_one
from makeway.policies.common.losses import wait_s
from makeway.policies.common.proposals import (
    cheapest_place,
    decide_each,
    hold,
    in_place,
    makes_room,
    no_place,
    no_room,
)
from makeway.policies.common.requests import Proposal, Request, loss_refusal, needed, node_text, rationale
from makeway.policies.common.shrinking import spare_nodes
from makeway.policies.common.urgent_jobs import urgency
from makeway.policies.common.victims import VictimGroup, leavers, remembered_groups
from makeway.policies.common.waiting import Waiting, serves_more, without_room
from makeway.policies.contract import Policy, require_durations, require_step
from makeway.policies.eviction.components import joint_rules
from makeway.policies.eviction.shared_nodes import make_room_on_shared_nodes
from makeway.policies.joint.serving import jointly
from makeway.policies.model import Cluster, Decision, Memo, Method, Same
from makeway.policies.programme.candidates import candidates, offer
from makeway.policies.programme.concurrent import PARTS, fair_end_s, plan_fair
from makeway.policies.programme.considered import Considered, Pricing, Releases
from makeway.policies.programme.ends import ending_by_itself, ends_by_itself
from makeway.policies.programme.group_departures import (
    GroupDeparture,
    departure_actions,
    freed_nodes,
    in_words,
)
from makeway.policies.programme.items import EvictionJob, eviction_job
from makeway.policies.programme.knapsack import EvictionPlan
from makeway.policies.programme.leaving import Turn, as_chosen, at_once_s, behind, in_turn_s, turn
from makeway.policies.safety.prices import hours_text, loss_node_s, price_node_s

CELLS = 50_000_000
"""How many (item, nodes, bandwidth) cells concurrent checkpoints may use: beyond it, the bandwidth is divided
into fewer parts."""
MIN_PARTS = 20
"""The bandwidth is never divided into fewer parts, however many cells that takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionConfig:
    """Settings of policy "eviction"."""

    start_within_s: float = 600.0
    """How long after it became eligible the start of an urgent job is on time, unless the job declares its
    own limit."""
    margin_s: float = 30.0
    """How long before the deadline the last victim must have left. Kills are still allowed within the margin.
    """
    step_s: float = 30.0
    """The resolution of time: durations are rounded up to it."""
    kills: Literal["late", "at_once"] = "late"
    """Where jobs share nodes: whether jobs are killed as late as the deadline allows, since there may be room
    without that, or at once."""
    leave_s: float = 60.0
    """How long a job that is killed may take to leave its nodes. A job whose checkpoint is overdue is killed
    this long before the margin. With `kills: late`, waiting ends this long before it, too. It should be no
    less than Slurm's KillWait, the epilog and two polls together."""
    late: Literal["queue", "evict"] = "queue"
    """After the deadline: evict no job, or still the set with the least loss, as if the job had been
    submitted now."""
    hold_slack_s: float = 600.0
    """How much longer than the deadline and the walltime together a hold may last."""
    shrink: bool = False
    """Whether malleable jobs may give nodes instead of leaving."""
    checkpoints: Literal["serial", "concurrent"] = "serial"
    """Whether checkpoints are planned one after another, or at the same time on a shared file system."""
    aggregate_gb_s: float = 250.0
    """Bandwidth of the file system, GB per second, for concurrent checkpoints. The default is the paper's
    Theta."""
    node_gb_s: float = 20.0
    """Bandwidth of one node, GB per second, for concurrent checkpoints."""

    def __post_init__(self) -> None:
        require_durations(
            start_within_s=self.start_within_s,
            margin_s=self.margin_s,
            leave_s=self.leave_s,
            hold_slack_s=self.hold_slack_s,
        )
        require_step(self.step_s)
        for name, value in (("aggregate_gb_s", self.aggregate_gb_s), ("node_gb_s", self.node_gb_s)):
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} is {value!r}; accepted: a positive number of GB per second")


_Propose = Callable[[Request], Proposal]


def decide(cluster: Cluster, config: EvictionConfig) -> Decision:
    """Make way for every urgent job that needs nodes, in the order of `urgency`."""
    rules = joint_rules(
        margin_s=config.margin_s,
        step_s=config.step_s,
        shrink=config.shrink,
        item=lambda request, group, by_s: item_of(group, config, request.backlog.left_s),
        shared_leave_s=config.leave_s if config.kills == "late" else None,
    )

    def decided(proposal: _Propose) -> Decision:
        return decide_each(
            cluster,
            EVICTION.name,
            proposal,
            start_within_s=config.start_within_s,
            hold_slack_s=config.hold_slack_s,
            whole_placements=True,
            handover_s=config.margin_s + config.leave_s,
            order=lambda urgent: urgency(urgent, config.start_within_s),
            jointly=None if config.checkpoints == "concurrent" else partial(jointly, rules=rules),
        )

    memo = Memo()

    def room(request: Request, ending: Releases) -> Proposal:
        return _allowed_room(request, config, ending, memo)

    if config.kills == "late":
        waiting = Waiting(margin_s=config.margin_s, leave_s=config.leave_s, step_s=config.step_s)
        decision = decided(lambda request: waiting.make_room(request, room))
        lacking = without_room(decision)
        if decision.again_s is None or not lacking:
            return decision
        at_once = decided(lambda request: room(request, {}))
        return at_once if serves_more(at_once, decision, lacking, cluster) else decision
    return decided(lambda request: room(request, {}))


def _allowed_room(request: Request, config: EvictionConfig, ending: Releases, memo: Memo) -> Proposal:
    """What `make_room` proposes. If a limit on lost work refuses that and past evictions have raised prices:
    the set that loses least, if no limit refuses it.
    """
    given = make_room(request, config, ending, memo=memo)
    if loss_refusal(request, given) is None or not any(job.past_evictions for job in request.cluster.jobs):
        return given
    least = make_room(request, config, ending, by_loss=True, memo=memo)
    return least if makes_room(least) and loss_refusal(request, least) is None else given


def make_room(
    request: Request,
    config: EvictionConfig,
    ending: Releases = MappingProxyType({}),
    pricing: Pricing | None = None,
    *,
    by_loss: bool = False,
    memo: Memo | None = None,
) -> Proposal:
    """The set with the least loss for one request that free nodes do not serve. Where nodes are only given as
    whole placements, it is the set of the placement with the least loss.

    Args:
        request: the request.
        config: the settings.
        ending: jobs that leave by themselves in time, by id. Nothing is done to them.
        pricing: changes what leaving whole nodes costs and how long it takes. None: the loss alone counts.
        by_loss: whether past evictions do not raise the price of a kill.
        memo: what the same decision has worked out already. None: nothing.
    """
    memo = Memo() if memo is None else memo
    if request.places:

        def room(within: Request) -> Proposal:
            return make_room(within, config, ending, pricing, by_loss=by_loss, memo=memo)

        within = cheapest_place(request, room, lambda given: given.rationale.loss_node_s)
        return no_place(request) if within is None else in_place(request, within, room(within))
    if request.late and config.late == "queue":
        return no_room(request, f"{needed(request)} and the deadline has passed: no job is evicted.")
    latest_s = _latest_s(request, config)
    considered = _considered(request, config, ending, pricing, by_loss, memo)
    if considered is None:
        return make_room_on_shared_nodes(
            request,
            latest_s=latest_s,
            leave_s=config.leave_s,
            step_s=config.step_s,
            ending=ending,
            price=loss_node_s if by_loss else price_node_s,
            memo=memo,
        )
    return _make_room_on_whole_nodes(request, considered, config, ending, latest_s, memo)


def least_price_node_s(request: Request, config: EvictionConfig, pricing: Pricing, memo: Memo) -> int:
    """What every set of jobs costs at least that `make_room` could choose, if no job ends by itself. 0: that
    is not known, as where there is no such set.
    """
    considered = None if request.places else _considered(request, config, {}, pricing, False, memo)
    if considered is None or request.late:
        return 0
    latest_s = _latest_s(request, config)
    deadline_s = max(at_once_s(request, latest_s), in_turn_s(request, latest_s))
    within_s = latest_s - request.cluster.now_s
    return considered.least_loss_node_s(request.shortage, within_s, deadline_s, config.step_s, memo)


def _considered(
    request: Request,
    config: EvictionConfig,
    ending: Releases,
    pricing: Pricing | None,
    by_loss: bool,
    memo: Memo,
) -> Considered | None:
    """What is chosen among. None: jobs leave one by one, because nodes are shared."""
    groups = _groups(request, config, ending, memo)
    if groups is None:
        return None

    def priced(group: VictimGroup) -> EvictionJob:
        plain = as_chosen(request, item_of(group, config))
        plain = replace(plain, loss_node_s=group.loss_node_s) if by_loss else plain
        return plain if pricing is None else pricing(plain, group)

    key = (
        (config.shrink, config.checkpoints, config.aggregate_gb_s, config.node_gb_s),
        pricing,
        by_loss,
        frozenset(request.methods.items()),
    )
    ahead_s = request.backlog.left_s
    known = memo.for_each(("item", key), priced)
    later = memo.for_each(("later", key, ahead_s), partial(behind, ahead_s=ahead_s))
    candidate = memo.for_each(("offer", config.shrink), partial(offer, shrink=config.shrink))

    def item(group: VictimGroup) -> EvictionJob:
        found = known(group)
        found = later(found, group) if ahead_s and found.application_s is not None else found
        return ending_by_itself(found, group, ending, request.cluster.now_s) if ending else found

    return memo.once(
        ("considered", Same(groups), frozenset(ending.items()), key, ahead_s),
        lambda: Considered.of(groups, ending, item, candidate, priced=pricing is not None),
    )


def _groups(
    request: Request, config: EvictionConfig, ending: Releases, memo: Memo
) -> tuple[VictimGroup, ...] | None:
    """The groups that may leave, each as a whole. None: jobs leave one by one, because nodes are shared."""
    if request.urgent.job.demand is not None:
        return None
    found = remembered_groups(
        request.cluster, request.urgent, unusable=request.unusable, excluded=request.excluded, memo=memo
    )
    return None if not config.shrink and leave_one_by_one(found, ending) else found


def _latest_s(request: Request, config: EvictionConfig) -> float:
    """When the last job must have left. A late job is served as if it had been submitted now."""
    now_s = request.cluster.now_s
    return now_s + config.start_within_s if request.late else max(now_s, request.deadline_s - config.margin_s)


def _make_room_on_whole_nodes(
    request: Request,
    considered: Considered,
    config: EvictionConfig,
    ending: Releases,
    latest_s: float,
    memo: Memo,
) -> Proposal:
    """The set of groups with the least loss, each of which leaves as a whole."""
    plan = _plan(considered, request, latest_s, config, memo)
    if plan is None:
        able = considered.able
        text = (
            f"{needed(request)}; no choice among {node_text(sum(len(group.nodes) for group in able))} "
            f"of {len(able)} {'candidate' if len(able) == 1 else 'candidates'} "
            f"frees them within {latest_s - request.cluster.now_s:.0f} s."
        )
        return no_room(request, text, candidates(considered.offers, None))
    return _evict(request, considered, plan[0], plan[1], ending)


def _plan(
    considered: Considered, request: Request, latest_s: float, config: EvictionConfig, memo: Memo
) -> tuple[EvictionPlan, Turn] | None:
    """The exact solution, and when its checkpoints are written: at once, unless less is lost by waiting for
    those of other plans. Concurrent checkpoints: only if they lose less than serial ones.
    """
    needed, items = request.shortage, considered.items
    soon_s, later_s = at_once_s(request, latest_s), in_turn_s(request, latest_s)
    best, waiting = considered.best_plans(
        needed, latest_s - request.cluster.now_s, (soon_s, later_s), config.step_s, memo
    )
    if best is None or waiting is None:
        return None
    in_turn = waiting.loss_node_s < best.loss_node_s
    best = waiting if in_turn else best
    if config.checkpoints == "concurrent" and best.loss_node_s:
        parts = max(MIN_PARTS, min(PARTS, CELLS // max(1, len(items) * needed)))
        together = plan_fair(items, needed, later_s, config.step_s, parts)
        if together is not None and together.loss_node_s < best.loss_node_s:
            best, in_turn = together, request.backlog.over_s > 0.0
    # A serial plan holds however the file system is shared; a concurrent one was planned for equal shares.
    saved_s = best.checkpoint_s
    if config.checkpoints == "concurrent":
        saved_s = max(saved_s, fair_end_s(best))
    when = turn(request, saved_s=saved_s, latest_s=latest_s, leave_s=config.leave_s, in_turn=in_turn)
    return best, when


def _evict(
    request: Request, considered: Considered, plan: EvictionPlan, when: Turn, ending: Releases
) -> Proposal:
    """The hold, and the evictions of the plan. `when`: when its checkpoints are written. `ending`: jobs that
    leave by themselves.
    """
    chosen = [(considered.groups[departure.item.job_ids], departure) for departure in plan.departures]
    freed = [freed_nodes(group, departure) for group, departure in chosen]
    held = hold(request, tuple(name for nodes in freed for name in nodes))
    evictions = [
        GroupDeparture(jobs=leavers(group, held), departure=departure, nodes=nodes)
        for (group, departure), nodes in zip(chosen, freed, strict=True)
        if not ends_by_itself(group, ending)
    ]
    now_s = request.cluster.now_s
    lost_node_s = sum(
        loss_node_s(job, now_s)
        for eviction in evictions
        if eviction.departure.method is Method.KILL
        for job in eviction.jobs
    )
    actions = [action for eviction in evictions for action in departure_actions(request, eviction, when)]
    return Proposal(
        actions=(held, *actions),
        rationale=rationale(
            request,
            f"{needed(request)}: {in_words(evictions)}; "
            f"{hours_text(lost_node_s)} node-hours are lost and the nodes are free in "
            f"{when.saved_by_s - now_s:.0f} s.",
            candidates=candidates(considered.offers, plan),
            loss_node_s=lost_node_s,
            ready_s=max(request.releasing_s, when.saved_by_s),
        ),
    )


def item_of(group: VictimGroup, config: EvictionConfig, ahead_s: float = 0.0) -> EvictionJob:
    """A group as an item, as the settings allow. Several jobs checkpoint one after another, at the full
    bandwidth.

    `ahead_s`: how long the file system writes for others first. The wait for a regular checkpoint passes
    meanwhile.
    """
    item = behind(eviction_job(group), group, ahead_s=ahead_s)
    spare = len(spare_nodes(group)) if config.shrink else 0
    if config.checkpoints == "serial" or len(group.jobs) != 1:
        return replace(item, spare_node_count=spare) if spare else item
    job = group.jobs[0]
    return replace(
        item,
        spare_node_count=spare,
        bandwidth_share=min(1.0, len(job.nodes) * config.node_gb_s / config.aggregate_gb_s),
        application_wait_s=wait_s(job, item.application_s),
    )


EVICTION = Policy(
    name="eviction",
    summary="Take free nodes, else evict the least-loss set that makes the deadline (exact, P2).",
    config_type=EvictionConfig,
    decide=decide,
    shares_nodes=True,
    serves_components=True,
    whole_placements=True,
)
