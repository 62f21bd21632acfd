"""A burst of urgent jobs in a real trace: they hold nodes that a job leaves for another one of them."""

import gzip
from pathlib import Path

from makeway.policies.least_price.policy import LEAST_PRICE
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.run.experiment import Experiment, storage_of
from makeway.simharness.run.loading import load_workload
from makeway.simharness.run.replay import Replay, ReplaySettings

DAY_S = 86_400
BURST_S = 2_286_143.0
"""When the hold of one of the jobs was made and released without end."""


def test_a_hold_is_not_made_and_released_without_end(shared_traces: Path, tmp_path: Path) -> None:
    part = tmp_path / "kth20.swf"
    with gzip.open(shared_traces / "KTH-SP2-1996-2.1-cln.swf.gz", "rt") as trace, part.open("w") as out:
        out.writelines(
            line
            for line in trace
            if line.startswith(";") or 20 * DAY_S <= int(line.split(maxsplit=2)[1]) < 30 * DAY_S
        )
    experiment = Experiment(trace=str(part), synthesis="W5", seed=103)
    workload = load_workload(experiment)
    cluster = SimCluster(
        workload.node_count, workload.jobs, scheduler=SchedulerSettings(), storage=storage_of(experiment)
    )
    replay = Replay(cluster, LEAST_PRICE, LeastPriceConfig(), ReplaySettings())
    while cluster.now_s <= BURST_S:
        assert replay.step()
