"""When which task of an operation may be issued: the order that the laws ask for is kept here, and here
alone.

No job is asked to leave before the hold was seen, and the hold is released after the lenders are first in the
queue. When time alone makes something due, there is a cycle.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

from makeway.daemon.operation.changed.ended_job import counts_as_gone_s
from makeway.daemon.operation.changed.hold_end import outgrows_hold_s
from makeway.daemon.operation.fitness import hold_seen_s, may_take, over_since_s, saved_since
from makeway.daemon.operation.handover import LOOK_AGAIN_S, next_look_s
from makeway.daemon.operation.observation import Timeouts
from makeway.daemon.operation.returns import about_to_start, method_of, starts_soon
from makeway.daemon.operation.tasks import ENDED, planned_places, signal_of
from makeway.policies.common.departures import pending_checkpoints
from makeway.policies.common.losses import application_s, overdue_s
from makeway.policies.model import (
    NO_RESOURCES,
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Expand,
    Job,
    JobState,
    Method,
    Operation,
    OperationKind,
    Phase,
    Prioritise,
    Progress,
    Release,
    Requeue,
    Reserve,
    RestoreLimit,
    RestorePriority,
    Shrink,
    Task,
    memoise_each,
)


def next_due(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> int | None:
    """Index of the task that may be issued now. None: there is nothing to do but wait.

    Asked again after each answer was recorded, it gives the tasks of one cycle in the order that is safe.
    """
    return next(all_due(operation, cluster, timeouts), None)


def all_due(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> Iterator[int]:
    """The indices of all tasks that may be issued now, in their order. After an answer others may be due."""
    places = planned_places(operation)
    if not places or operation.observe or rests(operation):
        return
    if next_look_s(operation, cluster, timeouts) is not None:
        return
    jobs = cluster.jobs_by_id()
    for index in places:
        task = operation.tasks[index]
        if _sleeps(operation, task):
            continue
        if task.issued_s is not None and cluster.now_s < task.issued_s + timeouts.retry_s:
            continue
        if _may_issue(operation, task, cluster, jobs, timeouts):
            yield index


def wakeup_s(operation: Operation, now_s: float, timeouts: Timeouts) -> float | None:
    """The next instant at which time alone makes something due. None: only a change of the cluster does."""
    if operation.observe:
        return operation.give_up_s if operation.give_up_s > now_s else None
    if rests(operation):
        return None
    instants = [operation.give_up_s] if operation.phase is Phase.MAKING_ROOM else []
    refused_s = hold_refused_s(operation)
    if refused_s is not None:
        instants.append(refused_s + timeouts.refused_s)
    if operation.short_since_s is not None:
        instants.append(operation.short_since_s + timeouts.refused_s)
    if _awaits_examination(operation, now_s):
        instants.append(now_s + LOOK_AGAIN_S)
    over_s = over_since_s(operation)
    if over_s is not None:
        instants.append(over_s + timeouts.settle_s)
    for task in operation.tasks:
        action = task.action
        if task.progress in ENDED:
            continue
        if task.issued_s is not None:
            if task.progress is Progress.PLANNED:
                instants.append(task.issued_s + timeouts.retry_s)
            wait_s = action.grace_s if isinstance(action, Checkpoint) else timeouts.settle_s
            instants.append(task.issued_s + wait_s)
        if isinstance(action, Requeue | Cancel):
            instants.append(action.not_after_s)
        if isinstance(action, Checkpoint) and action.not_before_s is not None:
            instants.append(action.not_before_s)
        if isinstance(action, Prioritise) and operation.ended_s is not None and _is_brief(operation):
            instants.append(operation.ended_s + timeouts.settle_s)
    return min((instant for instant in instants if instant > now_s), default=None)


def _awaits_examination(operation: Operation, now_s: float) -> bool:
    """Whether jobs could be asked to leave, if the cluster said that the urgent job would start then."""
    return (
        operation.phase is Phase.MAKING_ROOM
        and operation.short_since_s is None
        and hold_seen_s(operation) is not None
        and any(
            task.progress is Progress.PLANNED and task.issued_s is None and _could_go(task.action, now_s)
            for task in operation.tasks
        )
    )


def _could_go(action: Action, now_s: float) -> bool:
    """Whether an eviction that was decided on waits for nothing but the urgent job."""
    match action:
        case Checkpoint():
            return action.not_before_s is None or action.not_before_s <= now_s
        case Requeue() | Cancel():
            return action.method is Method.KILL
        case _:
            return isinstance(action, Shrink)


@memoise_each
def awaits_regular_checkpoint(operation: Operation) -> bool:
    """Whether the operation waits for a job's next regular checkpoint, which no event announces."""
    return any(
        method_of(task.action) is Method.APPLICATION and task.progress is Progress.PLANNED
        for task in operation.tasks
    )


