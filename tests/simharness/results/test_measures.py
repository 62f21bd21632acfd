"""Measures, against values worked out by hand and against a slow, plain computation."""

import statistics
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings

from makeway.policies.model import JobKind
from makeway.simharness.engine.records import JobRecord, ReplayRecord
from makeway.simharness.results.averages import aggregate, student_t975
from makeway.simharness.results.measures import (
    ALL,
    GroupMeasures,
    Measures,
    MeasureSettings,
    measure,
    numbers,
)
from tests.simharness.workloads.record_samples import empty, random_records, with_makeway, without_makeway

HOUR_S = 3600.0


def test_rigid_jobs_by_hand() -> None:
    rigid = measure(with_makeway()).group(JobKind.RIGID)
    assert (rigid.jobs, rigid.started, rigid.completed) == (2, 1, 1)
    assert (rigid.wait_mean_s, rigid.wait_median_s, rigid.wait_p95_s) == (0.0, 0.0, 0.0)
    assert rigid.turnaround_mean_s == 260.0
    assert rigid.bounded_slowdown_mean == 1.0
    assert rigid.completion_slowdown_mean == pytest.approx(2.6)
    assert rigid.instant_start_rate == 0.5, "the job that never started counts"
    assert (rigid.on_time, rigid.on_time_rate) == (1, 0.5)
    assert (rigid.preempted, rigid.preemption_ratio, rigid.evictions) == (1, 0.5, 1)
    assert rigid.lost_node_hours == pytest.approx(120 / HOUR_S)
    assert rigid.overhead_node_hours == pytest.approx(20 / HOUR_S)


def test_malleable_and_urgent_jobs_by_hand() -> None:
    measures = measure(with_makeway())
    malleable, urgent = measures.group(JobKind.MALLEABLE), measures.group(JobKind.ON_DEMAND)
    assert (malleable.shrunk, malleable.shrink_ratio, malleable.shrinks) == (1, 1.0, 1)
    assert malleable.completion_slowdown_mean == pytest.approx(1.05)
    assert urgent.wait_mean_s == 10.0
    assert urgent.bounded_slowdown_mean == pytest.approx(1.1)
    assert urgent.on_time == 1
    late = measure(without_makeway()).group(JobKind.ON_DEMAND)
    assert (late.on_time, late.instant_start_rate) == (0, 1.0), "30 s of its own; instant is 180 s"


def test_the_machine_by_hand() -> None:
    measures = measure(with_makeway())
    assert (measures.first_submit_s, measures.last_end_s, measures.makespan_s) == (0.0, 260.0, 260.0)
    assert measures.held_node_hours == pytest.approx(940 / HOUR_S)
    assert measures.utilisation == pytest.approx(940 / 1040)
    assert measures.useful_utilisation == pytest.approx(800 / 1040)
    assert measures.queue_length_mean == pytest.approx((10 + 100 + 60) / 260)
    assert measures.queue_length_max == 1
    assert (measures.commands, measures.decisions) == (4, 2)
    assert measures.decision_p50_ms == pytest.approx(2.0)
    assert measures.decision_p99_ms == pytest.approx(2.98)


def test_the_bound_keeps_short_jobs_from_ruling_the_slowdown() -> None:
    assert measure(without_makeway()).group(JobKind.RIGID).bounded_slowdown_mean == pytest.approx(
        (1 + 11) / 2
    )
    unbounded = measure(without_makeway(), MeasureSettings(bound_s=0.0)).group(JobKind.RIGID)
    assert unbounded.bounded_slowdown_mean == pytest.approx((1 + 21) / 2)
    assert unbounded.completion_slowdown_mean == pytest.approx((100 / 100 + 105 / 5) / 2), "P1's slowdown"


def test_limits_are_inclusive() -> None:
    urgent = measure(with_makeway(), MeasureSettings(instant_s=10.0)).group(JobKind.ON_DEMAND)
    assert urgent.instant_start_rate == 1.0
    urgent = measure(with_makeway(), MeasureSettings(instant_s=9.0)).group(JobKind.ON_DEMAND)
    assert urgent.instant_start_rate == 0.0


