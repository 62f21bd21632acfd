"""Which jobs CUP preempts before the predicted arrival of an announced job, how each leaves, and when.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B-1.

Differs from the paper:
    Jobs that have no regular checkpoint before the predicted arrival leave `warning_s` before it. In the
    order, the work that a kill loses has its price, which past evictions raise (`hybrid.overhead`). Where
    jobs share nodes, the nodes that are held already are preferred.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from makeway.policies.common.departures import ends_by
from makeway.policies.common.proposals import eviction_actions
from makeway.policies.common.requests import Request
from makeway.policies.common.shared_nodes import take_until_room
from makeway.policies.common.victims import (
    VictimGroup,
    leavers,
    shared_candidates,
    take_until,
    victim_groups,
)
from makeway.policies.hybrid.arrival import HybridConfig, way_out
from makeway.policies.hybrid.overhead import PreemptionOverhead, preemption_overhead
from makeway.policies.model import Action, Candidate, Job, Method, NodeSet, Reserve


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPreemption:
    """How a victim group leaves before a predicted arrival, at the least overhead, and when
    that begins.
    """

    group: VictimGroup
    methods: tuple[Method, ...]
    """One for each job of the group."""
    overhead: PreemptionOverhead
    issue_s: float
    """When the eviction is issued."""
    by_s: float
    """When the jobs must have left."""

    def actions(self, request: Request, held: Reserve) -> tuple[Action, ...]:
        """The evictions of its jobs that use nodes of the hold."""
        gone = leavers(self.group, held)
        return tuple(
            action
            for job, method in zip(self.group.jobs, self.methods, strict=True)
            if job in gone
            for action in eviction_actions(
                request, job, method, request.cluster.now_s if method is Method.KILL else self.by_s
            )
        )

    def candidate(self, *, chosen: bool) -> Candidate:
        """The preemption as a candidate of the rationale."""
        return Candidate(
            job_ids=self.group.job_ids,
            method=self.methods[0],
            node_count=len(self.group.nodes),
            loss_node_s=self.overhead.lost_node_s,
            delay_s=0.0,
            chosen=chosen,
            note=self.overhead.note,
        )


def preemptions(
    request: Request, config: HybridConfig, ending: frozenset[str], missing: int
) -> tuple[list[TimedPreemption], list[str], list[TimedPreemption]]:
    """Which jobs are preempted before the predicted arrival, the least overhead first, and the nodes that
    they make free; then all that could be.

    Where jobs share nodes, the nodes that are held already stay the choice as long as they will do. Which
    jobs have to leave for a node depends there on which other nodes are held: the holds of two announced jobs
    could change for ever.

    `ending`: nodes that are free by then anyway. `missing`: how many more are needed.
    """
    cluster, unusable = request.cluster, request.unusable.union(ending)
    operation = request.urgent.operation
    if operation is not None and cluster.shared_nodes():
        own = _among(
            request, config, unusable.union(cluster.up_nodes().keys() - set(operation.nodes)), missing
        )
        if len(own[1]) >= missing:
            return own
    return _among(request, config, unusable, missing)


def _among(
    request: Request, config: HybridConfig, unusable: NodeSet | frozenset[str], missing: int
) -> tuple[list[TimedPreemption], list[str], list[TimedPreemption]]:
    """As `preemptions`, on the nodes that are not unusable."""
    cluster, demand = request.cluster, request.urgent.job.demand
    if demand is None:
        groups = victim_groups(cluster, request.urgent, unusable=unusable, excluded=request.excluded)
        ranked = _ranked(groups, request, config)
        return (*take_until(ranked, missing, lambda preemption: preemption.group.nodes), ranked)
    expected_s = request.deadline_s
    considered = shared_candidates(
        cluster,
        request.urgent,
        unusable=unusable.union(request.free),
        excluded=request.excluded,
        latest_s=expected_s,
        ending=ends_by(cluster, expected_s),
    )
    ranked = _ranked(considered.groups(cluster), request, config)
    jobs, freed = take_until_room(
        (preemption.group.jobs[0] for preemption in ranked), considered, cluster, demand, missing
    )
    return [preemption for preemption in ranked if preemption.group.jobs[0] in jobs], freed, ranked


def _ranked(groups: Iterable[VictimGroup], request: Request, config: HybridConfig) -> list[TimedPreemption]:
    """The groups that may be preempted, the least overhead first."""
    return sorted(
        (_timed_preemption(group, request, config) for group in groups if not group.protected_by),
        key=lambda preemption: (preemption.overhead.ranked_node_s, preemption.group.job_ids),
    )


def _timed_preemption(group: VictimGroup, request: Request, config: HybridConfig) -> TimedPreemption:
    """After the last regular checkpoint before the predicted arrival, else by a warning or a kill shortly
    before it.
    """
    now_s, expected_s = request.cluster.now_s, request.deadline_s
    if group.application_s is not None and now_s + group.application_s <= expected_s:
        next_s = now_s + group.application_s
        period_s = _period_s(group.jobs[0])
        return TimedPreemption(
            group=group,
            methods=(Method.APPLICATION,),
            overhead=preemption_overhead([(group.jobs[0], Method.APPLICATION)], now_s),
            # The job may go on until the next checkpoint is the last one before the arrival.
            issue_s=now_s if next_s + period_s > expected_s else next_s,
            by_s=expected_s,
        )
    issue_s = max(now_s, expected_s - config.warning_s)
    # A cycle may be late: the job gets its whole warning all the same.
    methods = tuple(way_out(job, config.warning_s) for job in group.jobs)
    warned = Method.SYSTEM in methods
    return TimedPreemption(
        group=group,
        methods=methods,
        overhead=preemption_overhead(zip(group.jobs, methods, strict=True), issue_s),
        issue_s=issue_s,
        by_s=max(expected_s, issue_s + config.warning_s) if warned else expected_s,
    )


def _period_s(job: Job) -> float:
    """From one regular checkpoint of the job to the next."""
    spec = job.checkpoint
    return math.inf if spec is None else (spec.interval_s or 0.0) + (spec.application_s or 0.0)
