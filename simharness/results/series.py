"""Quantities of a replay over time: nodes held, jobs that wait."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from makeway.policies.model import JobKind
from makeway.simharness.engine.records import ReplayRecord, RunEnding

Floats = npt.NDArray[np.float64]

_STILL_WAITS = frozenset({RunEnding.REQUEUED, RunEnding.NODE_FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeries:
    """A quantity that changes at instants: `values[i]` holds from `times_s[i]` until `times_s[i + 1]`.

    It is 0 before the first instant and keeps its last value for ever. Both arrays have shape (n,), times
    ascend.
    """

    times_s: Floats
    values: Floats

    def integral(self, at_s: Floats) -> Floats:
        """The integral from the beginning to each of the instants, in value x seconds."""
        if not self.times_s.size:
            return np.zeros_like(at_s)
        area = np.concatenate(([0.0], np.cumsum(self.values[:-1] * np.diff(self.times_s))))
        beyond = np.maximum(at_s - self.times_s[-1], 0.0) * self.values[-1]
        return np.asarray(np.interp(at_s, self.times_s, area) + beyond, dtype=np.float64)

    def bin_means(self, edges_s: Floats) -> Floats:
        """The mean between neighbours of `edges_s` (shape (m + 1,), strictly ascending), shape (m,)."""
        return np.asarray(np.diff(self.integral(edges_s)) / np.diff(edges_s), dtype=np.float64)

    def mean(self, from_s: float, to_s: float) -> float | None:
        """The mean between two instants. None: there is no time between them."""
        return float(self.bin_means(np.array([from_s, to_s]))[0]) if to_s > from_s else None

    def maximum(self, from_s: float, to_s: float) -> float:
        """The largest value in [from_s, to_s); 0 if it never began by then."""
        first = max(int(np.searchsorted(self.times_s, from_s, side="right")) - 1, 0)
        last = int(np.searchsorted(self.times_s, to_s, side="left"))
        return float(self.values[first:last].max()) if last > first else 0.0


def nodes_held(record: ReplayRecord, kind: JobKind | None = None) -> StepSeries:
    """Nodes held by jobs over time, of one `kind` if given. Divide by `node_count` for utilisation.

    On shared nodes a job counts by its dominant share of each. If jobs that share a node need different
    resources most, their shares can add up to more than the node.
    """
    chosen = [
        segment for segment in record.segments if kind is None or record.jobs[segment.job].job.kind is kind
    ]
    size = np.array([segment.nodes.bit_count() * segment.share for segment in chosen], dtype=np.float64)
    return _steps(
        floats(segment.start_s for segment in chosen), floats(segment.end_s for segment in chosen), size
    )


def queue_length(record: ReplayRecord, kind: JobKind | None = None) -> StepSeries:
    """The number of waiting jobs over time.

    A job waits from submission to its first start, and from an eviction (or a node's failure) to its next
    start. A job that never starts (again) waits until the end of the record.
    """
    begins_s = floats(entry.job.submit_s for entry in record.jobs)
    ends_s = floats(entry.start_s for entry in record.jobs)
    wanted = np.array([kind is None or entry.job.kind is kind for entry in record.jobs], dtype=np.bool_)
    segments = sorted(record.segments, key=lambda segment: (segment.job, segment.start_s, segment.end_s))
    evicted_s: list[float] = []
    again_s: list[float] = []
    for segment, after in zip_longest(segments, segments[1:]):
        if segment.ending in _STILL_WAITS and wanted[segment.job]:
            same = after is not None and after.job == segment.job
            evicted_s.append(segment.end_s)
            again_s.append(after.start_s if after is not None and same else np.nan)
    begins_s = np.concatenate((begins_s[wanted], evicted_s))
    ends_s = np.concatenate((ends_s[wanted], again_s))
    last_s = max((segment.end_s for segment in segments), default=-np.inf)
    ends_s = np.where(np.isnan(ends_s), np.maximum(begins_s, last_s), ends_s)
    return _steps(begins_s, ends_s, np.ones(begins_s.size))


def _steps(starts_s: Floats, ends_s: Floats, weights: Floats) -> StepSeries:
    """The sum over time of `weights`, each of which counts in [start, end)."""
    times_s, where = np.unique(np.concatenate((starts_s, ends_s)), return_inverse=True)
    weighted = np.concatenate((weights, -weights))
    change = np.bincount(where, weights=weighted, minlength=times_s.size).astype(np.float64)
    return StepSeries(times_s=times_s, values=np.cumsum(change))


def floats(values: Iterable[float | None]) -> Floats:
    """The values as an array of shape (n,); None becomes NaN."""
    return np.array(list(values), dtype=np.float64)
