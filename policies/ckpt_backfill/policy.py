"""Policy "ckpt-backfill": waiting jobs start before their turn on idle nodes, and leave when the queue's
first job is due.

The cluster's scheduler backfills by time limits, which users set far too long. This policy adds starts that
the scheduler does not make: a job that can checkpoint starts if a share `p` of its time limit fits before the
start that is foreseen for the first of the queue, or if it uses none of that job's nodes. When the first of
the queue is due and such jobs still use its nodes, the nodes are held for it, and the largest of these jobs
checkpoint and go back to the front of the queue.

Reference:
    Niu et al., "Employing Checkpoint to Improve Job Scheduling in Large-Scale Systems" (JSSPP 2012), section
    3.3, Algorithms 1 to 3, and section 5.1.

Differs from the paper:
    The cluster's scheduler goes on working: jobs that it starts by itself are not predicted, and no time
    limit is shortened (see also `ckpt_backfill.outlook`). A job is started by a hold on idle nodes; an
    eviction follows a hold for the first job of the queue. No job starts early in a cycle in which that job
    is due. The paper has no urgent jobs: here a job passes a waiting urgent job only if it is also over
    before the start that the urgent job would have if no other job were ahead of it. Jobs that cannot
    checkpoint do not start early, and a job that starts early may use idle nodes that the scheduler would
    have given to one of them. Urgent jobs get no precedence: a site whose urgent jobs must start in time
    needs another policy. Where the first of the queue needs a part of its nodes, jobs leave one by one until
    there is room; a job starts early on idle nodes only.
"""

import math
from collections.abc import Sequence

from makeway.policies.ckpt_backfill.early_starts import hold_for_head, start_early, why
from makeway.policies.ckpt_backfill.outlook import (
    NAME,
    CkptBackfillConfig,
    Outlook,
    WaitingJob,
    may_leave,
    outlook,
    waiting_jobs,
)
from makeway.policies.common.departures import committed, evict_for
from makeway.policies.common.losses import system_s
from makeway.policies.common.requests import node_text
from makeway.policies.common.shared_nodes import take_until_room
from makeway.policies.common.urgent_jobs import UrgentJob, unavailable_nodes
from makeway.policies.common.victims import (
    SharedCandidates,
    VictimGroup,
    leavers,
    shared_candidates,
    stays,
    take_until,
    victim_groups,
)
from makeway.policies.contract import Policy
from makeway.policies.model import (
    Action,
    Candidate,
    Cluster,
    Decision,
    Job,
    JobState,
    Method,
    Operation,
    OperationKind,
    Phase,
    Rationale,
    Reason,
    Reserve,
)
from makeway.policies.safety.prices import loss_node_s, node_equivalents


def decide(cluster: Cluster, config: CkptBackfillConfig) -> Decision:
    """Make way for the first of the queue if it is due (Algorithm 3), else start jobs that fit before it
    (Algorithm 1).
    """
    finished = _finish_holds(cluster, config)
    if finished.actions:
        return finished
    queue = waiting_jobs(cluster)
    for index, head in enumerate(queue):
        view = outlook(cluster, head, config)
        if math.isinf(view.shadow_time_s):
            continue  # it can never start as things are: nothing delays it
        if len(view.free) >= head.job.node_count:
            break  # the cluster's scheduler starts it
        if view.shadow_time_s <= cluster.now_s:
            return _make_way(cluster, head.job, view, config)
        if head.promised_s <= cluster.now_s:
            return _hold_for(cluster, head.job, view, config)
        return start_early(cluster, head, [other.job for other in queue[index + 1 :]], view, config)
    return Decision(policy=NAME)


