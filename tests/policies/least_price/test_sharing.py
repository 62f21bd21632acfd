"""Policy "least-price" where jobs share nodes."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Decision,
    Eviction,
    JobKind,
    Limits,
    Method,
    Reserve,
)
from tests.policies.arriving import NOW_S, Build, victims
from tests.policies.common.operations import operation
from tests.policies.sharing import amounts, part, shared

NO_LIMITS: dict[str, Any] = {
    "max_loss_node_hours": None,
    "max_loss_node_hours_per_day": None,
    "max_loss_machine_share": 0.0,
    "max_loss_machine_share_per_day": 0.0,
}
"""On lost work."""


def decide(cluster: Cluster, **settings: Any) -> Decision:
    return LEAST_PRICE.decide(cluster, LeastPriceConfig(**settings))


def verbs(decision: Decision) -> list[str]:
    return [action.verb for action in decision.actions]


def half_used(waiting: Build, **changes: Any) -> Cluster:
    """A node with one job that has run for 1000 s, and an urgent job that needs a part of it."""
    job = part("a", "n0", amounts(8))
    return shared(job, waiting("u", 1, demand=amounts(4)), node_count=1, **changes)


@pytest.mark.parametrize(("late", "served"), [("queue", False), ("evict", True)])
def test_on_shared_nodes_a_late_job_is_served_without_waiting(
    waiting: Build, late: str, served: bool
) -> None:
    cluster = replace(half_used(waiting), now_s=NOW_S + 601.0)
    assert victims(decide(cluster, late=late)) == ([("a", Method.KILL)] if served else [])
    refused = decide(cluster, late=late, ceiling_machine_hours=0.2)
    assert (verbs(refused), refused.again_s) == (["prioritise"], None)


def test_on_shared_nodes_kills_wait_for_the_deadline(waiting: Build) -> None:
    cluster = half_used(waiting)
    decision = decide(cluster)
    assert verbs(decision) == ["reserve"]
    assert decision.again_s == NOW_S + 510.0
    assert victims(decide(replace(cluster, now_s=NOW_S + 510.0))) == [("a", Method.KILL)]
    assert victims(decide(cluster, kills="at_once")) == [("a", Method.KILL)]


def test_with_kills_at_once_a_start_waits_where_it_would_on_whole_nodes(waiting: Build) -> None:
    """For a job that ends in time, or in its hold because it is dear and no ceiling refuses it."""
    ends = part("a", "n0", amounts(8), walltime_s=1300.0)
    whole = decide(shared(ends, waiting("u", 1), node_count=1), kills="at_once")
    assert (victims(whole), whole.again_s) == ([], NOW_S + 510.0)
    likely = shared(ends, waiting("u", 1, demand=amounts(4)), node_count=1)
    assert victims(decide(likely, kills="at_once")) == [("a", Method.KILL)]
    strict = {"ceiling_machine_hours": None, "waiting_machine_hours": 0.0}
    dear = decide(likely, kills="at_once", **strict)
    assert (verbs(dear), dear.again_s) == (["reserve"], NOW_S + 510.0)


@pytest.mark.parametrize(("allowed_node_s", "killed"), [(999.0, False), (1000.0, True), (None, True)])
def test_on_shared_nodes_a_kill_that_loses_little_does_not_wait(
    waiting: Build, allowed_node_s: float | None, killed: bool
) -> None:
    cluster = half_used(waiting)
    allowed = None if allowed_node_s is None else allowed_node_s / 3600.0
    decision = decide(cluster, instant_machine_hours=allowed)
    assert victims(decision) == ([("a", Method.KILL)] if killed else [])
    assert verbs(decision)[0] == "reserve"


@pytest.mark.parametrize(("hours", "killed"), [(0.02, [("b", Method.KILL)]), (0.0, [])])
def test_on_shared_nodes_a_kill_that_loses_little_does_not_wait_if_the_ceiling_refuses_a_checkpoint(
    waiting: Build, hours: float, killed: list[tuple[str, Method]]
) -> None:
    """What is chosen by the deadline loses no work, but its checkpoint costs 1200 node-seconds."""
    wide = part("a", "n0 n1 n2 n3", amounts(8), checkpoint=CheckpointSpec(system_s=300.0))
    young = part("b", "n4", amounts(8), start_s=NOW_S - 10.0)
    cluster = shared(wide, young, waiting("u", 1, demand=amounts(8)), node_count=5)
    settings = {"instant_machine_hours": hours}
    assert victims(decide(cluster, **settings)) == [("a", Method.SYSTEM)]
    assert victims(decide(cluster, ceiling_machine_hours=1199.0 / 18_000.0, **settings)) == killed


@pytest.mark.parametrize(("allowed_node_s", "killed"), [(999.0, False), (1000.0, True)])
def test_on_shared_nodes_free_nodes_of_the_hold_do_not_make_a_kill_cheaper(
    waiting: Build, allowed_node_s: float, killed: bool
) -> None:
    """A start that waits leaves one of two nodes idle."""
    cluster = shared(part("a", "n0", amounts(8)), waiting("u", 2, demand=amounts(4)))
    decision = decide(cluster, instant_machine_hours=allowed_node_s / 7200.0)
    assert victims(decision) == ([("a", Method.KILL)] if killed else [])


@pytest.mark.parametrize(
    "limit",
    [
        "max_loss_node_hours",
        "max_loss_node_hours_per_day",
        "max_loss_node_hours_per_user_per_day",
        "max_loss_node_hours_per_account_per_day",
    ],
)
def test_on_shared_nodes_a_kill_waits_no_longer_than_one_limit_allows(waiting: Build, limit: str) -> None:
    """It loses a node-second each second. The job may take 60 s to leave."""
    urgent = waiting("u", 1, demand=amounts(4), account="x")
    cluster = shared(part("a", "n0", amounts(8)), urgent, node_count=1)
    for allowed_node_s, wait_s in ((1200.0, 140.0), (9000.0, 510.0)):
        limits = Limits(**{**NO_LIMITS, limit: allowed_node_s / 3600.0})
        decision = decide(replace(cluster, limits=limits), instant_machine_hours=0.0)
        assert (verbs(decision), decision.again_s) == (["reserve"], NOW_S + wait_s)


def test_on_shared_nodes_a_start_that_is_no_longer_at_once_waits(waiting: Build) -> None:
    cluster = half_used(waiting)
    soon = replace(cluster, now_s=NOW_S + 169.0)
    assert victims(decide(soon, instant_machine_hours=None)) == [("a", Method.KILL)]
    late = replace(cluster, now_s=NOW_S + 170.0)
    assert victims(decide(late, instant_machine_hours=None)) == []


def test_on_shared_nodes_a_start_waits_whose_deadline_is_at_once_too(waiting: Build) -> None:
    urgent = waiting("u", 1, demand=amounts(4), start_within_s=199.0)
    cluster = shared(part("a", "n0", amounts(8)), urgent, node_count=1)
    decision = decide(cluster, instant_machine_hours=None)
    assert (verbs(decision), decision.again_s) == (["reserve"], NOW_S + 109.0)
    later = replace(cluster, jobs=(cluster.jobs[0], replace(urgent, start_within_s=201.0)))
    assert victims(decide(later, instant_machine_hours=None)) == [("a", Method.KILL)]


def test_on_shared_nodes_no_kill_is_sent_that_a_limit_refuses(waiting: Build) -> None:
    ends = part("a", "n0", amounts(8), walltime_s=1300.0)
    cluster = shared(ends, waiting("u", 1, demand=amounts(4)), node_count=1)
    assert victims(decide(cluster, instant_machine_hours=None)) == [("a", Method.KILL)]
    limited = replace(cluster, limits=Limits(max_loss_node_hours=900.0 / 3600.0))
    decision = decide(limited, instant_machine_hours=None)
    assert (verbs(decision), decision.again_s) == (["reserve"], NOW_S + 510.0)


@pytest.mark.parametrize(
    ("per_hour", "past", "leaving", "at_once"),
    [(8, 0, 0, True), (7, 0, 0, False), (8, 1, 0, False), (8, 0, 1, False), (10, 1, 1, True)],
)
def test_on_shared_nodes_no_more_jobs_are_killed_at_once_than_the_site_allows_in_an_hour(
    waiting: Build, per_hour: int, past: int, leaving: int, at_once: bool
) -> None:
    """By the deadline one job saves its work, and one is killed. At once eight are. Another urgent job gets
    nothing.
    """
    saves = part("a", "n0", amounts(4), checkpoint=CheckpointSpec(system_s=300.0))
    small = [part(f"c{number}", "n1", amounts(1), start_s=NOW_S - 600.0) for number in range(8)]
    dies = part("b", "n0", amounts(4))
    stays = part("d", "n2", amounts(8), preemptible=False)
    urgent = [
        waiting("t", 1, demand=amounts(8), start_within_s=590.0, eligible_nodes=frozenset({"n2"})),
        waiting("u", 1, demand=amounts(8), eligible_nodes=frozenset({"n0", "n1"})),
    ]
    cluster = shared(saves, dies, *small, stays, *urgent, node_count=3)
    limited = replace(
        cluster,
        limits=Limits(evictions_per_hour=per_hour),
        evictions=(Eviction(job_id="x", at_s=NOW_S - 60.0),) * past,
        operations=(operation("v", "n9", "y"),) * leaving,
    )
    decision = decide(limited, instant_machine_hours=None)
    assert len(victims(decision)) == (8 if at_once else 0)
    assert all(verdict.allowed for verdict in arbitrate(decision.actions, limited))


@pytest.mark.parametrize(("other_s", "killed"), [(1000.0, []), (20.0, ["a", "b"])])
def test_on_shared_nodes_the_components_of_a_job_wait_together(
    waiting: Build, other_s: float, killed: list[str]
) -> None:
    """A kill for one of them would be in vain as long as the other one waits."""
    components = [
        waiting(f"u+{number}", 1, demand=amounts(4), het_job_id="u", eligible_nodes=frozenset({f"n{number}"}))
        for number in range(2)
    ]
    young = part("a", "n0", amounts(8), start_s=NOW_S - 10.0)
    other = part("b", "n1", amounts(6), start_s=NOW_S - other_s)
    stays = part("c", "n1", amounts(2))
    limits = Limits(evictions_per_hour=2)
    decision = decide(shared(young, other, stays, *components, limits=limits))
    assert [job_id for job_id, _ in victims(decision)] == killed
    ready_s = NOW_S if killed else decision.again_s
    assert [why.ready_s for why in decision.rationale] == [ready_s, ready_s]
    assert len({action.nodes for action in decision.actions if isinstance(action, Reserve)}) == 2


def test_on_shared_nodes_a_vital_job_waits_for_nothing(waiting: Build) -> None:
    vital = decide(half_used(waiting), vital_users=frozenset({"urgent"}))
    assert victims(vital) == [("a", Method.KILL)]


def test_on_shared_nodes_nothing_is_held_above_the_ceiling(waiting: Build) -> None:
    cluster = half_used(waiting)
    decision = decide(cluster, ceiling_machine_hours=0.2)
    assert (verbs(decision), decision.again_s) == (["prioritise"], NOW_S + 510.0)
    last = decide(replace(cluster, now_s=NOW_S + 510.0), ceiling_machine_hours=0.2)
    assert (verbs(last), last.again_s) == (["prioritise"], None)


def test_on_shared_nodes_no_kill_waits_if_another_urgent_job_is_on_time_after_that(waiting: Build) -> None:
    second = waiting("v", 1, demand=amounts(4), submit_s=NOW_S + 1.0)
    stays = part("p", "n0", amounts(4), preemptible=False)
    first = waiting("u", 1, demand=amounts(4), walltime_s=300.0)
    cluster = shared(part("a", "n0", amounts(4)), stays, first, node_count=1)
    assert not victims(decide(cluster))
    larger = replace(second, demand=amounts(9))
    assert not victims(decide(replace(cluster, jobs=(*cluster.jobs, larger))))
    assert victims(decide(replace(cluster, jobs=(*cluster.jobs, second)))) == [("a", Method.KILL)]


@pytest.mark.parametrize("node_count", [1, 2])
@pytest.mark.parametrize("after_s", [0.0, 300.0, 510.0])
@pytest.mark.parametrize("saves", [True, False])
def test_on_shared_nodes_it_decides_as_eviction_does(
    waiting: Build, node_count: int, after_s: float, saves: bool
) -> None:
    spec = CheckpointSpec(system_s=60.0) if saves else None
    jobs = (
        part("a", "n0", amounts(6), last_checkpoint_s=NOW_S - 100.0),
        part("b", "n0", amounts(2), kind=JobKind.MALLEABLE, node_count_min=1),
        part("c", "n1", amounts(5), checkpoint=spec),
        part("d", "n1", amounts(3)),
    )
    for urgent in (waiting("u", node_count), waiting("u", node_count, demand=amounts(4))):
        cluster = replace(shared(*jobs, urgent), now_s=NOW_S + after_s)
        own = decide(cluster, instant_machine_hours=0.0)
        other = EVICTION.decide(cluster, EvictionConfig(step_s=10.0))
        assert victims(own) == victims(other)
        assert verbs(own) == verbs(other)
        assert own.again_s == other.again_s
