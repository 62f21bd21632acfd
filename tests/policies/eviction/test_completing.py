"""Nodes of jobs that are completing: they come free by themselves, unless the job is stuck."""

from dataclasses import replace

import pytest

from makeway.policies.common.commitments import Commitments
from makeway.policies.common.departures import COMPLETING_S, LEAVE_S, ends_by
from makeway.policies.common.holds import is_in_vain, shortfall
from makeway.policies.common.proposals import hold
from makeway.policies.common.requests import Proposal, request_for
from makeway.policies.common.urgent_jobs import UrgentJob
from makeway.policies.least_price.ends import wait_of
from makeway.policies.model import (
    Cluster,
    Decision,
    Job,
    JobState,
    Method,
    Operation,
    Phase,
    Progress,
    Reservation,
    Reserve,
)
from tests.policies.arriving import NOW_S, Build, BuildCluster, victims
from tests.policies.arriving import decide as decide_by
from tests.policies.common.operations import operation
from tests.policies.sharing import amounts, part, shared
from tests.policies.under_test import UNDER_TEST, at_once

IN_TIME_S = COMPLETING_S + LEAVE_S


def completing(job: Job, ago_s: float | None = 10.0) -> Job:
    """The job, completing for that many seconds. None: no earlier snapshot has shown it completing."""
    since_s = None if ago_s is None else NOW_S - ago_s
    return replace(job, state=JobState.COMPLETING, completing_since_s=since_s)


def decide(cluster: Cluster, name: str = "eviction") -> Decision:
    return UNDER_TEST[name].decide(cluster, at_once(name))


def held(decision: Decision) -> set[str]:
    (found,) = [action for action in decision.actions if isinstance(action, Reserve)]
    return set(found.nodes)


@pytest.fixture
def two(running: Build, waiting: Build, cluster_of: BuildCluster) -> Cluster:
    """One job is completing, another one runs; an urgent job wants one node."""
    return cluster_of(2, completing(running("a", "n0")), running("b", "n1"), waiting("u", 1))


def with_first(cluster: Cluster, ago_s: float | None) -> Cluster:
    """The same cluster, with its first job completing for that many seconds."""
    first, *others = cluster.jobs
    return replace(cluster, jobs=(completing(first, ago_s), *others))


@pytest.mark.parametrize("name", ["eviction", "least-price", "n-paa", "n-spaa", "cup-spaa", "youngest"])
def test_no_job_leaves_if_nodes_come_free_by_themselves(two: Cluster, name: str) -> None:
    decision = decide(two, name)
    assert [action.verb for action in decision.actions] == ["reserve"]
    assert held(decision) == {"n0"}
    (why,) = decision.rationale
    assert why.summary == "0 nodes are free and 1 more come free (1 completing): no other job has to leave."
    assert why.ready_s == NOW_S - 10.0 + IN_TIME_S


def test_an_urgent_job_whose_wait_is_too_long_gets_them_too(two: Cluster) -> None:
    *jobs, urgent = two.jobs
    decision = decide(replace(two, jobs=(*jobs, replace(urgent, submit_s=NOW_S - 3000.0))), "wcjs")
    assert (held(decision), victims(decision)) == ({"n0"}, [])


@pytest.mark.parametrize("name", ["eviction", "least-price", "n-paa", "n-spaa", "cup-spaa", "youngest"])
@pytest.mark.parametrize(
    ("ago_s", "nodes"), [(None, {"n0"}), (COMPLETING_S - 1.0, {"n0"}), (COMPLETING_S, {"n1"})]
)
def test_no_urgent_job_counts_on_a_job_that_is_stuck(
    two: Cluster, name: str, ago_s: float | None, nodes: set[str]
) -> None:
    decision = decide(with_first(two, ago_s), name)
    assert held(decision) == nodes
    assert {job_id for job_id, _ in victims(decision)} == ({"b"} if nodes == {"n1"} else set())


@pytest.mark.parametrize(("left_s", "nodes"), [(IN_TIME_S, {"n0"}), (IN_TIME_S - 1.0, {"n1"})])
def test_there_is_time_for_another_choice(two: Cluster, left_s: float, nodes: set[str]) -> None:
    *jobs, urgent = with_first(two, 0.0).jobs
    assert held(decide(replace(two, jobs=(*jobs, replace(urgent, start_within_s=left_s))))) == nodes


