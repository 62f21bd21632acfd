"""Nodes that sleep as soon as their jobs have left (Slurm's POWER_DOWN), and wake only then."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.policies.common.urgent_jobs import wakes_after_s
from makeway.policies.model import (
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    JobState,
    Placement,
    Requeue,
    Reserve,
)
from makeway.policies.registry import find
from tests.policies.conftest import NOW_S
from tests.policies.sharing import amounts, part, shared
from tests.policies.under_test import at_once

Build = Callable[..., Job]
BuildCluster = Callable[..., Cluster]

URGENT_POLICIES = ("eviction", "least-price", "n-paa", "n-spaa", "cua-paa", "cup-spaa", "wcjs")
BY_THE_DEADLINE = URGENT_POLICIES[:-1]
"""Those that serve urgent jobs by one latest start: 600 s by default."""


def sleeping_first(cluster: Cluster, **wake_s: float) -> Cluster:
    """The cluster, in which some nodes sleep as soon as their jobs have left. `wake_s`: how long each of them
    takes to wake after that, by name.
    """
    nodes = (
        replace(one, wake_s=wake_s[one.name], sleeps_first=True) if one.name in wake_s else one
        for one in cluster.nodes
    )
    return replace(cluster, nodes=tuple(nodes))


def decide(name: str, cluster: Cluster) -> Decision:
    return find(name).decide(cluster, at_once(name))


def served(decision: Decision) -> tuple[tuple[str, ...], list[str]] | None:
    """The held nodes, and the jobs that leave. None: nothing is held."""
    holds = [action.nodes for action in decision.actions if isinstance(action, Reserve)]
    leaving = [action.job_id for action in decision.actions if isinstance(action, Requeue)]
    assert holds or not leaving
    return (tuple(sorted(sum(holds, ()))), sorted(leaving)) if holds else None


def gone_by_s(decision: Decision) -> float:
    """When the last job is made to leave, in seconds from now."""
    return max(one.not_after_s for one in decision.actions if isinstance(one, Requeue)) - NOW_S


@pytest.mark.parametrize("name", BY_THE_DEADLINE)
@pytest.mark.parametrize("saves", [False, True])
def test_jobs_leave_so_early_that_the_node_is_awake_by_the_deadline(
    name: str, saves: bool, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    spec = CheckpointSpec(system_s=20.0, grace_s=60.0) if saves else None
    cluster = sleeping_first(cluster_of(1, running("a", "n0", checkpoint=spec), waiting("u", 1)), n0=400.0)
    decision = decide(name, cluster)
    assert served(decision) == (("n0",), ["a"])
    assert gone_by_s(decision) <= 200.0
    (why,) = decision.rationale
    assert why.deadline_s == NOW_S + 600.0
    assert why.ready_s is not None
    assert NOW_S + 400.0 <= why.ready_s <= NOW_S + 600.0


@pytest.mark.parametrize("name", BY_THE_DEADLINE)
@pytest.mark.parametrize("wake_s", [600.0, 900.0])
def test_no_job_leaves_a_node_that_wakes_too_late(
    name: str, wake_s: float, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(1, running("a", "n0"), waiting("u", 1))
    assert served(decide(name, sleeping_first(cluster, n0=wake_s))) is None


@pytest.mark.parametrize("name", URGENT_POLICIES)
def test_jobs_leave_nodes_that_are_awake_first(
    name: str, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Though the work of the other one is worth less."""
    old, young = running("a", "n1"), running("b", "n0", start_s=NOW_S - 200.0)
    cluster = cluster_of(2, old, young, waiting("u", 1, submit_s=NOW_S - 500.0))
    assert served(decide(name, cluster)) == (("n0",), ["b"])
    assert served(decide(name, sleeping_first(cluster, n0=60.0))) == (("n1",), ["a"])


