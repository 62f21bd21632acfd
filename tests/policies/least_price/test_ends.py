"""Jobs whose time limits end in time are left to end, if that saves more than a start at once may cost."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from makeway.policies.common.departures import OVERDUE_S
from makeway.policies.common.requests import Proposal
from makeway.policies.least_price.ends import rooms_after_ends
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import (
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    JobKind,
    JobState,
    Limits,
    Method,
    Rationale,
    Reserve,
)
from tests.builders import cluster as small_cluster
from tests.builders import running as running_job
from tests.policies.arriving import NOW_S, Build, BuildCluster, hold, victims
from tests.policies.joint.het_clusters import UNLIMITED, component

LEFT_S = 300.0


def decide(cluster: Cluster, **settings: Any) -> Decision:
    return LEAST_PRICE.decide(cluster, LeastPriceConfig(**{"instant_machine_hours": 0.0, **settings}))


def ending(job: Job, left_s: float = LEFT_S) -> Job:
    """The job with a time limit that ends in `left_s`."""
    assert job.start_s is not None
    return replace(job, walltime_s=NOW_S - job.start_s + left_s)


@pytest.fixture
def two(running: Build, waiting: Build, cluster_of: BuildCluster) -> Cluster:
    """Two jobs on one node each, of which `a` has run longer and ends soon."""
    young = running("b", "n1", start_s=NOW_S - 600.0)
    return cluster_of(2, ending(running("a", "n0")), young, waiting("u", 1))


def test_a_job_that_ends_in_time_is_left_to_end(two: Cluster) -> None:
    decision = decide(two)
    (held,) = decision.actions
    assert isinstance(held, Reserve)
    assert held.nodes == ("n0",)
    assert decision.again_s == NOW_S + 600.0 - 30.0 - 60.0
    (why,) = decision.rationale
    assert why.summary.endswith("Then the start costs 0 node-hours. No job leaves for 510 s.")
    assert not any(candidate.chosen for candidate in why.candidates)


def test_if_it_has_not_ended_at_the_last_moment_the_cheapest_job_leaves(two: Cluster) -> None:
    assert victims(decide(replace(two, now_s=NOW_S + 510.0))) == [("b", Method.KILL)]


def test_an_end_that_is_overdue_is_not_waited_for_at_the_last_moment(two: Cluster) -> None:
    a, *others = two.jobs
    cluster = replace(two, jobs=(ending(a, 520.0), *others))
    for now_s, waits in ((NOW_S + 564.0, True), (NOW_S + 565.0, False)):
        decision = decide(replace(cluster, now_s=now_s), leave_s=5.0)
        assert victims(decision) == ([] if waits else [("b", Method.KILL)])


@pytest.mark.parametrize(
    ("left_s", "waits"), [(450.0, True), (450.1, False), (1.0 - OVERDUE_S, True), (-OVERDUE_S, False)]
)
def test_a_limit_counts_that_ends_in_time_and_is_not_long_over(
    two: Cluster, left_s: float, waits: bool
) -> None:
    a, *others = two.jobs
    decision = decide(replace(two, jobs=(ending(a, left_s), *others)))
    assert (victims(decision) == []) is waits


@pytest.mark.parametrize(("overtime_s", "left_s", "waits"), [(60.0, 390.0, True), (60.0, 400.0, False)])
def test_a_job_that_may_run_on_after_its_limit_ends_later(
    two: Cluster, overtime_s: float, left_s: float, waits: bool
) -> None:
    a, *others = two.jobs
    decision = decide(replace(two, jobs=(replace(ending(a, left_s), overtime_s=overtime_s), *others)))
    assert (victims(decision) == []) is waits


@pytest.mark.parametrize(
    "settings",
    [
        {"waits_for_ends": False},
        {"instant_machine_hours": 600.0 / (2 * 3600.0)},
        {"instant_machine_hours": None},
        {"vital_users": frozenset({"urgent"})},
    ],
    ids=["off", "cheap enough", "at once", "vital"],
)
def test_a_start_at_once_may_be_worth_more(two: Cluster, settings: dict[str, Any]) -> None:
    assert victims(decide(two, **settings)) == [("b", Method.KILL)]


def test_an_end_makes_room_where_no_job_may_leave(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Only the job that ends may leave, and its kill is over the ceiling."""
    jobs = ending(running("a", "n0")), running("b", "n1", preemptible=False)
    decision = decide(cluster_of(2, *jobs, waiting("u", 1)), ceiling_machine_hours=0.01)
    assert [action.verb for action in decision.actions] == ["reserve"]


def saving(running: Build, waiting: Build, cluster_of: BuildCluster, left_s: float) -> Cluster:
    """`a`, which ends so soon, and `b`, which takes 200 s to save, for two nodes; `c` has both of its own."""
    saves = running("b", "n1", checkpoint=CheckpointSpec(system_s=200.0))
    both = running("c", "n2 n3", start_s=NOW_S - 500.0)
    return cluster_of(4, ending(running("a", "n0"), left_s), saves, both, waiting("u", 2))


