"""Which nodes the arbiter lets an operation hold, and which reservations it releases."""

from dataclasses import replace

import pytest

from makeway.policies.model import (
    Limits,
    Notice,
    OperationKind,
    Phase,
    Reason,
    Release,
    Reservation,
)
from makeway.policies.safety.protection import Refusal
from tests.policies.gate.gate import BuildCluster, hold, operation, refusals


def test_holds(cluster_of: BuildCluster) -> None:
    cluster = cluster_of(8, limits=Limits(max_nodes=3))
    assert refusals((hold("u", "n0 n1 n2"),), cluster) == [None]
    assert refusals((hold("u", "n0 n1 n2 n3"),), cluster) == [Refusal.MAX_NODES]
    assert refusals((hold("u", "n0 n1"), hold("v", "n2 n3")), cluster) == [None, Refusal.MAX_NODES]
    assert refusals((hold("u", "n0"), hold("v", "n0")), cluster) == [None, Refusal.NODE_TAKEN]
    assert refusals((hold("u", "n0", name="maintenance"),), cluster) == [Refusal.NOT_OURS]


def test_holds_next_to_reservations(cluster_of: BuildCluster) -> None:
    def reservation(name: str, nodes: str, start_s: float = 0.0, end_s: float = 20_000.0) -> Reservation:
        return Reservation(name=name, nodes=tuple(nodes.split()), start_s=start_s, end_s=end_s)

    foreign = cluster_of(8, reservations=(reservation("maintenance", "n0 n1"),))
    assert refusals((hold("u", "n1 n2"),), foreign) == [Refusal.NODE_TAKEN]
    assert refusals((hold("u", "n2 n3"),), foreign) == [None]
    over = cluster_of(8, reservations=(reservation("maintenance", "n0 n1", end_s=10_000.0),))
    assert refusals((hold("u", "n1 n2"),), over) == [None]
    limits = Limits(max_nodes=4)
    ours = cluster_of(8, reservations=(reservation("mw_v", "n0 n1"),), limits=limits)
    assert refusals((hold("u", "n1"),), ours) == [Refusal.NODE_TAKEN]
    assert refusals((hold("u", "n2 n3 n4"),), ours) == [Refusal.MAX_NODES]
    assert refusals((hold("v", "n1 n2 n3 n4"),), ours) == [None], "its own old hold is replaced"
    theirs = replace(foreign, limits=limits)
    assert refusals((hold("u", "n2 n3 n4 n5"),), theirs) == [None], "the site's nodes do not count"
    for start_s, end_s in ((0.0, 10_000.0), (10_001.0, 20_000.0)):
        other = cluster_of(8, reservations=(reservation("mw_v", "n0 n1", start_s, end_s),), limits=limits)
        assert refusals((hold("u", "n1 n2 n3 n4"),), other) == [None], "it is over, or has not begun"


@pytest.mark.parametrize(
    ("kind", "phase", "observe", "expected"),
    [
        (OperationKind.MAKE_WAY, Phase.MAKING_ROOM, False, Refusal.NODE_TAKEN),
        (OperationKind.MAKE_WAY, Phase.LENT, False, Refusal.NODE_TAKEN),
        (OperationKind.MAKE_WAY, Phase.RETURNING, False, None),
        (OperationKind.MAKE_WAY, Phase.MAKING_ROOM, True, None),
        (OperationKind.MAKE_WAY_SHARED, Phase.MAKING_ROOM, False, Refusal.NODE_TAKEN),
        (OperationKind.MAKE_WAY_SHARED, Phase.LENT, False, None),
    ],
)
def test_a_hold_that_was_issued_and_not_yet_seen_counts(
    cluster_of: BuildCluster, kind: OperationKind, phase: Phase, observe: bool, expected: Refusal | None
) -> None:
    under_way = operation(phase=phase, nodes="n0 n1", observe=observe)
    cluster = cluster_of(8, operations=(replace(under_way, kind=kind),))
    assert refusals((hold("v", "n1"),), cluster) == [expected]


def test_nodes_that_one_decision_releases_may_be_held_for_another_job(cluster_of: BuildCluster) -> None:
    """The release is sent first. Without it the nodes are taken."""
    held = Reservation(name="mw_u", nodes=("n0", "n1"), start_s=0.0, end_s=20_000.0)
    cluster = cluster_of(8, reservations=(held,), limits=Limits(max_nodes=2))
    release = Release(job_id="u", for_job_id="u", policy="test", reason=Reason.NO_ROOM, reservation="mw_u")
    assert refusals((hold("v", "n0 n1"),), cluster) == [Refusal.NODE_TAKEN]
    assert refusals((release, hold("v", "n0 n1")), cluster) == [None, None]
    assert refusals((release, hold("v", "n2 n3")), cluster) == [None, None], "they do not count any more"


