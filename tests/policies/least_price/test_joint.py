"""Bursts: one choice for several urgent jobs, if that costs less than one for each."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.common.losses import cost_node_s, departures
from makeway.policies.least_price import policy
from makeway.policies.least_price.bursts import OneByOne, OwnService, Terms
from makeway.policies.least_price.joint import decide_together
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
    Placement,
    Progress,
    Reason,
    Requeue,
    Reserve,
    Task,
)
from tests.builders import cluster, node_names, running, urgent
from tests.policies.arriving import carried_out, victims

NOW_S = 36_000.0
HOUR_S = 3600.0
UNLIMITED = Limits(max_loss_node_hours=None, max_loss_node_hours_per_day=None)
CHEAPEST = {"ceiling_machine_hours": None, "instant_machine_hours": 0.0, "waiting_machine_hours": None}
"""Starts neither are at once by dearer evictions nor wait, and may cost whatever they cost."""
TOGETHER = "Chosen for 2 urgent jobs together, which costs less. "


def decide(view: Cluster, **changes: Any) -> Decision:
    return LEAST_PRICE.decision(view, LeastPriceConfig(**{**CHEAPEST, **changes}))


def decide_by(
    served: Callable[[Cluster, LeastPriceConfig, OneByOne], Decision], view: Cluster, **changes: Any
) -> Decision:
    """The decision of `served`, which gets the policy's way to serve each urgent job for itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "decide_together", served)
        return decide(view, **changes)


def alone(view: Cluster, **changes: Any) -> Decision:
    """The decision in which each urgent job is served for itself."""
    return decide_by(
        lambda view, config, one_by_one: one_by_one(view, config, Terms()).decision, view, **changes
    )


def holds(decision: Decision) -> dict[str, tuple[str, ...]]:
    return {one.job_id: one.nodes for one in decision.actions if isinstance(one, Reserve)}


def full(*jobs: tuple[str, int, float, float | None], waiting: tuple[Job, ...]) -> Cluster:
    """A cluster without a free node.

    `jobs`: of each its id, its number of nodes, the seconds since its start, and how long a checkpoint takes
    that a signal starts. None: it has none.
    """
    held, first = list[Job](), 1
    for job_id, node_count, age_s, system_s in jobs:
        nodes = node_names(node_count, first)
        spec = None if system_s is None else CheckpointSpec(system_s=system_s)
        held.append(running(job_id, nodes, start_s=NOW_S - age_s, walltime_s=1e6, checkpoint=spec))
        first += node_count
    return replace(cluster(first - 1, *held, *waiting, now_s=NOW_S), limits=UNLIMITED)


def wanting(*node_counts: int, **changes: Any) -> tuple[Job, ...]:
    """u1, u2, ..., one second apart."""
    return tuple(
        replace(urgent(f"u{index}", count, submit_s=NOW_S - 10.0 + index), walltime_s=600.0, **changes)
        for index, count in enumerate(node_counts, start=1)
    )


SMALL_AND_LARGE = (("small", 1, 7200.0, None), ("large", 8, 28_800.0, None))


def test_one_large_job_makes_room_for_all_instead_of_a_small_one_besides() -> None:
    view = full(*SMALL_AND_LARGE, ("protected", 1, 7200.0, None), waiting=wanting(1, 7))
    protected = replace(view.jobs_by_id()["protected"], preemptible=False)
    view = replace(view, jobs=(*(job for job in view.jobs if job.job_id != "protected"), protected))
    assert victims(alone(view)) == [("small", Method.KILL), ("large", Method.KILL)]
    decision = decide(view)
    assert victims(decision) == [("large", Method.KILL)]
    assert holds(decision) == {"u1": ("n2",), "u2": node_names(7, 3)}
    first, second = decision.rationale
    assert first.summary.startswith(TOGETHER)
    assert second.summary.startswith(TOGETHER)
    assert [(one.job_ids, one.note) for one in first.candidates if not one.chosen] == [
        (("protected",), "not_preemptible"),
        (("small",), "stays by the joint choice"),
    ]


FOR_THE_TIME = (("a", 1, 1000.0, 240.0), ("b", 1, 20_000.0, 240.0), ("large", 2, 36_000.0, 300.0))


