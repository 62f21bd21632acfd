"""Rectangles, waits and the choice of what to show."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.model import JobKind
from makeway.simharness.engine.records import JobRecord, Mark, MarkKind, ReplayRecord, RunEnding, Segment
from makeway.simharness.results.figures.gantt import (
    TimeWindow,
    choose_windows,
    marks_in,
    segments_in,
    urgent_waits,
    whole_window,
)
from makeway.simharness.workloads.job import SimJob
from tests.simharness.workloads.record_samples import empty, random_records, with_makeway, without_makeway

HOUR_S = 3600.0


def test_a_window_holds_what_overlaps_it() -> None:
    record = with_makeway()
    window = TimeWindow(from_s=60.0, to_s=100.0)
    assert [(segment.job, segment.start_s) for segment in segments_in(record, window)] == [
        (1, 60.0),
        (2, 60.0),
    ]
    assert [mark.kind for mark in marks_in(record, window)] == [MarkKind.EVICTED, MarkKind.SHRUNK]
    record.segments.append(Segment(3, 80.0, 80.0, 0b1, RunEnding.REQUEUED))
    assert len(segments_in(record, window)) == 2, "a segment of no duration has no rectangle"


def test_urgent_waits_by_hand() -> None:
    window = TimeWindow(from_s=0.0, to_s=1000.0)
    (late,) = urgent_waits(without_makeway(), window, start_within_s=600.0)
    assert (late.submit_s, late.start_s, late.started, late.on_time, late.lane) == (
        50.0,
        200.0,
        True,
        False,
        0,
    )
    (on_time,) = urgent_waits(with_makeway(), window, start_within_s=600.0)
    assert (on_time.start_s, on_time.on_time) == (60.0, True)
    record = without_makeway()
    record.jobs[2].start_s = None
    (never,) = urgent_waits(record, window, start_within_s=600.0)
    assert (never.start_s, never.started, never.on_time) == (305.0, False, False)
    assert urgent_waits(without_makeway(), TimeWindow(from_s=201.0, to_s=900.0), start_within_s=1.0) == []


@given(random_records(most_jobs=30))
@settings(deadline=None)
def test_waits_in_one_lane_never_overlap(record: ReplayRecord) -> None:
    waits = urgent_waits(record, TimeWindow(from_s=0.0, to_s=1e6), start_within_s=60.0)
    assert len(waits) == sum(entry.job.kind is JobKind.ON_DEMAND for entry in record.jobs)
    for lane in {wait.lane for wait in waits}:
        mine = [wait for wait in waits if wait.lane == lane]
        assert all(before.start_s < after.submit_s for before, after in pairwise(mine))
    lanes = {wait.lane for wait in waits}
    assert lanes == set(range(len(lanes)))


def _long(evicted_hours: list[int], *, hours: int = 2000, runs: int = 1) -> ReplayRecord:
    """A job an hour on `runs` runs of nodes, for an hour each."""
    nodes = sum(1 << (2 * index) for index in range(runs))
    starts = [hour * HOUR_S for hour in range(hours)]
    return ReplayRecord(
        policy="eviction",
        backfill="easy",
        workload="long",
        node_count=2 * runs,
        jobs=[
            JobRecord(
                SimJob(str(index), start_s, HOUR_S, HOUR_S, runs), start_s=start_s, end_s=start_s + HOUR_S
            )
            for index, start_s in enumerate(starts)
        ],
        segments=[
            Segment(index, start_s, start_s + HOUR_S, nodes, RunEnding.COMPLETED)
            for index, start_s in enumerate(starts)
        ],
        marks=[Mark(hour * HOUR_S, MarkKind.EVICTED, hour, nodes) for hour in evicted_hours],
    )


def test_what_fits_is_shown_whole() -> None:
    windows = choose_windows([with_makeway()])
    assert windows is not None
    assert windows.complete
    assert windows.view == windows.whole == TimeWindow(from_s=0.0, to_s=260.0)


def test_what_does_not_fit_is_cut_to_where_the_evictions_are() -> None:
    record = _long([1500, 1501, 1502, 3], runs=4)
    windows = choose_windows([record], loaded_cost=7 * 400, view_cost=7 * 50)
    assert windows is not None
    assert not windows.complete
    assert windows.loaded.to_s - windows.loaded.from_s == 336 * HOUR_S
    assert windows.view.to_s - windows.view.from_s == 48 * HOUR_S
    assert windows.loaded.from_s <= windows.view.from_s <= 1500 * HOUR_S
    assert 1502 * HOUR_S < windows.view.to_s <= windows.loaded.to_s


def test_the_empty_months_before_the_work_are_not_what_is_shown() -> None:
    record = _long([])
    for entry in record.jobs:
        entry.job.submit_s += 1e8
    for segment in record.segments:
        segment.start_s += 1e8
        segment.end_s += 1e8
    record.jobs.append(JobRecord(SimJob("first", 0.0, 1.0, 1.0, 1)))
    windows = choose_windows([record], loaded_cost=4 * 500)
    assert windows is not None
    assert windows.loaded.to_s > 1e8
    assert len(segments_in(record, windows.loaded)) > 50


@given(st.lists(random_records(), min_size=1, max_size=3), st.integers(1, 60), st.integers(1, 60))
@settings(deadline=None)
def test_windows_lie_in_each_other(records: list[ReplayRecord], loaded_cost: int, view_cost: int) -> None:
    windows = choose_windows(records, loaded_cost=loaded_cost, view_cost=view_cost)
    if windows is None:
        assert not any(record.jobs for record in records)
        return
    whole, loaded, view = windows.whole, windows.loaded, windows.view
    assert whole.from_s <= loaded.from_s <= view.from_s < view.to_s <= loaded.to_s <= whole.to_s


def test_several_replays_share_one_budget() -> None:
    alone = choose_windows([_long([])], loaded_cost=4 * 700)
    together = choose_windows([_long([]), _long([])], loaded_cost=4 * 700)
    assert alone is not None
    assert together is not None
    assert alone.loaded.to_s - alone.loaded.from_s == 2 * (together.loaded.to_s - together.loaded.from_s)


def test_nothing_submitted_has_no_window() -> None:
    assert whole_window([empty()]) is None
    assert choose_windows([empty()]) is None
