"""The urgent job that a user submits in place of one that waited, where one cycle sees both.

A user who mends a mistake cancels an urgent job and submits it again. What was asked of other jobs stays: the
operation is for the new job from then on, as if the old one had been changed. The next command makes the hold
for the new job. Nothing more is taken until a snapshot shows that hold. If the daemon dies before this is
written down, its next start sees the same and does the same.
"""

import math
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from makeway.daemon.operation.beginning import extend
from makeway.daemon.operation.changed.hold_end import MAKES_WAY
from makeway.daemon.operation.due import hold_refused_s
from makeway.daemon.operation.handover import follows, has_room, hold_for, startable, turn
from makeway.daemon.operation.observation import Timeouts, observe_all
from makeway.daemon.operation.tasks import ENDED, is_eviction, open_evictions
from makeway.policies.common.holds import eligible_set
from makeway.policies.common.notices import arrivals
from makeway.policies.common.urgent_jobs import UrgentJob, asleep_too_late
from makeway.policies.model import (
    Cancel,
    Cluster,
    Job,
    JobState,
    Notice,
    Operation,
    OperationKind,
    Phase,
    Requeue,
    Reserve,
    Task,
    changed,
)
from makeway.policies.safety.prices import START_WITHIN_S


def resubmitted(
    operations: tuple[Operation, ...], cluster: Cluster, notices: Sequence[Notice], timeouts: Timeouts
) -> tuple[Operation, ...]:
    """The operations; each one whose waiting job has gone is for the job that its user submitted instead, if
    there is one. The others are the same values. The same tuple where no waiting job has gone.

    Args:
        operations: the open ones, as the last cycle left them.
        cluster: the snapshot.
        notices: the announcements. A job that comes for one is submitted in place of none.
        timeouts: `pass_on_s` says how long jobs may follow each other.
    """
    jobs = cluster.jobs_by_id()
    if all(one.for_job_id in jobs or not _is_waited_for(one) for one in operations):
        return operations
    announced = {job.job_id for job in arrivals(notices, cluster.jobs, _served(operations)).values()}
    present, view = {one.operation_id: one for one in operations}, cluster
    for operation in operations:
        late = cluster.now_s >= operation.opened_s + timeouts.pass_on_s
        if late or operation.for_job_id in jobs or not _is_waited_for(operation):
            continue
        view = changed(view, operations=tuple(present.values()))
        job, view = _standing_for(operation, view, announced, timeouts)
        if job is not None:
            present[operation.operation_id] = _for(operation, job, view, timeouts)
    return tuple(present.values())


def _standing_for(
    operation: Operation, cluster: Cluster, announced: AbstractSet[str], timeouts: Timeouts
) -> tuple[Job | None, Cluster]:
    """The job that stands for the one that has gone (None: there is none), and the snapshot in which those
    that need no job to leave have free nodes: no other one counts on these. `announced`: the jobs that came
    for an announcement.
    """
    able = (
        one
        for one in startable(cluster)
        if one.job_id not in announced and _replaces(one, operation, cluster, timeouts)
    )
    for job in sorted(able, key=lambda one: (one.node_count < len(operation.nodes), *turn(one, operation))):
        free = _free_nodes(job, cluster)
        if len(free) < job.node_count:
            return job, cluster
        there = _on(free[: job.node_count], job)
        cluster = changed(cluster, jobs=tuple(there if one is job else one for one in cluster.jobs))
    return None, cluster


def _on(nodes: tuple[str, ...], job: Job) -> Job:
    """The job as if it ran on these nodes."""
    held = None if job.demand is None else (job.demand,) * len(nodes)
    return changed(job, state=JobState.RUNNING, nodes=nodes, allocation=held)


def _is_waited_for(operation: Operation) -> bool:
    """Whether it makes room for an urgent job that has not started, and its hold was not refused."""
    makes_room = operation.kind in MAKES_WAY and operation.phase is Phase.MAKING_ROOM
    return makes_room and not operation.observe and hold_refused_s(operation) is None


def _served(operations: Iterable[Operation]) -> Iterable[str]:
    return (operation.for_job_id for operation in operations)


def _replaces(job: Job, operation: Operation, cluster: Cluster, timeouts: Timeouts) -> bool:
    """Whether a job that could start stands for the one that has gone: it is of the same user, was submitted
    later or follows it, and what is held and about to come free serves it. One that follows when all jobs
    have left has an operation of its own (`passed_on`).
    """
    shares = operation.kind is OperationKind.MAKE_WAY_SHARED
    # A cluster may report the submission in whole seconds.
    later = job.submit_s >= math.floor(operation.opened_s)
    is_next = follows(job, operation, timeouts)
    return (
        job.user == operation.user
        and (_some_leave(operation, cluster, timeouts) if is_next else later)
        and not job.het_job_id
        and shares is (job.demand is not None)
        and operation.own_reservation in (None, cluster.own_reservation(job))
        and has_room(operation, job, cluster)
        and _leave_in_time(operation, job)
    )


def _free_nodes(job: Job, cluster: Cluster) -> tuple[str, ...]:
    """The nodes that are free for a job, are awake in time, and are not needed by the site before the job
    would end. If they are enough, it needs no job to leave.
    """
    sets = cluster.node_sets()
    free = sets.of_new(cluster.free_nodes(job.eligible_nodes, job.demand)) & eligible_set(job, cluster)
    return sets.names(free & ~asleep_too_late(cluster, job, max(cluster.now_s, _deadline_s(job))))


def _some_leave(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> bool:
    """Whether some jobs of the operation have not left yet, as the snapshot shows it."""
    tasks = observe_all(operation, cluster, cluster.jobs_by_id(), timeouts)
    return any(task.progress not in ENDED for task in tasks if is_eviction(task))


def _leave_in_time(operation: Operation, job: Job) -> bool:
    """Whether the jobs leave by the deadline of the new job, or it has as much time as the old one had."""
    leave_s = [
        task.action.not_after_s
        for task in open_evictions(operation)
        if isinstance(task.action, Requeue | Cancel)
    ]
    return _deadline_s(job) >= min(operation.deadline_s, max(leave_s, default=-math.inf))


def _deadline_s(job: Job) -> float:
    return UrgentJob(job=job).deadline_s(START_WITHIN_S)


def _for(operation: Operation, job: Job, cluster: Cluster, timeouts: Timeouts) -> Operation:
    """The operation for the new job: its hold is to be made for that one, and what is under way is under way
    for it.

    What is over keeps the name of the job that it was done for.
    """
    deadline_s, own = _deadline_s(job), cluster.own_reservation(job)
    give_up_s = max(operation.give_up_s, max(deadline_s, cluster.now_s) + timeouts.give_up_after_s)
    waits_s = max(0.0, give_up_s - cluster.now_s)
    hold = hold_for(operation, job, cluster, waits_s=waits_s, own_reservation=own)
    taken_over = replace(
        operation,
        for_job_id=job.job_id,
        array_job_id=job.array_job_id,
        user=job.user,
        deadline_s=deadline_s,
        give_up_s=give_up_s,
        short_since_s=None,
        tasks=tuple(_renamed(task, job) for task in operation.tasks),
    )
    return extend(taken_over, (hold,), cluster, deadline_s=deadline_s, timeouts=timeouts)


def _renamed(task: Task, job: Job) -> Task:
    """The task; one that is under way, for the new job."""
    if task.progress in ENDED or isinstance(task.action, Reserve):
        return task
    return changed(task, action=changed(task.action, for_job_id=job.job_id))
