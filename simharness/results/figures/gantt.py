"""The content of the node-by-time picture of a replay: segments, marks, waits, and its time window.

Pure functions of the records; `report_figures` draws what they return. Times are trace seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from makeway.policies.model import JobKind
from makeway.simharness.engine.records import Mark, MarkKind, ReplayRecord, Segment
from makeway.simharness.results.series import Floats, floats

LOADED_COST = 60_000
"""Rectangles (and, three for one, job segments) that all pictures of a page may hold together."""
VIEW_COST = 3_000
"""The most that one picture shows at first: more could not be distinguished."""

_HOUR_S = 3600.0
_LENGTHS_S = tuple(
    hours * _HOUR_S for hours in (8064, 4032, 2016, 1344, 672, 336, 168, 96, 48, 24, 12, 6, 3, 2, 1)
)
_SEGMENT_COST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """A stretch of time."""

    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GanttWindows:
    """What of a replay is in the page, and what of that is seen first."""

    whole: TimeWindow
    """From the first submission to the last end."""
    loaded: TimeWindow
    view: TimeWindow

    @property
    def complete(self) -> bool:
        """Whether the page holds the whole replay."""
        return self.loaded == self.whole


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentWait:
    """One urgent job from its submission to its start."""

    job: int
    """Index into `ReplayRecord.jobs`."""
    submit_s: float
    start_s: float
    """The end of the replay if it never started."""
    started: bool
    on_time: bool
    lane: int
    """Row of the picture, from 0: waits in one lane do not overlap."""


def segments_in(record: ReplayRecord, window: TimeWindow) -> list[Segment]:
    """The segments of some duration that overlap the window, in the record's order."""
    return [
        segment
        for segment in record.segments
        if segment.start_s < window.to_s and segment.end_s > window.from_s and segment.end_s > segment.start_s
    ]


def marks_in(record: ReplayRecord, window: TimeWindow) -> list[Mark]:
    """The marks within the window, in the record's order."""
    return [mark for mark in record.marks if window.from_s <= mark.at_s <= window.to_s]


def urgent_waits(record: ReplayRecord, window: TimeWindow, *, start_within_s: float) -> list[UrgentWait]:
    """The urgent jobs that waited or arrived within the window, by submission, in as few lanes as that takes.

    Args:
        record: the replay.
        window: which stretch of time.
        start_within_s: what on time means for jobs that name no time of their own.
    """
    last_s = max((segment.end_s for segment in record.segments), default=window.to_s)
    order = sorted(range(len(record.jobs)), key=lambda index: (record.jobs[index].job.submit_s, index))
    lanes: list[float] = []
    waits: list[UrgentWait] = []
    for index in order:
        entry = record.jobs[index]
        job = entry.job
        start_s = entry.start_s if entry.start_s is not None else max(last_s, job.submit_s)
        if job.kind is not JobKind.ON_DEMAND or job.submit_s > window.to_s or start_s < window.from_s:
            continue
        lane = next((lane for lane, free_s in enumerate(lanes) if free_s < job.submit_s), len(lanes))
        lanes[lane : lane + 1] = [start_s]
        within_s = job.start_within_s if job.start_within_s is not None else start_within_s
        started = entry.start_s is not None
        waits.append(
            UrgentWait(
                job=index,
                submit_s=job.submit_s,
                start_s=start_s,
                started=started,
                on_time=started and start_s - job.submit_s <= within_s,
                lane=lane,
            )
        )
    return waits


def whole_window(records: Sequence[ReplayRecord]) -> TimeWindow | None:
    """From the first submission to the last end over all replays. None: nothing was submitted."""
    submits = [entry.job.submit_s for record in records for entry in record.jobs]
    if not submits:
        return None
    ends = [segment.end_s for record in records for segment in record.segments]
    from_s = min(submits)
    return TimeWindow(from_s=from_s, to_s=max([*ends, max(submits), from_s + 1.0]))


