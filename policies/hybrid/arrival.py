"""What the mechanisms of P5 do when an on-demand job has arrived and the nodes for it do not suffice: PAA and
SPAA.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B-2.

Differs from the paper:
    Jobs are preempted as long as the start can be on time, not only at the instant of the arrival, and not
    after that. In the order, the work that a kill loses has its price, which past evictions raise, so that it
    is not always the same job that leaves (`hybrid.overhead`). The two-minute warning is no longer than the
    time that is left. A malleable job that has no checkpoint on a signal, or cannot complete it in that time,
    is treated like a rigid one. Jobs that share nodes leave together; for an urgent job that needs a part of
    its nodes they leave one by one, in the same order, and no job shrinks. `common.shrinking` has its own
    differences. With `victims: exact` the jobs that leave are P2's set: the least loss of work that meets the
    deadline, setups not counted; PAA shrinks no job, SPAA has shrinking as one more way to give nodes. If
    shrinking is enough, this is SPAA without change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from makeway.policies.common.proposals import eviction_actions, hold, no_room
from makeway.policies.common.requests import (
    Proposal,
    Request,
    candidates_of,
    gone_by,
    needed,
    node_text,
    rationale,
    wanted,
)
from makeway.policies.common.shared_nodes import take_until_room
from makeway.policies.common.shrinking import shrink, spare_nodes, spread_evenly
from makeway.policies.common.victims import (
    SharedCandidates,
    VictimGroup,
    leavers,
    remembered_groups,
    stays,
    take_until,
)
from makeway.policies.contract import require_durations
from makeway.policies.eviction.policy import EvictionConfig, make_room
from makeway.policies.hybrid.overhead import PreemptionOverhead, preemption_overhead
from makeway.policies.model import (
    Action,
    Candidate,
    Job,
    JobKind,
    Memo,
    Method,
    Reserve,
    Resources,
    changed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridConfig:
    """Settings of the mechanisms of P5."""

    start_within_s: float = 600.0
    """How long after it became eligible the start of an urgent job is on time, unless the job declares its
    own limit."""
    warning_s: float = 120.0
    """How long a malleable job has to checkpoint before it is requeued."""
    hold_slack_s: float = 600.0
    """How much longer than the deadline and the walltime together a hold may last."""
    backfill_held: Literal["none", "lossless", "any"] = "lossless"
    """Which jobs may start on idle nodes that are held for announced jobs, and leave at once when these
    arrive. none: no jobs. lossless: jobs that lose no work, because they end before the predicted arrival or
    checkpoint when warned. any: all preemptible jobs."""
    victims: Literal["overhead", "exact"] = "overhead"
    """Which jobs leave at the arrival: those of the least overhead, or the set of least loss that meets the
    deadline (P2)."""

    def __post_init__(self) -> None:
        require_durations(
            start_within_s=self.start_within_s, warning_s=self.warning_s, hold_slack_s=self.hold_slack_s
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """A victim group with the overhead of its preemption, and how each of its jobs leaves."""

    group: VictimGroup
    overhead: PreemptionOverhead
    methods: tuple[Method, ...]
    """One for each job of the group."""


def _exact(config: HybridConfig, *, shrink: bool) -> EvictionConfig:
    """The settings of policy "eviction" for this mechanism."""
    return EvictionConfig(
        start_within_s=config.start_within_s, hold_slack_s=config.hold_slack_s, shrink=shrink
    )


def _groups(request: Request, memo: Memo) -> tuple[VictimGroup, ...]:
    """The jobs that hold nodes which would serve the request."""
    return remembered_groups(
        request.cluster,
        request.urgent,
        unusable=request.unusable,
        excluded=request.excluded,
        memo=memo,
    )


def preempt_at_arrival(request: Request, config: HybridConfig, memo: Memo) -> Proposal:
    """PAA (section III-B-2): preempt running jobs in ascending order of overhead until the request is
    satisfied. `memo`: what the same decision has worked out already.
    """
    if config.victims == "exact":
        return make_room(request, _exact(config, shrink=False), memo=memo)
    demand = request.urgent.job.demand
    if demand is not None:
        return _preempt_on_shared_nodes(request, demand, config)
    considered, now_s = _groups(request, memo), request.cluster.now_s
    grace_s = min(config.warning_s, request.deadline_s - now_s)
    preemption_of = memo.for_each(
        ("preemption", now_s, grace_s), partial(_preemption, now_s=now_s, grace_s=grace_s)
    )
    ranked = sorted(
        (preemption_of(group) for group in considered if not group.protected_by),
        key=lambda preemption: (preemption.overhead.ranked_node_s, preemption.group.job_ids),
    )
    chosen, freed = take_until(ranked, request.shortage, lambda preemption: preemption.group.nodes)
    if len(freed) < request.shortage:
        text = f"{needed(request)}; the preemptable jobs ({len(ranked)}) have {len(freed)} of them."
        return no_room(request, text, _preemption_candidates(considered, ranked, [], grace_s, memo))
    held = hold(request, tuple(freed))
    leaving = [
        (job, way_out(job, grace_s)) for preemption in chosen for job in leavers(preemption.group, held)
    ]
    return _preempt(
        request,
        held,
        leaving,
        grace_s,
        _preemption_candidates(considered, ranked, chosen, grace_s, memo),
        by_price=any(preemption.overhead.is_raised for preemption in ranked),
    )


def _preempt_on_shared_nodes(request: Request, demand: Resources, config: HybridConfig) -> Proposal:
    """As PAA, job by job: a job that was chosen and turns out not to be needed stays. What leaves anyway by
    the deadline counts as gone, as on whole nodes.
    """
    now_s = request.cluster.now_s
    grace_s = min(config.warning_s, request.deadline_s - now_s)
    considered = candidates_of(request, request.deadline_s)
    able = [job for job in considered.jobs if job.job_id not in considered.protected_by]
    overheads = {job.job_id: preemption_overhead([(job, way_out(job, grace_s))], now_s) for job in able}
    ranked = sorted(able, key=lambda job: (overheads[job.job_id].ranked_node_s, job.job_id))
    chosen, nodes = take_until_room(ranked, considered, request.cluster, demand, request.shortage)
    if len(nodes) < request.shortage:
        text = (
            f"{wanted(request)} is needed; "
            f"without the preemptable jobs ({len(ranked)}) there is room on {len(nodes)} of them."
        )
        return no_room(request, text, _job_candidates(considered, ranked, [], overheads, grace_s))
    return _preempt(
        request,
        hold(request, tuple(nodes)),
        [(job, way_out(job, grace_s)) for job in chosen],
        grace_s,
        _job_candidates(considered, ranked, chosen, overheads, grace_s),
        by_price=any(overhead.is_raised for overhead in overheads.values()),
        anyway_s=_gone_s(request, frozenset(nodes)),
    )


def _gone_s(request: Request, nodes: frozenset[str]) -> float:
    """When the last job has left these nodes that leaves anyway by the deadline; now, if none does."""
    gone = gone_by(request, request.deadline_s)
    there = [job for job in request.cluster.holders() if not nodes.isdisjoint(job.nodes)]
    leaving = (gone[job.job_id].by_s for job in there if job.job_id in gone)
    return max(leaving, default=request.cluster.now_s)


def _preempt(
    request: Request,
    held: Reserve,
    leaving: list[tuple[Job, Method]],
    grace_s: float,
    candidates: tuple[Candidate, ...],
    *,
    by_price: bool,
    anyway_s: float = 0.0,
) -> Proposal:
    """The hold, and the preemption of these jobs. `by_price`: whether past evictions count in the order.
    `anyway_s`: when others have left the nodes.
    """
    now_s = request.cluster.now_s
    actions: list[Action] = [held]
    for job, method in leaving:
        wait_s = grace_s if method is Method.SYSTEM else 0.0
        actions.extend(eviction_actions(request, job, method, now_s + wait_s))
    named = ", ".join(job.job_id for job, _ in leaving)
    order = "the least overhead first" + (
        ", with lost work at its price after past evictions" if by_price else ""
    )
    warned = any(method is Method.SYSTEM for _, method in leaving)
    return Proposal(
        actions=tuple(actions),
        rationale=rationale(
            request,
            f"{needed(request)}: preempt {named}, {order}.",
            candidates=candidates,
            loss_node_s=preemption_overhead(leaving, now_s).lost_node_s,
            ready_s=max(request.releasing_s, anyway_s, now_s + (grace_s if warned else 0.0)),
        ),
    )


def _preemption(group: VictimGroup, *, now_s: float, grace_s: float) -> Preemption:
    methods = tuple(way_out(job, grace_s) for job in group.jobs)
    overhead = preemption_overhead(zip(group.jobs, methods, strict=True), now_s)
    return Preemption(group=group, overhead=overhead, methods=methods)


def way_out(job: Job, grace_s: float) -> Method:
    """Malleable jobs are warned if they can checkpoint in time; all other jobs are killed (section III-A)."""
    duration_s = None if job.checkpoint is None else job.checkpoint.system_s
    if job.kind is JobKind.MALLEABLE and duration_s is not None and duration_s <= grace_s:
        return Method.SYSTEM
    return Method.KILL


def _preemption_candidates(
    considered: tuple[VictimGroup, ...],
    ranked: list[Preemption],
    chosen: list[Preemption],
    grace_s: float,
    memo: Memo,
) -> tuple[Candidate, ...]:
    """The groups in the paper's order, then those that may not be preempted, with the reason."""
    taken = {preemption.group.job_ids for preemption in chosen}
    candidate = memo.for_each(("preempted", grace_s), partial(_candidate, grace_s=grace_s))
    found = [
        changed(candidate(one), chosen=True) if one.group.job_ids in taken else candidate(one)
        for one in ranked
    ]
    return (*found, *(stays(group) for group in considered if group.protected_by))


