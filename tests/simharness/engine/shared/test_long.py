"""A long workload of jobs that share nodes starts as in an independent loop."""

from pathlib import Path

import pytest

from makeway.policies.model import Resources
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.trace import read_trace
from makeway.simharness.workloads.unit import TraceUnit
from tests.simharness.engine.shared.brute_force import SharedAsk
from tests.simharness.engine.shared.plain_loop import PlainLoop

JOBS = 3000
MEMORY_MB = 12 * 1024


@pytest.mark.shared
def test_ricc_s_first_jobs_start_as_in_the_plain_loop(shared_traces: Path) -> None:
    """1,024 nodes of 8 processors and 12 GB, packed by both."""
    node = Resources.of({"cpu": 8, "mem": MEMORY_MB})
    trace = read_trace(shared_traces / "RICC-2010-2.swf.gz", unit=TraceUnit.PACKED, node=node)
    jobs = trace.jobs[:JOBS]
    asks = []
    for job in jobs:
        assert job.demand is not None
        need = (job.demand.amount("cpu"), job.demand.amount("mem"))
        asks.append(SharedAsk(job.submit_s, job.runtime_s, job.walltime_s, job.node_count, need))
    cluster = SimCluster(
        trace.node_count,
        jobs,
        scheduler=SchedulerSettings(),
        storage=StorageSettings(),
        sharing=SharingSettings(capacities=(node,) * trace.node_count),
    )
    cluster.run()
    found = [record.start_s for record in cluster.record(policy="none").jobs]
    assert found == PlainLoop(trace.node_count, (8, MEMORY_MB)).run(asks)
    assert any(start_s != job.submit_s for start_s, job in zip(found, jobs, strict=True))
