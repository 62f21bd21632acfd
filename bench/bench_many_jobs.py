"""How long one decision takes on large machines that are full of small jobs.

The unit of comparison is one plain look at each running job in the same run: what its kill would count as.
The ratio to it holds on other machines, the seconds do not. Both are processor times: others may use the
machine.
"""

import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from makeway.policies.model import CPU, MEMORY, CheckpointSpec, Cluster, Job, Resources
from makeway.policies.registry import find
from makeway.policies.safety.prices import price_node_s
from tests.builders import cluster, node_names, running, urgent

NOW_S = 100_000.0
ROUNDS = 3
CORES, MEGABYTES = 32, 128_000


def job(rng: random.Random, index: int, name: str) -> Job:
    """A job on one node. A third cannot save its work, a third saves it when asked, and a third regularly."""
    saving_s = rng.uniform(30.0, 300.0)
    specs = (
        None,
        CheckpointSpec(system_s=saving_s, grace_s=600.0),
        CheckpointSpec(interval_s=3600.0, application_s=saving_s),
    )
    return running(
        f"b{index}",
        (name,),
        start_s=NOW_S - rng.uniform(600.0, 40_000.0),
        walltime_s=86_400.0,
        setup_s=600.0,
        checkpoint=rng.choice(specs),
    )


def whole_nodes(nodes: int, urgent_count: int, size: int) -> Cluster:
    """A job on each node, and urgent jobs of one size, one second apart."""
    rng = random.Random(1)
    jobs = [job(rng, index, name) for index, name in enumerate(node_names(nodes))]
    waiting = [urgent(f"u{index}", size, submit_s=NOW_S - 10.0 - index) for index in range(urgent_count)]
    return cluster(nodes, *jobs, *waiting, now_s=NOW_S)


def shared_nodes(nodes: int, urgent_count: int, size: int) -> Cluster:
    """Each node full of jobs of one core, and urgent jobs that need three quarters of each of their nodes."""
    rng = random.Random(1)
    held = Resources.of({CPU: 1, MEMORY: MEGABYTES // CORES})
    names = [name for name in node_names(nodes) for _ in range(CORES)]
    jobs = [replace(job(rng, index, name), allocation=(held,)) for index, name in enumerate(names)]
    demand = Resources.of({CPU: CORES * 3 // 4, MEMORY: MEGABYTES // 2})
    waiting = [
        replace(urgent(f"u{index}", size, submit_s=NOW_S - 10.0 - index), demand=demand)
        for index in range(urgent_count)
    ]
    view = cluster(nodes, *jobs, *waiting, now_s=NOW_S)
    capacity = Resources.of({CPU: CORES, MEMORY: MEGABYTES})
    return replace(view, nodes=tuple(replace(node, capacity=capacity) for node in view.nodes))


def best_s(work: Callable[[], Any]) -> float:
    """The best processor time of some rounds."""
    found: list[float] = []
    for _ in range(ROUNDS):
        began_s = time.thread_time()
        work()
        found.append(time.thread_time() - began_s)
    return min(found)


CASES = {
    "50000 nodes": lambda: whole_nodes(50_000, 5, 20),
    "50 urgent jobs": lambda: whole_nodes(10_000, 50, 4),
    "shared nodes": lambda: shared_nodes(1_500, 1, 4),
    "shared nodes, 3 urgent jobs": lambda: shared_nodes(1_500, 3, 4),
}


@pytest.mark.parametrize("policy_name", ["least-price", "eviction"])
@pytest.mark.parametrize("case", CASES)
def test_many_small_jobs(benchmark: BenchmarkFixture, case: str, policy_name: str) -> None:
    view, policy = CASES[case](), find(policy_name)
    config = policy.config_type()
    look_s = best_s(lambda: sum(price_node_s(one, NOW_S) for one in view.holders()))
    taken_s: list[float] = []

    def decide() -> None:
        began_s = time.thread_time()
        assert policy.decision(view, config).actions
        taken_s.append(time.thread_time() - began_s)

    benchmark.pedantic(decide, rounds=1)  # type: ignore[no-untyped-call]
    benchmark.extra_info["over_plain_look"] = taken_s[-1] / look_s
    print(
        f"\n{case}, {len(view.holders()):,} running jobs, {policy_name}: {taken_s[-1]:.2f} s, "
        f"{taken_s[-1] / look_s:.0f} plain looks of {look_s * 1e3:.0f} ms"
    )