def test_a_job_that_names_no_time_has_the_setting() -> None:
    record = without_makeway()
    record.jobs[2].job.start_within_s = None
    for start_within_s, on_time in ((149.0, 0), (150.0, 1)):
        measures = measure(record, MeasureSettings(start_within_s=start_within_s))
        assert measures.group(JobKind.ON_DEMAND).on_time == on_time


def test_a_window_leaves_out_jobs_by_submission_and_clips_utilisation() -> None:
    measures = measure(with_makeway(), MeasureSettings(from_s=50.0, to_s=200.0))
    assert [group.jobs for group in measures.groups] == [0, 0, 1, 1]
    assert measures.held_node_hours == pytest.approx((4 * 10 + 4 * 100 + 4 * 40) / HOUR_S)
    assert measures.utilisation == pytest.approx(1.0)
    assert measures.queue_length_mean == pytest.approx(110 / 150)
    assert measure(with_makeway(), MeasureSettings(from_s=9e9)).utilisation is None


def test_further_groups_are_measured_beside_the_kinds() -> None:
    measures = measure(
        without_makeway(), groups={"wide": lambda job: job.node_count > 2, "none": lambda job: False}
    )
    assert [group.group for group in measures.groups] == [
        "rigid",
        "malleable",
        "on_demand",
        ALL,
        "wide",
        "none",
    ]
    assert measures.group("wide").wait_mean_s == pytest.approx(125.0)
    assert measures.group("none").wait_mean_s is None
    with pytest.raises(KeyError, match="no group 'narrow'; there are rigid, malleable"):
        measures.group("narrow")


def test_nothing_to_measure_is_none_and_never_zero() -> None:
    measures = measure(empty())
    for group in measures.groups:
        assert group.jobs == 0
        assert group.wait_mean_s is group.bounded_slowdown_mean is group.on_time_rate is None
        assert group.preemption_ratio is group.turnaround_mean_s is None
    assert measures.utilisation is measures.makespan_s is measures.decision_p99_ms is None
    assert measures.queue_length_mean is None


def test_a_replay_in_which_nothing_ran_has_no_utilisation() -> None:
    record = with_makeway()
    record.segments = []
    record.jobs = [JobRecord(entry.job) for entry in record.jobs]
    measures = measure(record)
    assert measures.utilisation is measures.makespan_s is None
    assert measures.group(ALL).instant_start_rate == 0.0


def _plain(record: ReplayRecord, kind: JobKind | None, settings: MeasureSettings) -> dict[str, object]:
    """The definitions once more, one job at a time."""
    chosen = [entry for entry in record.jobs if kind is None or entry.job.kind is kind]
    waits, slowdowns, turnarounds, completions, sizes, instant, on_time = [], [], [], [], [], 0, 0
    for entry in chosen:
        bounded_s = max(entry.job.runtime_s, settings.bound_s)
        if entry.start_s is not None:
            wait_s = entry.start_s - entry.job.submit_s
            waits.append(wait_s)
            slowdowns.append((wait_s + bounded_s) / bounded_s)
            instant += wait_s <= settings.instant_s
            limit_s = entry.job.start_within_s
            on_time += wait_s <= (settings.start_within_s if limit_s is None else limit_s)
        if entry.end_s is not None:
            turnaround_s = entry.end_s - entry.job.submit_s
            turnarounds.append(turnaround_s)
            sizes.append(entry.job.node_count)
            completions.append((turnaround_s - entry.job.runtime_s + bounded_s) / bounded_s)
    jobs = len(chosen)
    return {
        "jobs": jobs,
        "started": len(waits),
        "completed": len(turnarounds),
        "wait_mean_s": statistics.fmean(waits) if waits else None,
        "wait_median_s": statistics.median(waits) if waits else None,
        "turnaround_mean_s": statistics.fmean(turnarounds) if turnarounds else None,
        "turnaround_median_s": statistics.median(turnarounds) if turnarounds else None,
        "turnaround_by_nodes_s": statistics.fmean(turnarounds, sizes) if turnarounds else None,
        "bounded_slowdown_mean": statistics.fmean(slowdowns) if slowdowns else None,
        "bounded_slowdown_median": statistics.median(slowdowns) if slowdowns else None,
        "completion_slowdown_mean": statistics.fmean(completions) if completions else None,
        "instant_start_rate": instant / jobs if jobs else None,
        "on_time": on_time,
        "preempted": sum(entry.evictions > 0 for entry in chosen),
        "shrunk": sum(entry.shrinks > 0 for entry in chosen),
        "evictions": sum(entry.evictions for entry in chosen),
        "lost_node_hours": sum(entry.lost_node_s for entry in chosen) / HOUR_S,
        "overhead_node_hours": sum(entry.overhead_node_s for entry in chosen) / HOUR_S,
    }


