"""A long workload of jobs that share nodes starts as in an independent loop, and has these figures."""

import gzip
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean

import pytest

from makeway.policies.model import Resources
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import JobRecord
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.trace import Trace, read_trace
from makeway.simharness.workloads.unit import TraceUnit
from tests.simharness.engine.shared.brute_force import SharedAsk
from tests.simharness.engine.shared.plain_loop import PlainLoop

pytestmark = pytest.mark.shared

CHECKED = 3000
"""How many of the first jobs the independent loop starts too. With all of them it takes most of a minute."""
LONG = 10_000
LINES = LONG + 1_000
"""How many lines of the trace are read: its comments, the first jobs, and a few that cannot run."""
MEMORY_MB = 12 * 1024
NODE = Resources.of({"cpu": 8, "mem": MEMORY_MB})

FIGURES = {
    (TraceUnit.PROCESSOR, CHECKED): (4_921.24, 9.62),
    (TraceUnit.PROCESSOR, LONG): (17_488.84, 118.15),
    (TraceUnit.PACKED, CHECKED): (4_057.59, 9.3),
    (TraceUnit.PACKED, LONG): (13_054.37, 77.02),
}
"""Mean wait in seconds and bounded slowdown, by the reading and the number of jobs."""


@pytest.fixture(scope="module")
def beginning(shared_traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first lines of RICC, whose jobs are in the order of submission."""
    path = tmp_path_factory.mktemp("ricc") / "RICC.swf"
    with gzip.open(shared_traces / "RICC-2010-2.swf.gz", "rt", encoding="utf-8") as file:
        path.write_text("".join(islice(file, LINES)), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=[TraceUnit.PROCESSOR, TraceUnit.PACKED], ids=str)
def ricc(request: pytest.FixtureRequest, beginning: Path) -> Trace:
    """RICC by the processors of one pool, or on 1,024 nodes of 8 processors and 12 GB."""
    packed = request.param is TraceUnit.PACKED
    trace = read_trace(beginning, unit=request.param, node=NODE if packed else None)
    assert len(trace.jobs) > LONG
    return trace


def records(trace: Trace, count: int) -> list[JobRecord]:
    """What becomes of the first jobs under FCFS with EASY backfill."""
    sharing = SharingSettings(capacities=(NODE,) * trace.node_count)
    cluster = SimCluster(
        trace.node_count,
        trace.jobs[:count],
        scheduler=SchedulerSettings(),
        storage=StorageSettings(),
        sharing=sharing if trace.unit is TraceUnit.PACKED else None,
    )
    cluster.run()
    return cluster.record(policy="none").jobs


def plain_starts_s(trace: Trace, count: int) -> list[float]:
    """When the first jobs start in the independent loop. One pool is a single node that has it all."""
    asks: list[SharedAsk] = []
    for job in trace.jobs[:count]:
        if job.demand is None:
            ask = SharedAsk(job.submit_s, job.runtime_s, job.walltime_s, 1, (job.node_count,))
        else:
            need = (job.demand.amount("cpu"), job.demand.amount("mem"))
            ask = SharedAsk(job.submit_s, job.runtime_s, job.walltime_s, job.node_count, need)
        asks.append(ask)
    if trace.unit is TraceUnit.PACKED:
        return PlainLoop(trace.node_count, (8, MEMORY_MB)).run(asks)
    return PlainLoop(1, (trace.node_count,)).run(asks)


def figures(trace: Trace, starts_s: Sequence[float | None]) -> tuple[float, float]:
    """Mean wait in seconds, and mean bounded slowdown, to two decimals."""
    waits_s: list[float] = []
    slowdowns: list[float] = []
    for job, start_s in zip(trace.jobs, starts_s, strict=False):
        assert start_s is not None
        waits_s.append(start_s - job.submit_s)
        slowdowns.append(max(1.0, (waits_s[-1] + job.runtime_s) / max(job.runtime_s, 10.0)))
    return round(fmean(waits_s), 2), round(fmean(slowdowns), 2)


def test_ricc_s_first_jobs_start_as_in_the_plain_loop(ricc: Trace) -> None:
    found = [record.start_s for record in records(ricc, CHECKED)]
    assert found == plain_starts_s(ricc, CHECKED)
    waited = [start_s != job.submit_s for start_s, job in zip(found, ricc.jobs, strict=False)]
    assert sum(waited) > CHECKED // 10


def test_ricc_s_first_jobs_have_these_figures(ricc: Trace) -> None:
    assert figures(ricc, plain_starts_s(ricc, CHECKED)) == FIGURES[ricc.unit, CHECKED]
    assert figures(ricc, [record.start_s for record in records(ricc, LONG)]) == FIGURES[ricc.unit, LONG]
