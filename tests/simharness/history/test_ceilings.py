"""The ceilings of a history are those that a daemon applies, and the advice about them is true."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from makeway.policies.model import Cluster, JobKind, Limits, Node
from makeway.policies.safety.prices import price_refusal
from makeway.simharness.history.ceilings import ceiling_settings, daemon_ceiling
from makeway.simharness.history.study import (
    HistoryOutcome,
    OwnerCost,
    limits_with,
    recommended,
    replay_history,
)
from makeway.simharness.history.tables import outcome_grid, recommendation
from makeway.simharness.results.measures import ALL, Measures
from tests.simharness.history.test_study import trial

SHARE = Limits(max_loss_machine_share=0.05)
LIMITS = (
    Limits(),
    SHARE,
    Limits(max_loss_node_hours=100.0),
    Limits(max_loss_node_hours=100.0, max_loss_machine_share=0.01),
    Limits(max_loss_machine_share=0.0),
)
NODE_COUNT = 1000
CEILINGS = (None, 0.0, 5.0, 200.0, 1200.0)


def allowed(limits: Limits, node_hours: float, node_count: int = NODE_COUNT) -> bool:
    """Whether a daemon with these limits lets evictions for one urgent job lose so much."""
    cluster = Cluster(
        now_s=0.0,
        nodes=tuple(Node(name=f"n{number}") for number in range(node_count)),
        jobs=(),
        limits=replace(limits, max_loss_node_hours_per_day=None),
    )
    return price_refusal(cluster, "1", node_hours * 3600.0) is None


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("node_count", [4, NODE_COUNT])
def test_the_ceiling_is_the_daemons(limits: Limits, node_count: int) -> None:
    ceiling = daemon_ceiling(limits, node_count)
    assert ceiling is not None
    assert allowed(limits, ceiling - 0.01, node_count)
    assert not allowed(limits, ceiling + 0.01, node_count)


def test_without_an_amount_there_is_no_ceiling() -> None:
    limits = replace(SHARE, max_loss_node_hours=None)
    assert daemon_ceiling(limits, NODE_COUNT) is None
    assert allowed(limits, 1e9)


@pytest.mark.parametrize("limits", [None, *LIMITS])
@pytest.mark.parametrize("ceiling", CEILINGS)
def test_a_replay_has_the_ceiling_that_its_row_names(limits: Limits | None, ceiling: float | None) -> None:
    replayed = limits_with(limits, ceiling)
    assert allowed(replayed, 1e9 if ceiling is None else ceiling)
    assert ceiling is None or not allowed(replayed, ceiling + 0.01)


@pytest.mark.parametrize("limits", [None, *LIMITS])
@pytest.mark.parametrize("ceiling", CEILINGS)
def test_the_recommended_settings_give_the_ceiling(limits: Limits | None, ceiling: float | None) -> None:
    settings = ceiling_settings(ceiling, limits, NODE_COUNT)
    changed = limits or Limits()
    if "configured" not in settings:
        changed = replace(changed, max_loss_node_hours=ceiling)
    if "max_loss_machine_share: 0" in settings:
        changed = replace(changed, max_loss_machine_share=0.0)
    assert daemon_ceiling(changed, NODE_COUNT) == ceiling


@pytest.mark.parametrize(
    ("ceiling", "limits", "settings"),
    [
        (5.0, SHARE, "limits.max_loss_node_hours: 5 and limits.max_loss_machine_share: 0"),
        (5.0, Limits(), "limits.max_loss_node_hours: 5"),
        (200.0, None, "limits.max_loss_node_hours: 200 and limits.max_loss_machine_share: 0"),
        (720.0, Limits(), "the configured ceiling of 720 node-hours"),
        (None, SHARE, "limits.max_loss_node_hours: null"),
        (None, Limits(max_loss_node_hours=None), "no ceiling, as configured"),
    ],
)
def test_settings_in_words(ceiling: float | None, limits: Limits | None, settings: str) -> None:
    assert ceiling_settings(ceiling, limits, NODE_COUNT) == settings


@cache
def measures_of_a_day() -> Measures:
    return replay_history(trial("22.05", "none")).measures


def outcome(policy: str, ceiling: float | None, on_time: int, cost_node_hours: float) -> HistoryOutcome:
    """A replay in which so many of 200 urgent jobs start on time."""
    measures = measures_of_a_day()
    changed: dict[str, dict[str, Any]] = {
        JobKind.ON_DEMAND: {"jobs": 200, "on_time": on_time},
        ALL: {"lost_node_hours": cost_node_hours, "evictions": int(cost_node_hours > 0)},
    }
    groups = tuple(replace(one, **changed.get(one.group, {})) for one in measures.groups)
    owner = OwnerCost(
        user="",
        account="",
        jobs=1,
        evicted=1,
        lost_node_hours=cost_node_hours,
        overhead_node_hours=0.0,
        turnaround_h=0.0,
    )
    return HistoryOutcome(
        policy=policy,
        max_loss_node_hours=ceiling,
        measures=replace(measures, groups=groups, node_count=NODE_COUNT),
        owners=(owner,),
    )


def alone() -> HistoryOutcome:
    """The replay without makeway: 199 of 200 urgent jobs start on time."""
    return outcome("none", None, 199, 0.0)


def test_none_is_recommended_although_a_policy_starts_more() -> None:
    outcomes = [alone(), outcome("eviction", None, 200, 8.0), outcome("eviction", 20.0, 200, 8.0)]
    assert recommended(outcomes) is outcomes[0]
    assert recommendation(outcomes, None) == (
        "Recommended: none. Slurm alone would have started 199 of 200 urgent jobs on time, which is within "
        "1% of the best on-time share. The best is policy eviction with limits.max_loss_node_hours: 20: 200 "
        "of them, for 8.00 node-hours."
    )


def test_none_is_recommended_because_no_policy_starts_more() -> None:
    outcomes = [alone(), outcome("eviction", None, 199, 8.0), outcome("eviction", 0.0, 199, 0.0)]
    assert recommended(outcomes) is outcomes[0], "not the one that does the same"
    assert recommendation(outcomes, None) == (
        "Recommended: none. No policy would have started more urgent jobs on time than Slurm alone."
    )


def test_more_starts_for_nothing_are_recommended() -> None:
    outcomes = [alone(), outcome("least-price", 0.0, 199, 0.0), outcome("least-price", 5.0, 200, 0.0)]
    assert recommended(outcomes) is outcomes[2]
    assert recommendation(outcomes, SHARE).startswith(
        "Recommended: policy least-price with limits.max_loss_node_hours: 5 and "
        "limits.max_loss_machine_share: 0. It starts 200 of 200"
    )


def test_the_configured_ceiling_has_its_mark() -> None:
    outcomes = [alone(), outcome("least-price", 720.0, 200, 1.0), outcome("least-price", None, 200, 1.0)]
    ceilings = [row[1] for row in outcome_grid(outcomes, [720.0]).rows]
    assert ceilings == ["-", "720 (configured)", "no limit"]
    assert [row[1] for row in outcome_grid(outcomes, [None]).rows] == ["-", "720", "no limit (configured)"]
    assert [row[1] for row in outcome_grid(outcomes).rows] == ["-", "720", "no limit"]
