"""What P5's mechanisms want done, as values."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.common.shrinking import spread_evenly
from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.hybrid.policy import N_PAA, N_SPAA
from makeway.policies.model import (
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    JobKind,
    Method,
    Prioritise,
    Reason,
    Requeue,
    Reserve,
    Shrink,
)
from makeway.policies.registry import find

Build = Callable[..., Job]
BuildCluster = Callable[..., Cluster]
NOW_S = 10_000.0
WARNED = CheckpointSpec(system_s=120.0)


@pytest.fixture(scope="session")
def malleable(running: Build) -> Build:
    """Like `running`, malleable down to one node, saved within the two-minute warning."""

    def build(job_id: str, nodes: str, **changes: Any) -> Job:
        job = running(job_id, nodes, kind=JobKind.MALLEABLE, node_count_min=1, checkpoint=WARNED)
        return replace(job, **changes)

    return build


def paa(cluster: Cluster, **changes: Any) -> Decision:
    return N_PAA.decide(cluster, HybridConfig(**changes))


def spaa(cluster: Cluster, **changes: Any) -> Decision:
    return N_SPAA.decide(cluster, HybridConfig(**changes))


def leaving(decision: Decision) -> list[tuple[str, Method, float]]:
    """Who is requeued, how, and how long from now at the latest."""
    return [
        (action.job_id, action.method, action.not_after_s - NOW_S)
        for action in decision.actions
        if isinstance(action, Requeue)
    ]


def test_paa_preempts_in_ascending_order_of_overhead(
    running: Build, malleable: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (
        running("fresh", "n0 n1", setup_s=50.0, last_checkpoint_s=NOW_S - 60.0),  # 2 x (50 + 60) = 220
        running("stale", "n2 n3"),  # 2 x 1000 = 2000
        malleable("m", "n4 n5", setup_s=100.0),  # 2 x 100 = 200
    )
    decision = paa(cluster_of(7, *jobs, waiting("u", 4)))
    assert decision.actions[0] == Reserve(
        job_id="u",
        for_job_id="u",
        policy="n-paa",
        reason=Reason.URGENT_ARRIVAL,
        reservation="mw_u",
        nodes=("n6", "n4", "n5", "n0"),
        duration_s=3000.0,
    )
    assert decision.actions[1] == Checkpoint(
        job_id="m",
        for_job_id="u",
        policy="n-paa",
        reason=Reason.URGENT_ARRIVAL,
        signal="USR1",
        grace_s=120.0,
        walltime_s=20_120.0,
        until_s=NOW_S + 120.0,
        grace_min_s=300.0,
    )
    assert leaving(decision) == [("m", Method.SYSTEM, 120.0), ("fresh", Method.KILL, 0.0)]
    (why,) = decision.rationale
    assert [(found.job_ids[0], found.loss_node_s, found.chosen, found.note) for found in why.candidates] == [
        ("m", 0, True, "ranked by 0.056 node-hours: lost work and the setup"),
        ("fresh", 120, True, "ranked by 0.061 node-hours: lost work and the setup"),
        ("stale", 2000, False, ""),
    ]
    assert [(found.method, found.delay_s) for found in why.candidates] == [
        (Method.SYSTEM, 120.0),
        (Method.KILL, 0.0),
        (Method.KILL, 0.0),
    ]
    assert (why.loss_node_s, why.ready_s) == (120, NOW_S + 120.0)
    assert why.summary.endswith("preempt m, fresh, the least overhead first.")


def test_what_is_known_of_a_job_is_not_that_of_an_urgent_job_with_less_time(
    running: Build, malleable: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """It saves its work in 120 s, and 60 s are left to one of the urgent jobs."""
    jobs = (running("fresh", "n0", start_s=NOW_S - 10.0), malleable("m", "n1"))
    hurried = waiting("u", 1, start_within_s=60.0, submit_s=NOW_S - 1.0)
    decision = paa(cluster_of(2, *jobs, hurried, waiting("w", 1)))
    assert leaving(decision) == [("fresh", Method.KILL, 0.0), ("m", Method.SYSTEM, 120.0)]
    told = [
        (why.for_job_id, one.method, one.delay_s, one.loss_node_s)
        for why in decision.rationale
        for one in why.candidates
        if one.job_ids == ("m",) and one.method is not None
    ]
    assert told == [("u", Method.KILL, 0.0, 1000), ("w", Method.SYSTEM, 120.0, 0)]


def test_past_evictions_count_in_the_order_and_the_loss_that_is_told_is_the_real_one(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Without past evictions the fresh job would leave: 100 and 1,000 node-seconds."""
    jobs = (running("fresh", "n0", start_s=NOW_S - 100.0, past_evictions=3), running("stale", "n1"))
    decision = paa(cluster_of(2, *jobs, waiting("u", 1)))
    assert leaving(decision) == [("stale", Method.KILL, 0.0)]
    (why,) = decision.rationale
    assert {found.job_ids[0]: (found.loss_node_s, found.note) for found in why.candidates} == {
        "stale": (1000, ""),
        "fresh": (
            100,
            "ranked by 0.44 node-hours: lost work at its price after 3 past evictions, and the setup",
        ),
    }
    assert why.loss_node_s == 1000
    assert why.summary.endswith("the least overhead first, with lost work at its price after past evictions.")


