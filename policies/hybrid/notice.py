"""What the mechanisms of P5 do from the notice of an on-demand job until it arrives: CUA and CUP.

What is free is held at once, for the earliest notice first. CUA then spreads a net: as long as nodes are missing, the
earliest notice that lacks some holds every busy node too, so that whatever a finished job releases stays; once it has
enough it keeps these alone. CUP holds as many nodes as it needs: those that come free by the time limits of their jobs
before the predicted arrival, and those of jobs that it preempts by then, as late as their checkpoints allow.
Nodes on which somebody else still is are promised to nobody: a job that is here may have them.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B-1.

Differs from the paper:
    What is collected is held by a reservation, which works on busy nodes as well. CUP asks the jobs without a regular
    checkpoint before the predicted arrival `warning_s` before it, and nobody if it cannot have enough nodes by then.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from makeway.policies.common.commitments import Commitments
from makeway.policies.common.holds import lost_for_good
from makeway.policies.common.losses import loss_node_s
from makeway.policies.common.proposals import eviction_actions, hold
from makeway.policies.common.requests import Request, rationale, request_for
from makeway.policies.common.urgent_jobs import UrgentJob
from makeway.policies.common.victims import VictimGroup, leavers, take_until, victim_groups
from makeway.policies.hybrid.arrival import HybridConfig, way_out
from makeway.policies.model import (
    Action,
    Candidate,
    Cluster,
    Decision,
    Job,
    JobKind,
    JobState,
    Method,
    Notice,
    Operation,
    OperationKind,
    Phase,
    Rationale,
    Reason,
    Release,
    Reserve,
    memoise_last,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPlan:
    """What is to be held for a notice beyond the nodes that nobody is on, and who has to leave now."""

    nodes: tuple[str, ...] = ()
    """Nodes on which somebody still is."""
    leaving: tuple["_Preemption", ...] = ()
    candidates: tuple[Candidate, ...] = ()
    text: str
    again_s: float | None = None
    """When somebody else will have to be asked to leave. None: nobody."""


Collect = Callable[[Request, HybridConfig, bool], HoldPlan]
"""What one mechanism wants for a notice that lacks nodes; the flag says that no earlier notice lacks any."""


def collect_each(cluster: Cluster, served: Decision, collect: Collect, config: HybridConfig) -> Decision:
    """Hold what there is for every announced job, the earliest notice first (section III-B-1).

    Args:
        cluster: the snapshot.
        served: what is decided for the urgent jobs that are here: theirs is the first choice.
        collect: the mechanism.
        config: its settings.
    """
    waiting = sorted(
        (notice for notice in cluster.notices if notice.job_id is None),
        key=lambda notice: (notice.announced_s, notice.notice_id),
    )
    if not waiting:
        return served
    operations = {operation.for_job_id: operation for operation in cluster.operations}
    commitments = Commitments(cluster=cluster)
    commitments.add(served.actions)
    first = True
    before: list[Action] = []
    after: list[Action] = []
    reasons: list[Rationale] = []
    instants = [] if served.again_s is None else [served.again_s]
    for notice in waiting:
        operation = operations.get(notice.notice_id)
        if operation is not None and not _collecting(operation):
            continue
        if operation is not None and _has_all(operation, notice, commitments):
            commitments.promise(operation.nodes)
            continue
        request = _ask(commitments, notice, operation, served.policy, config)
        plan = (
            HoldPlan(text="Enough nodes are free.")
            if request.shortage <= 0
            else collect(request, config, first)
        )
        first = first and request.shortage <= 0
        if operation is not None and not commitments.nodes.isdisjoint(operation.nodes):
            plan = _without_leavers(plan)
        held = _hold(request, plan, notice, config)
        actions: list[Action] = [held] if _changes(held, plan, operation) else []
        if operation is not None and not held.nodes:
            actions = [_release(operation, held)]
        for leave in plan.leaving:
            actions.extend(leave.actions(request, held))
        commitments.promise(held.nodes)
        commitments.add(tuple(actions))
        (after if plan.leaving else before).extend(actions)
        if actions:
            reasons.append(_why(request, plan))
        if plan.again_s is not None:
            instants.append(plan.again_s)
    # What a notice gives up for a job that is here must be given up first.
    return Decision(
        policy=served.policy,
        actions=(*before, *served.actions, *after),
        rationale=(*served.rationale, *reasons),
        again_s=min(instants, default=None),
    )


def collect_released(request: Request, config: HybridConfig, first: bool) -> HoldPlan:
    """CUA (section III-B-1): every node that is released goes to the earliest notice, until it has enough."""
    del config
    if not first:
        return HoldPlan(text="An earlier notice lacks nodes: what is free is held.")
    busy = request.cluster.held_nodes().difference(
        request.unusable, request.releasing, request.urgent.kept_nodes
    )
    return HoldPlan(
        nodes=tuple(filter(busy.__contains__, request.cluster.up_nodes())),
        text=f"{request.shortage} more nodes are collected as jobs end.",
    )


def prepare(request: Request, config: HybridConfig, first: bool) -> HoldPlan:
    """CUP (section III-B-1): have the nodes ready at the predicted arrival, preempting whom it takes by then."""
    del first
    cluster, expected_s = request.cluster, request.deadline_s
    own = frozenset(() if request.urgent.operation is None else request.urgent.operation.nodes)
    ends_s = _ends_s(request, expected_s)
    ending = tuple(sorted(ends_s, key=lambda name: (name not in own, ends_s[name])))[: request.shortage]
    missing = request.shortage - len(ending)
    if missing <= 0 or cluster.now_s > expected_s:
        return HoldPlan(nodes=ending, text=f"{len(ending)} nodes come free before the predicted arrival.")
    unusable = request.unusable | frozenset(ending)
    considered = victim_groups(cluster, request.urgent, unusable=unusable, excluded=request.excluded)
    ranked = sorted(
        (_departure(group, request, config) for group in considered if not group.protected_by),
        key=lambda leave: (leave.overhead_node_s, leave.group.job_ids),
    )
    chosen, freed = take_until(ranked, missing, lambda preemption: preemption.group.nodes)
    if len(freed) < missing:
        return HoldPlan(
            nodes=ending, text=f"{missing} more nodes are needed; all preemptable jobs have {len(freed)}."
        )
    due = tuple(leave for leave in chosen if leave.ask_s <= cluster.now_s)
    return HoldPlan(
        nodes=(*ending, *freed[:missing]),
        leaving=due,
        candidates=tuple(leave.candidate(chosen=leave in chosen) for leave in ranked),
        text=f"{len(ending)} nodes come free before the predicted arrival; {missing} are made free by then.",
        again_s=min((leave.ask_s for leave in chosen if leave not in due), default=None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Preemption:
    """How a bundle leaves before a predicted arrival, at the least overhead, and when it must be asked to."""

    group: VictimGroup
    methods: tuple[Method, ...]
    """One for each job of the bundle."""
    overhead_node_s: int
    ask_s: float
    by_s: float

    def actions(self, request: Request, held: Reserve) -> tuple[Action, ...]:
        """What is asked of its jobs, as far as they are on nodes which are held."""
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
        """For the record."""
        return Candidate(
            job_ids=self.group.job_ids,
            method=self.methods[0],
            node_count=len(self.group.nodes),
            loss_node_s=self.overhead_node_s,
            delay_s=0.0,
            chosen=chosen,
            note="loss is the preemption overhead: lost work and the setup",
        )


def _departure(group: VictimGroup, request: Request, config: HybridConfig) -> _Preemption:
    """Right after the last regular checkpoint before the predicted arrival, else warned or killed shortly before it."""
    now_s, expected_s = request.cluster.now_s, request.deadline_s
    setup_node_s = sum(math.ceil(job.setup_s * job.node_count) for job in group.jobs)
    if group.application_s is not None and now_s + group.application_s <= expected_s:
        next_s = now_s + group.application_s
        period_s = _period_s(group.jobs[0])
        return _Preemption(
            group=group,
            methods=(Method.APPLICATION,),
            overhead_node_s=setup_node_s,
            # Until it is the last one before the arrival that comes next, the job may go on.
            ask_s=now_s if next_s + period_s > expected_s else next_s,
            by_s=expected_s,
        )
    ask_s = max(now_s, expected_s - config.warning_s)
    # A cycle may be late: the warning is given in full all the same.
    methods = tuple(way_out(job, config.warning_s) for job in group.jobs)
    warned = Method.SYSTEM in methods
    lost_node_s = sum(
        loss_node_s(job, ask_s)
        for job, method in zip(group.jobs, methods, strict=True)
        if method is Method.KILL
    )
    return _Preemption(
        group=group,
        methods=methods,
        overhead_node_s=setup_node_s + lost_node_s,
        ask_s=ask_s,
        by_s=max(expected_s, ask_s + config.warning_s) if warned else expected_s,
    )


def _period_s(job: Job) -> float:
    """From one regular checkpoint of the job to the next."""
    spec = job.checkpoint
    return math.inf if spec is None else (spec.interval_s or 0.0) + (spec.application_s or 0.0)


def _collecting(operation: Operation) -> bool:
    return (
        operation.kind is OperationKind.NOTICE
        and operation.phase is Phase.MAKING_ROOM
        and not operation.observe
    )


def _has_all(operation: Operation, notice: Notice, commitments: Commitments) -> bool:
    """Whether exactly the nodes that the notice wants are held, good and nobody else's: nothing is to be done."""
    return (
        len(operation.nodes) == notice.node_count
        and commitments.nodes.isdisjoint(operation.nodes)
        and not lost_for_good(operation, commitments.cluster)
    )


