"""The resources of one snapshot: what its nodes have, its running jobs hold and its waiting jobs ask."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

from makeway.adapters.protocol import Unreadable
from makeway.adapters.slurm.nodes.choices import Surroundings
from makeway.adapters.slurm.parse import Gres, RawJob
from makeway.adapters.slurm.parse_cluster import NO_JOB_DEFAULTS, JobDefaults, RawNode, RawPartition
from makeway.adapters.slurm.resources.counting import (
    WHOLE_NODES,
    Counting,
    capacity,
    cpu_limits,
    cpus_in,
    shared_partitions,
)
from makeway.adapters.slurm.resources.details import JobDetails
from makeway.adapters.slurm.resources.features import alternatives
from makeway.adapters.slurm.resources.gpu_parts import GPU_PARTS, HeldGpus, parted_gpus
from makeway.adapters.slurm.resources.holdings import (
    Holding,
    Holdings,
    node_equivalents,
    parts_of,
)
from makeway.adapters.slurm.resources.request import JobRequest, request_of
from makeway.adapters.slurm.resources.serving import Serving
from makeway.adapters.slurm.resources.submission import Submission
from makeway.adapters.slurm.resources.whole import (
    WholeDemand,
    WholeServing,
    most_size,
    whole_demand,
    whole_demand_of,
)
from makeway.policies.model import CPU, Resources


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
    uncounted: str = ""
    """What makeway cannot count of it, so that no node is chosen for it. Empty: it counts everything."""

    admitted: bool = True
    """Whether one of its partitions admits a job of its time limit and size."""

    @property
    def blocked_by(self) -> str:
        """See `Job.blocked_by`."""
        if not self.admitted:
            return "a partition that admits it (MaxTime, MaxNodes)"
        return f"nodes that makeway cannot choose ({self.uncounted})" if self.uncounted else ""


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
        job_defaults: what jobs get that do not say, where their partition has no default of its own.

    Raises:
        Unreadable: weights that count and cannot be read.
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
        job_defaults: JobDefaults = NO_JOB_DEFAULTS,
    ) -> None:
        shared = shared_partitions(partitions, counts)
        opened = frozenset(one.name for one in partitions if one.is_open)
        self._limits = cpu_limits(partitions, counts)
        found = ((one.name, capacity(one, counts, shared, self._limits)) for one in nodes)
        self._has: Mapping[str, Resources] = {name: has for name, has in found if has is not None}
        self._counts = counts
        self._shared = shared & opened
        self._holdings = Holdings(counts) if holdings is None else holdings
        known = ((one.name, parted_gpus(one.gres)) for one in nodes if one.name in self._has)
        self._parted = {name: parted for name, parted in known if parted is not None}
        self.capacities: Mapping[str, Resources] = self._capacities()
        """What jobs may use of each node. A node that is only given as a whole is absent."""
        self._details = details or {}
        self._surroundings = Surroundings()
        self._names = frozenset(one.name for one in nodes)
        self._tells_exclusive = tells_exclusive
        self._weights = {one.name: _weights(one) for one in partitions if by_weights}
        self._nodes = nodes
        self._partitions = {one.name: one for one in partitions}
        self._job_defaults = job_defaults
        self._whole = WholeServing(nodes, opened, parts_across_gpus=counts.parts_across_gpus)

    @cached_property
    def _serving(self) -> Serving:
        """What serves jobs that share nodes: not needed, and large, where none do."""
        return Serving(self._nodes, self._shared, self._counts, self._limits)

    def with_details(self, details: Mapping[str, JobDetails]) -> Self:
        """The same for a later snapshot of the same nodes and partitions."""
        later = copy(self)
        later._details = details
        return later

    def among(self, surroundings: Surroundings) -> Self:
        """The same for urgent jobs that have a choice: of partitions, of features such as `[a|b]`, or of
        switches and blocks.
        """
        known = copy(self)
        known._surroundings = surroundings
        return known

    def holding(self, job: RawJob) -> Holding | None:
        """What is known of a running job. None: nothing, or no node is shared."""
        return self._holdings.of(job) if self._has else None

    def held(self, job: RawJob) -> Held:
        """What a running job holds. One that shares its nodes with none of other users keeps all of them, and
        yet counts as its share.
        """
        holding = self.holding(job)
        parts = parts_of(job, holding, self._has)
        weights = self._weights.get(job.partitions[0], {})
        return Held(
            allocation=self._taken(job, holding, parts),
            node_equivalents=node_equivalents(job, parts, self._has, weights),
        )

    def asked(self, job: RawJob, *, urgent: bool) -> Asked:
        """What a waiting job asks. An urgent one asks for as few nodes as it can do with."""
        asked = self._in_one_way(job) if urgent and has_choice(job) else self._asked(job, urgent=urgent)
        return self._together(job, replace(asked, uncounted=self._uncounted(job, asked))) if urgent else asked

    def _together(self, job: RawJob, asked: Asked) -> Asked:
        """The same with nodes alone that Slurm's topology gives to one job."""
        found = self._details.get(job.job_id)
        any_nodes = found is not None and found.segment_size == 1
        if any_nodes or any(
            self._partitions[name].own_topology for name in job.partitions if name in self._partitions
        ):
            return asked
        names = self._names if asked.eligible_nodes is None else asked.eligible_nodes
        confined = self._surroundings.confined(job.job_id, names, asked.node_count)
        return asked if confined == names else replace(asked, eligible_nodes=confined)

    def _in_one_way(self, job: RawJob) -> Asked:
        """What an urgent job asks that is in several partitions, or wants nodes of one of several features.

        One node may be any of them. Several nodes have to be in one partition and of one feature: those of
        the job's hold, else those where most nodes could come free.
        """
        may_be_refused = _may_be_refused(job)
        admitting = tuple(name for name in job.partitions if self._admits(name, job.limit_s, 1))
        if admitting:
            job = replace(job, partitions=admitting)
        together = self._asked(job, urgent=True)
        if not (admitting and has_choice(job)):
            fits = any(self._admits(name, job.limit_s, together.node_count) for name in admitting)
            return replace(together, admitted=fits or not may_be_refused)
        ways = [(name, features) for name in job.partitions for features in alternatives(job.features)]
        each = [
            self._asked(replace(job, partitions=(name,), features=features), urgent=True)
            for name, features in ways
        ]
        sets = [self._names if one.eligible_nodes is None else one.eligible_nodes for one in each]
        if together.node_count == 1 and self._limits.keys().isdisjoint(job.partitions):
            if any(one.demand is not None or one.node_count > 1 for one in (together, *each)):
                return together
            names = frozenset[str]().union(*sets)
            return replace(together, eligible_nodes=None if names == self._names else names)

        def rank(index: int) -> tuple[object, ...]:
            served = self._surroundings.rank(job.job_id, sets[index], each[index].node_count)
            return *served, ways[index][0] not in self._limits

        fitting = [
            index
            for index, (name, _) in enumerate(ways)
            if self._admits(name, job.limit_s, each[index].node_count)
        ]
        best = max(fitting or range(len(each)), key=rank)
        return replace(each[best], admitted=bool(fitting) or not may_be_refused)

    def _admits(self, partition: str, limit_s: float | None, node_count: int) -> bool:
        found = self._partitions.get(partition)
        return found is None or found.admits(limit_s, node_count)

    def _asked(self, job: RawJob, *, urgent: bool) -> Asked:
        size = max(job.node_count, job.requested_node_count) if job.restarts else job.node_count
        found = self._details.get(job.job_id)
        if not self._shares(job):
            return self._asked_whole(job, size, found, urgent=urgent)
        first = self._partitions.get(job.partitions[0])
        defaults = self._job_defaults if first is None else self._job_defaults.in_partition(first)
        request = request_of(job, found, defaults)
        fit = self._serving.fit(request)
        if fit.demand is None:
            # Whole nodes after all: Slurm may give the job more of them than the fewest.
            size = max(fit.node_count, size)
            least = fit.node_count if urgent else size
        else:
            size = least = fit.node_count
        return Asked(node_count=least, node_count_max=size, demand=fit.demand, eligible_nodes=fit.eligible)

    def _asked_whole(self, job: RawJob, size: int, found: JobDetails | None, *, urgent: bool) -> Asked:
        least = self._whole.least_size(job, size) if urgent else size
        most = most_size(least, job) if urgent else least
        if found is not None:
            most = min(most, found.most_nodes or most)
        elif job.requested_node_count > 1:
            most = min(most, size)

        def demand_of(count: int) -> WholeDemand:
            return whole_demand(job, count, found, memory=self._counts.memory, cores=self._counts.shares)

        least, eligible = self._whole.fewest(demand_of, least, most)
        if urgent and len(self._names if eligible is None else eligible) < least:
            smallest = max(1, job.requested_node_count)
            largest = found.most_nodes if found is not None else None if smallest == 1 else smallest
            uneven = self._whole.fewest_uneven(
                demand_of, job, found if self._counts.shares else None, smallest, largest
            )
            if uneven is not None:
                least, eligible = uneven
        return Asked(node_count=least, node_count_max=max(size, least), demand=None, eligible_nodes=eligible)

    def submitted(self, wanted: Submission) -> Asked:
        """What a job would ask that is submitted so: as few nodes as it can do with."""
        request = wanted.request
        admitting = tuple(name for name in request.partitions if self._admits(name, wanted.limit_s, 1))
        asked = self._submitted(
            replace(request, partitions=admitting or request.partitions), exclusive=wanted.exclusive
        )
        fits = any(self._admits(name, wanted.limit_s, asked.node_count) for name in admitting)
        return replace(asked, admitted=fits)

    def _submitted(self, request: JobRequest, *, exclusive: bool) -> Asked:
        if self._may_share(request.partitions, exclusive=exclusive):
            fit = self._serving.fit(request)
            demand, eligible, size = fit.demand, fit.eligible, fit.node_count
        else:
            size = self._whole.size_for(request.node_count, request.cpu_count, request.partitions)
            demand_of = partial(
                whole_demand_of, request, memory=self._counts.memory, cores=self._counts.shares
            )
            most = most_size(size, request)
            size, eligible = self._whole.fewest(demand_of, size, min(most, request.most_nodes or most))
            if len(self._names if eligible is None else eligible) < size:
                uneven = self._whole.fewest_uneven(
                    demand_of, request, request, request.node_count, request.most_nodes
                )
                size, eligible = uneven or (size, eligible)
            demand = None
        return Asked(
            node_count=size,
            node_count_max=size,
            demand=demand,
            eligible_nodes=eligible,
            uncounted=", ".join(
                [
                    *_uncounted_names(request.required, request.features, size),
                    *_uncounted_parts(request.gres_per_node, eligible),
                ]
            ),
        )

    def serving(self, job: RawJob) -> frozenset[str] | None:
        """Which nodes may serve a running job."""
        return self._whole.eligible(whole_demand(job, None))

    def _uncounted(self, job: RawJob, asked: Asked) -> str:
        """What makeway cannot count of an urgent job's request."""
        found = self._details.get(job.job_id)
        options = list(() if found is None else found.uncounted)
        if job.gres_per_socket:
            options.insert(0, "--gpus-per-socket")
        options += _uncounted_names(job.required_nodes, job.features, asked.node_count)
        segment_size = 0 if found is None else found.segment_size
        if self._surroundings.network.segments_count(segment_size, asked.node_count):
            options.append("--segment")
        if self._takes_blocks(job):
            options.append("--exclusive=topo")
        return ", ".join([*options, *_uncounted_parts(job.gres_per_node, asked.eligible_nodes)])

    def _takes_blocks(self, job: RawJob) -> bool:
        """Whether a waiting job shares no block of the topology with other jobs."""
        if self._surroundings.network.block_size is None:
            return False
        told = (self._details.get(job.job_id), *map(self._partitions.get, job.partitions))
        return any(one is not None and one.takes_blocks for one in told)

    def _capacities(self) -> Mapping[str, Resources]:
        found = dict(self._has)
        for name, parted in self._parted.items():
            found[name] = parted.capacity(found[name], across_gpus=self._counts.parts_across_gpus)
        return found

    def _taken(
        self, job: RawJob, holding: Holding | None, parts: tuple[Resources, ...] | None
    ) -> tuple[Resources, ...] | None:
        """What others cannot use of each of its nodes because of a job with these parts. None: all of
        them.
        """
        if holding is None or holding.exclusive or parts is None:
            return None
        partition = job.partitions[0]
        if partition in self._limits:
            parts = tuple(part.plus(Resources.of({cpus_in(partition): part.amount(CPU)})) for part in parts)
        return tuple(self._taken_of(name, holding, part) for name, part in zip(job.nodes, parts, strict=True))

    def _taken_of(self, name: str, holding: Holding, part: Resources) -> Resources:
        parted = self._parted.get(name)
        if parted is None:
            return part
        gpus = holding.gpus.get(name, HeldGpus())
        return parted.allocation(part, gpus, across_gpus=self._counts.parts_across_gpus)

    def _shares(self, job: RawJob) -> bool:
        """Whether a waiting job shares its nodes, in at least one of its partitions."""
        found = self._details.get(job.job_id)
        exclusive = (self._tells_exclusive and job.exclusive) if found is None else found.exclusive
        return not job.gres_per_socket and self._may_share(job.partitions, exclusive=exclusive)

    def _may_share(self, partitions: tuple[str, ...], *, exclusive: bool) -> bool:
        return self._counts.shares and not (exclusive or self._shared.isdisjoint(partitions))