def test_paa_keeps_the_papers_order_even_where_fewer_would_do(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("small", "n0", start_s=NOW_S - 10.0), running("large", "n1 n2 n3"))
    decision = paa(cluster_of(4, *jobs, waiting("u", 3)))
    assert [job_id for job_id, _, _ in leaving(decision)] == ["small", "large"]


def test_paa_puts_the_job_to_the_front_when_all_together_are_too_few(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0 n1"), running("kept", "n2", preemptible=False))
    decision = paa(cluster_of(4, *jobs, waiting("u", 4)))
    assert decision.actions == (
        Prioritise(job_id="u", for_job_id="u", policy="n-paa", reason=Reason.NO_ROOM),
    )
    assert [(found.job_ids[0], found.note) for found in decision.rationale[0].candidates][1] == (
        "kept",
        "not_preemptible",
    )


def test_paa_takes_free_nodes_first_and_alone_where_they_suffice(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    decision = paa(cluster_of(4, running("a", "n0"), waiting("u", 2)))
    assert [(action.verb, action.reason) for action in decision.actions] == [("reserve", Reason.URGENT_FITS)]


@pytest.mark.parametrize(
    ("changes", "start_within_s", "expected"),
    [
        ({}, 90.0, (Method.KILL, 0.0)),
        ({"checkpoint": CheckpointSpec(system_s=80.0)}, 90.0, (Method.SYSTEM, 90.0)),
        ({"checkpoint": CheckpointSpec()}, 600.0, (Method.KILL, 0.0)),
        ({"checkpoint": None}, 600.0, (Method.KILL, 0.0)),
    ],
)
def test_a_malleable_job_that_cannot_save_itself_in_time_is_treated_like_a_rigid_one(
    malleable: Build,
    waiting: Build,
    cluster_of: BuildCluster,
    changes: dict[str, Any],
    start_within_s: float,
    expected: tuple[Method, float],
) -> None:
    job = malleable("m", "n0 n1", setup_s=10.0, **changes)
    decision = paa(cluster_of(2, job, waiting("u", 2, start_within_s=start_within_s)))
    assert leaving(decision) == [("m", *expected)]
    lost = 2000 if expected[0] is Method.KILL else 0
    assert decision.rationale[0].loss_node_s == lost
    assert decision.rationale[0].candidates[0].loss_node_s == lost, "the setup is in the note"


@pytest.mark.parametrize("decide", [paa, spaa])
def test_after_the_deadline_no_job_is_evicted(
    malleable: Build, waiting: Build, cluster_of: BuildCluster, decide: Callable[[Cluster], Decision]
) -> None:
    cluster = cluster_of(3, malleable("m", "n0 n1 n2"), waiting("u", 2, submit_s=NOW_S - 601.0))
    assert [action.verb for action in decide(cluster).actions] == ["prioritise"]


def test_jobs_that_share_a_node_are_preempted_together_each_in_its_way(
    running: Build, malleable: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (malleable("m", "n0 n1", setup_s=10.0), running("r", "n1 n2", setup_s=20.0))
    decision = paa(cluster_of(3, *jobs, waiting("u", 3)))
    assert leaving(decision) == [("m", Method.SYSTEM, 120.0), ("r", Method.KILL, 0.0)]
    (candidate,) = decision.rationale[0].candidates
    assert (candidate.loss_node_s, candidate.note) == (
        2000,
        f"ranked by {(20 + 40 + 2000) / 3600:.2f} node-hours: lost work and the setup",
    )


def test_spaa_shrinks_all_evenly_and_lengthens_their_limits(
    malleable: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (malleable("a", "n0 n1 n2 n3", walltime_s=2000.0), malleable("b", "n4 n5 n6", node_count_min=2))
    decision = spaa(cluster_of(8, *jobs, waiting("u", 4)))
    assert decision.actions == (
        Reserve(
            job_id="u",
            for_job_id="u",
            policy="n-spaa",
            reason=Reason.URGENT_ARRIVAL,
            reservation="mw_u",
            nodes=("n7", "n2", "n3", "n6"),
            duration_s=3000.0,
        ),
        Shrink(
            job_id="a",
            for_job_id="u",
            policy="n-spaa",
            reason=Reason.URGENT_ARRIVAL,
            keep_nodes=("n0", "n1"),
            walltime_s=1000.0 + 1000.0 * 4 / 2,
        ),
        Shrink(
            job_id="b",
            for_job_id="u",
            policy="n-spaa",
            reason=Reason.URGENT_ARRIVAL,
            keep_nodes=("n4", "n5"),
            walltime_s=1000.0 + 19_000.0 * 3 / 2,
        ),
    )
    (why,) = decision.rationale
    assert (why.loss_node_s, why.ready_s) == (0, NOW_S)
    assert [(found.job_ids[0], found.method, found.node_count) for found in why.candidates] == [
        ("a", Method.SHRINK, 2),
        ("b", Method.SHRINK, 1),
    ]


def test_spaa_leaves_jobs_alone_that_need_not_give(
    malleable: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (malleable("a", "n0 n1"), malleable("b", "n2 n3"))
    decision = spaa(cluster_of(4, *jobs, waiting("u", 1)))
    assert [(action.verb, action.job_id) for action in decision.actions] == [
        ("reserve", "u"),
        ("shrink", "b"),
    ]
    assert [found.chosen for found in decision.rationale[0].candidates] == [False, True]


def test_a_new_limit_is_a_whole_second_rounded_up(
    malleable: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    job = malleable("a", "n0 n1 n2 n3", walltime_s=1100.0)
    decision = spaa(cluster_of(4, job, waiting("u", 1)))
    (shrink,) = (action for action in decision.actions if isinstance(action, Shrink))
    assert shrink.walltime_s == 1134.0, "1000 + 100 * 4 / 3 = 1133.3"


def test_spaa_falls_back_on_paa(
    running: Build, malleable: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (malleable("m", "n0 n1", setup_s=1.0), running("r", "n2 n3"))
    cluster = cluster_of(4, *jobs, waiting("u", 2))
    decision = spaa(cluster)
    assert leaving(decision) == [("m", Method.SYSTEM, 120.0)]
    assert decision.actions == tuple(replace(action, policy="n-spaa") for action in paa(cluster).actions)
    assert decision.rationale[0].summary.startswith("Shrinking supplies 1 node of 2: too few. ")


def test_only_nodes_that_serve_the_urgent_job_can_be_given_and_never_the_batch_host(
    malleable: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    job = malleable("a", "n3 n0 n1 n2")
    u = waiting("u", 2, eligible_nodes=frozenset({"n0", "n1", "n3"}))
    decision = spaa(cluster_of(4, job, u))
    (shrink,) = (action for action in decision.actions if isinstance(action, Shrink))
    assert shrink.keep_nodes == ("n3", "n2")
    three = replace(u, node_count=3)
    assert leaving(spaa(cluster_of(4, job, three))) == [("a", Method.SYSTEM, 120.0)]


@pytest.mark.parametrize(
    "changes",
    [{"node_count_min": None}, {"node_count_min": 4}, {"kind": JobKind.RIGID}, {"preemptible": False}],
)
def test_who_cannot_shrink_supplies_nothing(
    malleable: Build, waiting: Build, cluster_of: BuildCluster, changes: dict[str, Any]
) -> None:
    decision = spaa(cluster_of(4, malleable("a", "n0 n1 n2 n3", **changes), waiting("u", 1)))
    assert not any(isinstance(action, Shrink) for action in decision.actions)
    assert decision.rationale[0].summary.startswith("Shrinking supplies 0 nodes of 1")


def test_jobs_that_share_a_node_are_not_shrunk(
    malleable: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (malleable("a", "n0 n1"), malleable("b", "n1 n2"))
    decision = spaa(cluster_of(3, *jobs, waiting("u", 1)))
    assert leaving(decision) == [("a", Method.SYSTEM, 120.0)], "n0 is held, where b is not"
    assert [action.verb for action in decision.actions] == ["reserve", "checkpoint", "requeue"]


@settings(deadline=None)
@given(
    supplies=st.dictionaries(st.text("abcdef", min_size=1), st.integers(1, 20), min_size=1), data=st.data()
)
def test_spreading_is_complete_bounded_and_as_even_as_possible(
    supplies: dict[str, int], data: st.DataObject
) -> None:
    wanted = data.draw(st.integers(0, sum(supplies.values())))
    shares = spread_evenly(supplies, wanted)
    assert sum(shares.values()) == wanted
    assert all(0 <= shares[job_id] <= supplies[job_id] for job_id in supplies)
    free_to_give = [shares[job_id] for job_id in supplies if shares[job_id] < supplies[job_id]]
    assert max(shares.values()) - min(free_to_give, default=max(shares.values())) <= 1
    reversed_supplies = dict(reversed(supplies.items()))
    assert spread_evenly(reversed_supplies, wanted) == shares


@pytest.mark.parametrize("name", ["start_within_s", "warning_s", "hold_slack_s"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_absurd_settings_are_refused(name: str, value: float) -> None:
    changes: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=name):
        HybridConfig(**changes)


MECHANISMS = ("n-paa", "n-spaa", "cua-paa", "cua-spaa", "cup-paa", "cup-spaa")


@pytest.mark.parametrize("name", MECHANISMS)
def test_exact_victims_are_the_least_loss_whatever_the_mechanism(
    name: str, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("small", "n0", start_s=NOW_S - 10.0), running("large", "n1 n2 n3", start_s=NOW_S - 20.0))
    cluster = cluster_of(4, *jobs, waiting("u", 3))
    overhead = find(name).decide(cluster, HybridConfig())
    assert [job_id for job_id, _, _ in leaving(overhead)] == ["small", "large"]
    exact = find(name).decide(cluster, HybridConfig(victims="exact"))
    assert leaving(exact) == [("large", Method.KILL, 0.0)]
    assert {action.policy for action in exact.actions} == {name}
    assert exact.rationale[0].loss_node_s == 60


@pytest.mark.parametrize("name", MECHANISMS)
def test_exact_victims_have_time_to_save_themselves_and_shrink_only_with_spaa(
    name: str, running: Build, malleable: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("saves", "n0 n1 n2", checkpoint=CheckpointSpec(system_s=200.0)), malleable("m", "n3 n4"))
    cluster = cluster_of(5, *jobs, waiting("u", 4))
    decision = find(name).decide(cluster, HybridConfig(victims="exact"))
    shrinks = [action.keep_nodes for action in decision.actions if isinstance(action, Shrink)]
    if name.endswith("spaa"):
        assert leaving(decision) == [("saves", Method.SYSTEM, 510.0)]
        assert shrinks == [("n3",)]
    else:
        assert leaving(decision) == [("m", Method.SYSTEM, 510.0), ("saves", Method.SYSTEM, 510.0)]
        assert shrinks == []


def test_where_shrinking_is_enough_exact_victims_are_spaa(
    malleable: Build, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (malleable("a", "n0 n1 n2"), malleable("b", "n3 n4"), running("c", "n5"))
    cluster = cluster_of(6, *jobs, waiting("u", 3))
    assert spaa(cluster, victims="exact").actions == spaa(cluster).actions


def test_exact_victims_are_not_evicted_after_the_deadline(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    late = waiting("u", 2, submit_s=NOW_S - 601.0)
    decision = paa(cluster_of(2, running("a", "n0 n1"), late), victims="exact")
    assert [action.verb for action in decision.actions] == ["prioritise"]