def _ask(
    commitments: Commitments, notice: Notice, operation: Operation | None, policy: str, config: HybridConfig
) -> Request:
    """What there is for a notice: the nodes that it holds and nobody is on, and those that are or come free."""
    cluster = commitments.cluster
    lost = set() if operation is None else set(lost_for_good(operation, cluster))
    held = () if operation is None else operation.nodes
    good = tuple(name for name in held if name not in lost and name not in commitments.nodes)
    duration_s = max(0.0, notice.expected_s - cluster.now_s) + notice.walltime_s + config.hold_slack_s
    job = Job(
        job_id=notice.notice_id,
        kind=JobKind.ON_DEMAND,
        state=JobState.PENDING,
        node_count=notice.node_count,
        walltime_s=notice.walltime_s,
        submit_s=notice.announced_s,
        user=notice.user,
    )
    return request_for(
        commitments,
        UrgentJob(job=job, operation=operation, kept_nodes=good[: notice.node_count], announced=True),
        policy,
        notice.expected_s,
        duration_s,
        unusable=_taken(commitments, operation, cluster.now_s + duration_s),
    )


def _hold(request: Request, plan: HoldPlan, notice: Notice, config: HybridConfig) -> Reserve:
    """The hold that is wanted; it ends by itself soon after the job should have come."""
    held = hold(request, ())
    return replace(
        held,
        nodes=(*held.nodes, *plan.nodes),
        duration_s=max(0.0, notice.expected_s - request.cluster.now_s) + config.hold_slack_s,
        user=notice.user,
        kind=OperationKind.NOTICE,
    )


