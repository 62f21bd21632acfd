"""What the mechanisms of P5 do when an on-demand job has arrived and the nodes for it do not suffice: PAA and SPAA.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B-2.

Differs from the paper:
    Room is asked for as long as the start can be on time, not only at the instant of the arrival, and nobody is asked
    after that. The time that is left bounds the two-minute warning; a malleable job that has no checkpoint on a
    signal, or cannot complete it in that time, is treated like a rigid one. Jobs that share nodes leave together; what
    is particular to shrinking stands in `shrinking`. With `victims: exact` the set that leaves is P2's: the least loss
    of work that makes the deadline, setups not counted, for PAA with nobody shrunk, for SPAA with shrinking as one more
    way to give nodes. Where shrinking is enough, that is SPAA as it is.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

from makeway.policies.common.losses import loss_node_s
from makeway.policies.common.proposals import eviction_actions, hold, no_room
from makeway.policies.common.requests import Proposal, Request, rationale
from makeway.policies.common.shrinking import shrink, spare_nodes, spread_evenly
from makeway.policies.common.victims import VictimGroup, leavers, stays, take_until, victim_groups
from makeway.policies.contract import require_durations
from makeway.policies.eviction.policy import EvictionConfig, make_room
from makeway.policies.model import Action, Candidate, Job, JobKind, Method


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridConfig:
    """Settings of the mechanisms of P5."""

    start_within_s: float = 600.0
    """How long after its submission the start of an urgent job is on time, unless the job says so itself."""
    warning_s: float = 120.0
    """How long a malleable job has to save itself before it is requeued."""
    hold_slack_s: float = 600.0
    """How much longer than the deadline and the walltime together a hold may last."""
    backfill_held: Literal["none", "lossless", "any"] = "lossless"
    """Who may start on idle nodes that are held for announced jobs, to leave at once when these come: nobody; jobs that
    lose no work by it, as they are over by the predicted arrival or save themselves when warned; or any preemptible job."""
    victims: Literal["overhead", "exact"] = "overhead"
    """Who leaves at the arrival: in ascending order of overhead, or the set of least loss that makes the deadline (P2)."""

    def __post_init__(self) -> None:
        require_durations(
            start_within_s=self.start_within_s, warning_s=self.warning_s, hold_slack_s=self.hold_slack_s
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptee:
    """A bundle with what its preemption costs, and how each of its jobs leaves."""

    group: VictimGroup
    overhead_node_s: int
    methods: tuple[Method, ...]
    """One for each job of the bundle."""


def _exact(config: HybridConfig, *, shrink: bool) -> EvictionConfig:
    """The settings of the exact programme that are the mechanism's own."""
    return EvictionConfig(
        start_within_s=config.start_within_s, hold_slack_s=config.hold_slack_s, shrink=shrink
    )


def preempt_at_arrival(request: Request, config: HybridConfig) -> Proposal:
    """PAA (section III-B-2): preempt running jobs in ascending order of overhead until the request is satisfied."""
    if config.victims == "exact":
        return make_room(request, _exact(config, shrink=False))
    considered = victim_groups(
        request.cluster, request.urgent, unusable=request.unusable, excluded=request.excluded
    )
    grace_s = min(config.warning_s, request.deadline_s - request.cluster.now_s)
    ranked = sorted(
        (_preemptee(group, request.cluster.now_s, grace_s) for group in considered if not group.protected_by),
        key=lambda preemptee: (preemptee.overhead_node_s, preemptee.group.job_ids),
    )
    chosen, freed = take_until(ranked, request.shortage, lambda preemptee: preemptee.group.nodes)
    if len(freed) < request.shortage:
        text = f"{request.shortage} more nodes are needed; all {len(ranked)} preemptable jobs have {len(freed)} of them."
        return no_room(request, text, _preemption_candidates(considered, ranked, [], grace_s))
    held = hold(request, tuple(freed))
    now_s = request.cluster.now_s
    leaving = [(job, way_out(job, grace_s)) for preemptee in chosen for job in leavers(preemptee.group, held)]
    actions: list[Action] = [held]
    for job, method in leaving:
        wait_s = grace_s if method is Method.SYSTEM else 0.0
        actions.extend(eviction_actions(request, job, method, now_s + wait_s))
    warned = any(method is Method.SYSTEM for _, method in leaving)
    return Proposal(
        actions=tuple(actions),
        rationale=rationale(
            request,
            f"{request.shortage} more nodes are needed: preempt {', '.join(job.job_id for job, _ in leaving)}, "
            "the least overhead first.",
            candidates=_preemption_candidates(considered, ranked, chosen, grace_s),
            loss_node_s=sum(loss_node_s(job, now_s) for job, method in leaving if method is Method.KILL),
            ready_s=max(request.releasing_s, now_s + (grace_s if warned else 0.0)),
        ),
    )


