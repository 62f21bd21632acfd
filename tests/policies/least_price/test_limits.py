"""Policy "least-price": a start is not refused for its price if a cheaper one is known, and waits only while
the limits allow it.
"""

from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import CheckpointSpec, Cluster, Decision, Job, Limits, Method, Placement
from tests.policies.arriving import NOW_S, Build, BuildCluster, victims
from tests.policies.sharing import amounts, part, shared

MACHINE_HOUR_NODE_S = 2 * 3600.0
NO_LOSS = Limits(
    max_loss_node_hours_per_day=0.05, max_loss_machine_share_per_day=0.0, max_loss_machine_share=0.0
)
"""No more than 180 node-seconds of lost work a day."""


def decide(cluster: Cluster, **settings: Any) -> Decision:
    return LEAST_PRICE.decide(cluster, LeastPriceConfig(**settings))


def two(running: Build, waiting: Build, cluster_of: BuildCluster, **changes: Any) -> Cluster:
    """A checkpoint of `saves` costs 300 node-seconds and the time that an instant start has not; `dies` loses
    350.
    """
    saves = running("saves", "n0", checkpoint=CheckpointSpec(system_s=300.0))
    dies = running("dies", "n1", start_s=NOW_S - 350.0)
    return replace(cluster_of(2, saves, dies, waiting("u", 1)), **changes)


@pytest.mark.parametrize(
    ("limits", "settings"),
    [
        (NO_LOSS, {}),
        (Limits(), {"budget_machine_hours": 0.02}),
        (Limits(), {"ceiling_machine_hours": 310.0 / MACHINE_HOUR_NODE_S}),
        (NO_LOSS, {"vital_users": frozenset({"urgent"})}),
    ],
    ids=["limit", "budget", "ceiling", "vital"],
)
def test_a_start_at_once_that_is_refused_is_made_later(
    running: Build,
    waiting: Build,
    cluster_of: BuildCluster,
    limits: Limits,
    settings: dict[str, Any],
) -> None:
    cluster = two(running, waiting, cluster_of)
    assert victims(decide(cluster)) == [("dies", Method.KILL)]
    assert victims(decide(replace(cluster, limits=limits), **settings)) == [("saves", Method.SYSTEM)]


@pytest.mark.parametrize(("array", "leave"), [("7", 2), ("", 8)])
def test_a_job_that_is_split_into_the_tasks_of_an_array_has_one_ceiling(
    running: Build, waiting: Build, cluster_of: BuildCluster, array: str, leave: int
) -> None:
    """Each of eight jobs would lose an hour on its node; the ceiling is a quarter of it for all nodes."""
    batch = [running(f"b{number}", f"n{number}", start_s=NOW_S - 3600.0) for number in range(8)]
    tasks = [waiting(f"7_{number}", 1, array_job_id=array) for number in range(8)]
    cluster = cluster_of(8, *batch, *tasks)
    decision = decide(cluster, ceiling_machine_hours=0.25, waiting_machine_hours=None)
    assert len(victims(decision)) == leave


@pytest.mark.parametrize(
    ("limits", "settings"),
    [
        (NO_LOSS, {}),
        (Limits(), {"budget_machine_hours": 0.02}),
        (NO_LOSS, {"vital_users": frozenset({"urgent"})}),
    ],
    ids=["limit", "budget", "vital"],
)
def test_if_the_least_price_loses_too_much_the_least_loss_is_paid(
    running: Build,
    waiting: Build,
    cluster_of: BuildCluster,
    limits: Limits,
    settings: dict[str, Any],
) -> None:
    """The checkpoint costs more than the kill, but loses nothing."""
    saves, dies, urgent = two(running, waiting, cluster_of).jobs
    cluster = cluster_of(2, replace(saves, setup_s=500.0), dies, urgent)
    assert victims(decide(cluster, instant_machine_hours=0.0)) == [("dies", Method.KILL)]
    assert victims(decide(replace(cluster, limits=limits), **settings)) == [("saves", Method.SYSTEM)]


