"""How each action becomes Slurm's commands.

A verb looks at its job first: Slurm takes some commands for a job in another state than the one that is
meant, and does something else with them (a `NodeList=` on a pending job pins it, a `scancel --signal` waits
for it to start, `scontrol requeue` runs a finished job again).
"""

import re
from collections.abc import Callable
from typing import assert_never

from makeway.adapters.protocol import Gone, Rejected, Unavailable, Unreadable, unsupported
from makeway.adapters.slurm import build, parse_cluster
from makeway.adapters.slurm.access import SlurmClient, check_run
from makeway.adapters.slurm.errors import absent_reservation, in_use, refusal, unknown_reservation
from makeway.adapters.slurm.holds import HoldNames, is_hold
from makeway.adapters.slurm.leaving.ended import check_requeued, put_back
from makeway.adapters.slurm.leaving.forgotten import requeue_again
from makeway.adapters.slurm.leaving.lost_holds import Binding
from makeway.adapters.slurm.leaving.notices import LeaveNotices
from makeway.adapters.slurm.leaving.shrinks import shrink_to
from makeway.adapters.slurm.leaving.signals import Signals
from makeway.adapters.slurm.leaving.taken import TakenWords
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.translate import state
from makeway.adapters.slurm.waiting.eligibility import is_held
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Expand,
    JobState,
    Prioritise,
    Release,
    Requeue,
    Reserve,
    RestoreLimit,
    RestorePriority,
    Shrink,
    TakenFromJob,
)

_GRANTED = re.compile(r"Granted job allocation (\d+)")
_QUEUE_FULL = "job queue full, sleeping and retrying"
"""What salloc says when slurmctld has MaxJobCount jobs. It tries again for two minutes: it is ended instead.
"""
_LONGEST_DELAY_S = 600.0
"""A requeue delays the next start by less, in seconds: by `cred_expire` of AuthInfo, 120 s by default."""
_HELD = ("JobHeldUser", "JobHeldAdmin", "job_requeued_in_held_state", "launch_failed_requeued_held")


