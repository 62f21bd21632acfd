"""A simulated machine whose nodes jobs share."""

from collections.abc import Sequence

from makeway.policies.model import CPU, GPU, Resources
from makeway.simharness.engine.job_run import JobRun
from makeway.simharness.engine.machine import SimMachine
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.shared.nodes import Amounts, SharedNodes, SharingSettings
from makeway.simharness.engine.shared.scheduler import SharedScheduler
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.partitions import members


class SharedMachine(SimMachine):
    """Nodes with resources. A job holds its demand on each of its nodes; one without a demand holds all.

    `free` has the nodes that are up and of which no job holds anything.
    """

    def __init__(
        self,
        sharing: SharingSettings,
        jobs: Sequence[SimJob],
        *,
        scheduler: SchedulerSettings,
        storage: StorageSettings,
        requeue_delay_s: float,
    ) -> None:
        super().__init__(
            len(sharing.capacities),
            jobs,
            scheduler=scheduler,
            storage=storage,
            requeue_delay_s=requeue_delay_s,
        )
        self.capacities = sharing.capacities
        self.nodes = SharedNodes(sharing)
        self.shared_scheduler = SharedScheduler(scheduler, self.nodes)
        self.scheduler = self.shared_scheduler
        self._able: dict[Resources, frozenset[str] | None] = {}

    def able_nodes(self, demand: Resources | None) -> frozenset[str] | None:
        """The nodes that have as much when they are empty. None: all of them."""
        if demand is None:
            return None
        if demand not in self._able:
            pairs = zip(self.names.names, self.capacities, strict=True)
            able = frozenset(name for name, capacity in pairs if capacity.covers(demand))
            self._able[demand] = None if len(able) == len(self.capacities) else able
        return self._able[demand]

    def allocation(self, live: JobRun) -> tuple[Resources, ...] | None:
        """What a job that asked for a demand holds on each of its nodes, the batch host first.

        None: it holds whole nodes, or none.
        """
        if live.job.demand is None or not live.nodes:
            return None
        rest = live.nodes & ~live.batch_host
        nodes = self.nodes
        return tuple(
            nodes.resources(nodes.held(live.index, node))
            for part in (live.batch_host, rest)
            for node in members(part)
        )

    def _occupy(self, live: JobRun) -> None:
        demand, nodes = live.job.demand, self.nodes
        amounts = None if demand is None else nodes.amounts(demand)
        nodes.take(live.index, live.nodes, amounts, live.limit_s)
        held = [(nodes.held(live.index, node), node) for node in members(live.nodes)]
        live.share = sum(nodes.share(part, node) for part, node in held) / len(held)
        live.cpus = self._sum(CPU, held)
        live.gpus = self._sum(GPU, held)
        self._recount()

    def _sum(self, name: str, held: list[tuple[Amounts, int]]) -> int:
        names = self.nodes.resource_names
        return sum(part[names.index(name)] for part, _ in held) if name in names else 0

    def _vacate(self, live: JobRun) -> None:
        self.nodes.give_back(live.index, live.nodes)
        self._recount()

    def serving(self, live: JobRun, among: int) -> int:
        return self.shared_scheduler.serving(live, among & ~self.down)

    def _recount(self) -> None:
        self.free = self.nodes.idle & ~self.down
