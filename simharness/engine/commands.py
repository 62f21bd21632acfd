"""What commands do to the simulated machine, and what it answers: the words and the refusals of Slurm's
controller.

Reference: slurmctld 22.05 and 26.05 as tried; after a requeue a shrunk job asks for its full size again
    (26.05).
"""

from math import isfinite
from typing import assert_never

from makeway.adapters.protocol import Gone, NotForgotten, Rejected, Unsupported
from makeway.policies.model import (
    QUEUE_POSITIONS,
    Action,
    Cancel,
    Checkpoint,
    Expand,
    JobKind,
    LastHold,
    Prioritise,
    Release,
    Requeue,
    Reserve,
    RestoreLimit,
    RestorePriority,
    RunIdentity,
    Shrink,
    grown_again,
    taken_anew,
)
from makeway.simharness.engine.cluster import HELD_UNTIL_S
from makeway.simharness.engine.job_run import JobRun
from makeway.simharness.engine.machine import PLANNED_RANK, SimMachine
from makeway.simharness.engine.records import MarkKind, RunEnding


def apply(machine: SimMachine, action: Action) -> None:
    """Do to the machine what the action says. Raises what `Adapter.apply` raises for it."""
    match action:
        case Checkpoint():
            _checkpoint(machine, action)
        case Requeue():
            _requeue(machine, action)
        case Cancel():
            _cancel(machine, action)
        case Shrink():
            _shrink(machine, action)
        case Expand():
            _expand(machine, action)
        case Reserve():
            _reserve(machine, action)
        case Release(lost=True):
            _free(machine, action.job_id)
        case Release():
            _release(machine, action.reservation)
        case Prioritise():
            _prioritise(machine, action)
        case RestorePriority():
            _restore_priority(machine, action.job_id)
        case RestoreLimit():
            _restore_limit(machine, action)
        case _:
            assert_never(action)


def _checkpoint(machine: SimMachine, action: Checkpoint) -> None:
    """Signal the job; any signal to any process asks for a checkpoint.

    A job that cannot checkpoint, or is checkpointing already, ignores it.
    """
    live = _running(machine, action.job_id, action.run)
    raised_to_s = action.walltime_s if action.walltime_s > live.walltime_s else None
    _keep_taken(machine, live, action, raised_to_s=raised_to_s)
    if raised_to_s is not None:
        live.note_raise(raised_to_s)
        machine.set_limit(live, raised_to_s)
    knows_how = live.job.save_s is not None or live.job.system_gb_per_node is not None
    if knows_how and live.checkpointing_since_s is None:
        machine.begin_checkpoint(live)


def _requeue(machine: SimMachine, action: Requeue) -> None:
    """Put the running job back into the queue, or one whose requeue was forgotten."""
    if action.puts_back and action.job_id in machine.taken_for_ended:
        _put_back(machine, action)
        return
    if action.forgotten_run is not None and _has_left(machine, action.job_id, action.forgotten_run):
        raise NotForgotten(f"job {action.job_id} has left the run that is meant")
    live = _running(machine, action.job_id, action.run)
    _keep_taken(machine, live, action)
    _count_eviction(machine, live)
    machine.requeue(live, RunEnding.REQUEUED)


def _has_left(machine: SimMachine, job_id: str, requeue_count: int) -> bool:
    """Whether the job is there, and waits or is in a later run."""
    live = machine.live.get(job_id)
    return live is not None and (not live.nodes or live.requeue_count > requeue_count)


def _put_back(machine: SimMachine, action: Requeue) -> None:
    """Put a job back into the queue whose requeue was forgotten."""
    live = machine.taken_for_ended[action.job_id]
    meant = {action.forgotten_run, None if action.run is None else action.run.requeue_count}
    started_s = live.start_s if action.run is None else action.run.start_s
    if live.requeue_count not in meant or started_s not in {None, live.start_s}:
        raise Gone(f"job {action.job_id} has left the run that is meant")
    machine.live[action.job_id] = machine.taken_for_ended.pop(action.job_id)
    if live.reservation is not None:
        machine.bound[live.index] = live
    _keep_taken(machine, live, action)
    machine.make_wait(live)


def _cancel(machine: SimMachine, action: Cancel) -> None:
    """End the job, pending or running."""
    live = machine.live.get(action.job_id)
    if live is None:
        raise Gone(f"job {action.job_id}: Invalid job id specified")
    _check_run(live, action.run)
    if live.nodes:
        _count_eviction(machine, live)
    machine.interfere()
    machine.end(live, RunEnding.CANCELLED)


