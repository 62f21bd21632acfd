"""Policy "ckpt-backfill": waiting jobs start before their turn on idle nodes, and leave when the queue's first job is due.

The scheduler below backfills by time limits, which users set far too long. This policy adds the starts that it does not
make: a job that can checkpoint starts if a share `p` of its time limit fits before the start that is foreseen for the
first of the queue, or if it takes none of that job's nodes. When the first of the queue is due and such jobs are still
on its nodes, these are held for it, the largest of the jobs checkpoint and go back to the queue, at its front.

Reference:
    Niu et al., "Employing Checkpoint to Improve Job Scheduling in Large-Scale Systems" (JSSPP 2012), section 3.3,
    algorithms 1 to 3, and section 5.1.

Differs from the paper:
    The scheduler below goes on underneath: jobs that it starts by itself are not predicted, and no time limit is
    shortened (see also `ckpt_backfill_times`). A job is started by a hold over idle nodes, an eviction comes after a
    hold for the queue's first job. A cycle in which that job is due starts nobody. The paper has no urgent jobs: here
    nobody passes one that waits unless it fits before that job's start, too, were the others ahead of it not there.
    Jobs that cannot checkpoint do not start early, and those that do may take idle nodes that a later one of the former
    would have got by the scheduler's own backfill. Urgent jobs get no precedence: those that must start in time want
    another policy.
"""

import math
from dataclasses import dataclass
from itertools import islice

from makeway.policies.ckpt_backfill.outlook import (
    CkptBackfillConfig,
    Outlook,
    Place,
    is_promise,
    may_leave,
    may_start_early,
    outlook,
    predicted_s,
    waiting,
)
from makeway.policies.common.commitments import departing, leavers, stays
from makeway.policies.common.victims import (
    UrgentJob,
    VictimGroup,
    committed,
    loss_node_s,
    system_s,
    unavailable_nodes,
    victim_groups,
)
from makeway.policies.contract import Policy
from makeway.policies.model import (
    Action,
    Candidate,
    Cluster,
    Decision,
    Job,
    JobKind,
    JobState,
    Method,
    Phase,
    Prioritise,
    Progress,
    Rationale,
    Reason,
    Reserve,
)
from makeway.policies.safety.arbiter import reservation_name


def decide(cluster: Cluster, config: CkptBackfillConfig) -> Decision:
    """Make way for the first of the queue if it is due (Algorithm 3), else start whoever fits before it (Algorithm 1)."""
    finished = _finish_holds(cluster, config)
    if finished.actions:
        return finished
    queue = waiting(cluster)
    for position, place in enumerate(queue):
        view = outlook(cluster, place, config)
        if math.isinf(view.due_s):
            continue  # it can never start as things are: nothing delays it
        if len(view.free) >= place.job.node_count:
            break  # the scheduler below starts it
        if view.due_s <= cluster.now_s:
            return _make_way(cluster, place.job, view, config)
        if place.promised_s <= cluster.now_s:
            return _hold_for(cluster, place.job, view, config)
        return _start_early(cluster, place, [other.job for other in queue[position + 1 :]], view, config)
    return Decision(policy=CKPT_BACKFILL.name)


@dataclass(slots=True)
class _Room:
    """What is left of the idle nodes while jobs are placed on them."""

    shared: list[str]
    """Idle nodes that the queue's first job can use."""
    aside: list[str]
    """Idle nodes that it cannot use: whoever is on them does not delay it."""
    extra: int
    """How many nodes it can use will be left over when it starts (algorithm 1, line 25)."""

    def take(self, job: Job, *, in_time: bool, barred: frozenset[str]) -> tuple[str, ...]:
        """Nodes for a job, taken out of what is left; none if there are too few (algorithm 1, lines 28 to 38)."""
        eligible = job.eligible_nodes

        def serving(names: list[str], count: int) -> list[str]:
            fit = (name for name in names if name not in barred and (eligible is None or name in eligible))
            return list(islice(fit, count))

        aside = serving(self.aside, job.node_count)
        missing = job.node_count - len(aside)
        shared = serving(self.shared, missing)
        if len(shared) < missing or (not in_time and missing > self.extra):
            return ()
        if not in_time:
            self.extra -= missing
        self.aside = [name for name in self.aside if name not in aside]
        self.shared = [name for name in self.shared if name not in shared]
        return (*aside, *shared)