def test_the_time_for_checkpoints_goes_to_the_jobs_that_would_lose_most() -> None:
    """540 s are enough for two checkpoints. Alone, the first urgent job has `a` and `b` save their work."""
    view = full(*FOR_THE_TIME, waiting=wanting(2, 2))
    assert ("large", Method.KILL) in victims(alone(view))
    assert sorted(victims(decide(view))) == [
        ("a", Method.KILL),
        ("b", Method.SYSTEM),
        ("large", Method.SYSTEM),
    ]


def test_a_decision_that_cannot_be_cheaper_stays_as_it_is() -> None:
    view = full(("a", 1, 1000.0, None), ("b", 1, 2000.0, None), ("c", 1, 3000.0, None), waiting=wanting(1, 1))
    assert decide(view) == alone(view)
    single = full(*SMALL_AND_LARGE, waiting=wanting(1))
    assert decide(single) == alone(single)


@pytest.mark.parametrize(
    "changes",
    [
        {"eligible_nodes": frozenset(node_names(9))},
        {"account": "vital"},
        {"het_job_id": "7"},
        {"start_within_s": 5.0},  # it is late
    ],
)
def test_only_urgent_jobs_of_one_kind_are_decided_on_together(changes: dict[str, Any]) -> None:
    first, second = wanting(1, 7)
    view = full(*SMALL_AND_LARGE, waiting=(replace(first, **changes), second))
    vital = {"vital_accounts": frozenset({"vital"})}
    assert decide(view, **vital) == alone(view, **vital)


def test_nothing_is_chosen_jointly_where_jobs_share_nodes_or_urgent_jobs_get_placements() -> None:
    view = full(*SMALL_AND_LARGE, waiting=wanting(1, 7))
    calls = list[int]()

    def counted(view: Cluster, config: LeastPriceConfig, one_by_one: OneByOne) -> Decision:
        def one(view: Cluster, config: LeastPriceConfig, terms: Terms) -> OwnService:
            calls[-1] += 1
            return one_by_one(view, config, terms)

        calls.append(0)
        return decide_together(view, config, one)

    guest = running("guest", ("n9",), start_s=NOW_S - 28_800.0, walltime_s=1e6)
    decide_by(counted, replace(view, jobs=(*view.jobs, guest)))
    decide_by(counted, replace(view, placements=(Placement(name="all", nodes=node_names(9)),)))
    decide_by(counted, view)
    assert calls == [1, 1, 3]


@pytest.mark.parametrize(("delay_s", "changes"), [(600.0, {}), (300.0, {"instant_machine_hours": None})])
def test_no_start_becomes_late_or_is_delayed_for_a_lower_price(
    delay_s: float, changes: dict[str, Any]
) -> None:
    """The joint choice would do so in no case that is known, so that its starts are delayed here."""
    view = full(*SMALL_AND_LARGE, waiting=wanting(1, 7))

    def delayed(view: Cluster, config: LeastPriceConfig, one_by_one: OneByOne) -> Decision:
        def one(view: Cluster, config: LeastPriceConfig, terms: Terms) -> OwnService:
            found = one_by_one(view, config, terms)
            late = tuple(replace(why, ready_s=NOW_S + delay_s) for why in found.decision.rationale)
            return replace(found, decision=replace(found.decision, rationale=late)) if terms.spared else found

        return decide_together(view, config, one)

    assert decide_by(delayed, view, **changes) == alone(view, **changes)
    assert decide(view, **changes) != alone(view, **changes)


def test_more_jobs_may_leave_only_if_the_limit_per_hour_allows_it() -> None:
    """Jointly, `b` has the time for its checkpoint, and two others leave instead of the large one."""
    jobs = (
        ("a", 1, 400.0, 300.0),
        ("b", 1, 8000.0, 300.0),
        ("large", 3, 2000.0, None),
        ("other", 1, 2000.0, None),
    )
    view = full(*jobs, waiting=wanting(1, 2))
    assert len(victims(alone(view))) == 2
    assert len(victims(decide(view))) == 3
    for limit, leaving in ((3, 3), (2, 2)):
        limited = replace(view, limits=replace(UNLIMITED, evictions_per_hour=limit))
        assert len(victims(decide(limited))) == leaving


