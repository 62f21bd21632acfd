"""The resources of one snapshot: what its nodes have, its running jobs hold and its waiting jobs ask."""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Self

from makeway.adapters.slurm.entitlement.charged import least_held
from makeway.adapters.slurm.nodes.choice import (
    Asked,
    UrgentWays,
    uncounted,
    uncounted_names,
    uncounted_parts,
)
from makeway.adapters.slurm.nodes.named import completed, lacks_others
from makeway.adapters.slurm.nodes.network import ONE_FOR_ALL, Networks
from makeway.adapters.slurm.nodes.reach import Reach
from makeway.adapters.slurm.parse import RawJob
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
from makeway.adapters.slurm.resources.gpu_parts import HeldGpus, parted_gpus
from makeway.adapters.slurm.resources.holdings import (
    Held,
    Holding,
    Holdings,
    billing_weights,
    node_equivalents,
    parts_of,
)
from makeway.adapters.slurm.resources.limits import NO_LIMITS, KnownLimits, quotas
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
        self._find_reach: Callable[[], Reach] = Reach
        self._networks, self._known_limits = ONE_FOR_ALL, NO_LIMITS
        self._names = frozenset(one.name for one in nodes)
        self._tells_exclusive = tells_exclusive
        self._weights = {one.name: billing_weights(one) for one in partitions if by_weights}
        self._nodes = nodes
        self._partitions = {one.name: one for one in partitions}
        self._job_defaults = job_defaults
        self._whole = WholeServing(nodes, opened, parts_across_gpus=counts.parts_across_gpus)
        self._serving = self._finds_serving()

    def _finds_serving(self) -> Callable[[], Serving]:
        """Gives what serves jobs that share nodes: not needed, and large, where none do. Later snapshots of
        the same nodes have the same.
        """
        return cache(partial(Serving, self._nodes, self._shared, self._counts, self._limits))

    def with_details(self, details: Mapping[str, JobDetails]) -> Self:
        """The same for a later snapshot of the same nodes and partitions."""
        later = copy(self)
        later._details = details
        return later

    def within(
        self,
        find_reach: Callable[[], Reach],
        networks: Networks = ONE_FOR_ALL,
        limits: KnownLimits = NO_LIMITS,
    ) -> Self:
        """The same for urgent jobs, which ask for nodes that could come free, and that one job may have.

        Args:
            find_reach: what there is on the nodes, asked once at most.
            networks: which nodes one job may have together.
            limits: what those of QOS and associations leave.
        """
        known = copy(self)
        known._find_reach, known._networks, known._known_limits = find_reach, networks, limits
        for name in ("_reach", "_within_all"):
            known.__dict__.pop(name, None)
        return known

    @cached_property
    def _reach(self) -> Reach:
        return self._find_reach()

    @cached_property
    def _within_all(self) -> Self:
        """The same with the nodes alone that could come free as a whole."""
        return self._with_nodes(self._reach.of(self._names, None))

    def _with_nodes(self, names: frozenset[str]) -> Self:
        """The same as if there were these nodes alone."""
        known = copy(self)
        known._nodes = tuple(one for one in self._nodes if one.name in names)
        known._names = names
        known._whole = self._whole.among(known._nodes)
        known._serving = known._finds_serving()
        return known

    def left_by(self, jobs: Iterable[RawJob]) -> Mapping[str, Resources]:
        """What these running jobs leave of their nodes. A node of which they leave nothing is absent."""
        left: dict[str, Resources | None] = {}
        for job in jobs:
            parts = self.held(job).allocation or (None,) * len(job.nodes)
            for name, part in zip(job.nodes, parts, strict=True):
                has = left.get(name, self.capacities.get(name))
                left[name] = None if has is None or part is None else has.minus(part)
        return {name: rest for name, rest in left.items() if rest is not None}

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
        """What a waiting job asks. An urgent one asks for as few nodes as it can do with, and for more where
        those could not come free.
        """
        if not urgent:
            return self._asked(job, urgent=False)
        asked, required = self._reachable(job), job.required_nodes
        if lacks_others(required, asked) and not self._networks.of(job.partitions).parts:
            others = self._reachable(replace(job, required_nodes=()))
            asked = completed(required, others, self._names, self._reach, job.job_id) or asked
        return self._together(job, replace(asked, uncounted=self._uncounted(job, asked)))

    def _reachable(self, job: RawJob) -> Asked:
        asked = self._ways.asked(job)
        if asked.eligible_nodes != frozenset() and self._may_have_others(job, asked):
            return self._within_reach(job, asked)
        return asked

    def _together(self, job: RawJob, asked: Asked) -> Asked:
        """The same with nodes alone that Slurm's topology gives to one job."""
        found = self._details.get(job.job_id)
        any_nodes = found is not None and found.segment_size == 1
        network = self._networks.of(job.partitions)
        if any_nodes or not network.parts:
            return asked
        names = self._names if asked.eligible_nodes is None else asked.eligible_nodes
        confined = self._reach.confined(network, job.job_id, names, asked.node_count)
        return asked if confined == names else replace(asked, eligible_nodes=confined)

    @property
    def _ways(self) -> UrgentWays:
        return UrgentWays(
            partial(self._asked, urgent=True),
            lambda: self._reach,
            names=self._names,
            partitions=self._partitions,
            limited=self._limits,
            over_limits=self._is_over_limits,
        )

    def _is_over_limits(self, job: RawJob, asked: Asked) -> bool:
        """Whether limits keep an urgent job from starting now in its one partition, where it asks that."""
        known = self._known_limits
        drawn = quotas(job, known, self.least_held(job, asked)) if known.limited else ()
        return any(quota.needs > quota.left for quota in drawn)

    def _may_have_others(self, job: RawJob, asked: Asked) -> bool:
        """Whether an urgent job may run on more nodes than the fewest, or on nodes of other sizes."""
        return job.job_id in self._details and job.task_count > asked.node_count

    def _within_reach(self, job: RawJob, asked: Asked) -> Asked:
        """What an urgent job asks of the nodes of its hold, or of those that could come free, if the nodes
        that it asks for could not.
        """
        hold = self._reach.own.get(job.job_id, frozenset())
        names = self._names if asked.eligible_nodes is None else asked.eligible_nodes
        if hold:
            near = None if len(hold & names) >= asked.node_count else self._with_nodes(hold)
        else:
            within = self._reach.of(names, asked.demand)
            near = None if len(within) >= asked.node_count else self._within_all
        if near is None:
            return asked
        other = near._ways.asked(job)
        there = near._names if other.eligible_nodes is None else other.eligible_nodes
        admitted = any(self._ways.admits(one, job.limit_s, other.node_count) for one in job.partitions)
        may_have = other.node_count <= asked.node_count or self._details[job.job_id].may_have_more
        serves = admitted and may_have and len(there) >= other.node_count
        return replace(other, eligible_nodes=there) if serves else asked

    def _asked(self, job: RawJob, *, urgent: bool) -> Asked:
        size = max(job.node_count, job.requested_node_count) if job.restarts else job.node_count
        found = self._details.get(job.job_id)
        if not self._shares(job):
            return self._asked_whole(job, size, found, urgent=urgent)
        first = self._partitions.get(job.partitions[0])
        defaults = self._job_defaults if first is None else self._job_defaults.in_partition(first)
        request = request_of(job, found, defaults)
        fit = self._serving().fit(request)
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

        like = self._of_like_size(job, size, least, found, demand_of) if urgent else None
        least, eligible = self._whole.fewest(demand_of, least, most) if like is None else like
        if urgent and len(self._names if eligible is None else eligible) < least:
            smallest = max(1, job.requested_node_count)
            largest = found.most_nodes if found is not None else None if smallest == 1 else smallest
            uneven = self._whole.fewest_uneven(
                demand_of, job, found if self._counts.shares else None, smallest, largest
            )
            if uneven is not None:
                least, eligible = uneven
        return Asked(node_count=least, node_count_max=max(size, least), demand=None, eligible_nodes=eligible)

    def _of_like_size(
        self,
        job: RawJob,
        size: int,
        most: int,
        found: JobDetails | None,
        demand_of: Callable[[int], WholeDemand],
    ) -> tuple[int, frozenset[str]] | None:
        """See `WholeServing.of_like_size`. None also for a job of a fixed number of nodes, and where all
        nodes are of one size. `most`: how many of the smallest nodes hold the job.
        """
        least = self._whole.least_of_largest(job, size)
        if found is None or least >= most:
            return None
        return self._whole.of_like_size(demand_of, least, min(most, found.most_nodes or most))

    def submitted(self, wanted: Submission) -> Asked:
        """What a job would ask that is submitted so: as few nodes as it can do with."""
        request, required = wanted.request, wanted.request.required
        asked = self._in_best_way(request, wanted)
        if lacks_others(required, asked) and not self._networks.of(request.partitions).parts:
            others = self._in_best_way(replace(request, required=()), wanted)
            asked = completed(required, others, self._names, self._reach) or asked
        names = uncounted_names(required, request.features, asked)
        parts = uncounted_parts(request.gres_per_node, asked.eligible_nodes)
        return replace(asked, uncounted=", ".join([*names, *parts]))

    def _in_best_way(self, request: JobRequest, wanted: Submission) -> Asked:
        def ask(partitions: tuple[str, ...], features: str) -> Asked:
            asks = replace(request, partitions=partitions, features=features)
            return self._submitted(asks, exclusive=wanted.exclusive)

        return self._ways.submitted(ask, request.partitions, request.features, wanted.limit_s)

    def _submitted(self, request: JobRequest, *, exclusive: bool) -> Asked:
        if self._may_share(request.partitions, exclusive=exclusive):
            fit = self._serving().fit(request)
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
        return Asked(node_count=size, node_count_max=size, demand=demand, eligible_nodes=eligible)

    def least_held(self, job: RawJob, asked: Asked) -> Mapping[str, float]:
        """What a waiting job gets at least once it runs, by the names of trackable resources."""
        found, names = self._details.get(job.job_id), asked.eligible_nodes
        nodes = [one for one in self._nodes if names is None or one.name in names]
        wholes = (one in self._partitions and self._partitions[one].whole_nodes for one in job.partitions)
        held = least_held(job, found, nodes, self._counts, whole=all(wholes))
        return {**held, "node": float(asked.node_count)}

    def serving(self, job: RawJob) -> frozenset[str] | None:
        """Which nodes may serve a running job."""
        return self._whole.eligible(whole_demand(job, None))

    def _uncounted(self, job: RawJob, asked: Asked) -> str:
        wholes = (self._partitions[name].takes_blocks for name in job.partitions if name in self._partitions)
        found, network = self._details.get(job.job_id), self._networks.of(job.partitions)
        extra = self._counts.by_extra
        return uncounted(job, asked, found, network, takes_blocks=any(wholes), by_extra=extra)

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
