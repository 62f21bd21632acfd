"""Urgent jobs before a reservation of the site begins, such as a maintenance."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.policies.common.holds import shortfall
from makeway.policies.common.urgent_jobs import latest_starts
from makeway.policies.model import (
    Cluster,
    Decision,
    Job,
    NodeState,
    Prioritise,
    Requeue,
    Reservation,
    Reserve,
)
from makeway.policies.registry import find
from makeway.policies.wcjs.cost import WcjsConfig
from tests.policies.common.operations import operation
from tests.policies.conftest import NOW_S
from tests.policies.sharing import amounts, part, shared
from tests.policies.under_test import at_once

Build = Callable[..., Job]
BuildCluster = Callable[..., Cluster]

URGENT_POLICIES = ("eviction", "least-price", "n-paa", "n-spaa", "cua-paa", "cup-spaa")
"""Those that serve urgent jobs by one latest start: 600 s by default."""


def window(in_s: float, nodes: str = "n0 n1") -> Reservation:
    """A maintenance that begins in so many seconds."""
    return Reservation(
        name="maintenance", nodes=tuple(nodes.split()), start_s=NOW_S + in_s, end_s=NOW_S + 99_999.0
    )


def decide(name: str, cluster: Cluster) -> Decision:
    return find(name).decide(cluster, at_once(name))


def served(decision: Decision) -> tuple[tuple[str, ...], float, list[str]] | None:
    """The held nodes, when the hold ends (in seconds from now), and the jobs that leave. None: no hold."""
    holds = [action for action in decision.actions if isinstance(action, Reserve)]
    if not holds:
        assert [type(action) for action in decision.actions] == [Prioritise]
        return None
    (hold,) = holds
    ends_s = NOW_S + hold.duration_s if hold.until_s is None else hold.until_s
    leaving = [action.job_id for action in decision.actions if isinstance(action, Requeue)]
    return hold.nodes, ends_s - NOW_S, leaving


FULL = [
    (1799.0, None),  # the job would not end in time
    (1860.0, None),  # it would, but no job has time to leave before
    (1861.0, 1.0),
    (2000.0, 140.0),
    (2459.0, 599.0),
    (2460.0, 600.0),  # it ends in time if it starts as late as its deadline
    (2999.0, 600.0),
    (3000.0, 600.0),  # the whole hold is over before
]
"""When the window begins, and by when jobs are to have left for the urgent job; None: it is not served."""


@pytest.mark.parametrize("name", URGENT_POLICIES)
@pytest.mark.parametrize(("begins_s", "latest_s"), FULL)
def test_jobs_leave_if_the_urgent_job_ends_before_the_window(
    name: str,
    begins_s: float,
    latest_s: float | None,
    running: Build,
    waiting: Build,
    cluster_of: BuildCluster,
) -> None:
    """The hold ends when the window begins, because Slurm lets no two reservations overlap."""
    cluster = cluster_of(2, running("a", "n0 n1"), waiting("u", 2), reservations=(window(begins_s),))
    decision = decide(name, cluster)
    if latest_s is None:
        assert served(decision) is None
        return
    assert served(decision) == (("n0", "n1"), min(begins_s, 3000.0), ["a"])
    assert decision.rationale[0].deadline_s == NOW_S + latest_s


@pytest.mark.parametrize("name", URGENT_POLICIES)
@pytest.mark.parametrize(("begins_s", "latest_s"), FULL)
def test_so_they_do_on_shared_nodes(
    name: str, begins_s: float, latest_s: float | None, waiting: Build
) -> None:
    jobs = (part("a", "n0", amounts(6)), part("b", "n1", amounts(8)))
    urgent = waiting("u", 1, demand=amounts(4))
    cluster = shared(*jobs, urgent, reservations=(window(begins_s),))
    found = served(decide(name, cluster))
    assert found == (None if latest_s is None else (("n0",), min(begins_s, 3000.0), ["a"]))


@pytest.mark.parametrize("name", URGENT_POLICIES)
@pytest.mark.parametrize("late_s", [0.0, 700.0])
def test_free_nodes_serve_a_job_that_just_ends_in_time(
    name: str, late_s: float, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """No job leaves a node that it may have for longer."""
    urgent = waiting("u", 2, submit_s=NOW_S - late_s)
    cluster = cluster_of(4, running("a", "n2 n3"), urgent, reservations=(window(1800.0),))
    (hold,) = decide(name, cluster).actions
    assert isinstance(hold, Reserve)
    assert (hold.nodes, hold.until_s) == (("n0", "n1"), NOW_S + 1800.0)
    soon = decide(name, replace(cluster, reservations=(window(1799.0),)))
    assert not any(isinstance(action, Reserve) and "n0" in action.nodes for action in soon.actions)


@pytest.mark.parametrize("name", URGENT_POLICIES)
def test_nothing_is_taken_for_a_job_that_is_late_and_would_not_end_in_time(
    name: str, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    urgent = waiting("u", 2, submit_s=NOW_S - 700.0)
    cluster = cluster_of(2, running("a", "n0 n1"), urgent, reservations=(window(2000.0),))
    assert served(decide(name, cluster)) is None


@pytest.mark.parametrize("name", ["eviction", "least-price"])
@pytest.mark.parametrize(("begins_s", "leaving"), [(2459.0, []), (2460.0, ["a"])])
def test_a_late_job_that_is_served_as_a_new_one_may_start_as_late(
    name: str,
    begins_s: float,
    leaving: list[str],
    running: Build,
    waiting: Build,
    cluster_of: BuildCluster,
) -> None:
    urgent = waiting("u", 2, submit_s=NOW_S - 700.0)
    cluster = cluster_of(2, running("a", "n0 n1"), urgent, reservations=(window(begins_s),))
    decision = find(name).decide(cluster, replace(at_once(name), late="evict"))
    assert [action.job_id for action in decision.actions if isinstance(action, Requeue)] == leaving


@pytest.mark.parametrize("name", URGENT_POLICIES)
def test_nodes_that_the_site_does_not_need_come_first(
    name: str, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """`a` is the cheaper one to lose, but there would be less time for it to leave."""
    jobs = (running("a", "n0 n1", start_s=NOW_S - 10.0), running("b", "n2 n3"))
    cluster = cluster_of(4, *jobs, waiting("u", 2), reservations=(window(2300.0),))
    found = served(decide(name, cluster))
    assert found == (("n2", "n3"), 3000.0, ["b"])
    stays = replace(cluster.jobs[1], preemptible=False)
    cluster = replace(cluster, jobs=(cluster.jobs[0], stays, cluster.jobs[2]))
    assert served(decide(name, cluster)) == (("n0", "n1"), 2300.0, ["a"])


def test_the_components_of_a_heterogeneous_job_have_one_latest_start(
    waiting: Build, cluster_of: BuildCluster
) -> None:
    urgent = waiting("u+0", 1, het_job_id="u")
    cluster = cluster_of(2, urgent, reservations=(window(2000.0),))
    (one,) = latest_starts(cluster, urgent, NOW_S + 600.0)
    assert (one.at_s, one.ends_s) == (NOW_S + 600.0, NOW_S + 2460.0)
    alone = [one.at_s - NOW_S for one in latest_starts(cluster, replace(urgent, het_job_id=""), NOW_S + 600)]
    assert alone == [600.0, 140.0, 0.0]


def test_of_many_windows_only_the_last_are_tried(waiting: Build, cluster_of: BuildCluster) -> None:
    elsewhere = replace(window(2050.0, "n1"), name="elsewhere")
    cluster = cluster_of(2, reservations=(elsewhere, *(window(2000.0 + in_s) for in_s in range(0, 100, 20))))
    urgent = waiting("u", 1, eligible_nodes=frozenset({"n0"}))
    starts = [one.at_s - NOW_S for one in latest_starts(cluster, urgent, NOW_S + 600.0)]
    assert starts == [600.0, 220.0, 200.0, 180.0, 0.0]


@pytest.mark.parametrize(("begins_s", "lost"), [(1799.0, ("n0",)), (1800.0, ())])
def test_a_held_node_is_lost_when_the_job_would_not_end_in_time_any_more(
    waiting: Build, cluster_of: BuildCluster, begins_s: float, lost: tuple[str, ...]
) -> None:
    held = operation("u", "n0 n1")
    cluster = cluster_of(2, waiting("u", 2), reservations=(window(begins_s, "n0"),), operations=(held,))
    assert shortfall(held, cluster) == lost


@pytest.mark.parametrize("name", URGENT_POLICIES)
def test_a_start_on_kept_nodes_is_as_early_as_the_window_asks_for(
    name: str, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """One of two held nodes is lost. The other is needed too soon for a start by the deadline, so both nodes
    are others, or the start is sooner.
    """
    held = operation("u", "n0 n1")
    held = replace(held, deadline_s=NOW_S + 600.0, give_up_s=NOW_S + 1200.0)
    cluster = cluster_of(
        4, running("a", "n2 n3"), waiting("u", 2), reservations=(window(2100.0, "n0"),), operations=(held,)
    )
    first, second, *others = cluster.nodes
    cluster = replace(cluster, nodes=(first, replace(second, state=NodeState.DOWN), *others))
    found = served(decide(name, cluster))
    assert found is not None
    assert found[0] == ("n2", "n3")
    small = replace(
        cluster, jobs=(running("a", "n2"), running("b", "n3", preemptible=False), waiting("u", 2))
    )
    assert served(decide(name, small)) == (("n0", "n2"), 2100.0, ["a"])


@pytest.mark.parametrize(("begins_s", "is_served"), [(1860.0, True), (1859.0, False)])
def test_wcjs_clears_a_placement_only_if_the_job_ends_before_the_window(
    running: Build, waiting: Build, cluster_of: BuildCluster, begins_s: float, is_served: bool
) -> None:
    urgent = waiting("u", 2, submit_s=NOW_S - 190.0)
    cluster = cluster_of(2, running("a", "n0 n1"), urgent, reservations=(window(begins_s),))
    decision = find("wcjs").decide(cluster, WcjsConfig())
    assert (served(decision) is not None) is is_served