def _candidate(preemption: Preemption, *, grace_s: float) -> Candidate:
    """A preemption that is not chosen."""
    return Candidate(
        job_ids=preemption.group.job_ids,
        method=max(preemption.methods, key=lambda method: method is Method.SYSTEM),
        node_count=len(preemption.group.nodes),
        loss_node_s=preemption.overhead.lost_node_s,
        delay_s=grace_s if Method.SYSTEM in preemption.methods else 0.0,
        note=preemption.overhead.note,
    )


def _job_candidates(
    considered: SharedCandidates,
    ranked: list[Job],
    chosen: list[Job],
    overheads: Mapping[str, PreemptionOverhead],
    grace_s: float,
) -> tuple[Candidate, ...]:
    """The jobs in the paper's order, then those that may not be preempted, with the reason."""
    found: list[Candidate] = []
    for job in ranked:
        method, overhead = way_out(job, grace_s), overheads[job.job_id]
        found.append(
            Candidate(
                job_ids=(job.job_id,),
                method=method,
                node_count=considered.node_count(job),
                loss_node_s=overhead.lost_node_s,
                delay_s=grace_s if method is Method.SYSTEM else 0.0,
                chosen=job in chosen,
                note=overhead.note,
            )
        )
    return (*found, *considered.protected())


