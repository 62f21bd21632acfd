"""How long a policy thinks at each event at which an urgent job waits: Theta (4,360 nodes), P5's workload W5.

The unit of comparison is one plain look at every node and every job of a snapshot of the same workload (the
tests' oracle of the free nodes): the ratio to it holds on other machines, the milliseconds do not. Both are
processor times: others may use the machine.
"""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.results.measures import measure
from makeway.simharness.run.experiment import Experiment, Workload, run, storage_of
from makeway.simharness.run.loading import load_workload
from tests.policies.plain import free_nodes

THETA = Path(__file__).resolve().parent.parent.parent / "shared" / "traces" / "ANL-Theta-2023.swf.gz"
FROM_S, TO_S = 77 * 86_400.0, 197 * 86_400.0
"""Four months; the weeks before are nearly empty."""
SNAPSHOT_S = FROM_S + 30 * 86_400.0
ROUNDS = 200
ASKED_P99_MS = 10.0


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
