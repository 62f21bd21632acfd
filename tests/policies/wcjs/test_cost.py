"""The estimates, thresholds and factors of P1, by hand."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.model import CheckpointSpec, Job
from makeway.policies.wcjs.cost import (
    LEAST_REMAINING,
    WcjsConfig,
    cost,
    estimated_slowdown,
    high_priority_s,
    just_in_time_s,
    price_note,
)

NOW_S = 10_000.0
JIT = CheckpointSpec(system_s=500.0)
ONE_FACTOR = {"slowdown_weight": 0.0, "checkpoint_weight": 0.0, "remaining_weight": 0.0}

JobOf = Callable[..., Job]


def test_a_waiting_job_s_slowdown_if_it_ran_now(waiting: JobOf) -> None:
    # Equation 56: an hour of walltime, 12 minutes of waiting.
    job = waiting("u", 1, walltime_s=3600.0, submit_s=NOW_S - 720.0)
    assert estimated_slowdown(job, NOW_S) == pytest.approx(1.2)


@pytest.mark.parametrize("now_s", [5000.0, 9000.0])
def test_a_running_job_s_slowdown_is_settled_by_its_wait(running: JobOf, now_s: float) -> None:
    # Equations 57 and 58: it runs to its limit, whatever the time is.
    job = running("a", "n0", submit_s=1000.0, start_s=4000.0, walltime_s=6000.0)
    assert estimated_slowdown(job, now_s) == pytest.approx(1.5)


def test_saved_work_counts_as_running_time(running: JobOf) -> None:
    job = running("a", "n0", submit_s=1000.0, start_s=4000.0, walltime_s=6000.0, saved_s=1200.0)
    assert estimated_slowdown(job, NOW_S) == pytest.approx(1.3)


@pytest.mark.parametrize(("walltime_s", "slowdown"), [(math.inf, 1.0), (0.0, 1001.0)])
def test_odd_time_limits_give_a_slowdown_all_the_same(
    waiting: JobOf, walltime_s: float, slowdown: float
) -> None:
    job = waiting("u", 1, walltime_s=walltime_s, submit_s=NOW_S - 1000.0)
    assert estimated_slowdown(job, NOW_S) == slowdown


@pytest.mark.parametrize(
    ("node_count", "walltime_s", "urgent", "batch"),
    [(8, 7200.0, 1.1, 3.0), (8, 7201.0, 1.2, 4.0), (9, 7200.0, 1.3, 5.0), (9, 7201.0, 1.4, 6.0)],
)
def test_each_category_has_thresholds_of_its_own(
    waiting: JobOf, node_count: int, walltime_s: float, urgent: float, batch: float
) -> None:
    config = WcjsConfig(
        narrow_max_nodes=8,
        urgent_narrow_short=1.1,
        urgent_narrow_long=1.2,
        urgent_wide_short=1.3,
        urgent_wide_long=1.4,
        batch_narrow_short=3.0,
        batch_narrow_long=4.0,
        batch_wide_short=5.0,
        batch_wide_long=6.0,
    )
    job = waiting("u", node_count, walltime_s=walltime_s)
    assert (config.urgent_threshold(job), config.batch_threshold(job)) == (urgent, batch)


@pytest.mark.parametrize(
    ("within_s", "due_s"), [(None, 720.0), (3600.0, 720.0), (721.0, 720.0), (719.0, 0.0), (0.0, 0.0)]
)
def test_when_a_job_becomes_one_of_high_priority(
    waiting: JobOf, within_s: float | None, due_s: float
) -> None:
    config = WcjsConfig(urgent_narrow_short=1.2)
    job = waiting("u", 1, walltime_s=3600.0, submit_s=0.0, start_within_s=within_s)
    assert high_priority_s(job, config) == pytest.approx(due_s)


@pytest.mark.parametrize(
    ("changes", "settings", "factor"),
    [
        ({}, {}, 1.0),
        ({"submit_s": 4000.0}, {"slowdown_weight": 1.0}, 1.5),
        ({"submit_s": 4000.0}, {"slowdown_weight": 2.0}, 2.25),
        ({}, {"remaining_weight": 1.0}, 2.0),
        ({"saved_s": 1500.0}, {"remaining_weight": 1.0}, 4.0),
        ({"walltime_s": 3001.0}, {"remaining_weight": 1.0}, 1.0 / LEAST_REMAINING),
        ({}, {"checkpoint_weight": 1.0}, 1.0 + 3000.0 / 3600.0),
        ({"last_checkpoint_s": 9100.0}, {"checkpoint_weight": 1.0}, 1.25),
        ({"last_checkpoint_s": 9100.0}, {"checkpoint_weight": 2.0}, 1.5625),
        ({"last_checkpoint_s": 9100.0, "past_evictions": 1}, {"checkpoint_weight": 1.0}, 2.0),
        ({"past_evictions": 3, "checkpoint": JIT}, {"checkpoint_weight": 1.0}, 1.0),
        ({"checkpoint": JIT}, {"checkpoint_weight": 1.0}, 1.0),
        ({"checkpoint": JIT}, {"checkpoint_weight": 1.0, "just_in_time": False}, 1.0 + 3000.0 / 3600.0),
    ],
)
def test_the_price_of_a_job_is_its_nodes_times_the_factors(
    running: JobOf, changes: dict[str, Any], settings: dict[str, Any], factor: float
) -> None:
    # Since 3,000 s, of a limit of 6,000 s, and submitted as it started unless said otherwise.
    job = running("a", "n0 n1 n2", submit_s=7000.0, start_s=7000.0, walltime_s=6000.0)
    config = WcjsConfig(**{**ONE_FACTOR, **settings})
    assert cost(replace(job, **changes), NOW_S, config) == pytest.approx(3 * factor)


def test_the_price_of_lost_work_is_told_where_past_evictions_raise_it(running: JobOf) -> None:
    plain, once = running("a", "n0"), running("b", "n1 n2", past_evictions=1)
    saved = running("c", "n3", past_evictions=2, checkpoint=JIT)
    config = WcjsConfig()
    # 1,000 s on one node, and 1,000 s on two, four times.
    text = "; lost work counts as 2.50 node-hours after past evictions"
    assert price_note([plain, once, saved], NOW_S, config) == text
    assert price_note([plain, saved], NOW_S, config) == ""
    assert price_note([plain, once], NOW_S, WcjsConfig(checkpoint_weight=0.0)) == "", (
        "it does not count at all"
    )


def test_who_saves_himself_on_a_signal(running: JobOf) -> None:
    able, unable = running("a", "n0", checkpoint=JIT), running("b", "n1")
    assert just_in_time_s(able, WcjsConfig()) == 500.0
    assert just_in_time_s(unable, WcjsConfig()) is None
    assert just_in_time_s(able, WcjsConfig(just_in_time=False)) is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"urgent_wide_long": 0.9}, "urgent_wide_long is 0.9; accepted: a slowdown of at least 1"),
        ({"batch_narrow_short": math.nan}, "batch_narrow_short is nan"),
        ({"slowdown_weight": -1.0}, "slowdown_weight is -1.0; accepted: a number from 0 to 10"),
        ({"remaining_weight": math.inf}, "remaining_weight is inf"),
        ({"checkpoint_weight": 11.0}, "checkpoint_weight is 11.0"),
        ({"narrow_max_nodes": -1}, "narrow_max_nodes is -1; accepted: a number of nodes, not negative"),
        ({"evict_within_s": -1.0}, "evict_within_s is -1.0; accepted: a number of seconds"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        WcjsConfig(**settings)
