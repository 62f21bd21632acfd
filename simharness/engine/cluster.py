"""The simulated cluster: a machine, a workload and a virtual clock.

Everything that happens at one instant is handled together, then the base scheduler makes one pass. Commands
act between two instants (`commands`); a pass of its own follows what they change, before time goes on.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import inf, isfinite

from makeway.policies.model import JobKind, Quota, Resources
from makeway.simharness.engine.event_queue import Change, ChangeKind, EventOrder, NodeFailure
from makeway.simharness.engine.invariants import InvariantChecker
from makeway.simharness.engine.job_run import JobRun
from makeway.simharness.engine.machine import SimMachine
from makeway.simharness.engine.partitioned import PartitionSettings
from makeway.simharness.engine.records import ReplayRecord, RunEnding, Segment
from makeway.simharness.engine.reservations import start_apart
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.shared.machine import SharedMachine
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob

PROGRESS_INSTANTS = 2048
"""How many instants pass between two calls of `progress`."""

HELD_UNTIL_S = 4_102_444_800.0  # the year 2100: when a job may start that may not start as things are


class SimCluster:
    """A machine, a workload and a clock that starts at the first event.

    Args:
        node_count: nodes of the machine, numbered from 0, named from `n1` (zero-padded to one width).
        jobs: the workload in any order; its order breaks ties between jobs that are submitted together.
        scheduler: the base scheduler.
        storage: the file system that checkpoints on demand are written to.
        requeue_delay_s: how long a requeued job is held back.
        failures: nodes that fail.
        check: verify the invariants after every instant.
        placed: its partitions, if jobs are given partitions. None: any nodes serve any job.
        sharing: what its nodes have, if jobs share nodes. None: a job has its nodes to itself.
        workload: name of the workload, for the record.

    Raises:
        ValueError: a job or a failure that cannot be; the message names it.
        InvariantViolated: with `check`, by each method that moves the clock.
    """

    def __init__(
        self,
        node_count: int,
        jobs: Sequence[SimJob],
        *,
        scheduler: SchedulerSettings,
        storage: StorageSettings,
        requeue_delay_s: float = 120.0,
        failures: Sequence[NodeFailure] = (),
        check: bool = False,
        workload: str = "",
        placed: PartitionSettings | None = None,
        sharing: SharingSettings | None = None,
    ) -> None:
        _validate(node_count, jobs, failures, requeue_delay_s, sharing)
        self.workload = workload
        self.storage_settings = storage
        self._sharing = sharing
        if sharing is not None:
            if placed is not None:
                raise ValueError("placed and sharing exclude each other: nodes of partitions are not shared")
            self.machine: SimMachine = SharedMachine(
                sharing, jobs, scheduler=scheduler, storage=storage, requeue_delay_s=requeue_delay_s
            )
        else:
            self.machine = SimMachine(
                node_count,
                jobs,
                scheduler=scheduler,
                storage=storage,
                requeue_delay_s=requeue_delay_s,
                placed=placed,
            )
        self.admission = Admission(self.machine)
        self.announced: dict[str, SimJob] = {}
        """Every job that was announced and has not arrived."""
        self._arrivals = sorted(range(len(jobs)), key=lambda index: jobs[index].submit_s)
        self._submits_s = [jobs[index].submit_s for index in self._arrivals]
        self._submits_s.append(inf)
        self._arrived = 0
        self._down_until_s: dict[int, float] = {}
        self._plan(failures)
        self.machine.now_s = self.next_event_s() or 0.0
        self._checker = InvariantChecker(self.machine) if check else None

    @property
    def now_s(self) -> float:
        """The clock."""
        return self.machine.now_s

    def next_event_s(self) -> float | None:
        """When the next event is due if no command comes. None: there is none."""
        if self.machine.pass_due:
            return self.machine.now_s
        next_s = min(self.machine.events.next_s(), self._submits_s[self._arrived])
        return None if next_s == inf else next_s

    def step(self, next_s: float | None = None) -> list[Change]:
        """Go to the next instant at which something happens. `next_s`: it, if it was asked for just now.

        Returns the changes, those of earlier commands first.
        """
        if next_s is not None or (next_s := self.next_event_s()) is not None:
            self._instant(next_s)
        return self._take_changes()

    def advance(self, until_s: float) -> list[Change]:
        """Go to `until_s` inclusive. Returns the changes, those of earlier commands first."""
        while (next_s := self.next_event_s()) is not None and next_s <= until_s:
            self._instant(next_s)
        self.machine.now_s = max(self.machine.now_s, until_s)
        return self._take_changes()

    def run(self, progress: Callable[[float], None] | None = None) -> None:
        """Run until nothing is left to happen, without collecting the changes.

        `progress` is called with the clock from time to time.
        """
        self.machine.changes = None
        instants = 0
        while (next_s := self.next_event_s()) is not None:
            self._instant(next_s)
            instants += 1
            if progress is not None and instants % PROGRESS_INSTANTS == 0:
                progress(next_s)
        self.machine.changes = []

    def submit(self, job: SimJob) -> None:
        """Add a job that arrives now or later, as a user would. Raises `ValueError` if it cannot be."""
        machine = self.machine
        _validate_job(job, machine.node_count, _able_count(self._sharing))
        if any(job.job_id == known.job_id for known in machine.jobs):
            raise ValueError(f"job {job.job_id!r} is in the workload already: every job id must be its own")
        first_s = job.submit_s if job.announced_s is None else min(job.submit_s, job.announced_s)
        if first_s < self.now_s:
            raise ValueError(f"job {job.job_id!r} comes at {first_s} s: it is {self.now_s} s already")
        position = bisect_right(self._submits_s, job.submit_s, self._arrived)
        self._submits_s.insert(position, job.submit_s)
        self._arrivals.insert(position, machine.add(job))
        self._plan_notice(job)

    def drain(self, node: int) -> None:
        """Let no job start on a node any more, as an administrator would. The job on it goes on."""
        self.machine.drained |= 1 << node
        self.machine.nodes_version += 1
        self.machine.interfere()

    def resume(self, node: int) -> None:
        """Let jobs start on a drained node again."""
        self.machine.drained &= ~(1 << node)
        self.machine.nodes_version += 1
        if self.machine.down >> node & 1 and node not in self._down_until_s:
            self.machine.node_up(node)

    def call_at(self, at_s: float, call: Callable[[], None]) -> None:
        """Call `call` at that instant, before the scheduler's pass."""
        self.machine.events.add(max(at_s, self.now_s), EventOrder.CALL, call)

    def record(
        self,
        *,
        policy: str,
        excluded: int = 0,
        commands: dict[str, int] | None = None,
        decision_s: Sequence[float] = (),
        wall_s: float = 0.0,
    ) -> ReplayRecord:
        """What has happened so far. Stretches of jobs that still run are cut at this instant."""
        machine = self.machine
        running = sorted(machine.running.values(), key=lambda live: live.index)
        cut = [
            Segment(live.index, live.segment_start_s, machine.now_s, live.nodes, RunEnding.CUT, live.share)
            for live in running
            if live.segment_start_s < machine.now_s
        ]
        return ReplayRecord(
            policy=policy,
            backfill=machine.scheduler.settings.backfill.value,
            workload=self.workload,
            node_count=machine.node_count,
            jobs=machine.records,
            segments=machine.segments + cut,
            marks=list(machine.marks),
            excluded=excluded,
            commands=dict(commands or {}),
            decision_s=list(decision_s),
            capacities=None if self._sharing is None else self._sharing.capacities,
            wall_s=wall_s,
        )

    def _instant(self, at_s: float) -> None:
        """Handle all that happens at this instant, then let the scheduler make its pass."""
        machine = self.machine
        machine.now_s = at_s
        events = machine.events
        for live in events.take_ends(at_s):
            machine.run_ends(live)
        if events.events:
            events.run_events(at_s)
        while self._submits_s[self._arrived] <= at_s:
            self._arrive()
        machine.pass_due = False
        if self._checker is not None:
            self._checker.before_pass()
        while idle := machine.drained & machine.free:
            machine.node_down(idle.bit_length() - 1)
        self.admission.settle()
        start_apart(machine)
        machine.scheduler.run_pass(machine)
        self.admission.settle()
        if self._checker is not None:
            self._checker.after_pass()

    def _arrive(self) -> None:
        index = self._arrivals[self._arrived]
        self._arrived += 1
        if self.announced:
            self.announced.pop(self.machine.jobs[index].job_id, None)
        self.machine.submit(index)

    def _take_changes(self) -> list[Change]:
        changes, self.machine.changes = self.machine.changes, []
        return changes or []

    def _plan(self, failures: Sequence[NodeFailure]) -> None:
        for job in self.machine.jobs:
            self._plan_notice(job)
        for failure in failures:
            self.machine.events.add(failure.at_s, EventOrder.FAILURE, partial(self._fail, failure))

    def _plan_notice(self, job: SimJob) -> None:
        if job.announced_s is not None and job.announced_s < job.submit_s:
            self.machine.events.add(job.announced_s, EventOrder.ANNOUNCED, partial(self._announce, job))

    def _announce(self, job: SimJob) -> None:
        self.announced[job.job_id] = job
        if self.machine.changes is not None:
            self.machine.changes.append(Change(self.now_s, ChangeKind.ANNOUNCED, job.job_id))

    def _fail(self, failure: NodeFailure) -> None:
        node, until_s = failure.node, failure.at_s + failure.repair_s
        if node in self._down_until_s:
            self._down_until_s[node] = max(self._down_until_s[node], until_s)
        else:
            self._down_until_s[node] = until_s
            self.machine.node_down(node)
        self.machine.events.add(until_s, EventOrder.REPAIR, lambda: self._repair(node))

    def _repair(self, node: int) -> None:
        if self._down_until_s.get(node, inf) <= self.now_s:
            del self._down_until_s[node]
            self.machine.node_up(node)


