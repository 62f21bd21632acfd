"""Several jobs of which each counts as holding a whole node: it has room only once all of them have left."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.ckpt_backfill.outlook import CkptBackfillConfig, WaitingJob, outlook
from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.shared_nodes import room_times_s, with_room
from makeway.policies.contract import Policy
from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.hybrid.policy import CUA_PAA, CUA_SPAA, CUP_PAA, CUP_SPAA, N_PAA, N_SPAA
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import Cluster, Job, JobState
from tests.policies.arriving import NOW_S, Build, victims
from tests.policies.sharing import amounts, part, shared

PREEMPTING: list[tuple[Policy[Any], Any]] = [
    (EVICTION, EvictionConfig(kills="at_once")),
    (LEAST_PRICE, LeastPriceConfig(kills="at_once")),
    *((policy, HybridConfig()) for policy in (N_PAA, N_SPAA, CUA_PAA, CUA_SPAA, CUP_PAA, CUP_SPAA)),
]
every_policy = pytest.mark.parametrize(
    ("policy", "config"), PREEMPTING, ids=[policy.name for policy, _ in PREEMPTING]
)


def whole(job_id: str, nodes: str, **changes: Any) -> Job:
    """A job whose share of its nodes is not known, or that has them for its user alone."""
    return part(job_id, nodes, amounts(4), **{"allocation": None, "node_equivalents": None, **changes})


def chosen(policy: Policy[Any], config: Any, cluster: Cluster) -> list[str]:
    return sorted(job_id for job_id, _ in victims(policy.decide(cluster, config)))


@every_policy
def test_no_job_leaves_a_node_that_another_keeps(waiting: Build, policy: Policy[Any], config: Any) -> None:
    urgent = waiting("u", 1, demand=amounts(6))
    stays = whole("b", "n0", preemptible=False)
    assert chosen(policy, config, shared(whole("a", "n0"), stays, urgent, node_count=1)) == []
    stays = part("b", "n0", amounts(4), preemptible=False)
    assert chosen(policy, config, shared(whole("a", "n0"), stays, urgent, node_count=1)) == []
    stays = whole("b", "n0", preemptible=False)
    assert chosen(policy, config, shared(part("a", "n0", amounts(8)), stays, urgent, node_count=1)) == []


@every_policy
def test_all_leave_where_all_may(waiting: Build, policy: Policy[Any], config: Any) -> None:
    jobs = (whole("a", "n0"), whole("b", "n0"), whole("c", "n0"))
    urgent = waiting("u", 1, demand=amounts(1))
    assert chosen(policy, config, shared(*jobs, urgent, node_count=1)) == ["a", "b", "c"]


@pytest.mark.parametrize(("policy", "config"), PREEMPTING[:2], ids=["eviction", "least-price"])
def test_the_node_of_one_job_is_cheaper(waiting: Build, policy: Policy[Any], config: Any) -> None:
    """Each of the two jobs on n0 would lose less than the one on n1, and both together lose more."""
    pair = (whole(name, "n0", start_s=NOW_S - 600.0) for name in ("a", "b"))
    cluster = shared(*pair, whole("c", "n1"), waiting("u", 1, demand=amounts(6)))
    assert chosen(policy, config, cluster) == ["c"]


@every_policy
def test_what_is_known_of_the_others_may_stay(waiting: Build, policy: Policy[Any], config: Any) -> None:
    stays = part("b", "n0", amounts(4), preemptible=False)
    cluster = shared(whole("a", "n0"), stays, waiting("u", 1, demand=amounts(4)), node_count=1)
    assert chosen(policy, config, cluster) == ["a"]


def test_room_comes_when_the_last_of_them_leaves() -> None:
    first, last, other = whole("a", "n0"), whole("b", "n0"), whole("c", "n1")
    cluster = shared(first, last, other)
    leaving = [(job, NodeRelease(by_s=NOW_S + by_s)) for job, by_s in ((first, 10.0), (last, 20.0))]
    assert room_times_s(cluster, leaving[:1], amounts(1)) == {}
    assert room_times_s(cluster, leaving, amounts(8)) == {"n0": NOW_S + 20.0}
    releases = {job.job_id: release for job, release in leaving}
    assert with_room(cluster, {"a": releases["a"]}, amounts(1)) == frozenset()
    assert with_room(cluster, releases, amounts(8)) == {"n0"}
    completing = replace(cluster, jobs=(first, replace(last, state=JobState.COMPLETING), other))
    assert with_room(completing, {}, amounts(1)) == frozenset()
    assert with_room(completing, {"a": releases["a"]}, amounts(8)) == {"n0"}


def test_the_shadow_time_is_that_of_the_last_of_them(waiting: Build) -> None:
    cluster = shared(
        whole("a", "n0", walltime_s=1500.0),
        whole("b", "n0", walltime_s=2500.0),
        waiting("h", 1, demand=amounts(2)),
        node_count=1,
    )
    view = outlook(cluster, WaitingJob(job=cluster.jobs[-1]), CkptBackfillConfig(p=0.2, hold_slack_s=600.0))
    assert view.ready_s == {"n0": NOW_S + 1500.0}


@pytest.mark.parametrize(
    ("policy", "config"),
    [*PREEMPTING, (EVICTION, EvictionConfig(kills="at_once", shrink=True))],
    ids=[*(policy.name for policy, _ in PREEMPTING), "eviction with shrink"],
)
def test_a_job_that_stays_keeps_no_other_nodes_from_an_urgent_job_that_needs_whole_ones(
    waiting: Build, policy: Policy[Any], config: Any
) -> None:
    """The jobs share nodes one with the next, and the first of them stays on a node of its own."""
    jobs = (
        part("a", "n0", amounts(1), preemptible=False),
        part("b", "n0 n1", amounts(2)),
        part("c", "n1 n2", amounts(2)),
    )
    assert chosen(policy, config, shared(*jobs, waiting("u", 2), node_count=3)) == ["b", "c"]
    assert chosen(policy, config, shared(*jobs, waiting("u", 3), node_count=3)) == []