def _make_way(cluster: Cluster, head: Job, view: Outlook, config: CkptBackfillConfig) -> Decision:
    """Algorithm 3: the first job is due; the largest jobs that passed it leave until it has its nodes."""
    urgent = UrgentJob(job=head)
    duration_s = head.walltime_s + config.hold_slack_s
    overdue = {job_id for job_id, from_s in view.leaving.items() if from_s <= cluster.now_s}
    unusable = unavailable_nodes(cluster, urgent, until_s=cluster.now_s + duration_s)
    excluded = {job.job_id for job in cluster.holders()} - overdue
    if head.demand is not None:
        shared = shared_candidates(
            cluster,
            urgent,
            unusable=unusable.union(view.free),
            excluded=excluded,
            latest_s=cluster.now_s,
        )
        needed = head.node_count - len(view.free)
        jobs, room = take_until_room(_largest_first(shared), shared, cluster, head.demand, needed)
        if len(room) < needed:
            return Decision(policy=NAME)  # other jobs are leaving: there will soon be room
        hold = hold_for_head(
            cluster, head, (*view.free, *room)[: head.node_count], duration_s + _longest_s(jobs)
        )
        return _evict(cluster, head, view, hold, jobs, _shared_candidates(cluster, shared, jobs))
    considered = victim_groups(cluster, urgent, unusable=unusable, excluded=excluded)
    ranked = sorted(
        (group for group in considered if not group.protected_by),
        key=lambda group: (-len(group.nodes), group.job_ids),
    )
    chosen, freed = take_until(ranked, head.node_count - len(view.free), lambda group: group.nodes)
    nodes = (*view.free, *freed)
    if len(nodes) < head.node_count:
        return Decision(policy=NAME)  # other jobs are leaving their nodes, which will soon be free
    longest_s = _longest_s([job for group in chosen for job in group.jobs])
    hold = hold_for_head(cluster, head, nodes[: head.node_count], duration_s + longest_s)
    victims = [job for group in chosen for job in leavers(group, hold)]
    leaving = {job.job_id for job in victims}
    candidates = tuple(_candidate(group, leaving) for group in considered)
    return _evict(cluster, head, view, hold, victims, candidates)


def _evict(
    cluster: Cluster,
    head: Job,
    view: Outlook,
    hold: Reserve,
    victims: list[Job],
    candidates: tuple[Candidate, ...],
) -> Decision:
    """The hold for the first of the queue, and the evictions."""
    return Decision(
        policy=NAME,
        actions=(hold, *_evictions(cluster, head, victims)),
        rationale=(_why_evicted(cluster, head, len(view.free), candidates, victims),),
    )


def _largest_first(considered: SharedCandidates) -> list[Job]:
    """The jobs that may leave shared nodes, those with the largest share of nodes first."""
    able = (job for job in considered.jobs if job.job_id not in considered.protected_by)
    return sorted(able, key=lambda job: (-node_equivalents(job), job.job_id))


def _longest_s(jobs: Sequence[Job]) -> float:
    """How long the job with the most time to checkpoint has."""
    return max((_grace_s(job) for job in jobs), default=0.0)


def _shared_candidates(
    cluster: Cluster, considered: SharedCandidates, victims: list[Job]
) -> tuple[Candidate, ...]:
    """The jobs on shared nodes that may leave, then those that may not."""
    able = tuple(
        Candidate(
            job_ids=(job.job_id,),
            method=Method.KILL if system_s(job) is None else Method.SYSTEM,
            node_count=considered.node_count(job),
            loss_node_s=loss_node_s(job, cluster.now_s) if system_s(job) is None else 0,
            delay_s=system_s(job) or 0.0,
            chosen=job in victims,
        )
        for job in _largest_first(considered)
    )
    return (*able, *considered.protected())


def _hold_for(cluster: Cluster, head: Job, view: Outlook, config: CkptBackfillConfig) -> Decision:
    """The promised start has passed and jobs that may not be evicted use the nodes: hold those that are free
    first.
    """
    barred = unavailable_nodes(cluster, UrgentJob(job=head), until_s=cluster.now_s + head.walltime_s)
    ready = sorted(
        (at_s, index, name) for index, (name, at_s) in enumerate(view.ready_s.items()) if name not in barred
    )
    first = ready[: head.node_count]
    if len(first) < head.node_count:
        return Decision(policy=NAME)
    last_s = first[-1][0]
    hold = hold_for_head(
        cluster,
        head,
        tuple(name for _, _, name in first),
        last_s - cluster.now_s + head.walltime_s + config.hold_slack_s,
    )
    text = "It is the first of the queue and its start is overdue: it gets the nodes that come free first."
    return Decision(policy=NAME, actions=(hold,), rationale=(why(head, view, last_s, text),))


