"""The base scheduler of a machine whose nodes jobs share: no, EASY or conservative backfill on all resources.

A job starts on nodes that have enough of every resource; among them the packing chooses (`Packing`). Under
EASY a job may start if the first job that waits could still start as early as before on any nodes, all
running jobs taken at their time limits. Under conservative backfill every waiting job is planned, in order,
on certain nodes. On a machine where all jobs take whole nodes, EASY here starts them when `Scheduler` does.

Reference: the textbook's EASY and conservative backfilling, with nodes that fit in place of free nodes.
"""

from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Protocol

from makeway.policies.model import dominant_share
from makeway.simharness.engine.job_run import JobRun
from makeway.simharness.engine.partitioned import HoldView
from makeway.simharness.engine.scheduler import Backfill, Order, SchedulerSettings
from makeway.simharness.engine.shared.nodes import Amounts, SharedNodes
from makeway.simharness.engine.shared.plan import NodePlans
from makeway.simharness.workloads.partitions import members


class SharedView(Protocol):
    """What this scheduler sees of the machine."""

    now_s: float
    down: int
    reserved: int

    @property
    @abstractmethod
    def holds(self) -> Mapping[str, HoldView]:
        """The reservations."""

    def start_on(self, live: JobRun, nodes: int) -> None:
        """Start the job now, on exactly these nodes."""