class Admission:
    """Which waiting jobs may start: not those that their owners hold, nor those over a limit of their user.

    Unlike Slurm's, a limit may be exceeded by jobs that start at the same instant.
    """

    def __init__(self, machine: SimMachine) -> None:
        self._machine = machine
        self._held: set[str] = set()
        self._most: dict[str, int] = {}
        self._blocked: set[str] = set()

    def hold(self, job_id: str) -> None:
        """Hold a waiting job, as its owner would."""
        self._held.add(job_id)
        self.settle()

    def release(self, job_id: str) -> None:
        """Let a held job start again. It is eligible from now on."""
        if (live := self._machine.live.get(job_id)) is not None:
            live.eligible_since_s = self._machine.now_s
        self._held.discard(job_id)
        self.settle()

    def limit(self, user: str, most: int) -> None:
        """Let at most so many jobs of a user run at once."""
        self._most[user] = most
        self.settle()

    def blocked_by(self, live: JobRun) -> str:
        """What a waiting job lacks besides nodes. Empty: nothing."""
        if live.job.job_id in self._held:
            return "its release from a hold (JobHeldUser)"
        left = self._left(live.job.user)
        return "a limit of its user" if left is not None and left <= 0 else ""

    def quotas(self, live: JobRun) -> tuple[Quota, ...]:
        """The limits that a waiting job shares with others."""
        left = self._left(live.job.user)
        return () if left is None else (Quota(name=f"jobs of user {live.job.user}", needs=1.0, left=left),)

    def settle(self) -> None:
        """Take the jobs that may not start out of the queue, and put those back that may."""
        machine = self._machine
        if not (self._held or self._most or self._blocked):
            return
        for job_id, live in tuple(machine.live.items()):
            if live.nodes:
                self._blocked.discard(job_id)
                continue
            if live.job.user in self._most:
                machine.touch(live)  # what is left may have changed
            blocked = bool(self.blocked_by(live))
            if blocked and (job_id not in self._blocked or live.eligible_s is None):
                self._blocked.add(job_id)
                machine.scheduler.remove(live)
                live.eligible_s = HELD_UNTIL_S
                machine.touch(live)
            elif not blocked and job_id in self._blocked:
                self._blocked.remove(job_id)
                machine.make_eligible(live)

    def _left(self, user: str) -> float | None:
        most, running = self._most.get(user), self._machine.running.values()
        return None if most is None else most - sum(1.0 for live in running if live.job.user == user)


