"""Jobs that the cluster keeps from starting because it has lost the hold that makeway had bound them to.

Slurm 24.11 and later do so: see decision 41. The cluster does not say which reservation it has lost. The
journal says which jobs makeway had bound, or, if it was lost, a word that the cluster keeps with the job; and
the snapshots before which of them have got another reservation since, or lacked something else.
"""

from collections.abc import Callable, Mapping

from makeway.daemon.operation.tasks import ENDED
from makeway.policies.model import Cluster, Job, JobState, Operation, Reason, Release, Reserve, Task

REMEMBERED_S = 7 * 86_400.0
"""How long after the last command for a hold a lost reservation of its job still counts as that hold, in
seconds. Neither the controller nor the daemon is often down that long.
"""
_LACKS = ""
"""The job lacked something: it may be held by its user."""


class LostHolds:
    """What gives the jobs of lost holds back to the queue.

    Args:
        last_hold: the last hold that makeway has, or may have, bound a job to, if a command for it was sent
            since an instant. None: there is none.
    """

    def __init__(self, last_hold: Callable[[str, float], Reserve | None]) -> None:
        self._last_hold = last_hold
        self._others: Mapping[str, str] = {}
        """The waiting jobs last seen bound to a reservation that is not makeway's, with its name, or
        `_LACKS`.
        """

    def releases(
        self, cluster: Cluster, operations: tuple[Operation, ...], policy: str
    ) -> tuple[Release, ...]:
        """One for each such job that no open operation binds to a hold again.

        Args:
            cluster: the snapshot. To be called with each one, or another reservation is not seen.
            operations: those that are open.
            policy: the name that the actions bear.
        """
        lost = [job for job in cluster.jobs if job.reservation_lost]
        kept = {job.job_id: self._others[job.job_id] for job in lost if job.job_id in self._others}
        self._others = kept | _others(cluster)
        if not lost:
            return ()
        busy = _busy(operations)
        found = (self._release(job, cluster, policy) for job in lost if job.job_id not in busy)
        return tuple(release for release in found if release is not None)

    def _release(self, job: Job, cluster: Cluster, policy: str) -> Release | None:
        hold, own = self._hold_of(job, cluster.now_s)
        if hold is None or any(one.name == hold for one in cluster.reservations):
            return None
        if self._others.get(job.job_id, own) != own:
            return None
        return Release(
            job_id=job.job_id,
            for_job_id=job.job_id,
            policy=policy,
            reason=Reason.HOLD_LOST,
            reservation=hold,
            own_reservation=own,
            lost=True,
        )

    def _hold_of(self, job: Job, now_s: float) -> tuple[str | None, str | None]:
        """The hold that the job was bound to last, and its own reservation. None: there is none."""
        since_s = now_s - REMEMBERED_S
        known = self._last_hold(job.job_id, since_s)
        if known is not None:
            return known.reservation, known.own_reservation
        kept = job.last_hold
        counts = kept is not None and since_s <= kept.since_s <= now_s
        return (kept.reservation if kept is not None and counts else None), None


def _others(cluster: Cluster) -> dict[str, str]:
    """See `LostHolds._others`, of one snapshot."""
    return {
        job.job_id: _LACKS if job.blocked_by else job.reservation or _LACKS
        for job in cluster.jobs
        if job.state is JobState.PENDING
        and not job.reservation_lost
        and (job.blocked_by or (job.reservation and not cluster.owns_reservation(job.reservation)))
    }


def _busy(operations: tuple[Operation, ...]) -> set[str]:
    """The jobs that are bound to a hold again, or that are being freed. One whose freeing was refused is not
    asked for again as long as that operation is open.
    """
    return {
        task.action.job_id for operation in operations for task in operation.tasks if _frees(operation, task)
    }


def _frees(operation: Operation, task: Task) -> bool:
    """Whether the task frees its job or will do so."""
    match task.action:
        case Release(lost=True):
            return True
        case Release():
            return task.progress not in ENDED
        case Reserve():
            return task.progress not in ENDED and bool(task.action.nodes) and not operation.observe
        case _:
            return False
