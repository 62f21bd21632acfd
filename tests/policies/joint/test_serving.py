"""The components of a heterogeneous job get the room that costs least for all of them together."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from makeway.policies.choice.choose import choose
from makeway.policies.choice.instance import Choice, ChoiceInstance
from makeway.policies.common.shared_nodes import held_on
from makeway.policies.eviction import policy as eviction_policy
from makeway.policies.eviction import shared_nodes
from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.gate.arbiter import arbitrate
from makeway.policies.joint import serving
from makeway.policies.joint.choose import choose_jointly
from makeway.policies.joint.instance import JointInstance, JointResult
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import (
    CPU,
    MEMORY,
    Checkpoint,
    CheckpointSpec,
    Cluster,
    Decision,
    Job,
    JobKind,
    Placement,
    Requeue,
    Resources,
    Shrink,
)
from tests.builders import cluster, running
from tests.policies.joint.het_clusters import (
    HAS,
    NOW_S,
    UNLIMITED,
    component,
    holds,
    least_price_node_s,
    price_of,
    random_cluster,
    with_capacity,
)

AT_ONCE = EvictionConfig(kills="at_once")
JOINTLY = "Chosen for all components together. "


def eviction(view: Cluster) -> Decision:
    return EVICTION.decision(view, AT_ONCE)


def least_price(view: Cluster) -> Decision:
    return LEAST_PRICE.decision(view, LeastPriceConfig(kills="at_once", waiting_machine_hours=None))


POLICIES: list[Callable[[Cluster], Decision]] = [eviction, least_price]
both_policies = pytest.mark.parametrize("decide", POLICIES, ids=["eviction", "least-price"])


@contextmanager
def one_after_another() -> Iterator[None]:
    """Nothing is chosen jointly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "choose_jointly", lambda instance, known: None)
        yield


def leaving(decision: Decision) -> set[str]:
    return {one.job_id for one in decision.actions if isinstance(one, Requeue)}


def summaries(decision: Decision) -> list[str]:
    return [why.summary for why in decision.rationale]


@pytest.mark.parametrize("shared", [False, True], ids=["whole nodes", "shared nodes"])
@given(seed=st.integers(0, 10**9))
@example(seed=85701)  # a whole node from which jobs leave for two components
@settings(max_examples=120, deadline=None)
def test_no_other_room_for_all_components_is_cheaper(shared: bool, seed: int) -> None:
    view = random_cluster(seed, shared=shared)
    least, decision = least_price_node_s(view, AT_ONCE), eviction(view)
    held = holds(decision)
    if least is None:
        assert held == {}
        assert leaving(decision) == set()
        return
    assert len(held) == sum(bool(job.het_job_id) for job in view.jobs)
    nodes = [name for names in held.values() for name in names]
    assert len(set(nodes)) == len(nodes)
    assert price_of(decision, view) == least
    assert not any("is priced at" in text for text in summaries(decision)), "it is proven"
    assert all(one.allowed for one in arbitrate(decision.actions, view))


@pytest.mark.parametrize(("shared", "dearer"), [(False, 8), (True, 21)], ids=["whole nodes", "shared nodes"])
def test_one_after_another_often_costs_more(shared: bool, dearer: int) -> None:
    """Of 200 clusters; it is what the joint choice is for."""
    found = 0
    for seed in range(200):
        view = random_cluster(seed, shared=shared)
        with one_after_another():
            alone = eviction(view)
        together = eviction(view)
        assert len(holds(together)) >= len(holds(alone))
        if len(holds(together)) == len(holds(alone)):
            assert price_of(together, view) <= price_of(alone, view)
        found += price_of(together, view) < price_of(alone, view)
    assert found == dearer


def victim(name: str, age_s: float) -> Job:
    return running(f"v{name}", (name,), start_s=NOW_S - age_s, walltime_s=1e6)


def rivals(*more: Job) -> Cluster:
    """Two components that may both have n1, whose job has worked the least."""
    jobs = (victim("n1", 60.0), victim("n2", 120.0), victim("n3", 900.0), *more)
    view = cluster(3, component(0, 1, "n1", "n2"), component(1, 1, "n1", "n3"), *jobs)
    return replace(view, limits=UNLIMITED)


@both_policies
def test_the_first_component_does_not_take_what_the_second_needs_more(
    decide: Callable[[Cluster], Decision],
) -> None:
    with one_after_another():
        assert leaving(decide(rivals())) == {"vn1", "vn3"}
    decision = decide(rivals())
    assert leaving(decision) == {"vn1", "vn2"}
    assert holds(decision) == {"7+0": ("n2",), "7+1": ("n1",)}
    assert all(text.startswith(JOINTLY) for text in summaries(decision))
    notes = {one.job_ids: one.note for why in decision.rationale for one in why.candidates if one.note}
    assert notes == {("vn3",): "stays by the joint choice"}


