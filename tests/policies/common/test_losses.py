"""What a job loses that leaves, and how long its checkpoints take."""

import math
from dataclasses import replace

import pytest

from makeway.policies.common.losses import (
    application_s,
    departures,
    evictions_loss_node_s,
    evictions_node_s,
    is_silent,
    overdue_s,
    system_s,
    wait_s,
)
from makeway.policies.model import Acknowledgement, CheckpointSpec, Cluster, Method, Node, Reason, Requeue
from makeway.policies.safety.prices import loss_node_s
from tests.policies.common.operations import NOW_S, Build


def test_a_regular_checkpoint_that_is_complete_at_this_instant_takes_no_more_time(running: Build) -> None:
    spec = CheckpointSpec(interval_s=540.0, application_s=60.0)
    job = running("a", "n0", checkpoint=spec, start_s=NOW_S - 1200.0)
    assert application_s(job, NOW_S) == 0.0
    assert application_s(job, NOW_S - 0.5) == 0.5


def test_a_regular_checkpoint_is_overdue_from_the_end_of_its_period_to_that_of_the_next(
    running: Build,
) -> None:
    spec = CheckpointSpec(interval_s=540.0, application_s=60.0)
    job = running("a", "n0", checkpoint=spec, start_s=NOW_S - 600.0)
    assert overdue_s(job, NOW_S - 0.5) is None, "it is not due yet"
    assert overdue_s(job, NOW_S) == 0.0
    assert overdue_s(job, NOW_S + 7.0) == 7.0
    assert overdue_s(job, NOW_S + 603.0) == 3.0, "the next one was due"
    assert overdue_s(replace(job, last_checkpoint_s=NOW_S), NOW_S + 7.0) is None, "it was reported"
    assert overdue_s(replace(job, checkpoint=None), NOW_S) is None


@pytest.mark.parametrize("duration_s", [0.0, 0.5, 1.0])
def test_a_checkpoint_may_take_less_than_a_second(running: Build, duration_s: float) -> None:
    spec = CheckpointSpec(interval_s=600.0, application_s=duration_s, system_s=duration_s)
    job = running("a", "n0", checkpoint=spec, start_s=NOW_S - 300.0)
    assert system_s(job) == duration_s
    assert application_s(job, NOW_S) == 300.0 + duration_s


def test_loss_is_the_work_since_the_last_checkpoint_of_this_run(running: Build) -> None:
    job = running("a", "n0 n1")
    assert loss_node_s(job, NOW_S) == 2000
    assert loss_node_s(replace(job, last_checkpoint_s=NOW_S - 10.4), NOW_S) == 21, "rounded up"
    assert loss_node_s(replace(job, last_checkpoint_s=NOW_S - 5000.0), NOW_S) == 2000, "of an earlier run"
    assert loss_node_s(replace(job, last_checkpoint_s=NOW_S + 99.0), NOW_S) == 2000, "the future is none"
    assert loss_node_s(replace(job, start_s=None), NOW_S) == 0


def test_a_job_on_a_part_of_its_nodes_loses_its_share_of_them(running: Build) -> None:
    job = replace(running("a", "n0 n1"), node_equivalents=0.25)
    assert loss_node_s(job, NOW_S) == 250


def test_system_checkpoint(running: Build) -> None:
    job = running("a", "n0")
    assert system_s(job) is None
    assert system_s(replace(job, checkpoint=CheckpointSpec())) is None
    assert system_s(replace(job, checkpoint=CheckpointSpec(system_s=90.0))) == 90.0


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -5.0])
def test_nonsense_that_a_job_declares_is_no_checkpoint(running: Build, nonsense: float) -> None:
    job = running(
        "a", "n0", checkpoint=CheckpointSpec(system_s=nonsense, interval_s=600.0, application_s=nonsense)
    )
    assert system_s(job) is None
    assert application_s(job, NOW_S) is None
    seldom = CheckpointSpec(interval_s=nonsense, application_s=600.0)
    assert application_s(replace(job, checkpoint=seldom), NOW_S) is None


def test_a_job_waits_until_its_regular_checkpoint_begins(running: Build) -> None:
    spec = CheckpointSpec(interval_s=600.0, application_s=40.0)
    job = running("a", "n0", checkpoint=spec)
    assert wait_s(job, 540.0) == 500.0
    assert wait_s(job, 30.0) == 0.0, "it has begun"
    assert wait_s(job, None) == 0.0
    assert wait_s(replace(job, checkpoint=None), 540.0) == 0.0


def test_a_job_that_has_just_saved_has_a_whole_period_to_go(running: Build) -> None:
    spec = CheckpointSpec(interval_s=600.0, application_s=40.0)
    job = running("a", "n0", checkpoint=spec, last_checkpoint_s=NOW_S)
    assert application_s(job, NOW_S) == 640.0


def test_wait_for_the_next_regular_checkpoint(running: Build) -> None:
    spec = CheckpointSpec(interval_s=600.0, application_s=40.0)
    job = running("a", "n0", checkpoint=spec, last_checkpoint_s=NOW_S - 100.0)
    assert application_s(job, NOW_S) == 540.0
    during = replace(job, last_checkpoint_s=NOW_S - 610.0)
    assert application_s(during, NOW_S) == 30.0, "the checkpoint is being written"
    fresh = replace(job, last_checkpoint_s=None, start_s=NOW_S - 300.0, setup_s=200.0)
    assert application_s(fresh, NOW_S) == 540.0, "counted from the end of the setup"
    overdue = replace(job, last_checkpoint_s=NOW_S - 650.0)
    assert application_s(overdue, NOW_S) == 630.0, "expected at the next multiple of its period"
    for missing in (None, CheckpointSpec(interval_s=600.0), CheckpointSpec(application_s=40.0)):
        assert application_s(replace(job, checkpoint=missing), NOW_S) is None
    nothing = CheckpointSpec(interval_s=0.0, application_s=0.0)
    assert application_s(replace(job, checkpoint=nothing), NOW_S) is None
    assert application_s(replace(job, start_s=None), NOW_S) is None


