"""The resources of one snapshot: what its nodes have, its running jobs hold and its waiting jobs ask."""

from collections.abc import Mapping
from dataclasses import dataclass

from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawNode, RawPartition
from makeway.adapters.slurm.resources.counting import WHOLE_NODES, Counting, capacity, shared_partitions
from makeway.adapters.slurm.resources.details import JobDetails
from makeway.adapters.slurm.resources.holdings import Holdings, node_equivalents, parts_of
from makeway.adapters.slurm.resources.request import request_of
from makeway.adapters.slurm.resources.serving import Serving
from makeway.adapters.slurm.resources.submission import Submission
from makeway.adapters.slurm.resources.whole import WholeServing, whole_demand, whole_demand_of
from makeway.policies.model import Resources

_OPEN_PARTITION = frozenset({"UP", "DRAIN"})
"""A partition that drains takes no new jobs and goes on with the ones that it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a running job holds: see `Job.allocation` and `Job.node_equivalents`."""

    allocation: tuple[Resources, ...] | None = None
    node_equivalents: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a waiting job asks: see the fields of `Job` of the same names."""

    node_count: int
    node_count_max: int
    demand: Resources | None
    eligible_nodes: frozenset[str] | None


class SnapshotResources:
    """Answers for the jobs of one snapshot.

    Args:
        nodes: its nodes.
        partitions: its partitions.
        counts: what this Slurm counts.
        holdings: what is known of running jobs.
        details: what is known of waiting jobs besides squeue's lines, by job id.
        tells_exclusive: whether squeue tells which waiting jobs share no node.
        by_weights: whether a job's share of its nodes follows TRESBillingWeights, where the partition has
            some.
    """

    def __init__(
        self,
        nodes: tuple[RawNode, ...],
        partitions: tuple[RawPartition, ...],
        *,
        counts: Counting = WHOLE_NODES,
        holdings: Holdings | None = None,
        details: Mapping[str, JobDetails] | None = None,
        tells_exclusive: bool = True,
        by_weights: bool = False,
    ) -> None:
        shared = shared_partitions(partitions)
        opened = frozenset(one.name for one in partitions if one.state in _OPEN_PARTITION)
        found = ((one.name, capacity(one, counts, shared)) for one in nodes)
        self.capacities: Mapping[str, Resources] = {name: has for name, has in found if has is not None}
        """What jobs may use of each node. A node that is only given as a whole is absent."""
        self._counts = counts
        self._shared = shared & opened
        self._holdings = Holdings(counts) if holdings is None else holdings
        self._details = details or {}
        self._tells_exclusive = tells_exclusive
        self._weights = {one.name: dict(one.weights) for one in partitions if by_weights}
        self._serving = Serving(nodes, self._shared, counts)
        self._whole = WholeServing(nodes, opened)

    def held(self, job: RawJob) -> Held:
        """What a running job holds. One that shares its nodes with none of other users keeps all of them, and
        yet counts as its share.
        """
        holding = self._holdings.of(job) if self.capacities else None
        parts = parts_of(job, holding, self.capacities)
        weights = self._weights.get(job.partitions[0], {})
        return Held(
            allocation=None if holding is None or holding.exclusive else parts,
            node_equivalents=node_equivalents(job, parts, self.capacities, weights),
        )

    def asked(self, job: RawJob, *, urgent: bool) -> Asked:
        """What a waiting job asks. An urgent one asks for as few nodes as it can do with."""
        size = max(job.node_count, job.requested_node_count) if job.restarts else job.node_count
        if not self._shares(job):
            least = self._whole.least_size(job, size) if urgent else size
            eligible = self._whole.eligible(whole_demand(job, least))
            return Asked(node_count=least, node_count_max=size, demand=None, eligible_nodes=eligible)
        fit = self._serving.fit(request_of(job, self._details.get(job.job_id)))
        if fit.demand is None:
            # Whole nodes after all: Slurm may give the job more of them than the fewest.
            size = max(fit.node_count, size)
            least = fit.node_count if urgent else size
        else:
            size = least = fit.node_count
        return Asked(node_count=least, node_count_max=size, demand=fit.demand, eligible_nodes=fit.eligible)

    def submitted(self, wanted: Submission) -> Asked:
        """What a job would ask that is submitted so: as few nodes as it can do with."""
        request = wanted.request
        if self._may_share(request.partitions, exclusive=wanted.exclusive):
            fit = self._serving.fit(request)
            demand, eligible, size = fit.demand, fit.eligible, fit.node_count
        else:
            size = self._whole.size_for(request.node_count, request.cpu_count, request.partitions)
            demand, eligible = None, self._whole.eligible(whole_demand_of(request, size))
        return Asked(node_count=size, node_count_max=size, demand=demand, eligible_nodes=eligible)

    def serving(self, job: RawJob) -> frozenset[str] | None:
        """Which nodes may serve a running job."""
        return self._whole.eligible(whole_demand(job, None))

    def _shares(self, job: RawJob) -> bool:
        """Whether a waiting job shares its nodes, in at least one of its partitions."""
        found = self._details.get(job.job_id)
        exclusive = (self._tells_exclusive and job.exclusive) if found is None else found.exclusive
        return not job.gres_per_socket and self._may_share(job.partitions, exclusive=exclusive)

    def _may_share(self, partitions: tuple[str, ...], *, exclusive: bool) -> bool:
        return self._counts.shares and not (exclusive or self._shared.isdisjoint(partitions))
