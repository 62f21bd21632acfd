"""Announcements: which are kept, and what becomes of an operation when the announced job arrives. Pure
functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from makeway.daemon.operation.giving_back import give_back
from makeway.daemon.operation.observation import Timeouts
from makeway.daemon.operation.observed import close_observed
from makeway.daemon.operation.returns import method_of
from makeway.daemon.operation.tasks import ended, may_be_dropped
from makeway.policies.common.notices import arrivals
from makeway.policies.model import (
    Checkpoint,
    Cluster,
    Ending,
    Job,
    JobState,
    Method,
    Notice,
    Operation,
    OperationKind,
    OperationOutcome,
    Phase,
    Progress,
    Reason,
    Task,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """How the announcements that are kept differ from those of the last cycle."""

    arrived: tuple[Notice, ...] = ()
    """Those whose job is here now, with its id."""
    over: tuple[str, ...] = ()
    """The ids of those to forget: their job has ended, or never came."""
    missed: tuple[str, ...] = ()
    """The ids of those that count against their users: their job never came, though the cluster was watched,
    or came for less than half of the announced nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """When this process looked at the cluster. None: it has not looked yet."""

    first_s: float | None = None
    last_s: float | None = None
    """Before the present snapshot."""

    def at(self, now_s: float) -> "Watch":
        """With one more look."""
        return Watch(first_s=now_s if self.first_s is None else self.first_s, last_s=now_s)

    def would_have_seen(self, notice: Notice) -> bool:
        """Whether it was there when the job was expected, and looked at least once since."""
        return (
            self.first_s is not None
            and self.last_s is not None
            and self.first_s <= notice.expected_s <= self.last_s
        )


def changes(
    notices: Sequence[Notice],
    operations: Sequence[Operation],
    cluster: Cluster,
    timeouts: Timeouts,
    watch: Watch,
) -> Changes:
    """What a snapshot says about the announcements.

    One without a job is kept until `give_up_after_s` after the arrival that it promised, as long as the hold
    for it. `watch`: the looks before.
    """
    jobs = cluster.jobs_by_id()
    found = arrivals(notices, cluster.jobs, (operation.for_job_id for operation in operations))
    over = [
        notice.notice_id
        for notice in notices
        if notice.notice_id not in found
        and (
            cluster.now_s >= notice.expected_s + timeouts.give_up_after_s
            if notice.job_id is None
            else notice.job_id not in jobs
        )
    ]
    missed = [
        notice.notice_id
        for notice in notices
        if notice.job_id is None
        and (
            came_too_small(notice, found[notice.notice_id])
            if notice.notice_id in found
            else notice.notice_id in over and watch.would_have_seen(notice)
        )
    ]
    return Changes(
        arrived=tuple(
            replace(notice, job_id=found[notice.notice_id].job_id)
            for notice in notices
            if notice.notice_id in found
        ),
        over=tuple(over),
        missed=tuple(missed),
    )


def came_too_small(notice: Notice, job: Job) -> bool:
    """Whether the job that came for an announcement has less than half of the announced nodes."""
    return 2 * job.node_count < notice.node_count


def handed_over(operation: Operation, notices: Sequence[Notice], cluster: Cluster) -> Operation:
    """The operation of an announcement whose job is here, as the job's own; any other as it is."""
    if operation.kind is not OperationKind.NOTICE or operation.phase is not Phase.MAKING_ROOM:
        return operation
    job_id = next((one.job_id for one in notices if one.notice_id == operation.for_job_id), None)
    job = None if job_id is None else cluster.jobs_by_id().get(job_id)
    if job is None:
        return operation
    if operation.observe:
        # Nothing is really held: what would be done for the job is decided, and reported, by itself.
        return close_observed(operation, OperationOutcome.ARRIVED, cluster.now_s)
    return _hand_over(operation, job, cluster)


def _hand_over(operation: Operation, job: Job, cluster: Cluster) -> Operation:
    """Pass what is held for an announcement on to its job, which has arrived.

    No further job is asked to leave for the announcement: the policy decides again which jobs have to. Only
    those that are saving their work already leave once they have. If the job did not wait for the nodes, they
    go back.
    """
    asked = {
        task.action.job_id
        for task in operation.tasks
        if isinstance(task.action, Checkpoint) and task.progress is not Progress.PLANNED
    }
    tasks: list[Task] = []
    for task in operation.tasks:
        # Those that have ended too: a controller that crashes may forget them, and then they are done again.
        task = replace(task, action=replace(task.action, for_job_id=job.job_id))
        saving = method_of(task.action) is Method.SYSTEM and task.action.job_id in asked
        if may_be_dropped(task) and not saving:
            task = ended(task, Ending.JOB_ARRIVED, cluster.now_s)
        tasks.append(task)
    operation = replace(operation, kind=OperationKind.ARRIVAL, for_job_id=job.job_id, tasks=tuple(tasks))
    if job.state is JobState.PENDING or job.reservation == operation.reservation:
        return operation
    return give_back(replace(operation, started_s=job.start_s), cluster, Reason.URGENT_FITS)
