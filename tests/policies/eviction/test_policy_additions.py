"""Policy "eviction" with what the paper leaves open: jobs that shrink, and checkpoints that are written side
by side or are overdue.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.model import (
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Job,
    JobKind,
    Method,
    Reason,
    Shrink,
)

Build = Callable[..., Job]
BuildCluster = Callable[..., Cluster]
from tests.policies.arriving import BOTH, NOW_S, decide, hold, requeue, victims


def malleable(running: Build, job_id: str, nodes: str, smallest: int, **changes: Any) -> Job:
    return running(job_id, nodes, kind=JobKind.MALLEABLE, node_count_min=smallest, **changes)


def test_a_malleable_job_gives_its_last_nodes_before_any_job_leaves(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (running("a", "n0 n1"), malleable(running, "m", "n2 n3 n4 n5", 2))
    decision = decide(cluster_of(7, *jobs, waiting("u", 3)), shrink=True)
    assert decision.actions == (
        hold("u", "n6 n4 n5", 3000.0),
        Shrink(
            job_id="m",
            for_job_id="u",
            policy="eviction",
            reason=Reason.URGENT_ARRIVAL,
            keep_nodes=("n2", "n3"),
            walltime_s=1000.0 + 2 * 19_000.0,
        ),
    )
    (why,) = decision.rationale
    assert why.summary == (
        "2 more nodes are needed: shrink m (by 2 nodes); 0 node-hours are lost and the nodes are free in 0 s."
    )
    assert (why.loss_node_s, why.ready_s) == (0, NOW_S)
    assert [(found.job_ids, found.method, found.node_count, found.chosen) for found in why.candidates] == [
        (("a",), Method.KILL, 2, False),
        (("m",), Method.SHRINK, 2, True),
        (("m",), Method.KILL, 4, False),
    ]
    assert why.candidates[1].note == "could give 2 nodes"


def test_shrinking_and_leaving_are_weighed_together(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (
        running("dear", "n0 n1 n2 n3"),
        running("cheap", "n4", start_s=NOW_S - 10.0),
        malleable(running, "m", "n5 n6 n7", 1),
    )
    decision = decide(cluster_of(8, *jobs, waiting("u", 3)), shrink=True)
    assert decision.actions[0] == hold("u", "n4 n6 n7", 3000.0)
    assert victims(decision) == [("cheap", Method.KILL)]
    assert [action.job_id for action in decision.actions if isinstance(action, Shrink)] == ["m"]
    assert decision.rationale[0].loss_node_s == 10
    assert decision.rationale[0].summary.startswith(
        "3 more nodes are needed: evict cheap (1 node, killed) and shrink m (by 2 nodes); "
    )
    whole = decide(cluster_of(8, *jobs, waiting("u", 3)))
    assert victims(whole) == [("m", Method.KILL)]
    assert Method.SHRINK not in {found.method for found in whole.rationale[0].candidates}


def test_who_cannot_shrink_leaves_whole(running: Build, waiting: Build, cluster_of: BuildCluster) -> None:
    """At its smallest size; on shared nodes; the batch host alone; a rigid job."""
    for jobs in (
        (malleable(running, "m", "n0 n1", 2),),
        (malleable(running, "m", "n0 n1", 1), running("n", "n1")),
        (running("m", "n0 n1", node_count_min=1),),
    ):
        decision = decide(cluster_of(2, *jobs, waiting("u", 1)), shrink=True)
        assert not [action for action in decision.actions if isinstance(action, Shrink)]
        assert ("m", Method.KILL) in victims(decision)
    only_host = waiting("u", 1, eligible_nodes=frozenset({"n0"}))
    assert victims(decide(cluster_of(2, malleable(running, "m", "n0 n1", 1), only_host), shrink=True)) == [
        ("m", Method.KILL)
    ]


def test_checkpoints_that_do_not_fill_the_file_system_are_planned_together(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Three of 200 s each within 570 s: each writes with a third of the bandwidth, all at the same time."""
    spec = CheckpointSpec(system_s=200.0, grace_s=210.0)
    jobs = [running(name, node, checkpoint=spec) for name, node in (("a", "n0"), ("b", "n1"), ("c", "n2"))]
    cluster = cluster_of(3, *jobs, waiting("u", 3))
    assert victims(decide(cluster)) == [("a", Method.KILL), ("b", Method.SYSTEM), ("c", Method.SYSTEM)]
    decision = decide(cluster, checkpoints="concurrent", aggregate_gb_s=30.0, node_gb_s=10.0)
    assert victims(decision) == [(name, Method.SYSTEM) for name in ("a", "b", "c")]
    planned_s = {action.saved_by_s for action in decision.actions if isinstance(action, Checkpoint)}
    assert planned_s == {NOW_S + 210.0}
    assert decision.rationale[0].ready_s == NOW_S + 210.0
    full = decide(cluster, checkpoints="concurrent", aggregate_gb_s=10.0, node_gb_s=10.0)
    assert full == decide(cluster), "one alone fills the file system: nothing is gained"