@both_policies
def test_one_job_that_is_on_nodes_of_both_leaves_instead_of_two(
    decide: Callable[[Cluster], Decision],
) -> None:
    def part(job: Job, cpus: int) -> Job:
        return replace(job, allocation=(Resources.of({CPU: cpus}),) * len(job.nodes))

    jobs = (
        part(running("both", ("n1", "n2"), start_s=NOW_S - 100.0, walltime_s=1e6), 4),
        part(victim("n1", 120.0), 4),
        part(victim("n2", 120.0), 4),
    )
    needs = Resources.of({CPU: 4, MEMORY: 1})
    view = cluster(2, component(0, 1, "n1", demand=needs), component(1, 1, "n2", demand=needs), *jobs)
    view = with_capacity(replace(view, limits=UNLIMITED))
    with one_after_another():
        assert leaving(decide(view)) == {"vn1", "vn2"}
    assert leaving(decide(view)) == {"both"}


@both_policies
def test_room_that_no_order_finds_is_found(decide: Callable[[Cluster], Decision]) -> None:
    """Whichever of the first two comes first takes both nodes of `pair`, of which each needs one."""
    jobs = (
        running("triple", ("n5", "n3", "n2"), start_s=NOW_S - 120.0, walltime_s=1e6),
        running("pair", ("n1", "n4"), start_s=NOW_S - 120.0, walltime_s=1e6),
    )
    needs = (component(0, 2, "n1", "n2", "n4"), component(1, 2, "n1", "n3", "n4"), component(2, 1))
    view = replace(cluster(5, *needs, *jobs), limits=UNLIMITED)
    with one_after_another():
        assert holds(decide(view)) == {}
    held = {job_id: set(nodes) for job_id, nodes in holds(decide(view)).items()}
    assert "n2" in held["7+0"]
    assert "n3" in held["7+1"]
    assert held["7+2"] == {"n5"}
    assert leaving(decide(view)) == {"triple", "pair"}


@pytest.mark.parametrize("demand", [None, Resources.of({CPU: 4})], ids=["whole nodes", "shared nodes"])
def test_time_for_checkpoints_goes_to_the_job_that_has_more_to_lose(demand: Resources | None) -> None:
    """The first component alone would use it up."""
    spec = CheckpointSpec(system_s=400.0)
    jobs = (replace(victim("n1", 60.0), checkpoint=spec), replace(victim("n2", 900.0), checkpoint=spec))
    needs = component(0, 1, "n1", demand=demand), component(1, 1, "n2", demand=demand)
    view = with_capacity(replace(cluster(2, *needs, *jobs), limits=UNLIMITED))

    def signalled(decision: Decision) -> set[str]:
        return {one.job_id for one in decision.actions if isinstance(one, Checkpoint)}

    with one_after_another():
        assert signalled(eviction(view)) == {"vn1"}
    assert signalled(eviction(view)) == {"vn2"}
    assert price_of(eviction(view), view) == 60


@both_policies
def test_where_no_proof_is_found_the_bound_is_named(
    decide: Callable[[Cluster], Decision], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "choose_jointly", lambda instance, known: JointResult(bound_node_s=180))
    found = summaries(decide(rivals()))
    assert len(found) == 2
    assert all(
        text.endswith(" Any choice for all components is priced at 0.05 node-hours or more.")
        for text in found
    )


