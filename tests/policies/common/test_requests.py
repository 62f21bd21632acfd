"""What an urgent job can have without an eviction, and what it may not have."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.policies.common.commitments import Commitments
from makeway.policies.common.requests import request_for, requests_for
from makeway.policies.common.urgent_jobs import UrgentJob
from makeway.policies.model import (
    Cluster,
    Job,
    Method,
    Operation,
    OperationKind,
    Progress,
    Reason,
    Requeue,
    Reservation,
    Task,
)
from tests.policies.conftest import NOW_S

Build = Callable[..., Job]
BuildCluster = Callable[..., Cluster]


def evicting(job_id: str, *, not_after_s: float) -> Operation:
    """An operation for urgent job `other` on n0, which evicts one job until an instant."""
    requeue = Requeue(
        job_id=job_id,
        for_job_id="other",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.SYSTEM,
        not_after_s=not_after_s,
    )
    return Operation(
        operation_id="other@1",
        kind=OperationKind.MAKE_WAY,
        for_job_id="other",
        policy="test",
        reservation="mw_other",
        nodes=("n0",),
        opened_s=NOW_S - 100.0,
        deadline_s=NOW_S + 500.0,
        give_up_s=NOW_S + 1100.0,
        tasks=(Task(action=requeue, progress=Progress.ISSUING),),
    )


def test_an_urgent_job_may_have_the_nodes_of_its_own_hold_also_after_another_one_was_asked_for(
    waiting: Build, cluster_of: BuildCluster
) -> None:
    operation = evicting("a", not_after_s=NOW_S)
    cluster = replace(cluster_of(2, waiting("u", 1), waiting("other", 1)), operations=(operation,))
    commitments = Commitments(cluster=cluster)
    without, own = (UrgentJob(job=job) for job in cluster.jobs)
    assert set(commitments.unusable(without, NOW_S + 60.0)) == {"n0"}
    assert set(commitments.unusable(replace(own, operation=operation), NOW_S + 60.0)) == set()


def test_a_later_reservation_of_the_site_bars_only_the_hold_that_lasts_so_long(
    waiting: Build, cluster_of: BuildCluster
) -> None:
    later = Reservation(name="maintenance", nodes=("n1",), start_s=NOW_S + 100.0, end_s=NOW_S + 200.0)
    cluster = replace(cluster_of(2, waiting("u", 1), waiting("v", 1)), reservations=(later,))
    commitments = Commitments(cluster=cluster)
    short, long = (UrgentJob(job=job) for job in cluster.jobs)
    assert set(commitments.unusable(short, NOW_S + 100.0)) == set()
    assert set(commitments.unusable(long, NOW_S + 101.0)) == {"n1"}


@pytest.mark.parametrize(
    ("deadline_s", "releasing"),
    [
        (NOW_S + 300.0, ("n1",)),  # it is free in time
        (NOW_S + 299.0, ()),  # it is free too late
        (NOW_S, ()),  # the start can still be on time, but not on that node
        (NOW_S - 1.0, ("n1",)),  # late in any case: the node that is free first is the best
    ],
)
def test_a_node_that_another_job_leaves_counts_if_it_is_free_by_the_deadline(
    running: Build, waiting: Build, cluster_of: BuildCluster, deadline_s: float, releasing: tuple[str, ...]
) -> None:
    cluster = cluster_of(2, running("a", "n0 n1"), waiting("u", 1), waiting("other", 1))
    cluster = replace(cluster, operations=(evicting("a", not_after_s=NOW_S + 300.0),))
    urgent = UrgentJob(job=cluster.jobs[1])
    request = request_for(Commitments(cluster=cluster), urgent, "test", deadline_s, 3600.0)
    assert request.releasing == releasing
    assert request.shortage == 1 - len(releasing)


@pytest.mark.parametrize(
    ("deadline_s", "free"),
    [
        (NOW_S + 300.0, ("n0", "n2", "n1")),  # those that are awake first
        (NOW_S + 299.0, ("n0", "n2")),  # a node that sleeps comes too late
        (NOW_S - 1.0, ("n0", "n2", "n1")),  # late in any case
    ],
)
def test_a_node_that_sleeps_is_free_for_a_job_that_can_wait_for_it(
    waiting: Build, cluster_of: BuildCluster, deadline_s: float, free: tuple[str, ...]
) -> None:
    cluster = cluster_of(3, waiting("u", 3))
    nodes = tuple(replace(node, wake_s=300.0 * (node.name == "n1")) for node in cluster.nodes)
    cluster = replace(cluster, nodes=nodes)
    request = request_for(
        Commitments(cluster=cluster), UrgentJob(job=cluster.jobs[0]), "test", deadline_s, 3600.0
    )
    assert request.free == free
    assert request.shortage == 3 - len(free)


def test_each_node_that_sleeps_counts_by_its_own_time(waiting: Build, cluster_of: BuildCluster) -> None:
    """A node that falls asleep takes longer than those that sleep: these still serve."""
    cluster = cluster_of(3, waiting("u", 3))
    slow = {"n0": 60.0, "n1": 90.0, "n2": 60.0}
    cluster = replace(cluster, nodes=tuple(replace(node, wake_s=slow[node.name]) for node in cluster.nodes))
    urgent = UrgentJob(job=cluster.jobs[0])
    request = request_for(Commitments(cluster=cluster), urgent, "test", NOW_S + 80.0, 3600.0)
    assert request.free == ("n0", "n2")


def test_no_node_is_woken_while_enough_are_awake(waiting: Build, cluster_of: BuildCluster) -> None:
    cluster = cluster_of(3, waiting("u", 2))
    nodes = tuple(replace(node, wake_s=300.0 * (node.name == "n0")) for node in cluster.nodes)
    cluster = replace(cluster, nodes=nodes)
    urgent = UrgentJob(job=cluster.jobs[0])
    request = request_for(Commitments(cluster=cluster), urgent, "test", NOW_S + 600.0, 3600.0)
    assert request.free == ("n1", "n2")


def test_jobs_leave_a_node_that_sleeps_first_so_early_that_it_can_wake(
    waiting: Build, running: Build, cluster_of: BuildCluster
) -> None:
    """Slurm switches a node off (POWER_DOWN) as soon as its job has left, and only then wakes it."""
    cluster = cluster_of(2, running("a", "n0"), running("b", "n1"), waiting("u", 1))
    nodes = (
        replace(node, wake_s=300.0 * (node.name == "n0"), sleeps_first=node.name == "n0")
        for node in cluster.nodes
    )
    cluster = replace(cluster, nodes=tuple(nodes))
    urgent = UrgentJob(job=cluster.jobs_by_id()["u"])
    for left_s, times_s in ((-1.0, [-1.0]), (0.0, [0.0]), (300.0, [300.0]), (301.0, [301.0, 1.0])):
        found = requests_for(
            Commitments(cluster=cluster),
            urgent,
            "test",
            NOW_S + left_s,
            start_within_s=600.0,
            hold_slack_s=600.0,
        )
        assert [one.deadline_s - NOW_S for one in found] == times_s
        assert {one.latest_start_s - NOW_S for one in found} == {left_s}
        assert ["n0" in one.unusable for one in found] == [left_s >= 0.0, False][: len(found)]
        assert not any("n1" in one.unusable for one in found)
