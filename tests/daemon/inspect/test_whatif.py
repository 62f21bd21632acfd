"""What making room would cost, at every deadline."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from makeway.daemon.errors import UserError
from makeway.daemon.inspect.loss_curves import Leaver, by_cost
from makeway.daemon.inspect.whatif import WhatIfAnswer, WhatIfQuestion, question_like, what_if
from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.model import CheckpointSpec, Cluster, Job, JobKind, Limits, Method, NodeState, Resources
from tests.builders import cluster, held, node_names, running, urgent
from tests.policies.sharing import amounts, part, shared

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
    assert [level.leavers for level in answer.levels] == [()]


def test_time_saves_work() -> None:
    answer = request(three(), 10)
    assert answer.node_count_free == 2
    assert answer.shortage == 8
    early, late = answer.levels
    assert (early.from_s, early.until_s, early.loss_node_s) == (0.0, 240.0, 4 * 36_000 + 4 * 3600)
    assert (late.from_s, late.until_s, late.loss_node_s) == (300.0, 900.0, 4 * 3600)
    assert [(leaver.job_ids, leaver.method) for leaver in late.leavers] == [
        (("cheap",), Method.KILL),
        (("dear",), Method.SYSTEM),
    ]


def test_no_more_than_needed_leave() -> None:
    (level,) = request(three(), 4, deadline_s=240.0).levels
    assert [leaver.job_ids for leaver in level.leavers] == [("cheap",)]


def test_the_loss_is_work_and_not_the_price_of_jobs_that_were_evicted_before() -> None:
    """The price chooses: `often` loses less, and counts for four times as much."""
    view = cluster(
        8,
        replace(running("often", node_names(4), start_s=NOW_S - 3600), past_evictions=1),
        running("never", node_names(4, 5), start_s=NOW_S - 7200),
        now_s=NOW_S,
    )
    (one,) = request(view, 4, deadline_s=60.0).levels
    assert [(leaver.job_ids, leaver.loss_node_s) for leaver in one.leavers] == [(("never",), 4 * 7200)]
    assert (one.loss_node_s, one.price_node_s) == (4 * 7200, 4 * 7200)
    both = request(view, 8, deadline_s=60.0)
    (two,) = both.levels
    assert [leaver.loss_node_s for leaver in two.leavers] == [4 * 7200, 4 * 3600]
    assert (two.loss_node_s, two.price_node_s) == (4 * 10_800, 4 * (7200 + 4 * 3600))
    assert set(both.losses_node_s) == {4 * 10_800}


def test_more_time_may_lose_more_at_a_lower_price() -> None:
    """Once there is time for `saves`, `often` stays for its price, although `never` loses more than it."""
    view = cluster(
        16,
        replace(running("often", node_names(8), start_s=NOW_S - 3600), past_evictions=2),
        running("saves", node_names(4, 9), start_s=NOW_S - 360_000, checkpoint=SAVES),
        running("never", node_names(4, 13), start_s=NOW_S - 9000),
        now_s=NOW_S,
    )
    early, late = request(view, 8).levels
    assert [leaver.job_ids for leaver in early.leavers] == [("often",)]
    assert (early.loss_node_s, early.price_node_s, early.until_s) == (8 * 3600, 9 * 8 * 3600, 240.0)
    assert [leaver.job_ids for leaver in late.leavers] == [("never",), ("saves",)]
    assert (late.loss_node_s, late.price_node_s, late.from_s) == (4 * 9000, 4 * 9000, 300.0)


def test_nodes_that_a_malleable_job_can_spare_cost_nothing() -> None:
    elastic = running(
        "elastic", node_names(6), start_s=NOW_S - 3600, kind=JobKind.MALLEABLE, node_count_min=2
    )
    view = cluster(6, elastic, now_s=NOW_S)
    question = WhatIfQuestion(node_count=3, deadline_s=60.0, step_s=60.0, shrink=True)
    (level,) = what_if(view, question).levels
    (leaver,) = level.leavers
    assert (leaver.method, leaver.node_count, level.loss_node_s) == (Method.SHRINK, 3, 0)
    (killed,) = what_if(view, replace(question, shrink=False)).levels
    assert (killed.leavers[0].method, killed.loss_node_s) == (Method.KILL, 6 * 3600)


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


def test_jobs_that_leave_are_ordered_by_cost() -> None:
    def leaves(name: str, nodes: int, loss_node_s: int, method: Method) -> Leaver:
        names = node_names(nodes)
        return Leaver(job_ids=(name,), method=method, node_count=nodes, loss_node_s=loss_node_s, nodes=names)

    found = (
        leaves("a", 1, 0, Method.SYSTEM),
        leaves("b", 2, 0, Method.KILL),
        leaves("c", 1, 5, Method.KILL),
        leaves("d", 2, 0, Method.SYSTEM),
    )
    assert [leaver.job_ids[0] for leaver in by_cost(found)] == ["c", "b", "d", "a"]


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
        past = draw(st.sampled_from([0, 0, 1, 2]))
        jobs.append(replace(job, node_count_min=draw(st.integers(1, size)), past_evictions=past))
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
    prices = [level.price_node_s for level in answer.levels]
    assert prices == sorted(prices, reverse=True)
    for level in answer.levels:
        assert sum(leaver.loss_node_s for leaver in level.leavers) == level.loss_node_s
        assert level.node_count >= max(0, answer.shortage)
        assert level.checkpoint_s <= level.from_s
    assume(answer.shortage > 0)
    index = data.draw(st.integers(1, 30))
    config = EvictionConfig(start_within_s=index * 60.0, margin_s=0.0, step_s=60.0, shrink=shrink)
    releasing = cluster(len(view.nodes), *view.jobs, urgent("u", nodes, submit_s=NOW_S), now_s=NOW_S)
    (why,) = EVICTION.decide(releasing, config).rationale
    if answer.losses_node_s[index] is None:
        assert not any(candidate.chosen for candidate in why.candidates)
    else:
        assert why.loss_node_s == answer.losses_node_s[index]


def gpu_nodes(*jobs: Job) -> Cluster:
    """Two nodes of 8 CPUs and 4 GPUs each."""
    return shared(*jobs, now_s=NOW_S)


def gpu_job(job_id: str, nodes: str, gpus: int, *, ran_s: float = 3600.0, **changes: Any) -> Job:
    return part(job_id, nodes, amounts(gpus * 2, gpu=gpus), start_s=NOW_S - ran_s, **changes)


def test_a_request_for_gpus_takes_one_job_of_a_shared_node() -> None:
    """Two GPUs are wanted and one is free on each node: the cheapest job that gives one leaves."""
    view = gpu_nodes(
        gpu_job("long", "n0", 2, ran_s=36_000.0),
        gpu_job("short", "n0", 1),
        gpu_job("saves", "n1", 2, ran_s=18_000.0, checkpoint=SAVES),
        gpu_job("root's", "n1", 1, preemptible=False),
    )
    question = WhatIfQuestion(node_count=1, deadline_s=900.0, step_s=60.0, demand=amounts(2, gpu=2))
    answer = what_if(view, question)
    assert (answer.node_count_free, answer.shortage) == (0, 1)
    early, late = answer.levels
    assert (early.from_s, early.until_s, early.loss_node_s) == (0.0, 240.0, 900)
    assert [(one.job_ids, one.method, one.nodes) for one in early.leavers] == [
        (("short",), Method.KILL, ("n0",))
    ]
    assert early.nodes == ("n0",)
    assert (late.from_s, late.until_s, late.loss_node_s, late.checkpoint_s) == (300.0, 900.0, 0, 300.0)
    assert [(one.job_ids, one.method, one.nodes) for one in late.leavers] == [
        (("saves",), Method.SYSTEM, ("n1",))
    ]
    assert answer.losses_node_s == (900,) * 5 + (0,) * 11
    assert [(group.job_ids, group.reason) for group in answer.protected] == [(("root's",), "not_preemptible")]


def test_on_shared_nodes_the_same_loss_at_another_price_is_another_level() -> None:
    """With more time the price falls from 14,400 to 7200 to 3600, and the loss rises and falls."""
    later = CheckpointSpec(system_s=600.0)
    view = shared(
        gpu_job("often", "n0", 4, past_evictions=1),
        gpu_job("saves", "n1", 2, ran_s=360_000.0, checkpoint=SAVES),
        gpu_job("long", "n1", 2, ran_s=14_400.0),
        gpu_job("saves later", "n2", 2, ran_s=360_000.0, checkpoint=later),
        gpu_job("short", "n2", 2, ran_s=7200.0),
        now_s=NOW_S,
        node_count=3,
    )
    answer = what_if(
        view, WhatIfQuestion(node_count=1, deadline_s=900.0, step_s=60.0, demand=amounts(8, gpu=4))
    )
    assert [(level.from_s, level.loss_node_s, level.price_node_s) for level in answer.levels] == [
        (0.0, 3600, 14_400),
        (300.0, 7200, 7200),
        (600.0, 3600, 3600),
    ]
    assert answer.losses_node_s == (3600,) * 5 + (7200,) * 5 + (3600,) * 6


def test_room_on_a_shared_node_costs_nothing() -> None:
    view = gpu_nodes(gpu_job("a", "n0", 3), gpu_job("b", "n1", 2))
    answer = what_if(view, WhatIfQuestion(node_count=1, deadline_s=60.0, demand=amounts(2, gpu=2)))
    assert (answer.shortage, set(answer.losses_node_s)) == (0, {0})
    (level,) = answer.levels
    assert (level.leavers, level.nodes) == ((), ("n1",))


def test_a_whole_node_of_a_shared_cluster_is_left_by_each_job_in_its_way() -> None:
    view = gpu_nodes(
        gpu_job("a", "n0", 2, checkpoint=SAVES), gpu_job("b", "n0", 1), gpu_job("c", "n1", 4, ran_s=36_000.0)
    )
    answer = what_if(view, WhatIfQuestion(node_count=1, deadline_s=600.0, step_s=60.0))
    late = answer.levels[-1]
    assert [(one.job_ids, one.method) for one in late.leavers] == [
        (("b",), Method.KILL),
        (("a",), Method.SYSTEM),
    ]


def test_one_more_like_a_job() -> None:
    held = replace(gpu_job("a", "n0 n1", 2), allocation=(amounts(4, gpu=1), amounts(2, gpu=3)))
    asked = question_like(held, deadline_s=60.0, walltime_s=None, step_s=None, shrink=False)
    assert (asked.node_count, asked.demand, asked.walltime_s) == (2, amounts(4, gpu=3), held.walltime_s)
    waits = replace(
        urgent("u", 3), demand=amounts(1), eligible_nodes=frozenset({"n1"}), blocked_by="a licence (x)"
    )
    asked = question_like(waits, deadline_s=60.0, walltime_s=30.0, step_s=None, shrink=False)
    assert (asked.node_count, asked.demand, asked.walltime_s) == (3, amounts(1), 30.0)
    assert (asked.eligible_nodes, asked.blocked_by) == (frozenset({"n1"}), "a licence (x)")
    whole = question_like(
        running("w", node_names(2)), deadline_s=1.0, walltime_s=None, step_s=None, shrink=False
    )
    assert (whole.node_count, whole.demand) == (2, None)


def test_a_job_like_one_that_has_shards_asks_for_shards_of_any_gpu() -> None:
    parts = (Resources.of({"gres/shard#1/4": 3}), Resources.of({"gres/shard#0/4": 4}))
    for part_held, asked_for in zip(parts, ({"gres/shard": 3}, {"gres/gpu": 1}), strict=True):
        job = replace(running("j", node_names(1)), allocation=(part_held,))
        asked = question_like(job, deadline_s=60.0, walltime_s=None, step_s=None, shrink=False)
        assert asked.demand == Resources.of(asked_for)


def test_a_request_that_no_node_can_serve_is_refused() -> None:
    question = WhatIfQuestion(node_count=1, deadline_s=60.0, demand=amounts(1, gpu=5))
    with pytest.raises(UserError, match="the request: 1 wanted, 0 of the 2 nodes that are up can"):
        what_if(gpu_nodes(), question)
    fits_one = replace(question, node_count=2, demand=amounts(1), eligible_nodes=frozenset({"n1"}))
    with pytest.raises(UserError, match="the request: 2 wanted, 1 of the 2 nodes that are up can"):
        what_if(gpu_nodes(), fits_one)


def test_only_eligible_nodes_are_taken() -> None:
    view = three()
    question = WhatIfQuestion(
        node_count=2, deadline_s=60.0, step_s=60.0, eligible_nodes=frozenset(node_names(4))
    )
    (level,) = what_if(view, question).levels
    assert [one.job_ids for one in level.leavers] == [("dear",)]


@st.composite
def shared_clusters(draw: st.DrawFn) -> Cluster:
    jobs: list[Job] = []
    for index in range(draw(st.integers(1, 3)) * 2):
        spec = draw(st.sampled_from([None, SAVES, CheckpointSpec(interval_s=3600.0, application_s=60.0)]))
        ran_s = float(draw(st.integers(1, 20_000)))
        past = draw(st.sampled_from([0, 0, 1]))
        job = gpu_job(f"j{index}", f"n{index % 2}", 1, ran_s=ran_s, checkpoint=spec, past_evictions=past)
        jobs.append(job)
    return gpu_nodes(*jobs)


@settings(deadline=None)
@given(shared_clusters(), st.integers(1, 4), st.integers(0, 30))
def test_on_shared_nodes_it_says_what_the_policy_would_do(view: Cluster, gpus: int, index: int) -> None:
    demand = amounts(1, gpu=gpus)
    question = WhatIfQuestion(node_count=1, deadline_s=1800.0, step_s=60.0, demand=demand)
    answer = what_if(view, question)
    prices = [level.price_node_s for level in answer.levels]
    assert prices == sorted(prices, reverse=True)
    config = EvictionConfig(start_within_s=index * 60.0, margin_s=0.0, step_s=60.0, kills="at_once")
    asked = replace(urgent("u", 1, submit_s=NOW_S), demand=demand)
    (why,) = EVICTION.decide(replace(view, jobs=(*view.jobs, asked)), config).rationale
    assert (why.loss_node_s if why.ready_s is not None else None) == answer.losses_node_s[index]
    (level,) = (one for one in answer.levels if one.from_s <= index * 60.0 <= one.until_s)
    assert sum(one.loss_node_s for one in level.leavers) == level.loss_node_s