@both_policies
def test_what_does_not_concern_both_is_not_chosen_jointly(
    decide: Callable[[Cluster], Decision], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[JointInstance] = []
    monkeypatch.setattr(serving, "choose_jointly", lambda instance, known: asked.append(instance))
    apart = cluster(2, component(0, 1, "n1"), component(1, 1, "n2"), victim("n1", 60.0), victim("n2", 9.0))
    decide(replace(apart, limits=UNLIMITED))
    free = cluster(4, component(0, 1, "n1", "n2"), component(1, 1, "n2", "n3"), victim("n4", 60.0))
    decide(replace(free, limits=UNLIMITED))
    block = Placement(name="block", nodes=("n1", "n2", "n3"))
    decide(replace(rivals(), placements=(block,)))
    late = [replace(job, submit_s=-9000.0) if job.het_job_id else job for job in rivals().jobs]
    decide(replace(rivals(), jobs=tuple(late)))
    assert asked == []
    decide(rivals())
    assert len(asked) == 1


@both_policies
def test_nothing_is_looked_at_if_no_job_has_to_leave(
    decide: Callable[[Cluster], Decision], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **named: object) -> None:
        raise AssertionError("looked at")

    monkeypatch.setattr(serving, "shared_candidates", fail)
    free = cluster(4, component(0, 1, "n1", "n2"), component(1, 1, "n2", "n3"), victim("n4", 60.0))
    assert len(holds(decide(replace(free, limits=UNLIMITED)))) == 2


def shared_rivals(more: int = 0) -> Cluster:
    """The same as `rivals` on shared nodes, and more nodes with a dear job each."""
    needs = Resources.of({CPU: 4, MEMORY: 1})
    names = [f"n{number}" for number in range(4, 4 + more)]
    jobs = [victim("n1", 60.0), victim("n2", 120.0), *(victim(name, 900.0) for name in ("n3", *names))]
    jobs = [replace(job, allocation=(Resources.of(HAS),)) for job in jobs]
    needing = (
        component(0, 1, "n1", "n2", *names, demand=needs),
        component(1, 1, "n1", "n3", *names, demand=needs),
    )
    return with_capacity(replace(cluster(3 + more, *needing, *jobs), limits=UNLIMITED))


@both_policies
def test_each_job_is_priced_once_for_all_components(
    decide: Callable[[Cluster], Decision], monkeypatch: pytest.MonkeyPatch
) -> None:
    view, made = shared_rivals(5), list[str]()

    def counted(job: Job, view: Cluster) -> dict[str, Resources]:
        made.append(job.job_id)
        return held_on(job, view)

    monkeypatch.setattr(serving, "held_on", counted)
    decide(view)
    assert sorted(made) == [f"vn{number}" for number in range(1, 9)]


def test_a_component_is_served_again_from_the_nodes_of_the_joint_choice_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = list[int]()

    def counted(asked: ChoiceInstance) -> Choice | None:
        sizes.append(len(asked.free))
        return choose(asked)

    monkeypatch.setattr(shared_nodes, "choose", counted)
    decision = eviction(shared_rivals(5))
    assert leaving(decision) == {"vn1", "vn2"}
    assert sizes == [7, 6, 1, 1]
    notes = {one.job_ids for why in decision.rationale for one in why.candidates if one.note}
    assert notes == {(f"vn{number}",) for number in range(3, 9)}, "each says that it stays"


def test_on_shared_nodes_jobs_are_not_put_into_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **named: object) -> None:
        raise AssertionError("grouped")

    monkeypatch.setattr(eviction_policy, "remembered_groups", fail)
    assert leaving(eviction(shared_rivals())) == {"vn1", "vn2"}


def test_what_is_proven_with_jobs_that_end_is_proven_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """One programme of two is left out."""
    asked = list[int | None]()

    def proven(instance: JointInstance, known: int | None) -> JointResult:
        asked.append(known)
        return JointResult(bound_node_s=0 if known is None else known)

    monkeypatch.setattr(serving, "choose_jointly", proven)
    view = shared_rivals(1)
    ending = replace(view.jobs[-1], walltime_s=901.0)
    EVICTION.decision(replace(view, jobs=(*view.jobs[:-1], ending)), EvictionConfig())
    assert len(asked) == 1


def test_a_choice_that_cannot_be_carried_out_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_vain(instance: JointInstance, known: int | None) -> JointResult | None:
        found = real(instance, known)
        assert found is not None
        assert found.choice is not None
        return replace(found, choice=replace(found.choice, leaving={}))

    real = choose_jointly
    monkeypatch.setattr(serving, "choose_jointly", in_vain)
    assert leaving(eviction(rivals())) == {"vn1", "vn3"}


def test_kills_that_wait_wait_for_all_components() -> None:
    jobs = [replace(job, start_s=NOW_S - 3000.0) if job.job_id == "vn1" else job for job in rivals().jobs]
    view = with_capacity(replace(rivals(), jobs=tuple(jobs)))
    decision = EVICTION.decision(view, EvictionConfig())
    assert leaving(decision) == set()
    assert len(holds(decision)) == 2
    assert decision.again_s is not None


def test_concurrent_checkpoints_are_not_chosen_jointly() -> None:
    config = EvictionConfig(kills="at_once", checkpoints="concurrent")
    assert leaving(EVICTION.decision(rivals(), config)) == {"vn1", "vn3"}


def test_a_job_that_shrinks_for_one_component_does_not_make_the_next_one_wait() -> None:
    """They start together: nothing would ever shrink."""
    wide = running(
        "wide",
        ("n1", "n2", "n3"),
        start_s=NOW_S - 60.0,
        walltime_s=1e6,
        kind=JobKind.MALLEABLE,
        node_count_min=2,
    )
    view = cluster(4, component(0, 1), component(1, 1), wide, victim("n4", 900.0))
    decision = least_price(replace(view, limits=UNLIMITED))
    assert len(holds(decision)) == 2
    assert {one.job_id for one in decision.actions if isinstance(one, Shrink)} == {"wide"}
