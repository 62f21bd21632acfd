"""Rectangles of the node-by-time picture, on whole and on shared nodes."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.simharness.engine.records import ReplayRecord, RunEnding, Segment
from makeway.simharness.results.figures.rectangles import (
    Rectangles,
    evicted_edges,
    node_runs,
    rectangles,
    shared_lanes,
)
from tests.simharness.workloads.record_samples import random_records

Corners = list[tuple[int, float, float]]


def corners(found: Rectangles) -> Corners:
    """Segment, lower edge and upper edge of each rectangle."""
    return list(zip(found.segment.tolist(), found.low.tolist(), found.high.tolist(), strict=True))


def lasting(record: ReplayRecord) -> list[Segment]:
    return [segment for segment in record.segments if segment.end_s > segment.start_s]


def at_once(one: Segment, other: Segment) -> bool:
    return one.start_s < other.end_s and other.start_s < one.end_s


@given(st.integers(0, 2**200))
def test_runs_are_the_set_again_and_never_touch(nodes: int) -> None:
    runs = node_runs(nodes)
    assert sum(((1 << stop) - 1) ^ ((1 << first) - 1) for first, stop in runs) == nodes
    assert all(before[1] < after[0] for before, after in pairwise(runs))
    assert all(first < stop for first, stop in runs)


@pytest.mark.parametrize("count", [1, 4360])
def test_runs_of_a_whole_machine(count: int) -> None:
    assert node_runs((1 << count) - 1) == [(0, count)]


@given(random_records())
@settings(deadline=None)
def test_there_is_a_rectangle_for_every_run_of_every_segment(record: ReplayRecord) -> None:
    expected = [
        (index, first, stop)
        for index, segment in enumerate(record.segments)
        for first, stop in node_runs(segment.nodes)
    ]
    assert corners(rectangles(record.segments)) == expected


@given(random_records())
@settings(deadline=None)
def test_jobs_that_share_nodes_cover_no_part_of_each_other(record: ReplayRecord) -> None:
    segments = lasting(record)
    found = corners(rectangles(segments, shared=True))
    for (one, low, high), (other, other_low, other_high) in combinations(found, 2):
        if one == other or at_once(segments[one], segments[other]):
            assert high <= other_low or other_high <= low
    # Each has a part of the row of each of its nodes, and of no other.
    for index, segment in enumerate(segments):
        rows = [row for one, low, high in found if one == index for row in range(int(low), -int(-high // 1))]
        assert sum(1 << row for row in set(rows)) == segment.nodes


@given(random_records())
@settings(deadline=None)
def test_only_nodes_that_are_shared_have_lanes(record: ReplayRecord) -> None:
    segments = lasting(record)
    lanes = shared_lanes(segments)
    for index, segment in enumerate(segments):
        others = [other for other in segments if other is not segment]
        for first, stop in node_runs(segment.nodes):
            for node in range(first, stop):
                here = [other for other in others if other.nodes >> node & 1]
                if any(at_once(segment, other) for other in here):
                    assert (index, node) in lanes
                if not any(at_once(one, two) for one, two in combinations([segment, *here], 2)):
                    assert (index, node) not in lanes


def test_lanes_by_hand() -> None:
    """Two jobs share node 0, then a third follows on what one of them has left; node 1 is one job's alone."""
    segments = [
        Segment(0, 0.0, 10.0, 0b11, RunEnding.COMPLETED, 0.5),
        Segment(1, 5.0, 20.0, 0b01, RunEnding.COMPLETED, 0.5),
        Segment(2, 10.0, 30.0, 0b01, RunEnding.COMPLETED, 0.5),
        Segment(3, 30.0, 40.0, 0b01, RunEnding.COMPLETED, 0.5),
    ]
    assert shared_lanes(segments) == {(0, 0): (0, 2), (1, 0): (1, 2), (2, 0): (0, 2)}
    assert corners(rectangles(segments, shared=True)) == [
        (0, 0.0, 0.5),
        (0, 1.0, 2.0),
        (1, 0.5, 1.0),
        (2, 0.0, 0.5),
        (3, 0.0, 1.0),
    ]


def test_evictions_are_known_of_their_rectangles() -> None:
    segments = [
        Segment(0, 0.0, 1.0, 0b101, RunEnding.REQUEUED),
        Segment(0, 2.0, 3.0, 0b101, RunEnding.COMPLETED),
    ]
    assert evicted_edges(segments, rectangles(segments)).tolist() == [True, True, False, False]
    assert evicted_edges([], rectangles([])).tolist() == []