@given(random_records())
@settings(deadline=None)
def test_measures_equal_a_plain_computation(record: ReplayRecord) -> None:
    measures = measure(record)
    for kind in (*JobKind, None):
        group: GroupMeasures = measures.group(ALL if kind is None else kind)
        for name, value in _plain(record, kind, measures.settings).items():
            assert getattr(group, name) == pytest.approx(value), (group.group, name)


@given(random_records())
@settings(deadline=None)
def test_held_node_hours_are_those_of_the_segments(record: ReplayRecord) -> None:
    measures = measure(record)
    held = sum((segment.end_s - segment.start_s) * segment.nodes.bit_count() for segment in record.segments)
    if measures.utilisation is not None:
        assert measures.held_node_hours == pytest.approx(held / HOUR_S)


def test_numbers_have_every_field_of_every_group_under_a_stable_key() -> None:
    found = numbers(measure(with_makeway()))
    assert found["rigid.turnaround_mean_s"] == 260.0
    assert found["machine.makespan_s"] == 260.0
    assert found["all.evictions"] == 1
    assert len(found) == len(fields(Measures)) - 6 + 4 * (len(fields(GroupMeasures)) - 1)
    assert all(value is None or isinstance(value, int | float) for value in found.values())


def test_aggregate_is_mean_spread_and_confidence_interval() -> None:
    measured = [
        replace(measure(with_makeway()), wall_s=wall_s, decision_p50_ms=p50)
        for wall_s, p50 in ((1.0, None), (2.0, 5.0), (6.0, None))
    ]
    average = aggregate(measured)
    assert (average.policy, average.replays) == ("eviction", 3)
    wall = average.estimate("machine.wall_s")
    assert (wall.mean, wall.count) == (3.0, 3)
    assert wall.std == pytest.approx(statistics.stdev([1, 2, 6]))
    assert wall.ci95 == pytest.approx(4.303 * statistics.stdev([1, 2, 6]) / 3**0.5)
    alone = average.estimate("machine.decision_p50_ms")
    assert (alone.mean, alone.std, alone.ci95, alone.count) == (5.0, None, None, 1)
    assert [estimate.key for estimate in average.estimates] == list(numbers(measured[0]))
    with pytest.raises(KeyError, match="no number 'wall'"):
        average.estimate("wall")


def test_aggregate_refuses_nothing_and_a_mixture() -> None:
    with pytest.raises(ValueError, match="nothing to aggregate"):
        aggregate([])
    with pytest.raises(ValueError, match="different policies: eviction/easy, none/easy"):
        aggregate([measure(with_makeway()), measure(without_makeway())])


@pytest.mark.parametrize(
    ("freedom", "point"),
    [(1, 12.706), (9, 2.262), (12, 2.179), (13, 2.160), (20, 2.086), (29, 2.045), (60, 2.000), (120, 1.980)],
)
def test_student_points_are_those_of_the_tables(freedom: int, point: float) -> None:
    assert student_t975(freedom) == pytest.approx(point, abs=0.0006)
