"""The base scheduler, in the place of Slurm's: a queue order, and none, EASY or conservative backfill.

It counts nodes and does not name them: every node serves every job. Time limits are upper bounds of what a
job takes. With `start_smaller` a malleable job starts as soon as its smallest size fits, on as many nodes as
it may have then, like a job that asked Slurm for a range of nodes; its time limit grows as its size falls.

Reference: WFP is Cobalt's score as P1 gives it (section 4). EASY and conservative backfilling are the
textbook's. In CQSim, the simulator of P5, EASY knows how long the jobs that wait will really run.
"""

from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, inf
from typing import Protocol

from makeway.policies.queue.profile import Profile
from makeway.simharness.engine.job_run import JobRun


class Order(StrEnum):
    """The order of the queue. Jobs that were moved to the front come first, in the order of their moves."""

    FCFS = "fcfs"  # by submit time
    WFP = "wfp"  # by (wait / walltime)^3 x nodes, the largest first, computed again at each pass


class Backfill(StrEnum):
    """Which jobs may start before a job that does not fit."""

    NONE = "none"
    EASY = "easy"  # jobs that do not delay the first job of the queue
    CONSERVATIVE = "conservative"  # jobs that do not delay any job before them
    # as easy, but a waiting job counts by its real run time, and a running one by its time limit
    EASY_CQSIM = "easy-cqsim"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Which base scheduler."""

    order: Order = Order.FCFS
    backfill: Backfill = Backfill.EASY
    start_smaller: bool = False
    """Whether a malleable job may start with fewer nodes than it asks for.

    See P5, sections III-A and V-A, observation 6.
    """

    def __post_init__(self) -> None:
        if self.start_smaller and self.backfill is Backfill.CONSERVATIVE:
            raise ValueError("start_smaller: there is no conservative backfill for jobs without a fixed size")


Release = tuple[float, int, int]
"""When nodes come free at the latest: (instant, job's index or -1, number of nodes)."""


class SchedulerView(Protocol):
    """What a scheduler sees of the cluster."""

    now_s: float

    @abstractmethod
    def available(self) -> int:
        """How many nodes are free for jobs of the common queue."""

    @abstractmethod
    def releases(self) -> Sequence[Release]:
        """When the other nodes come free, soonest first; those that are down are left out."""

    def start(self, live: JobRun, node_count: int) -> None:
        """Start the job now on `node_count` available nodes; there are enough."""


_Entry = tuple[int, float, int, int, float, JobRun, int]
"""A queued job: (rank, submit_s, index, size, walltime_s, job, smallest size).

Sorted, such entries are in FCFS order.
"""


def _wfp_key(now_s: float) -> Callable[[_Entry], tuple[int, float, float, int]]:
    """P1, section 4: score = (wait / walltime)^3 x nodes; ties in FCFS order."""
    return lambda entry: (
        entry[0],
        -(((now_s - entry[1]) / entry[4]) ** 3) * entry[3],
        entry[1],
        entry[2],
    )


class Scheduler:
    """The common queue, and the scheduler's pass over it.

    The result of a pass is remembered: until something gets easier (`disturb`) a job that could not start
    still cannot, so that after mere arrivals only the new jobs are looked at.
    """

    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings
        self.queue: list[_Entry] = []
        # Under CQSim's rule a job that has started counts by its limit from the next pass on: nothing can be
        # kept.
        self._remember = settings.order is Order.FCFS and settings.backfill is not Backfill.EASY_CQSIM
        self._disturbed = True
        self._tested = 0
        self._shadow_s = inf
        self._extra = 0

    def add(self, live: JobRun) -> None:
        """Put an eligible job into the queue."""
        job = live.job
        entry = (
            live.rank,
            job.submit_s,
            live.index,
            live.size,
            live.walltime_s,
            live,
            self.smallest(live),
        )
        if not self.queue or self.queue[-1] < entry:
            self.queue.append(entry)
        else:
            insort(self.queue, entry)
            self._disturbed = True

    def smallest(self, live: JobRun) -> int:
        """The fewest nodes that a waiting job can start with."""
        return (live.job.node_count_min or live.size) if self.settings.start_smaller else live.size

    def remove(self, live: JobRun) -> None:
        """Take a job out of the queue, if it is in there."""
        for position, entry in enumerate(self.queue):
            if entry[5] is live:
                del self.queue[position]
                self._disturbed = True
                return

    def disturb(self) -> None:
        """Nodes have come free, or will at another time: every job is to be looked at again."""
        self._disturbed = True

    def run_pass(self, machine: SchedulerView) -> None:
        """Start every job that may start now."""
        if not self.queue or not (self._remember or self._fits_any(machine.available())):
            return
        if self.settings.order is Order.WFP:
            self.queue.sort(key=_wfp_key(machine.now_s))
        match self.settings.backfill:
            case Backfill.NONE:
                self._start_in_order(machine)
            case Backfill.EASY | Backfill.EASY_CQSIM:
                self._easy(machine)
            case Backfill.CONSERVATIVE:
                self._conservative(machine)

    def first(self, now_s: float) -> JobRun | None:
        """The first job of the queue at this instant. None: the queue is empty."""
        if self.settings.order is Order.WFP:
            return min(self.queue, key=_wfp_key(now_s))[5] if self.queue else None
        return self.queue[0][5] if self.queue else None

    def _fits_any(self, available: int) -> bool:
        """Whether a job of the queue needs no more nodes. If none does, none starts, whatever their order."""
        return any(entry[6] <= available for entry in self.queue)

    def _start_in_order(self, machine: SchedulerView) -> int:
        """Start jobs from the front while they fit. Returns how many nodes are left over."""
        available = machine.available()
        started = 0
        for entry in self.queue:
            if entry[6] > available:
                break
            size = min(entry[3], available)
            available -= size
            machine.start(entry[5], size)
            started += 1
        if started:
            del self.queue[:started]
        return available

    def _easy(self, machine: SchedulerView) -> None:
        """Start jobs in order, then those that do not delay the first one that waits.

        They end before its reservation begins, or leave enough nodes for it.
        """
        queue = self.queue
        if self._disturbed or not self._remember:
            available = self._start_in_order(machine)
            self._disturbed = True
            if not queue or not available:
                return
            self._shadow_s, self._extra = shadow(machine.releases(), queue[0][6], available)
            self._disturbed = False
            first = 1
        else:
            available = machine.available()
            first = self._tested
        now_s, shadow_s, extra = machine.now_s, self._shadow_s, self._extra
        real = self.settings.backfill is Backfill.EASY_CQSIM
        position, end = first, len(queue)
        while position < end and available:
            entry = queue[position]
            smallest = entry[6]
            if smallest > available:
                position += 1
                continue
            size = min(entry[3], available)
            end_s = now_s + (entry[5].run_s(size) if real else limit_s(entry[4], entry[3], size))
            if end_s > shadow_s:
                if smallest > extra:
                    position += 1
                    continue
                size = min(size, extra)
                extra -= size
            available -= size
            machine.start(entry[5], size)
            del queue[position]
            end -= 1
        self._extra = extra
        self._tested = end

    def _conservative(self, machine: SchedulerView) -> None:
        """Plan each job, in order, as early as delays no job before it; start those planned for now.

        The next pass plans again, so this one ends as soon as no job is left that could start now.
        """
        queue = self.queue
        first = self._tested if self._remember and not self._disturbed else 0
        available = machine.available()
        self._disturbed = False
        self._tested = len(queue)
        if min((entry[3] for entry in queue[first:]), default=available + 1) > available:
            return
        now_s = machine.now_s
        profile = Profile(now_s, available, machine.releases())
        smallest = min(entry[3] for entry in queue)
        waiting: list[_Entry] = []
        for position, entry in enumerate(queue):
            if available < smallest:
                waiting.extend(queue[position:])
                break
            if profile.place(entry[3], entry[4]) <= now_s:
                available -= entry[3]
                machine.start(entry[5], entry[3])
            else:
                waiting.append(entry)
        self.queue = waiting
        self._tested = len(waiting)


def limit_s(walltime_s: float, asked: int, node_count: int) -> float:
    """The time limit of a job on `node_count` nodes that asked for `asked`: the work is the same."""
    return walltime_s if node_count == asked else float(ceil(walltime_s * asked / node_count))


def shadow(releases: Sequence[Release], size: int, available: int) -> tuple[float, int]:
    """The reservation of the first job of the queue: when `size` nodes are free, and how many more are then.

    Infinite if that many will never be; then nothing can delay it, and any number of nodes is to spare.
    """
    total = len(releases)
    position = 0
    while available < size:
        if position == total:
            return inf, available
        available += releases[position][2]
        position += 1
    shadow_s = releases[position - 1][0]
    while position < total and releases[position][0] == shadow_s:
        available += releases[position][2]
        position += 1
    return shadow_s, available - size


def insert_release(releases: list[Release], release: Release) -> None:
    """Add to a sorted list of releases."""
    insort(releases, release)


def remove_release(releases: list[Release], release: Release) -> None:
    """Take out of a sorted list of releases one that is in there."""
    del releases[bisect_left(releases, release)]
