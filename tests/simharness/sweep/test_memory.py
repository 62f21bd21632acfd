"""Many replays in one process need no more memory than one."""

import gc
from typing import Any
from weakref import WeakSet

import pytest

from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.run import collector, experiment
from makeway.simharness.run.experiment import Experiment, Workload
from makeway.simharness.workloads.job import SimJob


def test_a_replay_frees_what_earlier_ones_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = WeakSet[SimCluster]()

    class Seen(SimCluster):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            clusters.add(self)

    monkeypatch.setattr(experiment, "SimCluster", Seen)
    monkeypatch.setattr(collector, "KEPT_JOBS", 3)
    workload = Workload(name="one", jobs=[SimJob("a", 0.0, 600.0, 900.0, 1)], node_count=1)
    gc.disable()
    try:
        for _ in range(12):
            experiment.run(Experiment(policy="least-price"), workload)
    finally:
        gc.enable()
    assert len(clusters) <= 4