@pytest.mark.parametrize(
    ("interval_s", "after_s", "lost_s"),
    [(540.0, None, None), (540.0, 49.0, None), (540.0, 51.0, 1), (540.0, 500.0, 450), (40.0, 500.0, None)],
)
def test_who_waits_for_a_checkpoint_that_is_over_is_killed(
    running: Build, interval_s: float, after_s: float | None, lost_s: int | None
) -> None:
    """It is complete in 50 s, and the job has to leave in 560 s. None: a checkpoint comes in time."""
    spec = CheckpointSpec(interval_s=interval_s, application_s=60.0)
    job = running("a", "n0", setup_s=10.0, start_s=NOW_S + 50.0 - 10.0 - (interval_s + 60.0), checkpoint=spec)
    leaves = Requeue(
        job_id="a",
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.APPLICATION,
        not_after_s=NOW_S + 560.0,
    )
    cluster = Cluster(now_s=NOW_S, nodes=(Node(name="n0"),), jobs=(job,))
    at_s = None if after_s is None else NOW_S + after_s
    ((_, method),) = departures((leaves,), cluster, at_s)
    assert method is (Method.APPLICATION if lost_s is None else Method.KILL)
    assert evictions_loss_node_s((leaves,), cluster, at_s) == (lost_s or 0)
    assert evictions_node_s((leaves,), cluster, at_s) == (lost_s or 0) + 10


SILENT = CheckpointSpec(interval_s=540.0, application_s=60.0)
LAST_S = 2 * 600.0 + 60.0 + 60.0
"""Two periods, the time of a checkpoint and that of a late report."""


def test_after_two_periods_without_a_report_no_checkpoint_is_expected(running: Build) -> None:
    job = running("a", "n0", checkpoint=SILENT, start_s=NOW_S - LAST_S - 10.0, setup_s=10.0)
    assert not is_silent(job, NOW_S)
    assert application_s(job, NOW_S) == 480.0
    assert is_silent(job, NOW_S + 1.0)
    assert application_s(job, NOW_S + 1.0) is None
    reported = replace(job, last_checkpoint_s=NOW_S - 300.0)
    assert application_s(reported, NOW_S + 1.0) == 299.0
    assert application_s(reported, NOW_S - 300.0 + LAST_S + 1.0) is None, "it reports no more"


@pytest.mark.parametrize("acknowledgement", [Acknowledgement.NONE, Acknowledgement.EXIT])
def test_without_reports_by_comment_the_times_of_regular_checkpoints_are_assumed(
    running: Build, acknowledgement: Acknowledgement
) -> None:
    spec = replace(SILENT, acknowledgement=acknowledgement)
    job = running("a", "n0", checkpoint=spec, start_s=NOW_S - 6300.0)
    assert application_s(job, NOW_S) == 300.0
    once = replace(job, last_checkpoint_s=NOW_S - 5700.0)
    assert application_s(once, NOW_S) is None, "it has reported one, and then no more"


def test_how_far_ahead_one_looks_makes_no_job_silent(running: Build) -> None:
    """By then, checkpoints will have been reported that are still to come."""
    job = running("a", "n0", start_s=NOW_S - 100.0, checkpoint=SILENT)
    leaves = Requeue(
        job_id="a",
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.APPLICATION,
        not_after_s=NOW_S + 8700.0,
    )
    cluster = Cluster(now_s=NOW_S, nodes=(Node(name="n0"),), jobs=(job,))
    ((_, method),) = departures((leaves,), cluster, NOW_S + 8600.0)
    assert method is Method.KILL
    assert evictions_loss_node_s((leaves,), cluster, NOW_S + 8600.0) == 300


@pytest.mark.parametrize(
    ("saved_s", "latest_s", "expected"),
    [
        (100.0, 400.0, (Method.APPLICATION, 100.0)),  # no checkpoint is complete before the eviction begins
        (550.0, 400.0, (Method.KILL, -50.0)),  # one is, 50 s from now, and the next one is too late
        (550.0, 650.0, (Method.APPLICATION, 550.0)),  # the next one is in time
    ],
)
def test_a_job_is_killed_if_its_checkpoint_is_over_before_its_eviction_begins(
    running: Build, saved_s: float, latest_s: float, expected: tuple[Method, float]
) -> None:
    """The eviction begins in 100 s. The job saves every 600 s, and last did so `saved_s` ago."""
    spec = CheckpointSpec(interval_s=540.0, application_s=60.0)
    job = running("a", "n0", checkpoint=spec, last_checkpoint_s=NOW_S - saved_s)
    leaves = Requeue(
        job_id="a",
        for_job_id="u",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.APPLICATION,
        not_after_s=NOW_S + latest_s,
    )
    ((left, method),) = departures((leaves,), Cluster(now_s=NOW_S, nodes=(), jobs=(job,)), NOW_S + 100.0)
    assert left.last_checkpoint_s is not None
    assert (method, NOW_S - left.last_checkpoint_s) == expected
