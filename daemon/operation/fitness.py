"""Whether what an operation still has to take fits the present snapshot: asked again before each step.

A step may come long after its decision: the daemon was down, the controller did not answer, the machine was
suspended. Meanwhile the urgent job may have been held or changed, a node drained, a deadline passed. What
does not fit any more is not issued; the policy decides again on the view that is there. Decision 29 argues
the rules.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import assert_never

from makeway.daemon.operation.changed.hold_end import MAKES_WAY, ends_too_soon
from makeway.daemon.operation.changed.lost_nodes import decided_again
from makeway.daemon.operation.changed.protected import protected_since
from makeway.daemon.operation.changed.surplus import not_needed
from makeway.daemon.operation.observation import Timeouts
from makeway.daemon.operation.tasks import (
    ended,
    freed_set,
    is_eviction,
    is_over,
    may_be_dropped,
    requeue_themselves,
    signal_of,
)
from makeway.policies.common.holds import eligible_set, shortfall_set
from makeway.policies.common.urgent_jobs import held_up
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Ending,
    Job,
    JobKind,
    JobState,
    Method,
    Operation,
    Phase,
    Prioritise,
    Progress,
    Requeue,
    Reserve,
    Task,
    changed,
    memoise_each,
    memoise_last,
)

STALE_S = 120.0
"""What could not be begun for so long after its decision is decided again, in seconds."""


def cannot_start(operation: Operation, cluster: Cluster) -> bool:
    """Whether the job that an operation is for would not start before it is given up, whatever nodes it had.

    It lacks something besides nodes, or may not start so soon.
    """
    job = _waiting(operation, cluster)
    if job is None:
        return False
    if job.blocked_by or job.job_id in held_up(cluster):
        return True
    return not _are_eligible(job, cluster, max(cluster.now_s, operation.give_up_s))


def is_urgent_no_more(operation: Operation, cluster: Cluster) -> bool:
    """Whether way is made for a job that waits and is not urgent any more."""
    job = _waiting(operation, cluster)
    return job is not None and operation.kind.serves_urgent_job and job.kind is not JobKind.ON_DEMAND


def may_take(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> bool:
    """Whether jobs may be asked to leave for the operation now: its job would start at once on what is held.

    The cluster has to have looked at the job since its last change; after `settle_s` it is no longer waited
    for. A silent node of the hold is waited for, and so are the holds of the other components of a
    heterogeneous job. A hold that would end before the job is lengthened first.
    """
    job = _waiting(operation, cluster)
    if job is None:
        return True
    if cannot_start(operation, cluster) or not _are_eligible(job, cluster, cluster.now_s):
        return False
    seen_s = hold_seen_s(operation)
    if not job.examined and seen_s is not None and cluster.now_s < seen_s + timeouts.settle_s:
        return False
    sets = cluster.node_sets()
    if sets.silent & sets.of(operation.nodes) or not _suffices(operation, job, cluster):
        return False
    return all(_is_held_for(other, cluster) for other in _others_waiting(job, cluster))


def lacks_component(operation: Operation, cluster: Cluster) -> bool:
    """Whether the job starts together with a component that waits, and for which no nodes are to be held."""
    job = _waiting(operation, cluster)
    if job is None or operation.kind not in MAKES_WAY:
        return False
    return any(_holding(other, cluster) is None for other in _others_waiting(job, cluster))


def _are_eligible(job: Job, cluster: Cluster, at_s: float) -> bool:
    """Whether a waiting job, and the components that start together with it, may start by then."""
    together = (job, *_others_waiting(job, cluster))
    return all(one.eligible_s is None or one.eligible_s <= at_s for one in together)


def _others_waiting(job: Job, cluster: Cluster) -> tuple[Job, ...]:
    """The other components that start together with the job and wait too."""
    if not job.het_job_id:
        return ()
    others = (one for one in cluster.components(job) if one.job_id != job.job_id)
    return tuple(one for one in others if one.state is JobState.PENDING)


def _holding(job: Job, cluster: Cluster) -> Operation | None:
    """The operation that holds nodes for a waiting job, or is about to. None: there is none."""
    operation = cluster.operations_by_job().get(job.job_id)
    holds = operation is not None and operation.kind.holds_nodes and operation.phase is Phase.MAKING_ROOM
    return operation if holds and operation is not None and not operation.observe else None


def _is_held_for(job: Job, cluster: Cluster) -> bool:
    """Whether a hold for the waiting job was seen and suffices."""
    operation = _holding(job, cluster)
    if operation is None or hold_seen_s(operation) is None:
        return False
    return _suffices(operation, job, cluster)


def _suffices(operation: Operation, job: Job, cluster: Cluster) -> bool:
    """Whether the hold of a waiting job has nodes enough, for as long as the job may run."""
    return not is_short(operation, cluster) and not ends_too_soon(operation, job, cluster)


@memoise_each
def hold_seen_s(operation: Operation) -> float | None:
    """When the present hold was seen. None: it was not."""
    holds = [task for task in operation.tasks if isinstance(task.action, Reserve)]
    return holds[-1].ended_s if holds and holds[-1].progress is Progress.DONE else None


def is_short(operation: Operation, cluster: Cluster) -> bool:
    """Whether the hold of a waiting urgent job was seen and has too few nodes that the job can get."""
    if operation.kind not in MAKES_WAY:
        return False  # other holds may have nodes whose jobs are made to leave later
    job = _waiting(operation, cluster)
    if job is None or hold_seen_s(operation) is None:
        return False
    known = next((one for one in cluster.operations if one.operation_id == operation.operation_id), operation)
    return len(operation.nodes) - _lost(known, cluster).bit_count() < job.node_count


@memoise_last
def _lost(operation: Operation, cluster: Cluster) -> int:
    return shortfall_set(operation, cluster)


def note_shortage(operation: Operation, cluster: Cluster) -> Operation:
    """The operation with the instant since which its hold is short.

    A hold that waits for jobs to end by themselves lacks their room on purpose.
    """
    short = is_short(operation, cluster) and not _waits_for_ends(operation, cluster)
    if short is (operation.short_since_s is not None):
        return operation
    return changed(operation, short_since_s=cluster.now_s if short else None)


def _waits_for_ends(operation: Operation, cluster: Cluster) -> bool:
    """Whether no job was asked to leave yet for a hold, all nodes of which may serve its job."""
    takes = any(map(is_eviction, operation.tasks))
    return not takes and _serving(operation, cluster) == cluster.node_sets().of(operation.nodes)


def _serving(operation: Operation, cluster: Cluster) -> int:
    """The nodes of a hold on which its job may run and that are up or silent, as a set of `node_sets`."""
    sets = cluster.node_sets()
    return (
        sets.of(operation.nodes)
        & (sets.up | sets.silent)
        & eligible_set(_waiting(operation, cluster), cluster)
    )


def awaits_a_reason(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> bool:
    """Whether an operation that is over stays open until the cluster has looked at its job, which waits.

    The release changed the job, so that what it lacks is not known. If it were decided on at once, a job that
    lacks something besides nodes would get its hold again and again.
    """
    job = _waiting(operation, cluster)
    over_s = over_since_s(operation)
    if job is None or job.examined or over_s is None:
        return False
    return cluster.now_s < over_s + timeouts.settle_s


def awaits_its_lender(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> bool:
    """Whether an operation that is over stays open because the cluster has said that a lender is gone, and
    the view, which is older, shows it in the queue. The cluster may have forgotten its requeue.
    """
    jobs = cluster.jobs_by_id()
    return any(
        isinstance(task.action, Prioritise)
        and task.ending is Ending.ENDED_ITSELF
        and task.ended_s is not None
        and cluster.now_s < task.ended_s + timeouts.give_up_after_s
        and (job := jobs.get(task.action.job_id)) is not None
        and job.state is JobState.PENDING
        and task.action.job_id != task.action.for_job_id
        for task in operation.tasks
    )


@memoise_each
def over_since_s(operation: Operation) -> float | None:
    """When the last task of an operation that returned its nodes ended. None: some are open."""
    if operation.phase is not Phase.RETURNING or not operation.kind.holds_nodes or not is_over(operation):
        return None
    return max((task.ended_s for task in operation.tasks if task.ended_s is not None), default=None)


def never_begun(operation: Operation, cluster: Cluster) -> bool:
    """Whether the hold for a waiting urgent job could not be made for so long that it is decided again."""
    if operation.kind not in MAKES_WAY:
        return False
    first = next((task for task in operation.tasks if isinstance(task.action, Reserve)), None)
    return (
        first is not None
        and first.progress is Progress.PLANNED
        and first.issued_s is None
        and bool(operation.nodes)
        and _is_stale(operation, first, cluster)
    )


def without_outdated(operation: Operation, cluster: Cluster) -> Operation:
    """The operation without the evictions that do not fit any more, or are not needed any more.

    What was issued stays. So does the requeue of a job that is saving its work and requeues itself after
    that: it gets its turn back.
    """
    if operation.phase is not Phase.MAKING_ROOM or not any(map(_may_end, operation.tasks)):
        return operation
    jobs, good = cluster.jobs_by_id(), _serving(operation, cluster)
    leaving = requeue_themselves(operation, cluster)
    protected = protected_since(operation, cluster)
    no_more = protected.keys() | decided_again(operation, cluster, protected)
    fitting = _ending(
        operation,
        cluster,
        lambda task: (
            task.action.job_id in no_more
            or (task.action.job_id not in leaving and not _fits(operation, task, cluster, jobs, good))
        ),
        protected,
    )
    surplus = not_needed(fitting, cluster)
    return _ending(fitting, cluster, lambda task: task.action.job_id in surplus) if surplus else fitting


def _ending(
    operation: Operation,
    cluster: Cluster,
    is_outdated: Callable[[Task], bool],
    why: Mapping[str, str] = MappingProxyType({}),
) -> Operation:
    """The operation without those evictions that were not issued. `why`: what is noted, by job id."""
    tasks = tuple(
        ended(task, Ending.OUTDATED, cluster.now_s, why.get(task.action.job_id, ""))
        if _may_end(task) and is_outdated(task)
        else task
        for task in operation.tasks
    )
    return operation if tasks == operation.tasks else changed(operation, tasks=tasks)


def was_signalled(operation: Operation, action: Action, cluster: Cluster) -> bool:
    """Whether an action asks a run to save its work that the operation has asked already.

    The run still has its grace, or did not answer in it, or has saved its work just now. A signal that was
    refused, or never sent, did not reach the run.
    """
    job = cluster.jobs_by_id().get(action.job_id)
    if not isinstance(action, Checkpoint) or job is None:
        return False
    return any(
        isinstance(task.action, Checkpoint)
        and task.action.job_id == job.job_id
        and task.requeue_count == job.requeue_count
        and _counts(task, job, cluster)
        for task in operation.tasks
    )


def _counts(signal: Task, job: Job, cluster: Cluster) -> bool:
    """Whether a job may leave its present run with this signal, and needs no other one."""
    match signal.progress:
        case Progress.REFUSED:
            return False
        case Progress.GONE | Progress.DROPPED:
            return signal.issued_s is not None
        case Progress.PLANNED | Progress.ISSUING | Progress.ACCEPTED:
            return True
        case Progress.DONE:
            saved_s = job.last_checkpoint_s if signal.ending is Ending.ACKNOWLEDGED else None
            fresh = saved_s is None or _is_fresh(saved_s, job, cluster)
            return signal.issued_s is not None and fresh
        case _:
            assert_never(signal.progress)


def saved_since(operation: Operation, task: Task, job: Job | None) -> float | None:
    """When the job's regular checkpoint was complete that its eviction waited for. None: it is not yet."""
    planned_s = _planned_s(operation, task)
    saved_s = job.last_checkpoint_s if job is not None else None
    return saved_s if saved_s is not None and saved_s > planned_s else None