def _preemptee(group: VictimGroup, now_s: float, grace_s: float) -> Preemptee:
    methods = tuple(way_out(job, grace_s) for job in group.jobs)
    overheads = (overhead_node_s(job, method, now_s) for job, method in zip(group.jobs, methods, strict=True))
    return Preemptee(group=group, overhead_node_s=sum(overheads), methods=methods)


def overhead_node_s(job: Job, method: Method, now_s: float) -> int:
    """The preemption overhead (section III-A): a setup anew, and for who is killed the work since the checkpoint."""
    lost_node_s = loss_node_s(job, now_s) if method is Method.KILL else 0
    return lost_node_s + math.ceil(job.setup_s * job.node_count)


def way_out(job: Job, grace_s: float) -> Method:
    """Malleable jobs are warned, if they can save themselves in time; rigid ones are killed (section III-A)."""
    saves_s = None if job.checkpoint is None else job.checkpoint.system_s
    if job.kind is JobKind.MALLEABLE and saves_s is not None and saves_s <= grace_s:
        return Method.SYSTEM
    return Method.KILL


def _preemption_candidates(
    considered: tuple[VictimGroup, ...],
    ranked: list[Preemptee],
    chosen: list[Preemptee],
    grace_s: float,
) -> tuple[Candidate, ...]:
    """The list in the paper's order, then those that may not be preempted, with the reason."""
    taken = {preemptee.group.job_ids for preemptee in chosen}
    found = [
        Candidate(
            job_ids=preemptee.group.job_ids,
            method=max(preemptee.methods, key=lambda method: method is Method.SYSTEM),
            node_count=len(preemptee.group.nodes),
            loss_node_s=preemptee.overhead_node_s,
            delay_s=grace_s if Method.SYSTEM in preemptee.methods else 0.0,
            chosen=preemptee.group.job_ids in taken,
            note="loss is the preemption overhead: lost work and the setup",
        )
        for preemptee in ranked
    ]
    return (*found, *(stays(group) for group in considered if group.protected_by))


def shrink_or_preempt_at_arrival(request: Request, config: HybridConfig) -> Proposal:
    """SPAA (section III-B-2): if shrinking all malleable jobs supplies enough, shrink them evenly; else PAA."""
    if config.victims == "exact":
        return make_room(request, _exact(config, shrink=True))
    considered = victim_groups(
        request.cluster, request.urgent, unusable=request.unusable, excluded=request.excluded
    )
    supplies = {
        group.job_ids[0]: (group.jobs[0], spare)
        for group in considered
        if not group.protected_by and (spare := spare_nodes(group))
    }
    supply = sum(len(spare) for _, spare in supplies.values())
    if supply < request.shortage:
        proposal = preempt_at_arrival(request, config)
        text = (
            f"Shrinking supplies {supply} nodes of {request.shortage}: too few. {proposal.rationale.summary}"
        )
        return replace(proposal, rationale=replace(proposal.rationale, summary=text))
    shares = spread_evenly({job_id: len(spare) for job_id, (_, spare) in supplies.items()}, request.shortage)
    freed: list[str] = []
    shrinks: list[Action] = []
    candidates = []
    for job_id, (job, spare) in sorted(supplies.items()):
        given = spare[len(spare) - shares[job_id] :]
        candidates.append(
            Candidate(
                job_ids=(job_id,),
                method=Method.SHRINK,
                node_count=len(given),
                loss_node_s=0,
                delay_s=0.0,
                chosen=bool(given),
                note=f"could give {len(spare)} nodes",
            )
        )
        if given:
            freed.extend(given)
            shrinks.append(shrink(request, job, frozenset(given)))
    return Proposal(
        actions=(hold(request, tuple(freed)), *shrinks),
        rationale=rationale(
            request,
            f"{request.shortage} more nodes are needed: shrink {len(shrinks)} malleable jobs evenly, nothing is lost.",
            candidates=tuple(candidates),
            ready_s=request.releasing_s,
        ),
    )