def _weights(partition: RawPartition) -> Mapping[str, float]:
    if partition.weights is None:
        message = f"TRESBillingWeights of partition {partition.name} cannot be read (price: billing_weights)"
        raise Unreadable(message, command=("scontrol", "show", "partitions"), text="")
    return dict(partition.weights)


def _may_be_refused(job: RawJob) -> bool:
    """Whether a job may wait because no partition admits it. A QOS can override the limits of partitions;
    then Slurm names another reason. Of a job in one partition, the reason is enough.
    """
    return len(job.partitions) > 1 and job.reason.startswith(("None", "SchedDefer", "Partition"))


def has_choice(job: RawJob) -> bool:
    """Whether the job may run in several partitions, or on nodes of one of several features."""
    return len(job.partitions) > 1 or "[" in job.features


def _uncounted_names(required: tuple[str, ...], features: str, node_count: int) -> list[str]:
    """The options that ask for some nodes by name or feature, and for others besides."""
    asked = {
        "--nodelist with fewer nodes than the job gets": 0 < len(required) < node_count,
        "--constraint with numbers of nodes": "*" in features,
    }
    return [option for option, given in asked.items() if given]


def _uncounted_parts(wanted: tuple[Gres, ...], eligible: frozenset[str] | None) -> list[str]:
    """The shards that a request for several asks for, if no node can serve it."""
    parts = (one for one in wanted if one.name in GPU_PARTS and one.count > 1)
    return [f"{one.count} of gres/{one.name} for one job" for one in parts] if eligible == frozenset() else []
