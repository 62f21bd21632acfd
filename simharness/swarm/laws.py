"""The laws that every command and every end of a story is checked against.

They look at what the simulated cluster knows, which the daemon may not, and at what the daemon has seen and
written down. A law never changes anything.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from makeway.daemon.estimate.actual_losses import HeldAmounts, LeavingRun, RunLoss
from makeway.daemon.operation.tasks import naming_its_run
from makeway.policies.gate.breaker import takes
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Ending,
    JobKind,
    Method,
    Notice,
    Operation,
    OperationKind,
    Progress,
    Release,
    Requeue,
    Reserve,
    Shrink,
    Task,
)
from makeway.simharness.engine.machine import SimMachine
from makeway.simharness.engine.snapshot import notice_id
from makeway.simharness.swarm.announcing import NOBODY, NoShows
from makeway.simharness.swarm.law import Law, Violation
from makeway.simharness.swarm.story import DAY_S, Story
from makeway.simharness.swarm.watching.insisting import Insisting
from makeway.simharness.swarm.watching.leading import Leading
from makeway.simharness.swarm.watching.restoring import Restoring
from makeway.simharness.swarm.watching.taking import Taking
from makeway.simharness.workloads.job import SimJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The job of a command right before the command is carried out."""

    at_s: float
    run: int | None
    """The requeue count of its run. None: it does not run."""
    checkpointing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meant:
    """What the daemon had written down when it sent a command."""

    action: Action
    operation: tuple[int, str]
    """How many journals were lost before, and its identifier, which a new journal uses again."""
    run: int
    saved: int
    """How many signals to the run of the job the operation knows to be acknowledged."""
    signalled: bool
    """Whether the operation had signalled the job, or was told that it could not."""


_TIDY_S = 600.0
_TIDY_CYCLES = 10
"""A reservation without a use goes back within so many seconds or so many cycles, whatever is longer."""
_CHANGED_CYCLES = 3
"""The same for nodes of a reservation that its job has not taken, as it wanted fewer at last."""
_RunOfLoss = tuple[str, float, float, HeldAmounts]


