"""The simulated cluster on real traces: jobs a second, next to a plain scheduler in the same run, and peak
memory.

RICC (447,784 jobs) is replayed by processors and packed on nodes of 8 processors and 12 GB. KTH-SP2 (28,467
jobs, EASY) is replayed in this process and as a whole `makeway replay`; HPC2N (202,871 jobs)
in a process of its own for its peak memory. The plain scheduler is the tests' oracle, which keeps nothing
between two instants. `bare_loop.py` is a script that schedules KTH and does nothing else; replays of KTH are
compared with it.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import bare_loop
from makeway.policies.model import Resources
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.trace import Trace, read_trace
from makeway.simharness.workloads.unit import TraceUnit
from tests.simharness.engine.brute_force import Ask, start_times

TRACES = Path(__file__).resolve().parent.parent.parent / "shared" / "traces"
KTH = TRACES / "KTH-SP2-1996-2.1-cln.swf.gz"
HPC2N = TRACES / "HPC2N-2002-2.2-cln.swf.gz"
RICC = TRACES / "RICC-2010-2.swf.gz"
RICC_NODE = Resources.of({"cpu": 8, "mem": 12 * 1024})
PREFIX = 1000
"""Jobs of KTH for the plain scheduler, whose time grows with their square."""
ASKED_JOBS_S = 20_000.0
MOST_MIB = 600.0

WHOLE = """
import resource, sys
from makeway.daemon.cli.main import main
sys.argv = ["makeway", "replay", sys.argv[1], "--policy", "none", "--backfill", "easy", "--no-check"]
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)
"""


def trace(path: Path, unit: TraceUnit | None = None, node: Resources | None = None) -> Trace:
    if not path.is_file():
        pytest.skip(f"no {path.name} in ../shared/traces next to this checkout")
    return read_trace(path, unit=unit, node=node)


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def replayed(workload: Trace, job_count: int | None = None) -> SimCluster:
    """The trace, or its first jobs, under FCFS and EASY."""
    cluster = SimCluster(
        workload.node_count,
        workload.jobs[:job_count],
        scheduler=SchedulerSettings(),
        storage=StorageSettings(),
        sharing=None
        if workload.node is None
        else SharingSettings(capacities=(workload.node,) * workload.node_count),
    )
    cluster.run()
    return cluster


def whole_process(path: Path) -> tuple[float, float]:
    """Seconds and peak MiB of `makeway replay` on a trace, from start to exit."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", WHOLE, str(path)], check=True, capture_output=True, text=True
    )
    return time.perf_counter() - began, float(done.stderr.split()[-1])


def test_kth_with_easy(benchmark: BenchmarkFixture) -> None:
    workload = trace(KTH)
    benchmark(replayed, workload)
    best_s = min(seconds(lambda: replayed(workload)) for _ in range(5))
    jobs_s = len(workload.jobs) / best_s

    asks = [
        Ask(job.submit_s, job.runtime_s, job.walltime_s, job.node_count) for job in workload.jobs[:PREFIX]
    ]
    plain_s = seconds(lambda: start_times(workload.node_count, asks, order="fcfs", backfill="easy"))
    ours_s = min(seconds(lambda: replayed(workload, PREFIX)) for _ in range(5))
    expected = start_times(workload.node_count, asks, order="fcfs", backfill="easy")
    cluster = replayed(workload, PREFIX)
    assert [record.start_s for record in cluster.record(policy="none").jobs] == expected

    print(f"\nKTH, EASY, in this process: {jobs_s:,.0f} jobs/s")
    print(
        f"first {PREFIX} jobs: {ours_s:.3f} s; "
        f"the plain scheduler {plain_s:.3f} s, {plain_s / ours_s:.0f} times as long"
    )


