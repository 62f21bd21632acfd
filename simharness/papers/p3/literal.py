"""P3's algorithms as they are written, in a scheduler of their own, to compare makeway's policy with.

Here the checkpoint-based scheduler is the only one: every job that passes the first of the queue is predicted
and may be preempted, those too that the classical algorithm would have let pass. Checkpoints are free, as in
the paper's section 4.

Reference:
    Niu et al., "Employing Checkpoint to Improve Job Scheduling in Large-Scale Systems" (JSSPP 2012),
    algorithms 1 to 3.

Differs from the paper:
    Jobs below t_thr that have been preempted are predicted to last what is left of their limit. A reservation
    counts the nodes of all jobs that are predicted to end at its very instant.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from makeway.simharness.engine.records import JobRecord, ReplayRecord, RunEnding, Segment
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.nodeset import lowest

THRESHOLD_S = 1800.0
"""t_thr: time limits below this are believed (section 4.1)."""


@dataclass(slots=True)
class _Run:
    start_s: float
    predicted_end_s: float
    backfilled: bool
    nodes: int


class LiteralSimulation:
    """One workload under the paper's scheduler.

    Args:
        node_count: nodes of the machine.
        jobs: in the order in which they are submitted.
        p: the share of a time limit that is believed. None: the classical algorithm.
    """

    def __init__(self, node_count: int, jobs: Sequence[SimJob], p: float | None) -> None:
        self._jobs = jobs
        self._p = p
        self._free = (1 << node_count) - 1
        self._free_count = node_count
        self._now_s = 0.0
        self._queue: list[int] = []
        self._running: dict[int, _Run] = {}
        self._ran_s = [0.0] * len(jobs)
        """What each job had done when it was preempted last."""
        self._ends: list[tuple[float, int, int]] = []
        """End, job and how often it had been preempted by then; void if it has been preempted since."""
        self._record = ReplayRecord(
            policy="as written",
            backfill="easy",
            workload="",
            node_count=node_count,
            jobs=[JobRecord(job) for job in jobs],
        )

    def run(self) -> ReplayRecord:
        """Schedule at every submission, every end, and when the first job's reservation is due."""
        arrived, due_s = 0, inf
        while arrived < len(self._jobs) or self._running:
            while self._ends and self._void(self._ends[0]):
                heapq.heappop(self._ends)
            submit_s = self._jobs[arrived].submit_s if arrived < len(self._jobs) else inf
            self._now_s = min(submit_s, self._ends[0][0] if self._ends else inf, due_s)
            while arrived < len(self._jobs) and self._jobs[arrived].submit_s <= self._now_s:
                self._queue.append(arrived)
                arrived += 1
            while self._ends and self._ends[0][0] <= self._now_s:
                entry = heapq.heappop(self._ends)
                if not self._void(entry):
                    self._leave(entry[1], RunEnding.COMPLETED)
                    self._record.jobs[entry[1]].end_s = self._now_s
            due_s = self._schedule()
        return self._record

    def _void(self, end: tuple[float, int, int]) -> bool:
        return end[2] != self._record.jobs[end[1]].evictions

    def _schedule(self) -> float:
        """Algorithms 1 and 3. Returns when the reservation is due; infinite if there is none."""
        while True:
            self._start_in_order()
            if not self._queue:
                return inf
            due_s, extra = self._reservation()
            if due_s > self._now_s:
                break
            self._preempt()
        if self._free_count:
            self._backfill(due_s - self._now_s, extra)
        return due_s

    def _start_in_order(self) -> None:
        """Algorithm 1, lines 14 to 25: when the first job starts, and how many nodes are left over then."""
        started = 0
        for job in self._queue:
            if self._jobs[job].node_count > self._free_count:
                break
            self._start(job, self._left_s(job), backfilled=False)
            started += 1
        del self._queue[:started]

    def _reservation(self) -> tuple[float, int]:
        """Algorithm 1, lines 14 to 25: when the first job starts, and how many nodes are left over then."""
        wanted = self._jobs[self._queue[0]].node_count
        ends = sorted((max(run.predicted_end_s, self._now_s), job) for job, run in self._running.items())
        available, due_s = self._free_count, inf
        for end_s, job in ends:
            if end_s > due_s:
                break
            available += self._jobs[job].node_count
            if available >= wanted:
                due_s = end_s
        return due_s, available - wanted

    def _preempt(self) -> None:
        """Algorithm 3: the largest jobs that ran longer than predicted go back to the head of the queue."""
        wanted = self._jobs[self._queue[0]].node_count
        overdue = [
            job for job, run in self._running.items() if run.backfilled and run.predicted_end_s <= self._now_s
        ]
        overdue.sort(key=lambda job: (-self._jobs[job].node_count, job))
        back: list[int] = []
        for job in overdue:
            if self._free_count >= wanted:
                break
            self._ran_s[job] += self._now_s - self._running[job].start_s
            self._leave(job, RunEnding.REQUEUED)
            self._record.jobs[job].evictions += 1
            back.append(job)
        first = self._queue.pop(0)
        self._start(first, self._left_s(first), backfilled=False)
        self._queue[:0] = back

    def _backfill(self, window_s: float, extra: int) -> None:
        """Algorithm 1, lines 14 to 25: when the first job starts, and how many nodes are left over then."""
        waiting = [self._queue[0]]
        for job in self._queue[1:]:
            size = self._jobs[job].node_count
            predicted_s = self._predicted_s(job)
            if size > self._free_count or (predicted_s > window_s and size > extra):
                waiting.append(job)
                continue
            if predicted_s > window_s:
                extra -= size
            self._start(job, predicted_s, backfilled=True)
        self._queue = waiting

    def _predicted_s(self, job: int) -> float:
        """Algorithm 2."""
        limit_s = self._jobs[job].walltime_s
        if self._p is None or limit_s < THRESHOLD_S or self._record.jobs[job].evictions:
            return self._left_s(job)
        return limit_s * self._p

    def _left_s(self, job: int) -> float:
        return self._jobs[job].walltime_s - self._ran_s[job]

    def _start(self, job: int, predicted_s: float, *, backfilled: bool) -> None:
        size = self._jobs[job].node_count
        nodes = lowest(self._free, size)
        self._free ^= nodes
        self._free_count -= size
        self._running[job] = _Run(self._now_s, self._now_s + predicted_s, backfilled, nodes)
        done = self._record.jobs[job]
        if done.start_s is None:
            done.start_s = self._now_s
        end_s = self._now_s + (self._jobs[job].runtime_s - self._ran_s[job])
        heapq.heappush(self._ends, (end_s, job, done.evictions))

    def _leave(self, job: int, ending: RunEnding) -> None:
        run = self._running.pop(job)
        self._free |= run.nodes
        self._free_count += self._jobs[job].node_count
        self._record.segments.append(Segment(job, run.start_s, self._now_s, run.nodes, ending))
