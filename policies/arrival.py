"""Policy "eviction": an urgent job takes free nodes, else the least-loss set of jobs leaves in time for it.

The nodes are held first. Who leaves, and how (killed, after an application or after a system checkpoint), is the
exact answer of the eviction problem for the time that is left. If no choice makes the deadline nobody is asked to
leave, and the job goes to the front of the queue.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters" (DS-RT 2020),
    sections II and III.

Differs from the paper:
    The paper simulates the trade-off; here one point of it, the urgent job's own deadline, is acted upon. Jobs that
    share nodes leave together. Malleable jobs leave whole.
"""

import math
from dataclasses import dataclass
from typing import Literal

from makeway.policies.candidates import Bundle, bundles, loss_node_s
from makeway.policies.contract import Policy
from makeway.policies.eviction import EvictionJob, Plan, solve
from makeway.policies.holds import (
    Answer,
    Ask,
    decide_each,
    departure,
    hold,
    leavers,
    no_room,
    rationale,
    require_durations,
    stays,
)
from makeway.policies.model import Action, Candidate, Cluster, Decision, Job, Method

CELLS = 50_000_000
"""How many (item, nodes, time) cells a decision may take: about a second, and 50 MB. Beyond, time gets coarser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionConfig:
    """Settings of policy "eviction"."""

    start_within_s: float = 600.0
    """How long after its submission the start of an urgent job is on time, unless the job says so itself."""
    margin_s: float = 30.0
    """How long before the deadline the last victim must be gone. Kills are still allowed within the margin."""
    step_s: float = 30.0
    """The resolution of time: durations are rounded up to it."""
    late: Literal["queue", "evict"] = "queue"
    """Once the deadline has passed: evict nobody any more, or still the least-loss set as if the job came now."""
    hold_slack_s: float = 600.0
    """How much longer than the deadline and the walltime together a hold may last."""

    def __post_init__(self) -> None:
        require_durations(
            start_within_s=self.start_within_s, margin_s=self.margin_s, hold_slack_s=self.hold_slack_s
        )
        if not (math.isfinite(self.step_s) and self.step_s > 0.0):
            raise ValueError(f"step_s is {self.step_s!r}, wants a positive number of seconds")


def decide(cluster: Cluster, config: EvictionConfig) -> Decision:
    """Make way for every urgent job that needs it, in the order of submission."""
    return decide_each(
        cluster,
        EVICTION.name,
        lambda ask: _make_room(ask, config),
        start_within_s=config.start_within_s,
        hold_slack_s=config.hold_slack_s,
    )


def _make_room(ask: Ask, config: EvictionConfig) -> Answer:
    """The least-loss set for one request that free nodes do not serve."""
    if ask.late and config.late == "queue":
        return no_room(
            ask, f"{ask.shortage} more nodes are needed and the deadline has passed: nobody is evicted."
        )
    now_s = ask.cluster.now_s
    latest_s = (now_s + config.start_within_s) if ask.late else max(now_s, ask.deadline_s - config.margin_s)
    considered = bundles(ask.cluster, ask.request, unusable=ask.unusable, spared=ask.spared)
    able = [bundle for bundle in considered if not bundle.barrier]
    coarse_s = (latest_s - now_s) * len(able) * ask.shortage / CELLS
    items = [eviction_job(bundle) for bundle in able]
    curve = solve(items, ask.shortage, latest_s - now_s, max(config.step_s, coarse_s))
    plan = curve.plan(latest_s - now_s)
    if plan is None:
        text = (
            f"{ask.shortage} more nodes are needed; no choice among {sum(len(bundle.nodes) for bundle in able)} "
            f"nodes of {len(able)} candidates frees them within {latest_s - now_s:.0f} s."
        )
        return no_room(ask, text, _candidates(considered, None))
    return _evict(ask, considered, plan, latest_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leave:
    """Jobs that leave in one way: those of a chosen bundle that are on nodes which are held."""

    jobs: tuple[Job, ...]
    node_count: int
    """Nodes that the bundle could free."""
    method: Method


def _evict(ask: Ask, considered: tuple[Bundle, ...], plan: Plan, latest_s: float) -> Answer:
    """The hold, and the departures of the plan."""
    methods = {departure.item.job_ids: departure.method for departure in plan.departures}
    chosen = [bundle for bundle in considered if bundle.job_ids in methods]
    held = hold(ask, tuple(name for bundle in chosen for name in bundle.nodes))
    leaves = [
        _Leave(jobs=leavers(bundle, held), node_count=len(bundle.nodes), method=methods[bundle.job_ids])
        for bundle in chosen
    ]
    now_s = ask.cluster.now_s
    lost_node_s = sum(
        loss_node_s(job, now_s) for leave in leaves if leave.method is Method.KILL for job in leave.jobs
    )
    departures = [action for leave in leaves for action in _departures(ask, leave, plan, latest_s)]
    return Answer(
        actions=(held, *departures),
        rationale=rationale(
            ask,
            f"{ask.shortage} more nodes are needed: evict {', '.join(_told(leave) for leave in leaves)}; "
            f"{lost_node_s / 3600:.2f} node-hours are lost and the nodes are free in {plan.checkpoint_s:.0f} s.",
            candidates=_candidates(considered, plan),
            loss_node_s=lost_node_s,
            ready_s=max(ask.coming_s, now_s + plan.checkpoint_s),
        ),
    )


def eviction_job(bundle: Bundle) -> EvictionJob:
    """A bundle as an item of the eviction problem."""
    return EvictionJob(
        job_ids=bundle.job_ids,
        node_count=len(bundle.nodes),
        loss_node_s=bundle.loss_node_s,
        system_s=bundle.system_s,
        application_s=bundle.application_s,
    )


def _departures(ask: Ask, leave: _Leave, plan: Plan, latest_s: float) -> list[Action]:
    """The actions by which jobs leave; a checkpoint has its grace, or the time of all of them together."""
    actions: list[Action] = []
    for job in leave.jobs:
        not_after_s = ask.cluster.now_s if leave.method is Method.KILL else latest_s
        if leave.method is Method.SYSTEM and job.checkpoint is not None:
            patience_s = max(job.checkpoint.grace_s, plan.checkpoint_s)
            not_after_s = min(latest_s, ask.cluster.now_s + patience_s)
        actions.extend(departure(ask, job, leave.method, not_after_s))
    return actions


def _candidates(considered: tuple[Bundle, ...], plan: Plan | None) -> tuple[Candidate, ...]:
    """Every bundle with the price of each way to leave; those that may not leave, with the reason."""
    chosen = {} if plan is None else {leaver.item.job_ids: leaver.method for leaver in plan.departures}
    found = []
    for bundle in considered:
        prices: tuple[tuple[Method, int, float | None], ...] = (
            (Method.KILL, bundle.loss_node_s, 0.0),
            (Method.APPLICATION, 0, bundle.application_s),
            (Method.SYSTEM, 0, bundle.system_s),
        )
        if bundle.barrier:
            prices = ()
            found.append(stays(bundle))
        for method, lost_node_s, delay_s in prices:
            if delay_s is not None:
                found.append(
                    Candidate(
                        job_ids=bundle.job_ids,
                        method=method,
                        node_count=len(bundle.nodes),
                        loss_node_s=lost_node_s,
                        delay_s=delay_s,
                        chosen=chosen.get(bundle.job_ids) is method,
                    )
                )
    return tuple(found)


def _told(leave: _Leave) -> str:
    """Who leaves and how, in plain words."""
    ways = {
        Method.KILL: "killed",
        Method.APPLICATION: "after its next checkpoint",
        Method.SYSTEM: "after a signal",
    }
    return f"{'+'.join(job.job_id for job in leave.jobs)} ({leave.node_count} nodes, {ways[leave.method]})"


EVICTION = Policy(
    name="eviction",
    summary="Take free nodes, else evict the least-loss set that makes the deadline (exact, P2).",
    config_type=EvictionConfig,
    decide=decide,
)
