"""Which urgent jobs need nodes, which jobs may be evicted for them, and what that costs."""

from dataclasses import replace

import pytest

from makeway.policies.common.holds import shortfall
from makeway.policies.common.urgent_jobs import UrgentJob, unavailable_nodes, urgent_jobs
from makeway.policies.common.victims import SharedCandidates, victim_groups
from makeway.policies.model import (
    NO_RESOURCES,
    Candidate,
    CheckpointSpec,
    JobKind,
    JobState,
    Limits,
    Node,
    NodeState,
    OperationKind,
    Phase,
    Progress,
    Reservation,
)
from tests.policies.common.operations import NOW_S, Build, BuildCluster, operation


def test_urgent_requests_come_in_the_order_of_submission(waiting: Build, cluster_of: BuildCluster) -> None:
    jobs = (
        waiting("late", 1),
        waiting("b", 1, submit_s=9_000.0),
        waiting("a", 1, submit_s=9_000.0),
        waiting("later", 1, eligible_s=NOW_S + 1.0),
        waiting("now", 1, eligible_s=NOW_S),
        waiting("runs", 1, state=JobState.RUNNING, nodes=("n0",), start_s=9_000.0),
        waiting("batch", 1, kind=JobKind.RIGID),
        waiting("served", 1),
        waiting("watched", 1),
    )
    operations = (operation("served", "n1"), operation("watched", "n9", observe=True))
    found = urgent_jobs(cluster_of(4, *jobs, operations=operations))
    assert [urgent.job.job_id for urgent in found] == ["a", "b", "late", "now"]
    assert all(urgent.operation is None and urgent.missing == 1 for urgent in found)


@pytest.mark.parametrize("phase", [Phase.LENT, Phase.RETURNING])
def test_only_an_operation_that_makes_room_can_lack_nodes(
    waiting: Build, cluster_of: BuildCluster, phase: Phase
) -> None:
    cluster = cluster_of(2, waiting("u", 1), operations=(operation("u", "n9", phase=phase),))
    assert urgent_jobs(cluster) == ()


def test_a_closed_operation_is_none(waiting: Build, cluster_of: BuildCluster) -> None:
    cluster = cluster_of(2, waiting("u", 1), operations=(operation("u", "n0", phase=Phase.CLOSED),))
    assert [urgent.operation for urgent in urgent_jobs(cluster)] == [None]


def test_of_two_operations_of_a_job_the_one_that_holds_nodes_counts(
    waiting: Build, cluster_of: BuildCluster
) -> None:
    holds = operation("u", "n9")
    cleans = replace(operation("u", ""), operation_id="u@2", reservation="", kind=OperationKind.CLEAN_UP)
    for operations in ((holds, cleans), (cleans, holds)):
        cluster = cluster_of(2, waiting("u", 1), operations=operations)
        assert [urgent.operation for urgent in urgent_jobs(cluster)] == [holds]


def test_shortfall(running: Build, waiting: Build, cluster_of: BuildCluster) -> None:
    jobs = (running("victim", "n0"), running("intruder", "n1"), running("leaves", "n2"))
    cluster = cluster_of(6, *jobs, waiting("u", 6))
    cluster = replace(
        cluster,
        jobs=(*cluster.jobs[:2], replace(jobs[2], state=JobState.COMPLETING), cluster.jobs[3]),
        nodes=(
            *cluster.nodes[:4],
            Node(name="n4", state=NodeState.DRAINED),
            Node(name="n5", state=NodeState.DOWN),
        ),
    )
    held = operation("u", "n5 n0 n1 n2 n3 n4 n7", "victim")
    assert shortfall(held, cluster) == ("n5", "n1", "n4", "n7")
    (urgent,) = urgent_jobs(replace(cluster, operations=(held,)))
    assert urgent == UrgentJob(job=cluster.jobs[3], operation=held, kept_nodes=("n0", "n2", "n3"))
    assert urgent.missing == 3