def test_each_urgent_job_keeps_to_its_own_limit_on_lost_work() -> None:
    """Jointly, 64 node-hours are lost for the first of two urgent jobs, and none for the second."""
    view = full(*SMALL_AND_LARGE, waiting=wanting(1, 7))
    by_user = replace(UNLIMITED, max_loss_node_hours_per_user_per_day=65.0)
    first, second = (job for job in view.jobs if job.state is JobState.PENDING)
    others = tuple(job for job in view.jobs if job.state is not JobState.PENDING)
    view = replace(view, jobs=(*others, replace(first, user="poor"), second), limits=by_user)
    assert victims(decide(view)) == [("large", Method.KILL)]
    poor = replace(view, lost_by_user={"poor": 10 * HOUR_S})
    assert decide(poor) == alone(poor)
    assert {job_id for job_id, _ in victims(decide(poor))} == {"small", "large"}


@pytest.mark.parametrize(
    ("limits", "changes"),
    [
        ({"max_loss_node_hours": 22.0}, {}),
        ({"max_loss_node_hours_per_user_per_day": 22.0}, {}),
        ({"max_loss_node_hours_per_account_per_day": 22.0}, {}),
        ({}, {"ceiling_machine_hours": 22.0 / 8}),
    ],
)
def test_what_one_urgent_job_may_cost_does_not_limit_the_sum(
    limits: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Each start costs 20 node-hours at most, alone and together, and all of them more than 40."""
    jobs = (*FOR_THE_TIME, ("large2", 2, 36_000.0, None), ("large3", 2, 36_000.0, None))
    waiting = tuple(replace(job, user=job.job_id, account=job.job_id) for job in wanting(2, 2, 2, 2))
    view = replace(full(*jobs, waiting=waiting), limits=replace(UNLIMITED, **limits))
    killed = {job_id for job_id, method in victims(decide(view, **changes)) if method is Method.KILL}
    assert killed == {"a", "large2", "large3"}
    assert len(holds(alone(view, **changes))) == 4


def test_starts_at_once_are_not_given_up_for_less_than_they_may_cost() -> None:
    """Jointly, 500 node-seconds are spent instead of 2,300, but two starts are no longer at once."""
    jobs = (
        ("a", 1, 30_000.0, 250.0),
        ("b", 1, 30_000.0, 250.0),
        ("c", 1, 1100.0, None),
        ("d", 1, 1200.0, None),
    )
    view = full(*jobs, waiting=wanting(1, 1))
    at_once = [("c", Method.KILL), ("d", Method.KILL)]
    assert victims(decide(view, instant_machine_hours=1000.0 / (4 * HOUR_S))) == at_once
    assert victims(decide(view, instant_machine_hours=None)) == at_once
    assert victims(decide(view)) == [("a", Method.SYSTEM), ("b", Method.SYSTEM)]


def ending(view: Cluster, job_id: str, left_s: float) -> Cluster:
    """The snapshot in which the time limit of one job ends in `left_s`."""
    return replace(
        view,
        jobs=tuple(
            replace(job, walltime_s=NOW_S - (job.start_s or 0.0) + left_s) if job.job_id == job_id else job
            for job in view.jobs
        ),
    )


def ending_soon(view: Cluster) -> Cluster:
    """The snapshot in which it pays to wait: the limits end after the deadline, but most jobs end before."""
    for job in view.holders():
        view = ending(view, job.job_id, 1000.0)
    return view


def test_a_dear_start_need_not_wait_if_the_joint_one_is_cheap() -> None:
    """Alone, the second start costs 20 node-hours and waits. Jointly, no start does."""
    view = ending_soon(full(*FOR_THE_TIME, waiting=wanting(2, 2)))
    before = alone(view, waiting_machine_hours=1.0)
    assert before.again_s is not None
    assert victims(before) == [("a", Method.SYSTEM), ("b", Method.SYSTEM)]
    decision = decide(view, waiting_machine_hours=1.0)
    assert decision.again_s is None
    assert len(victims(decision)) == 3


def test_no_start_waits_that_need_not_wait_alone() -> None:
    """Jointly, the first start would cost 64 node-hours instead of 2, so that it would wait."""
    view = ending_soon(full(*SMALL_AND_LARGE, waiting=wanting(1, 7)))
    decision = decide(view, waiting_machine_hours=1.0)
    assert victims(decision) == [("small", Method.KILL)]
    assert decision == alone(view, waiting_machine_hours=1.0)


def test_starts_that_wait_both_ways_wait_for_the_joint_choice() -> None:
    view = ending_soon(full(*SMALL_AND_LARGE, waiting=wanting(1, 7)))
    decision = decide(view, waiting_machine_hours=0.1)
    assert victims(decision) == []
    assert decision.again_s == NOW_S - 9.0 + 600.0 - 30.0 - 60.0
    assert holds(decision) == {"u1": ("n2",), "u2": node_names(7, 3)}


def test_jobs_that_are_left_to_end_count_as_room_for_all() -> None:
    """`large` ends by its time limit: both starts wait for that, alone and together."""
    view = ending(full(*SMALL_AND_LARGE, waiting=wanting(1, 7)), "large", 300.0)
    decision = decide(view)
    assert victims(decision) == []
    assert decision == alone(view)
    assert holds(decision) == {"u1": ("n2",), "u2": node_names(7, 3)}


def test_the_joint_choice_is_kept_until_its_last_moment() -> None:
    dear = {"waiting_machine_hours": 0.1}
    view = ending_soon(full(*SMALL_AND_LARGE, waiting=wanting(1, 7)))
    held = carried_out(view, decide(view, **dear))
    meanwhile = decide(replace(held, now_s=NOW_S + 100.0), **dear)
    assert holds(meanwhile) == {}
    assert victims(decide(replace(held, now_s=NOW_S + 502.0), **dear)) == [("large", Method.KILL)]
    assert len(victims(alone(replace(held, now_s=NOW_S + 502.0), **dear))) == 2


def test_an_urgent_job_for_which_jobs_are_leaving_is_not_decided_on_anew() -> None:
    """Its hold has lost n1, which `small` uses."""
    view = full(*SMALL_AND_LARGE, waiting=wanting(1, 7))
    held = carried_out(view, alone(view, waiting_machine_hours=0.1))
    first, second = held.operations
    gone = Requeue(
        job_id="gone",
        for_job_id="u1",
        policy="least-price",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.KILL,
        not_after_s=NOW_S,
    )
    leaving = Task(action=gone, progress=Progress.DONE)
    held = replace(held, operations=(replace(first, tasks=(*first.tasks, leaving)), second))
    assert decide(held) == alone(held)


@st.composite
def bursts(draw: st.DrawFn) -> Cluster:
    """A full cluster and two to four urgent jobs."""
    ages_s, durations_s = st.sampled_from([400.0, 3000.0, 20_000.0]), st.sampled_from([None, 60.0, 200.0])
    count = draw(st.integers(3, 8))
    jobs = [(f"r{index}", draw(st.integers(1, 4)), draw(ages_s), draw(durations_s)) for index in range(count)]
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    view = full(*jobs, waiting=wanting(*sizes))
    once = draw(st.sampled_from([0, 1]))
    return replace(view, jobs=tuple(replace(job, requeue_count=once) for job in view.jobs))


def price_node_s(decision: Decision, view: Cluster) -> int:
    """The price of the evictions, without past ones."""
    return sum(cost_node_s(job, method, NOW_S) for job, method in departures(decision.actions, view))


@settings(deadline=None, max_examples=100)
@given(view=bursts())
def test_no_burst_costs_more_than_one_by_one_or_less_than_as_one_urgent_job(view: Cluster) -> None:
    decision, before = decide(view), alone(view)
    assert price_node_s(decision, view) <= price_node_s(before, view)
    assert holds(decision).keys() >= holds(before).keys()
    waiting = [job for job in view.jobs if job.kind is JobKind.ON_DEMAND]
    if len(holds(decision)) == len(waiting):
        one = replace(waiting[0], node_count=sum(job.node_count for job in waiting))
        batch = [job for job in view.jobs if job.kind is not JobKind.ON_DEMAND]
        together = replace(view, jobs=(*batch, one))
        assert price_node_s(decide(together), together) <= price_node_s(decision, view)