class SlurmCommands:
    """Applies actions to one Slurm.

    Args:
        client: what runs the commands.
        now: the time, in POSIX seconds.
        notices: tells jobs why they have to leave. None: they are not told.
    """

    def __init__(
        self, client: SlurmClient, now: Callable[[], float], notices: LeaveNotices | None = None
    ) -> None:
        self._client = client
        self._now = now
        self._taken = TakenWords(client, now)
        self._signals = Signals(client)
        self._binding = Binding(client, now)
        self._notices = notices
        self._holds: HoldNames | None = None
        """Those of the last snapshot. None: there was none."""

    def apply(self, action: Action) -> None:
        """See `Adapter.apply`."""
        if action.verb not in self._client.known().capabilities.actions:
            raise unsupported(action)
        self._client.begin_action()
        match action:
            case Checkpoint():
                self._checkpoint(action)
            case Requeue():
                self._requeue(action)
            case Cancel():
                job = self._client.look(action.job_id)
                check_run(job, action.run)
                self._tell(action)
                self._client.do(build.cancel(action.job_id))
            case Shrink():
                self._shrink(action)
            case Expand():
                self._expand(action)
            case Reserve():
                self._reserve(action)
            case Release():
                self._release(action)
            case Prioritise():
                self._prioritise(action)
            case RestorePriority():
                self._restore_priority(action.job_id)
            case RestoreLimit():
                self._restore_limit(action)
            case _:
                assert_never(action)

    def taken_from(self, job: RawJob) -> TakenFromJob | None:
        """What makeway has taken from the job. None: nothing."""
        return self._taken.of(job)

    def remember(self, holds: HoldNames) -> None:
        """Remember which reservations are holds."""
        self._holds = holds

    def _tell(self, action: Action) -> None:
        """Have the job told why it has to leave, if jobs are told.

        Called after the look at the run that is meant: no other run is told.
        """
        if self._notices is not None:
            self._notices.tell(action)

    def _checkpoint(self, action: Checkpoint) -> None:
        """Raise the running job's time limit to `walltime_s` if it is less, and signal its batch shell, steps
        or both.
        """
        job = self._client.running(action.job_id, action.run)
        self._taken.note(job, action, _raised_min(action.walltime_s, job))
        self._tell(action)
        self._signals.send(action)

    def _requeue(self, action: Requeue) -> None:
        if action.forgotten_run is not None:
            requeue_again(self._client, self._taken, action, action.forgotten_run)
        elif action.ended_by is not None:
            put_back(self._client, self._taken, action, action.ended_by)
        else:
            job = self._client.running(action.job_id, action.run)
            self._taken.note_requeue(job, action)
            self._tell(action)
            self._client.do(build.requeue(action.job_id))
            check_requeued(self._client, job)

    def _shrink(self, action: Shrink) -> None:
        """Leave the running job `keep_nodes` only and raise its time limit to `walltime_s`, in one command.

        Slurm refuses what is no part of the job's nodes, and to take the batch host away.
        """
        job_id, keep_nodes = action.job_id, action.keep_nodes
        job = self._client.running(job_id, action.run)
        limit_min = _raised_min(action.walltime_s, job)
        if set(keep_nodes) != set(job.nodes):
            if job.exclusive and self._client.known().release < build.RESIZES_CLEANLY:
                raise Rejected(
                    f"job {job_id} is exclusive: this Slurm would lose the nodes that it gives away"
                )
            self._tell(action)
            shrink_to(self._client, self._taken, job, action, limit_min)
        elif limit_min is not None:
            self._taken.take(job, action, limit_min=limit_min)

    def _expand(self, action: Expand) -> None:
        """Add `nodes` to the running job: allocate them as its user, then merge the allocation into
        the job.
        """
        job = self._client.running(action.job_id)
        reservation = action.reservation
        wanted = tuple(name for name in action.nodes if name not in job.nodes)
        if not wanted:
            return
        if action.verb not in self._client.read_again().capabilities.actions:
            raise unsupported(action)
        if reservation is not None:
            self._check_own(reservation)
            admitted = self._client.change(build.admit(reservation, job.user_id))
            if unknown_reservation(admitted):
                reservation = None  # it was released meanwhile: the nodes may be free yet
            elif admitted.returncode != 0:
                raise refusal(admitted)
        expander = self._left_expander(job, wanted) or self._allocate(job, wanted, reservation)
        done = self._client.change(build.merge_expander(expander))
        if done.returncode != 0:
            self._client.change(build.cancel(expander))
            raise refusal(done)
        self._taken.note_growth(job, len(job.nodes) + len(wanted))

    def _reserve(self, action: Reserve) -> None:
        """Keep exactly `nodes` until `duration_s` from now, and bind the pending job, if it is there, to
        them.

        Slurm does not see that a job runs in a hold if it is bound to others as well, and would remove it.
        """
        job_id, name = action.job_id, action.reservation
        if action.user is not None:
            self._keep(action, build.user_name(action.user), purge=False)
            return
        job = self._client.pending(job_id)
        own = self._own_reservations(job, action)
        created = self._keep(action, job.user_id, purge=not own)
        bound = self._binding.bind(job, name, own)
        # Slurm binds a running job just as readily, which would keep the reservation and its nodes in use.
        late = None if bound.returncode != 0 else self._started_elsewhere(job_id, action.nodes)
        if bound.returncode != 0 or late:
            self._client.change(build.bind(job_id, None, own=own))
            if created:
                self._client.change(build.delete_reservation(name))
            if late is not None:
                raise Gone(late)
            error = refusal(bound)
            # A controller that crashed in between has forgotten what it had just made.
            raise Rejected(str(error), retryable=True) if unknown_reservation(bound) else error

    def _keep(self, action: Reserve, user: str, *, purge: bool) -> bool:
        """Make the reservation, or change the one that is there. Returns whether it was made."""
        created = self._client.change(
            build.create_reservation(
                action.reservation,
                nodes=action.nodes,
                duration_s=action.duration_s,
                until_s=action.until_s,
                users=(user,),
                purge=purge,
                overlap=bool(action.out_of),
            )
        )
        if created.returncode == 0:
            return True
        # It may be there already; Slurm says so in several ways.
        self._check_own(action.reservation)
        updated = self._client.change(
            build.update_reservation(
                action.reservation,
                nodes=action.nodes,
                duration_s=action.duration_s,
                until_s=action.until_s,
                users=(user,),
            )
        )
        if updated.returncode != 0:
            raise refusal(created if unknown_reservation(updated) else updated)
        return False

    def _release(self, action: Release) -> None:
        """End the reservation; the jobs that are bound to it are unbound first: pending ones wait, running
        ones run on.

        Slurm would end a running job together with its reservation, and does not unbind one that completes.
        """
        name = action.reservation
        if action.lost:
            job = self._client.pending(action.job_id)
            self._binding.free(job, self._own_reservations(job, action))
            return
        self._check_own(name)
        done = self._client.change(build.delete_reservation(name))
        if in_use(done):
            bound = self._bound_to(name)
            if any(state(job) not in {JobState.PENDING, JobState.RUNNING} for job in bound):
                raise refusal(done)
            for job in bound:
                self._binding.unbind(job, self._own_reservations(job, action))
            done = self._client.change(build.delete_reservation(name))
        if unknown_reservation(done):
            raise Gone(refusal(done).args[0])
        if done.returncode != 0:
            raise refusal(done)

    def _bound_to(self, name: str) -> tuple[RawJob, ...]:
        """The jobs that are bound to the reservation. 24.11 does not list those that are bound to others
        as well.
        """
        listed = self._client.squeue(reservation=name)
        return listed or tuple(job for job in self._client.squeue() if name in job.reservations)

    def _check_own(self, name: str) -> None:
        """Raise `Rejected` if the reservation of that name is there and is no hold of this makeway."""
        command = build.show_reservation(name)
        done = self._client.run(command, environment={"SLURM_TIME_FORMAT": "%s"})
        if absent_reservation(done):
            return
        if done.returncode != 0:
            raise refusal(done)
        (found,) = parse_cluster.reservations(done.stdout.splitlines(), command=command)
        if not is_hold(found, self._client.known().capabilities.reservation_prefix):
            raise Rejected(f"reservation {name} was not made by this makeway, which leaves it as it is")

    def _own_reservations(self, job: RawJob, action: Reserve | Release) -> tuple[str, ...]:
        """The reservations that the job was submitted with. 22.05 does not show them once the job is bound to
        a hold: then the action says them, if it is for this job. See `HoldNames.outlasting`.
        """
        holds = self._holds or HoldNames(prefix=self._client.known().capabilities.reservation_prefix)
        told = action.own_reservation if job.job_id == action.job_id else None
        own = holds.own(job, action.reservation) or (tuple(told.split(",")) if told else ())
        return holds.outlasting(job, own)

    def _prioritise(self, action: Prioritise) -> None:
        """Move the pending job to the front of the queue, any requeue delay lifted, or to its position in a
        planned order.

        22.05 requeues a job that was shrunk with its small size: it gets back the size that it was submitted
            with.
        """
        job_id, queue_position = action.job_id, action.queue_position
        job = self._client.pending(job_id)
        _check_not_held(job)
        if queue_position is not None:
            self._client.do(build.to_queue_position(job_id, queue_position))
            return
        lost = job.restarts > 0 and job.requested_node_count > job.node_count
        # A begin time that is later was not set by a requeue, but by the job's owner. A requeue counts as a
        # submission: the controller's clock may be ahead.
        latest_s = max(self._now(), job.submit_s) + _LONGEST_DELAY_S
        soon = job.eligible_s is None or job.eligible_s <= latest_s
        front = build.to_front(
            job_id, requeued=job.restarts > 0 and soon, node_count=job.requested_node_count if lost else None
        )
        taken = self._taken.of(job)
        if taken is None or job.restarts <= taken.run:
            self._client.do(front)
            return
        usual_s = None if job.limit_s is None else taken.usual_walltime_s(job.limit_s)
        limit = () if usual_s is None else (f"TimeLimit={build.minutes(usual_s)}",)
        self._taken.give_back(job, (*front, *limit))

    def _restore_priority(self, job_id: str) -> None:
        """Let Slurm set the job's priority again: of a running one, or of one in a queue position; a user's
        hold would be lifted too.
        """
        job = self._client.look(job_id)
        if state(job) is JobState.PENDING:
            _check_not_held(job)
            if build.queue_position_of(job.priority) is None:
                raise Gone(f"job {job_id} waits, and has no queue position")
        else:
            self._client.running(job_id)
        self._client.do(build.restore_priority(job_id))

    def _restore_limit(self, action: RestoreLimit) -> None:
        """Lower the time limit of a job that has got everything else back, and change the word for that."""
        job = self._client.look(action.job_id)
        if state(job) not in {JobState.PENDING, JobState.RUNNING}:
            raise Gone(f"job {action.job_id} neither runs nor waits: it is {job.state}")
        if self._taken.of(job) != action.taken:
            raise Gone(f"job {action.job_id}: something else was taken from it since")
        if state(job) is JobState.PENDING and action.taken.owes_turn(job.restarts):
            raise Gone(f"job {action.job_id} waits for its turn since")
        limit_s = action.walltime_s
        lower = limit_s is not None and job.limit_s is not None and limit_s < job.limit_s
        limit_min = build.minutes(limit_s) if limit_s is not None and lower else None
        self._taken.give_back(job, build.resize(job.job_id, None, limit_min), action.left)

    def _started_elsewhere(self, job_id: str, nodes: tuple[str, ...]) -> str | None:
        """Why a job that was just bound has no use for its reservation. None: it waits, or runs in it."""
        try:
            job = self._client.look(job_id)
        except Gone as gone:
            return str(gone)
        except Unavailable as error:
            raise Unavailable(str(error)) from error  # the reservation is made
        if state(job) is JobState.PENDING or set(job.nodes) <= set(nodes):
            return None
        return f"job {job_id} does not wait: it is {job.state}"

    def _allocate(self, job: RawJob, nodes: tuple[str, ...], reservation: str | None) -> str:
        command = build.allocate_expander(job, nodes, reservation=reservation)
        done = self._client.change(command, until=_QUEUE_FULL)
        if _QUEUE_FULL in done.stderr:
            raise Rejected(f"salloc: {done.words}")
        if done.returncode != 0:
            raise refusal(done)
        granted = _GRANTED.search(done.stderr + done.stdout)
        if granted is None:
            raise Unreadable("salloc names no allocation", command=command, text=done.words)
        return granted.group(1)

    def _left_expander(self, job: RawJob, nodes: tuple[str, ...]) -> str | None:
        """An allocation that was made for the job and, its maker dead or unheard, never merged. None: there
        is none.
        """
        for other in self._client.squeue():
            if (
                (other.name, other.user_id) == (build.EXPANDER_NAME, job.user_id)
                and not other.batch
                and state(other) is JobState.RUNNING
                and set(other.nodes) == set(nodes)
            ):
                return other.job_id
        return None


def _raised_min(walltime_s: float, job: RawJob) -> int | None:
    """The higher time limit of a job in minutes, a year at most. None: it keeps its own, or has none."""
    raised_s = min(walltime_s, build.LONGEST_LIMIT_S)
    return None if job.limit_s is None or raised_s <= job.limit_s else build.minutes(raised_s)


def _check_not_held(job: RawJob) -> None:
    """Raise `Rejected` for a job that its user or an administrator holds: to set its priority would lift the
    hold.
    """
    if is_held(job) or job.reason.startswith(_HELD):
        raise Rejected(f"job {job.job_id} is held ({job.reason})")