def test_past_evictions_do_not_make_a_start_too_dear(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Their price chooses the job that costs 300, which the ceiling refuses; the other one costs 100."""
    again = running("again", "n0", start_s=NOW_S - 100.0, past_evictions=1)
    cluster = cluster_of(2, again, running("never", "n1", start_s=NOW_S - 300.0), waiting("u", 1))
    assert victims(decide(cluster)) == [("never", Method.KILL)]
    for settings in ("ceiling_machine_hours", "budget_machine_hours"):
        limited = decide(cluster, **{settings: 200.0 / MACHINE_HOUR_NODE_S})
        assert victims(limited) == [("again", Method.KILL)]


def test_on_shared_nodes_past_evictions_do_not_make_a_start_too_dear(waiting: Build) -> None:
    again = part("again", "n0", amounts(8), start_s=NOW_S - 100.0, past_evictions=1)
    never = part("never", "n1", amounts(8), start_s=NOW_S - 300.0)
    cluster = shared(again, never, waiting("u", 1, demand=amounts(4)))
    ceiling = 200.0 / MACHINE_HOUR_NODE_S
    settings = {"ceiling_machine_hours": ceiling, "kills": "at_once"}
    assert victims(decide(cluster, **settings)) == [("again", Method.KILL)]
    assert victims(decide(cluster, **{**settings, "kills": "late"})) == [("again", Method.KILL)]


@pytest.mark.parametrize(
    ("limit_node_s", "wait_s"),
    [(1570.0, 510.0), (1300.0, 240.0), (1000.0, None)],
    ids=["full", "short", "no"],
)
@pytest.mark.parametrize("which", ["ceiling_machine_hours", "budget_machine_hours", "limit"])
def test_a_dear_start_waits_no_longer_than_the_limits_allow_it(
    running: Build,
    waiting: Build,
    cluster_of: BuildCluster,
    limit_node_s: float,
    wait_s: float | None,
    which: str,
) -> None:
    """The kill costs 1000 now, and 60 s may pass until it is sent."""
    cluster = cluster_of(1, running("a", "n0", walltime_s=2000.0), waiting("u", 1))
    settings: dict[str, Any] = {"waiting_machine_hours": 0.1}
    if which == "limit":
        limits = Limits(max_loss_node_hours=limit_node_s / 3600.0, max_loss_machine_share=0.0)
        cluster = replace(cluster, limits=limits)
    else:
        settings[which] = limit_node_s / 3600.0
    decision = decide(cluster, **settings)
    assert decision.again_s == (None if wait_s is None else NOW_S + wait_s)
    assert victims(decision) == ([("a", Method.KILL)] if wait_s is None else [])


def test_an_end_is_waited_for_if_the_kill_is_refused(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """The start at once costs no more than the setting allows, but is over the ceiling."""
    ends = running("ends", "n0", walltime_s=1300.0)
    cluster = cluster_of(2, ends, running("b", "n1", start_s=NOW_S - 500.0), waiting("u", 1))
    settings = {"instant_machine_hours": 0.5, "ceiling_machine_hours": 400.0 / MACHINE_HOUR_NODE_S}
    decision = decide(cluster, **settings)
    assert [action.verb for action in decision.actions] == ["reserve"]


def test_ends_are_not_waited_for_if_the_others_may_not_leave_in_the_end(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """`b` costs 500 now and 1070 in the end, which the limit refuses; both together cost 950."""

    def cluster(limit_node_s: float) -> Cluster:
        ends: Job = running("ends", "n0", start_s=NOW_S - 600.0, walltime_s=900.0)
        limits = Limits(max_loss_node_hours=limit_node_s / 3600.0, max_loss_machine_share=0.0)
        return cluster_of(2, ends, running("b", "n1", start_s=NOW_S - 5.0), waiting("u", 2), limits=limits)

    assert victims(decide(cluster(575.0), instant_machine_hours=0.0)) == []
    assert victims(decide(cluster(606.0), instant_machine_hours=0.0)) == []
    tight = decide(cluster(574.0), instant_machine_hours=0.0)
    assert [action.verb for action in tight.actions] == ["prioritise"]


def test_no_start_waits_in_its_hold_if_another_is_refused_for_that(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Both may lose 1000 node-seconds of a day now, but not one of them 1510 and the other one 1000."""
    batch = (running(name, node, walltime_s=2000.0) for name, node in (("a", "n0"), ("b", "n1")))
    jobs = (*batch, waiting("u", 1), waiting("v", 1))
    limits = replace(NO_LOSS, max_loss_node_hours_per_day=2400.0 / 3600.0)
    decision = decide(cluster_of(2, *jobs, limits=limits), waiting_machine_hours=0.1)
    assert victims(decision) == [("a", Method.KILL), ("b", Method.KILL)]


def test_the_ceiling_counts_what_the_other_components_cost(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Each component costs a checkpoint of 300 s and a setup of 100 s; nothing is lost."""

    def saves(job_id: str, node: str) -> Job:
        spec = CheckpointSpec(system_s=300.0)
        return running(job_id, node, start_s=NOW_S - 9000.0, setup_s=100.0, checkpoint=spec)

    urgent = [waiting(name, 1, het_job_id="u1", start_within_s=1200.0) for name in ("u1", "u2")]
    cluster = cluster_of(2, saves("a", "n0"), saves("b", "n1"), *urgent)
    enough = decide(cluster, ceiling_machine_hours=800.0 / MACHINE_HOUR_NODE_S)
    assert victims(enough) == [("a", Method.SYSTEM), ("b", Method.SYSTEM)]
    assert not victims(decide(cluster, ceiling_machine_hours=799.0 / MACHINE_HOUR_NODE_S))


def test_the_ceiling_counts_what_waiting_components_will_cost(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Each component waits for the last moment, at which a kill costs 1310 and a setup of 100."""

    def dear(job_id: str, node: str) -> Job:
        return running(job_id, node, setup_s=100.0, walltime_s=2000.0, last_checkpoint_s=NOW_S - 800.0)

    urgent = [waiting(name, 1, het_job_id="u1") for name in ("u1", "u2")]
    cluster = cluster_of(2, dear("a", "n0"), dear("b", "n1"), *urgent)
    settings = {"waiting_machine_hours": 0.1}
    first_node_s = 800.0 + 510.0 + 100.0
    longest = decide(
        cluster, ceiling_machine_hours=(2 * first_node_s + 60.0) / MACHINE_HOUR_NODE_S, **settings
    )
    assert longest.again_s == NOW_S + 510.0
    short = decide(cluster, ceiling_machine_hours=(2 * first_node_s + 59.0) / MACHINE_HOUR_NODE_S, **settings)
    assert short.again_s == NOW_S + 509.0


def test_the_cheapest_placement_is_one_that_no_limit_refuses(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """A kill in one placement costs 350, a checkpoint in the other one 300 and a setup of 100."""
    saves, dies, urgent = two(running, waiting, cluster_of).jobs
    places = (Placement(name="p0", nodes=("n0",)), Placement(name="p1", nodes=("n1",)))
    cluster = cluster_of(2, replace(saves, setup_s=100.0), dies, urgent, placements=places)
    assert victims(decide(cluster)) == [("dies", Method.KILL)]
    assert victims(decide(replace(cluster, limits=NO_LOSS))) == [("saves", Method.SYSTEM)]
