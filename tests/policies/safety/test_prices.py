"""What an eviction takes, what it is priced at, and what the site allows it to cost."""

from dataclasses import replace

import pytest

from makeway.policies.model import Job, Limits, Method, Reserve
from makeway.policies.safety.arbiter import arbitrate
from makeway.policies.safety.prices import (
    killed_node_s,
    loss_node_s,
    price_node_s,
    price_refusal,
    reported_s,
    unsaved_s,
)
from makeway.policies.safety.protection import Refusal
from tests.policies.arriving import NOW_S, Build, BuildCluster, hold, requeue
from tests.policies.eviction.test_policy_under_way import operation

HOUR_S = 3600.0


@pytest.fixture
def job(running: Build) -> Job:
    """On two nodes for 1,000 s."""
    found: Job = running("a", "n0 n1")
    return found


def test_a_checkpoint_in_the_future_is_none(job: Job) -> None:
    promised = replace(job, last_checkpoint_s=NOW_S + 1.0)
    assert reported_s(promised, NOW_S) is None
    assert reported_s(promised, NOW_S + 1.0) == NOW_S + 1.0
    assert unsaved_s(promised, NOW_S) == 1000.0


def test_without_a_report_a_job_loses_what_is_usual_in_its_class(job: Job) -> None:
    silent = replace(job, usual_unsaved_s=300.0)
    assert unsaved_s(silent, NOW_S) == 300.0
    assert unsaved_s(silent, NOW_S - 900.0) == 100.0, "it has not run longer"
    assert unsaved_s(replace(silent, last_checkpoint_s=NOW_S - 700.0), NOW_S) == 700.0, (
        "its own report counts"
    )
    assert unsaved_s(replace(silent, start_s=None), NOW_S) == 0.0


def test_past_evictions_raise_the_price(job: Job) -> None:
    assert price_node_s(job, NOW_S) == loss_node_s(job, NOW_S) == 2000
    assert price_node_s(replace(job, past_evictions=1), NOW_S) == 8000
    assert price_node_s(replace(job, past_evictions=2), NOW_S) == 18_000


def test_only_kills_lose_work(job: Job, running: Build, cluster_of: BuildCluster) -> None:
    cluster = cluster_of(4, job, running("b", "n2"), running("c", "n3"))
    actions = (
        hold("u", "n0", 60.0),
        requeue("a", "u", Method.KILL, NOW_S),
        requeue("b", "u", Method.SYSTEM, NOW_S),
        requeue("c", "u", Method.APPLICATION, NOW_S),
        requeue("gone", "u", Method.KILL, NOW_S),
    )
    assert killed_node_s(actions, cluster) == 2000


@pytest.mark.parametrize(
    ("cost", "before", "others", "expected"),
    [
        (512.0, {}, 0.0, "it would cost 512 node-hours, the limit is 200 (max_loss_node_hours)"),
        (200.0, {}, 0.0, None),
        (
            150.0,
            {"u": 60.0},
            0.0,
            "it would cost 150 node-hours after 60 before, the limit is 200 (max_loss_node_hours)",
        ),
        (150.0, {"v": 60.0}, 0.0, None),
        (
            150.0,
            {"v": 300.0},
            60.5,
            (
                "it would cost 150 node-hours, and 360.5 of the 500 of a day are used "
                "(max_loss_node_hours_per_day)"
            ),
        ),
        (150.0, {"v": 300.0}, 50.0, None),
        (0.0, {"u": 900.0}, 0.0, None),
    ],
)
def test_what_an_urgent_job_may_cost(
    cluster_of: BuildCluster, cost: float, before: dict[str, float], others: float, expected: str | None
) -> None:
    cluster = replace(
        cluster_of(1, limits=Limits(max_loss_node_hours=200.0, max_loss_node_hours_per_day=500.0)),
        lost_node_s={job_id: hours * HOUR_S for job_id, hours in before.items()},
    )
    refusal = price_refusal(cluster, "u", cost * HOUR_S, others * HOUR_S)
    assert (None if refusal is None else refusal[1]) == expected
    free = replace(cluster, limits=Limits(max_loss_node_hours=None, max_loss_node_hours_per_day=None))
    assert price_refusal(free, "u", cost * HOUR_S, others * HOUR_S) is None


def refusals(cluster_of: BuildCluster, job: Job, other: Job, limits: Limits) -> list[Refusal | None]:
    """The verdicts on two groups: u takes the nodes of a, v those of b."""
    cluster = cluster_of(4, job, other, limits=limits)
    groups: tuple[tuple[Reserve, str, str], ...] = (
        (hold("u", "n0 n1", 60.0), "a", "u"),
        (hold("v", "n2 n3", 60.0), "b", "v"),
    )
    actions = [
        action for held, job_id, by in groups for action in (held, requeue(job_id, by, Method.KILL, NOW_S))
    ]
    return [verdict.refusal for verdict in arbitrate(actions, cluster)]


def test_the_arbiter_refuses_what_costs_too_much_whatever_the_policy(
    job: Job, running: Build, cluster_of: BuildCluster
) -> None:
    """a loses 2,000 node-seconds, b 1,000."""
    other = running("b", "n2 n3", start_s=NOW_S - 500.0)
    allowed = [None] * 4
    per_job = Limits(max_loss_node_hours=1500.0 / HOUR_S)
    assert refusals(cluster_of, job, other, per_job) == [Refusal.GROUP, Refusal.MAX_LOSS, None, None]
    per_day = Limits(max_loss_node_hours_per_day=2500.0 / HOUR_S)
    assert refusals(cluster_of, job, other, per_day) == [None, None, Refusal.GROUP, Refusal.MAX_LOSS_PER_DAY]
    assert refusals(cluster_of, job, other, Limits(max_loss_node_hours_per_day=3000.0 / HOUR_S)) == allowed


def test_what_is_under_way_is_not_stopped_by_its_price(job: Job, cluster_of: BuildCluster) -> None:
    leaving = (hold("u", "n0 n1", 60.0), requeue("a", "u", Method.KILL, NOW_S))
    cluster = cluster_of(
        2, job, operations=(operation(leaving, "n0 n1"),), limits=Limits(max_loss_node_hours=0.0)
    )
    (verdict,) = arbitrate(leaving[1:], cluster)
    assert verdict.refusal is None