def _finish_holds(cluster: Cluster, config: CkptBackfillConfig) -> Decision:
    """Evict the jobs on nodes that are held for an overdue job, as soon as all of them may be evicted."""
    jobs = cluster.jobs_by_id()
    actions: list[Action] = []
    reasons: list[Rationale] = []
    for operation in cluster.operations:
        head = jobs.get(operation.for_job_id)
        if head is None or head.state is not JobState.PENDING or not _holds_for_head(operation):
            continue
        left = _in_the_way(cluster, head, operation, config)
        if left:
            actions.extend(_evictions(cluster, head, left))
            reasons.append(_why_evicted(cluster, head, 0, (), left))
    return Decision(policy=NAME, actions=tuple(actions), rationale=tuple(reasons))


def _in_the_way(cluster: Cluster, head: Job, operation: Operation, config: CkptBackfillConfig) -> list[Job]:
    """The jobs that have to leave held nodes now; empty as long as one of them may not be evicted yet."""
    held = frozenset(operation.nodes)
    left = sorted(
        (job for job in cluster.holders() if not held.isdisjoint(job.nodes)), key=lambda job: job.job_id
    )
    busy = committed(cluster)
    leaving = may_leave(cluster, WaitingJob(job=head, promise=operation), config)
    able = [
        job for job in left if leaving.get(job.job_id, math.inf) <= cluster.now_s and job.job_id not in busy
    ]
    if head.demand is None:
        return able if len(able) == len(left) else []
    others = frozenset(cluster.up_nodes()) - held
    candidates = shared_candidates(
        cluster, UrgentJob(job=head), unusable=others, excluded=busy, latest_s=cluster.now_s
    )
    chosen, nodes = take_until_room(able, candidates, cluster, head.demand, len(held))
    return chosen if len(nodes) == len(held) else []


def _holds_for_head(operation: Operation) -> bool:
    """Whether the operation holds nodes for an overdue first job of the queue that has not started."""
    return (
        operation.phase is Phase.MAKING_ROOM
        and operation.kind is OperationKind.QUEUE_HEAD
        and not operation.observe
        and bool(operation.nodes)
    )


def _evictions(cluster: Cluster, head: Job, victims: Sequence[Job]) -> list[Action]:
    """The actions by which these jobs checkpoint, if they can, and leave."""
    actions: list[Action] = []
    for job in victims:
        actions.extend(
            evict_for(
                job,
                Method.KILL if system_s(job) is None else Method.SYSTEM,
                for_job_id=head.job_id,
                policy=NAME,
                reason=Reason.HEAD_DUE,
                now_s=cluster.now_s,
                not_after_s=cluster.now_s + _grace_s(job),
            )
        )
    return actions


def _grace_s(job: Job) -> float:
    """How long a job has to checkpoint: its own grace, and never less than its checkpoint takes."""
    duration_s = system_s(job)
    return 0.0 if duration_s is None or job.checkpoint is None else max(job.checkpoint.grace_s, duration_s)


def _why_evicted(
    cluster: Cluster, head: Job, free_count: int, candidates: tuple[Candidate, ...], victims: Sequence[Job]
) -> Rationale:
    """Why these jobs leave for the first job of the queue."""
    slowest_s = max((system_s(job) or 0.0 for job in victims), default=0.0)
    lost_node_s = sum(loss_node_s(job, cluster.now_s) for job in victims if system_s(job) is None)
    named = ", ".join(f"{job.job_id} ({node_text(len(job.nodes))})" for job in victims)
    return Rationale(
        for_job_id=head.job_id,
        node_count=head.node_count,
        free_node_count=free_count,
        deadline_s=cluster.now_s + slowest_s,
        summary=(
            f"Job {head.job_id}, first of the queue, is due, and jobs that passed it use its nodes: "
            f"{named} leave, the largest first."
        ),
        candidates=candidates,
        loss_node_s=lost_node_s,
        ready_s=cluster.now_s + slowest_s,
    )


def _candidate(group: VictimGroup, leaving: set[str]) -> Candidate:
    if group.protected_by:
        return stays(group)
    return Candidate(
        job_ids=group.job_ids,
        method=Method.KILL if group.system_s is None else Method.SYSTEM,
        node_count=len(group.nodes),
        loss_node_s=group.loss_node_s if group.system_s is None else 0,
        delay_s=group.system_s or 0.0,
        chosen=not leaving.isdisjoint(group.job_ids),
    )


CKPT_BACKFILL = Policy(
    name=NAME,
    summary="Start waiting jobs before their turn; checkpoint them when the queue's first job is due (P3).",
    config_type=CkptBackfillConfig,
    decide=decide,
    shares_nodes=True,
    learns=True,
    arrivals_only=False,
)
