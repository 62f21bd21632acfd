"""Who gets next what an operation holds. Pure functions.

What is held for an announcement becomes the hold of the announced job when that arrives. What an urgent task
of a job array had becomes the hold of the next task: an array with a limit (`--array=0-7%1`) is served by one
eviction, not by one for each task. So are the jobs of a user that wait for each other (`--dependency`) or,
with `linger_s`, come soon after each other. Decision 49 argues the rules.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from makeway.daemon.operation.changed.hold_end import LONGEST_S, SPARE_S
from makeway.daemon.operation.giving_back import give_back
from makeway.daemon.operation.observation import Timeouts
from makeway.daemon.operation.observed import close_observed
from makeway.daemon.operation.returns import method_of
from makeway.daemon.operation.tasks import ENDED, ended, may_be_dropped, planned
from makeway.policies.common.holds import shortfall_set, site_begins_s
from makeway.policies.common.notices import arrivals
from makeway.policies.common.urgent_jobs import held_up
from makeway.policies.model import (
    Checkpoint,
    Cluster,
    Ending,
    Expand,
    Job,
    JobState,
    Method,
    Notice,
    Operation,
    OperationKind,
    OperationOutcome,
    Phase,
    Prioritise,
    Progress,
    Reason,
    Release,
    Reserve,
    Task,
    changed,
)
from makeway.policies.safety.prices import START_WITHIN_S

LOOK_AGAIN_S = 1.0
"""Until the cluster is asked again, in seconds: what the urgent job lacks, after a hold was seen (Slurm takes
about three to look at a job that was changed), whether a checkpoint that is due is complete, or whether a job
may start that waited for another one.
"""


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
    if not found and not over:
        return Changes()
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
    operation = replace(
        operation,
        kind=OperationKind.ARRIVAL,
        for_job_id=job.job_id,
        tasks=tuple(tasks),
        array_job_id=job.array_job_id,
        user=job.user,
    )
    if job.state is JobState.PENDING or job.reservation == operation.reservation:
        return operation
    return give_back(replace(operation, started_s=job.start_s), cluster, Reason.URGENT_FITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOn:
    """What becomes of an operation whose nodes the next task or job gets."""

    closed: Operation
    """The operation, over: its lenders are now those of `opened`."""
    opened: Operation
    """The operation for the next task or job."""


def passed_on(
    operations: Sequence[Operation], cluster: Cluster, timeouts: Timeouts, new_id: Callable[[], str]
) -> tuple[PassedOn, ...]:
    """The operations whose urgent job is over, and whose nodes the next one gets: the next task of its array,
    or a job of its user that waited for it.

    Args:
        operations: makeway's, as the snapshot makes them.
        cluster: the snapshot.
        timeouts: how long jobs follow each other.
        new_id: gives each new operation an id that no other one ever has.
    """
    may_be = [operation for operation in operations if _may_be_passed_on(operation, cluster, timeouts)]
    if not may_be:
        return ()
    found: list[PassedOn] = []
    present = {one.operation_id: one for one in operations}
    for operation in may_be:
        if not any(follows(job, operation, timeouts) for job in cluster.waiting_urgent_jobs()):
            continue
        job = _next_job(operation, changed(cluster, operations=tuple(present.values())), timeouts)
        if job is None or not has_room(operation, job, cluster):
            continue
        one = PassedOn(
            closed=_closed(operation, cluster.now_s),
            opened=_opened(operation, job, cluster, timeouts, new_id()),
        )
        found.append(one)
        present |= {operation.operation_id: one.closed, one.opened.operation_id: one.opened}
    return tuple(found)


def next_look_s(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> float | None:
    """When to look again for a job that gets the nodes next, while they stay held for it. None: they go back.

    A job that waits for another one is awaited for a moment: Slurm looks at a dependency about a second after
    the job that has ended is gone. A job that is not submitted yet is awaited for `linger_s`, as long as no
    urgent job waits without room.
    """
    if operation.phase is not Phase.RETURNING or operation.ended_s is None:
        return None
    since_s = cluster.now_s - operation.ended_s
    if since_s < timeouts.settle_s and any(
        job.waits_for_another and _is_alike(job, operation) for job in cluster.waiting_urgent_jobs()
    ):
        look_s = cluster.now_s + LOOK_AGAIN_S
    elif since_s < timeouts.linger_s and not startable(cluster):
        look_s = operation.ended_s + timeouts.linger_s
    else:
        return None
    return look_s if _may_be_passed_on(operation, cluster, timeouts) else None


def was_passed_on(operation: Operation) -> bool:
    """Whether the next task or job has got its nodes."""
    return any(
        isinstance(task.action, Release) and task.ending is Ending.REPLACED for task in operation.tasks
    )


def _may_be_passed_on(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> bool:
    """Whether the job is over for which the operation holds nodes, and nothing was sent yet that gives them
    back.
    """
    if (
        operation.kind is not OperationKind.MAKE_WAY
        or operation.phase is not Phase.RETURNING
        or operation.observe
        or operation.for_job_id in cluster.jobs_by_id()
        or cluster.now_s >= operation.opened_s + timeouts.pass_on_s
    ):
        return False
    gives_back = [task for task in operation.tasks if isinstance(task.action, Expand | Prioritise | Release)]
    if not all(map(may_be_dropped, gives_back)):
        return False
    others_ended = all(task.progress in ENDED for task in operation.tasks if task not in gives_back)
    sets = cluster.node_sets()
    return others_ended and any(
        hold.name == operation.reservation
        and sets.of(hold.nodes) == sets.of(operation.nodes)
        and cluster.now_s < hold.end_s
        for hold in cluster.reservations
    )


def _next_job(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> Job | None:
    """The next job that could start now, and that no operation is for; tasks of the array come first. None:
    there is none.
    """
    waiting = (job for job in startable(cluster) if follows(job, operation, timeouts))
    return min(waiting, key=lambda job: turn(job, operation), default=None)


def startable(cluster: Cluster) -> list[Job]:
    """The waiting urgent jobs that lack nothing but nodes, and that no operation is for."""
    lacking = held_up(cluster)
    served = {one.for_job_id for one in cluster.operations if one.phase is not Phase.CLOSED}
    return [
        job
        for job in cluster.waiting_urgent_jobs()
        if job.job_id not in lacking
        and job.job_id not in served
        and (job.eligible_s is None or job.eligible_s <= cluster.now_s)
    ]


def follows(job: Job, operation: Operation, timeouts: Timeouts) -> bool:
    """Whether a waiting urgent job may have the nodes: it is a task of the same array, or could not start
    before the job of the operation had its nodes. With `linger_s`, that may also be because it was submitted
    later.
    """
    if _is_of_array(job, operation):
        return True
    since_s = job.waits_since_s if timeouts.linger_s else job.eligible_since_s
    return since_s is not None and since_s > operation.opened_s and _is_alike(job, operation)


def _is_of_array(job: Job, operation: Operation) -> bool:
    return bool(job.array_job_id) and job.array_job_id == operation.array_job_id


def _is_alike(job: Job, operation: Operation) -> bool:
    """Whether a job is of the same user and would use all the nodes, and starts alone."""
    most = job.node_count if job.node_count_max is None else job.node_count_max
    return (
        job.user == operation.user
        and job.node_count <= len(operation.nodes) <= most
        and job.demand is None
        and not job.het_job_id
    )


def turn(job: Job, operation: Operation) -> tuple[bool, float, int, str]:
    """Sorts the jobs that may have the nodes of an operation: tasks of its array first."""
    # Of two ids of one array, the longer one has the higher number.
    return not _is_of_array(job, operation), job.submit_s, len(job.job_id), job.job_id


def has_room(operation: Operation, job: Job, cluster: Cluster) -> bool:
    """Whether the job could run on the nodes of the hold."""
    for_it = replace(operation, for_job_id=job.job_id)
    return len(operation.nodes) - shortfall_set(for_it, cluster).bit_count() >= job.node_count


def _closed(operation: Operation, now_s: float) -> Operation:
    """The operation, over without a return."""
    tasks = tuple(
        task if task.progress in ENDED else ended(task, Ending.REPLACED, now_s) for task in operation.tasks
    )
    started = operation.started_s is not None  # else it was too brief for any snapshot, or was cancelled
    outcome = OperationOutcome.STARTED if started else OperationOutcome.NOT_STARTED
    return replace(operation, phase=Phase.CLOSED, outcome=outcome, tasks=tasks)


def hold_for(
    operation: Operation, job: Job, cluster: Cluster, *, waits_s: float, own_reservation: str | None
) -> Reserve:
    """The hold of an operation, made for another job, which may wait in it for `waits_s`. `own_reservation`:
    see `Reserve`.
    """
    duration_s = min(job.walltime_s, LONGEST_S) + waits_s + SPARE_S
    return Reserve(
        job_id=job.job_id,
        for_job_id=job.job_id,
        policy=operation.policy,
        reason=Reason.URGENT_FITS,
        reservation=operation.reservation,
        nodes=operation.nodes,
        duration_s=duration_s,
        kind=operation.kind,
        until_s=site_begins_s(cluster, operation.nodes, cluster.now_s + duration_s),
        own_reservation=own_reservation,
        requeue_count=job.requeue_count,
    )


def _opened(
    operation: Operation, job: Job, cluster: Cluster, timeouts: Timeouts, operation_id: str
) -> Operation:
    """An operation for the next task or job, with the hold and the lenders of an earlier one.

    It counts as opened when the first one was. Its time to start begins now: until now, the limit of the
    array or the earlier job held it up. What was taken keeps the names of those that it was taken for.
    """
    its = operation.own_reservation if _is_of_array(job, operation) else None
    own = cluster.own_reservation(job) or its
    within_s = START_WITHIN_S if job.start_within_s is None else job.start_within_s
    hold = hold_for(operation, job, cluster, waits_s=timeouts.give_up_after_s, own_reservation=own)
    taken = tuple(
        task
        for task in operation.tasks
        if method_of(task.action) is not None and task.progress is Progress.DONE
    )
    return Operation(
        operation_id=operation_id,
        kind=operation.kind,
        for_job_id=job.job_id,
        policy=operation.policy,
        reservation=operation.reservation,
        nodes=operation.nodes,
        opened_s=operation.opened_s,
        deadline_s=cluster.now_s + within_s,
        give_up_s=cluster.now_s + timeouts.give_up_after_s,
        tasks=(*taken, *planned((hold,), cluster, planned_s=cluster.now_s)),
        array_job_id=job.array_job_id,
        user=job.user,
    )
