"""Urgent heterogeneous jobs: all components are served, or none."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.policies.common.components import leave_one_by_one
from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.notices import arrivals
from makeway.policies.common.urgent_jobs import held_up, urgent_jobs
from makeway.policies.common.victims import COMMITTED, VictimGroup
from makeway.policies.contract import NOT_TOGETHER
from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.hybrid.arrival import HybridConfig
from makeway.policies.hybrid.policy import N_PAA
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import (
    CPU,
    Cluster,
    Decision,
    Job,
    JobKind,
    Limits,
    Node,
    NodeState,
    Notice,
    Phase,
    Quota,
    Requeue,
    Reserve,
    Resources,
)
from makeway.policies.programme.ends import ends_by_itself
from makeway.policies.safety.protection import Refusal
from makeway.policies.wcjs.cost import WcjsConfig
from makeway.policies.wcjs.policy import WCJS
from tests.builders import cluster, node_names, running, urgent
from tests.policies.common.operations import operation


def component(offset: int, node_count: int, *eligible: str, het_job_id: str = "7") -> Job:
    """A waiting component. `eligible`: the nodes that may serve it; none: all."""
    job = urgent(f"{het_job_id}+{offset}", node_count, submit_s=990.0)
    return replace(job, het_job_id=het_job_id, eligible_nodes=frozenset(eligible) or None)


def victims(*names: str, start_s: float = 900.0) -> tuple[Job, ...]:
    """A job on each of these nodes."""
    return tuple(running(f"v{name}", (name,), start_s=start_s) for name in names)


def eviction(view: Cluster, config: EvictionConfig | None = None) -> Decision:
    return EVICTION.decision(view, config or EvictionConfig())


def holds(decision: Decision) -> dict[str, set[str]]:
    return {one.job_id: set(one.nodes) for one in decision.actions if isinstance(one, Reserve)}


def leaving(decision: Decision) -> set[str]:
    return {one.job_id for one in decision.actions if isinstance(one, Requeue)}


POLICIES: list[Callable[[Cluster], Decision]] = [
    eviction,
    lambda view: LEAST_PRICE.decision(view, LeastPriceConfig()),
    lambda view: N_PAA.decision(view, HybridConfig()),
]


@pytest.mark.parametrize("decide", POLICIES, ids=["eviction", "least-price", "n-paa"])
def test_each_component_gets_nodes_of_its_own_and_exactly_their_jobs_leave(
    decide: Callable[[Cluster], Decision],
) -> None:
    decision = decide(
        cluster(4, component(0, 1, "n1", "n2"), component(1, 2, "n3", "n4"), *victims(*node_names(4)))
    )
    held = holds(decision)
    assert (len(held["7+0"]), held["7+1"]) == (1, {"n3", "n4"})
    assert held["7+0"] < {"n1", "n2"}
    assert leaving(decision) == {f"v{name}" for nodes in held.values() for name in nodes}


@pytest.mark.parametrize("decide", POLICIES, ids=["eviction", "least-price", "n-paa"])
def test_no_job_leaves_if_one_component_finds_no_room(decide: Callable[[Cluster], Decision]) -> None:
    stays = replace(running("s", ("n3",), start_s=900.0), preemptible=False)
    decision = decide(
        cluster(3, component(0, 1, "n1", "n2"), component(1, 1, "n3"), *victims("n1", "n2"), stays)
    )
    assert (holds(decision), leaving(decision)) == ({}, set())
    assert {one.job_id for one in decision.actions} == {"7+0", "7+1"}  # both are first in the queue
    why = {one.for_job_id: one.summary for one in decision.rationale}
    assert "there is none for 7+1" in why["7+0"]


def test_a_component_that_never_starts_leaves_the_others_where_they_are_in_the_queue() -> None:
    view = cluster(2, component(0, 1, "n1"), component(1, 1, "n2"), *victims("n1"))
    down = replace(view.nodes[1], state=NodeState.DOWN)
    assert eviction(replace(view, nodes=(view.nodes[0], down))).actions == ()


def test_the_component_with_the_fewest_nodes_to_choose_from_is_served_first() -> None:
    """It gets the free node: otherwise the job that has worked for long would have to leave."""
    old = victims("n3", start_s=-2000.0)
    decision = eviction(cluster(3, component(0, 1), component(1, 1, "n1", "n3"), *victims("n2"), *old))
    assert holds(decision) == {"7+0": {"n2"}, "7+1": {"n1"}}
    assert leaving(decision) == {"vn2"}


def test_the_order_is_changed_if_a_component_finds_no_room() -> None:
    """As many nodes may serve each, but those of the first are taken from the second's."""
    jobs = (component(0, 1, "n1", "n2"), component(1, 1, "n1", "n3"))
    stays = replace(running("s", ("n3",), start_s=900.0), preemptible=False)
    decision = eviction(cluster(3, *jobs, *victims("n2"), stays))
    assert holds(decision) == {"7+0": {"n2"}, "7+1": {"n1"}}
    assert leaving(decision) == {"vn2"}