def _release(operation: Operation, held: Reserve) -> Release:
    """Nothing is left to hold: a job that is here needs it, or it is down."""
    return Release(
        job_id=held.job_id,
        for_job_id=held.for_job_id,
        policy=held.policy,
        reason=Reason.SHORTFALL,
        reservation=operation.reservation,
    )


def _without_leavers(plan: HoldPlan) -> HoldPlan:
    """The plan of a notice that first has to give up nodes for somebody else: nobody is asked to leave for it yet."""
    freed = {name for leave in plan.leaving for name in leave.group.nodes}
    return replace(plan, nodes=tuple(name for name in plan.nodes if name not in freed), leaving=())


def _changes(held: Reserve, plan: HoldPlan, operation: Operation | None) -> bool:
    """Whether there is something to hold, and it is not held already."""
    present = () if operation is None else operation.nodes
    alike = present == held.nodes or frozenset(present) == frozenset(held.nodes)
    return bool(held.nodes) and (bool(plan.leaving) or not alike)


def _why(request: Request, plan: HoldPlan) -> Rationale:
    lost_node_s = sum(
        loss_node_s(job, request.cluster.now_s)
        for leave in plan.leaving
        for job, method in zip(leave.group.jobs, leave.methods, strict=True)
        if method is Method.KILL
    )
    return rationale(request, plan.text, candidates=plan.candidates, loss_node_s=lost_node_s)


def _ends_s(request: Request, until_s: float) -> dict[str, float]:
    """The busy nodes that nobody else is promised and that come free by `until_s`, with the last time limit on each."""
    up = request.cluster.up_nodes()
    unusable, own = request.unusable, frozenset(request.urgent.kept_nodes)
    shared = request.cluster.shared_nodes()
    ends_s: dict[str, float] = {}
    later = []
    for job in request.cluster.holders():
        end_s = math.inf if job.start_s is None else job.start_s + job.walltime_s
        if end_s > until_s:
            if shared:
                later.append(job.nodes)
        else:
            for name in job.nodes:
                if name in up and name not in unusable and name not in own:
                    ends_s[name] = max(end_s, ends_s.get(name, end_s))
    for name in frozenset().union(*later).intersection(ends_s):
        del ends_s[name]
    return dict(sorted(ends_s.items(), key=lambda item: (item[1], item[0])))


@memoise_last
def _holds(cluster: Cluster) -> tuple[Mapping[str, frozenset[str]], frozenset[str], frozenset[str]]:
    """What is held, by reservation; the nodes that anybody holds; those that more than one does."""
    told: dict[str, tuple[str, ...]] = {
        reservation.name: reservation.nodes
        for reservation in cluster.reservations
        if reservation.start_s <= cluster.now_s < reservation.end_s
    }
    for operation in cluster.operations:
        before = told.get(operation.reservation, ())
        if before != operation.nodes:
            told[operation.reservation] = before + operation.nodes
    held = {name: frozenset(nodes) for name, nodes in told.items()}
    once: set[str] = set()
    twice: set[str] = set()
    for nodes in held.values():
        twice |= once & nodes
        once |= nodes
    return held, frozenset(once), frozenset(twice)


def _taken(commitments: Commitments, operation: Operation | None, until_s: float) -> frozenset[str]:
    """The nodes that others hold or were promised, or that the site will hold before `until_s`.

    Even those that are promised to nobody are not there for another notice.
    """
    cluster = commitments.cluster
    held, once, twice = _holds(cluster)
    own = frozenset[str]() if operation is None else held.get(operation.reservation, frozenset())
    site = [
        reservation.nodes
        for reservation in cluster.reservations
        if not reservation.ours and cluster.now_s < reservation.start_s <= until_s
    ]
    return (once - own).union(twice & own, commitments.nodes, *site)