def test_kth_as_a_whole_process(benchmark: BenchmarkFixture) -> None:
    workload = trace(KTH)
    runs_s: list[float] = []
    benchmark(lambda: runs_s.append(whole_process(KTH)[0]))
    jobs_s = len(workload.jobs) / min(runs_s)
    print(f"\nKTH, EASY, whole process: {jobs_s:,.0f} jobs/s (asked for: {ASKED_JOBS_S:,.0f})")


def test_kth_beside_a_bare_loop(benchmark: BenchmarkFixture) -> None:
    workload = trace(KTH)
    nodes, jobs = bare_loop.read(str(KTH))
    waits_s = [
        (one.start_s or 0.0) - one.job.submit_s for one in replayed(workload).record(policy="none").jobs
    ]
    assert bare_loop.waits(nodes, jobs) == waits_s

    benchmark(bare_loop.waits, nodes, jobs)
    bare_s = min(seconds(lambda: bare_loop.waits(nodes, jobs)) for _ in range(5))
    ours_s = min(seconds(lambda: replayed(workload)) for _ in range(5))
    whole_bare_s, whole_s = [
        min(one() for _ in range(5)) for one in (bare_process_s, lambda: whole_process(KTH)[0])
    ]
    print(f"\nKTH, EASY, in this process: {ours_s / bare_s:.1f} times a bare loop's {bare_s:.3f} s")
    times = whole_s / whole_bare_s
    print(f"whole process: {times:.1f} times that of a bare loop, {whole_bare_s:.3f} s (asked for: 2)")


def bare_process_s() -> float:
    """Seconds of the bare loop as a process, from start to exit."""
    began = time.perf_counter()
    subprocess.run([sys.executable, bare_loop.__file__, str(KTH)], check=True, capture_output=True)
    return time.perf_counter() - began


@pytest.mark.benchmark(min_rounds=1, max_time=0.1)
def test_peak_memory_on_hpc2n(benchmark: BenchmarkFixture) -> None:
    workload = trace(HPC2N)
    runs: list[tuple[float, float]] = []
    benchmark(lambda: runs.append(whole_process(HPC2N)))
    run_s, mib = runs[-1]
    print(
        f"\nHPC2N, EASY, whole process: {len(workload.jobs) / run_s:,.0f} jobs/s, {mib:.0f} MiB at the peak"
    )
    assert mib < MOST_MIB


@pytest.mark.benchmark(min_rounds=1, max_time=0.1)
@pytest.mark.parametrize(
    ("unit", "node", "wait_mean_s", "slowdown_mean"),
    [(TraceUnit.PROCESSOR, None, 36_531.35, 548.97), (TraceUnit.PACKED, RICC_NODE, 33_634.57, 478.13)],
    ids=["by processors", "packed, with memory"],
)
def test_ricc_whole(
    benchmark: BenchmarkFixture,
    unit: TraceUnit,
    node: Resources | None,
    wait_mean_s: float,
    slowdown_mean: float,
) -> None:
    """The slowdown is max(1, (wait + run) / max(run, 10 s)), as the independent figures by processors have
    it."""
    workload = trace(RICC, unit, node)
    done: list[SimCluster] = []
    benchmark(lambda: done.append(replayed(workload)))
    jobs = done[-1].record(policy="none").jobs
    assert len(jobs) == 447_784
    waits_s = [(one.start_s or 0.0) - one.job.submit_s for one in jobs]
    slowdowns = [
        max(1.0, (wait_s + one.job.runtime_s) / max(one.job.runtime_s, 10.0))
        for wait_s, one in zip(waits_s, jobs, strict=True)
    ]
    wait_s, slowdown = sum(waits_s) / len(jobs), sum(slowdowns) / len(jobs)
    print(f"\nRICC, EASY, {unit}: mean wait {wait_s:,.2f} s, bounded slowdown {slowdown:,.2f}")
    assert wait_s == pytest.approx(wait_mean_s, abs=0.005)
    assert slowdown == pytest.approx(slowdown_mean, abs=0.005)
