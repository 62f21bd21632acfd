"""Whether a hold lasts as long as its job may run: the time limit of the job may have been raised. And
whether the job that runs in it is better off without.

Slurm ends a job that runs in a reservation when the reservation ends, whatever its time limit (22.05, 24.11
and 26.05 as tried; `ResvOverRun` allows it some minutes).
"""

from dataclasses import replace
from typing import Final

from makeway.policies.common.departures import OVERDUE_S
from makeway.policies.common.holds import site_begins_s
from makeway.policies.model import Cluster, Job, JobState, Operation, OperationKind, Phase, Reserve, Task

MAKES_WAY: Final = frozenset({OperationKind.MAKE_WAY, OperationKind.MAKE_WAY_SHARED})
"""The operations whose hold was decided on for an urgent job that is here."""
LONGEST_S: Final = 350 * 86_400.0
"""How long a hold may last from its start to its end for it to be lengthened, in seconds: clusters hold nodes
for less than a year."""
LAST_S: Final = 600.0
"""If the job of a hold may run on after its time limit, or was suspended, makeway ends the hold so many
seconds before its end time: longer than the daemon needs to start again."""
SPARE_S: Final = 60.0
"""How much longer than it needs to be a hold is made, in seconds: clusters may count in minutes."""
RESUMED_S: Final = 60.0
"""How often a job that is suspended is looked at near the end of its hold, in seconds: only while it runs can
it be freed."""


def ends_too_soon(operation: Operation, job: Job, cluster: Cluster) -> bool:
    """Whether the hold of a waiting urgent job ends before the job would if it started now, and could last
    longer: one that ends when the site needs a node cannot, nor one that has lasted for too long already.
    """
    if operation.kind not in MAKES_WAY or job.walltime_s > LONGEST_S:
        return False
    until_s = cluster.now_s + job.walltime_s
    until_s = site_begins_s(cluster, operation.nodes, until_s) or until_s
    return any(
        reservation.name == operation.reservation
        and reservation.end_s < until_s <= reservation.start_s + LONGEST_S
        for reservation in cluster.reservations
    )


def outgrows_hold(operation: Operation, job: Job, cluster: Cluster) -> bool:
    """Whether an urgent job that runs in its hold has to run on without it: it has given nodes away, which
    would be idle until its end, or it might be ended with the hold.

    One with a raised time limit is freed at once, while this daemon is there to do it. One that may run on
    after its limit keeps its hold as long as possible: most jobs end before. So does one that runs longer
    than it seemed to be allowed to: Slurm does not count the time for which a job was suspended. Nodes that
    a lender gave can go back to it only from the hold.
    """
    end_s = _end_s(operation, cluster)
    if end_s is None or job.start_s is None or job.state is not JobState.RUNNING:
        return False
    outlives = end_s < _limit_s(job, job.start_s) or cluster.now_s >= _freed_s(job, job.start_s, end_s)
    return outlives or len(job.nodes) < len(operation.nodes)


def outgrows_hold_s(operation: Operation, cluster: Cluster) -> float | None:
    """When to look whether an urgent job that still runs in its hold has to run on without it. None: never.

    No event announces that a job runs on after its time limit. Nor does one announce that a suspended job is
    resumed: near the end of its hold it is looked at again and again.
    """
    job = cluster.jobs_by_id().get(operation.for_job_id) if operation.phase is Phase.LENT else None
    end_s = None if job is None else _end_s(operation, cluster)
    if job is None or job.start_s is None or end_s is None:
        return None
    if job.state is JobState.RUNNING:
        return _freed_s(job, job.start_s, end_s)
    if job.state is JobState.SUSPENDED:
        return max(_freed_s(job, job.start_s, end_s), cluster.now_s + RESUMED_S)
    return None


def _end_s(operation: Operation, cluster: Cluster) -> float | None:
    """When the hold of an operation ends. None: it has none."""
    return next((one.end_s for one in cluster.reservations if one.name == operation.reservation), None)


def _limit_s(job: Job, start_s: float) -> float:
    return start_s + min(job.walltime_s, LONGEST_S)


def _freed_s(job: Job, start_s: float, end_s: float) -> float:
    """From when on a job that still runs is better off without its hold, which ends at `end_s`."""
    latest_s = _limit_s(job, start_s) + job.overtime_s
    if latest_s > end_s:
        return end_s - LAST_S
    return max(end_s - LAST_S, latest_s + min(OVERDUE_S, (end_s - latest_s) / 2))


def lengthened(hold: Task, operation: Operation, job: Job, cluster: Cluster, settle_s: float) -> Task | None:
    """The task of a hold that ends too soon, with a hold that lasts until the job has ended, however late it
    starts. None: it was lengthened just now, and the view is too old to show it.
    """
    action = hold.action
    if not isinstance(action, Reserve):
        return None
    lasts_s = job.walltime_s + max(0.0, operation.give_up_s - cluster.now_s) + SPARE_S
    just_now = hold.issued_s is not None and cluster.now_s < hold.issued_s + settle_s
    if lasts_s <= action.duration_s and just_now:
        return None
    lasts_s = max(lasts_s, action.duration_s)
    until_s = site_begins_s(cluster, action.nodes, cluster.now_s + lasts_s)
    return replace(hold, action=replace(action, duration_s=lasts_s, until_s=until_s))