@dataclass(frozen=True, slots=True)
class _Need:
    """What a waiting job needs: so many nodes, and the demand on each. Equal needs have equal numbers."""

    number: int
    count: int
    demand: Amounts | None


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job of the queue."""

    rank: int
    submit_s: float
    live: JobRun
    need: _Need
    weight: float
    """Its size in whole nodes, for WFP."""

    def turn(self) -> tuple[int, float, int]:
        """The sort key of FCFS order."""
        return (self.rank, self.submit_s, self.live.index)


@dataclass(slots=True)
class _Promise:
    """The first job that waits: what it needs, and when it can start at the latest."""

    need: _Need
    shadow_s: float
    """Infinite: it is not known when, and nothing can delay it."""
    ready_count: int
    """How many nodes will do at that time."""


class SharedScheduler:
    """The common queue of a machine with shared nodes, and the scheduler's pass over it."""

    def __init__(self, settings: SchedulerSettings, nodes: SharedNodes) -> None:
        if settings.start_smaller or settings.backfill is Backfill.EASY_CQSIM:
            wrong = "start_smaller" if settings.start_smaller else f"backfill {settings.backfill}"
            raise ValueError(f"{wrong}: shared nodes have backfill none, easy or conservative, at full size")
        self.settings = settings
        self.queue: list[_Waiting] = []
        self._nodes = nodes
        self._needs: dict[tuple[int, Amounts | None], _Need] = {}
        self._wanted: Counter[_Need] = Counter()
        """How many waiting jobs have each need."""
        self._sorted = True

    def add(self, live: JobRun) -> None:
        """Put an eligible job into the queue."""
        need = self._need(live)
        demand = live.job.demand
        share = 1.0 if demand is None else dominant_share(demand, self._nodes.reference)
        entry = _Waiting(live.rank, live.job.submit_s, live, need, live.size * share)
        self._sorted = self._sorted and (not self.queue or self.queue[-1].turn() < entry.turn())
        self.queue.append(entry)
        self._wanted[need] += 1

    def remove(self, live: JobRun) -> None:
        """Take a job out of the queue, if it is in there."""
        for position, entry in enumerate(self.queue):
            if entry.live is live:
                self._take_out([position])
                return

    def disturb(self) -> None:
        """Nothing to do: every pass looks at every job."""

    def run_pass(self, machine: SharedView) -> None:
        """Start every job that may start now."""
        if self.queue:
            self._sort(machine.now_s)
        able = {
            need.number for need in self._wanted if self._free(need.demand, machine).bit_count() >= need.count
        }
        if not able:
            return
        if self.settings.backfill is Backfill.CONSERVATIVE:
            self._take_out(self._conservative(machine, able))
        else:
            self._take_out(self._easy(machine, able))

    def serving(self, live: JobRun, among: int) -> int:
        """The nodes of `among` on which the job would start now. 0: they do not suffice."""
        need = self._need(live)
        free = self._nodes.fitting(need.demand) & among
        return self._nodes.choose(free, need.count) if free.bit_count() >= need.count else 0

    def _need(self, live: JobRun) -> _Need:
        demand = live.job.demand
        key = (live.size, None if demand is None else self._nodes.amounts(demand))
        return self._needs.setdefault(key, _Need(len(self._needs), *key))

    def _sort(self, now_s: float) -> None:
        if self.settings.order is Order.WFP:
            self.queue.sort(
                key=lambda entry: (
                    entry.rank,
                    -(((now_s - entry.submit_s) / entry.live.walltime_s) ** 3) * entry.weight,
                    *entry.turn(),
                )
            )
        elif not self._sorted:
            self.queue.sort(key=_Waiting.turn)
            self._sorted = True

    def _easy(self, machine: SharedView, able: set[int]) -> list[int]:
        """Start jobs in order, then those that do not delay the first one that waits.

        Returns their positions. `able`: the numbers of the needs that could be met at first.
        """
        promise: _Promise | None = None
        delaying: set[int] = set()
        started: list[int] = []
        for position, entry in enumerate(self.queue):
            need = entry.need
            past = False
            if promise is not None:
                if need.number not in able:
                    continue
                past = machine.now_s + entry.live.walltime_s > promise.shadow_s
                if past and need.number in delaying:
                    continue
            free = self._free(need.demand, machine)
            if free.bit_count() < need.count:
                able.discard(need.number)
                if not able or self.settings.backfill is Backfill.NONE:
                    break
                promise = promise or self._promise(need, machine)
                continue
            chosen = self._nodes.choose(free, need.count)
            if promise is not None and past:
                lost = self._lost(promise, need.demand, chosen)
                if promise.ready_count - lost < promise.need.count:
                    delaying.add(need.number)
                    continue
                promise.ready_count -= lost
            machine.start_on(entry.live, chosen)
            started.append(position)
            delaying.clear()
        return started

    def _conservative(self, machine: SharedView, able: set[int]) -> list[int]:
        """Plan each job, in order, as early as delays no job before it; start those planned for now.

        The next pass plans again, so this one ends as soon as no job is left that could start now. Returns
        and takes the same as `_easy`.
        """
        plans = NodePlans(self._nodes, machine.now_s, machine.down, machine.holds.values())
        started: list[int] = []
        for position, entry in enumerate(self.queue):
            need = entry.need
            if self._free(need.demand, machine).bit_count() < need.count:
                able.discard(need.number)
                if not able:
                    break
            start_s, chosen = plans.place(need.count, need.demand, entry.live.walltime_s)
            if start_s <= machine.now_s:
                machine.start_on(entry.live, chosen)
                started.append(position)
        return started

    def _take_out(self, positions: list[int]) -> None:
        for position in reversed(positions):
            need = self.queue.pop(position).need
            self._wanted[need] -= 1
            if not self._wanted[need]:
                del self._wanted[need]

    def _free(self, demand: Amounts | None, machine: SharedView) -> int:
        """The nodes that the common queue may use and on which the demand fits now."""
        return self._nodes.fitting(demand) & ~(machine.down | machine.reserved)

    def _promise(self, need: _Need, machine: SharedView) -> _Promise:
        times_s = self._ready_s(need.demand, machine)
        shadow_s = times_s[need.count - 1] if len(times_s) >= need.count else inf
        return _Promise(need, shadow_s, bisect_right(times_s, shadow_s))

    def _ready_s(self, demand: Amounts | None, machine: SharedView) -> list[float]:
        """When the demand fits on each node that is up for the common queue, sorted."""
        if not machine.holds and not machine.down:
            return self._nodes.sorted_ready_s(demand)
        times_s = list(self._nodes.ready_s(demand))
        for hold in machine.holds.values():
            for node in members(hold.nodes):
                times_s[node] = max(times_s[node], hold.end_s)
        return sorted(time_s for node, time_s in enumerate(times_s) if not machine.down >> node & 1)

    def _lost(self, promise: _Promise, demand: Amounts | None, chosen: int) -> int:
        """How many of the nodes that would do for the first job will not if this demand is met on `chosen`.

        The job that has it runs past the first one's start.
        """
        first, shadow_s = promise.need.demand, promise.shadow_s
        ready_s = self._nodes.ready_s(first)
        return sum(
            not self._nodes.fits_at(node, first, shadow_s, self._nodes.granted(demand, node))
            for node in members(chosen)
            if ready_s[node] <= shadow_s
        )
