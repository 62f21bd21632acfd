"""Which jobs use nodes that are held for an announced job until it arrives, and how these guests leave when
it does.

A waiting job is started on idle nodes of the hold by a hold of its own, which overlaps with it and ends at
the start. The announced job's hold does not change, so no other urgent job can choose its nodes, and nodes
that a guest uses count as ready. Jobs are considered in the order of the queue, and a job starts if enough
idle nodes are held.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B-1: "the nodes reserved
    for on-demand jobs can be used to backfill jobs", which "have to be preempted immediately" at the arrival.

Differs from the paper:
    The paper does not say which jobs these are: `backfill_held` chooses, by default jobs that lose no work.
    Only jobs that the site allows makeway to evict are started, each only once, and only if the site's
    minimum run time ends before the predicted arrival. A job gets held nodes only: it does not start if it
    also needs other idle nodes. At the arrival as many guests leave as are needed, the least overhead first
    (`hybrid.overhead`), and malleable ones are warned as in `hybrid.arrival`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from makeway.policies.common.proposals import eviction_actions
from makeway.policies.common.requests import Request
from makeway.policies.common.victims import take_until
from makeway.policies.hybrid.arrival import HybridConfig, way_out
from makeway.policies.hybrid.overhead import preemption_overhead
from makeway.policies.model import (
    Action,
    Cluster,
    Decision,
    Job,
    Method,
    Operation,
    OperationKind,
    Phase,
    Rationale,
    Reason,
    Release,
    Reserve,
)
from makeway.policies.queue.order import queue_key, waits_for_nodes
from makeway.policies.safety.protection import protection, start_protection


def evict_guests(request: Request, config: HybridConfig) -> Request:
    """The announced job has arrived: the guests on nodes that it needs leave before any other job."""
    if request.late or request.shortage <= 0 or not request.urgent.guests:
        return request
    now_s = request.cluster.now_s
    grace_s = min(config.warning_s, request.deadline_s - now_s)
    held = _useful_nodes(request)
    ranked = sorted(
        (
            job
            for job in request.urgent.guests
            if job.job_id not in request.excluded
            and not held.isdisjoint(job.nodes)
            and protection(job, request.cluster) is None
        ),
        key=lambda job: (
            preemption_overhead([(job, way_out(job, grace_s))], now_s).ranked_node_s,
            job.job_id,
        ),
    )
    gone, nodes = take_until(ranked, request.shortage, lambda job: filter(held.__contains__, job.nodes))
    actions: list[Action] = []
    ready_s = request.releasing_s
    for job in gone:
        method = way_out(job, grace_s)
        not_after_s = now_s + (grace_s if method is Method.SYSTEM else 0.0)
        actions.extend(eviction_actions(request, job, method, not_after_s))
        ready_s = max(ready_s, not_after_s)
    return replace(
        request,
        guest_nodes=tuple(nodes[: request.shortage]),
        guest_actions=tuple(actions),
        releasing_s=ready_s,
        unusable=request.unusable.union(nodes),
        excluded=request.excluded.union(job.job_id for job in gone),
    )


def _useful_nodes(request: Request) -> frozenset[str]:
    """The nodes of the hold that are up, would serve the job, and are not promised to another one. Where a
    guest shares a node with another job, the node is not free when the guest has left.
    """
    operation, eligible = request.urgent.operation, request.urgent.job.eligible_nodes
    held = frozenset(() if operation is None else operation.nodes).intersection(request.cluster.up_nodes())
    held -= request.cluster.shared_nodes()
    return (held if eligible is None else held & eligible) - request.unusable


def lend_held(cluster: Cluster, decided: Decision, config: HybridConfig) -> Decision:
    """Adds to a decision the jobs that start on idle nodes held for announced jobs (section III-B-1)."""
    releases = _cancelled_starts(cluster, decided.policy)
    loans = _loans(cluster, decided, config)
    if not releases and not loans:
        return decided
    return replace(
        decided,
        actions=(*releases, *decided.actions, *(loan.hold for loan in loans)),
        rationale=(*decided.rationale, *(loan.why for loan in loans)),
    )


def _cancelled_starts(cluster: Cluster, policy: str) -> list[Release]:
    """Releases the holds of jobs that have not started, on nodes whose announced job has arrived."""
    arrived = {
        operation.reservation
        for operation in cluster.operations
        if operation.kind is not OperationKind.NOTICE
    }
    return [
        Release(
            job_id=operation.for_job_id,
            for_job_id=operation.for_job_id,
            policy=policy,
            reason=Reason.GIVEN_UP,
            reservation=operation.reservation,
            own_reservation=operation.own_reservation,
        )
        for operation in cluster.operations
        if operation.kind is OperationKind.LEND_HELD
        and operation.phase is Phase.MAKING_ROOM
        and not operation.observe
        and not arrived.isdisjoint(operation.out_of)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loan:
    """One start on held nodes, and why."""

    hold: Reserve
    why: Rationale


@dataclass(frozen=True, slots=True, kw_only=True)
class _IdleHold:
    """The idle nodes of one hold."""

    names: tuple[str, ...]
    reservation: str
    expected_s: float
    """When the job for which they are held should arrive."""


def _loans(cluster: Cluster, decided: Decision, config: HybridConfig) -> list[_Loan]:
    """Waiting jobs in the order of the queue, each with idle nodes of the holds, while there are any."""
    wanted = config.backfill_held != "none" and any(_may_be_guest(job, cluster) for job in cluster.jobs)
    idle = _idle(cluster, decided) if wanted else []
    left = sum(len(held.names) for held in idle)
    if not left:
        return []
    served = {operation.for_job_id for operation in cluster.operations}
    queue = sorted(
        (
            job
            for job in cluster.jobs
            if job.node_count <= left and job.job_id not in served and _may_be_guest(job, cluster)
        ),
        key=queue_key,
    )
    loans: list[_Loan] = []
    taken: set[str] = set()
    for job in queue:
        if left - len(taken) < job.node_count:
            continue
        loan = _loan(cluster, job, idle, taken, decided.policy, config)
        if loan is not None:
            loans.append(loan)
            taken.update(loan.hold.nodes)
        if len(taken) == left:
            break
    return loans


def _may_be_guest(job: Job, cluster: Cluster) -> bool:
    """Whether a waiting job may start now, to be evicted at any time. A job that was requeued may not."""
    if not waits_for_nodes(job, cluster.now_s) or job.requeue_count:
        return False
    return start_protection(job, cluster) is None


def _idle(cluster: Cluster, decided: Decision) -> list[_IdleHold]:
    """The idle nodes of the holds that exist and that this decision does not change, the latest arrival
    first.
    """
    changed = {action.reservation for action in decided.actions if isinstance(action, Reserve | Release)}
    existing = {reservation.name: reservation for reservation in cluster.reservations}
    holds = [
        operation
        for operation in cluster.operations
        if operation.kind is OperationKind.NOTICE
        and operation.phase is Phase.MAKING_ROOM
        and not operation.observe
        and operation.reservation not in changed
        and operation.reservation in existing
    ]
    if not holds:
        return []
    sets = cluster.node_sets()
    own = {operation.reservation for operation in holds}
    others = [held.nodes for name, held in existing.items() if name not in own]
    others += [
        one.nodes
        for one in cluster.operations
        if one.phase is Phase.MAKING_ROOM and one.reservation not in own
    ]
    others += [action.nodes for action in decided.actions if isinstance(action, Reserve)]
    idle = sets.up & ~cluster.held_set()
    if idle:
        idle &= ~sets.union(others)
    found: list[_IdleHold] = []
    for operation in sorted(holds, key=_expected_s, reverse=True) if idle else ():
        kept = idle & sets.of(operation.nodes) & sets.of(existing[operation.reservation].nodes)
        if kept:
            found.append(
                _IdleHold(
                    names=sets.names(kept),
                    reservation=operation.reservation,
                    expected_s=_expected_s(operation),
                )
            )
    return found


def _expected_s(operation: Operation) -> float:
    return math.inf if operation.notice is None else operation.notice.expected_s


def _loan(
    cluster: Cluster,
    job: Job,
    idle: Sequence[_IdleHold],
    taken: set[str],
    policy: str,
    config: HybridConfig,
) -> _Loan | None:
    """Nodes for one job out of the idle ones. None: too few are suitable."""
    checkpoints = config.backfill_held == "any" or way_out(job, config.warning_s) is Method.SYSTEM
    least_s = cluster.limits.min_runtime_s if checkpoints else job.walltime_s
    eligible = job.eligible_nodes
    nodes: list[str] = []
    lenders: list[_IdleHold] = []
    for held in idle:
        if least_s and cluster.now_s + least_s > held.expected_s:
            continue
        fit = [name for name in held.names if name not in taken and (eligible is None or name in eligible)][
            : job.node_count - len(nodes)
        ]
        if fit:
            nodes += fit
            lenders.append(held)
    if len(nodes) < job.node_count:
        return None
    until_s = min(held.expected_s for held in lenders)
    hold = Reserve(
        job_id=job.job_id,
        for_job_id=job.job_id,
        policy=policy,
        reason=Reason.SPECULATIVE,
        reservation=cluster.hold_name(job.job_id),
        nodes=tuple(nodes),
        duration_s=job.walltime_s + config.hold_slack_s,
        kind=OperationKind.LEND_HELD,
        out_of=tuple(sorted(held.reservation for held in lenders)),
        own_reservation=cluster.own_reservation(job),
    )
    text = (
        f"Job {job.job_id} starts on {len(nodes)} idle nodes that are held for announced jobs, "
        f"and leaves when the first of these arrives, which is expected at {until_s:.0f} s."
    )
    why = Rationale(
        for_job_id=job.job_id,
        node_count=job.node_count,
        free_node_count=sum(len(held.names) for held in idle) - len(taken),
        deadline_s=until_s,
        summary=text,
    )
    return _Loan(hold=hold, why=why)
