"""Quantities over time, against counting at every instant."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.model import JobKind
from makeway.simharness.engine.records import ReplayRecord, RunEnding
from makeway.simharness.results.series import StepSeries, nodes_held, queue_length
from tests.simharness.workloads.record_samples import empty, random_records, with_makeway


def _at(series: StepSeries, at_s: float) -> float:
    index = int(np.searchsorted(series.times_s, at_s, side="right")) - 1
    return float(series.values[index]) if index >= 0 else 0.0


def test_by_hand() -> None:
    held, queue = nodes_held(with_makeway()), queue_length(with_makeway())
    assert [_at(held, at_s) for at_s in (0, 59, 60, 160, 210, 260)] == [4, 4, 4, 4, 2, 0]
    assert [_at(queue, at_s) for at_s in (0, 50, 60, 159, 160, 200, 260)] == [0, 1, 1, 1, 0, 1, 0]
    assert [_at(nodes_held(with_makeway(), JobKind.MALLEABLE), at_s) for at_s in (0, 60, 160)] == [2, 1, 2]
    assert _at(queue_length(with_makeway(), JobKind.ON_DEMAND), 100) == 0


@given(random_records(), st.integers(0, 2500))
@settings(deadline=None)
def test_series_equal_counting(record: ReplayRecord, at_s: int) -> None:
    held = sum(
        segment.nodes.bit_count() for segment in record.segments if segment.start_s <= at_s < segment.end_s
    )
    assert _at(nodes_held(record), at_s) == held

    last_s = max((segment.end_s for segment in record.segments), default=-1.0)
    waiting = 0
    for index, entry in enumerate(record.jobs):
        mine = [segment for segment in record.segments if segment.job == index]
        over = bool(mine) and mine[-1].ending not in (RunEnding.REQUEUED, RunEnding.NODE_FAILED)
        runs = any(segment.start_s <= at_s < segment.end_s for segment in mine)
        waiting += entry.job.submit_s <= at_s < last_s and not runs and not (over and at_s >= mine[-1].end_s)
    assert _at(queue_length(record), at_s) == waiting


@given(random_records())
@settings(deadline=None)
def test_kinds_add_up(record: ReplayRecord) -> None:
    edges_s = np.linspace(-10.0, 3000.0, 50)
    for whole, of_kind in (
        (nodes_held(record), [nodes_held(record, kind) for kind in JobKind]),
        (queue_length(record), [queue_length(record, kind) for kind in JobKind]),
    ):
        parts = sum(series.bin_means(edges_s) for series in of_kind)
        assert whole.bin_means(edges_s) == pytest.approx(parts)


def test_means_and_maxima_of_a_step() -> None:
    series = StepSeries(times_s=np.array([10.0, 20.0, 30.0]), values=np.array([2.0, 6.0, 1.0]))
    assert series.mean(0.0, 20.0) == pytest.approx(1.0), "nothing before the first instant"
    assert series.mean(15.0, 25.0) == pytest.approx(4.0)
    assert series.mean(30.0, 50.0) == pytest.approx(1.0), "the last value stays"
    assert series.mean(20.0, 20.0) is None
    assert series.bin_means(np.array([0.0, 10.0, 20.0, 40.0])) == pytest.approx([0.0, 2.0, 3.5])
    assert (series.maximum(0.0, 20.0), series.maximum(25.0, 26.0), series.maximum(0.0, 5.0)) == (
        2.0,
        6.0,
        0.0,
    )


def test_nothing_is_zero_all_the_time() -> None:
    for series in (nodes_held(empty()), queue_length(empty())):
        assert series.mean(0.0, 100.0) == 0.0
        assert series.maximum(0.0, 100.0) == 0.0
