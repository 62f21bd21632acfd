"""What jobs have lent to an urgent job, and what gives it back."""

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import filterfalse
from typing import assert_never

from makeway.policies.common.holds import site_set
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Ending,
    Expand,
    Job,
    JobState,
    Lease,
    Method,
    Operation,
    Prioritise,
    Progress,
    Reason,
    Release,
    Requeue,
    Reserve,
    RestoreLimit,
    RestorePriority,
    Shrink,
    Task,
    memoise_each,
)


def method_of(action: Action) -> Method | None:
    """How an action makes its job leave nodes. None: it does not."""
    match action:
        case Requeue() | Cancel():
            return action.method
        case Shrink():
            return Method.SHRINK
        case Checkpoint() | Expand() | Reserve() | Release() | Prioritise():
            return None
        case RestorePriority() | RestoreLimit():
            return None
        case _:
            assert_never(action)


def leases(operation: Operation, cluster: Cluster) -> tuple[Lease, ...]:
    """What the lenders of an operation have given up and not got back, in the order of its tasks."""
    takings = _takings(operation)
    if not takings:
        return ()
    jobs = cluster.jobs_by_id()
    return tuple(
        lease
        for task, lease in takings
        if (lender := jobs.get(lease.lender_job_id)) is not None and _still_lent(task, lender, cluster)
    )


@memoise_each
def _takings(operation: Operation) -> tuple[tuple[Task, Lease], ...]:
    """The tasks that have taken nodes, each with the lease that lasts until they are given back."""
    return tuple(
        (
            task,
            Lease(
                lender_job_id=task.action.job_id,
                borrower_job_id=operation.for_job_id,
                nodes=lent_nodes(task),
                since_s=task.ended_s,
                method=method,
            ),
        )
        for task in operation.tasks
        if task.progress is Progress.DONE
        and task.ended_s is not None
        and (method := method_of(task.action)) is not None
    )


def missing_returns(operation: Operation, cluster: Cluster, reason: Reason) -> tuple[Action, ...]:
    """What must still be asked for so that everything goes back, derived again from each snapshot.

    A lender that was shrunk grows, one that was requeued goes first in the queue, then the hold ends. What
    the operation already has a task for is left out.
    """
    jobs = cluster.jobs_by_id()
    asked = {
        (task.action.verb, task.action.job_id)
        for task in operation.tasks
        if isinstance(task.action, Expand | Prioritise | Release)
        and task.progress is not Progress.DROPPED
        and not _outdated(operation, task)
    }
    actions: list[Action] = []
    for task in operation.tasks:
        lender = jobs.get(task.action.job_id)
        if lender is not None and _still_lent(task, lender, cluster):
            action = _return_of(operation, task, lender, cluster, reason)
            if action is not None and (action.verb, action.job_id) not in asked:
                actions.append(action)
                asked.add((action.verb, action.job_id))
    if ("release", operation.for_job_id) not in asked and _may_be_held(operation, cluster):
        actions.append(
            Release(
                job_id=operation.for_job_id,
                for_job_id=operation.for_job_id,
                policy=operation.policy,
                reason=reason,
                reservation=operation.reservation,
                own_reservation=operation.own_reservation,
            )
        )
    return tuple(actions)


def _outdated(operation: Operation, given: Task) -> bool:
    """Whether a lender got something back before it left (again), because a controller had forgotten that it
    was gone; or could not get it, because it was taken for ended.
    """
    if given.ended_s is None:
        return False
    left_s = [
        task.ended_s
        for task in operation.tasks
        if task.action.job_id == given.action.job_id
        and task.ended_s is not None
        and method_of(task.action) is not None
    ]
    latest_s = max(left_s, default=-math.inf)
    # It can be seen to be gone and to be back within one instant of a clock.
    return latest_s > given.ended_s or (latest_s == given.ended_s and given.ending is Ending.ENDED_ITSELF)


