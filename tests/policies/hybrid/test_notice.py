"""What CUA and CUP want held, and which jobs they evict, as values."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.hybrid.policy import CUA_PAA, CUA_SPAA, CUP_PAA
from makeway.policies.model import (
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    JobKind,
    Method,
    Notice,
    Operation,
    OperationKind,
    Prioritise,
    Progress,
    Reason,
    Release,
    Requeue,
    Reservation,
    Reserve,
    Shrink,
    Task,
)

Build = Callable[..., Job]
BuildCluster = Callable[..., Cluster]
NOW_S = 10_000.0
REGULAR = CheckpointSpec(interval_s=900.0, application_s=100.0)
WARNED = CheckpointSpec(system_s=120.0)


def announced(notice_id: str = "notice-1", node_count: int = 3, **changes: Any) -> Notice:
    notice = Notice(
        notice_id=notice_id,
        user="urgent",
        node_count=node_count,
        walltime_s=1800.0,
        announced_s=NOW_S - 60.0,
        expected_s=NOW_S + 1200.0,
    )
    return replace(notice, **changes)


def hold(notice: Notice, nodes: str, policy: str = "cua-paa") -> Reserve:
    return Reserve(
        job_id=notice.notice_id,
        for_job_id=notice.notice_id,
        policy=policy,
        reason=Reason.ANNOUNCED,
        reservation=f"mw_{notice.notice_id}",
        nodes=tuple(nodes.split()),
        duration_s=notice.expected_s - NOW_S + 600.0,
        user="urgent",
        kind=OperationKind.NOTICE,
    )


def collecting(notice: Notice, nodes: str, *leaving: Requeue) -> Operation:
    """The operation of a notice that holds these nodes."""
    tasks = (Task(action=hold(notice, nodes), progress=Progress.DONE), *(Task(action=one) for one in leaving))
    return Operation(
        operation_id=f"{notice.notice_id}@1",
        kind=OperationKind.NOTICE,
        for_job_id=notice.notice_id,
        policy="cua-paa",
        reservation=f"mw_{notice.notice_id}",
        nodes=tuple(nodes.split()),
        opened_s=NOW_S - 60.0,
        deadline_s=notice.expected_s,
        give_up_s=notice.expected_s + 600.0,
        tasks=tasks,
        notice=notice,
    )


def with_holds(cluster: Cluster, *operations: Operation) -> Cluster:
    """The cluster with these operations, and their reservations as they are meant to be."""
    kept = tuple(
        Reservation(name=one.reservation, nodes=one.nodes, start_s=NOW_S - 60.0, end_s=NOW_S + 1800.0)
        for one in operations
    )
    notices = {one.notice.notice_id: one.notice for one in operations if one.notice is not None}
    known = {notice.notice_id for notice in cluster.notices}
    more = tuple(notice for key, notice in notices.items() if key not in known)
    return replace(cluster, operations=operations, reservations=kept, notices=(*cluster.notices, *more))


def cua(cluster: Cluster) -> Decision:
    return CUA_PAA.decide(cluster, HybridConfig())


def cup(cluster: Cluster) -> Decision:
    return CUP_PAA.decide(cluster, HybridConfig())


def test_enough_free_nodes_are_held_and_no_more(running: Build, cluster_of: BuildCluster) -> None:
    notice = announced(node_count=2)
    decision = cua(cluster_of(5, running("a", "n1 n2"), notices=(notice,)))
    assert decision.actions == (hold(notice, "n0 n3"),)
    assert decision.rationale[0].deadline_s == notice.expected_s
    assert decision.again_s is None


def test_cua_spreads_a_net_over_the_busy_nodes(running: Build, cluster_of: BuildCluster) -> None:
    notice = announced(node_count=3)
    jobs = (running("long", "n0 n1", walltime_s=9000.0), running("short", "n3", walltime_s=2000.0))
    assert cua(cluster_of(5, *jobs, notices=(notice,))).actions == (hold(notice, "n2 n4 n0 n1 n3"),)


def test_cua_keeps_what_was_released_once_it_is_enough(running: Build, cluster_of: BuildCluster) -> None:
    notice = announced(node_count=3)
    seen = cluster_of(5, running("long", "n0 n1"))
    assert cua(with_holds(seen, collecting(notice, "n2 n4 n3 n0 n1"))).actions == (hold(notice, "n2 n4 n3"),)
    assert cua(with_holds(seen, collecting(notice, "n2 n4 n3"))).actions == ()


def test_cua_leaves_a_net_as_it_is_while_it_waits(running: Build, cluster_of: BuildCluster) -> None:
    seen = cluster_of(4, running("a", "n0 n1"), running("b", "n2"))
    assert cua(with_holds(seen, collecting(announced(), "n3 n0 n1 n2"))).actions == ()


def test_the_earliest_notice_has_the_net(running: Build, cluster_of: BuildCluster) -> None:
    early, late = announced("notice-2", announced_s=NOW_S - 300.0), announced("notice-1")
    seen = cluster_of(4, running("a", "n0 n1 n2"), notices=(late, early))
    assert cua(seen).actions == (hold(early, "n3 n0 n1 n2"),)
    enough = collecting(early, "n3 n0 n1 n2")
    freed = with_holds(cluster_of(4, running("a", "n2"), notices=(late, early)), enough)
    assert cua(freed).actions == (hold(early, "n3 n0 n1"),), "the rest is seen to be let go first"
    narrowed = with_holds(
        cluster_of(4, running("a", "n2"), notices=(late, early)), collecting(early, "n3 n0 n1")
    )
    assert cua(narrowed).actions == (hold(late, "n2"),)


def test_no_net_is_spread_while_an_earlier_notice_can_have_no_node(
    running: Build, cluster_of: BuildCluster
) -> None:
    early, late = announced("notice-2", announced_s=NOW_S - 300.0, walltime_s=9000.0), announced("notice-1")
    site = Reservation(name="site", nodes=("n0", "n1", "n2"), start_s=NOW_S + 4000.0, end_s=NOW_S + 9000.0)
    seen = cluster_of(3, running("a", "n0 n1 n2"), reservations=(site,), notices=(early, late))
    assert cua(seen).actions == ()
    assert cua(replace(seen, notices=(late,))).actions == (hold(late, "n0 n1 n2"),)


def test_cup_evicts_no_job_for_a_hold_that_gives_a_node_to_a_job_that_is_here(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    notice = announced(node_count=2)
    dear, cheap = running("dear", "n0"), running("cheap", "n1", start_s=NOW_S - 600.0)
    seen = cluster_of(
        3,
        dear,
        cheap,
        running("other", "n2", start_s=NOW_S - 800.0),
        waiting("u", 1, submit_s=notice.expected_s),
    )
    seen = with_holds(replace(seen, now_s=notice.expected_s), collecting(notice, "n0 n1"))
    assert [(type(action), action.for_job_id) for action in cup(seen).actions] == [
        (Release, "notice-1"),
        (Reserve, "u"),
        (Requeue, "u"),
    ]


def test_a_job_that_is_here_takes_what_the_net_has_not_caught(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    notice = announced()
    seen = cluster_of(4, running("a", "n0 n1"), running("b", "n2"), waiting("u", 1))
    decision = cua(with_holds(seen, collecting(notice, "n3 n0 n1 n2")))
    assert [action.for_job_id for action in decision.actions] == ["notice-1", "u", "u"]
    assert decision.actions[0] == hold(notice, "n3 n0 n1")
    assert isinstance(decision.actions[1], Reserve)
    assert decision.actions[1].nodes == ("n2",)


def test_a_net_that_is_taken_whole_is_let_go(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    seen = cluster_of(2, running("a", "n0 n1"), waiting("u", 2))
    decision = cua(with_holds(seen, collecting(announced(), "n0 n1")))
    release = decision.actions[0]
    assert isinstance(release, Release)
    assert (release.job_id, release.reservation) == ("notice-1", "mw_notice-1")
    assert [action.for_job_id for action in decision.actions[1:]] == ["u", "u"]


def arrived(cluster: Cluster, operation: Operation, job_id: str) -> Cluster:
    """The cluster after `job_id` was found to be the announced job."""
    assert operation.notice is not None
    notice = replace(operation.notice, job_id=job_id)
    handed = replace(operation, kind=OperationKind.ARRIVAL, for_job_id=job_id)
    return replace(with_holds(cluster, handed), notices=(notice,))


def test_enough_held_nodes_become_the_jobs_own(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    seen = cluster_of(5, running("a", "n0 n1"), waiting("u", 2))
    decision = cua(arrived(seen, collecting(announced(), "n2 n3 n4"), "u"))
    (bound,) = decision.actions
    assert isinstance(bound, Reserve)
    assert (bound.job_id, bound.user, bound.reason) == ("u", None, Reason.URGENT_FITS)
    assert (bound.reservation, bound.nodes) == ("mw_notice-1", ("n2", "n3"))
    assert bound.duration_s == 600.0 + 1800.0 + 600.0


def test_what_is_missing_at_the_arrival_is_shrunk_or_preempted(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    malleable = running("m", "n0 n1 n2", kind=JobKind.MALLEABLE, node_count_min=1, checkpoint=WARNED)
    seen = arrived(cluster_of(4, malleable, waiting("u", 2)), collecting(announced(), "n3 n0 n1 n2"), "u")
    shrunk = CUA_SPAA.decide(seen, HybridConfig()).actions
    assert isinstance(shrunk[0], Reserve)
    assert shrunk[0].nodes == ("n3", "n2")
    assert [(type(action), action.job_id) for action in shrunk[1:]] == [(Shrink, "m")]
    preempted = cua(seen).actions
    assert [(type(action), action.job_id) for action in preempted] == [
        (Reserve, "u"),
        (Checkpoint, "m"),
        (Requeue, "m"),
    ]


def test_without_room_the_hold_goes_back_and_the_job_to_the_front(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    seen = cluster_of(3, running("a", "n0 n1", preemptible=False), waiting("u", 2))
    decision = cua(arrived(seen, collecting(announced(), "n2 n0 n1"), "u"))
    front, release = decision.actions
    assert isinstance(front, Prioritise)
    assert isinstance(release, Release)
    assert (front.job_id, release.reservation, release.reason) == ("u", "mw_notice-1", Reason.NO_ROOM)


def test_cup_counts_on_the_jobs_that_end_before_the_predicted_arrival(
    running: Build, cluster_of: BuildCluster
) -> None:
    notice = announced(node_count=3)
    jobs = (
        running("late", "n0", walltime_s=2300.0),
        running("soon", "n1", walltime_s=1500.0),
        running("in time", "n2", walltime_s=2200.0),
    )
    decision = cup(cluster_of(4, *jobs, notices=(notice,)))
    assert decision.actions == (hold(notice, "n3 n1 n2", "cup-paa"),)


def test_cup_asks_a_rigid_job_to_leave_after_its_checkpoint_before_the_arrival(
    running: Build, cluster_of: BuildCluster
) -> None:
    notice = announced(node_count=2)
    # Without setup, and started 1000 s ago: the next checkpoint of a period of 1000 s is complete in 0 or
    # 1000 s.
    saver = running("r", "n0", checkpoint=REGULAR, last_checkpoint_s=NOW_S - 200.0, setup_s=10.0)
    costly = running("s", "n2", checkpoint=REGULAR, last_checkpoint_s=NOW_S - 200.0, setup_s=11.0)
    decision = cup(cluster_of(3, saver, costly, notices=(notice,)))
    assert decision.actions[0] == hold(notice, "n1 n0", "cup-paa")
    assert decision.actions[1:] == (
        Requeue(
            job_id="r",
            for_job_id="notice-1",
            policy="cup-paa",
            reason=Reason.ANNOUNCED,
            method=Method.APPLICATION,
            not_after_s=notice.expected_s,
        ),
    )


def test_cup_waits_for_the_last_checkpoint_before_the_arrival(
    running: Build, cluster_of: BuildCluster
) -> None:
    often = CheckpointSpec(interval_s=300.0, application_s=100.0)
    saver = running("r", "n0", checkpoint=often, last_checkpoint_s=NOW_S - 100.0)
    notice = announced(node_count=1)
    decision = cup(cluster_of(1, saver, notices=(notice,)))
    assert decision.actions == (hold(notice, "n0", "cup-paa"),)
    assert decision.again_s == NOW_S + 300.0
    later = replace(cluster_of(1, replace(saver, last_checkpoint_s=NOW_S + 700.0)), now_s=NOW_S + 700.0)
    (_, leave) = cup(with_holds(later, collecting(notice, "n0"))).actions
    assert isinstance(leave, Requeue)
    assert (leave.method, leave.not_after_s) == (Method.APPLICATION, notice.expected_s)


def test_cup_warns_and_kills_only_shortly_before_the_arrival(
    running: Build, cluster_of: BuildCluster
) -> None:
    notice = announced(node_count=2)
    warned = running("m", "n0", kind=JobKind.MALLEABLE, node_count_min=1, checkpoint=WARNED)
    killed = running("k", "n1", last_checkpoint_s=NOW_S - 5.0)
    seen = cluster_of(2, warned, killed, notices=(notice,))
    decision = cup(seen)
    assert decision.actions == (hold(notice, "n0 n1", "cup-paa"),)
    assert decision.again_s == notice.expected_s - 120.0
    then = replace(with_holds(seen, collecting(notice, "n0 n1")), now_s=notice.expected_s - 120.0)
    actions = cup(then).actions
    assert [(type(action), action.job_id) for action in actions] == [
        (Reserve, "notice-1"),
        (Checkpoint, "m"),
        (Requeue, "m"),
        (Requeue, "k"),
    ]
    assert [(action.method, action.not_after_s) for action in actions if isinstance(action, Requeue)] == [
        (Method.SYSTEM, notice.expected_s),
        (Method.KILL, notice.expected_s - 120.0),
    ]


def test_cup_tells_the_real_loss_of_a_job_that_it_spares_for_its_past_evictions(
    running: Build, cluster_of: BuildCluster
) -> None:
    """At the warning, 1,080 s from now, the first would lose 1,180 node-seconds and the second 2,080."""
    notice = announced(node_count=1)
    fresh = running("fresh", "n0", start_s=NOW_S - 100.0, past_evictions=1)
    (why,) = cup(cluster_of(2, fresh, running("stale", "n1", setup_s=20.0), notices=(notice,))).rationale
    assert [(one.job_ids[0], one.chosen, one.loss_node_s, one.note) for one in why.candidates] == [
        ("stale", True, 2080, "ranked by 0.58 node-hours: lost work and the setup"),
        (
            "fresh",
            False,
            1180,
            "ranked by 1.31 node-hours: lost work at its price after 1 past eviction, and the setup",
        ),
    ]


def test_cup_gives_the_whole_warning_even_if_a_cycle_is_late(
    running: Build, cluster_of: BuildCluster
) -> None:
    notice = announced(node_count=1)
    warned = running("m", "n0", kind=JobKind.MALLEABLE, node_count_min=1, checkpoint=WARNED)
    held = with_holds(cluster_of(1, warned, notices=(notice,)), collecting(notice, "n0"))
    late = replace(held, now_s=notice.expected_s - 100.0)
    _, signal, leave = cup(late).actions
    assert isinstance(signal, Checkpoint)
    assert isinstance(leave, Requeue)
    assert (signal.grace_s, leave.method, leave.not_after_s) == (
        120.0,
        Method.SYSTEM,
        notice.expected_s + 20.0,
    )


def test_cup_counts_on_the_jobs_that_it_evicts(running: Build, cluster_of: BuildCluster) -> None:
    notice = announced(node_count=1)
    leave = Requeue(
        job_id="r",
        for_job_id="notice-1",
        policy="cup-paa",
        reason=Reason.ANNOUNCED,
        method=Method.APPLICATION,
        not_after_s=notice.expected_s,
    )
    saver = running("r", "n0", checkpoint=REGULAR, last_checkpoint_s=NOW_S - 200.0)
    assert cup(with_holds(cluster_of(1, saver), collecting(notice, "n0", leave))).actions == ()


def test_cup_evicts_no_job_for_an_arrival_that_it_cannot_serve_or_that_is_past(
    running: Build, cluster_of: BuildCluster
) -> None:
    notice = announced(node_count=3)
    saver = running("r", "n0", checkpoint=REGULAR, last_checkpoint_s=NOW_S - 200.0)
    stays = running("p", "n1", preemptible=False)
    assert cup(cluster_of(3, saver, stays, notices=(notice,))).actions == (hold(notice, "n2", "cup-paa"),)
    past = announced(node_count=2, expected_s=NOW_S - 10.0)
    assert cup(cluster_of(2, saver, notices=(past,))).actions == (
        replace(hold(past, "n1", "cup-paa"), duration_s=600.0),
    )


def test_an_operation_that_cleans_up_for_a_notice_does_not_hide_its_hold(cluster_of: BuildCluster) -> None:
    """The hold has lost a node, which is replaced; no other notice gets what is held."""
    first, second = announced(node_count=2), announced("notice-2", 2, announced_s=NOW_S - 30.0)
    holds = collecting(first, "n0 gone")
    cleans = replace(
        holds, operation_id="2", kind=OperationKind.CLEAN_UP, reservation="", nodes=(), tasks=(), notice=None
    )
    cluster = with_holds(cluster_of(4, notices=(first, second)), holds)
    for operations in ((holds, cleans), (cleans, holds)):
        decision = cua(replace(cluster, operations=operations))
        assert decision.actions == (hold(first, "n0 n1"), hold(second, "n2 n3"))
