"""What users, administrators and a crash of the controller do to the simulated machine."""

from collections.abc import Callable, Collection
from dataclasses import replace

from makeway.policies.model import JobKind, Operation, Requeue
from makeway.simharness.engine.job_run import JobRun
from makeway.simharness.engine.machine import SimMachine
from makeway.simharness.engine.records import RunEnding
from makeway.simharness.swarm.story import Trouble, TroubleKind
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.nodeset import lowest


def cancel(machine: SimMachine, job_id: str) -> bool:
    """The job's user cancels it. Returns whether there was such a job."""
    live = machine.live.get(job_id)
    if live is None:
        return False
    machine.interfere()
    machine.end(live, RunEnding.CANCELLED)
    return True


def hold_back(machine: SimMachine, job_id: str, until_s: float) -> bool:
    """The job's user holds it while it waits. Returns whether it did wait.

    `let_go` has to be called at `until_s`.
    """
    live = machine.live.get(job_id)
    if live is None or live.nodes:
        return False
    machine.interfere()
    machine.scheduler.remove(live)
    live.eligible_s = until_s
    machine.touch(live)
    return True


def let_go(machine: SimMachine, job_id: str, until_s: float) -> None:
    """The user releases the job that was held back until now, unless something else has happened to it."""
    live: JobRun | None = machine.live.get(job_id)
    if live is not None and not live.nodes and live.eligible_s == until_s:
        machine.make_eligible(live)


def change(machine: SimMachine, trouble: Trouble) -> SimJob | None:
    """The urgent job of a trouble is changed while it waits, as by `scontrol update`.

    Returns what it is from now on. None: it does not wait, is not urgent any more, or is so already.
    """
    live = machine.live.get(trouble.subject)
    if live is None or live.nodes or live.job.kind is not JobKind.ON_DEMAND:
        return None
    job = _changed(live.job, trouble)
    if job is None:
        return None
    machine.interfere()
    machine.scheduler.remove(live)
    machine.jobs[live.index] = live.record.job = live.job = job
    live.size, live.walltime_s = job.node_count, job.walltime_s
    if live.reservation is None and live.eligible_s is None:
        machine.enqueue(live)
    machine.touch(live)
    return job


def protect(machine: SimMachine, job_id: str) -> bool:
    """From now on the running job may not be made to leave, as after `scontrol update Requeue=0`. Returns
    whether it might until now.
    """
    live = machine.live.get(job_id)
    if live is None or not live.nodes or not live.job.preemptible:
        return False
    machine.interfere()
    job = replace(live.job, preemptible=False)
    machine.jobs[live.index] = live.record.job = live.job = job
    machine.touch(live)
    return True


def _changed(job: SimJob, trouble: Trouble) -> SimJob | None:
    """The job after a change. None: that would be no change, or one in the other direction."""
    match trouble.kind:
        case TroubleKind.FEWER_NODES if trouble.amount < job.node_count:
            return replace(job, node_count=int(trouble.amount))
        case TroubleKind.MORE_NODES if trouble.amount > job.node_count:
            return replace(job, node_count=int(trouble.amount))
        case TroubleKind.SHORTER_LIMIT if trouble.amount < job.walltime_s:
            return replace(job, walltime_s=trouble.amount)
        case TroubleKind.LONGER_LIMIT if trouble.amount > job.walltime_s:
            return replace(job, walltime_s=trouble.amount)
        case TroubleKind.URGENT_NO_MORE:
            return replace(job, kind=JobKind.RIGID, start_within_s=None)
        case _:
            return None


def reserve_for_maintenance(machine: SimMachine, name: str, node_count: int, end_s: float) -> None:
    """An administrator reserves the first nodes until `end_s`, also nodes in use."""
    machine.hold(name, lowest((1 << machine.node_count) - 1, node_count), end_s)


def forget(machine: SimMachine, since_s: float) -> int:
    """The controller has started again and has lost the reservations made since then, and the last change of
    older ones. Returns how many.
    """
    machine.leases.forget(since_s)
    changed = [hold for hold in machine.holds.values() if hold.changed_s >= since_s]
    for hold in changed:
        before = hold.before
        if hold.start_s >= since_s:
            machine.drop_hold(hold)
        elif before is not None:
            machine.hold(hold.name, before.nodes, before.end_s)
    return len(changed)


def forget_requeues(
    machine: SimMachine, since_s: float, *, known_to: Callable[[], Collection[Operation]]
) -> int:
    """The controller has started again, and takes the waiting jobs for ended that were requeued by a command
    since then. Returns how many.

    `known_to`: gives the open operations. Only requeues that they have sent are forgotten.

    Reference: slurmctld 22.05 and 24.11 as tried: such a job is FAILED, with the restart count of the run
        that it has left; `scontrol requeue` puts it back. Simplified: Slurm takes the job for running until
        it hears from the node, and forgets jobs that have ended (MinJobAge); this cluster does neither.
    """
    requeued: set[str] = set()
    for segment in reversed(machine.segments):
        if segment.end_s < since_s:
            break
        if segment.ending is RunEnding.REQUEUED:
            requeued.add(machine.jobs[segment.job].job_id)
    if not requeued:
        return 0
    requeued &= {
        task.action.job_id
        for operation in known_to()
        for task in operation.tasks
        if isinstance(task.action, Requeue) and task.issued_s is not None
    }
    forgotten = [machine.live[job_id] for job_id in sorted(requeued & machine.live.keys())]
    forgotten = [live for live in forgotten if live.evicted and not live.nodes]
    for live in forgotten:
        machine.end(live, RunEnding.CANCELLED)
        live.rank = 0
        live.requeue_count -= 1
        machine.taken_for_ended[live.job.job_id] = live
    return len(forgotten)


def lose_holds(machine: SimMachine, since_s: float, keeps: Callable[[JobRun], bool]) -> int:
    """The controller has lost the reservations made since then, and keeps the waiting jobs from starting that
    it knows to be bound to them, as Slurm 24.11 does. Returns how many jobs.

    It may not know either that a job was unbound since then: it saves jobs and reservations one after the
    other. `keeps`: which of the jobs it keeps. The others go back to the common queue.
    """
    for hold in [hold for hold in machine.holds.values() if hold.start_s >= since_s]:
        machine.drop_hold(hold)
    kept = 0
    for live in machine.live.values():
        last = live.last_hold
        recent = last is not None and last.since_s >= since_s and last.reservation not in machine.holds
        if last is not None and recent and not live.nodes and live.reservation is None and keeps(live):
            machine.bind(live, last.reservation)
            kept += 1
    return kept
