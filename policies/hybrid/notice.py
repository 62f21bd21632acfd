"""What the mechanisms of P5 do from the notice of an on-demand job until it arrives: CUA and CUP.

Free nodes are held at once, for the earliest notice first. Under CUA, the earliest notice that lacks nodes
then also holds every busy node, so that nodes which a finished job releases stay with it; once it has enough,
it keeps only these. CUP holds as many nodes as it needs: nodes whose jobs end by their time limits before the
predicted arrival, and nodes of jobs that it preempts by then, as late as their checkpoints allow. A held node
that a job still uses is not promised: an urgent job that has arrived may get it.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B-1.

Differs from the paper:
    The collected nodes are held by a reservation, which may contain busy nodes. For CUP's order of jobs, see
    `hybrid.preempting`. CUP evicts jobs that have no regular checkpoint before the predicted arrival
    `warning_s` before it, and no job if it cannot get enough nodes by then.
"""

from collections.abc import Callable
from dataclasses import dataclass

from makeway.policies.common.commitments import Commitments
from makeway.policies.common.holds import lost_for_good, site_begins_s
from makeway.policies.common.proposals import hold
from makeway.policies.common.requests import Request, node_text, rationale, request_for
from makeway.policies.common.urgent_jobs import UrgentJob
from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.hybrid.node_times import end_times_s, taken_nodes
from makeway.policies.hybrid.overhead import preemption_overhead
from makeway.policies.hybrid.preempting import TimedPreemption, preemptions
from makeway.policies.model import (
    Action,
    Cluster,
    Decision,
    Job,
    JobKind,
    JobState,
    NodeSet,
    Notice,
    Operation,
    OperationKind,
    Phase,
    Rationale,
    Reason,
    Release,
    Reserve,
    changed,
    memoise_each,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPlan:
    """The busy nodes that are to be held for a notice, and the jobs that have to leave now."""

    nodes: tuple[str, ...] = ()
    """Nodes that jobs still use."""
    leaving: tuple[TimedPreemption, ...] = ()
    ranked: tuple[TimedPreemption, ...] = ()
    """The jobs that could be made to leave, in the order in which they are considered."""
    chosen: tuple[TimedPreemption, ...] = ()
    """Those of them that are to leave, now or later."""
    text: str
    again_s: float | None = None
    """When the next job will have to leave. None: no further job has to."""


Collect = Callable[[Request, HybridConfig, bool], HoldPlan]
"""What one mechanism wants for a notice that lacks nodes; the flag: no earlier notice lacks nodes."""


def collect_each(cluster: Cluster, served: Decision, collect: Collect, config: HybridConfig) -> Decision:
    """Hold nodes for every announced job, the earliest notice first (section III-B-1).

    Args:
        cluster: the snapshot.
        served: the decision for the urgent jobs that have arrived, which come first.
        collect: the mechanism.
        config: its settings.
    """
    waiting = [notice for notice in cluster.notices if notice.job_id is None]
    if not waiting:
        return served
    waiting.sort(key=lambda notice: (notice.announced_s, notice.notice_id))
    operations, sets = cluster.operations_by_job(), cluster.node_sets()
    commitments, first = Commitments(cluster=cluster), True
    commitments.add(served.actions)
    before, after, reasons = list[Action](), list[Action](), list[Rationale]()
    instants = [] if served.again_s is None else [served.again_s]
    for notice in waiting:
        operation = operations.get(notice.notice_id)
        if operation is not None and not _collecting(operation):
            continue
        if operation is not None and _has_all(operation, notice, commitments):
            commitments.promise(operation.nodes)
            continue
        duration_s = _from_now_s(notice, cluster) + notice.walltime_s + config.hold_slack_s
        unusable = taken_nodes(commitments, operation, cluster.now_s + duration_s)
        if operation is None and not sets.up & ~unusable.bits:
            first = False  # it lacks nodes, and there is none that it could have now or later
            continue
        request = _request(commitments, notice, operation, served.policy, duration_s, unusable)
        plan = HoldPlan(text="Enough nodes are free.")
        if request.shortage > 0:
            plan = collect(request, config, first)
            first = False
        if operation is not None and commitments.nodes & sets.of(operation.nodes):
            plan = _without_evictions(plan)
        actions = _promise(commitments, request, plan, notice, config)
        (after if plan.leaving else before).extend(actions)
        if actions:
            reasons.append(_why(request, plan))
        if plan.again_s is not None:
            instants.append(plan.again_s)
    # Nodes that a notice gives up for a job that has arrived must be released first.
    return Decision(
        policy=served.policy,
        actions=(*before, *served.actions, *after),
        rationale=(*served.rationale, *reasons),
        again_s=min(instants, default=None),
    )


def _promise(
    commitments: Commitments, request: Request, plan: HoldPlan, notice: Notice, config: HybridConfig
) -> tuple[Action, ...]:
    """The actions for one notice: its hold if it changes, or its release, and the evictions. Records the
    promise.
    """
    operation = request.urgent.operation
    if operation is not None and not plan.leaving and _is_as_held(request, plan, operation):
        commitments.promise(operation.nodes)
        return ()
    held = _hold(request, plan, notice, config)
    actions: list[Action] = [held] if held.nodes else []
    if operation is not None and not held.nodes:
        actions = [_release(operation, held)]
    for preemption in plan.leaving:
        actions.extend(preemption.actions(request, held))
    commitments.promise(held.nodes)
    commitments.add(tuple(actions))
    return tuple(actions)


def collect_released(request: Request, config: HybridConfig, first: bool) -> HoldPlan:
    """CUA (section III-B-1): every released node goes to the earliest notice, until it has enough."""
    del config
    if not first:
        return HoldPlan(text="An earlier notice lacks nodes: what is free is held.")
    # On shared nodes, a node that is neither usable nor free has too little room.
    sets, demand = request.cluster.node_sets(), request.urgent.job.demand
    without_room = request.cluster.held_set() if demand is None else ~sets.of(request.free)
    known = sets.of_any(request.unusable) | sets.of(request.releasing) | sets.of(request.urgent.kept_nodes)
    return HoldPlan(
        nodes=sets.names(sets.up & without_room & ~known),
        text=f"{node_text(request.shortage, 'more ')} will be collected as jobs end.",
    )


def prepare(request: Request, config: HybridConfig, first: bool) -> HoldPlan:
    """CUP (section III-B-1): have the nodes ready at the predicted arrival, preempting as many jobs as
    necessary.
    """
    del first
    cluster, expected_s = request.cluster, request.deadline_s
    own = frozenset(() if request.urgent.operation is None else request.urgent.operation.nodes)
    ends_s = end_times_s(request, expected_s)
    ending = tuple(sorted(ends_s, key=lambda name: (name not in own, ends_s[name])))[: request.shortage]
    missing = request.shortage - len(ending)
    if missing <= 0 or cluster.now_s > expected_s:
        return HoldPlan(
            nodes=ending, text=f"{node_text(len(ending))} will come free before the predicted arrival."
        )
    chosen, freed, ranked = preemptions(request, config, frozenset(ending), missing)
    if len(freed) < missing:
        return HoldPlan(
            nodes=ending, text=f"It lacks {node_text(missing)}; the preemptable jobs have {len(freed)}."
        )
    due = tuple(preemption for preemption in chosen if preemption.issue_s <= cluster.now_s)
    return HoldPlan(
        nodes=(*ending, *freed[:missing]),
        leaving=due,
        ranked=tuple(ranked),
        chosen=tuple(chosen),
        text=f"By the predicted arrival {node_text(len(ending))} come free, and {missing} will be made free.",
        again_s=min((one.issue_s for one in chosen if one.issue_s > cluster.now_s), default=None),
    )


def _collecting(operation: Operation) -> bool:
    return (
        operation.kind is OperationKind.NOTICE
        and operation.phase is Phase.MAKING_ROOM
        and not operation.observe
    )


def _has_all(operation: Operation, notice: Notice, commitments: Commitments) -> bool:
    """True if the hold has exactly the nodes wanted, all usable and unclaimed."""
    return (
        len(operation.nodes) == notice.node_count
        and not commitments.nodes & commitments.cluster.node_sets().of(operation.nodes)
        and not lost_for_good(operation, commitments.cluster)
    )


def _request(
    commitments: Commitments,
    notice: Notice,
    operation: Operation | None,
    policy: str,
    duration_s: float,
    unusable: NodeSet,
) -> Request:
    """The request of a notice: the usable nodes that it holds, and nodes that are or come free."""
    cluster = commitments.cluster
    good: tuple[str, ...] = ()
    if operation is not None:
        gone = lost_for_good(operation, cluster) | commitments.nodes
        good = cluster.node_sets().among(operation.nodes, ~gone)
    return request_for(
        commitments,
        UrgentJob(
            job=_announced_job(notice),
            operation=operation,
            kept_nodes=good[: notice.node_count],
            announced=True,
        ),
        policy,
        notice.expected_s,
        duration_s,
        unusable=unusable,
    )


def _from_now_s(notice: Notice, cluster: Cluster) -> float:
    """How long it is until the predicted arrival. 0: it is over."""
    return max(0.0, notice.expected_s - cluster.now_s)


@memoise_each
def _announced_job(notice: Notice) -> Job:
    """The job of an announcement, as one that waits."""
    return Job(
        job_id=notice.notice_id,
        kind=JobKind.ON_DEMAND,
        state=JobState.PENDING,
        node_count=notice.node_count,
        walltime_s=notice.walltime_s,
        submit_s=notice.announced_s,
        user=notice.user,
        demand=notice.demand,
    )


def _hold(request: Request, plan: HoldPlan, notice: Notice, config: HybridConfig) -> Reserve:
    """The hold for a notice; it ends by itself soon after the predicted arrival."""
    held, now_s = hold(request, ()), request.cluster.now_s
    nodes = request.cluster.node_sets().joined(held.nodes, plan.nodes)
    duration_s = _from_now_s(notice, request.cluster) + config.hold_slack_s
    return changed(
        held,
        nodes=nodes,
        duration_s=duration_s,
        until_s=site_begins_s(request.cluster, nodes, now_s + duration_s),
        user=notice.user,
        kind=OperationKind.NOTICE,
    )


def _release(operation: Operation, held: Reserve) -> Release:
    """Releases a hold that has no nodes left: other jobs need them, or they are down."""
    return Release(
        job_id=held.job_id,
        for_job_id=held.for_job_id,
        policy=held.policy,
        reason=Reason.SHORTFALL,
        reservation=operation.reservation,
    )


def _without_evictions(plan: HoldPlan) -> HoldPlan:
    """The plan of a notice that has to give up nodes to another job first: no job is evicted for it yet."""
    if not plan.leaving:
        return plan
    freed = {name for preemption in plan.leaving for name in preemption.group.nodes}
    return changed(plan, nodes=tuple(name for name in plan.nodes if name not in freed), leaving=())


def _is_as_held(request: Request, plan: HoldPlan, operation: Operation) -> bool:
    """Whether the hold of a notice has just the nodes that it is to have, and any at all."""
    sets = request.cluster.node_sets()
    wanted = sets.union((request.urgent.kept_nodes, request.free, request.releasing, plan.nodes))
    return wanted != 0 and wanted == sets.of(operation.nodes)


def _why(request: Request, plan: HoldPlan) -> Rationale:
    leaving = [
        (job, method)
        for preemption in plan.leaving
        for job, method in zip(preemption.group.jobs, preemption.methods, strict=True)
    ]
    lost_node_s = preemption_overhead(leaving, request.cluster.now_s).lost_node_s
    chosen = {preemption.group.job_ids for preemption in plan.chosen}
    candidates = tuple(one.candidate(chosen=one.group.job_ids in chosen) for one in plan.ranked)
    return rationale(request, plan.text, candidates=candidates, loss_node_s=lost_node_s)
