"""The rectangles of the node-by-time picture: which job had which nodes, or a part of a shared node's row.

Pure functions of the segments; `pictures` draws what they return.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from makeway.simharness.engine.records import RunEnding, Segment
from makeway.simharness.results.series import Floats

Run = tuple[int, int]
"""Neighbouring nodes: the index of the first, and that of the last plus one."""
Lane = tuple[int, int]
"""A part of a node's row, from 0, and how many parts the row has then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangles:
    """Stretches of jobs on neighbouring nodes; all arrays have shape (rectangles,).

    A segment on k runs of neighbouring nodes gives k rectangles, in the order of `ReplayRecord.segments`.
    Where jobs share nodes there is one for each node on which the job is not alone.
    """

    segment: npt.NDArray[np.int32]
    """Index into the segments that were given."""
    low: Floats
    """The lower edge. The row of node i is from i to i + 1."""
    high: Floats
    """The upper edge."""


def node_runs(nodes: int) -> list[Run]:
    """The runs of neighbouring nodes of a set (bit i is node i), lowest first."""
    firsts, lasts = nodes & ~(nodes << 1), nodes & ~(nodes >> 1)
    runs: list[tuple[int, int]] = []
    while firsts:
        first, last = firsts & -firsts, lasts & -lasts
        runs.append((first.bit_length() - 1, last.bit_length()))
        firsts ^= first
        lasts ^= last
    return runs


def rectangles(segments: Sequence[Segment], *, shared: bool = False) -> Rectangles:
    """The rectangles of these segments.

    Args:
        segments: of some duration each.
        shared: whether jobs may share nodes. False: no two segments are on one node at the same time.
    """
    lanes = shared_lanes(segments) if shared else {}
    found = [
        (index, low, high)
        for index, segment in enumerate(segments)
        for run in node_runs(segment.nodes)
        for low, high in _edges(index, run, lanes)
    ]
    table = np.array(found, dtype=np.float64).reshape(len(found), 3)
    return Rectangles(segment=table[:, 0].astype(np.int32), low=table[:, 1], high=table[:, 2])


def shared_lanes(segments: Sequence[Segment]) -> dict[tuple[int, int], Lane]:
    """The lane of each segment on each node on which it is not alone, by the segment's index and the node.

    Segments that are on a node at the same time have different lanes. The row has as many lanes as it needs
    from the moment at which the node is taken until it is idle again.
    """
    found: dict[tuple[int, int], Lane] = {}
    for node, here in _by_node(segments).items():
        for stretch in _busy_stretches(segments, here):
            count = max(lane for _, lane in stretch) + 1
            if count > 1:
                found |= {(index, node): (lane, count) for index, lane in stretch}
    return found


def evicted_edges(segments: Sequence[Segment], shown: Rectangles) -> npt.NDArray[np.bool_]:
    """Which rectangles end in an eviction, shape (rectangles,)."""
    requeued = np.array([segment.ending is RunEnding.REQUEUED for segment in segments], dtype=np.bool_)
    return np.asarray(requeued[shown.segment], dtype=np.bool_) if segments else np.zeros(0, dtype=np.bool_)


def _edges(index: int, run: Run, lanes: dict[tuple[int, int], Lane]) -> Iterator[tuple[float, float]]:
    """The lower and upper edges of a segment's rectangles on one run of nodes."""
    low, stop = run
    for node in range(*run) if lanes else ():
        if (lane := lanes.get((index, node))) is not None:
            if low < node:
                yield float(low), float(node)
            position, count = lane
            yield node + position / count, node + (position + 1) / count
            low = node + 1
    if low < stop:
        yield float(low), float(stop)


def _by_node(segments: Sequence[Segment]) -> dict[int, list[int]]:
    """The indices of the segments on each node, by their starts."""
    by_node: defaultdict[int, list[int]] = defaultdict(list)
    for index in sorted(range(len(segments)), key=lambda index: (segments[index].start_s, index)):
        for run in node_runs(segments[index].nodes):
            for node in range(*run):
                by_node[node].append(index)
    return by_node


def _busy_stretches(segments: Sequence[Segment], here: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """The stretches in which one node is never idle: its segments, by their starts, each with its lane."""
    stretch: list[tuple[int, int]] = []
    running: list[tuple[float, int]] = []
    free: list[int] = []
    for index in here:
        segment = segments[index]
        while running and running[0][0] <= segment.start_s:
            heappush(free, heappop(running)[1])
        if stretch and not running:
            yield stretch
            stretch, free = [], []
        lane = heappop(free) if free else len(running)
        heappush(running, (segment.end_s, lane))
        stretch.append((index, lane))
    if stretch:
        yield stretch