def _shrink(machine: SimMachine, action: Shrink) -> None:
    """Leave the running job these nodes only; its time limit rises to `walltime_s` from its start, and never
    falls.
    """
    job_id, walltime_s = action.job_id, action.walltime_s
    live = _running(machine, job_id, action.run)
    if live.job.kind is not JobKind.MALLEABLE:
        raise Rejected(f"job {job_id}: Requested operation is presently disabled: the job cannot shrink")
    keep = _node_set(machine, action.keep_nodes)
    if keep & ~live.nodes:
        outside = ", ".join(machine.names.of(keep & ~live.nodes))
        raise Rejected(f"job {job_id}: Requested node configuration is not available: {outside} not its own")
    if not keep & live.batch_host:
        raise Rejected(
            f"job {job_id}: the batch host {machine.names.of(live.batch_host)[0]} cannot be given up"
        )
    smallest = live.job.node_count_min or live.job.node_count
    if keep.bit_count() < smallest:
        raise Rejected(f"job {job_id}: {keep.bit_count()} nodes are under its minimum of {smallest}")
    given_up = live.nodes & ~keep
    if not given_up and walltime_s <= live.walltime_s:
        return
    if given_up:
        live.record.shrinks += 1
        machine.mark(MarkKind.SHRUNK, live, given_up)
    raised_to_s = walltime_s if walltime_s > live.walltime_s else None
    _keep_taken(machine, live, action, raised_to_s=raised_to_s, kept_count=keep.bit_count())
    if machine.taken_clock is None:
        live.note_shrink()
    machine.resize(live, keep, walltime_s=max(live.walltime_s, walltime_s))


def _expand(machine: SimMachine, action: Expand) -> None:
    """Add these nodes, free or held by the action's reservation while that exists, to the running malleable
    job.

    Where what was taken is kept with the job, its time limit comes back by a `RestoreLimit`, as on Slurm.
    Else it falls here.
    """
    job_id = action.job_id
    live = _running(machine, job_id)
    if live.job.kind is not JobKind.MALLEABLE:
        raise Unsupported(f"job {job_id} is {live.job.kind}: it cannot grow")
    added = _node_set(machine, action.nodes) & ~live.nodes
    if not added:
        return
    if live.size + added.bit_count() > live.job.node_count:
        raise Rejected(
            f"job {job_id}: {live.size} + {added.bit_count()} nodes are over its {live.job.node_count}"
        )
    allowed = machine.free & ~machine.reserved
    hold = None if action.reservation is None else machine.holds.get(action.reservation)
    if hold is not None:
        allowed |= machine.free & hold.nodes
    if added & ~allowed:
        busy = ", ".join(machine.names.of(added & ~allowed))
        raise Rejected(f"job {job_id}: Requested nodes are busy: {busy}", retryable=True)
    node_count, walltime_s = live.size + added.bit_count(), live.walltime_s
    if machine.taken_clock is None:
        walltime_s = live.grown_walltime_s(node_count, machine.now_s)
    else:
        now_s, run = machine.taken_clock(), live.requeue_count
        live.taken = grown_again(live.taken, run=run, node_count=node_count, now_s=now_s)
    machine.resize(live, live.nodes | added, walltime_s=walltime_s)
    machine.mark(MarkKind.RETURNED, live, added)


def _reserve(machine: SimMachine, action: Reserve) -> None:
    """Hold these nodes, busy or not, from now on, and bind the pending job to them; an announced job is not
    there yet.

    A hold out of others shares their nodes with them.
    """
    name, duration_s = action.reservation, action.duration_s
    if action.until_s is not None:
        duration_s = action.until_s - machine.now_s
    live = None if action.user is not None else _pending(machine, action.job_id)
    kept = _node_set(machine, action.nodes)
    if not kept:
        raise Rejected(f"reservation {name}: no nodes were named")
    if not (isfinite(duration_s) and duration_s > 0):
        raise Rejected(f"reservation {name}: a duration of {duration_s} s is invalid")
    for hold in machine.holds.values():
        if hold.name != name and hold.nodes & kept and not action.out_of:
            raise Rejected(f"reservation {name}: Requested reservation overlaps with {hold.name}")
    machine.hold(name, kept, machine.now_s + duration_s)
    if live is not None:
        machine.bind(live, name)
        if machine.taken_clock is not None:
            live.last_hold = LastHold(reservation=name, since_s=machine.taken_clock())


def _release(machine: SimMachine, name: str) -> None:
    """End the reservation; a job that runs in it runs on without it."""
    hold = machine.holds.get(name)
    if hold is None:
        raise Gone(f"reservation {name}: Requested reservation is invalid")
    machine.drop_hold(hold)


def _free(machine: SimMachine, job_id: str) -> None:
    """Put the pending job that is bound to a lost reservation back into the common queue."""
    live = _pending(machine, job_id)
    if live.reservation is None or live.reservation in machine.holds:
        raise Gone(f"job {job_id}: its reservation is not lost")
    machine.interfere()
    live.reservation = live.last_hold = None
    del machine.bound[live.index]
    if live.eligible_s is None:
        machine.enqueue(live)
    machine.touch(live)