def test_components_that_need_parts_of_nodes_get_different_nodes() -> None:
    def needs(job: Job, cpus: int) -> Job:
        return replace(job, demand=Resources.of({CPU: cpus}))

    view = cluster(2, needs(component(0, 1), 4), needs(component(1, 1), 2))
    nodes = tuple(Node(name=name, capacity=Resources.of({CPU: 8})) for name in node_names(2))
    parts = tuple(
        replace(running(f"{name}.{number}", (name,), start_s=900.0), allocation=(Resources.of({CPU: 2}),))
        for name in node_names(2)
        for number in range(4)
    )
    decision = eviction(
        replace(view, nodes=nodes, jobs=(*view.jobs, *parts)), EvictionConfig(kills="at_once")
    )
    held = holds(decision)
    assert held["7+0"].isdisjoint(held["7+1"])
    assert len(leaving(decision)) == 3


def test_what_one_component_lacks_all_lack() -> None:
    blocked = replace(component(1, 1), blocked_by="its release from a hold (JobHeldUser)")
    view = cluster(4, component(0, 1), blocked)
    assert held_up(view)["7+0"] == "its component 7+1, which waits for its release from a hold (JobHeldUser)"
    assert urgent_jobs(view) == ()
    limited = replace(component(1, 1), quotas=(Quota(name="jobs", needs=1.0, left=0.0),))
    assert set(held_up(cluster(4, component(0, 1), limited))) == {"7+0", "7+1"}


def limited(job: Job, needs: float, left: float) -> Job:
    return replace(job, quotas=(Quota(name="node of QOS u", needs=needs, left=left),))


def test_components_are_under_a_limit_together() -> None:
    """Slurm admits each of them alone, but all of them never; what they do not get is left to others."""
    het = (limited(component(0, 1), 1.0, 2.0), limited(component(1, 2), 2.0, 2.0))
    later = limited(replace(urgent("9", 2), submit_s=990.0), 2.0, 2.0)
    view = cluster(4, *het, later)
    why = "a limit (node of QOS u: its components need 3 of 2 left)"
    assert held_up(view) == {"7+0": why, "7+1": why}
    assert [one.job.job_id for one in urgent_jobs(view)] == ["9"]
    enough = [limited(job, one.quotas[0].needs, 3.0) for job, one in zip(view.jobs, view.jobs, strict=True)]
    first = replace(view, jobs=tuple(enough))
    assert held_up(first) == {"9": "other urgent jobs (node of QOS u: it needs 2 of 3 left)"}
    assert [one.job.job_id for one in urgent_jobs(first)] == ["7+0", "7+1"]


def test_a_component_that_waits_for_something_else_takes_nothing_of_a_limit() -> None:
    blocked = replace(component(1, 1), blocked_by="its release from a hold")
    later = limited(replace(urgent("9", 2), submit_s=990.0), 2.0, 2.0)
    view = cluster(4, limited(component(0, 1), 1.0, 2.0), blocked, later)
    assert [one.job.job_id for one in urgent_jobs(view)] == ["9"]


