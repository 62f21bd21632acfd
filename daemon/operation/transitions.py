"""The life of one operation as pure functions of values: each kind has a transition function of its own.

An operation is a list of tasks, one action each. `advance` reads a snapshot and says how far every task is;
`due.next_due` says which task may be issued now; `record` notes the answer. Nothing here remembers an event:
the same operation and the same snapshot always give the same result, so a start after a crash goes on where
the journal ends.

    reserve -> signal -> acknowledgement or grace over -> requeue or shrink -> nodes free
            -> the urgent job runs -> it ends -> expand, prioritise -> release

Some kinds of operations hold nodes for a start only, and release them when it is seen. A job that is started
before its turn keeps its operation until it ends or is evicted. An urgent job on shared nodes and the first
job of the queue keep what they have got, so their operations give back at once: the jobs that left for them
go first in the queue.
"""

from typing import assert_never

from makeway.daemon.operation.changed.ended_job import job_of
from makeway.daemon.operation.changed.hold_end import MAKES_WAY, ends_too_soon, lengthened, outgrows_hold
from makeway.daemon.operation.changed.late_hold import with_held_nodes
from makeway.daemon.operation.due import hold_index, hold_refused_s
from makeway.daemon.operation.fitness import (
    awaits_a_reason,
    awaits_its_lender,
    cannot_start,
    is_urgent_no_more,
    lacks_component,
    never_begun,
    note_shortage,
    without_outdated,
)
from makeway.daemon.operation.giving_back import give_back, go_on_returning
from makeway.daemon.operation.observation import Timeouts, observe_all, only_awaits_end, shows_nothing_new
from makeway.daemon.operation.observed import advance_observed
from makeway.daemon.operation.returns import missing_returns
from makeway.daemon.operation.signal_deaths import awaits_its_doubts, put_back_ended
from makeway.daemon.operation.tasks import (
    ENDED,
    ended,
    is_over,
    may_be_dropped,
    planned,
    signals,
    to_do_again,
    with_task,
)
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Ending,
    Expand,
    Job,
    JobState,
    Operation,
    OperationKind,
    OperationOutcome,
    Phase,
    Prioritise,
    Progress,
    Reason,
    Release,
    Requeue,
    changed,
)
from makeway.policies.safety.prices import START_WITHIN_S

_ANSWERS = {Progress.REFUSED: Ending.REJECTED, Progress.GONE: Ending.ENDED_ITSELF}


