"""What must hold after every instant of a simulation, computed again from the jobs themselves.

On shared nodes only the nodes on which something has changed are read again (`NodeUses`).
"""

from functools import reduce
from math import inf

from makeway.policies.model import dominant_share
from makeway.simharness.engine.job_run import TOLERANCE_S, JobRun
from makeway.simharness.engine.machine import SimMachine
from makeway.simharness.engine.partitioned import PartitionedScheduler
from makeway.simharness.engine.scheduler import Backfill, Order, Scheduler
from makeway.simharness.engine.shared.machine import SharedMachine
from makeway.simharness.engine.shared.scheduler import SharedScheduler
from makeway.simharness.engine.shared.uses import NodeUses
from makeway.simharness.workloads.partitions import members


class InvariantViolated(Exception):
    """The simulator did something that no cluster can do. The message states the facts."""


class InvariantChecker:
    """Looks at a machine before and after each pass of its scheduler.

    Raises `InvariantViolated`:

    - if a node is held twice or lost, or, on shared nodes, if jobs hold more of a resource than a node has;
    - if node-seconds are lost, or counted twice;
    - if a job starts before it may, or on nodes that are reserved for others;
    - on a machine of partitions, if a job starts on no partition of its size;
    - elsewhere, with EASY backfilling, if the reservation of the queue's first job is put off though nothing
      but the scheduler has acted.
    """

    def __init__(self, machine: SimMachine) -> None:
        self._machine = machine
        self._shared = machine if isinstance(machine, SharedMachine) else None
        self._uses = None if self._shared is None else NodeUses(self._shared)
        self._everything = (1 << machine.node_count) - 1
        self._running: frozenset[int] = frozenset()
        self._held = 0
        self._since_s = machine.now_s
        self._held_node_s = 0.0
        self._segments = 0
        self._closed_node_s = 0.0
        self._head: JobRun | None = None
        self._promise_s = inf
        self._interference = -1

    def before_pass(self) -> None:
        """Remember which jobs run already."""
        self._running = frozenset(self._machine.running)

    def after_pass(self) -> None:
        """Verify everything."""
        machine, running = self._machine, self._running
        holders = [live for live in machine.live.values() if live.nodes]  # not by its own list of them
        started = [live for live in holders if live.index not in running]
        if self._uses is not None:
            if fact := self._uses.look(holders):
                raise self._fail(fact)
        else:
            self._nodes(holders)
        self._node_seconds(holders)
        for live in started:
            self._may_start(live)
        scheduler = machine.scheduler
        if isinstance(scheduler, PartitionedScheduler):
            for live in started:
                if not scheduler.serves(live):
                    raise self._fail(f"job {live.job.job_id!r} is on no partition of the right size")
        elif scheduler.settings.backfill is Backfill.EASY:
            self._promise(scheduler, holders, started)

    def _fail(self, fact: str) -> InvariantViolated:
        return InvariantViolated(f"at {self._machine.now_s} s: {fact}")

    def _nodes(self, holders: list[JobRun]) -> None:
        machine = self._machine
        nodes = [live.nodes for live in holders]
        sizes = [live.size for live in holders]
        if [*map(int.bit_count, nodes)] != sizes:
            raise self._fail(_wrong_size(holders))
        held = reduce(int.__or__, nodes, 0)
        if held.bit_count() != sum(sizes):
            self._held_twice(holders)
        if held | machine.free | machine.down != self._everything:
            raise self._fail("a node is neither held nor free nor down")
        if held.bit_count() + machine.free.bit_count() + machine.down.bit_count() != machine.node_count:
            raise self._fail("a node is two of held, free and down")

    def _held_twice(self, holders: list[JobRun]) -> None:
        held = 0
        for live in holders:
            if held & live.nodes:
                names = ", ".join(self._machine.names.of(held & live.nodes))
                raise self._fail(f"job {live.job.job_id!r} is on {names}, which another job holds")
            held |= live.nodes

    def _node_seconds(self, holders: list[JobRun]) -> None:
        machine = self._machine
        if machine.now_s < self._since_s:
            raise self._fail(f"the clock has gone back from {self._since_s} s")
        self._held_node_s += self._held * (machine.now_s - self._since_s)
        self._since_s = machine.now_s
        self._held = sum([live.size for live in holders])
        for segment in machine.segments[self._segments :]:
            self._closed_node_s += (segment.end_s - segment.start_s) * segment.nodes.bit_count()
        self._segments = len(machine.segments)
        now_s = machine.now_s
        open_node_s = sum([(now_s - live.segment_start_s) * live.size for live in holders])
        recorded_node_s = self._closed_node_s + open_node_s
        if abs(recorded_node_s - self._held_node_s) > 1e-9 * (1.0 + self._held_node_s):
            raise self._fail(f"{recorded_node_s} node-seconds are recorded, {self._held_node_s} were held")

    def _may_start(self, live: JobRun) -> None:
        machine = self._machine
        job_id = live.job.job_id
        if live.job.submit_s > machine.now_s:
            raise self._fail(f"job {job_id!r} started before its arrival at {live.job.submit_s} s")
        if live.eligible_s is not None:
            raise self._fail(f"job {job_id!r} started though it is held back until {live.eligible_s} s")
        if live.reservation is None:
            if live.nodes & machine.reserved:
                names = ", ".join(machine.names.of(live.nodes & machine.reserved))
                raise self._fail(f"job {job_id!r} started on {names}, reserved for others")
        elif live.nodes & ~machine.holds[live.reservation].nodes:
            raise self._fail(f"job {job_id!r} started outside its reservation {live.reservation!r}")

    def _promise(
        self, scheduler: Scheduler | SharedScheduler, holders: list[JobRun], started: list[JobRun]
    ) -> None:
        """EASY's guarantee for the first job of the queue.

        It starts no later than foreseen when it became the first.
        """
        machine = self._machine
        first = _first(scheduler, machine.now_s)
        first_s = inf if first is None else self._foreseen_s(scheduler, first, holders)
        before = self._head
        if (
            before is not None
            and machine.interference == self._interference
            and not self._passed(before, started)
        ):
            waits = first is before
            foreseen_s = first_s if waits else machine.now_s
            if (waits or before.nodes) and foreseen_s > self._promise_s + TOLERANCE_S:
                raise self._fail(
                    f"job {before.job.job_id!r}, first of the queue, was to start by {self._promise_s} s; "
                    f"now it starts at {foreseen_s} s"
                )
        self._interference = machine.interference
        self._head = first
        self._promise_s = first_s

    def _passed(self, head: JobRun, started: list[JobRun]) -> bool:
        """Whether a job that is served before `head` by right has started now."""
        return any(self._turn(live) < self._turn(head) for live in started if live is not head)

    def _turn(self, live: JobRun) -> tuple[float, float, int]:
        job = live.job
        if self._machine.scheduler.settings.order is Order.WFP:
            # A job that has just started smaller has a longer limit; the queue went by the usual one.
            waited = (self._machine.now_s - job.submit_s) / (live.usual_walltime_s or live.walltime_s)
            share = 1.0
            if self._shared is not None and job.demand is not None:
                share = dominant_share(job.demand, self._shared.nodes.reference)
            return (-(waited**3) * (job.node_count * share), job.submit_s, live.index)
        return (0.0, job.submit_s, live.index)

    def _foreseen_s(
        self, scheduler: Scheduler | SharedScheduler, head: JobRun, holders: list[JobRun]
    ) -> float:
        """The first instant at which enough nodes are sure to be free for `head`. Infinite: there is none."""
        machine = self._machine
        if self._uses is not None:
            return self._foreseen_shared_s(self._uses, head)
        smallest = head.size if isinstance(scheduler, SharedScheduler) else scheduler.smallest(head)
        holds = machine.holds.values()
        if not holds:
            return self._foreseen_without_holds_s(smallest, holders)
        released = [(live.limit_s, live.nodes) for live in holders]
        released += [(hold.end_s, 0) for hold in holds]  # what it keeps is looked at below
        released.sort()
        nodes, at_s = machine.free, machine.now_s
        for next_s, freed in (*released, (inf, 0)):
            if next_s > at_s:
                kept = 0
                for hold in holds:
                    if hold.end_s > at_s:
                        kept |= hold.nodes
                if (nodes & ~kept).bit_count() >= smallest:
                    return at_s
                at_s = next_s
            nodes |= freed
        return inf

    def _foreseen_without_holds_s(self, smallest: int, holders: list[JobRun]) -> float:
        """The same where no node is kept for anybody, so that their number tells it."""
        free, at_s = self._machine.free.bit_count(), self._machine.now_s
        if free < smallest:
            for next_s, freed in sorted([(live.limit_s, live.size) for live in holders]):
                free, at_s = free + freed, max(at_s, next_s)
                if free >= smallest:
                    return at_s
            return inf
        return at_s

    def _foreseen_shared_s(self, uses: NodeUses, head: JobRun) -> float:
        """The same on shared nodes, node by node."""
        ready_s = uses.ready_s(head.job.demand)
        for hold in self._machine.holds.values():
            for node in members(hold.nodes):
                ready_s[node] = max(ready_s[node], hold.end_s)
        ready_s.sort()
        return ready_s[head.size - 1] if len(ready_s) >= head.size else inf


def _wrong_size(holders: list[JobRun]) -> str:
    live = next(live for live in holders if live.nodes.bit_count() != live.size)
    return f"job {live.job.job_id!r} has {live.nodes.bit_count()} nodes for {live.size}"


def _first(scheduler: Scheduler | SharedScheduler, now_s: float) -> JobRun | None:
    """The first job of the queue. None: the queue is empty."""
    if isinstance(scheduler, SharedScheduler):
        return scheduler.queue[0].live if scheduler.queue else None
    return scheduler.first(now_s)