def shrink_or_preempt_at_arrival(request: Request, config: HybridConfig, memo: Memo) -> Proposal:
    """SPAA (section III-B-2): if shrinking malleable jobs supplies enough, shrink them evenly; else PAA.
    `memo`: what the same decision has worked out already.
    """
    if config.victims == "exact":
        return make_room(request, _exact(config, shrink=True), memo=memo)
    if request.urgent.job.demand is not None:
        return preempt_at_arrival(request, config, memo)
    considered = _groups(request, memo)
    supplies = _supplies(considered)
    supply = sum(len(spare) for _, spare in supplies.values())
    if supply < request.shortage:
        proposal = preempt_at_arrival(request, config, memo)
        supplied = f"Shrinking supplies {node_text(supply)} of {request.shortage}: too few."
        text = f"{supplied} {proposal.rationale.summary}"
        return replace(proposal, rationale=replace(proposal.rationale, summary=text))
    shares = spread_evenly({job_id: len(spare) for job_id, (_, spare) in supplies.items()}, request.shortage)
    freed: list[str] = []
    shrinks: list[Action] = []
    candidates: list[Candidate] = []
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
                note=f"could give {node_text(len(spare))}",
            )
        )
        if given:
            freed.extend(given)
            shrinks.append(shrink(request, job, frozenset(given)))
    return Proposal(
        actions=(hold(request, tuple(freed)), *shrinks),
        rationale=rationale(
            request,
            f"{needed(request)}: shrink {len(shrinks)} malleable jobs evenly, no work is lost.",
            candidates=tuple(candidates),
            ready_s=request.releasing_s,
        ),
    )


def _supplies(considered: Sequence[VictimGroup]) -> dict[str, tuple[Job, tuple[str, ...]]]:
    """The malleable jobs that may shrink, by id, each with the nodes that it can give."""
    return {
        group.job_ids[0]: (group.jobs[0], spare)
        for group in considered
        if not group.protected_by and (spare := spare_nodes(group))
    }