def test_the_others_leave_in_time_for_their_checkpoints(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    cluster = saving(running, waiting, cluster_of, 250.0)
    decision = decide(cluster)
    assert [action.verb for action in decision.actions] == ["reserve"]
    assert decision.again_s == NOW_S + 510.0 - 200.0
    ended = replace(cluster, jobs=cluster.jobs[1:], now_s=decision.again_s)
    assert victims(decide(ended)) == [("b", Method.SYSTEM)]


def test_an_end_that_is_too_late_for_the_checkpoints_does_not_count(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """To wait for it would cost more in the end: `c` works on."""
    assert victims(decide(saving(running, waiting, cluster_of, 250.1))) == [("c", Method.KILL)]


def test_an_end_that_is_early_enough_counts_although_another_one_is_too_late(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """`late` ends too late for the checkpoint of `b`: `c` leaves in its place, and `b` saves."""
    late, early = (
        ending(running(name, node, preemptible=False), left_s)
        for name, node, left_s in (("late", "n0", 400.0), ("early", "n1", 10.0))
    )
    b = running("b", "n2", checkpoint=CheckpointSpec(system_s=200.0))
    c, old = (
        running(name, node, start_s=NOW_S - s) for name, node, s in (("c", "n3", 500.0), ("z", "n4", 9e3))
    )
    decision = decide(cluster_of(5, late, early, b, c, old, waiting("u", 3)))
    (held,) = decision.actions
    assert isinstance(held, Reserve)
    assert sorted(held.nodes) == ["n1", "n2", "n3"]
    assert decision.again_s == NOW_S + 510.0 - 200.0


def test_an_end_that_is_too_late_for_the_checkpoints_counts_with_a_cheap_kill(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    a, b, *others = saving(running, waiting, cluster_of, LEFT_S).jobs
    young = replace(b, start_s=NOW_S - 300.0)
    decision = decide(cluster_of(4, a, young, *others))
    assert decision.again_s == NOW_S + 510.0
    (held,) = decision.actions
    assert isinstance(held, Reserve)
    assert sorted(held.nodes) == ["n0", "n1"]
    assert victims(decide(cluster_of(4, young, *others, now_s=NOW_S + 310.0))) == [("b", Method.SYSTEM)]


def test_no_start_waits_for_ends_if_no_node_of_its_hold_is_one_of_theirs(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """Without its checkpoint `b` is dearer than `c`, whose two nodes are enough."""
    a, b, *others = saving(running, waiting, cluster_of, LEFT_S).jobs
    old = replace(b, start_s=NOW_S - 9000.0)
    assert victims(decide(cluster_of(4, a, old, *others))) == [("c", Method.KILL)]


def test_no_start_waits_for_ends_if_another_urgent_job_finds_room_without_that(
    two: Cluster, waiting: Build
) -> None:
    """Only the node of `a` serves `v`."""
    second = waiting("v", 1, submit_s=NOW_S + 1.0, eligible_nodes=frozenset({"n0"}))
    decision = decide(replace(two, jobs=(*two.jobs, second)))
    assert victims(decision) == [("b", Method.KILL), ("a", Method.KILL)]


@pytest.mark.parametrize(
    "changes",
    [
        {"node_count": 5},
        {"node_count": 2, "eligible_nodes": frozenset({"n0", "n2"})},
        {"node_count": 1, "eligible_nodes": frozenset({"n2"})},
        {"node_count": 5, "start_within_s": 7 * 86_400.0},
        {"submit_s": NOW_S - 601.0, "node_count": 5},
    ],
    ids=["too large", "one protected", "protected", "a week", "late"],
)
@pytest.mark.parametrize("late", ["queue", "evict"])
def test_a_start_waits_for_ends_although_another_urgent_job_can_have_no_room(
    two: Cluster, running: Build, waiting: Build, changes: dict[str, Any], late: str
) -> None:
    stays = running("p", "n2", preemptible=False)
    hopeless = replace(waiting("v", 1, submit_s=NOW_S - 1.0), **changes)
    nodes = (*two.nodes, replace(two.nodes[0], name="n2"))
    decision = decide(replace(two, nodes=nodes, jobs=(*two.jobs, stays, hopeless)), late=late)
    assert victims(decision) == []
    assert [action.job_id for action in decision.actions if isinstance(action, Reserve)] == ["u"]


@pytest.mark.parametrize(("ran_s", "waits"), [(510.0, True), (400.0, False)])
def test_what_the_others_lose_meanwhile_counts(
    running: Build, waiting: Build, cluster_of: BuildCluster, ran_s: float, waits: bool
) -> None:
    """`b` has run for 10 s, and would have run for 520 s at the last moment."""
    jobs = ending(running("a", "n0", start_s=NOW_S - ran_s - 1.0)), running("b", "n1", start_s=NOW_S - 10.0)
    decision = decide(cluster_of(2, *jobs, waiting("u", 2)))
    assert (victims(decision) == []) is waits


@pytest.mark.parametrize(
    "protected",
    [
        {"preemptible": False},
        {"user": "root"},
        {"kind": JobKind.ON_DEMAND},
        {"kind": JobKind.MALLEABLE, "node_count_min": 1, "preemptible": False},
    ],
    ids=["not opted in", "user", "urgent", "malleable"],
)
@pytest.mark.parametrize("wanted", [1, 2])
def test_a_protected_job_ends_too_and_nothing_is_done_to_it(
    running: Build, waiting: Build, cluster_of: BuildCluster, protected: dict[str, Any], wanted: int
) -> None:
    ends = ending(running("a", "n0 n1", **protected))
    cluster = cluster_of(3, ends, running("b", "n2"), waiting("u", wanted))
    cluster = replace(cluster, limits=Limits(protected_users=frozenset({"root"})))
    decision = decide(cluster)
    (held,) = decision.actions
    assert isinstance(held, Reserve)
    assert set(held.nodes) <= {"n0", "n1"}
    assert decision.again_s == NOW_S + 510.0
    last = decide(replace(cluster, now_s=NOW_S + 510.0))
    assert victims(last) == ([("b", Method.KILL)] if wanted == 1 else [])
    assert "a" not in {action.job_id for action in last.actions}


def test_a_job_that_is_suspended_does_not_end(two: Cluster) -> None:
    a, *others = two.jobs
    suspended = replace(a, state=JobState.SUSPENDED)
    assert victims(decide(replace(two, jobs=(suspended, *others)))) == [("b", Method.KILL)]


def test_a_malleable_job_that_ends_is_not_shrunk(
    running: Build, waiting: Build, cluster_of: BuildCluster
) -> None:
    """It could give one of the two nodes that are needed, but gives both when it ends."""
    ends = ending(running("a", "n0 n1", kind=JobKind.MALLEABLE, node_count_min=1))
    decision = decide(cluster_of(3, ends, running("b", "n2"), waiting("u", 2)))
    assert [action.verb for action in decision.actions] == ["reserve"]
    assert decision.again_s == NOW_S + 510.0


@pytest.mark.parametrize(
    ("worked_s", "interval_s", "waits"), [(450.0, 3550.0, False), (470.0, 3550.0, True), (450.0, 50.0, True)]
)
def test_a_checkpoint_that_is_over_in_the_end_does_not_save_its_job(
    running: Build,
    waiting: Build,
    cluster_of: BuildCluster,
    worked_s: float,
    interval_s: float,
    waits: bool,
) -> None:
    """`b` saves its work in 50 s, 460 s before it would leave; with a short interval it does so again."""
    spec = CheckpointSpec(interval_s=interval_s, application_s=50.0)
    last_s = NOW_S + 50.0 - (interval_s + 50.0)
    saves = running("b", "n1", start_s=NOW_S - 3550.0, checkpoint=spec, last_checkpoint_s=last_s)
    ends = ending(running("a", "n0", start_s=NOW_S - worked_s))
    decision = decide(cluster_of(2, ends, saves, waiting("u", 2)))
    at_once = [("a", Method.KILL), ("b", Method.APPLICATION)]
    assert victims(decision) == ([] if waits else at_once)


def test_an_end_that_is_too_late_for_the_checkpoints_of_a_joint_choice_does_not_count() -> None:
    """For both components together, `v` leaves after a checkpoint, which takes 60 s. `a` ends 40 s too late
    for that.
    """
    a = running_job("a", ("n1", "n2", "n4"), start_s=940.0)
    v = running_job("v", ("n3",), start_s=789.0, walltime_s=1e6, checkpoint=CheckpointSpec(system_s=60.0))
    needing = (component(0, 2), component(1, 2, "n1", "n2", "n3", "n4"))
    for left_s, again_s in ((380.0, 1440.0), (420.0, None)):
        ends = replace(a, walltime_s=60.0 + left_s)
        view = replace(small_cluster(4, *needing, ends, v), limits=UNLIMITED)
        assert decide(view, waiting_machine_hours=None).again_s == again_s


@pytest.mark.parametrize(("node", "again_s"), [("n0", [NOW_S + 540.0]), ("n1", [])])
def test_a_room_without_nodes_of_jobs_that_end_waits_for_none(
    two: Cluster, node: str, again_s: list[float]
) -> None:
    why = Rationale(for_job_id="u", node_count=1, free_node_count=0, deadline_s=600.0, summary="")
    given = Proposal(actions=(hold("u", node, 900.0),), rationale=why)
    request: Any = SimpleNamespace(cluster=two)
    found = rooms_after_ends(request, NOW_S + 600.0, lambda *_: given, lambda _: 0.0, 60.0)
    assert [one.again_s for one in found] == again_s
