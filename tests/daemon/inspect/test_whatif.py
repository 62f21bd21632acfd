"""What making room would cost, at every deadline."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from makeway.daemon.errors import UserError
from makeway.daemon.inspect.whatif import WhatIfAnswer, WhatIfQuestion, departures, what_if
from makeway.policies.eviction.knapsack import Departure, EvictionJob, EvictionPlan
from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.model import CheckpointSpec, Cluster, Job, JobKind, Limits, Method, NodeState
from tests.builders import cluster, held, node_names, running, urgent

NOW_S = 100_000.0
SAVES = CheckpointSpec(system_s=300.0)


def request(
    view: Cluster, nodes: int, deadline_s: float = 900.0, step_s: float | None = 60.0
) -> WhatIfAnswer:
    return what_if(view, WhatIfQuestion(node_count=nodes, deadline_s=deadline_s, step_s=step_s))


def three() -> Cluster:
    """Two jobs of four nodes, one of which can checkpoint in five minutes, and two free nodes."""
    first, second = node_names(4), node_names(4, 5)
    return cluster(
        10,
        running("dear", first, start_s=NOW_S - 36_000, checkpoint=SAVES),
        running("cheap", second, start_s=NOW_S - 3600),
        now_s=NOW_S,
    )


def test_free_nodes_cost_nothing() -> None:
    answer = request(three(), 2)
    assert answer.shortage == 0
    assert answer.losses_node_s == (0,) * 16
    assert [level.plan.departures for level in answer.levels] == [()]


def test_time_saves_work() -> None:
    answer = request(three(), 10)
    assert answer.node_count_free == 2
    assert answer.shortage == 8
    early, late = answer.levels
    assert (early.from_s, early.until_s, early.plan.loss_node_s) == (0.0, 240.0, 4 * 36_000 + 4 * 3600)
    assert (late.from_s, late.until_s, late.plan.loss_node_s) == (300.0, 900.0, 4 * 3600)
    assert [(leaver.item.job_ids, leaver.method) for leaver in departures(late.plan)] == [
        (("cheap",), Method.KILL),
        (("dear",), Method.SYSTEM),
    ]


def test_no_more_than_needed_leave() -> None:
    (level,) = request(three(), 4, deadline_s=240.0).levels
    assert [leaver.item.job_ids for leaver in level.plan.departures] == [("cheap",)]


def test_nodes_that_a_malleable_job_can_spare_cost_nothing() -> None:
    elastic = running(
        "elastic", node_names(6), start_s=NOW_S - 3600, kind=JobKind.MALLEABLE, node_count_min=2
    )
    view = cluster(6, elastic, now_s=NOW_S)
    question = WhatIfQuestion(node_count=3, deadline_s=60.0, step_s=60.0, shrink=True)
    (level,) = what_if(view, question).levels
    (leaver,) = level.plan.departures
    assert (leaver.method, leaver.node_count, level.plan.loss_node_s) == (Method.SHRINK, 3, 0)
    (killed,) = what_if(view, replace(question, shrink=False)).levels
    assert (killed.plan.departures[0].method, killed.plan.loss_node_s) == (Method.KILL, 6 * 3600)


def test_protected_jobs_are_named_and_not_asked() -> None:
    view = three()
    protected = running("root's", node_names(2, 9), start_s=0.0, preemptible=False)
    answer = request(cluster(10, *view.jobs, protected, now_s=NOW_S), 9)
    assert answer.losses_node_s == (None,) * 16
    assert answer.levels == ()
    (group,) = answer.protected
    assert (group.job_ids, group.node_count, group.reason) == (("root's",), 2, "not_preemptible")


def test_limits_of_the_site_hold() -> None:
    view = three()
    limited = Cluster(now_s=NOW_S, nodes=view.nodes, jobs=view.jobs, limits=Limits(min_runtime_s=7200.0))
    assert [group.job_ids for group in request(limited, 10).protected] == [("cheap",)]


def test_nodes_that_are_held_for_others_are_not_offered() -> None:
    view = cluster(
        4, running("a", node_names(2), start_s=0.0), now_s=NOW_S, reservations=(held("u", ("n3", "n4")),)
    )
    answer = request(view, 3)
    assert answer.node_count_free == 0
    assert answer.levels == ()


def test_more_nodes_than_there_are() -> None:
    with pytest.raises(
        UserError, match=r"--nodes: 11 nodes are wanted, but only 10 nodes of the cluster are up"
    ):
        request(three(), 11)
    down = cluster(4, now_s=NOW_S)
    drained = Cluster(
        now_s=NOW_S,
        nodes=tuple(
            node if index else type(node)(name=node.name, state=NodeState.DRAINED)
            for index, node in enumerate(down.nodes)
        ),
        jobs=(),
    )
    with pytest.raises(UserError, match="4 nodes are wanted, but only 3 nodes of the cluster are up"):
        request(drained, 4)


def test_a_resolution_that_is_too_fine_is_refused() -> None:
    with pytest.raises(UserError, match="--step: 9000000 steps for 2 jobs and 8 nodes are too many"):
        request(three(), 10, step_s=0.0001)


@pytest.mark.parametrize(
    ("deadline_s", "step_s"), [(0.0, 1.0), (60.0, 1.0), (900.0, 15.0), (3600.0, 60.0), (604_800.0, 10_800.0)]
)
def test_the_resolution_fits_the_deadline(deadline_s: float, step_s: float) -> None:
    assert request(three(), 10, deadline_s=deadline_s, step_s=None).step_s == step_s


def test_departures_are_ordered_by_cost() -> None:
    def leaves(name: str, nodes: int, loss_node_s: int, method: Method) -> Departure:
        item = EvictionJob(job_ids=(name,), node_count=nodes, loss_node_s=loss_node_s, system_s=1.0)
        return Departure(item=item, method=method)

    found = (
        leaves("a", 1, 900, Method.SYSTEM),
        leaves("b", 2, 0, Method.KILL),
        leaves("c", 1, 5, Method.KILL),
        leaves("d", 2, 7, Method.SYSTEM),
    )
    plan = EvictionPlan(departures=found, loss_node_s=5, checkpoint_steps=2, checkpoint_s=2.0, node_count=6)
    assert [leaver.item.job_ids[0] for leaver in departures(plan)] == ["c", "b", "d", "a"]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    jobs: list[Job] = []
    first = 1
    for index in range(draw(st.integers(1, 6))):
        size = draw(st.integers(1, 4))
        spec = draw(st.sampled_from([None, SAVES, CheckpointSpec(interval_s=3600.0, application_s=60.0)]))
        start_s = NOW_S - draw(st.integers(1, 20_000))
        kind = draw(st.sampled_from([JobKind.RIGID, JobKind.MALLEABLE]))
        job = running(f"j{index}", node_names(size, first), kind=kind, start_s=start_s, checkpoint=spec)
        jobs.append(replace(job, node_count_min=draw(st.integers(1, size))))
        first += size
    return cluster(first - 1 + draw(st.integers(0, 3)), *jobs, now_s=NOW_S)


@settings(deadline=None)
@given(clusters(), st.data())
def test_it_says_what_the_policy_would_do(view: Cluster, data: st.DataObject) -> None:
    """For every deadline, the loss of the answer is that of the policy's decision for a job that
    comes now.
    """
    nodes = data.draw(st.integers(1, len(view.nodes)))
    shrink = data.draw(st.booleans())
    question = WhatIfQuestion(node_count=nodes, deadline_s=1800.0, step_s=60.0, shrink=shrink)
    answer = what_if(view, question)
    losses = [loss for loss in answer.losses_node_s if loss is not None]
    assert losses == sorted(losses, reverse=True)
    for level in answer.levels:
        assert level.plan.node_count >= max(0, answer.shortage)
        assert level.plan.checkpoint_s <= level.from_s
    assume(answer.shortage > 0)
    index = data.draw(st.integers(1, 30))
    config = EvictionConfig(start_within_s=index * 60.0, margin_s=0.0, step_s=60.0, shrink=shrink)
    releasing = cluster(len(view.nodes), *view.jobs, urgent("u", nodes, submit_s=NOW_S), now_s=NOW_S)
    (why,) = EVICTION.decide(releasing, config).rationale
    if answer.losses_node_s[index] is None:
        assert not any(candidate.chosen for candidate in why.candidates)
    else:
        assert why.loss_node_s == answer.losses_node_s[index]
