"""Nodes that come free outside a hold while jobs are to leave for it: the hold gets them, and a job stays.

A choice of jobs is made once. Until they have saved their work, other jobs may end by themselves, and nothing
may wait for their nodes. Where such nodes spare a job its departure, they are added to the hold. The next
snapshot shows that hold, and the job is not asked to leave; the urgent job may start sooner.
"""

from makeway.daemon.operation.changed.hold_end import MAKES_WAY
from makeway.daemon.operation.changed.surplus import nodes_that_spare
from makeway.daemon.operation.fitness import hold_seen_s
from makeway.daemon.operation.handover import hold_for
from makeway.daemon.operation.tasks import open_evictions
from makeway.policies.common.departures import LEAVE_S
from makeway.policies.common.holds import eligible_set
from makeway.policies.common.urgent_jobs import (
    UrgentJob,
    could_start,
    held_up,
    unavailable_nodes,
    urgent_jobs,
)
from makeway.policies.model import (
    Cluster,
    Job,
    Operation,
    OperationKind,
    Reason,
    Reserve,
    changed,
)


def holds_with_spare_nodes(cluster: Cluster, refused: frozenset[str]) -> tuple[Reserve, ...]:
    """The holds that free nodes are to be added to, with these nodes. At most one: the next one is found in
    the next cycle.

    Free nodes serve urgent jobs that have too few first: as long as there are any, no hold gets more. Where
    nodes are only given as whole placements, none does.

    Args:
        cluster: the snapshot with the open operations.
        refused: the jobs, by id, for which the cluster has refused a hold just now. Their holds stay as they
            are: nodes may look free because the cluster keeps them for something else.
    """
    for operation in cluster.operations:
        if operation.for_job_id in refused:
            continue
        hold = _widened(operation, cluster)
        if hold is not None:
            return () if _some_have_too_few(cluster) else (hold,)
    return ()


def _some_have_too_few(cluster: Cluster) -> bool:
    """Whether an urgent job that could start now has too few nodes, or none are held for it."""
    served = {one.for_job_id for one in cluster.operations if one.kind in MAKES_WAY}
    served -= {one.job.job_id for one in urgent_jobs(cluster)}
    waits_for = held_up(cluster)
    return any(
        (job.eligible_s is None or job.eligible_s <= cluster.now_s) and could_start(cluster, job)
        for job in cluster.waiting_urgent_jobs()
        if job.job_id not in served and job.job_id not in waits_for
    )


def _widened(operation: Operation, cluster: Cluster) -> Reserve | None:
    """The hold of an operation with the free nodes that let a job stay. None: it stays as it is."""
    job = cluster.jobs_by_id().get(operation.for_job_id)
    if job is None or not open_evictions(operation) or hold_seen_s(operation) is None:
        return None
    if cluster.placements and job.demand is None:
        return None
    free = _free_elsewhere(operation, job, cluster)
    count = nodes_that_spare(operation, cluster, free) if free else 0
    if not count:
        return None
    nodes = (*operation.nodes, *cluster.node_sets().names(free)[:count])
    return changed(
        hold_for(
            changed(operation, nodes=nodes),
            job,
            cluster,
            waits_s=max(0.0, operation.give_up_s - cluster.now_s),
            own_reservation=operation.own_reservation,
        ),
        reason=Reason.CAME_FREE,
    )


def _free_elsewhere(operation: Operation, job: Job, cluster: Cluster) -> int:
    """The nodes outside the hold on which the urgent job could start now and end in time, as a set of the
    cluster's `node_sets`.
    """
    sets, shares = cluster.node_sets(), operation.kind is OperationKind.MAKE_WAY_SHARED
    allowed = eligible_set(job, cluster) & ~sets.asleep
    if shares:
        free = sets.of_new(cluster.free_nodes(job.eligible_nodes, job.demand)) & allowed
    else:
        free = cluster.free_set() & allowed
    if not free:
        return 0
    until_s = max(cluster.now_s, operation.deadline_s) + LEAVE_S + job.walltime_s
    urgent = UrgentJob(job=job, operation=operation)
    return free & ~unavailable_nodes(cluster, urgent, until_s=until_s).bits
