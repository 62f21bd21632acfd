"""Which nodes of a hold its job can still get, and which jobs use them until an announced job arrives. Pure
functions.

A guest is a job that was started on nodes held for an announced job. Its own hold overlapped with the
announced job's and was released at the guest's start (`Reserve.out_of`). Since then it is an ordinary running
job, except that it has to leave as soon as the announced job arrives.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), section III-B-1: backfilling
    reserved nodes.

Differs from the paper:
    A job that the site no longer allows makeway to evict does not count as a guest.
"""

from collections.abc import Collection, Iterable, Mapping

from makeway.policies.common.departures import (
    OVERDUE_S,
    NodeRelease,
    ends_by,
    node_release_of,
    node_releases,
    stuck,
)
from makeway.policies.common.shared_nodes import with_room
from makeway.policies.model import (
    Cancel,
    Checkpoint,
    Cluster,
    Job,
    JobState,
    NodeSets,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Requeue,
    Reservation,
    Resources,
    Shrink,
    memoise_last,
)
from makeway.policies.safety.protection import Refusal, protection


def shortfall(operation: Operation, cluster: Cluster) -> tuple[str, ...]:
    """The nodes of an operation's hold that will not come free by themselves, in the hold's order.

    A node is lost if it is not up, if the waiting job may not run there or would not end before the site
    needs it, or if jobs other than the urgent one that no operation is evicting use what the urgent job needs
    of it. A job that is completing leaves by itself, unless it is stuck and no operation has made it leave. A
    silent node is not lost yet.
    """
    return cluster.node_sets().among(operation.nodes, shortfall_set(operation, cluster))


def shortfall_set(operation: Operation, cluster: Cluster) -> int:
    """The same as a set of the cluster's `node_sets`."""
    borrower = cluster.jobs_by_id().get(operation.for_job_id)
    demand = _demand(operation, borrower)
    sets = cluster.node_sets()
    held = sets.of(operation.nodes)
    eligible = eligible_set(borrower, cluster)
    if demand is not None:
        releases = hold_releases(cluster, (operation,))
        with_room_now = with_room(cluster, releases, demand, frozenset(operation.nodes))
        return held & ~((sets.of_new(with_room_now) | sets.silent) & eligible)
    if (borrower is None or not borrower.nodes) and any(one is operation for one in cluster.operations):
        good = _releasing_or_free(cluster)
    else:
        releases = hold_releases(cluster, (operation,))
        occupied = occupied_set(sets, [job for job in cluster.jobs if job is not borrower], releases)
        good = sets.up & ~occupied
    return held & ~((good | sets.silent) & eligible)


def hold_releases(cluster: Cluster, operations: tuple[Operation, ...] = ()) -> dict[str, NodeRelease]:
    """As `node_releases`, with the jobs that an open operation has made to leave and that are still
    completing, however long they take: no other job leaves in their place.
    """
    found, lasting = node_releases(cluster, operations), stuck(cluster)
    for operation in (*cluster.operations, *operations) if lasting else ():
        for task in operation.tasks if operation.phase is not Phase.CLOSED and not operation.observe else ():
            left = task.progress in (Progress.DONE, Progress.GONE) and not task.ran_again
            release = node_release_of(task.action, cluster.now_s)
            if left and release is not None and task.action.job_id in lasting:
                found[task.action.job_id] = release
    return found


def eligible_set(job: Job | None, cluster: Cluster) -> int:
    """The nodes on which a waiting job may run now, and would end before a reservation of the site begins.
    All, if it runs or is not there.
    """
    if job is None or job.nodes:
        return ~0
    sets = cluster.node_sets()
    eligible = ~0 if job.eligible_nodes is None else sets.of(job.eligible_nodes)
    return eligible & ~site_set(cluster, cluster.now_s + job.walltime_s)


def site_set(cluster: Cluster, until_s: float) -> int:
    """The nodes in reservations of the site that are not over and begin before `until_s`, as a set of the
    cluster's `node_sets`.
    """
    return cluster.node_sets().union(
        one.nodes
        for one in site_reservations(cluster.reservations)
        if one.start_s < until_s and cluster.now_s < one.end_s
    )


def site_begins_s(cluster: Cluster, nodes: Collection[str], until_s: float) -> float | None:
    """When the site's next reservation of one of the nodes begins. None: there is none before `until_s`."""
    to_come = [
        one for one in site_reservations(cluster.reservations) if cluster.now_s < one.start_s < until_s
    ]
    if not to_come:
        return None
    sets = cluster.node_sets()
    held = sets.of_any(nodes)
    return min((one.start_s for one in to_come if sets.of(one.nodes) & held), default=None)