def _validate(
    node_count: int,
    jobs: Sequence[SimJob],
    failures: Sequence[NodeFailure],
    requeue_delay_s: float,
    sharing: SharingSettings | None,
) -> None:
    """Refuse what cannot be simulated. Raises `ValueError`."""
    if node_count < 1:
        raise ValueError(f"the machine has {node_count} nodes: it needs at least 1")
    if sharing is not None and len(sharing.capacities) != node_count:
        raise ValueError(f"{len(sharing.capacities)} capacities: the machine has {node_count} nodes")
    if not 0 <= requeue_delay_s < inf:
        raise ValueError(f"requeue_delay_s is {requeue_delay_s}: it must be 0 or more")
    able_count = cache(_able_count(sharing))
    for job in jobs:
        _validate_job(job, node_count, able_count)
    if len({job.job_id for job in jobs}) < len(jobs):
        twice, count = Counter(job.job_id for job in jobs).most_common(1)[0]
        raise ValueError(f"job {twice!r} is in the workload {count} times: every job id must be its own")
    for failure in failures:
        if not 0 <= failure.node < node_count or not isfinite(failure.at_s) or not failure.repair_s >= 0:
            raise ValueError(
                f"{failure} is impossible: nodes are 0 to {node_count - 1}, repair_s is 0 or more"
            )