def _prioritise(machine: SimMachine, action: Prioritise) -> None:
    """Move the pending job to the front of the queue, any requeue delay lifted, or to its position in a
    planned order.
    """
    job_id, queue_position = action.job_id, action.queue_position
    live = _pending(machine, job_id)
    if live.eligible_s == HELD_UNTIL_S:
        raise Rejected(f"job {job_id}: Job is held")
    if queue_position is None:
        if live.taken is not None and live.requeue_count > live.taken.run:
            live.walltime_s = live.taken.usual_walltime_s(live.walltime_s) or live.walltime_s
            live.taken = None
        machine.move_to_front(live)
    elif 1 <= queue_position <= QUEUE_POSITIONS:
        machine.give_queue_position(live, queue_position)
    else:
        raise Rejected(
            f"job {job_id}: Invalid priority: queue position {queue_position} is not between 1 and "
            f"{QUEUE_POSITIONS}"
        )


def _restore_priority(machine: SimMachine, job_id: str) -> None:
    """Put a job that waits in a planned position back into the common queue; one that runs has lost that by
    starting.
    """
    live = machine.live.get(job_id)
    if live is not None and not live.nodes and PLANNED_RANK < live.rank < 0:
        machine.give_queue_position(live, None)
    else:
        _running(machine, job_id)


def _restore_limit(machine: SimMachine, action: RestoreLimit) -> None:
    """Lower the time limit of the job, and keep with it what is left to be given back."""
    live = machine.live.get(action.job_id)
    if live is None:
        raise Gone(f"job {action.job_id}: Invalid job id specified")
    if live.taken != action.taken:
        raise Gone(f"job {action.job_id}: something else was taken from it since")
    if not live.nodes and action.taken.owes_turn(live.requeue_count):
        raise Gone(f"job {action.job_id} waits for its turn since")
    live.taken = action.left
    machine.touch(live)
    if action.walltime_s is not None and live.nodes:
        machine.set_limit(live, max(action.walltime_s, machine.now_s - live.start_s))
    elif action.walltime_s is not None:
        live.walltime_s = action.walltime_s


def _keep_taken(
    machine: SimMachine,
    live: JobRun,
    action: Checkpoint | Requeue | Shrink,
    *,
    raised_to_s: float | None = None,
    kept_count: int | None = None,
) -> None:
    """Keep with the job what the action is about to take from it."""
    if machine.taken_clock is not None:
        live.taken = taken_anew(
            live.taken,
            for_job_id=action.for_job_id,
            run=live.requeue_count,
            node_count=live.size,
            kept_count=kept_count,
            walltime_s=live.walltime_s,
            raised_to_s=raised_to_s,
            now_s=machine.taken_clock(),
        )
        machine.touch(live)


def finish(machine: SimMachine, job_id: str) -> None:
    """End the job now, as if by itself: a command may arrive just after that. Nothing happens if there is no
    such job.
    """
    live = machine.live.get(job_id)
    if live is not None:
        machine.interfere()
        machine.end(live, RunEnding.COMPLETED if live.nodes else RunEnding.CANCELLED)


def _running(machine: SimMachine, job_id: str, run: RunIdentity | None = None) -> JobRun:
    """The job, which runs, and is in that run. `run` None: any run will do."""
    live = machine.live.get(job_id)
    if live is None:
        raise Gone(f"job {job_id}: Invalid job id specified")
    if not live.nodes:
        raise Gone(f"job {job_id}: Job is pending execution")
    _check_run(live, run)
    return live


def _check_run(live: JobRun, run: RunIdentity | None) -> None:
    """Raise `Gone` for a job that is not in that run. On Slurm this look and the command are two steps."""
    if run is None:
        return
    left = not live.nodes or live.requeue_count != run.requeue_count
    if left or run.start_s not in {None, live.start_s}:
        raise Gone(f"job {live.job.job_id} has left the run that is meant")


def _pending(machine: SimMachine, job_id: str) -> JobRun:
    live = machine.live.get(job_id)
    if live is None:
        raise Gone(f"job {job_id}: Invalid job id specified")
    if live.nodes:
        raise Gone(f"job {job_id}: Job is no longer pending execution")
    return live


def _node_set(machine: SimMachine, nodes: tuple[str, ...]) -> int:
    try:
        return machine.names.set_of(nodes)
    except KeyError as error:
        raise Rejected(f"Invalid node name specified: {error.args[0]}") from None


def _count_eviction(machine: SimMachine, live: JobRun) -> None:
    live.record.evictions += 1
    live.evicted = True
    machine.mark(MarkKind.EVICTED, live, live.nodes)