@pytest.mark.parametrize(
    ("progress", "lost"),
    [
        (Progress.PLANNED, ()),
        (Progress.ISSUING, ()),
        (Progress.ACCEPTED, ()),
        (Progress.DONE, ("n0",)),
        (Progress.REFUSED, ("n0",)),
        (Progress.GONE, ("n0",)),
        (Progress.DROPPED, ("n0",)),
    ],
)
def test_a_victim_that_will_not_leave_costs_its_node(
    running: Build, cluster_of: BuildCluster, progress: Progress, lost: tuple[str, ...]
) -> None:
    held = operation("u", "n0 n1", "victim", progress=progress)
    assert shortfall(held, cluster_of(2, running("victim", "n0"))) == lost


def test_the_urgent_job_on_its_own_nodes_is_no_shortfall(waiting: Build, cluster_of: BuildCluster) -> None:
    job = waiting("u", 1, state=JobState.RUNNING, nodes=("n0",), start_s=NOW_S)
    assert shortfall(operation("u", "n0"), cluster_of(2, job)) == ()


def test_deadline(waiting: Build) -> None:
    job = waiting("u", 1)
    assert UrgentJob(job=job).deadline_s(600.0) == NOW_S + 600.0
    assert UrgentJob(job=replace(job, start_within_s=5.0)).deadline_s(600.0) == NOW_S + 5.0
    assert UrgentJob(job=job, operation=operation("u", "n0")).deadline_s(600.0) == NOW_S + 500.0
    ends_soon = replace(job, start_by_s=NOW_S + 60.0)
    assert UrgentJob(job=ends_soon).deadline_s(600.0) == NOW_S + 60.0
    assert UrgentJob(job=replace(ends_soon, start_within_s=5.0)).deadline_s(600.0) == NOW_S + 5.0


def test_a_node_that_is_freed_for_another_operation_is_no_shortfall(
    running: Build, cluster_of: BuildCluster
) -> None:
    held = operation("v", "n1")
    first = operation("u", "n0", "a")
    job = running("a", "n0 n1")
    assert shortfall(held, cluster_of(2, job, operations=(first, held))) == ()
    over = replace(first, phase=Phase.RETURNING)
    assert shortfall(held, cluster_of(2, job, operations=(over, held))) == ("n1",)


def test_nodes_that_are_held_for_other_jobs(waiting: Build, cluster_of: BuildCluster) -> None:
    def reservation(name: str, node: str, start_s: float, end_s: float = 90_000.0) -> Reservation:
        return Reservation(name=name, nodes=(node,), start_s=start_s, end_s=end_s)

    cluster = cluster_of(
        20,
        reservations=(
            reservation("site_now", "n0", 0.0),
            reservation("site_soon", "n1", NOW_S + 99.0),
            reservation("site_later", "n2", NOW_S + 100.0),
            reservation("site_over", "n3", 0.0, NOW_S),
            reservation("mw_v", "n4", 0.0),
            reservation("mw_u", "n5", 0.0),
        ),
        operations=(
            operation("u", "n6"),
            operation("v", "n7"),
            operation("w", "n8", phase=Phase.LENT),
            operation("x", "n9", phase=Phase.RETURNING),
            operation("y", "n10", observe=True),
            operation("z", "n11", phase=Phase.LENT, observe=True),
        ),
    )
    urgent = UrgentJob(job=waiting("u", 1), operation=cluster.operations[0])
    taken = unavailable_nodes(cluster, urgent, until_s=NOW_S + 100.0)
    assert set(taken) == {"n0", "n1", "n4", "n7", "n8", "n10"}