def _start_early(
    cluster: Cluster, place: Place, others: list[Job], view: Outlook, config: CkptBackfillConfig
) -> Decision:
    """Algorithm 1, lines 26 to 40, with the predicted run time of algorithm 2 in line 31.

    As soon as jobs are on its nodes, or come there, that started before their turn, the first of the queue is promised
    its own start: a hold without nodes, which is written down and not made. The scheduler below knows these jobs by
    their time limits, and may let others pass in the belief that they stay. It is too soon to promise while way
    is made for another job: who leaves for it will be first.
    """
    head = place.job
    window_s = view.due_s - cluster.now_s
    room = _Room(shared=list(view.free), aside=list(view.aside), extra=view.extra)
    actions: list[Action] = []
    reasons: list[Rationale] = []
    for job in others:
        if job.kind is JobKind.ON_DEMAND:
            # It does not start early itself, and others that come after it are not to take what it waits for.
            urgent_jobs = outlook(cluster, Place(job=job), config)
            window_s = min(window_s, urgent_jobs.due_s - cluster.now_s)
            room.extra = min(room.extra, urgent_jobs.extra)
            continue
        if job.node_count > len(room.shared) + len(room.aside) or not may_start_early(job, cluster, config):
            continue
        expected_s = predicted_s(job, config, cluster.limits.min_runtime_s, cluster.usual_shares)
        duration_s = job.walltime_s + config.hold_slack_s
        nodes = room.take(job, in_time=expected_s <= window_s, barred=_reserved(cluster, duration_s))
        if not nodes:
            continue
        actions.append(
            Reserve(
                job_id=job.job_id,
                for_job_id=job.job_id,
                policy=CKPT_BACKFILL.name,
                reason=Reason.SPECULATIVE,
                reservation=reservation_name(job.job_id),
                nodes=nodes,
                duration_s=duration_s,
            )
        )
        reasons.append(_told_start(job, head, view, expected_s))
    if (actions or view.leaving) and place.promise is None and not _way_is_made(cluster):
        actions.insert(0, _hold(head, (), 0.0))
        reasons.insert(
            0, _rationale(head, view, view.due_s, "It is the first of the queue: its start is foreseen then.")
        )
    return Decision(
        policy=CKPT_BACKFILL.name,
        actions=tuple(actions),
        rationale=tuple(reasons),
        again_s=view.due_s if view.leaving else None,
    )


def _way_is_made(cluster: Cluster) -> bool:
    """Whether another job is being served, or those that left for it have not got their place in the queue yet."""
    return any(
        operation.reason is Reason.HEAD_DUE
        and not is_promise(operation)
        and (
            operation.phase is Phase.MAKING_ROOM
            or any(
                isinstance(task.action, Prioritise) and task.progress in (Progress.PLANNED, Progress.ISSUING)
                for task in operation.tasks
            )
        )
        for operation in cluster.operations
    )


def _reserved(cluster: Cluster, duration_s: float) -> frozenset[str]:
    """Nodes that others have reserved for a time that begins before a job is over that starts now."""
    until_s = cluster.now_s + duration_s
    return frozenset(
        name
        for reservation in cluster.reservations
        if reservation.start_s < until_s and reservation.end_s > cluster.now_s
        for name in reservation.nodes
    )


def _rationale(job: Job, view: Outlook, deadline_s: float, summary: str) -> Rationale:
    return Rationale(
        for_job_id=job.job_id,
        node_count=job.node_count,
        free_node_count=len(view.free),
        deadline_s=deadline_s,
        summary=summary,
    )


def _told_start(job: Job, head: Job, view: Outlook, expected_s: float) -> Rationale:
    """Why a job starts before its turn."""
    text = (
        f"Job {head.job_id}, first of the queue, cannot start before {view.due_s:.0f} s: job {job.job_id} starts on idle "
        f"nodes, is expected to last {expected_s:.0f} s, and leaves if it is still there by then."
    )
    return _rationale(job, view, view.due_s, text)


def _make_way(cluster: Cluster, head: Job, view: Outlook, config: CkptBackfillConfig) -> Decision:
    """Algorithm 3: the queue's first job is due; the largest of the jobs that passed it leave until it has its nodes."""
    urgent = UrgentJob(job=head)
    duration_s = head.walltime_s + config.hold_slack_s
    overdue = {job_id for job_id, from_s in view.leaving.items() if from_s <= cluster.now_s}
    excluded = {job.job_id for job in cluster.holders()} - overdue
    considered = victim_groups(
        cluster,
        urgent,
        unusable=unavailable_nodes(cluster, urgent, until_s=cluster.now_s + duration_s),
        excluded=excluded,
    )
    ranked = sorted(
        (group for group in considered if not group.protected_by),
        key=lambda group: (-len(group.nodes), group.job_ids),
    )
    chosen: list[VictimGroup] = []
    nodes = list(view.free)
    for group in ranked:
        if len(nodes) >= head.node_count:
            break
        chosen.append(group)
        nodes += group.nodes
    if len(nodes) < head.node_count:
        return Decision(
            policy=CKPT_BACKFILL.name
        )  # nodes that are being handed over: they are seen free soon
    longest_s = max((_grace_s(job) for group in chosen for job in group.jobs), default=0.0)
    hold = _hold(head, tuple(nodes[: head.node_count]), duration_s + longest_s)
    victims = [job for group in chosen for job in leavers(group, hold)]
    return Decision(
        policy=CKPT_BACKFILL.name,
        actions=(hold, *_departures(cluster, head, victims)),
        rationale=(_told_eviction(cluster, head, len(view.free), considered, victims),),
    )


