"""What one decision remembers: it decides as if it remembered nothing, and solves few programmes."""

import random
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings

from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.rooms import Rooms
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import CheckpointSpec, Cluster, Decision, Job, Limits, Memo
from makeway.policies.programme import fixing
from makeway.policies.programme.knapsack import EvictionPlan
from tests.builders import cluster, node_names, running, urgent
from tests.policies.any_cluster import clusters
from tests.policies.arriving import carried_out
from tests.policies.least_price.random_bursts import random_burst, random_settings

_Result = TypeVar("_Result")
FIRST = (*range(70), 183)
"""In the last one urgent jobs share their ceilings."""
FURTHER = (2219, 4303, 5500, 20047, 20902)
"""Seeds with which mistakes showed in what is remembered or not looked for."""


def _always(self: Memo, key: Hashable, work_out: Callable[[], _Result]) -> _Result:
    return work_out()


def forgetful(view: Cluster, config: LeastPriceConfig) -> Decision:
    """The decision that remembers nothing, and looks for what the ceiling refuses in any case."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Memo, "once", _always)
        patch.setattr(Rooms, "least_cost_node_s", lambda self, request, latest_s: 0)
        return LEAST_PRICE.decision(view, config)


def next_cycle(view: Cluster, decision: Decision, rng: random.Random) -> Cluster:
    """What a later cycle sees: holds, jobs that are leaving, and more urgent jobs."""
    later = replace(carried_out(view, decision), now_s=view.now_s + rng.choice((5.0, 60.0, 300.0)))
    waiting = view.waiting_urgent_jobs()[: rng.randint(0, 5)]
    more = (replace(job, job_id=f"v{job.job_id}", submit_s=later.now_s - 2.0) for job in waiting)
    return replace(later, jobs=(*later.jobs, *more))


@pytest.mark.parametrize("seeds", [FIRST, FURTHER])
def test_decisions_are_those_that_remember_nothing(
    monkeypatch: pytest.MonkeyPatch, seeds: Sequence[int]
) -> None:
    found = Counter[str]()
    for seed in seeds:
        # Small problems are searched, too.
        monkeypatch.setattr(fixing, "SMALL_CELLS", -1 if seed % 2 else 3_000_000)
        rng = random.Random(seed)
        view, config = random_burst(rng), random_settings(rng)
        decision = LEAST_PRICE.decision(view, config)
        assert decision == forgetful(view, config), seed
        later = next_cycle(view, decision, rng)
        assert LEAST_PRICE.decision(later, config) == forgetful(later, config), seed
        served = sum(why.ready_s is not None for why in decision.rationale)
        found["all" if served == len(decision.rationale) else "some" if served else "none"] += 1
        found["shared"] += any("share their ceilings" in why.summary for why in decision.rationale)
    assert seeds is FURTHER or min(found[key] for key in ("all", "some", "none", "shared")) > 0


@settings(max_examples=100, deadline=None)
@given(view=clusters())
def test_so_they_are_on_any_cluster(view: Cluster) -> None:
    config = LeastPriceConfig(ceiling_machine_hours=0.05)
    assert LEAST_PRICE.decision(view, config) == forgetful(view, config)


def burst(count: int, *, apart_s: float = 0.0, large: bool = False) -> Cluster:
    """As many urgent jobs for the nodes of 30 jobs, some of which can save their work.

    `apart_s`: between two submissions. `large`: whether each is larger than the one before.
    """
    nodes, now_s = node_names(60), 100_000.0
    jobs = [
        running(
            f"r{index}",
            nodes[2 * index : 2 * index + 2],
            start_s=now_s - 3600.0 - 60.0 * index,
            walltime_s=1e6,
            checkpoint=CheckpointSpec(system_s=40.0 + index) if index % 2 else None,
            setup_s=300.0,
        )
        for index in range(30)
    ]
    waiting: list[Job] = [
        urgent(f"u{index}", 2 + index if large else 2, submit_s=now_s - 20.5 - apart_s * index)
        for index in range(count)
    ]
    limits = Limits(max_loss_node_hours=None, max_loss_node_hours_per_day=None)
    return replace(cluster(60, *jobs, *waiting, now_s=now_s), limits=limits)


def solved(monkeypatch: pytest.MonkeyPatch, view: Cluster, ceiling_node_hours: float) -> int:
    """How many programmes are solved for a decision that refuses all."""
    count = 0

    def counting(*arguments: Any) -> list[EvictionPlan | None]:
        nonlocal count
        count += 1
        return fixing.best_plans(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("makeway.policies.programme.considered.best_plans", counting)
        config = LeastPriceConfig(ceiling_machine_hours=ceiling_node_hours / len(view.nodes))
        decision = LEAST_PRICE.decision(view, config)
    assert all(why.ready_s is None for why in decision.rationale)
    return count


def test_a_burst_that_is_refused_takes_the_programme_of_one_urgent_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert solved(monkeypatch, burst(1), 0.01) == 1
    assert solved(monkeypatch, burst(20), 0.01) == 1
    assert solved(monkeypatch, burst(20, apart_s=0.1), 0.01) == 1, "their deadlines are in one step of time"
    assert solved(monkeypatch, burst(20, apart_s=1.0), 0.01) == 2
    assert solved(monkeypatch, burst(6, large=True), 0.01) == 6
