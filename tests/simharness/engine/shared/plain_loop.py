"""An independent FCFS/EASY loop on shared nodes for long workloads: arrays of nodes, and one pass an instant.

It shares no code with the simulator. Nodes are packed densely by the first resource, as `brute_force` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from tests.simharness.engine.shared.brute_force import SharedAsk

Integers = npt.NDArray[np.int64]


@dataclass
class PlainLoop:
    """A machine of equal nodes; every job has a need."""

    node_count: int
    capacity: tuple[int, ...]
    unused: Integers = field(init=False)
    running: dict[int, tuple[float, Integers]] = field(default_factory=dict)
    """By job: its limit and its nodes."""
    starts_s: dict[int, float] = field(default_factory=dict)
    _needs: dict[int, Integers] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.unused = np.tile(np.array(self.capacity, dtype=np.int64), (self.node_count, 1))

    def run(self, asks: Sequence[SharedAsk]) -> list[float]:
        """When each job starts. The jobs are in the order of their submission."""
        ends: list[tuple[float, int]] = []
        queue: list[int] = []
        arrived = 0
        while arrived < len(asks) or ends:
            next_s = asks[arrived].submit_s if arrived < len(asks) else np.inf
            now_s = min(next_s, ends[0][0] if ends else np.inf)
            while ends and ends[0][0] <= now_s:
                number = heappop(ends)[1]
                self.unused[self.running.pop(number)[1]] += self._need(asks[number])
            while arrived < len(asks) and asks[arrived].submit_s <= now_s:
                queue.append(arrived)
                arrived += 1
            for number in self._pass(now_s, asks, queue):
                heappush(ends, (now_s + asks[number].runtime_s, number))
            queue = [number for number in queue if number not in self.starts_s]
        return [self.starts_s[number] for number in range(len(asks))]

    def _pass(self, now_s: float, asks: Sequence[SharedAsk], queue: Sequence[int]) -> list[int]:
        """One pass over the queue; returns the jobs that start."""
        started: list[int] = []
        full: set[tuple[int, tuple[int, ...] | None]] = set()
        first: SharedAsk | None = None
        shadow_s = np.inf
        for number in queue:
            ask = asks[number]
            if (ask.size, ask.need) in full:
                continue
            able = self._able(self.unused, self._need(ask))
            if len(able) < ask.size:
                full.add((ask.size, ask.need))
                if first is None:
                    first = ask
                    shadow_s = self._shadow_s(ask)
                continue
            load = self.unused[able, 0]
            nodes = able[np.argsort(load, kind="stable")[: ask.size]]
            self.unused[nodes] -= self._need(ask)
            limit_s = now_s + ask.walltime_s
            if first is not None and limit_s > shadow_s and not self._still_fits(first, shadow_s):
                self.unused[nodes] += self._need(ask)
                continue
            self.running[number] = (limit_s, nodes)
            self._needs[number] = self._need(ask)
            self.starts_s[number] = now_s
            started.append(number)
        return started

    def _need(self, ask: SharedAsk) -> Integers:
        return np.array(ask.need, dtype=np.int64)

    def _able(self, unused: Integers, need: Integers) -> Integers:
        return np.flatnonzero((unused >= need).all(axis=1))

    def _shadow_s(self, first: SharedAsk) -> float:
        """When the first job that waits fits, running jobs taken at their limits."""
        later, need = self.unused.copy(), self._need(first)
        fits = np.asarray((later >= need).all(axis=1))
        for number, (limit_s, nodes) in sorted(self.running.items(), key=lambda item: item[1][0]):
            later[nodes] += self._needs[number]
            fits[nodes] = (later[nodes] >= need).all(axis=1)
            if fits.sum() >= first.size:
                return limit_s
        return np.inf

    def _still_fits(self, first: SharedAsk, shadow_s: float) -> bool:
        """Whether the first job fits at that time, next to the jobs that still run then."""
        later = self.unused.copy()
        for number, (limit_s, nodes) in self.running.items():
            if limit_s <= shadow_s:
                later[nodes] += self._needs[number]
        return len(self._able(later, self._need(first))) >= first.size