def choose_windows(
    records: Sequence[ReplayRecord], *, loaded_cost: int = LOADED_COST, view_cost: int = VIEW_COST
) -> GanttWindows | None:
    """What to put into the page and what to show first: all of it, or the longest stretch within the limits.

    Of the stretches of one length only the one with the most evictions and shrinks is looked at; on a tie the
    one with the most urgent arrivals, then the most starts, then the earliest. None: nothing was submitted.
    """
    whole = whole_window(records)
    if whole is None:
        return None
    costs = [_Cost.of(record) for record in records]
    interest = _Interest.of(records)
    loaded = _longest(whole, costs, interest, limit=loaded_cost // len(records))
    return GanttWindows(
        whole=whole, loaded=loaded, view=_longest(loaded, costs, interest, limit=min(view_cost, loaded_cost))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """The cost of drawing up to an instant: how many segments have begun, and how many have ended."""

    starts_s: Floats
    started: Floats
    ends_s: Floats
    ended: Floats

    @staticmethod
    def of(record: ReplayRecord) -> "_Cost":
        if record.capacities is None:
            counts = [(segment.nodes & ~(segment.nodes << 1)).bit_count() for segment in record.segments]
        else:
            # Where jobs share nodes each node may get a rectangle of its own.
            counts = [segment.nodes.bit_count() for segment in record.segments]
        runs = np.array(counts, dtype=np.float64)
        start_s = floats(segment.start_s for segment in record.segments)
        end_s = floats(segment.end_s for segment in record.segments)
        by_start, by_end = np.argsort(start_s), np.argsort(end_s)
        return _Cost(
            starts_s=start_s[by_start],
            started=np.concatenate(([0.0], np.cumsum(runs[by_start] + _SEGMENT_COST))),
            ends_s=end_s[by_end],
            ended=np.concatenate(([0.0], np.cumsum(runs[by_end] + _SEGMENT_COST))),
        )

    def of_window(self, window: TimeWindow) -> float:
        """The cost of the segments that overlap the window."""
        started = self.started[np.searchsorted(self.starts_s, window.to_s, side="left")]
        return float(started - self.ended[np.searchsorted(self.ends_s, window.from_s, side="right")])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Interest:
    """What makes a stretch worth seeing: sorted instants, most important sort first."""

    instants_s: tuple[Floats, ...]

    @staticmethod
    def of(records: Sequence[ReplayRecord]) -> "_Interest":
        worth = {MarkKind.EVICTED, MarkKind.SHRUNK}
        taken = floats(mark.at_s for record in records for mark in record.marks if mark.kind in worth)
        urgent = floats(
            entry.job.submit_s for entry in records[0].jobs if entry.job.kind is JobKind.ON_DEMAND
        )
        starts = floats(segment.start_s for record in records for segment in record.segments)
        return _Interest(instants_s=(np.sort(taken), np.sort(urgent), np.sort(starts)))

    def best(self, from_s: Floats, length_s: float) -> TimeWindow:
        """The most interesting stretch of this length among those that begin at `from_s`, on a tie the
        earliest.
        """
        counts = [
            np.searchsorted(instants_s, from_s + length_s) - np.searchsorted(instants_s, from_s)
            for instants_s in self.instants_s
        ]
        chosen = float(from_s[np.lexsort((from_s, *(-count for count in reversed(counts))))[0]])
        return TimeWindow(from_s=chosen, to_s=chosen + length_s)


def _longest(outer: TimeWindow, costs: Sequence[_Cost], interest: _Interest, *, limit: int) -> TimeWindow:
    """The most interesting of the longest stretches within `outer` that cost at most `limit`.

    If there is none, the most interesting hour.
    """
    if _affordable(costs, outer, limit):
        return outer
    span_s = outer.to_s - outer.from_s
    chosen = outer
    for length_s in (length_s for length_s in _LENGTHS_S if length_s < span_s):
        steps = int((span_s - length_s) // (length_s / 4)) + 1
        chosen = interest.best(floats(outer.from_s + step * length_s / 4 for step in range(steps)), length_s)
        if _affordable(costs, chosen, limit):
            break
    return chosen


def _affordable(costs: Sequence[_Cost], window: TimeWindow, limit: int) -> bool:
    """Whether no replay costs more than `limit` within the window."""
    return all(cost.of_window(window) <= limit for cost in costs)
