"""On shared nodes, what is the same for all urgent jobs of a decision is worked out once for each job."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from makeway.policies.choice.choose import choose
from makeway.policies.choice.instance import Choice, ChoiceInstance, all_ways_to_leave
from makeway.policies.common.commitments import Commitments
from makeway.policies.common.departures import ends_by
from makeway.policies.common.requests import Proposal, candidates_of, request_for
from makeway.policies.common.urgent_jobs import UrgentJob
from makeway.policies.common.victims import COMMITTED, protected_by, shared_candidates
from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.eviction.shared_nodes import make_room_on_shared_nodes
from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import CheckpointSpec, Cluster, JobKind, JobState, Limits, Memo, Method
from tests.policies.sharing import NOW_S, amounts, part, shared

LATEST_S = NOW_S + 570.0


def busy() -> Cluster:
    """Four nodes full of jobs, some of which save their work or end soon; three urgent jobs wait."""
    jobs = [
        part(
            f"b{node}{place}",
            f"n{node}" if place or node % 2 else f"n{node} n{node + 1}",
            amounts(1),
            start_s=NOW_S - 1000.0 - 100 * node - 7 * place,
            walltime_s=1500.0 if place == 3 else 20_000.0,
            checkpoint=CheckpointSpec(system_s=30.0 + 60 * place, grace_s=600.0) if place % 2 else None,
            user="bob" if place == 6 else "alice",
        )
        for node in range(4)
        for place in range(7)
    ]
    urgent = [
        replace(
            part(f"u{number}", "", amounts(0)),
            kind=JobKind.ON_DEMAND,
            state=JobState.PENDING,
            start_s=None,
            allocation=None,
            node_equivalents=None,
            node_count=1,
            demand=amounts(5),
            submit_s=NOW_S - 10.0 - number,
        )
        for number in range(3)
    ]
    cluster = shared(*jobs, *urgent, node_count=4)
    return replace(cluster, limits=replace(cluster.limits, protected_users=frozenset({"bob"})))


def test_the_ways_of_each_job_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counter[float]()

    def counted(price: int, **given: Any) -> object:
        asked[price] += 1
        return all_ways_to_leave(price, **given)

    monkeypatch.setattr("makeway.policies.eviction.shared_nodes.all_ways_to_leave", counted)
    cluster = busy()
    decision = EVICTION.decision(cluster, EvictionConfig())
    assert len({action.for_job_id for action in decision.actions}) == 3
    assert sum(asked.values()) == len(cluster.holders())


def test_a_choice_that_prices_and_times_do_not_change_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused for its loss, it is looked for once more, by lost work."""
    made = list[ChoiceInstance]()

    def counted(instance: ChoiceInstance) -> Choice | None:
        made.append(instance)
        return choose(instance)

    monkeypatch.setattr("makeway.policies.eviction.shared_nodes.choose", counted)
    urgent = replace(busy().waiting_urgent_jobs()[0], node_count=1)
    cluster = shared(part("a", "n0", amounts(8)), urgent, node_count=1)
    limited = replace(cluster, limits=Limits(max_loss_node_hours=0.1))
    assert LEAST_PRICE.decision(limited, LeastPriceConfig()).actions[0].verb == "prioritise"
    assert len(made) == 1


@pytest.mark.parametrize("methods", [{}, {"b11": Method.APPLICATION, "b21": Method.KILL}])
def test_a_choice_is_the_same_whatever_was_worked_out_before(methods: dict[str, Method]) -> None:
    cluster, memo = busy(), Memo()
    for job in cluster.waiting_urgent_jobs():
        request = request_for(Commitments(cluster=cluster), UrgentJob(job=job), "test", NOW_S + 600.0, 900.0)
        for latest_s in (LATEST_S, LATEST_S - 300.0, NOW_S):
            for ending in ({}, ends_by(cluster, latest_s)):
                one = replace(request, methods=methods)
                first, again = (
                    make_room_on_shared_nodes(
                        one, latest_s=latest_s, leave_s=60.0, step_s=30.0, ending=ending, memo=known
                    )
                    for known in (None, memo)
                )
                assert first == again


def test_the_protected_jobs_are_those_that_are_asked_about_one_by_one() -> None:
    cluster = busy()
    job = cluster.waiting_urgent_jobs()[0]
    excluded = frozenset({"b01", "b06", "elsewhere"})
    found = shared_candidates(
        cluster, UrgentJob(job=job), unusable=frozenset({"n3"}), excluded=excluded, latest_s=LATEST_S
    )
    assert found.protected_by == {
        one.job_id: why for one in found.jobs if (why := protected_by(one, cluster, excluded))
    }
    assert found.protected_by["b06"] == COMMITTED
    assert found.jobs == tuple(found.holders[number] for number in found.numbers)
    assert found.jobs == tuple(
        sorted(
            (one for one in cluster.holders() if set(one.nodes) & {"n0", "n1", "n2"}),
            key=lambda one: one.job_id,
        )
    )
    request = request_for(Commitments(cluster=cluster), UrgentJob(job=job), "test", NOW_S + 600.0, 900.0)
    assert [found.node_count(one) for one in found.jobs] == [
        len(set(one.nodes) & found.room.keys()) for one in found.jobs
    ]
    assert candidates_of(request, LATEST_S).holders is found.holders


def room_for_the_first(cluster: Cluster, **changes: Any) -> Proposal:
    """What is proposed for the first urgent job."""
    urgent = UrgentJob(job=cluster.waiting_urgent_jobs()[0])
    known = Commitments(cluster=cluster)
    request = replace(request_for(known, urgent, "test", NOW_S + 600.0, 900.0), **changes)
    return make_room_on_shared_nodes(request, latest_s=LATEST_S, leave_s=60.0, step_s=30.0)


def test_a_job_leaves_as_a_joint_choice_lets_it() -> None:
    cluster = busy()
    saved = [one for one in room_for_the_first(cluster).rationale.candidates if one.chosen]
    assert Method.SYSTEM in {one.method for one in saved}
    killed = {job.job_id: Method.KILL for job in cluster.holders()}
    found = room_for_the_first(cluster, methods=killed).rationale.candidates
    assert {one.method for one in found if one.chosen} == {Method.KILL}


def test_a_job_is_told_with_those_of_its_nodes_that_could_serve() -> None:
    cluster = busy()
    jobs = tuple(
        replace(job, eligible_nodes=frozenset({"n0", "n2", "n3"})) if job.kind is JobKind.ON_DEMAND else job
        for job in cluster.jobs
    )
    wide = [one for one in cluster.holders() if len(one.nodes) == 2]
    found = room_for_the_first(replace(cluster, jobs=jobs)).rationale.candidates
    counts = {one.job_ids[0]: one.node_count for one in found}
    assert wide
    assert {job.job_id: counts[job.job_id] for job in wide} == {
        job.job_id: len({"n0", "n2", "n3"}.intersection(job.nodes)) for job in wide
    }
    assert 1 in {counts[job.job_id] for job in wide}
