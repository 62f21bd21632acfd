"""Which waiting jobs start before their turn, on which idle nodes.

Reference:
    Niu et al., "Employing Checkpoint to Improve Job Scheduling in Large-Scale Systems" (JSSPP 2012), section
    3.3, Algorithm 1, lines 26 to 40.

Differs from the paper:
    See `ckpt_backfill.policy`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from makeway.policies.ckpt_backfill.outlook import (
    NAME,
    CkptBackfillConfig,
    Outlook,
    WaitingJob,
    is_promise,
    may_start_early,
    outlook,
    predicted_s,
)
from makeway.policies.model import (
    Action,
    Cluster,
    Decision,
    Job,
    JobKind,
    OperationKind,
    Phase,
    Prioritise,
    Progress,
    Rationale,
    Reason,
    Reserve,
)


@dataclass(slots=True)
class _IdleNodes:
    """The idle nodes that are left while jobs are given some of them."""

    shared: list[str]
    """Idle nodes that the first job of the queue can use."""
    unsuitable: list[str]
    """Idle nodes that it cannot use: a job on them does not delay it."""
    extra: int
    """How many nodes that it can use are left over when it starts (Algorithm 1, line 25)."""

    def take(self, job: Job, *, in_time: bool, barred: frozenset[str]) -> tuple[str, ...]:
        """Take nodes for a job (Algorithm 1, lines 28 to 38). Empty: there are too few."""
        eligible = job.eligible_nodes

        def serving(names: list[str], count: int) -> list[str]:
            fit = (name for name in names if name not in barred and (eligible is None or name in eligible))
            return list(islice(fit, count))

        unsuitable = serving(self.unsuitable, job.node_count)
        missing = job.node_count - len(unsuitable)
        shared = serving(self.shared, missing)
        if len(shared) < missing or (not in_time and missing > self.extra):
            return ()
        if not in_time:
            self.extra -= missing
        self.unsuitable = [name for name in self.unsuitable if name not in unsuitable]
        self.shared = [name for name in self.shared if name not in shared]
        return (*unsuitable, *shared)


def start_early(
    cluster: Cluster, head: WaitingJob, others: Sequence[Job], view: Outlook, config: CkptBackfillConfig
) -> Decision:
    """Start waiting jobs on idle nodes before the first of the queue (Algorithm 1, lines 26 to 40).

    As soon as jobs that started early use nodes of the first job, or are about to, its own start is promised
    to it: a hold without nodes, which is recorded and not made. The scheduler knows the early jobs by their
    time limits and may start further jobs ahead of the first one, because it expects the early ones to stay.
    While way is made for another job it is too soon to promise: the jobs that left for that one will be
    first.
    """
    starts = _early_starts(cluster, others, view, config)
    actions: list[Action] = [hold for hold, _ in starts]
    reasons = [_why_early(job, head.job, view, cluster, config) for _, job in starts]
    if (starts or view.leaving) and head.promise is None and not _makes_way(cluster):
        actions.insert(0, hold_for_head(cluster, head.job, (), 0.0))
        text = "It is the first of the queue: its start is foreseen then."
        reasons.insert(0, why(head.job, view, view.shadow_time_s, text))
    return Decision(
        policy=NAME,
        actions=tuple(actions),
        rationale=tuple(reasons),
        again_s=view.shadow_time_s if view.leaving else None,
    )


def _early_starts(
    cluster: Cluster, others: Sequence[Job], view: Outlook, config: CkptBackfillConfig
) -> list[tuple[Reserve, Job]]:
    """The jobs that start now, each with its hold, with the predicted run time of Algorithm 2 in line 31."""
    window_s = view.shadow_time_s - cluster.now_s
    idle = _IdleNodes(shared=list(view.idle), unsuitable=list(view.unsuitable), extra=view.extra)
    starts: list[tuple[Reserve, Job]] = []
    for job in others:
        if job.kind is JobKind.ON_DEMAND:
            # An urgent job does not start early itself, and later jobs may not take what it waits for.
            urgent = outlook(cluster, WaitingJob(job=job), config)
            window_s = min(window_s, urgent.shadow_time_s - cluster.now_s)
            idle.extra = min(idle.extra, urgent.extra)
            continue
        if job.node_count > len(idle.shared) + len(idle.unsuitable) or not may_start_early(
            job, cluster, config
        ):
            continue
        in_time = _predicted_s(job, cluster, config) <= window_s
        duration_s = job.walltime_s + config.hold_slack_s
        nodes = idle.take(job, in_time=in_time, barred=_reserved(cluster, duration_s))
        if nodes:
            hold = Reserve(
                job_id=job.job_id,
                for_job_id=job.job_id,
                policy=NAME,
                reason=Reason.SPECULATIVE,
                reservation=cluster.hold_name(job.job_id),
                nodes=nodes,
                duration_s=duration_s,
                kind=OperationKind.EARLY_START,
                own_reservation=cluster.own_reservation(job),
            )
            starts.append((hold, job))
    return starts


def _predicted_s(job: Job, cluster: Cluster, config: CkptBackfillConfig) -> float:
    return predicted_s(job, config, cluster.limits.min_runtime_s, cluster.usual_shares)


def _makes_way(cluster: Cluster) -> bool:
    """Whether way is made for another job, or jobs that left for it are not yet back at the front of the
    queue.
    """
    return any(
        operation.kind is OperationKind.QUEUE_HEAD
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
    """The nodes in reservations that begin before a job that starts now is over."""
    until_s = cluster.now_s + duration_s
    return frozenset(
        name
        for reservation in cluster.reservations
        if reservation.start_s < until_s and reservation.end_s > cluster.now_s
        for name in reservation.nodes
    )


def hold_for_head(cluster: Cluster, head: Job, nodes: tuple[str, ...], duration_s: float) -> Reserve:
    """The hold for the first job of the queue; without nodes it is a promise."""
    return Reserve(
        job_id=head.job_id,
        for_job_id=head.job_id,
        policy=NAME,
        reason=Reason.HEAD_DUE,
        reservation=cluster.hold_name(head.job_id),
        nodes=nodes,
        duration_s=duration_s,
        kind=OperationKind.QUEUE_HEAD,
        own_reservation=cluster.own_reservation(head),
    )


def why(job: Job, view: Outlook, deadline_s: float, summary: str) -> Rationale:
    """A rationale without candidates."""
    return Rationale(
        for_job_id=job.job_id,
        node_count=job.node_count,
        free_node_count=len(view.free),
        deadline_s=deadline_s,
        summary=summary,
    )


def _why_early(job: Job, head: Job, view: Outlook, cluster: Cluster, config: CkptBackfillConfig) -> Rationale:
    """Why a job starts before its turn."""
    expected_s = _predicted_s(job, cluster, config)
    text = (
        f"Job {head.job_id}, first of the queue, cannot start before {view.shadow_time_s:.0f} s: "
        f"job {job.job_id} starts on idle nodes, is expected to last {expected_s:.0f} s, "
        "and leaves if it still runs by then."
    )
    return why(job, view, view.shadow_time_s, text)
