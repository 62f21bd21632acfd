"""Policy "eviction" where jobs share nodes: kills wait for as long as the deadline allows."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    LateDeparture,
    Limits,
    Method,
    NodeState,
    OperationKind,
    Postponement,
    Progress,
    Reason,
    Requeue,
    Reservation,
    Reserve,
    Task,
)
from tests.policies.arriving import NOW_S, Build, decide, prioritise, victims
from tests.policies.common.operations import operation
from tests.policies.sharing import amounts, part, shared

LAST_S = 510.0
"""After the submission: the deadline of 600 s without the margin of 30 s and the 60 s of a kill."""


def full(*more: Job, **changes: Any) -> Cluster:
    """A node with one job that has run for 1000 s, and one that may not be evicted."""
    jobs = (part("a", "n0", amounts(8)), part("p", "n1", amounts(8), preemptible=False))
    return shared(*jobs, *more, **changes)


def with_hold(cluster: Cluster, nodes: str = "n0") -> Cluster:
    """The same with the hold that u got when it came."""
    held = replace(operation("u", nodes), kind=OperationKind.MAKE_WAY_SHARED, deadline_s=NOW_S + 600.0)
    names = tuple(nodes.split())
    own = Reservation(name="mw_u", nodes=names, start_s=NOW_S, end_s=NOW_S + 9000.0)
    return replace(cluster, operations=(held,), reservations=(own,))


def after(cluster: Cluster, seconds: float) -> Cluster:
    return replace(cluster, now_s=NOW_S + seconds)


def holds(decision: Decision) -> list[tuple[str, ...]]:
    return [action.nodes for action in decision.actions if isinstance(action, Reserve)]


def test_the_nodes_are_held_and_the_kill_waits(waiting: Build) -> None:
    decision = decide(full(waiting("u", 1, demand=amounts(4))))
    assert holds(decision) == [("n0",)]
    assert len(decision.actions) == 1
    assert decision.again_s == NOW_S + LAST_S
    (why,) = decision.rationale
    assert why.summary.startswith(
        "No job is killed for 510 s, in which there may be room without that. Else: "
    )
    assert "evict a (killed) from n0" in why.summary
    assert (why.loss_node_s, why.ready_s) == (0, NOW_S + LAST_S)
    assert not any(candidate.chosen for candidate in why.candidates)
    killed = LateDeparture(job_id="a", method=Method.KILL, loss_node_s=1000 + 510)
    assert why.postponed == Postponement(until_s=NOW_S + LAST_S, departures=(killed,))
    assert why.postponed.loss_node_s == 1510


def test_a_job_that_waits_in_its_hold_is_decided_on_in_every_cycle(waiting: Build) -> None:
    cluster = with_hold(full(waiting("u", 1, demand=amounts(4), reservation="mw_u")))
    decision = decide(after(cluster, 200.0))
    assert (decision.actions, decision.again_s) == ((), NOW_S + LAST_S)
    ended = replace(cluster, jobs=cluster.jobs[1:])
    assert decide(after(ended, 200.0)).rationale == (), "its hold has room: nothing is left to decide"


def test_the_kill_comes_at_the_last_moment(waiting: Build) -> None:
    cluster = with_hold(full(waiting("u", 1, demand=amounts(4), reservation="mw_u")))
    decision = decide(after(cluster, LAST_S))
    assert holds(decision) == [("n0",)]
    assert victims(decision) == [("a", Method.KILL)]
    assert decision.again_s is None


def test_without_slack_all_is_as_at_once(waiting: Build) -> None:
    cluster = full(waiting("u", 1, demand=amounts(4), start_within_s=90.0))
    assert victims(decide(cluster)) == [("a", Method.KILL)]
    assert decide(cluster) == decide(cluster, kills="at_once")


def test_what_loses_nothing_does_not_wait(waiting: Build) -> None:
    saves = part("s", "n2", amounts(8), checkpoint=CheckpointSpec(system_s=60.0))
    cluster = full(saves, waiting("u", 1, demand=amounts(4)), node_count=3)
    assert victims(decide(cluster)) == [("s", Method.SYSTEM)]
    assert decide(cluster) == decide(cluster, kills="at_once")


def test_a_job_that_has_just_started_is_killed_while_that_is_cheap(waiting: Build) -> None:
    """After 510 s of waiting, less than 510 s of work would more than double."""
    for worked_s, at_once in ((500.0, True), (520.0, False)):
        young = part("y", "n2", amounts(8), start_s=NOW_S - worked_s)
        decision = decide(full(young, waiting("u", 1, demand=amounts(4)), node_count=3))
        assert victims(decision) == ([("y", Method.KILL)] if at_once else [])


def test_a_time_limit_before_the_last_moment_counts_as_leaving(waiting: Build) -> None:
    """The job that ends has more to lose than the one that would be killed."""
    ends = part("e", "n2", amounts(8), start_s=NOW_S - 4000.0, walltime_s=4000.0 + LAST_S)
    cheap = part("c", "n3", amounts(8), last_checkpoint_s=NOW_S - 100.0)
    cluster = full(ends, cheap, waiting("u", 1, demand=amounts(4)), node_count=4)
    decision = decide(cluster)
    assert (holds(decision), len(decision.actions)) == ([("n2",)], 1)
    too_long = tuple(
        replace(job, walltime_s=job.walltime_s + 1.0) if job.job_id == "e" else job for job in cluster.jobs
    )
    assert victims(decide(replace(cluster, jobs=too_long))) == [("c", Method.KILL)]


def test_a_job_that_outlives_its_time_limit_is_not_waited_for_in_the_end(waiting: Build) -> None:
    ends = part("e", "n0", amounts(8), start_s=NOW_S - 900.0, walltime_s=1000.0)
    urgent = waiting("u", 1, demand=amounts(4), reservation="mw_u")
    cluster = with_hold(shared(ends, urgent, node_count=1))
    assert decide(after(cluster, LAST_S - 1.0)).actions == ()
    assert victims(decide(after(cluster, LAST_S))) == [("e", Method.KILL)]


def test_room_is_found_where_only_a_time_limit_makes_it(waiting: Build) -> None:
    ends = part("e", "n0", amounts(8), preemptible=False, start_s=NOW_S, walltime_s=300.0)
    cluster = shared(ends, waiting("u", 1, demand=amounts(4)), node_count=1)
    assert holds(decide(cluster)) == [("n0",)]
    assert decide(cluster, kills="at_once").actions == (prioritise("u"),)


def test_the_hold_moves_to_room_elsewhere(waiting: Build) -> None:
    cluster = with_hold(full(waiting("u", 1, demand=amounts(4), reservation="mw_u"), node_count=3))
    decision = decide(after(cluster, 100.0))
    assert (holds(decision), victims(decision)) == ([("n2",)], [])


def test_a_hold_that_serves_no_more_is_made_elsewhere(waiting: Build) -> None:
    """The held node goes down, or its job may no longer be evicted."""
    other = part("b", "n2", amounts(8))
    cluster = with_hold(full(other, waiting("u", 1, demand=amounts(4), reservation="mw_u"), node_count=3))
    assert decide(after(cluster, 100.0)).actions == ()
    down = tuple(replace(node, state=NodeState.DOWN) if node.name == "n0" else node for node in cluster.nodes)
    stays = tuple(replace(job, preemptible=False) if job.job_id == "a" else job for job in cluster.jobs)
    for changed in (replace(cluster, nodes=down), replace(cluster, jobs=stays)):
        decision = decide(after(changed, 100.0))
        assert (holds(decision), victims(decision)) == ([("n2",)], [])


@pytest.mark.parametrize(
    ("walltime_s", "waits"), [(91.0, True), (92.0, False), (599.0, False), (600.0, True)]
)
def test_no_kill_waits_if_another_urgent_job_is_on_time_only_after_its_own(
    waiting: Build, walltime_s: float, waits: bool
) -> None:
    """`v` gets the node when `u` has ended: it is to start within 601 s, and `u` at once or after 508 s."""
    first = waiting("u", 1, demand=amounts(4), walltime_s=walltime_s)
    second = waiting("v", 1, demand=amounts(5), submit_s=NOW_S + 1.0)
    decision = decide(after(full(first, second), 2.0))
    assert victims(decision) == ([] if waits else [("a", Method.KILL)])
    lacks = replace(second, blocked_by="a licence")
    assert victims(decide(after(full(first, lacks), 2.0))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"demand": amounts(9)},
        {"node_count": 2},
        {"eligible_nodes": frozenset({"n1"})},
        {"submit_s": NOW_S - 1000.0},
    ],
    ids=["larger than a node", "larger than what is held", "elsewhere", "late"],
)
def test_a_kill_waits_although_another_urgent_job_can_have_no_room(
    waiting: Build, changes: dict[str, Any]
) -> None:
    first = waiting("u", 1, demand=amounts(4), walltime_s=300.0)
    hopeless = replace(waiting("v", 1, demand=amounts(4)), **changes)
    decision = decide(after(full(first, hopeless), 2.0))
    assert (victims(decision), holds(decision)) == ([], [("n0",)])


def test_a_limit_of_evictions_that_others_may_use_up_is_not_waited_for(waiting: Build) -> None:
    cluster = full(waiting("u", 1, demand=amounts(4)))
    assert victims(decide(replace(cluster, limits=Limits(evictions_per_hour=2)))) == []
    assert victims(decide(replace(cluster, limits=Limits(evictions_per_hour=1)))) == [("a", Method.KILL)]


def test_nodes_that_are_given_as_a_whole_are_decided_on_at_once(waiting: Build, running: Build) -> None:
    cluster = shared(running("a", "n0"), waiting("u", 1), node_count=1)
    whole = replace(cluster, nodes=tuple(replace(node, capacity=None) for node in cluster.nodes))
    assert victims(decide(cluster)) == []
    assert victims(decide(whole)) == [("a", Method.KILL)]


def test_a_hold_that_waits_for_time_limits_is_made_once(waiting: Build) -> None:
    stays = [part(f"p{index}", "n0", amounts(2), preemptible=False) for index in range(2)]
    ending = tuple(replace(job, start_s=NOW_S, walltime_s=300.0) for job in stays)
    cluster = shared(*ending, waiting("u", 1), node_count=1)
    (why,) = decide(cluster).rationale
    assert why.summary.endswith("Room on 1 more whole node is needed: jobs that end in time leave it on n0.")
    assert why.postponed == Postponement(until_s=NOW_S + LAST_S, departures=())
    assert decide(after(with_hold(cluster), 1.0)).actions == ()


def of_hours(node_s: float, per_day_node_s: float = 10**9) -> Limits:
    """Limits on lost work of so many node-seconds."""
    return Limits(
        max_loss_node_hours=node_s / 3600.0,
        max_loss_machine_share=0.0,
        max_loss_node_hours_per_day=per_day_node_s / 3600.0,
        max_loss_machine_share_per_day=0.0,
    )


@pytest.mark.parametrize(("limit_node_s", "wait_s"), [(1570.0, 510.0), (1569.0, 509.0), (1300.0, 240.0)])
def test_a_kill_waits_no_longer_than_a_limit_allows_it(
    waiting: Build, limit_node_s: float, wait_s: float
) -> None:
    """It loses 1000 node-seconds now, and 60 s may pass until it is sent."""
    urgent = waiting("u", 1, demand=amounts(4), reservation="mw_u")
    cluster = full(urgent, limits=of_hours(limit_node_s))
    decision = decide(cluster)
    assert (holds(decision), victims(decision)) == ([("n0",)], [])
    assert decision.again_s == NOW_S + wait_s
    assert victims(decide(after(with_hold(cluster), wait_s))) == [("a", Method.KILL)]


def test_a_kill_that_only_now_is_within_the_limit_does_not_wait(waiting: Build) -> None:
    cluster = full(waiting("u", 1, demand=amounts(4)), limits=of_hours(1060.0))
    assert victims(decide(cluster)) == [("a", Method.KILL)]
    assert not victims(decide(replace(cluster, limits=of_hours(999.0))))


def test_an_end_is_waited_for_if_a_limit_refuses_the_kill(waiting: Build) -> None:
    ends = part("e", "n2", amounts(8), preemptible=False, start_s=NOW_S - 4000.0, walltime_s=4300.0)
    cluster = full(ends, waiting("u", 1, demand=amounts(4)), node_count=3, limits=of_hours(500.0))
    decision = decide(cluster)
    assert (holds(decision), victims(decision)) == ([("n2",)], [])


@pytest.mark.parametrize(
    ("day_node_s", "wait_s"), [(3080.0, 510.0), (2600.0, 30.0), (2400.0, None)], ids=["both", "short", "none"]
)
def test_what_others_postpone_counts_as_lost(waiting: Build, day_node_s: float, wait_s: float | None) -> None:
    """Each kill loses 1000 node-seconds now, and 1510 in the end."""
    jobs = (part("a", "n0", amounts(8)), part("b", "n1", amounts(8)))
    urgent = (waiting("u", 1, demand=amounts(8)), waiting("v", 1, demand=amounts(8)))
    decision = decide(shared(*jobs, *urgent, limits=of_hours(10**9, day_node_s)))
    killed = [("a", Method.KILL), ("b", Method.KILL)]
    assert decision.again_s == (None if wait_s is None else NOW_S + wait_s)
    assert victims(decision) == (killed if wait_s is None else [])


def test_kills_wait_also_for_nodes_that_come_free_later(waiting: Build) -> None:
    """One of the two nodes is left by a job that saves its work for another urgent job."""
    leaves = Requeue(
        job_id="l",
        for_job_id="x",
        policy="test",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.SYSTEM,
        not_after_s=NOW_S + 500.0,
    )
    under_way = replace(
        operation("x", "n2"), tasks=(Task(action=leaves, progress=Progress.ACCEPTED),), observe=False
    )
    cluster = full(
        part("l", "n2 n3", amounts(8)),
        waiting("x", 1, demand=amounts(8), submit_s=NOW_S - 1.0, reservation="mw_x"),
        waiting("u", 2, demand=amounts(8)),
        node_count=4,
        operations=(under_way,),
        reservations=(Reservation(name="mw_x", nodes=("n2",), start_s=NOW_S, end_s=NOW_S + 9000.0),),
    )
    decision = decide(cluster)
    assert (holds(decision), victims(decision)) == ([("n3", "n0")], [])
    assert decision.again_s == NOW_S + LAST_S


@pytest.mark.parametrize(("worked_s", "at_once"), [(960.0, True), (980.0, False)])
def test_what_is_lost_after_a_checkpoint_that_is_over_in_the_end_counts(
    waiting: Build, worked_s: float, at_once: bool
) -> None:
    """`s` completes a checkpoint in 50 s, 460 s before it would be killed with `k`."""
    spec = CheckpointSpec(interval_s=3550.0, application_s=50.0)
    saves = part("s", "n0", amounts(8), start_s=NOW_S + 50.0 - 3600.0, checkpoint=spec)
    killed = part("k", "n1", amounts(8), start_s=NOW_S - worked_s)
    decision = decide(shared(saves, killed, waiting("u", 2, demand=amounts(8))))
    leaving = [("k", Method.KILL), ("s", Method.APPLICATION)]
    assert victims(decision) == (leaving if at_once else [])
    postponed = decision.rationale[0].postponed
    late = () if postponed is None else tuple((one.method, one.loss_node_s) for one in postponed.departures)
    assert late == (() if at_once else ((Method.KILL, 980 + 510), (Method.KILL, 460)))


@pytest.mark.parametrize(("limit_node_s", "waits"), [(850.0, True), (849.0, False)])
def test_an_end_is_not_waited_for_if_a_limit_refuses_the_others_after_it(
    waiting: Build, limit_node_s: float, waits: bool
) -> None:
    """With the end of `e` one kill is enough instead of two, but it loses 850 node-seconds after that end."""
    jobs = (
        part("a", "n0", amounts(8), start_s=NOW_S - 300.0),
        part("y", "n1", amounts(8), start_s=NOW_S - 280.0),
        part("e", "n2", amounts(8), preemptible=False, start_s=NOW_S - 4000.0, walltime_s=4500.0),
    )
    urgent = waiting("u", 2, demand=amounts(4))
    decision = decide(shared(*jobs, urgent, node_count=3, limits=of_hours(limit_node_s)))
    assert [set(held) for held in holds(decision)] == [{"n1", "n2"} if waits else {"n0", "n1"}]
    assert victims(decision) == ([] if waits else [("a", Method.KILL), ("y", Method.KILL)])


def saving_beside_an_end(waiting: Build, end_s: float, worked_s: float, *more: Job) -> Cluster:
    """`s` leaves n0 after a checkpoint of 60 s if `e` has ended there, or `y` is killed on n1."""
    return shared(
        part("s", "n0", amounts(4), checkpoint=CheckpointSpec(system_s=60.0)),
        part("e", "n0", amounts(4), preemptible=False, walltime_s=1000.0 + end_s),
        part("y", "n1", amounts(8), start_s=NOW_S - worked_s),
        *more,
        waiting("u", 1, demand=amounts(8)),
        node_count=3,
    )


@pytest.mark.parametrize(
    ("end_s", "worked_s", "again_s"),
    [(LAST_S - 60.0, 440.0, LAST_S - 60.0), (LAST_S - 59.0, 440.0, None), (LAST_S - 59.0, 510.0, LAST_S)],
)
def test_no_checkpoint_is_counted_on_that_has_to_begin_before_a_job_ends_beside_it(
    waiting: Build, end_s: float, worked_s: float, again_s: float | None
) -> None:
    """If `e` ends too late, `s` would be killed in the end: that loses 500 node-seconds so far."""
    decision = decide(
        saving_beside_an_end(waiting, end_s, worked_s, part("p", "n2", amounts(8), preemptible=False))
    )
    if again_s is None:
        assert victims(decision) == [("y", Method.KILL)]
        return
    assert (holds(decision), victims(decision)) == ([("n0",)], [])
    assert decision.again_s == NOW_S + again_s


@pytest.mark.parametrize("late", ["n0", "n2"])
def test_the_checkpoint_is_written_where_the_job_beside_it_ends_soon_enough(
    waiting: Build, late: str
) -> None:
    """The hold is on the other one of n0 and n2."""
    ends_s = {"n0": 1000.0 + 10.0, "n2": 1000.0 + 10.0, late: 1000.0 + LAST_S}
    spec = CheckpointSpec(system_s=60.0)
    jobs = [part(f"s{name}", name, amounts(4), checkpoint=spec) for name in ends_s]
    ending = [
        part(f"e{name}", name, amounts(4), preemptible=False, walltime_s=s) for name, s in ends_s.items()
    ]
    young = part("y", "n1", amounts(8), start_s=NOW_S - 440.0)
    decision = decide(shared(*jobs, *ending, young, waiting("u", 1, demand=amounts(8)), node_count=3))
    assert holds(decision) == [("n2",) if late == "n0" else ("n0",)]
    assert (victims(decision), decision.again_s) == ([], NOW_S + LAST_S - 60.0)
