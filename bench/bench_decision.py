"""How long a policy thinks at each event at which an urgent job waits: Theta (4,360 nodes), P5's workload W5.
And how long policy "least-price" thinks about a burst of which it refuses some or all, in each cycle again.

The unit of comparison is one plain look at every node and every job of a snapshot of the same workload (the
tests' oracle of the free nodes): the ratio to it holds on other machines, the milliseconds do not. Both are
processor times: others may use the machine. The unit of a burst is one urgent job of it, alone.
"""

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import CheckpointSpec, Cluster, Job, Limits
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.results.measures import measure
from makeway.simharness.run.experiment import Experiment, Workload, run, storage_of
from makeway.simharness.run.loading import load_workload
from tests.builders import cluster, node_names, running, urgent
from tests.policies.plain import free_nodes

THETA = Path(__file__).resolve().parent.parent.parent / "shared" / "traces" / "ANL-Theta-2023.swf.gz"
FROM_S, TO_S = 77 * 86_400.0, 197 * 86_400.0
"""Four months; the weeks before are nearly empty."""
SNAPSHOT_S = FROM_S + 30 * 86_400.0
ROUNDS = 200
ASKED_P99_MS = 10.0
NODES = 4276
BURST = 30
ARRAY = 300
NOW_S = 100_000.0


def plain_look_ms(experiment: Experiment, workload: Workload) -> float:
    """The best time of one plain look at the machine when it is busy."""
    cluster = SimCluster(
        workload.node_count,
        workload.jobs,
        scheduler=SchedulerSettings(),
        storage=storage_of(experiment),
    )
    while (event_s := cluster.next_event_s()) is not None and event_s < SNAPSHOT_S:
        cluster.step()
    snapshot = SimAdapter(cluster).snapshot()
    best_s = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        free_nodes(snapshot, None)
        best_s = min(best_s, time.thread_time() - began)
    return best_s * 1e3


@pytest.mark.parametrize(
    "policy", ["n-paa", "n-spaa", "cua-paa", "cua-spaa", "cup-paa", "cup-spaa", "eviction"]
)
def test_decisions_on_theta(benchmark: BenchmarkFixture, policy: str) -> None:
    if not THETA.is_file():
        pytest.skip(f"no {THETA.name} in ../shared/traces next to this checkout")
    experiment = Experiment(trace=str(THETA), synthesis="W5", seed=1, policy=policy)
    whole = load_workload(experiment)
    piece = [job for job in whole.jobs if FROM_S <= job.submit_s < TO_S]
    workload = replace(whole, jobs=piece)
    look_ms = plain_look_ms(experiment, workload)
    records: list[ReplayRecord] = []
    benchmark.pedantic(lambda: records.append(run(experiment, workload)), rounds=1)  # type: ignore[no-untyped-call]
    machine = measure(records[-1])
    p50_ms, p99_ms = machine.decision_p50_ms, machine.decision_p99_ms
    assert p50_ms is not None
    assert p99_ms is not None
    benchmark.extra_info["decisions"] = machine.decisions
    benchmark.extra_info["decision_p50_ms"] = p50_ms
    benchmark.extra_info["decision_p99_ms"] = p99_ms
    benchmark.extra_info["p50_over_plain_look"] = p50_ms / look_ms
    benchmark.extra_info["p99_over_plain_look"] = p99_ms / look_ms
    print(
        f"\n{policy}: {machine.decisions:,} decisions, median {p50_ms:.2f} ms, p99 {p99_ms:.2f} ms "
        f"(asked for: {ASKED_P99_MS:.0f} ms); {p50_ms / look_ms:.1f} and {p99_ms / look_ms:.0f} plain looks "
        f"of {look_ms:.2f} ms"
    )


def full_machine(urgent_count: int, sizes: tuple[int, ...] = (32, 64, 128, 256)) -> Cluster:
    """About 2,100 jobs on all nodes, half of which can save their work, and urgent jobs of these sizes, one
    second apart.
    """
    rng, names, at, jobs = random.Random(1), node_names(NODES), 0, list[Job]()
    while at < NODES:
        nodes = names[at : at + rng.choice((1, 1, 2, 2, 4))]
        saves = CheckpointSpec(system_s=rng.uniform(30.0, 300.0), grace_s=600.0)
        jobs.append(
            running(
                f"b{len(jobs)}",
                nodes,
                start_s=NOW_S - rng.uniform(600.0, 40_000.0),
                walltime_s=86_400.0,
                setup_s=600.0,
                checkpoint=rng.choice((None, saves)),
            )
        )
        at += len(nodes)
    waiting = [
        urgent(f"u{index}", rng.choice(sizes), submit_s=NOW_S - 10.0 - index) for index in range(urgent_count)
    ]
    limits = Limits(max_loss_node_hours=None)
    return replace(cluster(NODES, *jobs, *waiting, now_s=NOW_S), limits=limits)


def decision_s(view: Cluster, config: LeastPriceConfig) -> float:
    """The best of three times of one decision."""
    found: list[float] = []
    for _ in range(3):
        began = time.thread_time()
        LEAST_PRICE.decision(view, config)
        found.append(time.thread_time() - began)
    return min(found)


@pytest.mark.parametrize("ceiling", [0.001, 0.02, None])
def test_a_burst(benchmark: BenchmarkFixture, ceiling: float | None) -> None:
    """`ceiling`: in machine-hours. It refuses all, most, and none."""
    config = LeastPriceConfig(ceiling_machine_hours=ceiling)

    one_s = decision_s(full_machine(1), config)
    times_s: list[float] = []
    many = full_machine(BURST)
    benchmark.pedantic(lambda: times_s.append(decision_s(many, config)), rounds=1)  # type: ignore[no-untyped-call]
    benchmark.extra_info["burst_over_one"] = times_s[-1] / one_s
    print(
        f"\nceiling {ceiling}: {BURST} urgent jobs {times_s[-1]:.2f} s, {times_s[-1] / one_s:.1f} times one"
    )


def test_an_array_without_a_limit(benchmark: BenchmarkFixture) -> None:
    """Many urgent jobs of one node at once."""
    config, sizes = LeastPriceConfig(), (1,)
    one_s = decision_s(full_machine(1, sizes), config)
    times_s: list[float] = []
    many = full_machine(ARRAY, sizes)
    benchmark.pedantic(lambda: times_s.append(decision_s(many, config)), rounds=1)  # type: ignore[no-untyped-call]
    benchmark.extra_info["array_over_one"] = times_s[-1] / one_s
    print(f"\n{ARRAY} urgent jobs of one node {times_s[-1]:.2f} s, {times_s[-1] / one_s:.1f} times one")
