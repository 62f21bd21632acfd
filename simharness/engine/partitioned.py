"""The base scheduler of a machine of partitions.

It serves jobs in WFP or FCFS order, with EASY backfill by partition, as Cobalt does.

A job starts on a free partition of the smallest size that holds it, on the one that conflicts with the fewest
other free ones. The first job without one has a reservation: the partition that is free soonest by the time
limits of the running jobs. Jobs after it start elsewhere, or there if they end before.

Reference: P1, sections 4 (WFP, the high-priority queue) and 5.2 (partitions).
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Protocol

from makeway.policies.model import JobKind
from makeway.simharness.engine.job_run import JobRun
from makeway.simharness.engine.scheduler import Backfill, Order, SchedulerSettings
from makeway.simharness.workloads.nodeset import lowest
from makeway.simharness.workloads.partitions import Partitions, members


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSettings:
    """Which partitions, and whether urgent jobs have a queue of their own."""

    partitions: Partitions
    urgent_first: bool = False
    """P1's high-priority queue (section 4.1): no batch job starts while an urgent one waits."""


class HoldView(Protocol):
    """What a scheduler sees of a reservation."""

    @property
    @abstractmethod
    def nodes(self) -> int:
        """The set of its nodes."""

    @property
    @abstractmethod
    def end_s(self) -> float:
        """When it is over at the latest."""


class PartitionedView(Protocol):
    """What this scheduler sees of the machine."""

    now_s: float
    free: int
    reserved: int
    running: dict[int, JobRun]

    @property
    @abstractmethod
    def holds(self) -> Mapping[str, HoldView]:
        """The reservations."""

    def start_on(self, live: JobRun, nodes: int) -> None:
        """Start the job now, on exactly these nodes."""


class PartitionedScheduler:
    """The common queue of a machine of partitions, and the scheduler's pass over it."""

    def __init__(self, settings: SchedulerSettings, placed: PartitionSettings) -> None:
        if settings.backfill not in (Backfill.NONE, Backfill.EASY):
            raise ValueError(f"backfill is {settings.backfill}: on partitions it must be none or easy")
        self.settings = settings
        self.queue: list[JobRun] = []
        self._partitions = placed.partitions
        self._urgent_first = placed.urgent_first

    def add(self, live: JobRun) -> None:
        """Put an eligible job into the queue."""
        self.queue.append(live)

    def remove(self, live: JobRun) -> None:
        """Take a job out of the queue, if it is in there."""
        self.queue = [other for other in self.queue if other is not live]

    def disturb(self) -> None:
        """Nothing to do: every pass looks at every job."""

    def run_pass(self, machine: PartitionedView) -> None:
        """Start every job that may start now."""
        if not self.queue:
            return
        partitions = self._partitions
        available = machine.free & ~machine.reserved
        idle = partitions.idle(available)
        if not self._fits(idle):
            return
        shadow_s, commitments, blocked = inf, 0, False
        waiting: list[JobRun] = []
        for live in self._in_order(machine.now_s):
            ready = 0
            if idle and not (blocked and live.job.kind is not JobKind.ON_DEMAND):
                ready = idle & partitions.of_size[partitions.size_for(live.size)]
                if machine.now_s + live.walltime_s > shadow_s:
                    ready &= ~commitments
            if ready:
                chosen = partitions.least_blocking(ready, idle)
                idle &= ~partitions.conflicts[chosen]
                machine.start_on(live, lowest(partitions.every[chosen].nodes, live.size))
                continue
            waiting.append(live)
            blocked = blocked or (self._urgent_first and live.job.kind is JobKind.ON_DEMAND)
            if self.settings.backfill is Backfill.NONE:
                idle = 0
            elif shadow_s == inf and idle:
                shadow_s, commitments = self._promise(live, machine)
        self.queue = waiting

    def _fits(self, idle: int) -> bool:
        """Whether an idle partition is of the smallest size that holds some job of the queue."""
        partitions = self._partitions
        sizes = {live.size for live in self.queue} if idle else ()
        return any(idle & partitions.of_size[partitions.size_for(size)] for size in sizes)

    def serves(self, live: JobRun) -> bool:
        """Whether the job is on a partition of the smallest size that holds it."""
        of_size = self._partitions.of_size[self._partitions.size_for(live.size)]
        return any(not live.nodes & ~self._partitions.every[index].nodes for index in members(of_size))

    def _in_order(self, now_s: float) -> list[JobRun]:
        """The queue in the order of service.

        First the jobs at the front, then urgent ones if they go first, then by WFP or submission.
        """
        urgent_first = self._urgent_first
        if self.settings.order is Order.WFP:
            return sorted(
                self.queue,
                key=lambda live: (
                    live.rank,
                    urgent_first and live.job.kind is not JobKind.ON_DEMAND,
                    -(((now_s - live.job.submit_s) / live.walltime_s) ** 3) * live.size,
                    live.job.submit_s,
                    live.index,
                ),
            )
        return sorted(
            self.queue,
            key=lambda live: (
                live.rank,
                urgent_first and live.job.kind is not JobKind.ON_DEMAND,
                live.job.submit_s,
                live.index,
            ),
        )

    def _promise(self, live: JobRun, machine: PartitionedView) -> tuple[float, int]:
        """The reservation of a job: when its partition is free at the latest, and which partitions conflict.

        Infinite, and none, if there will be none.
        """
        partitions = self._partitions
        of_size = partitions.of_size[partitions.size_for(live.size)]
        steps = _releases(machine)
        low, high = 0, len(steps)
        while low < high:
            middle = (low + high) // 2
            if partitions.idle(steps[middle][1]) & of_size:
                high = middle
            else:
                low = middle + 1
        if low == len(steps):
            return inf, 0
        at_s, by_then = steps[low]
        idle = partitions.idle(by_then)
        return at_s, partitions.conflicts[partitions.least_blocking(idle & of_size, idle)]


def _releases(machine: PartitionedView) -> list[tuple[float, int]]:
    """The available nodes at each instant at which they change.

    The nodes that are available now are in all of them.
    """
    reserved = machine.reserved
    parts = [(live.limit_s, live.nodes & ~reserved) for live in machine.running.values()]
    for hold in machine.holds.values():
        until_s = hold.end_s
        parts.append((until_s, hold.nodes & machine.free))
        parts += [
            (max(until_s, live.limit_s), live.nodes & hold.nodes)
            for live in machine.running.values()
            if live.nodes & hold.nodes
        ]
    parts.sort()
    found: list[tuple[float, int]] = []
    nodes = machine.free & ~reserved
    for at_s, released in parts:
        nodes |= released
        found.append((at_s, nodes))
    return found