def _waiting(operation: Operation, cluster: Cluster) -> Job | None:
    job = cluster.jobs_by_id().get(operation.for_job_id)
    return job if job is not None and job.state is JobState.PENDING else None


def _may_end(task: Task) -> bool:
    return may_be_dropped(task) and is_eviction(task)


def _fits(
    operation: Operation,
    task: Task,
    cluster: Cluster,
    jobs: Mapping[str, Job],
    good: int,
) -> bool:
    """Whether an eviction that was not issued still does what it was decided for.

    `good`: the nodes of the hold that may serve its job, as a set of the cluster's `node_sets`.
    """
    action, job = task.action, jobs.get(task.action.job_id)
    if job is None or not job.nodes:
        return True  # it has left: the snapshot shows it
    if not good & freed_set(task, job, cluster.node_sets()):
        return False  # the nodes that it would leave are lost, or no longer held
    if isinstance(action, Requeue | Cancel):
        return _may_still_leave(operation, task, action, cluster, job)
    return not _is_stale(operation, task, cluster)


def _may_still_leave(
    operation: Operation, task: Task, action: Requeue | Cancel, cluster: Cluster, job: Job
) -> bool:
    """Whether the job's way to leave still fits: what it saved is fresh, or the loss was accepted and the
    urgent job can still be on time.
    """
    latest_s = max(operation.deadline_s, action.not_after_s + STALE_S)
    match action.method:
        case Method.KILL | Method.SHRINK:
            return not _is_stale(operation, task, cluster)
        case Method.APPLICATION:
            saved_s = saved_since(operation, task, job)
            return cluster.now_s <= latest_s if saved_s is None else _is_fresh(saved_s, job, cluster)
        case Method.SYSTEM:
            signal = signal_of(operation, task)
            if signal is None or signal.progress in (Progress.ISSUING, Progress.ACCEPTED):
                return True
            if signal.progress is Progress.PLANNED:
                return not _is_stale(operation, signal, cluster)
            if signal.ending is Ending.FORBIDDEN:
                return False  # the job could save its work, but was never asked to
            if signal.ending is Ending.ACKNOWLEDGED and job.last_checkpoint_s is not None:
                return _is_fresh(job.last_checkpoint_s, job, cluster)
            return cluster.now_s <= latest_s
        case _:
            assert_never(action.method)


def _is_fresh(saved_s: float, job: Job, cluster: Cluster) -> bool:
    """Whether the job loses little if it leaves now, after a checkpoint at `saved_s`."""
    grace_s = 0.0 if job.checkpoint is None else job.checkpoint.grace_s
    return cluster.now_s <= saved_s + max(STALE_S, grace_s)


def _is_stale(operation: Operation, task: Task, cluster: Cluster) -> bool:
    """Whether a task could not be begun for too long after it was planned, or after its turn came."""
    due_s = _planned_s(operation, task)
    if isinstance(task.action, Checkpoint) and task.action.not_before_s is not None:
        due_s = max(due_s, task.action.not_before_s)
    return cluster.now_s > due_s + STALE_S


def _planned_s(operation: Operation, task: Task) -> float:
    return operation.opened_s if task.planned_s is None else task.planned_s
