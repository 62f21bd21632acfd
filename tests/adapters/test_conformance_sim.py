"""The simulated cluster's adapter passes the suite that every adapter passes."""

from collections.abc import Callable

import pytest

from makeway.policies.model import Cluster, JobKind
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob
from tests.adapters.conformance import AdapterConformance, World

PATIENCE_S = 86_400.0


class SimWorld:
    """Eight simulated nodes; time passes from event to event."""

    def __init__(self) -> None:
        self._cluster = SimCluster(
            8,
            (),
            scheduler=SchedulerSettings(backfill=Backfill.EASY),
            storage=StorageSettings(),
            check=True,
        )
        self._cluster.machine.taken_clock = lambda: self._cluster.now_s
        self._submitted = 0
        self.adapter = SimAdapter(self._cluster)
        self.nodes = tuple(node.name for node in self.adapter.snapshot().nodes)

    def submit(
        self,
        node_count: int,
        *,
        kind: JobKind = JobKind.RIGID,
        runtime_s: float = 3600.0,
        walltime_s: float = 3600.0,
        node_count_min: int | None = None,
        saves: bool = False,
    ) -> str:
        self._submitted += 1
        job = SimJob(
            job_id=f"{self._submitted}",
            submit_s=self._cluster.now_s,
            runtime_s=min(runtime_s, walltime_s),
            walltime_s=walltime_s,
            node_count=node_count,
            user="u1",
            kind=kind,
            node_count_min=node_count_min,
            save_s=5.0 if saves else None,
        )
        self._cluster.submit(job)
        return job.job_id

    def wait(self, condition: Callable[[Cluster], bool], what: str) -> Cluster:
        until_s = self._cluster.now_s + PATIENCE_S
        while True:
            self._cluster.advance(self._cluster.now_s)
            cluster = self.adapter.snapshot()
            if condition(cluster):
                return cluster
            if self._cluster.next_event_s() is None or self._cluster.now_s > until_s:
                pytest.fail(f"it never came about that {what}: {cluster}")
            self._cluster.step()


class TestSimAdapter(AdapterConformance):
    @pytest.fixture
    def world(self) -> World:
        return SimWorld()
