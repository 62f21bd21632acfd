"""Which nodes come first, which jobs need not leave after all, and which starts are tried."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.common.commitments import Commitments, soonest
from makeway.policies.common.components import Together, serve_together
from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.holds import guests, lost_for_good
from makeway.policies.common.requests import Proposal, Request, gone_by, rationale, request_for
from makeway.policies.common.shared_nodes import Leftover, open_leftovers, take_until_room
from makeway.policies.common.urgent_jobs import (
    Guide,
    LatestStart,
    UrgentJob,
    blocked_rationales,
    latest_starts,
    urgent_jobs,
)
from makeway.policies.common.victims import shared_candidates
from makeway.policies.common.waiting import Waiting
from makeway.policies.model import (
    Cluster,
    Job,
    Method,
    OperationKind,
    Prioritise,
    Rationale,
    Reservation,
    Reserve,
)
from tests.policies.arriving import NOW_S, Build, BuildCluster, decide, hold, requeue
from tests.policies.common.operations import operation
from tests.policies.hybrid.held import NOTICE, collected, guests_of, loan, under_way
from tests.policies.sharing import amounts, part, shared


def test_the_nodes_that_come_free_soonest_come_first_and_no_more_than_are_wanted(
    cluster_of: BuildCluster,
) -> None:
    sets = cluster_of(8).node_sets()
    coming = ((NOW_S + 10.0, sets.of(("n4", "n5", "n6"))), (NOW_S + 20.0, sets.of(("n0", "n1", "n2"))))
    assert soonest(sets, coming, ~0, NOW_S + 20.0, 2) == ("n4", "n5")
    assert soonest(sets, coming, ~0, NOW_S + 20.0, 5) == ("n4", "n5", "n6", "n0", "n1")
    assert soonest(sets, coming, ~0, NOW_S + 19.0, 5) == ("n4", "n5", "n6"), "the others are too late"
    assert soonest(sets, coming, sets.of(("n5", "n1")), NOW_S + 20.0, 5) == ("n5", "n1")
    assert soonest(sets, coming, ~0, NOW_S + 20.0, 0) == ()


@pytest.mark.parametrize(
    ("cpus", "stay"),
    [
        ((2, 2, 3), ["b"]),  # a and b would have been enough to spare one of them, not both
        ((1, 1, 5), ["a", "b"]),
        ((2, 2, 1), []),
    ],
)
def test_a_job_that_turns_out_not_to_be_needed_stays(
    waiting: Build, cpus: tuple[int, int, int], stay: list[str]
) -> None:
    """Five CPUs are needed, and none is free. The jobs are ranked by name."""
    jobs = [part(name, "n0", amounts(count)) for name, count in zip("abc", cpus, strict=True)]
    rest = part("p", "n0", amounts(8 - sum(cpus)), preemptible=False)
    cluster = shared(*jobs, *([rest] if sum(cpus) < 8 else []), node_count=1)
    urgent = UrgentJob(job=waiting("u", 1, demand=amounts(5)))
    found = shared_candidates(
        cluster, urgent, unusable=frozenset(), excluded=frozenset(), latest_s=NOW_S + 600.0
    )
    chosen, nodes = take_until_room(jobs, found, cluster, amounts(5), 1)
    assert nodes == ["n0"]
    assert [job.job_id for job in jobs if job not in chosen] == stay


def test_a_job_that_keeps_some_of_its_nodes_has_not_gone(waiting: Build, cluster_of: BuildCluster) -> None:
    request = request_for(
        Commitments(cluster=cluster_of(4)), UrgentJob(job=waiting("u", 1)), "test", NOW_S + 600.0, 900.0
    )
    leaving = {
        "gone": NodeRelease(by_s=NOW_S + 600.0),
        "late": NodeRelease(by_s=NOW_S + 601.0),
        "shrinks": NodeRelease(by_s=NOW_S, kept_nodes=frozenset({"n0"})),
    }
    assert gone_by(replace(request, leaving=leaving), NOW_S + 600.0).keys() == {"gone"}


def site(begins_s: float, nodes: str = "n0", *, by_makeway: bool = False) -> Reservation:
    name = "mw_x" if by_makeway else f"site-{begins_s:.0f}"
    return Reservation(name=name, nodes=tuple(nodes.split()), start_s=NOW_S + begins_s, end_s=NOW_S + 1e6)


@pytest.mark.parametrize(
    ("begins", "sooner"),
    [
        ((), []),
        ((1799.0,), []),  # the job could not end before it, whenever it starts
        ((1800.0,), [(0.0, 1800.0)]),  # only a start at this instant ends before it
        ((1860.0,), [(0.0, 1800.0)]),
        ((1861.0,), [(1.0, 1861.0), (0.0, 1800.0)]),
        ((2459.0, 2000.0), [(599.0, 2459.0), (140.0, 2000.0), (0.0, 1800.0)]),
        ((2460.0,), []),  # it begins when the job has ended in any case
        (
            (1900.0, 2000.0, 2100.0, 2200.0),
            [(340.0, 2200.0), (240.0, 2100.0), (140.0, 2000.0), (0.0, 1800.0)],
        ),
    ],
)
def test_a_sooner_start_gives_an_urgent_job_nodes_that_the_site_has_reserved_for_later(
    waiting: Build, cluster_of: BuildCluster, begins: tuple[float, ...], sooner: list[tuple[float, float]]
) -> None:
    """The job takes 1,800 s, and jobs may take 60 s to leave. It may start within 600 s."""
    reservations = (*map(site, begins), site(1900.0, by_makeway=True))
    cluster = cluster_of(4, reservations=reservations)
    job = waiting("u", 1)
    first, *others = latest_starts(cluster, job, NOW_S + 600.0)
    assert first == LatestStart(at_s=NOW_S + 600.0, ends_s=NOW_S + 600.0 + 60.0 + 1800.0)
    assert [(one.at_s - NOW_S, one.ends_s - NOW_S) for one in others] == sooner
    elsewhere = replace(job, eligible_nodes=frozenset({"n1"}))
    assert latest_starts(cluster, elsewhere, NOW_S + 600.0) == (first,)
    assert latest_starts(cluster, replace(job, het_job_id="7"), NOW_S + 600.0) == (first,)


def test_a_job_that_lacks_something_else_is_late_by_its_own_window(
    waiting: Build, cluster_of: BuildCluster
) -> None:
    lacks = waiting("u", 2, blocked_by="a licence")
    own = waiting("w", 2, blocked_by="a licence", start_within_s=60.0, submit_s=NOW_S - 10.0)
    found = blocked_rationales(cluster_of(4, lacks, own), 600.0)
    assert [(why.for_job_id, why.deadline_s) for why in found] == [("w", NOW_S + 50.0), ("u", NOW_S + 600.0)]


@pytest.mark.parametrize(("cpus", "moved"), [(8, True), (9, False)])
def test_a_job_that_asks_for_more_than_any_node_has_is_not_moved_to_the_front(
    waiting: Build, cpus: int, moved: bool
) -> None:
    """Both nodes are full of jobs that may not leave, and have eight CPUs."""
    jobs = (part(name, name, amounts(8), preemptible=False) for name in ("n0", "n1"))
    actions = decide(shared(*jobs, waiting("u", 2, demand=amounts(cpus)))).actions
    assert [type(action) for action in actions] == ([Prioritise] if moved else [])


def proposed(job: Job, **changes: Any) -> Proposal:
    why = Rationale(
        for_job_id=job.job_id,
        node_count=job.node_count,
        free_node_count=0,
        deadline_s=NOW_S + 600.0,
        summary=f"about {job.job_id}",
    )
    return Proposal(rationale=replace(why, **changes))


def test_the_component_without_room_says_itself_why(waiting: Build, cluster_of: BuildCluster) -> None:
    jobs = [waiting(f"7+{number}", 1, het_job_id="7") for number in range(3)]
    cluster = cluster_of(4, *jobs)

    def serve(_commitments: Commitments, urgent: UrgentJob) -> Proposal:
        return proposed(urgent.job, ready_s=None if urgent.job.job_id == "7+1" else NOW_S)

    def refuse(_commitments: Commitments, urgent: UrgentJob, why: str) -> Proposal:
        return proposed(urgent.job, summary=why)

    found = serve_together(urgent_jobs(cluster), Commitments(cluster=cluster), serve, refuse, lambda *_: None)
    because = "All components need room, and there is none for 7+1: no job is evicted."
    assert [one.rationale.summary for one in found] == [because, "about 7+1", because]


def test_each_component_is_served_once_in_each_try(waiting: Build, cluster_of: BuildCluster) -> None:
    """The one without room comes first in the second try."""
    jobs = [waiting(f"7+{number}", 1, het_job_id="7") for number in range(3)]
    cluster, served = cluster_of(4, *jobs), list[str]()

    def serve(_commitments: Commitments, urgent: UrgentJob) -> Proposal:
        served.append(urgent.job.job_id)
        has_room = urgent.job.job_id != "7+1" or len(served) > 2
        return proposed(urgent.job, ready_s=NOW_S if has_room else None)

    def refuse(_commitments: Commitments, urgent: UrgentJob, why: str) -> Proposal:
        raise AssertionError(f"{urgent.job.job_id}: {why}")

    serve_together(urgent_jobs(cluster), Commitments(cluster=cluster), serve, refuse, lambda *_: None)
    assert served == ["7+0", "7+1", "7+1", "7+0", "7+2"]


def test_a_shared_node_comes_free_when_the_last_of_its_jobs_leaves() -> None:
    """Both leave n0, and p stays on n1."""
    jobs = (part("a", "n0 n1", amounts(2)), part("b", "n0", amounts(2)), part("p", "n1", amounts(2)))
    commitments = Commitments(cluster=shared(*jobs))
    sets = commitments.cluster.node_sets()
    commitments.releases = {"a": NodeRelease(by_s=NOW_S + 10.0), "b": NodeRelease(by_s=NOW_S + 20.0)}
    assert commitments.coming_free() == ((NOW_S + 20.0, sets.of(("n0",))),)
    assert Commitments(cluster=shared(*jobs)).coming_free() == ()


def test_what_is_left_is_there_once_the_last_job_has_left(waiting: Build) -> None:
    making = replace(operation("u", "n0", "a", "b"), kind=OperationKind.MAKE_WAY_SHARED)
    first, last = making.tasks
    tasks = (replace(first, ended_s=NOW_S - 50.0), replace(last, planned_s=NOW_S + 30.0))
    jobs = (part("b", "n0", amounts(2)), waiting("u", 1, demand=amounts(2)))
    cluster = shared(*jobs, operations=(replace(making, tasks=tasks),))
    assert [one.ready_s for one in open_leftovers(cluster).values()] == [NOW_S + 30.0]


def test_a_job_waits_for_the_last_of_the_nodes_that_others_leave(waiting: Build) -> None:
    """Each of its nodes is left by another urgent job, at another instant."""
    cluster: Cluster = shared(part("a", "n0 n1", amounts(8)))
    commitments = Commitments(cluster=cluster)
    commitments.leftovers = {
        name: Leftover(for_job_id=name, room=amounts(8, 16_000), ready_s=NOW_S + at_s, is_free=False)
        for name, at_s in (("n0", 100.0), ("n1", 40.0))
    }
    urgent = UrgentJob(job=waiting("u", 2, demand=amounts(4)))

    def taken(count: int, **changes: float) -> dict[str, float]:
        settings = {"until_s": NOW_S + 9000.0, "deadline_s": NOW_S + 600.0, "handover_s": 30.0} | changes
        return commitments.branch().take_leftovers(urgent, count, **settings)

    assert taken(2) == {"n0": NOW_S + 130.0, "n1": NOW_S + 70.0}
    assert taken(1) == {"n1": NOW_S + 70.0}, "the soonest"
    assert taken(3) == {}
    assert taken(2, deadline_s=NOW_S + 129.0) == {}, "one of them would be too late"
    assert taken(2, handover_s=0.0) == {}, "it does not wait for others"
    reserved = replace(cluster, reservations=(site(8999.0, "n1"),))
    commitments.cluster = reserved
    assert taken(2) == {}, "the site needs one of them before the job ends"
    assert taken(1) == {"n0": NOW_S + 130.0}


def test_the_nodes_of_a_job_that_gets_them_whole_are_left_to_no_other(waiting: Build) -> None:
    making = operation("u", "n0")
    whole = shared(waiting("u", 1), operations=(making,))
    assert open_leftovers(whole) == {}
    parts = replace(making, kind=OperationKind.MAKE_WAY_SHARED)
    cluster = shared(waiting("u", 1, demand=amounts(2)), operations=(parts,))
    assert {name: one.room for name, one in open_leftovers(cluster).items()} == {"n0": amounts(6, 15_000, 4)}


def test_a_held_node_that_a_guest_shares_with_others_is_lost(waiting: Build) -> None:
    """The guest leaves when the announced job comes. The other one does not."""
    guest, other = part("w", "n0", amounts(2)), part("p", "n0", amounts(2), preemptible=False)
    held = collected("n0", replace(NOTICE, node_count=1))
    lent = guests_of(loan("w", "n0"))
    alone = under_way(shared(guest), held, lent)
    assert lost_for_good(held, alone) == 0
    both = under_way(shared(guest, other), held, lent)
    assert lost_for_good(held, both) == both.node_sets().of(("n0",))


def test_guests_come_in_the_order_of_their_ids() -> None:
    jobs = (part("x", "n0", amounts(8)), part("w", "n1", amounts(8)))
    lent = (guests_of(loan("x", "n0")), guests_of(loan("w", "n1")))
    cluster = under_way(shared(*jobs), collected("n0 n1"), *lent)
    assert [job.job_id for job in guests(cluster)["mw_notice-1"]] == ["w", "x"]


def test_a_job_that_starts_sooner_because_of_the_site_keeps_its_own_deadline(
    waiting: Build, cluster_of: BuildCluster
) -> None:
    """Only a start at this instant ends before the site needs the free node."""
    cluster = cluster_of(1, waiting("u", 1), reservations=(site(1800.0),))
    decision = decide(cluster)
    assert [type(action) for action in decision.actions] == [Reserve]
    assert [why.deadline_s for why in decision.rationale] == [NOW_S + 600.0]


def evicting(request: Request, job_id: str, node: str, loss_node_s: int) -> Proposal:
    why = rationale(request, f"evict {job_id}", loss_node_s=loss_node_s, ready_s=NOW_S)
    leaves = requeue(job_id, "u", Method.KILL, NOW_S)
    return Proposal(actions=(hold("u", node, 60.0), leaves), rationale=why)


@pytest.mark.parametrize(("loss_node_s", "chosen"), [(999, "b"), (1000, "a"), (1001, "a")])
def test_the_end_of_a_job_is_waited_for_if_that_loses_less(
    waiting: Build, loss_node_s: int, chosen: str
) -> None:
    """At once a would leave. If the end of e is waited for, b does."""
    ends = part("e", "n2", amounts(8), start_s=NOW_S - 4000.0, walltime_s=4200.0)
    jobs = (part("a", "n0", amounts(8)), part("b", "n1", amounts(8)), ends)
    cluster = shared(*jobs, node_count=3)
    urgent = UrgentJob(job=waiting("u", 1, demand=amounts(4)))
    request = request_for(Commitments(cluster=cluster), urgent, "test", NOW_S + 600.0, 900.0)

    def room(_request: Request, ending: Mapping[str, NodeRelease]) -> Proposal:
        return evicting(request, "b", "n1", loss_node_s) if ending else evicting(request, "a", "n0", 1000)

    found = Waiting(margin_s=30.0, leave_s=60.0, step_s=1.0).make_room(request, room)
    assert found.rationale.postponed is not None
    assert [one.job_id for one in found.rationale.postponed.departures] == [chosen]


@pytest.mark.parametrize(
    ("price_node_s", "changes", "jointly"),
    [
        (99, {}, True),
        (100, {}, False),
        (101, {}, False),
        (99, {"ready_s": NOW_S + 600.0}, True),
        (99, {"ready_s": NOW_S + 601.0}, False),  # it would be late
        (99, {"again_s": NOW_S + 60.0}, False),  # it would wait
    ],
)
def test_a_joint_choice_counts_if_it_is_cheaper_and_as_good(
    waiting: Build, cluster_of: BuildCluster, price_node_s: int, changes: dict[str, float], jointly: bool
) -> None:
    """`changes`: of the last component's proposal by the joint choice."""
    jobs = [waiting(f"7+{number}", 1, het_job_id="7") for number in range(2)]
    cluster = cluster_of(4, *jobs)

    def serve(_commitments: Commitments, urgent: UrgentJob) -> Proposal:
        loss_node_s = 50 if urgent.guide is None else price_node_s // 2
        if urgent.job.job_id != "7+1" or urgent.guide is None:
            return proposed(urgent.job, ready_s=NOW_S, loss_node_s=loss_node_s)
        ready_s = changes.get("ready_s", NOW_S)
        found = proposed(urgent.job, ready_s=ready_s, loss_node_s=loss_node_s + price_node_s % 2)
        return replace(found, again_s=changes.get("again_s"))

    def refuse(_commitments: Commitments, urgent: UrgentJob, why: str) -> Proposal:
        raise AssertionError(f"{urgent.job.job_id}: {why}")

    known = Together(
        bound_node_s=0,
        price_node_s=lambda proposals: sum(one.rationale.loss_node_s for one in proposals),
        guides=({job.job_id: Guide(avoided=frozenset(), methods={}) for job in jobs},),
    )
    found = serve_together(
        urgent_jobs(cluster), Commitments(cluster=cluster), serve, refuse, lambda *_: known
    )
    assert sum(one.rationale.loss_node_s for one in found) == (price_node_s if jointly else 100)
    said = [one.rationale.summary.startswith("Chosen for all components together.") for one in found]
    assert said == [jointly, jointly]