@pytest.mark.parametrize("name", ["eviction", "least-price"])
@pytest.mark.parametrize(("wake_s", "asked"), [(300.0, ["a"]), (500.0, [])])
def test_a_job_is_asked_to_save_if_it_has_time_for_that_before_the_node_sleeps(
    name: str, wake_s: float, asked: list[str], running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Else it is killed."""
    saves = running("a", "n0", checkpoint=CheckpointSpec(system_s=150.0, grace_s=60.0))
    cluster = sleeping_first(cluster_of(1, saves, waiting("u", 1)), n0=wake_s)
    decision = decide(name, cluster)
    assert [one.job_id for one in decision.actions if isinstance(one, Checkpoint)] == asked
    assert served(decision) == (("n0",), ["a"])
    assert gone_by_s(decision) <= 600.0 - wake_s


@pytest.mark.parametrize("name", BY_THE_DEADLINE)
def test_of_several_times_the_shortest_is_tried_first(
    name: str, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (
        running("a", "n0", start_s=NOW_S - 200.0),
        running("b", "n1"),
        running("c", "n2", preemptible=False),
    )
    cluster = sleeping_first(cluster_of(3, *jobs, waiting("u", 1)), n0=300.0, n1=100.0)
    assert served(decide(name, cluster)) == (("n1",), ["b"])
    two = replace(cluster, jobs=(*jobs, waiting("u", 2)))
    decision = decide(name, two)
    assert served(decision) == (("n0", "n1"), ["a", "b"])
    assert gone_by_s(decision) <= 300.0


@pytest.mark.parametrize("name", BY_THE_DEADLINE)
@pytest.mark.parametrize(("wake_s", "fits"), [(450.0, True), (451.0, False)])
def test_a_node_of_a_job_that_is_completing_wakes_after_it(
    name: str, wake_s: float, fits: bool, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """The job may be completing for 150 s."""
    ends = running("a", "n0", state=JobState.COMPLETING, completing_since_s=NOW_S)
    cluster = sleeping_first(cluster_of(1, ends, waiting("u", 1)), n0=wake_s)
    assert served(decide(name, cluster)) == ((("n0",), []) if fits else None)


@pytest.mark.parametrize("name", BY_THE_DEADLINE)
@pytest.mark.parametrize("late_s", [0.0, 5000.0])
def test_a_part_of_such_a_node_serves_nobody(name: str, late_s: float, waiting: Build) -> None:
    """Slurm starts no job there before all of its jobs have left and it is awake again."""
    jobs = (part("a", "n0", amounts(2)), part("b", "n1", amounts(8), preemptible=False))
    urgent = waiting("u", 1, demand=amounts(4), submit_s=NOW_S - late_s)
    cluster = shared(*jobs, urgent)
    assert served(decide(name, cluster)) == (("n0",), [])
    assert served(decide(name, sleeping_first(cluster, n0=60.0))) is None


@pytest.mark.parametrize("name", ["eviction", "least-price"])
def test_a_whole_node_of_jobs_that_share_it_serves(name: str, waiting: Build) -> None:
    jobs = (
        part("a", "n0", amounts(2)),
        part("b", "n0", amounts(4)),
        part("c", "n1", amounts(8), preemptible=False),
    )
    cluster = sleeping_first(shared(*jobs, waiting("u", 1)), n0=300.0)
    decision = decide(name, cluster)
    assert served(decision) == (("n0",), ["a", "b"])
    assert gone_by_s(decision) <= 300.0


@pytest.mark.parametrize("name", ["eviction", "least-price"])
def test_the_nodes_of_a_placement_may_sleep_first(
    name: str, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    places = (Placement(name="s1", nodes=("n0", "n1")), Placement(name="s2", nodes=("n2", "n3")))
    cheap, dear = running("a", "n0 n1", start_s=NOW_S - 200.0), running("b", "n2 n3")
    cluster = replace(cluster_of(4, cheap, dear, waiting("u", 2)), placements=places)
    assert served(decide(name, cluster)) == (("n0", "n1"), ["a"])
    asleep = sleeping_first(cluster, n0=300.0, n1=300.0)
    assert served(decide(name, asleep)) == (("n2", "n3"), ["b"])
    only = replace(asleep, jobs=(cheap, replace(dear, preemptible=False), waiting("u", 2)))
    decision = decide(name, only)
    assert served(decision) == (("n0", "n1"), ["a"])
    assert gone_by_s(decision) <= 300.0


@pytest.mark.parametrize("name", ["eviction", "least-price"])
def test_the_components_of_a_job_get_nodes_that_are_awake(
    name: str, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0", start_s=NOW_S - 200.0), running("b", "n1"), running("c", "n2"))
    components = (waiting("u+0", 1, het_job_id="u"), waiting("u+1", 1, het_job_id="u"))
    cluster = sleeping_first(cluster_of(3, *jobs, *components), n0=100.0)
    assert served(decide(name, cluster)) == (("n1", "n2"), ["b", "c"])


@pytest.mark.parametrize("name", BY_THE_DEADLINE)
def test_a_job_that_is_late_may_wait_for_such_a_node(
    name: str, running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    late = cluster_of(1, running("a", "n0"), waiting("u", 1, submit_s=NOW_S - 5000.0))
    assert served(decide(name, sleeping_first(late, n0=900.0))) == served(decide(name, late))


@pytest.mark.parametrize("name", BY_THE_DEADLINE)
def test_a_node_without_a_job_only_has_to_wake(name: str, waiting: Build, cluster_of: BuildCluster) -> None:
    cluster = sleeping_first(cluster_of(1, waiting("u", 1)), n0=600.0)
    assert served(decide(name, cluster)) == (("n0",), [])


@pytest.mark.parametrize(("het_job_id", "wakes_s"), [("", (60.0, 400.0)), ("7", ())])
def test_components_of_a_heterogeneous_job_wait_for_no_such_node(
    het_job_id: str, wakes_s: tuple[float, ...], running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    job = replace(waiting("u", 1), het_job_id=het_job_id)
    cluster = sleeping_first(cluster_of(2, running("a", "n0"), running("b", "n1"), job), n0=400.0, n1=60.0)
    assert wakes_after_s(cluster, job, NOW_S + 600.0) == wakes_s
