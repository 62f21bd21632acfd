"""A dear start waits only if the jobs that may end meanwhile are worth more than what it costs to wait."""

import math
from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.common.commitments import Commitments
from makeway.policies.common.departures import OVERDUE_S
from makeway.policies.common.requests import request_for
from makeway.policies.common.urgent_jobs import urgent_jobs
from makeway.policies.least_price.chances import expected_share
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import CheckpointSpec, Cluster, Decision, JobState, Method
from tests.policies.arriving import NOW_S, Build, BuildCluster, victims

UNTIL_S = NOW_S + 510.0
"""The last moment of a start within 600 s."""


def decide(cluster: Cluster) -> Decision:
    return LEAST_PRICE.decide(cluster, LeastPriceConfig(waiting_machine_hours=0.0, waits_for_ends=False))


def share(cluster: Cluster, until_s: float = UNTIL_S) -> float:
    (urgent,) = urgent_jobs(cluster)
    return expected_share(request_for(Commitments(cluster), urgent, "test", NOW_S + 600.0, 3000.0), until_s)


def test_a_start_does_not_wait_for_the_one_job_that_has_to_leave_anyway(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """It has run for 1000 s of 20,000, so that it hardly ends in 510 s, which a kill then loses, too."""
    decision = decide(cluster_of(1, running("a", "n0"), waiting("u", 1)))
    assert victims(decision) == [("a", Method.KILL)]


def test_a_start_waits_where_one_of_many_jobs_is_likely_to_end(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = [running(f"a{number}", f"n{number}") for number in range(8)]
    decision = decide(cluster_of(8, *jobs, waiting("u", 1)))
    assert victims(decision) == []
    assert decision.again_s == UNTIL_S


def test_a_start_waits_if_that_costs_nothing(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """The checkpoint takes as long later."""
    saves = running("a", "n0", setup_s=500.0, checkpoint=CheckpointSpec(system_s=200.0))
    assert decide(cluster_of(1, saves, waiting("u", 1))).again_s == UNTIL_S - 200.0


def test_a_start_that_waits_kills_no_job_to_be_at_once_after_all(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """It may wait until the job has saved its work. A kill would cost little more, and be soon enough."""
    saves = running(
        "a", "n0", start_s=NOW_S - 650.0, setup_s=500.0, checkpoint=CheckpointSpec(system_s=100.0)
    )
    decision = decide(cluster_of(1, saves, waiting("u", 1, submit_s=NOW_S - 100.0)))
    assert victims(decision) == []
    assert decision.again_s == UNTIL_S - 100.0 - 100.0


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, math.log(1.51) / math.log(20.0)),
        ({"walltime_s": 2000.0}, math.log(1.51) / math.log(2.0)),
        ({"walltime_s": 1510.0}, 1.0),
        ({"walltime_s": 1000.0 - OVERDUE_S}, 0.0),
        ({"walltime_s": 1500.0, "overtime_s": 500.0}, math.log(1.51) / math.log(2.0)),
        ({"start_s": NOW_S}, math.log(511.0) / math.log(20_001.0)),
        ({"state": JobState.SUSPENDED}, 0.0),
        ({"state": JobState.COMPLETING, "completing_since_s": NOW_S - 1000.0}, 0.0),
    ],
    ids=[
        "old",
        "near its limit",
        "ends",
        "long over its limit",
        "may run on",
        "just started",
        "suspended",
        "stuck",
    ],
)
def test_the_probability_of_an_end_is_by_age_and_limit(
    running: Build, waiting: Build, cluster_of: BuildCluster, changes: dict[str, Any], wanted: float
) -> None:
    cluster = cluster_of(1, running("a", "n0", **changes), waiting("u", 1))
    assert share(cluster) == pytest.approx(wanted)


def test_only_nodes_that_the_urgent_job_may_have_count(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """It misses three nodes, of which each job can give no more than it holds of those."""
    jobs = running("a", "n0 n1 n2 n3"), running("b", "n4 n5")
    cluster = cluster_of(6, *jobs, waiting("u", 3))
    each = math.log(1.51) / math.log(20.0)
    assert share(cluster) == pytest.approx((3 + 2) / 3 * each)
    some = waiting("u", 3, eligible_nodes=frozenset({"n3", "n4", "n5"}))
    assert share(replace(cluster, jobs=(*jobs, some))) == pytest.approx((1 + 2) / 3 * each)