def test_only_makeway_s_reservations_are_released(cluster_of: BuildCluster) -> None:
    release = Release(
        job_id="u", for_job_id="u", policy="test", reason=Reason.ORPHANED, reservation="maintenance"
    )
    cluster = cluster_of(1)
    assert refusals((release, replace(release, reservation="mw_u")), cluster) == [Refusal.NOT_OURS, None]


def test_a_name_alone_does_not_make_a_reservation_makeway_s(cluster_of: BuildCluster) -> None:
    """The adapter has looked at its flags and its shape."""
    theirs = Reservation(name="mw_1", nodes=("n0",), start_s=0.0, end_s=20_000.0, owned=False)
    cluster = cluster_of(4, reservations=(theirs,))
    release = Release(job_id="1", for_job_id="1", policy="test", reason=Reason.ORPHANED, reservation="mw_1")
    assert refusals((release,), cluster) == [Refusal.NOT_OURS]
    assert refusals((hold("1", "n1"),), cluster) == [Refusal.NOT_OURS]
    assert refusals((hold("u", "n0"),), cluster) == [Refusal.NODE_TAKEN]


def test_a_hold_of_another_prefix_is_makeway_s_while_its_operation_is_open(cluster_of: BuildCluster) -> None:
    """An earlier version opened it, whose holds had other names."""
    opened = operation(phase=Phase.MAKING_ROOM, nodes="n0")
    cluster = replace(cluster_of(4), reservation_prefix="makeway_c.")
    release = Release(job_id="u", for_job_id="u", policy="test", reason=Reason.ORPHANED, reservation="mw_u")
    assert refusals((release,), cluster) == [Refusal.NOT_OURS]
    assert refusals((release,), replace(cluster, operations=(opened,))) == [None]
    assert refusals((hold("v", "n1", name="makeway_c.v"),), cluster) == [None]
    assert refusals((hold("v", "n1"),), cluster) == [Refusal.NOT_OURS]


def test_the_hold_of_a_task_that_is_there_again_is_that_of_the_next_task(cluster_of: BuildCluster) -> None:
    """An operation for the next task of an array keeps the reservation of the task before."""
    passed_on = replace(operation(), for_job_id="7_1", reservation="mw_7_0")
    cluster = cluster_of(8, operations=(passed_on,))
    assert refusals((hold("7_0", "n1"),), cluster) == [Refusal.NODE_TAKEN]
    assert refusals((hold("7_1", "n1", name="mw_7_0"),), cluster) == [None]


def test_the_hold_for_an_announced_job_counts_as_what_it_will_keep(cluster_of: BuildCluster) -> None:
    """Jobs leave its nodes one after another, so that it may have more nodes than the announced job asks."""
    notice = Notice(
        notice_id="u", user="beam", node_count=2, walltime_s=60.0, announced_s=0.0, expected_s=10_500.0
    )
    gathers = replace(operation(nodes="n0 n1 n2"), kind=OperationKind.NOTICE)
    cluster = cluster_of(8, operations=(gathers,), notices=(notice,), limits=Limits(max_nodes=3))
    assert refusals((hold("v", "n3"),), cluster) == [None]
    assert refusals((hold("v", "n3 n4"),), cluster) == [Refusal.MAX_NODES]
    few = replace(cluster, operations=(replace(gathers, nodes=("n0",)),))
    assert refusals((hold("v", "n3 n4"),), few) == [None], "it has no more yet"
    others = replace(cluster, notices=(replace(notice, notice_id="w"),))
    assert refusals((hold("v", "n3"),), others) == [Refusal.MAX_NODES], "the announcement is another one"
    arrived = replace(cluster, notices=(replace(notice, job_id="7"),))
    assert refusals((hold("v", "n3"),), arrived) == [Refusal.MAX_NODES], "its job is here"


def test_jobs_that_started_before_their_turn_count_once(cluster_of: BuildCluster) -> None:
    """They are on their nodes after their holds have ended."""
    early = replace(
        operation(phase=Phase.LENT, nodes="n0 n1"), kind=OperationKind.EARLY_START, for_job_id="e"
    )
    limits = Limits(max_nodes=3)
    cluster = cluster_of(8, operations=(early,), limits=limits)
    assert refusals((hold("v", "n3 n4"),), cluster) == [Refusal.MAX_NODES]
    assert refusals((hold("v", "n3"),), cluster) == [None]
    kept = Reservation(name="mw_u", nodes=("n0", "n1"), start_s=0.0, end_s=20_000.0)
    assert refusals((hold("v", "n3"),), replace(cluster, reservations=(kept,))) == [None], "not twice"
    lent = replace(early, reservation="mw_e", out_of=("mw_u",))
    both = replace(cluster, operations=(lent,), reservations=(kept,))
    assert refusals((hold("v", "n3"),), both) == [None], "its nodes are in the hold of its lender"
    observed = replace(cluster, operations=(replace(early, observe=True),))
    assert refusals((hold("v", "n3 n4 n5"),), observed) == [None], "nothing was lent"
