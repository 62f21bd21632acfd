"""The simulated cluster behind a running daemon: virtual time that follows the clock on the wall, faster if asked to."""

import time
from collections.abc import Callable

from makeway.adapters.protocol import Capabilities
from makeway.daemon.config.load import Connection
from makeway.daemon.config.schema import SimulatedSettings
from makeway.policies.model import Cluster, SignalTarget
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import Backfill, Order, SchedulerSettings
from makeway.simharness.run.experiment import SAMPLE, Experiment, load_workload, storage_of


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

    def checkpoint(
        self, job_id: str, *, signal: str, walltime_s: float, signal_to: SignalTarget = SignalTarget.BATCH
    ) -> None:
        """See `Adapter`."""
        self._now().checkpoint(job_id, signal=signal, signal_to=signal_to, walltime_s=walltime_s)

    def requeue(self, job_id: str) -> None:
        """See `Adapter`."""
        self._now().requeue(job_id)

    def requeue_again(self, job_id: str, *, requeue_count: int) -> None:
        """See `Adapter`."""
        self._now().requeue_again(job_id, requeue_count=requeue_count)

    def cancel(self, job_id: str) -> None:
        """See `Adapter`."""
        self._now().cancel(job_id)

    def shrink(self, job_id: str, *, keep_nodes: tuple[str, ...], walltime_s: float) -> None:
        """See `Adapter`."""
        self._now().shrink(job_id, keep_nodes=keep_nodes, walltime_s=walltime_s)

    def expand(self, job_id: str, *, nodes: tuple[str, ...], reservation: str | None) -> None:
        """See `Adapter`."""
        self._now().expand(job_id, nodes=nodes, reservation=reservation)

    def reserve(
        self,
        name: str,
        *,
        nodes: tuple[str, ...],
        duration_s: float,
        job_id: str | None,
        user: str | None = None,
        overlap: bool = False,
    ) -> None:
        """See `Adapter`."""
        self._now().reserve(
            name, nodes=nodes, duration_s=duration_s, job_id=job_id, user=user, overlap=overlap
        )

    def release(self, name: str) -> None:
        """See `Adapter`."""
        self._now().release(name)

    def prioritise(self, job_id: str, *, queue_position: int | None = None) -> None:
        """See `Adapter`."""
        self._now().prioritise(job_id, queue_position=queue_position)

    def restore_priority(self, job_id: str) -> None:
        """See `Adapter`."""
        self._now().restore_priority(job_id)

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
    )
    cluster.advance(cluster.now_s + settings.start_s)
    began_s, origin_s = time.monotonic(), cluster.now_s

    def virtual_s() -> float:
        return origin_s + (time.monotonic() - began_s) * settings.speed

    return Connection(adapter=EmbeddedAdapter(cluster, virtual_s), now=virtual_s, speed=settings.speed)