def test_groups_have_the_nodes_that_would_serve_and_their_cost(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    spec = CheckpointSpec(system_s=50.0, interval_s=600.0, application_s=20.0)
    jobs = (
        running("b", "n0 n1 n2", checkpoint=spec, last_checkpoint_s=NOW_S - 100.0),
        running("a", "n3", preemptible=False),
        running("c", "n4", start_s=NOW_S - 10.0),
        running("d", "n5 n6"),
        running("e", "n7"),
    )
    cluster = cluster_of(9, *jobs, limits=Limits(min_runtime_s=60.0))
    nodes = list(cluster.nodes)
    nodes[2] = Node(name="n2", state=NodeState.DRAINED)
    cluster = replace(cluster, nodes=tuple(nodes))
    urgent = UrgentJob(job=waiting("u", 9, eligible_nodes=frozenset({f"n{index}" for index in range(7)})))
    found = victim_groups(cluster, urgent, unusable={"n6"}, excluded={"d"})
    assert [(group.job_ids, group.nodes, group.protected_by) for group in found] == [
        (("a",), ("n3",), "not_preemptible"),
        (("b",), ("n0", "n1"), ""),
        (("c",), ("n4",), "min_runtime"),
        (("d",), ("n5",), "committed to another operation"),
    ]
    assert (found[1].loss_node_s, found[1].system_s, found[1].application_s) == (300, 50.0, 520.0)


def test_nodes_that_the_operation_keeps_are_no_use_twice(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(3, running("a", "n0 n1"))
    urgent = UrgentJob(job=waiting("u", 2), operation=operation("u", "n0 n2"), kept_nodes=("n0",))
    assert [group.nodes for group in victim_groups(cluster, urgent, unusable=set(), excluded=set())] == [
        ("n1",)
    ]


def test_jobs_that_share_nodes_leave_together(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    saves = CheckpointSpec(system_s=50.0, interval_s=600.0, application_s=20.0)
    jobs = (
        running("d", "n0 n1", checkpoint=saves),
        running("b", "n1 n2", checkpoint=saves),
        running("a", "n4 n5", checkpoint=saves),
        running("c", "n2 n5"),
        running("e", "n6", checkpoint=saves),
    )
    found = victim_groups(
        cluster_of(8, *jobs), UrgentJob(job=waiting("u", 5)), unusable=set(), excluded=set()
    )
    chain, single = found
    assert chain.job_ids == ("a", "b", "c", "d")
    assert sorted(chain.nodes) == ["n0", "n1", "n2", "n4", "n5"], "each node once"
    assert chain.loss_node_s == 4 * 2000
    assert (chain.system_s, chain.application_s) == (None, None), "c has no checkpoint"
    assert single.job_ids == ("e",)
    assert single.application_s is not None
    without_c = cluster_of(8, *(job for job in jobs if job.job_id != "c"))
    pair = victim_groups(without_c, UrgentJob(job=waiting("u", 5)), unusable=set(), excluded=set())[1]
    assert (pair.job_ids, pair.system_s, pair.application_s) == (("b", "d"), 100.0, None)


def test_a_group_is_protected_by_any_of_its_jobs(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = cluster_of(4, running("a", "n1"), running("b", "n1", state=JobState.SUSPENDED))
    (group,) = victim_groups(cluster, UrgentJob(job=waiting("u", 2)), unusable=set(), excluded=set())
    assert group.protected_by == "job b: not_running"


def test_a_job_that_stays_keeps_its_own_nodes_alone(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Without their nodes, jobs that share something with it leave as others do."""
    jobs = (
        running("a", "n0 n1"),
        running("b", "n1 n2"),
        running("c", "n2 n3", preemptible=False),
        running("d", "n3 n4 n5"),
        running("e", "n5"),
        running("f", "n3"),
    )
    urgent = UrgentJob(job=waiting("u", 2))
    found = victim_groups(cluster_of(6, *jobs), urgent, unusable=set(), excluded=set())
    assert [(group.job_ids, sorted(group.nodes), group.protected_by) for group in found] == [
        (("a", "b"), ["n0", "n1"], ""),
        (("c", "f"), ["n2", "n3"], "job c: not_preemptible"),
        (("d", "e"), ["n4", "n5"], ""),
    ]
    committed = victim_groups(cluster_of(6, *jobs), urgent, unusable=set(), excluded={"b"})
    assert [group.job_ids for group in committed if not group.protected_by] == [("a",), ("d", "e")]


def test_what_keeps_a_job_from_leaving_is_told_for_each_urgent_job(running: Build) -> None:
    job, known = running("a", "n0 n1"), dict[tuple[str, int, str], Candidate]()
    for nodes, why in ((("n0",), "one"), (("n0",), "another"), (("n0", "n1"), "another")):
        found = SharedCandidates(
            room=dict.fromkeys(nodes, NO_RESOURCES),
            jobs=(job,),
            holders=(job,),
            numbers=(0,),
            protected_by={"a": why},
        )
        (told,) = found.protected(known)
        assert (told.note, told.node_count) == (why, len(nodes))
        assert found.protected(known)[0] is told
