"""What is on the cluster although nothing needs it any more, derived from each snapshot."""

from makeway.daemon.operation.kept.missing import missing
from makeway.daemon.operation.tasks import ENDED
from makeway.policies.model import (
    RESERVATION_PREFIX,
    Cluster,
    Expand,
    JobState,
    Operation,
    Prioritise,
    Progress,
    Reason,
    Release,
    RestoreLimit,
    RestorePriority,
    memoise_each,
)


def left_behind(
    cluster: Cluster,
    operations: tuple[Operation, ...],
    policy: str,
    *,
    plans: bool,
    urgent_first: bool = True,
) -> tuple[Expand | Prioritise | Release | RestoreLimit | RestorePriority, ...]:
    """What takes it away, and what gives jobs back what they say was taken from them.

    Args:
        cluster: the snapshot.
        operations: those that are open; what they account for is not left behind.
        policy: the name that the actions bear.
        plans: whether that policy gives waiting jobs places; else those that jobs have are an earlier
            policy's.
        urgent_first: whether urgent jobs that wait come before jobs that get something back.
    """
    restored = _front_places(cluster, operations, policy)
    if not plans and cluster.recomputes_priority:
        restored += _planned_places(cluster, operations, policy)
    orphans = _orphans(cluster, operations, policy)
    return (*orphans, *restored, *missing(cluster, operations, policy, urgent_first=urgent_first))


def _orphans(cluster: Cluster, operations: tuple[Operation, ...], policy: str) -> list[Release]:
    """For makeway's reservations that belong to no operation: an earlier run left them."""
    own = [reservation for reservation in cluster.reservations if reservation.by_makeway]
    if not own:
        return []
    kept = {name for operation in operations for name in _accounted_for(operation)}
    return [
        Release(
            job_id=(
                job_id := reservation.name.removeprefix(cluster.reservation_prefix).removeprefix(
                    RESERVATION_PREFIX
                )
            ),
            for_job_id=job_id,
            policy=policy,
            reason=Reason.ORPHANED,
            reservation=reservation.name,
        )
        for reservation in own
        if reservation.name not in kept
    ]


@memoise_each
def _accounted_for(operation: Operation) -> tuple[str, ...]:
    """The reservations that an operation needs, or is about to release."""
    releases = [(task.action, task.progress) for task in operation.tasks if isinstance(task.action, Release)]
    to_come = [release.reservation for release, progress in releases if progress not in ENDED]
    # A release that was dropped has ended nothing: the operation holds its nodes again.
    released = any(progress in ENDED - {Progress.DROPPED} for _, progress in releases)
    return tuple(to_come) if released else (operation.reservation, *to_come)


def _front_places(cluster: Cluster, operations: tuple[Operation, ...], policy: str) -> list[RestorePriority]:
    """For jobs that have started from the front of the queue, and have no use for their place any more."""
    started = [job for job in cluster.jobs if job.prioritised and job.state is JobState.RUNNING]
    under_way = _restored(operations) if started else set[str]()
    return [
        RestorePriority(job_id=job.job_id, for_job_id=job.job_id, policy=policy, reason=Reason.STARTED)
        for job in started
        if job.job_id not in under_way
    ]


def _planned_places(
    cluster: Cluster, operations: tuple[Operation, ...], policy: str
) -> list[RestorePriority]:
    """For waiting jobs whose queue positions belong to a plan that is no longer followed."""
    placed = [job for job in cluster.jobs if job.queue_position is not None and job.state is JobState.PENDING]
    busy = (
        _restored(operations) | {operation.for_job_id for operation in operations} if placed else set[str]()
    )
    return [
        RestorePriority(job_id=job.job_id, for_job_id=job.job_id, policy=policy, reason=Reason.ORPHANED)
        for job in placed
        if job.job_id not in busy
    ]


def _restored(operations: tuple[Operation, ...]) -> set[str]:
    """The jobs whose priority is being given back."""
    return {
        task.action.job_id
        for operation in operations
        for task in operation.tasks
        if isinstance(task.action, RestorePriority)
    }
