"""Jobs that open operations need, jobs that leave, and the nodes that come free."""

from dataclasses import replace

import pytest

from makeway.policies.common.departures import (
    NodeRelease,
    committed,
    ends_by,
    node_releases,
    releasing_nodes,
)
from makeway.policies.model import (
    Expand,
    JobState,
    Phase,
    Progress,
    Reason,
    Requeue,
    Shrink,
    Task,
)
from tests.policies.common.operations import NOW_S, Build, BuildCluster, operation


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (Progress.PLANNED, True),
        (Progress.ISSUING, True),
        (Progress.ACCEPTED, True),
        (Progress.REFUSED, True),
        (Progress.DONE, False),
        (Progress.GONE, False),
        (Progress.DROPPED, False),
    ],
)
def test_a_job_that_an_open_operation_needs_is_committed(
    cluster_of: BuildCluster, progress: Progress, expected: bool
) -> None:
    under_way = operation("u", "n0", "a", progress=progress)
    assert committed(cluster_of(4, operations=(under_way,))) == ({"a"} if expected else set())
    closed = replace(under_way, phase=Phase.CLOSED)
    assert committed(cluster_of(4, operations=(closed,))) == frozenset()


def test_a_lender_that_is_growing_back_is_committed(cluster_of: BuildCluster) -> None:
    expand = Expand(
        job_id="a",
        for_job_id="u",
        policy="test",
        reason=Reason.BORROWER_ENDED,
        nodes=("n0",),
        reservation="mw_u",
    )
    returning = replace(operation("u", "n0", phase=Phase.RETURNING), tasks=(Task(action=expand),))
    assert committed(cluster_of(4, operations=(returning,))) == {"a"}
    done = replace(returning, tasks=(Task(action=expand, progress=Progress.DONE),))
    assert committed(cluster_of(4, operations=(done,))) == frozenset()


def test_departures_and_the_nodes_that_come_free(running: Build, cluster_of: BuildCluster) -> None:
    shrink = Shrink(
        job_id="m",
        for_job_id="v",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        keep_nodes=("n4",),
        walltime_s=9_000.0,
    )
    later = operation("u", "n0", "a", "b")
    later = replace(
        later,
        tasks=tuple(
            replace(task, action=replace(task.action, not_after_s=NOW_S + 50.0)) if index else task
            for index, task in enumerate(later.tasks)
            if isinstance(task.action, Requeue)
        ),
    )
    operations = (
        later,
        replace(operation("v", "n5"), tasks=(Task(action=shrink),)),
        operation("w", "n9", "watched", observe=True),
        operation("x", "n9", "left", progress=Progress.DONE),
        operation("y", "n9", "dropped", phase=Phase.RETURNING),
        operation("z", "n9", "asked", phase=Phase.RETURNING, progress=Progress.ACCEPTED),
    )
    jobs = (
        running("a", "n0 n1 n2"),
        running("b", "n2 n3"),
        running("c", "n3"),
        running("m", "n4 n5 n6"),
        running("asked", "n7"),
        running("watched", "n8"),
    )
    cluster = cluster_of(10, *jobs, operations=operations)
    leaves = node_releases(cluster)
    assert sorted(leaves) == ["a", "asked", "b", "m"]
    assert leaves["m"] == NodeRelease(by_s=NOW_S, kept_nodes=frozenset({"n4"}))
    assert releasing_nodes(cluster, leaves) == {
        "n0": NOW_S,
        "n1": NOW_S,
        "n2": NOW_S + 50.0,
        "n5": NOW_S,
        "n6": NOW_S,
        "n7": NOW_S,
    }, "c stays on n3, and m keeps n4"
    assert releasing_nodes(cluster, {}) == {}


def test_the_limit_of_a_suspended_job_does_not_come_nearer(running: Build, cluster_of: BuildCluster) -> None:
    jobs = [running(name, name, start_s=NOW_S - 900.0, walltime_s=1000.0) for name in ("n0", "n1")]
    jobs[1] = replace(jobs[1], state=JobState.SUSPENDED)
    assert list(ends_by(cluster_of(2, *jobs), NOW_S + 100.0)) == ["n0"]