def test_none_is_served_before_all_are_eligible() -> None:
    later = replace(component(1, 1), eligible_s=2000.0)
    assert urgent_jobs(cluster(4, component(0, 1), later)) == ()
    assert len(urgent_jobs(cluster(4, component(0, 1), replace(later, eligible_s=500.0)))) == 2


@pytest.mark.parametrize("phase", [Phase.MAKING_ROOM, Phase.RETURNING])
def test_a_component_waits_until_nothing_is_under_way_for_the_others(phase: Phase) -> None:
    view = cluster(4, component(0, 1), component(1, 1), operations=(operation("7+0", "n1", phase=phase),))
    assert urgent_jobs(view) == ()


def test_a_hold_that_lost_a_node_is_made_good_by_itself() -> None:
    operations = (operation("7+0", "n1"), operation("7+1", "n2"))
    view = cluster(4, component(0, 1), component(1, 1), *victims("n1"), operations=operations)
    assert [one.job.job_id for one in urgent_jobs(view)] == ["7+0"]
    assert set(holds(eviction(view))) == {"7+0"}


def test_no_job_leaves_for_a_component_as_long_as_another_one_waits_in_its_hold() -> None:
    """A kill of the old job costs much and waits; the young one could leave at once."""
    nodes = tuple(Node(name=name, capacity=Resources.of({CPU: 8})) for name in node_names(2))
    old = replace(running("old", ("n1",), start_s=-9000.0), walltime_s=36_000.0)
    young = running("young", ("n2",), start_s=990.0)
    jobs = (component(0, 1, "n1"), component(1, 1, "n2"), old, young)
    alone = eviction(replace(cluster(2, jobs[1], young), nodes=nodes))
    assert leaving(alone) == {"young"}
    both = eviction(replace(cluster(2, *jobs), nodes=nodes))
    assert (set(holds(both)), leaving(both)) == ({"7+0", "7+1"}, set())
    assert both.again_s is not None
    # Once both are held, no hold is made again, unless a node of it is lost.
    operations = (operation("7+0", "n1"), operation("7+1", "n2"))
    held = replace(cluster(2, *jobs, operations=operations), nodes=nodes)
    assert eviction(held).actions == ()
    assert eviction(held).again_s is not None
    third = (*nodes, Node(name="n3", capacity=nodes[0].capacity))
    lost = (operation("7+0", "n1"), replace(operation("7+1", "n2"), nodes=("n3",)))
    down = (*nodes, replace(third[2], state=NodeState.DOWN))
    moved = eviction(replace(held, nodes=down, operations=lost))
    assert (holds(moved), leaving(moved)) == ({"7+1": {"n2"}}, set())


def test_the_limit_of_lost_work_is_one_for_all_components() -> None:
    jobs = (component(0, 1, "n1"), component(1, 1, "n2"), *victims("n1", "n2", start_s=-2600.0))
    one_hour = Limits(max_loss_node_hours=1.5, max_loss_machine_share=0.0)
    alone = eviction(replace(cluster(2, jobs[0], jobs[2]), limits=one_hour))
    assert leaving(alone) == {"vn1"}
    view = replace(cluster(2, *jobs), limits=one_hour)
    assert leaving(eviction(view)) == set()
    # The arbiter says the same of what a policy wants all the same.
    wanted = eviction(replace(view, limits=Limits())).actions
    assert {str(one.refusal) for one in arbitrate(wanted, view)} == {Refusal.MAX_LOSS, Refusal.GROUP}


def test_the_ceiling_of_least_price_is_one_for_all_components() -> None:
    jobs = (component(0, 1, "n1"), component(1, 1, "n2"), *victims("n1", "n2", start_s=-2600.0))
    view = replace(cluster(2, *jobs), now_s=1560.0)
    config = LeastPriceConfig(ceiling_machine_hours=0.8)
    assert leaving(LEAST_PRICE.decision(view, config)) == set()
    config = LeastPriceConfig(ceiling_machine_hours=1.6)
    assert leaving(LEAST_PRICE.decision(view, config)) == {"vn1", "vn2"}