def advance(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> Operation:
    """Bring an operation up to date with a snapshot: what is seen done, and which phase that makes it.

    Returns the operation itself where nothing has changed.
    """
    if operation.observe:
        return advance_observed(operation, cluster)
    job = cluster.jobs_by_id().get(operation.for_job_id)
    runs = job is not None and job.state is JobState.RUNNING and only_awaits_end(operation)
    if job is not None and runs and not outgrows_hold(operation, job, cluster):
        return operation
    if not shows_nothing_new(operation, cluster):
        jobs = cluster.jobs_by_id()
        tasks = observe_all(operation, cluster, jobs, timeouts)
        if tasks != operation.tasks:
            operation = changed(operation, tasks=tasks)
    operation = put_back_ended(operation, cluster)
    operation = _advance_kind(operation, cluster, timeouts)
    over = operation.phase is Phase.RETURNING and is_over(operation)
    if (
        over
        and not awaits_a_reason(operation, cluster, timeouts)
        and not awaits_its_lender(operation, cluster, timeouts)
        and not awaits_its_doubts(operation, cluster)
    ):
        operation = changed(operation, phase=Phase.CLOSED, outcome=_outcome(operation))
    return operation


def issuing(operation: Operation, index: int, now_s: float) -> Operation:
    """The operation as it is written down before the command of task `index` is sent.

    A job that is now made to leave has no time left to acknowledge: what comes after is not its own doing.
    The grace after a signal that is sent late ends as planned, if the job then has its least grace.
    """
    task = operation.tasks[index]
    if isinstance(task.action, Requeue | Cancel) and signals(operation):
        job_id = task.action.job_id
        tasks = tuple(
            ended(other, Ending.UNACKNOWLEDGED, now_s)
            if isinstance(other.action, Checkpoint)
            and other.action.job_id == job_id
            and other.progress not in ENDED
            else other
            for other in operation.tasks
        )
        operation = changed(operation, tasks=tasks)
    as_planned = _ending_as_planned(task.action, now_s)
    issued = changed(task, action=as_planned, issued_s=now_s, progress=Progress.ISSUING)
    return with_task(operation, index, issued)


def _ending_as_planned(action: Action, now_s: float) -> Action:
    """The action; a signal with the grace that is left of the planned one."""
    if not isinstance(action, Checkpoint) or action.until_s is None:
        return action
    left_s = max(action.until_s - now_s, action.grace_min_s)
    return changed(action, grace_s=min(action.grace_s, left_s))


def record(operation: Operation, index: int, progress: Progress, now_s: float, detail: str = "") -> Operation:
    """The operation after the answer: ACCEPTED, REFUSED, GONE, PLANNED (try again) or ISSUING (no answer)."""
    task = operation.tasks[index]
    ending = _ANSWERS.get(progress)
    if ending is not None:
        return with_task(operation, index, ended(task, ending, now_s, detail))
    return with_task(operation, index, changed(task, progress=progress, detail=detail))


def forbid(operation: Operation, index: int, now_s: float, detail: str) -> Operation:
    """The operation after makeway's own arbiter refused task `index`, which is not issued."""
    return with_task(operation, index, ended(operation.tasks[index], Ending.FORBIDDEN, now_s, detail))


def _advance_kind(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> Operation:
    match operation.kind:
        case OperationKind.MAKE_WAY:
            return _make_way(operation, cluster, timeouts, renew=True)
        case OperationKind.ARRIVAL:
            # Its hold is the announcement's: the policy makes one for the job, and that one is renewed.
            return _make_way(operation, cluster, timeouts, renew=False)
        case OperationKind.NOTICE:
            return _await_arrival(operation, cluster, timeouts)
        case OperationKind.LEND_HELD | OperationKind.EARLY_START:
            return _start_early(operation, cluster, timeouts)
        case OperationKind.MAKE_WAY_SHARED | OperationKind.QUEUE_HEAD:
            return _hold_until_start(operation, cluster, timeouts)
        case OperationKind.FRONT:
            return _finish(operation, cluster)
        case OperationKind.REORDER | OperationKind.CLEAN_UP:
            # As long as it is open, what was refused just now is not asked for again.
            wait = _refused_just_now(operation, cluster, timeouts)
            return operation if wait else _finish(operation, cluster)
        case _:
            assert_never(operation.kind)


def _make_way(operation: Operation, cluster: Cluster, timeouts: Timeouts, *, renew: bool) -> Operation:
    """For an urgent job. `renew`: whether the hold is made again if it vanishes."""
    job = job_of(operation, cluster)
    match operation.phase:
        case Phase.MAKING_ROOM:
            if job is None:
                return give_back(operation, cluster, Reason.BORROWER_GONE)
            if job.state is not JobState.PENDING:
                running = _running(with_held_nodes(operation, cluster), job, cluster)
                # It wants less than was held for it. A hold cannot be changed for a job that runs.
                wide = len(job.nodes) < len(running.nodes)
                return give_back(running, cluster, Reason.STARTED) if wide else running
            return _go_on(operation, job, cluster, timeouts, renew=renew)
        case Phase.LENT:
            if job is None:
                return give_back(operation, cluster, Reason.BORROWER_ENDED)
            if job.state is not JobState.PENDING:
                outgrows = outgrows_hold(operation, job, cluster)
                return give_back(operation, cluster, Reason.STARTED) if outgrows else operation
            # A node failed under it, or a controller that crashed forgot its start: it needs its nodes still.
            return _make_way(_waiting_again(operation, job, timeouts), cluster, timeouts, renew=renew)
        case Phase.RETURNING:
            if _waits_again(operation, job, cluster):
                return _take_up_again(operation, cluster)
            return go_on_returning(operation, cluster)
        case Phase.CLOSED:
            return operation
        case _:
            assert_never(operation.phase)


def _waiting_again(operation: Operation, job: Job, timeouts: Timeouts) -> Operation:
    """The operation of a job that ran and waits again. A requeue begins its time to start anew: then the job
    is waited for as long as at first.
    """
    within_s = START_WITHIN_S if job.start_within_s is None else job.start_within_s
    deadline_s = max(operation.deadline_s, job.waits_since_s + within_s)
    return changed(
        operation,
        phase=Phase.MAKING_ROOM,
        started_s=None,
        deadline_s=deadline_s,
        give_up_s=max(operation.give_up_s, deadline_s + timeouts.give_up_after_s),
    )


def _await_arrival(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> Operation:
    """For an announced job. `handover` makes the operation an `ARRIVAL` when the job is here."""
    match operation.phase:
        case Phase.MAKING_ROOM:
            return _go_on(operation, None, cluster, timeouts)
        case Phase.RETURNING:
            return go_on_returning(operation, cluster)
        case Phase.LENT | Phase.CLOSED:
            return operation
        case _:
            assert_never(operation.phase)


def _start_early(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> Operation:
    """For a waiting job that starts before its turn. The hold ends at the start, the operation with
    the run.
    """
    job = cluster.jobs_by_id().get(operation.for_job_id)
    match operation.phase:
        case Phase.MAKING_ROOM:
            if job is None:
                return give_back(operation, cluster, Reason.BORROWER_GONE)
            if job.state is not JobState.PENDING:
                if not set(job.nodes) <= set(operation.nodes):
                    return give_back(operation, cluster, Reason.BORROWER_GONE)  # its turn came first
                lent = _running(operation, job, cluster)
                returns = missing_returns(lent, cluster, Reason.STARTED)
                return changed(lent, tasks=lent.tasks + planned(returns, cluster))
            return _go_on(operation, job, cluster, timeouts)
        case Phase.LENT:
            if job is None or job.state is JobState.PENDING:
                return give_back(operation, cluster, Reason.BORROWER_ENDED)
            return operation
        case Phase.RETURNING:
            return go_on_returning(operation, cluster)
        case Phase.CLOSED:
            return operation
        case _:
            assert_never(operation.phase)


def _hold_until_start(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> Operation:
    """For an urgent job on shared nodes, and for the first job of the queue. When it runs, the hold ends, and
    the jobs that left for it go first in the queue.
    """
    job = cluster.jobs_by_id().get(operation.for_job_id)
    match operation.phase:
        case Phase.MAKING_ROOM:
            if job is None:
                return give_back(operation, cluster, Reason.BORROWER_GONE)
            if job.state is not JobState.PENDING:
                return give_back(_running(operation, job, cluster), cluster, Reason.STARTED)
            return _go_on(operation, job, cluster, timeouts)
        case Phase.RETURNING:
            return go_on_returning(operation, cluster)
        case Phase.LENT | Phase.CLOSED:
            return operation
        case _:
            assert_never(operation.phase)


def _go_on(
    operation: Operation, job: Job | None, cluster: Cluster, timeouts: Timeouts, *, renew: bool = True
) -> Operation:
    """The operation whose job waits: what does not fit any more is left out. All goes back if the job cannot
    start, is not urgent any more, or was waited for long enough. `job` None: the job has not arrived.
    """
    if job is not None:
        if is_urgent_no_more(operation, cluster):
            return give_back(operation, cluster, Reason.BORROWER_GONE)
        if cannot_start(operation, cluster) or lacks_component(operation, cluster):
            return give_back(operation, cluster, Reason.BLOCKED)
    operation = note_shortage(without_outdated(operation, cluster), cluster)
    if _is_given_up(operation, cluster, timeouts):
        return give_back(operation, cluster, Reason.GIVEN_UP)
    return _renew_hold(operation, job, cluster, timeouts) if renew else operation


def _finish(operation: Operation, cluster: Cluster) -> Operation:
    """For an operation without a hold: nothing goes back, so it is over with its tasks."""
    if operation.phase is not Phase.MAKING_ROOM or not is_over(operation):
        return operation
    return changed(operation, phase=Phase.RETURNING, ended_s=cluster.now_s)


def _running(operation: Operation, job: Job, cluster: Cluster) -> Operation:
    """The operation now that its job runs: what was not issued is no longer needed."""
    tasks = tuple(
        ended(task, Ending.JOB_STARTED, cluster.now_s) if may_be_dropped(task) else task
        for task in operation.tasks
    )
    return changed(operation, phase=Phase.LENT, started_s=job.start_s, tasks=tasks)


def _is_given_up(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> bool:
    """Whether the operation has waited long enough, or has had no sufficient hold for so long that it is
    decided again.
    """
    refused_s, short_s = hold_refused_s(operation), operation.short_since_s
    refused = refused_s is not None and cluster.now_s >= refused_s + timeouts.refused_s
    short = short_s is not None and cluster.now_s >= short_s + timeouts.refused_s
    return refused or short or never_begun(operation, cluster) or cluster.now_s >= operation.give_up_s


def _waits_again(operation: Operation, job: Job | None, cluster: Cluster) -> bool:
    """Whether the urgent job has run and waits again in its hold, which was not asked to end.

    A controller that crashed forgot that it had started, and will start it once more.
    """
    return (
        operation.started_s is not None
        and cluster.now_s < operation.give_up_s
        and job is not None
        and job.state is JobState.PENDING
        and job.reservation == operation.reservation
        and any(reservation.name == operation.reservation for reservation in cluster.reservations)
        and all(may_be_dropped(task) for task in operation.tasks if isinstance(task.action, Release))
    )


def _take_up_again(operation: Operation, cluster: Cluster) -> Operation:
    """The operation with its hold for the urgent job again; what was to go back goes back after its
    next end.
    """
    tasks = tuple(
        ended(task, Ending.JOB_WAITS_AGAIN, cluster.now_s)
        if isinstance(task.action, Expand | Prioritise | Release) and may_be_dropped(task)
        else task
        for task in operation.tasks
    )
    return changed(operation, phase=Phase.MAKING_ROOM, started_s=None, ended_s=None, tasks=tasks)


def _refused_just_now(operation: Operation, cluster: Cluster, timeouts: Timeouts) -> bool:
    """Whether the cluster refused just now to change a priority, or to free the job of a lost hold."""
    return any(
        (not isinstance(task.action, Release) or task.action.lost)
        and task.progress is Progress.REFUSED
        and task.ended_s is not None
        and cluster.now_s < task.ended_s + timeouts.refused_s
        for task in operation.tasks
    )


def _ask_again(operation: Operation, index: int) -> Operation:
    """The operation; if the cluster refused its hold, with that to be asked for again at once.

    The policy replaces it in this cycle if the snapshot shows the reason. After some refusals in a row the
    urgent job has to pause, and all goes back (`RefusedHolds`).
    """
    hold = operation.tasks[index]
    if hold.ending is not Ending.REJECTED:
        return operation
    return with_task(operation, index, changed(to_do_again(hold), issued_s=None))


def _renew_hold(operation: Operation, job: Job | None, cluster: Cluster, timeouts: Timeouts) -> Operation:
    """Make a hold that was seen once more, if it is there no more, has other nodes, its job is bound to it no
    more, or it ends before its job would.

    It was deleted or changed, or a controller that crashed forgot it, or a change of it; or the job's time
    limit was raised. `job` None: the job has not arrived.
    """
    index = hold_index(operation)
    if index is not None and operation.kind in MAKES_WAY:
        operation = _ask_again(operation, index)
    if index is None or operation.tasks[index].progress is not Progress.DONE:
        return operation
    sets, hold = cluster.node_sets(), operation.tasks[index]
    there = any(
        reservation.name == operation.reservation and sets.of(reservation.nodes) == sets.of(operation.nodes)
        for reservation in cluster.reservations
    )
    if there and (job is None or job.reservation == operation.reservation):
        if job is None or not ends_too_soon(operation, job, cluster):
            return operation
        longer = lengthened(hold, operation, job, cluster, timeouts.settle_s)
        return operation if longer is None else with_task(operation, index, to_do_again(longer))
    return with_task(operation, index, to_do_again(hold))


def _outcome(operation: Operation) -> OperationOutcome:
    if not operation.kind.holds_nodes:
        return OperationOutcome.DONE
    return OperationOutcome.NOT_STARTED if operation.started_s is None else OperationOutcome.STARTED
