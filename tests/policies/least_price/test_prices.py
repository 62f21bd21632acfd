"""What it costs that a job leaves, and the eviction problem with these prices."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from makeway.policies.common.losses import cost_node_s, evictions_node_s
from makeway.policies.common.victims import VictimGroup
from makeway.policies.least_price.prices import priced
from makeway.policies.model import Job, Method, Reason, Requeue
from makeway.policies.programme.knapsack import solve
from tests.policies.arriving import BOTH, NOW_S, Build, BuildCluster
from tests.policies.programme.exhaustive import Choice, best_prices
from tests.policies.programme.knapsack_items import STEP_S, STEPS, item
from tests.policies.programme.test_knapsack_shrinking import malleable_items


@pytest.mark.parametrize(
    ("method", "seconds"),
    [
        (Method.KILL, 300.0 + 200.0),
        (Method.APPLICATION, 200.0),
        (Method.SYSTEM, 200.0 + 100.0),
        (Method.SHRINK, 0.0),
    ],
)
def test_a_job_that_leaves_repeats_its_setup_and_a_kill_loses_its_unsaved_work(
    running: Build, method: Method, seconds: float
) -> None:
    job = running("a", "n0 n1", setup_s=200.0, checkpoint=BOTH, last_checkpoint_s=NOW_S - 300.0)
    assert cost_node_s(job, method, NOW_S) == 2 * seconds


def test_time_counts_once(running: Build) -> None:
    """A run of 1,000 s costs no more than 1,000 s, and one that is being set up no more than that."""
    assert cost_node_s(running("a", "n0", setup_s=200.0), Method.KILL, NOW_S) == 1000
    young = running("a", "n0", setup_s=200.0, start_s=NOW_S - 50.0)
    assert [cost_node_s(young, method, NOW_S) for method in (Method.KILL, Method.APPLICATION)] == [50, 50]
    silent = running("a", "n0", setup_s=200.0, usual_unsaved_s=100.0)
    assert cost_node_s(silent, Method.KILL, NOW_S) == 300


def test_evictions_cost_what_their_jobs_do(running: Build, cluster_of: BuildCluster) -> None:
    def leave(job_id: str, method: Method) -> Requeue:
        return Requeue(
            job_id=job_id,
            for_job_id="u",
            policy="least-price",
            reason=Reason.URGENT_ARRIVAL,
            method=method,
            not_after_s=NOW_S,
        )

    cluster = cluster_of(2, running("a", "n0", setup_s=10.0), running("b", "n1", past_evictions=3))
    actions = (leave("a", Method.APPLICATION), leave("b", Method.KILL), leave("gone", Method.KILL))
    assert evictions_node_s(actions, cluster) == 10 + 1000, "the cost is not the price"


def test_past_evictions_raise_every_price(running: Build) -> None:
    def prices(job: Job) -> list[int]:
        group = VictimGroup(
            jobs=(job,), nodes=job.nodes, loss_node_s=0, price_node_s=0, system_s=100.0, application_s=50.0
        )
        found = priced(item("a", 1, 7, 100.0, 50.0), group, NOW_S, 100.0, parallel=False)
        return [found.cost_node_s(method) for method in (Method.KILL, Method.SYSTEM, Method.APPLICATION)]

    job = running("a", "n0", setup_s=10.0, checkpoint=BOTH, last_checkpoint_s=NOW_S - 300.0)
    assert prices(job) == [310, 110, 10]
    assert prices(replace(job, past_evictions=1)) == [4 * 310, 4 * 110, 4 * 10]


def test_checkpoints_that_take_no_time_of_others_are_complete_in_time(running: Build) -> None:
    job = running("a", "n0", checkpoint=BOTH)
    group = VictimGroup(
        jobs=(job,), nodes=job.nodes, loss_node_s=0, price_node_s=0, system_s=100.0, application_s=50.0
    )
    for within_s, parallel, times in (
        (100.0, False, (0.0, 100.0)),
        (100.0, True, (0.0, 0.0)),
        (99.0, True, (0.0, None)),
        (49.0, False, (None, None)),
    ):
        found = priced(item("a", 1, 7, 100.0, 50.0), group, NOW_S, within_s, parallel=parallel)
        assert (found.turn_s(Method.APPLICATION), found.turn_s(Method.SYSTEM)) == times
    assert item("a", 1).turn_s(Method.SYSTEM) is None

    # The item counts the wait for the regular checkpoint from the end of the checkpoints of others on.
    found = priced(item("a", 1, 7, None, 20.0), group, NOW_S, 49.0, parallel=False)
    assert found.turn_s(Method.APPLICATION) is None


def in_turn(combination: Sequence[Choice]) -> int:
    """Steps of the checkpoints that take turns."""
    leaving = [(choice.item, choice.method) for choice in combination if choice.method is not None]
    return sum(math.ceil((one.turn_s(method) or 0.0) / STEP_S) for one, method in leaving)


def test_the_programme_with_prices_of_all_ways_equals_exhaustive_search() -> None:
    rng = random.Random(26)
    dear = 0
    for _ in range(1_000):
        items = [
            replace(
                one,
                setup_node_s=rng.choice((0, 1, 500)),
                saving_node_s=rng.choice((0, 1, 300)),
                alone=frozenset(rng.choice(((), (Method.APPLICATION,), (Method.SYSTEM,)))),
            )
            for one in malleable_items(rng)
        ]
        needed = rng.randint(1, sum(one.node_count for one in items))
        curve = solve(items, needed, STEPS * STEP_S, STEP_S)
        plans = [curve.plan(step * STEP_S) for step in range(STEPS + 1)]
        best = best_prices(items, needed, STEPS, in_turn)
        assert [plan and (plan.loss_node_s, plan.checkpoint_steps) for plan in plans] == [
            price and price[:2] for price in best
        ]
        dear += any(
            departure.method is not Method.KILL and departure.loss_node_s
            for plan in plans
            if plan is not None
            for departure in plan.departures
        )
    assert dear > 100