def about_to_start(task: Task, cluster: Cluster, jobs: Mapping[str, Job]) -> bool:
    """Whether a lender was put first and could not start yet: its nodes are kept from the common queue until
    it can.

    A cluster may let a requeued job start only some seconds later.
    """
    lender = jobs.get(task.action.job_id)
    if not isinstance(task.action, Prioritise) or task.progress is not Progress.ACCEPTED or lender is None:
        return False
    too_early = lender.eligible_s is not None and lender.eligible_s > cluster.now_s
    return lender.state is JobState.PENDING and (too_early or not lender.prioritised)


def starts_soon(task: Task, cluster: Cluster, jobs: Mapping[str, Job], settle_s: float) -> bool:
    """Whether a lender that is `about_to_start` was put first only now: makeway could not act before, such as
    without its lease. One that was put first, and is not seen in front in the next snapshot, is none.
    """
    sent_s = task.issued_s
    if sent_s is None or not about_to_start(task, cluster, jobs):
        return False
    unseen = sent_s >= cluster.now_s
    return unseen or (jobs[task.action.job_id].prioritised and cluster.now_s < sent_s + settle_s)


def _return_of(
    operation: Operation, task: Task, lender: Job, cluster: Cluster, reason: Reason
) -> Expand | Prioritise | None:
    """What gives a lender back what one task took from it. None: nothing can."""
    if not isinstance(task.action, Shrink):
        return Prioritise(
            job_id=task.action.job_id,
            for_job_id=operation.for_job_id,
            policy=operation.policy,
            reason=reason,
        )
    nodes = _nodes_to_return(operation, task, lender, cluster)
    if "expand" not in cluster.actions or not nodes:
        return None
    return Expand(
        job_id=task.action.job_id,
        for_job_id=operation.for_job_id,
        policy=operation.policy,
        reason=reason,
        nodes=nodes,
        reservation=operation.reservation if _may_be_held(operation, cluster) else None,
    )


def _still_lent(task: Task, lender: Job, cluster: Cluster) -> bool:
    """Whether a lender misses what a task took, or will have taken once it is seen done."""
    if task.progress is not Progress.DONE:
        return False
    match task.action:
        case Requeue():
            return lender.state is JobState.PENDING
        case Shrink():
            sets = cluster.node_sets()
            return lender.requeue_count == task.requeue_count and bool(
                sets.of(task.nodes) & ~sets.of(lender.nodes)
            )
        case _:
            return False


@memoise_each
def lent_nodes(task: Task) -> tuple[str, ...]:
    """The nodes that a task made its job give up."""
    return _given(task.nodes, task.action.keep_nodes) if isinstance(task.action, Shrink) else task.nodes


@lru_cache(maxsize=1024)
def _given(nodes: tuple[str, ...], kept: tuple[str, ...]) -> tuple[str, ...]:
    """What a job gave of its nodes. The same tuple each time, because sets of nodes are known by it."""
    return tuple(filterfalse(frozenset(kept).__contains__, nodes))


def _nodes_to_return(operation: Operation, task: Task, lender: Job, cluster: Cluster) -> tuple[str, ...]:
    """The nodes that a shrunk job gave up and that may go back to it: up, not held, and not kept for another
    job, now or by the site before the lender has to end.
    """
    sets = cluster.node_sets()
    holds = sets.union(
        reservation.nodes
        for reservation in cluster.reservations
        if reservation.by_makeway and reservation.name != operation.reservation
    )
    return sets.among(
        lent_nodes(task), sets.up & ~cluster.held_set() & ~holds & ~kept_by_site(lender, cluster)
    )


def kept_by_site(job: Job, cluster: Cluster) -> int:
    """The nodes that the site has reserved before a running job has to end, as a set of `node_sets`: the
    cluster lets it have none of them.
    """
    return site_set(cluster, math.inf if job.latest_end_s is None else job.latest_end_s)


def _may_be_held(operation: Operation, cluster: Cluster) -> bool:
    """Whether the operation's reservation exists, or may exist because a command for it got no answer."""
    if any(reservation.name == operation.reservation for reservation in cluster.reservations):
        return True
    return any(
        isinstance(task.action, Reserve) and task.progress in (Progress.ISSUING, Progress.ACCEPTED)
        for task in operation.tasks
    )