@memoise_last
def site_reservations(reservations: tuple[Reservation, ...]) -> tuple[Reservation, ...]:
    """Those that makeway did not make."""
    return tuple(one for one in reservations if not one.by_makeway)


def _demand(operation: Operation, borrower: Job | None) -> Resources | None:
    """What the job of an operation needs on each held node. None: whole nodes."""
    match operation.kind:
        case OperationKind.MAKE_WAY_SHARED | OperationKind.ARRIVAL:
            return None if borrower is None else borrower.demand
        case OperationKind.NOTICE:
            return None if operation.notice is None else operation.notice.demand
        case _:
            return None


def is_in_vain(operation: Operation, cluster: Cluster) -> bool:
    """Whether a hold that lacks room need not be kept, if no more room can be made for its job.

    It is kept if a job has been asked to leave for it, and if the jobs that it waits for are about to end or
    are completing, however long that takes.
    What becomes of a hold whose nodes are not up is decided elsewhere: they may come back.
    """
    if operation.kind is OperationKind.ARRIVAL:
        return True
    takes = any(
        isinstance(task.action, Checkpoint | Requeue | Cancel | Shrink)
        and (task.issued_s is not None or task.progress not in (Progress.DROPPED, Progress.REFUSED))
        for task in operation.tasks
    )
    sets, missing = cluster.node_sets(), shortfall_set(operation, cluster)
    if takes or missing & ~sets.up:
        return False
    soon = ends_by(cluster, cluster.now_s + OVERDUE_S)
    ending = (job for job in cluster.holders() if job.job_id in soon or job.state is JobState.COMPLETING)
    return bool(missing & ~sets.union(job.nodes for job in ending))


def lost_for_good(operation: Operation, cluster: Cluster) -> int:
    """As `shortfall_set`, for an announced job that has not arrived: nodes of its guests are not lost."""
    missing = shortfall_set(operation, cluster)
    guests_of = guests(cluster).get(operation.reservation, ()) if missing else ()
    if not guests_of:
        return missing
    sets = cluster.node_sets()
    theirs = sets.union(job.nodes for job in guests_of) & ~sets.of(cluster.shared_nodes())
    return missing & ~(theirs & sets.up)


@memoise_last
def _releasing_or_free(cluster: Cluster) -> int:
    """Nodes that are up and idle, or held only by jobs that are completing or that an open operation is
    evicting.
    """
    sets = cluster.node_sets()
    return sets.up & ~still_occupied_set(cluster, hold_releases(cluster))


def occupied_set(sets: NodeSets, jobs: Iterable[Job], releases: Mapping[str, NodeRelease]) -> int:
    """The nodes that these jobs go on holding."""
    released = ((job, releases.get(job.job_id)) for job in jobs if job.nodes)
    return sets.union(job.nodes if release is None else release.kept_nodes for job, release in released)


def still_occupied_set(cluster: Cluster, releases: Mapping[str, NodeRelease]) -> int:
    """The nodes that all jobs go on holding. Where none is shared, only the jobs that leave are looked at."""
    sets, jobs = cluster.node_sets(), cluster.jobs_by_id()
    if cluster.shared_nodes():
        return occupied_set(sets, cluster.jobs, releases)
    leaving = [(jobs[job_id], release) for job_id, release in releases.items() if job_id in jobs]
    kept = sets.union(release.kept_nodes for job, release in leaving if job.nodes)
    return cluster.held_set() & ~sets.union(job.nodes for job, _ in leaving) | kept


@memoise_last
def guests(cluster: Cluster) -> Mapping[str, tuple[Job, ...]]:
    """The guests of each reservation that may be evicted, sorted by job id.

    Guests that are younger than the site's minimum run time count too: they were chosen so that they are old
    enough when the announced job is expected.
    """
    jobs = cluster.jobs_by_id()
    found: dict[str, list[Job]] = {}
    for operation in cluster.operations:
        job = jobs.get(operation.for_job_id)
        if operation.phase is not Phase.LENT or operation.observe or job is None:
            continue
        for name in operation.out_of:
            if protection(job, cluster) in {None, Refusal.MIN_RUNTIME}:
                found.setdefault(name, []).append(job)
    return {name: tuple(sorted(held, key=lambda job: job.job_id)) for name, held in found.items()}