def test_the_arbiter_refuses_all_components_or_none() -> None:
    view = cluster(4, component(0, 1), component(1, 2))
    actions = eviction(view).actions
    assert all(one.allowed for one in arbitrate(actions, view))
    few = replace(view, limits=Limits(max_nodes=2))
    refusals = [one.refusal for one in arbitrate(actions, few)]
    assert set(refusals) == {Refusal.MAX_NODES, Refusal.GROUP}


def test_a_policy_that_serves_one_job_at_a_time_serves_no_component() -> None:
    view = cluster(4, component(0, 1), component(1, 1), urgent("8", 1))
    decision = WCJS.decision(view, WcjsConfig())
    assert set(holds(decision)) <= {"8"}
    why = {one.for_job_id: one.summary for one in decision.rationale}
    assert NOT_TOGETHER in why["7+0"]
    assert NOT_TOGETHER in why["7+1"]
    alone = cluster(4, urgent("8", 1))
    assert WCJS.view(alone) is not None
    assert WCJS.view(alone).jobs is alone.jobs


def test_a_component_is_no_announced_job() -> None:
    notice = Notice(
        notice_id="a", user="user", node_count=2, walltime_s=60.0, announced_s=900.0, expected_s=1000.0
    )
    assert arrivals((notice,), (component(0, 1), component(1, 1)), ()) == {}
    assert set(arrivals((notice,), (urgent("8", 1, submit_s=990.0),), ())) == {"a"}


def test_the_components_of_a_job() -> None:
    view = cluster(4, component(1, 1), component(0, 1), component(0, 1, het_job_id="9"), urgent("8", 1))
    jobs = view.jobs_by_id()
    assert [one.job_id for one in view.components(jobs["7+1"])] == ["7+0", "7+1"]
    assert view.components(jobs["8"]) == (jobs["8"],)
    assert jobs["8"].kind is JobKind.ON_DEMAND


@pytest.mark.parametrize(
    ("count", "shares", "why", "ending", "one_by_one"),
    [
        (2, True, "", (), True),
        (1, True, COMMITTED, (), True),
        (1, True, "", (), False),
        (1, False, COMMITTED, (), False),
        (1, True, "not_preemptible", ("v0",), True),
        (1, True, "not_preemptible", ("v1",), False),
        (1, True, "", ("v0",), False),
        (1, False, "not_preemptible", ("v0",), False),
    ],
)
def test_whether_jobs_leave_one_by_one(
    count: int, shares: bool, why: str, ending: tuple[str, ...], one_by_one: bool
) -> None:
    assert leave_one_by_one((group_of(count, shares, why),), ending) is one_by_one


@pytest.mark.parametrize(
    ("count", "shares", "why", "ending", "ends"),
    [
        (2, True, "", ("v0", "v1"), True),
        (2, True, "", ("v0",), False),
        (1, True, "not_preemptible", ("v0",), False),
        (1, False, "not_preemptible", ("v0",), True),
        (1, False, "", (), False),
    ],
)
def test_whether_nodes_come_free_as_their_jobs_end(
    count: int, shares: bool, why: str, ending: tuple[str, ...], ends: bool
) -> None:
    releases = {job_id: NodeRelease(by_s=1100.0) for job_id in ending}
    assert ends_by_itself(group_of(count, shares, why), releases) is ends


def group_of(count: int, shares: bool, why: str) -> VictimGroup:
    return VictimGroup(
        jobs=tuple(running(f"v{number}", ("n1",)) for number in range(count)),
        nodes=("n1",),
        loss_node_s=0,
        price_node_s=0,
        system_s=None,
        application_s=None,
        protected_by=why,
        shares_nodes=shares,
    )
