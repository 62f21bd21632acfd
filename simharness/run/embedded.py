"""The simulated cluster behind a running daemon: virtual time that follows the clock on the wall, faster if
asked to.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from makeway.adapters.protocol import AnnouncedJob, Capabilities, Entitlement
from makeway.adapters.registry import Connection
from makeway.policies.model import Action, Cluster, LeaderLease
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import Backfill, Order, SchedulerSettings
from makeway.simharness.run.experiment import SAMPLE, Experiment, storage_of
from makeway.simharness.run.loading import load_workload
from makeway.simharness.run.settings import SimulatedSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedEntitlements:
    """`EntitlementReader` of a workload, whose users have no limits: all may announce what fits."""

    node_count: int

    def entitlement(self, job: AnnouncedJob) -> Entitlement:
        """See `EntitlementReader`."""
        if job.node_count > self.node_count:
            return Entitlement(
                refusal=f"{job.node_count} nodes are asked for, the machine has {self.node_count}"
            )
        return Entitlement()


class EmbeddedAdapter:
    """An `Adapter` whose cluster lives on between two calls, as a real one does.

    Args:
        cluster: the simulated cluster.
        virtual_s: the virtual time now; it never goes back.
    """

    def __init__(self, cluster: SimCluster, virtual_s: Callable[[], float]) -> None:
        self._cluster = cluster
        self._virtual_s = virtual_s
        self._adapter = SimAdapter(cluster)

    @property
    def capabilities(self) -> Capabilities:
        """What the simulated cluster can do."""
        return self._adapter.capabilities

    def snapshot(self) -> Cluster:
        """The cluster as it is now."""
        return self._now().snapshot()

    def apply(self, action: Action) -> None:
        """See `Adapter`."""
        self._now().apply(action)

    @property
    def command_s(self) -> float:
        """See `LeaseKeeper`."""
        return self._adapter.command_s

    @property
    def saves_s(self) -> float:
        """See `LeaseKeeper`."""
        return self._adapter.saves_s

    def create_lease(self, lease: LeaderLease) -> None:
        """See `LeaseKeeper`."""
        self._now().create_lease(lease)

    def renew_lease(self, lease: LeaderLease) -> None:
        """See `LeaseKeeper`."""
        self._now().renew_lease(lease)

    def remove_lease(self, term: int) -> None:
        """See `LeaseKeeper`."""
        self._now().remove_lease(term)

    def close(self) -> None:
        """See `Adapter`."""
        self._adapter.close()

    def _now(self) -> SimAdapter:
        """The cluster, brought up to the present."""
        self._cluster.advance(max(self._cluster.now_s, self._virtual_s()))
        return self._adapter


def open_simulated(settings: SimulatedSettings) -> Connection:
    """Open the simulated cluster that a configuration describes.

    Raises:
        TraceError, WorkloadError, ExperimentError: the workload cannot be had.
    """
    experiment = Experiment(
        trace=settings.trace,
        synthesis=None if settings.trace == SAMPLE else settings.workload,  # the sample has its kinds already
        node_count=settings.nodes,
        seed=settings.seed,
    )
    workload = load_workload(experiment)
    cluster = SimCluster(
        workload.node_count,
        workload.jobs,
        scheduler=SchedulerSettings(order=Order(settings.order), backfill=Backfill(settings.backfill)),
        storage=storage_of(experiment),
        workload=workload.name,
        sharing=workload.sharing,
    )
    cluster.advance(cluster.now_s + settings.start_s)
    began_s, origin_s = time.monotonic(), cluster.now_s

    def virtual_s() -> float:
        return origin_s + (time.monotonic() - began_s) * settings.speed

    return Connection(
        adapter=EmbeddedAdapter(cluster, virtual_s),
        now=virtual_s,
        speed=settings.speed,
        entitlements=SimulatedEntitlements(node_count=workload.node_count),
    )