class Laws:
    """Watches one story.

    Args:
        story: the story.
        machine: the simulated machine.
        leading: which daemon may act.
        commands_per_cycle: the limit of `Law.TOO_MANY`.
        view_age_s: the limit of `Law.STALE_VIEW`.

    Attributes:
        operations: gives the open operations of the daemon whose turn it is; the driver sets it.
        leading: which daemon may act; the adapter tells it what was written.
        foreign: the reservations that others have made.
        violations: what was broken, in order.
        checks: how often each law was checked, so that a law that is never met is noticed.
    """

    def __init__(
        self,
        story: Story,
        machine: SimMachine,
        leading: Leading,
        *,
        commands_per_cycle: int,
        view_age_s: float,
    ) -> None:
        self.leading = leading
        self.operations: Callable[[], tuple[Operation, ...]] = lambda: ()
        self.foreign: set[str] = set()
        self.violations: list[Violation] = []
        self.checks: Counter[Law] = Counter()
        self._machine = machine
        self._jobs = {job.job_id: job for job in story.jobs}
        self._estimates = story.learns
        self._memory = 0
        self._restoring = Restoring(machine, story.clock_step_s, story.clock_falls_s)
        self._commands_per_cycle = commands_per_cycle
        self._view_age_s = view_age_s
        self._view: Cluster | None = None
        self._view_began_s = 0.0
        self._sent_in_cycle = 0
        self._meant: dict[int, _Meant] = {}
        self._idle: dict[str, tuple[float, int]] = {}
        """Since when makeway's reservations have no use, and for how many cycles."""
        self._decided: dict[_RunOfLoss, int] = {}
        self._limit_node_s = None if story.user_node_hours is None else story.user_node_hours * 3600.0
        self._users = {job.job_id: job.user for job in story.jobs}
        self._users |= {notice_id(job): job.user for job in story.jobs if job.announced_s is not None}
        self._paid: dict[str, list[tuple[float, float]]] = {}
        """What the urgent jobs of each user have cost: when it was decided, and node-seconds."""
        self._no_shows, self._insisting = NoShows(), Insisting()
        self._signals: Counter[tuple[tuple[int, str], int, str, int]] = Counter()
        self._graces_s: dict[tuple[int, str, int], float] = {}
        """When the last grace of each run is over that was signalled, if the daemon's clock is right."""
        self._tells_time = not story.clock_step_s

    def memory_lost(self) -> None:
        """The daemon's journal is gone, or is an old one: it cannot know what it has sent."""
        self._memory += 1
        self._paid.clear()
        self._no_shows.forget()
        self._insisting.forget()

    def daemon_died(self) -> None:
        """The daemon was killed: it may not have written down the last answer."""
        self._insisting.forget()

    def changed(self, job: SimJob) -> None:
        """An urgent job is another one from now on."""
        self._jobs[job.job_id] = job

    def cycle_begins(self) -> None:
        """The daemon begins a cycle."""
        self._sent_in_cycle = 0

    def looked(self, view: Cluster, began_s: float) -> None:
        """The daemon was given this snapshot; its read began at `began_s`."""
        self._view = view
        self._view_began_s = began_s

    def sent(self, action: Action, now_s: float, daemon: str) -> None:
        """A daemon sends a command."""
        if self.leading.passes_to(daemon):  # it finds on the cluster what the other one has left
            self.memory_lost()
            self._idle.clear()
            self._restoring.begin_anew()
        for holds, text in self.leading.sent(daemon, now_s):
            self._check(Law.ONE_LEADER, holds, text)
        self._sent_in_cycle += 1
        self._check(
            Law.TOO_MANY,
            self._sent_in_cycle <= self._commands_per_cycle,
            f"command number {self._sent_in_cycle} of one cycle is sent",
        )
        operation = self._operation_of(action)
        task = next(task for task in operation.tasks if _is_sent(task, action))
        asked = [
            other
            for other in operation.tasks
            if isinstance(other.action, Checkpoint) and other.action.job_id == action.job_id
        ]
        self._meant[id(action)] = _Meant(
            action=action,
            operation=(self._memory, operation.operation_id),
            run=task.requeue_count,
            saved=sum(
                other.requeue_count == task.requeue_count and other.ending is Ending.ACKNOWLEDGED
                for other in asked
            ),
            signalled=any(other.issued_s is not None for other in asked) or not asked,
        )
        if takes(action) and not task.puts_back:
            self._takes(action, operation, now_s)

    def before(self, action: Action) -> Before:
        """The job of a command that is about to be carried out."""
        self._restoring.before(action)
        live, ended = (of.get(action.job_id) for of in (self._machine.live, self._machine.taken_for_ended))
        ran = live if live is not None and live.nodes else ended
        return Before(
            at_s=self._machine.now_s,
            run=None if ran is None else ran.requeue_count,
            checkpointing=live is not None and live.checkpointing_since_s is not None,
        )

    def refused(self, action: Action) -> None:
        """The controller has refused a command finally. If the daemon's clock steps, it cannot pause."""
        if isinstance(action, Reserve) and self._tells_time:
            self._check(Law.INSISTS, *self._insisting.refused(action.job_id, self._machine.now_s))

    def done(self, action: Action, before: Before) -> None:
        """The cluster has carried out a command."""
        if isinstance(action, Reserve):
            self._insisting.accepted(action.job_id)
        meant = self._meant[id(action)]
        job = self._jobs.get(action.job_id)
        if isinstance(action, Checkpoint | Requeue | Cancel | Shrink):
            self._check(
                Law.UNTOUCHABLE,
                job is not None and job.preemptible and job.kind is not JobKind.ON_DEMAND,
                f"{action.verb} of job {action.job_id}, which is not open to preemption",
            )
        if isinstance(action, Requeue | Cancel | Shrink | Checkpoint):
            self._check(
                Law.OTHER_RUN,
                before.run == meant.run,
                f"{action.verb} of job {action.job_id} meant run {meant.run} and hit run {before.run}",
            )
        if isinstance(action, Release):
            self._check(
                Law.FOREIGN,
                action.reservation not in self.foreign,
                f"{action.reservation} is ended, which others have made",
            )
        if isinstance(action, Requeue | Cancel) and action.method is Method.SYSTEM:
            self._check(
                Law.UNSIGNALLED,
                meant.signalled,
                f"job {action.job_id} may save its work first, and has to leave without a signal",
            )
        if isinstance(action, Checkpoint) and before.run is not None:
            key = (meant.operation, meant.saved, action.job_id, before.run)
            self._signals[key] += 1
            self._check(
                Law.SECOND_SIGNAL,
                self._signals[key] == 1,
                f"run {before.run} of job {action.job_id} gets signal number {self._signals[key]} for "
                f"operation {meant.operation[1]}",
            )
            self._is_saving(action, meant, before)

    def _is_saving(self, signal: Checkpoint, meant: _Meant, before: Before) -> None:
        """A run that saves its work in its grace gets no other signal, also for another operation."""
        key = (meant.operation[0], signal.job_id, meant.run)
        saves = before.checkpointing and before.at_s < self._graces_s.get(key, before.at_s)
        self._check(
            Law.SECOND_SIGNAL,
            not (saves and self._tells_time),
            f"run {meant.run} of job {signal.job_id} gets a signal for operation {meant.operation[1]} while "
            "it saves its work at an earlier one",
        )
        self._graces_s[key] = before.at_s + signal.grace_s

    def decided(self, run: LeavingRun, troubles: int) -> None:
        """The daemon has decided that a run is to leave. `troubles`: how many had an effect so far."""
        self._decided[_key(run)] = troubles

    def lost(self, loss: RunLoss, troubles: int, slack_s: float) -> None:
        """A run has left. Compared with what was decided, if no trouble had an effect in between.

        Args:
            loss: what makeway measured.
            troubles: how many had an effect so far.
            slack_s: how much more may be lost, in seconds of the run.
        """
        before = self._decided.pop(_key(loss.run), None)
        if before == troubles and loss.evicted and loss.run.method is Method.KILL:
            self._pays(loss)
        if before != troubles or not loss.evicted or self._estimates or loss.run.for_job_id not in self._jobs:
            return  # an announced job may come early, and is then decided on again
        self._check(
            Law.AS_DECIDED,
            loss.lost_s <= loss.run.expected_s + slack_s,
            f"a run that leaves for job {loss.run.for_job_id} by {loss.run.method} loses "
            f"{loss.lost_s:.0f} s, decided were {loss.run.expected_s:.0f} s",
        )

    def _pays(self, loss: RunLoss) -> None:
        """A user pays for a run that was killed. What was decided in 24 hours has to be within the limit.

        What a run has lost beyond its decision does not count here: that is another law.
        """
        user, at_s = self._users.get(loss.run.for_job_id, NOBODY), loss.run.decided_s
        paid = self._paid.setdefault(user, [])
        paid.append((at_s, min(loss.lost.node_s, loss.run.expected.node_s)))
        if self._limit_node_s is None:
            return
        node_s = sum(one_s for decided_s, one_s in paid if at_s - DAY_S < decided_s <= at_s)
        self._check(
            Law.CAPS,
            node_s <= self._limit_node_s + len(paid),  # each is rounded up to whole node-seconds
            f"the urgent jobs of {user} have cost {node_s / 3600.0:.2f} node-hours in a day, the limit is "
            f"{self._limit_node_s / 3600.0:g}",
        )

    def announced(self, notice: Notice) -> None:
        """An announcement of a job that never comes was taken, and nothing else has gone wrong so far."""
        self._check(Law.NO_SHOW, *self._no_shows.taken(notice))

    def cycle_ends(self, now_s: float) -> None:
        """A cycle has ended that had a whole snapshot, and nothing goes wrong now.

        A reservation that no operation needs may be there only for a while, and a job wait for a lost one.
        """
        self._no_shows.looked(now_s)
        operations = self.operations()
        idle = self._without_use(operations)
        self._idle = {name: self._idle.get(name, (now_s, 0)) for name in idle}
        for name, (since_s, cycles) in self._idle.items():
            self._idle[name] = (since_s, cycles + 1)
            self._check(
                Law.LEFT_BEHIND,
                now_s < since_s + _TIDY_S or cycles < idle[name],
                f"{name} is still there after {now_s - since_s:.0f} s and {cycles} cycles without a use",
            )
        for in_time, text in self._restoring.cycle_ends(now_s, operations):
            self._check(Law.RESTORED, in_time, text)

    def _without_use(self, operations: Collection[Operation]) -> dict[str, int]:
        """What of makeway's reservations has no use, and for how many cycles it may be there."""
        machine = self._machine
        needed = {operation.reservation for operation in operations}
        served = {operation.for_job_id for operation in operations}
        unused = [name for name in machine.holds if name not in needed | self.foreign]
        unused += [
            f"the job of {live.reservation}"
            for live in machine.bound.values()
            if live.reservation not in machine.holds and live.job.job_id not in served
        ]
        found = dict.fromkeys(unused, _TIDY_CYCLES)
        for operation in operations:
            live, hold = machine.live.get(operation.for_job_id), machine.holds.get(operation.reservation)
            if live is None or hold is None or live.reservation != hold.name:
                continue
            if operation.kind.serves_urgent_job and not live.nodes and live.job.kind is not JobKind.ON_DEMAND:
                found[f"{hold.name} of a job that is not urgent any more"] = _TIDY_CYCLES
            elif operation.kind is OperationKind.MAKE_WAY and live.nodes and hold.nodes & ~live.nodes:
                found[f"{hold.name} with more nodes than its job runs on"] = _CHANGED_CYCLES
        return found

    def cycle_failed(self, error: Exception | None) -> None:
        """A cycle has ended. `error`: the exception that ended it; None: it went to its end."""
        self._check(Law.DEFECT, error is None, f"a cycle ended by {type(error).__name__}: {error}")

    def stuck(self, text: str) -> None:
        """The story does not end."""
        self._check(Law.STUCK, False, text)

    def over(self) -> None:
        """The story is over: nothing more happens on the cluster, and the daemon has looked since."""
        stuck = sorted(self._machine.live)
        self._check(Law.STUCK, not stuck, f"jobs never end: {', '.join(stuck)}")
        lost = () if self._memory else sorted(self._machine.taken_for_ended)
        self._check(Law.STUCK, not lost, f"requeues stay forgotten: {', '.join(lost)}")
        mine = self._machine.holds.keys() - self.foreign
        self._check(Law.LEFT_BEHIND, not mine, f"reservations are left: {', '.join(sorted(mine))}")
        left = [f"{operation.kind} for {operation.for_job_id}" for operation in self.operations()]
        self._check(Law.LEFT_BEHIND, not left, f"operations are open: {', '.join(left)}")

    def _takes(self, action: Action, operation: Operation, now_s: float) -> None:
        """Check what takes something when it is sent."""
        self._check(
            Law.STALE_VIEW,
            now_s - self._view_began_s <= self._view_age_s,
            f"{action.verb} of job {action.job_id} on a view {now_s - self._view_began_s:.0f} s old",
        )
        if self._view is not None:
            for law, holds, text in Taking(action, operation, self._view, self.operations()).checks():
                self._check(law, holds, text)

    def _operation_of(self, action: Action) -> Operation:
        for operation in self.operations():
            if any(_is_sent(task, action) for task in operation.tasks):
                return operation
        raise AssertionError(f"no operation has {action}: the executor sends what is written down")

    def _check(self, law: Law, holds: bool, text: str) -> None:
        self.checks[law] += 1
        if not holds:
            self.violations.append(Violation(law=law, at_s=self._machine.now_s, text=text))


def _is_sent(task: Task, action: Action) -> bool:
    """Whether the action is that of the task, which is written down as being sent."""
    return task.progress is Progress.ISSUING and naming_its_run(task) == action


def _key(run: LeavingRun) -> _RunOfLoss:
    """What identifies a run that leaves, from the decision to its end."""
    return run.for_job_id, run.decided_s, run.start_s, run.held