def test_planned_together_each_may_take_as_long_as_equal_shares_take(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Two that write half of the bandwidth and one that writes all of it: 100 s, 100 s, 100 s are 200 s in
    all.
    """
    spec = CheckpointSpec(system_s=100.0, grace_s=100.0)
    jobs = (
        running("a", "n0", checkpoint=spec),
        running("b", "n1", checkpoint=spec),
        running("c", "n2 n3", checkpoint=spec),
    )
    cluster = cluster_of(4, *jobs, waiting("u", 4, start_within_s=240.0))
    settings = {"checkpoints": "concurrent", "aggregate_gb_s": 20.0, "node_gb_s": 10.0}
    assert Method.KILL in {method for _, method in victims(decide(cluster))}
    decision = decide(cluster, **settings)
    assert {method for _, method in victims(decision)} == {Method.SYSTEM}
    planned_s = {action.saved_by_s for action in decision.actions if isinstance(action, Checkpoint)}
    assert planned_s == {NOW_S + 210.0}, "200 s, in whole steps"


def test_waits_for_regular_checkpoints_are_planned_together(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    spec = replace(BOTH, system_s=None)
    jobs = [
        running(name, node, checkpoint=spec, last_checkpoint_s=NOW_S - 230.0)
        for name, node in (("a", "n0"), ("b", "n1"))
    ]
    cluster = cluster_of(2, *jobs, waiting("u", 2))
    assert victims(decide(cluster)) == [("a", Method.KILL), ("b", Method.APPLICATION)]
    decision = decide(cluster, checkpoints="concurrent", aggregate_gb_s=100.0, node_gb_s=10.0)
    assert victims(decision) == [("a", Method.APPLICATION), ("b", Method.APPLICATION)]


def test_serial_checkpoints_are_preferred_unless_concurrent_ones_lose_less(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """One job can only be killed. The others checkpoint in time either way, and faster together."""
    spec = CheckpointSpec(system_s=120.0, grace_s=10.0)
    jobs = [running(name, node, checkpoint=spec) for name, node in (("a", "n0"), ("b", "n1"))]
    cluster = cluster_of(3, *jobs, running("killed", "n2"), waiting("u", 3))
    serial = decide(cluster)
    assert victims(serial) == [("a", Method.SYSTEM), ("b", Method.SYSTEM), ("killed", Method.KILL)]
    assert serial.rationale[0].ready_s == NOW_S + 240.0
    concurrent = decide(cluster, checkpoints="concurrent", aggregate_gb_s=30.0, node_gb_s=10.0)
    assert concurrent == serial


@pytest.mark.parametrize(
    ("system_s", "grace_s", "leave_s", "kill_s"),
    [
        (100.0, 0.0, 60.0, 510.0),  # it has left by the margin before the deadline
        (100.0, 0.0, 0.0, 570.0),
        (100.0, 0.0, 500.0, 120.0),  # the checkpoint has its time, in steps of 30 s
        (530.0, 0.0, 60.0, 540.0),
        (570.0, 0.0, 60.0, 570.0),
        (100.0, 550.0, 60.0, 550.0),  # the job has its grace
        (100.0, 580.0, 60.0, 570.0),
    ],
)
def test_a_job_whose_checkpoint_is_overdue_is_killed_so_early_that_the_start_is_on_time(
    running: Build,
    waiting: Build,
    cluster_of: BuildCluster,
    system_s: float,
    grace_s: float,
    leave_s: float,
    kill_s: float,
) -> None:
    """A kill takes `leave_s`."""
    spec = CheckpointSpec(system_s=system_s, grace_s=grace_s)
    cluster = cluster_of(1, running("a", "n0", checkpoint=spec), waiting("u", 1))
    signal, leave = decide(cluster, leave_s=leave_s).actions[1:]
    assert leave == requeue("a", "u", Method.SYSTEM, NOW_S + kill_s)
    assert isinstance(signal, Checkpoint)
    assert (signal.grace_s, signal.until_s) == (kill_s, NOW_S + kill_s)


def test_a_regular_checkpoint_that_does_not_come_is_waited_for_as_long(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    spec = replace(BOTH, system_s=None)
    job = running("a", "n0", checkpoint=spec, last_checkpoint_s=NOW_S - 580.0)
    for leave_s, kill_s in ((0.0, 570.0), (60.0, 510.0), (500.0, 70.0), (600.0, 60.0)):
        decision = decide(cluster_of(1, job, waiting("u", 1)), leave_s=leave_s)
        assert decision.actions[1:] == (requeue("a", "u", Method.APPLICATION, NOW_S + kill_s),)