def _able_count(sharing: SharingSettings | None) -> Callable[[Resources], int]:
    """How many nodes have at least a given demand."""
    return sharing.able_count if sharing is not None else lambda demand: 0


def _validate_job(job: SimJob, node_count: int, able_count: Callable[[Resources], int]) -> None:
    def refuse(field: str, value: object, accepted: str) -> ValueError:
        return ValueError(f"job {job.job_id!r}: {field} is {value}: it must be {accepted}")

    if not 1 <= job.node_count <= node_count:
        raise refuse("node_count", job.node_count, f"from 1 to the machine's {node_count}")
    if not isfinite(job.submit_s):
        raise refuse("submit_s", job.submit_s, "finite")
    if not 0 < job.runtime_s < inf:
        raise refuse("runtime_s", job.runtime_s, "finite and above 0")
    if not job.runtime_s <= job.walltime_s < inf:
        raise refuse("walltime_s", job.walltime_s, f"finite and at least runtime_s, {job.runtime_s}")
    if not 0 <= job.setup_s < job.runtime_s:
        raise refuse("setup_s", job.setup_s, f"0 or more and below runtime_s, {job.runtime_s}")
    if not 0 <= job.restart_s < inf:
        raise refuse("restart_s", job.restart_s, "0 or more")
    if job.checkpoint_interval_s is not None and not job.checkpoint_interval_s > 0:
        raise refuse("checkpoint_interval_s", job.checkpoint_interval_s, "None or above 0")
    if not job.checkpoint_cost_s >= 0:
        raise refuse("checkpoint_cost_s", job.checkpoint_cost_s, "0 or more")
    if job.save_s is not None and not 0 <= job.save_s < inf:
        raise refuse("save_s", job.save_s, "None or 0 or more")
    if job.system_gb_per_node is not None and not 0 < job.system_gb_per_node < inf:
        raise refuse("system_gb_per_node", job.system_gb_per_node, "None or above 0")
    if job.node_count_min is not None:
        if job.kind is not JobKind.MALLEABLE:
            raise refuse("node_count_min", job.node_count_min, f"None for a {job.kind} job")
        if not 1 <= job.node_count_min <= job.node_count:
            raise refuse("node_count_min", job.node_count_min, f"from 1 to node_count, {job.node_count}")
    if job.demand is not None:
        if job.kind is JobKind.MALLEABLE or not job.demand:
            raise refuse("demand", job.demand, "None for a malleable job, and else not empty")
        if able_count(job.demand) < job.node_count:
            raise refuse("demand", job.demand, f"what {job.node_count} of the nodes have")
