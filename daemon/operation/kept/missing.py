"""What jobs still miss, by what the cluster keeps with them (`Job.taken`), and what gives it back.

An operation gives back what it took. This is for jobs of which no open operation knows: the journal was lost
or is an old one, or the operation is over and something could not be given back then.
"""

from dataclasses import replace
from math import ceil

from makeway.daemon.operation.returns import kept_by_site
from makeway.policies.model import (
    Cluster,
    Expand,
    Job,
    JobKind,
    JobState,
    LostNodes,
    Operation,
    Prioritise,
    Reason,
    RestoreLimit,
    TakenFromJob,
)

_ACTED_UPON = frozenset({JobState.PENDING, JobState.RUNNING})
_MINUTE_S = 60.0
"""Clusters count time limits in minutes."""
_MARGIN_S = 600.0
"""A time limit that is to end sooner than this from now is not lowered: the command may be carried out late.
"""


def missing(
    cluster: Cluster, operations: tuple[Operation, ...], policy: str, *, urgent_first: bool = True
) -> tuple[Expand | Prioritise | RestoreLimit, ...]:
    """What gives it back: one action for each job at a time.

    Args:
        cluster: the snapshot.
        operations: those that are open; the jobs of their tasks are left to them.
        policy: the name that the actions bear.
        urgent_first: whether nodes and turns go back only when the urgent jobs that wait need them no more.
    """
    jobs = [job for job in cluster.jobs if job.taken is not None]
    if not jobs:
        return ()
    known = {task.action.job_id for operation in operations for task in operation.tasks}
    kept_free = urgent_first and _urgent_job_waits(cluster)
    free = [] if kept_free else _free_nodes(cluster, operations)
    found: list[Expand | Prioritise | RestoreLimit] = []
    for job in sorted(jobs, key=lambda one: (one.submit_s, one.job_id)):
        if job.taken is None or job.job_id in known or job.state not in _ACTED_UPON:
            continue
        action = _return_to(job, job.taken, cluster, policy, free, urgent_first=urgent_first)
        if isinstance(action, Expand):
            free = [name for name in free if name not in action.nodes]
        if action is not None:
            found.append(action)
    return tuple(found)


def _return_to(
    job: Job, taken: TakenFromJob, cluster: Cluster, policy: str, free: list[str], *, urgent_first: bool
) -> Expand | Prioritise | RestoreLimit | None:
    """What gives the job the next part of what it misses. None: nothing can be done now."""
    if job.requeue_count > taken.run:
        if job.state is JobState.PENDING and taken.for_job_id is not None:
            return _turn(job, taken.for_job_id, cluster, policy, urgent_first=urgent_first)
        return _limit_of_next_run(job, taken, cluster, policy)
    if job.state is JobState.PENDING:
        return _limit_of_next_run(job, taken, cluster, policy)
    if taken.lost_nodes is not None and job.node_count < taken.lost_nodes.node_count:
        return _nodes(job, taken.lost_nodes, cluster, policy, free)
    return _limit_of_same_run(job, taken, cluster, policy)


def _turn(
    job: Job, for_job_id: str, cluster: Cluster, policy: str, *, urgent_first: bool
) -> Prioritise | None:
    """A requeued job goes first in the queue, once the urgent job has started, cannot start or is urgent no
    more. Only jobs that the site has opted in do: where the owner can write what was taken, it counts for no
    other job.
    """
    waits = urgent_first and any(
        one.job_id == for_job_id and not one.blocked_by for one in cluster.waiting_urgent_jobs()
    )
    if waits or job.blocked_by or not job.preemptible:
        return None
    return Prioritise(job_id=job.job_id, for_job_id=for_job_id, policy=policy, reason=Reason.TAKEN)


def _nodes(job: Job, lost: LostNodes, cluster: Cluster, policy: str, free: list[str]) -> Expand | None:
    """A shrunk job grows by the free nodes that may serve it until it has to end."""
    sets, barred = cluster.node_sets(), kept_by_site(job, cluster)
    eligible = [
        name
        for name in free
        if (job.eligible_nodes is None or name in job.eligible_nodes) and not sets.has(barred, name)
    ]
    nodes = tuple(eligible[: lost.node_count - job.node_count])
    if not nodes or job.kind is not JobKind.MALLEABLE or "expand" not in cluster.actions:
        return None
    return Expand(
        job_id=job.job_id,
        for_job_id=job.job_id,
        policy=policy,
        reason=Reason.TAKEN,
        nodes=nodes,
        reservation=None,
    )


def _limit_of_next_run(job: Job, taken: TakenFromJob, cluster: Cluster, policy: str) -> RestoreLimit | None:
    """A job in a later run gets back the time limit that it had before."""
    usual_s = taken.usual_walltime_s(job.walltime_s)
    if usual_s is None or _may_be_set(usual_s, job, cluster):
        return _restore(job, usual_s, taken, None, policy)
    left = replace(taken, for_job_id=None, lost_nodes=None)
    return None if left == taken else _restore(job, None, taken, left, policy)


def _limit_of_same_run(job: Job, taken: TakenFromJob, cluster: Cluster, policy: str) -> RestoreLimit | None:
    """A job that has all its nodes, and runs on, pays for the time that it had fewer of them, not for more.

    What was raised for a checkpoint pays for that. Its next run gets back the time limit that it had before.
    """
    if taken.usual_walltime_s(job.walltime_s) is None:
        return _restore(job, None, taken, None, policy)
    lost, fair_s = taken.lost_nodes, None
    # If the clock was set back meanwhile, the time without these nodes is unknown: the job keeps its limit.
    if lost is not None and lost.since_s <= cluster.now_s:
        fair_s = lost.fair_walltime_s(cluster.now_s)
    walltime_s = None if fair_s is None else _MINUTE_S * ceil(fair_s / _MINUTE_S)
    if walltime_s is not None and not _may_be_set(walltime_s, job, cluster):
        walltime_s = None
    raised_to_s = taken.raised_to_s if walltime_s is None else walltime_s
    left = replace(taken, for_job_id=None, lost_nodes=None, raised_to_s=raised_to_s)
    return None if left == taken else _restore(job, walltime_s, taken, left, policy)


def _may_be_set(walltime_s: float, job: Job, cluster: Cluster) -> bool:
    """Whether that is a lower time limit, and one that does not end soon."""
    run_s = 0.0 if job.start_s is None else cluster.now_s - job.start_s
    return run_s + _MARGIN_S <= walltime_s < job.walltime_s


def _restore(
    job: Job, walltime_s: float | None, taken: TakenFromJob, left: TakenFromJob | None, policy: str
) -> RestoreLimit:
    return RestoreLimit(
        job_id=job.job_id,
        for_job_id=job.job_id,
        policy=policy,
        reason=Reason.TAKEN,
        walltime_s=walltime_s,
        taken=taken,
        left=left,
    )


def _urgent_job_waits(cluster: Cluster) -> bool:
    """Whether an urgent job waits that could start: it gets free nodes first."""
    return any(not job.blocked_by for job in cluster.waiting_urgent_jobs())


def _free_nodes(cluster: Cluster, operations: tuple[Operation, ...]) -> list[str]:
    """The free nodes that no operation is about to hold."""
    held = {name for operation in operations for name in operation.nodes}
    return [name for name in cluster.free_nodes() if name not in held]