def regular_checkpoint_look_s(operation: Operation, cluster: Cluster) -> float | None:
    """When to look for the regular checkpoints that jobs are to leave after. None: no job waits for one whose
    time is known.

    A job that works on after its checkpoint loses what it does then. So the cluster is asked when the
    checkpoint is due, and if it is late, after 1, 2, 4 seconds and so on.
    """
    if operation.observe or operation.phase is not Phase.MAKING_ROOM:
        return None
    jobs, now_s = cluster.jobs_by_id(), cluster.now_s
    instants: list[float] = []
    for task in operation.tasks:
        job = jobs.get(task.action.job_id)
        if task.progress is not Progress.PLANNED or method_of(task.action) is not Method.APPLICATION:
            continue
        if job is None or job.requeue_count != task.requeue_count:
            continue
        if saved_since(operation, task, job) is not None:
            continue
        in_s, late_s = application_s(job, now_s), overdue_s(job, now_s)
        if in_s:
            instants.append(now_s + in_s)
        if late_s is not None:
            instants.append(now_s + max(LOOK_AGAIN_S, late_s))
    return min(instants, default=None)


class NextCycle:
    """When the next cycle is due by time alone, as the last one has left it."""

    def __init__(self) -> None:
        self._again_s: float | None = None
        self._unsent = False
        self._checkpoint_look_s: float | None = None

    def note(
        self,
        operations: Sequence[Operation],
        cluster: Cluster,
        timeouts: Timeouts,
        *,
        again_s: float | None,
        unsent: bool,
    ) -> None:
        """At the end of a cycle.

        Args:
            operations: those that are open.
            cluster: the snapshot of the cycle.
            timeouts: how long operations wait.
            again_s: when the policy wants to decide again. None: on a change only.
            unsent: whether commands are due that the cycle did not send.
        """
        awaiting = filter(awaits_regular_checkpoint, operations)
        looks_s = (regular_checkpoint_look_s(operation, cluster) for operation in awaiting)
        self._checkpoint_look_s = min((at_s for at_s in looks_s if at_s is not None), default=None)
        self._unsent = unsent
        instants = [again_s, *(next_look_s(operation, cluster, timeouts) for operation in operations)]
        instants += (at_s(one, cluster) for one in operations for at_s in (counts_as_gone_s, outgrows_hold_s))
        self._again_s = min((at_s for at_s in instants if at_s and at_s > cluster.now_s), default=None)

    def checkpoint_look_s(self, now_s: float) -> float | None:
        """The next instant at which a regular checkpoint is looked for, after which a job is to leave. None:
        there is none.
        """
        look_s = self._checkpoint_look_s
        return None if look_s is None or look_s <= now_s else look_s

    def wakeup_s(
        self, operations: Iterable[Operation], now_s: float, poll_interval_s: float, timeouts: Timeouts
    ) -> float | None:
        """The next instant at which time alone makes something due, that of `checkpoint_look_s` included.
        None: only a change of the cluster does.
        """
        instants = [now_s + poll_interval_s] if self._unsent else []
        instants += [
            at_s for at_s in (self._again_s, self._checkpoint_look_s) if at_s is not None and at_s > now_s
        ]
        for operation in operations:
            due_s = wakeup_s(operation, now_s, timeouts)
            if due_s is not None:
                instants.append(due_s)
            if awaits_regular_checkpoint(operation):
                instants.append(now_s + poll_interval_s)
        return min(instants, default=None)


@memoise_each
def hold_index(operation: Operation) -> int | None:
    """Index of the task that made the present hold."""
    places = range(len(operation.tasks) - 1, -1, -1)
    return next((index for index in places if isinstance(operation.tasks[index].action, Reserve)), None)


def hold_refused_s(operation: Operation) -> float | None:
    """When the present hold was refused. None: it was not."""
    index = hold_index(operation)
    if index is None or operation.tasks[index].progress is not Progress.REFUSED:
        return None
    return operation.tasks[index].ended_s


@memoise_each
def rests(operation: Operation) -> bool:
    """Whether nothing is to be done but wait for the end of the job."""
    if operation.phase is Phase.LENT:
        return all(task.progress in ENDED or _sleeps(operation, task) for task in operation.tasks)
    return operation.phase is Phase.CLOSED


def _sleeps(operation: Operation, task: Task) -> bool:
    """Whether a task waits for the end of the urgent job that runs in its hold. What puts a
    job back does not.
    """
    return operation.phase is Phase.LENT and operation.kind.holds_while_running and not task.puts_back