def test_only_as_many_leave_as_are_needed_in_addition(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (completing(running("a", "n0 n1")), running("b", "n2 n3"), running("c", "n4"))
    decision = decide(cluster_of(5, *jobs, waiting("u", 3)))
    assert (held(decision), victims(decision)) == ({"n0", "n1", "n4"}, [("c", Method.KILL)])


def test_the_decision_says_which_nodes_come_free_why(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    leaving = operation("other", "n9", "b", progress=Progress.ACCEPTED)
    jobs = (completing(running("a", "n0")), running("b", "n1 n9"), waiting("u", 3))
    (why,) = decide(cluster_of(3, *jobs, operations=(leaving,))).rationale
    assert why.summary == (
        "1 nodes are free and 2 more come free (1 completing, 1 for other jobs): no other job has to leave."
    )


def test_two_urgent_jobs_do_not_count_on_the_same_node(two: Cluster, waiting: Build) -> None:
    decision = decide(replace(two, jobs=(*two.jobs, waiting("v", 1))))
    assert sorted(victims(decision)) == [("b", Method.KILL)]


# Holds


def holding(cluster: Cluster, operation: Operation) -> Cluster:
    """The cluster, in which the first node is held for the urgent job."""
    own = Reservation(name="mw_u", nodes=operation.nodes, start_s=0.0, end_s=NOW_S + 9000.0)
    jobs = tuple(replace(job, reservation="mw_u") if job.job_id == "u" else job for job in cluster.jobs)
    return replace(cluster, jobs=jobs, operations=(operation,), reservations=(own,))


def test_a_node_of_a_hold_is_lost_once_its_job_is_stuck(two: Cluster) -> None:
    late = holding(with_first(two, COMPLETING_S - 1.0), operation("u", "n0"))
    assert (shortfall(late.operations[0], late), decide(late).actions) == ((), ())
    stuck = holding(with_first(two, COMPLETING_S), operation("u", "n0"))
    assert shortfall(stuck.operations[0], stuck) == ("n0",)
    assert (held(decide(stuck)), victims(decide(stuck))) == ({"n1"}, [("b", Method.KILL)])


@pytest.mark.parametrize("progress", [Progress.ACCEPTED, Progress.DONE, Progress.GONE])
def test_the_node_of_a_victim_is_not_lost_however_long_that_takes(two: Cluster, progress: Progress) -> None:
    """Slurm shows a requeue as done while the job is still completing."""
    known = holding(with_first(two, 500.0), operation("u", "n0", "a", progress=progress))
    assert shortfall(known.operations[0], known) == ()
    assert decide(known).actions == ()


def test_a_job_that_left_for_another_reason_is_no_victim(two: Cluster) -> None:
    done = operation("other", "n0", "a", progress=Progress.DONE)
    (task,) = done.tasks
    for other in (
        replace(done, observe=True),
        replace(done, phase=Phase.CLOSED),
        replace(done, tasks=(replace(task, ran_again=True),)),
    ):
        known = holding(with_first(two, 500.0), operation("u", "n0"))
        known = replace(known, operations=(*known.operations, other))
        assert shortfall(known.operations[0], known) == ("n0",)


def test_a_hold_is_kept_if_no_other_job_can_leave(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    jobs = (completing(running("a", "n0"), 500.0), running("b", "n1", preemptible=False))
    known = holding(cluster_of(2, *jobs, waiting("u", 1)), operation("u", "n0"))
    assert not is_in_vain(known.operations[0], known)
    assert [action.verb for action in decide(known).actions] == ["prioritise"]


# Shared nodes


@pytest.mark.parametrize(("ago_s", "leaving"), [(10.0, []), (COMPLETING_S, [("b", Method.KILL)])])
def test_what_a_completing_job_holds_of_a_node_counts_as_room(
    waiting: Build, ago_s: float, leaving: list[tuple[str, Method]]
) -> None:
    jobs = (completing(part("a", "n0", amounts(5)), ago_s), part("b", "n1", amounts(5)))
    decision = decide(shared(*jobs, waiting("u", 1, demand=amounts(6))))
    assert victims(decision) == leaving


def test_a_job_next_to_it_leaves_if_both_are_needed(waiting: Build) -> None:
    jobs = (completing(part("a", "n0", amounts(4))), part("b", "n0", amounts(4)))
    cluster = shared(*jobs, waiting("u", 1, demand=amounts(8)), node_count=1)
    assert victims(decide(cluster)) == [("b", Method.KILL)]
    assert victims(decide(with_first(cluster, COMPLETING_S))) == []


def test_a_part_of_a_held_node_is_lost_once_its_job_is_stuck(waiting: Build) -> None:
    cluster = shared(
        completing(part("a", "n0", amounts(5))), waiting("u", 1, demand=amounts(6)), node_count=1
    )
    hold_of_u = replace(operation("u", "n0"), kind=operation("u", "n0").kind.MAKE_WAY_SHARED)
    assert shortfall(hold_of_u, holding(cluster, hold_of_u)) == ()
    assert shortfall(hold_of_u, holding(with_first(cluster, COMPLETING_S), hold_of_u)) == ("n0",)
    victim = replace(operation("u", "n0", "a", progress=Progress.DONE), kind=hold_of_u.kind)
    assert shortfall(victim, holding(with_first(cluster, COMPLETING_S), victim)) == ()


# When jobs end


def test_a_job_that_is_stuck_does_not_end_by_its_limit(two: Cluster) -> None:
    first, *others = two.jobs
    first = replace(first, walltime_s=1000.0)
    for ago_s, ends in ((10.0, ["a"]), (COMPLETING_S, [])):
        cluster = with_first(replace(two, jobs=(first, *others)), ago_s)
        assert sorted(ends_by(cluster, NOW_S + 60.0)) == ends


def test_a_start_does_not_wait_for_the_limit_of_a_job_that_has_ended(two: Cluster) -> None:
    """Its node is in the hold already."""
    known = holding(two, operation("u", "n0"))
    urgent = UrgentJob(job=known.jobs[2], operation=known.operations[0], kept_nodes=("n0",))
    request = request_for(Commitments(cluster=known), urgent, "test", NOW_S + 600.0, 3600.0)
    (why,) = decide_by(two).rationale
    wait = wait_of(request, Proposal(rationale=why, actions=(hold(request, ()),)), 3600.0)
    assert (wait.start_s, wait.idle_node_s) == (NOW_S, 0.0)