def _hold_for(cluster: Cluster, head: Job, view: Outlook, config: CkptBackfillConfig) -> Decision:
    """The promised start is over, and somebody who may not be asked is on the nodes: keep the ones that are free first."""
    barred = unavailable_nodes(cluster, UrgentJob(job=head), until_s=cluster.now_s + head.walltime_s)
    ready = sorted(
        (at_s, index, name) for index, (name, at_s) in enumerate(view.ready_s.items()) if name not in barred
    )
    kept = ready[: head.node_count]
    if len(kept) < head.node_count:
        return Decision(policy=CKPT_BACKFILL.name)
    last_s = kept[-1][0]
    hold = _hold(
        head,
        tuple(name for _, _, name in kept),
        last_s - cluster.now_s + head.walltime_s + config.hold_slack_s,
    )
    text = "It is the first of the queue and its start is overdue: the nodes that come free first are kept for it."
    return Decision(
        policy=CKPT_BACKFILL.name, actions=(hold,), rationale=(_rationale(head, view, last_s, text),)
    )


def _finish_holds(cluster: Cluster, config: CkptBackfillConfig) -> Decision:
    """Where nodes are kept for an overdue job: once only jobs are left on them that may be asked, they leave."""
    jobs = cluster.jobs_by_id()
    busy = committed(cluster)
    actions: list[Action] = []
    reasons: list[Rationale] = []
    for operation in cluster.operations:
        head = jobs.get(operation.for_job_id)
        if (
            head is None
            or head.state is not JobState.PENDING
            or operation.phase is not Phase.MAKING_ROOM
            or operation.reason is not Reason.HEAD_DUE
            or operation.observe
            or not operation.nodes
        ):
            continue
        held = frozenset(operation.nodes)
        left = sorted(
            (job for job in cluster.holders() if not held.isdisjoint(job.nodes)), key=lambda job: job.job_id
        )
        leaving = may_leave(cluster, Place(job=head, promise=operation), config)
        if left and all(
            leaving.get(job.job_id, math.inf) <= cluster.now_s and job.job_id not in busy for job in left
        ):
            actions.extend(_departures(cluster, head, left))
            reasons.append(_told_eviction(cluster, head, 0, (), left))
    return Decision(policy=CKPT_BACKFILL.name, actions=tuple(actions), rationale=tuple(reasons))


def _hold(head: Job, nodes: tuple[str, ...], duration_s: float) -> Reserve:
    """The hold for the queue's first job; without nodes it is a promise."""
    return Reserve(
        job_id=head.job_id,
        for_job_id=head.job_id,
        policy=CKPT_BACKFILL.name,
        reason=Reason.HEAD_DUE,
        reservation=reservation_name(head.job_id),
        nodes=nodes,
        duration_s=duration_s,
    )


def _departures(cluster: Cluster, head: Job, victims: list[Job]) -> list[Action]:
    """The actions by which these jobs save themselves and leave."""
    actions: list[Action] = []
    for job in victims:
        actions.extend(
            departing(
                job,
                Method.KILL if system_s(job) is None else Method.SYSTEM,
                for_job_id=head.job_id,
                policy=CKPT_BACKFILL.name,
                reason=Reason.HEAD_DUE,
                now_s=cluster.now_s,
                not_after_s=cluster.now_s + _grace_s(job),
            )
        )
    return actions


def _grace_s(job: Job) -> float:
    """How long a job has to save itself: its own grace, and never less than its checkpoint takes."""
    saves_s = system_s(job)
    return 0.0 if saves_s is None or job.checkpoint is None else max(job.checkpoint.grace_s, saves_s)


def _told_eviction(
    cluster: Cluster, head: Job, free_count: int, considered: tuple[VictimGroup, ...], victims: list[Job]
) -> Rationale:
    """Why these jobs leave for the queue's first job."""
    leaving = {job.job_id for job in victims}
    slowest_s = max((system_s(job) or 0.0 for job in victims), default=0.0)
    lost_node_s = sum(loss_node_s(job, cluster.now_s) for job in victims if system_s(job) is None)
    named = ", ".join(f"{job.job_id} ({len(job.nodes)} nodes)" for job in victims)
    return Rationale(
        for_job_id=head.job_id,
        node_count=head.node_count,
        free_node_count=free_count,
        deadline_s=cluster.now_s + slowest_s,
        summary=(
            f"Job {head.job_id}, first of the queue, is due, and jobs that passed it are on its nodes: {named} leave, "
            "the largest first."
        ),
        candidates=tuple(_candidate(group, leaving) for group in considered),
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
    name="ckpt-backfill",
    summary="Start waiting jobs before their turn; checkpoint them when the queue's first job is due (P3).",
    config_type=CkptBackfillConfig,
    decide=decide,
    learns=True,
    arrivals_only=False,
)