def _may_issue(
    operation: Operation, task: Task, cluster: Cluster, jobs: Mapping[str, Job], timeouts: Timeouts
) -> bool:
    """Whether the laws let a planned task be issued now."""
    action = task.action
    if task.puts_back:
        return True
    match action:
        case Reserve():
            return bool(action.nodes) and _let_go(action, cluster)
        case Checkpoint():
            return (
                hold_seen_s(operation) is not None
                and _has_turn(operation, action, cluster)
                and may_take(operation, cluster, timeouts)
            )
        case Shrink():
            return hold_seen_s(operation) is not None and may_take(operation, cluster, timeouts)
        case Requeue() | Cancel():
            return (
                operation.phase is Phase.MAKING_ROOM
                and hold_seen_s(operation) is not None
                and _ready_to_leave(operation, task, action, cluster, jobs)
                and may_take(operation, cluster, timeouts)
            )
        case Expand():
            return True
        case Prioritise():
            job = jobs.get(action.job_id)
            waits = job is not None and job.state is JobState.PENDING
            return waits and not _yields(operation, action, cluster, timeouts)
        case RestorePriority() | RestoreLimit():
            return True
        case Release():
            if _is_brief(operation):
                return True  # the hold keeps others off the rest of the nodes
            # A lender that is not seen in front after a while is not waited for.
            ended_s = operation.ended_s if operation.ended_s is not None else operation.opened_s
            waited = cluster.now_s >= ended_s + timeouts.settle_s
            return _lenders_served(operation, jobs, waited=waited) and not any(
                starts_soon(task, cluster, jobs, timeouts.settle_s)
                if waited
                else about_to_start(task, cluster, jobs)
                for task in operation.tasks
            )
        case _:
            assert_never(action)


def _is_brief(operation: Operation) -> bool:
    """Whether its hold ends at the start of its urgent job, which was seen: other jobs may use the rest."""
    return operation.kind is OperationKind.MAKE_WAY_SHARED and operation.started_s is not None


def _yields(operation: Operation, lender: Prioritise, cluster: Cluster, timeouts: Timeouts) -> bool:
    """Whether a lender does not go to the front yet, because urgent jobs there fit into what the urgent job
    leaves of its nodes.

    The cluster starts them when the hold has ended, unless a job of the same priority that does not fit is
    ahead of them.
    """
    over_s = operation.ended_s
    if not _is_brief(operation) or over_s is None or cluster.now_s >= over_s + timeouts.settle_s:
        return False
    unused = [cluster.unused().get(name, NO_RESOURCES) for name in operation.nodes]
    return lender.job_id != operation.for_job_id and any(
        job.prioritised and job.demand is not None and any(left.covers(job.demand) for left in unused)
        for job in cluster.waiting_urgent_jobs()
    )


def _let_go(hold: Reserve, cluster: Cluster) -> bool:
    """Whether no other hold of makeway's has one of the nodes any more, except those out of which they are
    lent.

    What another hold gives up for this one must be seen first.
    """
    sets = cluster.node_sets()
    nodes = sets.of(hold.nodes)
    own = {hold.reservation, *hold.out_of}
    return not any(
        other.by_makeway and other.name not in own and nodes & sets.of(other.nodes)
        for other in cluster.reservations
    )


def _lenders_served(operation: Operation, jobs: Mapping[str, Job], *, waited: bool) -> bool:
    """Whether every lender is first in the queue, or out of reach: then the common queue may have the rest.

    `waited`: what was asked for once is enough, and no job is waited for that has not ended yet. Its
    processes may never end.
    """
    for task in operation.tasks:
        job = jobs.get(task.action.job_id)
        lasts = job is not None and job.state is JobState.COMPLETING
        if waited and task.issued_s is not None and (method_of(task.action) is None or lasts):
            continue
        if isinstance(task.action, Expand | Prioritise) and task.progress in (
            Progress.PLANNED,
            Progress.ISSUING,
        ):
            return False
        if method_of(task.action) is not None and task.progress in (Progress.ISSUING, Progress.ACCEPTED):
            return False
        if task.puts_back and task.progress is Progress.PLANNED:
            return False
    return True


def _has_turn(operation: Operation, action: Checkpoint, cluster: Cluster) -> bool:
    """Whether the file system is the job's by plan, or the checkpoints of other operations before it are
    over.
    """
    if action.not_before_s is None or cluster.now_s >= action.not_before_s:
        return True
    own = {task.action.job_id for task in operation.tasks}
    return not any(
        pending.turn_s < action.not_before_s
        for job_id, pending in pending_checkpoints(cluster).items()
        if job_id not in own
    )


def _ready_to_leave(
    operation: Operation, task: Task, action: Requeue | Cancel, cluster: Cluster, jobs: Mapping[str, Job]
) -> bool:
    """Whether a job has had its chance to save its work (P2: the strategy chosen for it), or time is up.

    A job that was signalled has its grace, which `issuing` shortens if the signal is late.
    """
    match action.method:
        case Method.KILL | Method.SHRINK:
            return True
        case Method.SYSTEM:
            signal = signal_of(operation, task)
            if signal is not None and signal.progress is Progress.REFUSED:
                # It saves nothing: the job then runs on for as long as the plan can wait.
                return cluster.now_s >= action.not_after_s
            return signal is None or signal.progress in ENDED
        case Method.APPLICATION:
            saved_s = saved_since(operation, task, jobs.get(action.job_id))
            return saved_s is not None or cluster.now_s >= action.not_after_s
        case _:
            assert_never(action.method)
