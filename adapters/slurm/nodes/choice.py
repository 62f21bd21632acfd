"""What an urgent job asks that has a choice: of several partitions, of features such as `[a|b]`, or of nodes.

Slurm gives it the nodes that are free first. makeway has to know before which ones to free.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from makeway.adapters.slurm.nodes.network import Network
from makeway.adapters.slurm.nodes.reach import Reach
from makeway.adapters.slurm.parse import Gres, RawJob
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.resources.details import JobDetails
from makeway.adapters.slurm.resources.features import alternatives
from makeway.adapters.slurm.resources.gpu_parts import GPU_PARTS
from makeway.adapters.slurm.waiting.reasons import OF_PARTITION
from makeway.policies.model import Resources

_NOT_NAMED = ("None", "SchedDefer")
"""How the reasons begin of a job at which Slurm has not looked since it was changed."""
_LOOKED_FOR_NODES = ("Resources", "Priority", "ReqNodeNotAvail")
"""How the reasons begin of a job for which Slurm has looked for nodes."""


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
    over_limits_in: frozenset[str] = frozenset()
    """Those of its several partitions in which limits of QOS or associations keep it from starting now."""

    @property
    def blocked_by(self) -> str:
        """See `Job.blocked_by`."""
        if not self.admitted:
            return "a partition that admits it (MaxTime, MaxNodes, AllowAccounts and the like)"
        return f"nodes that makeway cannot choose ({self.uncounted})" if self.uncounted else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What an urgent job, or one that would be submitted, asks wherever it may run."""

    ask: Callable[[tuple[str, ...], str], Asked]
    """What it asks in some of its partitions, with some of its features."""
    takes: Callable[[str, Asked], bool]
    """Whether a partition takes it if it asks that there."""
    job_id: str = ""
    """Empty: it has none yet."""
    may_be_refused: bool = True
    """Whether it may wait because no partition admits it."""


class UrgentWays:
    """Chooses between the ways in which an urgent job of one snapshot can be served.

    Args:
        ask: what an urgent job asks, whatever could come free.
        reach: which nodes could come free.
        names: those of all nodes.
        partitions: the partitions by name.
        limited: the partitions whose jobs may have so many CPUs of a node together.
        over_limits: whether limits of QOS or associations keep a job of one partition from starting now,
            where it asks that.
    """

    def __init__(
        self,
        ask: Callable[[RawJob], Asked],
        reach: Callable[[], Reach],
        *,
        names: frozenset[str],
        partitions: Mapping[str, RawPartition],
        limited: Collection[str],
        over_limits: Callable[[RawJob, Asked], bool],
    ) -> None:
        self._ask = ask
        self._reach = reach
        self._names = names
        self._partitions = partitions
        self._limited = frozenset(limited)
        self._over_limits = over_limits

    def asked(self, job: RawJob) -> Asked:
        """What the urgent job asks."""
        if not has_choice(job.partitions, job.features):
            return self._ask(job)
        wish = _Wish(
            ask=lambda names, features: self._ask(replace(job, partitions=names, features=features)),
            takes=partial(self._takes, job),
            job_id=job.job_id,
            may_be_refused=self._may_be_refused(job),
        )
        over = self._over_limits_in(job)
        open_to_it = tuple(name for name in job.partitions if name not in over) or job.partitions
        admitting = tuple(
            name
            for name in open_to_it
            if self.admits(name, job.limit_s, 1) and self._takes_jobs_like(job, name)
        )
        found = self._in_one_way(wish, open_to_it, admitting, job.features)
        return replace(found, over_limits_in=over)

    def _over_limits_in(self, job: RawJob) -> frozenset[str]:
        """Those of a job's several partitions in which limits keep it from starting now."""
        if len(job.partitions) == 1:
            return frozenset()
        alone = (replace(job, partitions=(name,)) for name in job.partitions)
        return frozenset(one.partitions[0] for one in alone if self._over_limits(one, self._ask(one)))

    def submitted(
        self,
        ask: Callable[[tuple[str, ...], str], Asked],
        partitions: tuple[str, ...],
        features: str,
        limit_s: float | None,
    ) -> Asked:
        """What an urgent job would ask that is submitted to these partitions, for nodes of these features.

        Args:
            ask: what it asks in some of its partitions, with some of its features.
            partitions: the partitions.
            features: the features, as `--constraint` takes them.
            limit_s: the time limit of the job. None: that of the partition.
        """
        wish = _Wish(ask=ask, takes=lambda name, asked: self._takes_size(name, limit_s, asked.node_count))
        admitting = tuple(name for name in partitions if self.admits(name, limit_s, 1))
        return self._in_one_way(wish, partitions, admitting, features)

    def _in_one_way(
        self, wish: "_Wish", partitions: tuple[str, ...], admitting: tuple[str, ...], features: str
    ) -> Asked:
        """What an urgent job asks that is in several partitions, or wants nodes of one of several features.

        One node may be any of them. Several nodes have to be in one partition and of one feature: those of
        the job's hold, else those where most nodes could come free.

        `admitting`: the partitions without those that do not take such a job, whatever it asks there.
        """
        partitions = admitting or partitions
        together = wish.ask(partitions, features)
        if not (admitting and has_choice(partitions, features)):
            fits = any(wish.takes(name, together) for name in admitting)
            return replace(together, admitted=fits or not wish.may_be_refused)
        ways = [(name, alternative) for name in partitions for alternative in alternatives(features)]
        each = [wish.ask((name,), alternative) for name, alternative in ways]
        takes = [wish.takes(name, one) for (name, _), one in zip(ways, each, strict=True)]
        fewer = tuple(dict.fromkeys(name for (name, _), taken in zip(ways, takes, strict=True) if taken))
        if 0 < len(fewer) < len(partitions):
            return self._in_one_way(wish, fewer, fewer, features)
        sets = [self._names if one.eligible_nodes is None else one.eligible_nodes for one in each]
        if together.node_count == 1 and self._limited.isdisjoint(partitions):
            if any(one.demand is not None or one.node_count > 1 for one in (together, *each)):
                return together
            names = frozenset[str]().union(*sets)
            return replace(together, eligible_nodes=None if names == self._names else names)
        reach = self._reach()

        def rank(index: int) -> tuple[object, ...]:
            served = reach.rank(wish.job_id, sets[index], each[index].node_count)
            return *served, ways[index][0] not in self._limited

        fitting = [index for index, taken in enumerate(takes) if taken]
        best = max(fitting or range(len(each)), key=rank)
        return replace(each[best], admitted=bool(fitting) or not wish.may_be_refused)

    def _may_be_refused(self, job: RawJob) -> bool:
        """Whether a job may wait because no partition admits it. A QOS can override the limits of partitions;
        then Slurm names another reason. Of a job in one partition, the reason is enough.

        Once the job is bound to its hold, Slurm names no reason for some seconds. It had named another one
        before: otherwise there would be no hold.
        """
        if len(job.partitions) == 1 or not job.reason.startswith((*_NOT_NAMED, *OF_PARTITION)):
            return False
        reach = self._reach()
        hold = reach.own.get(job.job_id, frozenset()) & reach.held
        return not (hold and job.reason.startswith(_NOT_NAMED))

    def _takes_jobs_like(self, job: RawJob, partition: str) -> bool:
        """Whether a partition takes jobs of the account, the QOS and the user of a job."""
        found = self._partitions.get(partition)
        return found is None or found.admission.takes(account=job.account, qos=job.qos, user_id=job.user_id)

    def _takes(self, job: RawJob, partition: str, asked: Asked) -> bool:
        """Whether a partition takes the job if it asks that there."""
        found = self._partitions.get(partition)
        if found is None:
            return True
        most_mb = found.admission.memory_max_mb
        return self._takes_size(partition, job.limit_s, asked.node_count) and (
            most_mb is None or job.tres_memory_mb <= most_mb * asked.node_count
        )

    def _takes_size(self, partition: str, limit_s: float | None, node_count: int) -> bool:
        """Whether a partition takes a job of that time limit on so many nodes."""
        found = self._partitions.get(partition)
        return found is None or (
            found.admits(limit_s, node_count) and node_count >= found.admission.node_count_min
        )

    def admits(self, partition: str, limit_s: float | None, node_count: int) -> bool:
        """Whether a partition admits a job of that time limit and size."""
        found = self._partitions.get(partition)
        return found is None or found.admits(limit_s, node_count)


def has_choice(partitions: tuple[str, ...], features: str) -> bool:
    """Whether a job may run in several partitions, or on nodes of one of several features."""
    return len(partitions) > 1 or "[" in features


def uncounted(
    job: RawJob,
    asked: Asked,
    found: JobDetails | None,
    network: Network,
    *,
    takes_blocks: bool,
    by_extra: bool,
) -> str:
    """What makeway cannot count of an urgent job's request. Empty: it counts everything.

    Args:
        job: the job.
        asked: what it asks otherwise.
        found: what is known of it besides squeue's line.
        network: which nodes it may have together.
        takes_blocks: whether jobs of one of its partitions share no block of the topology with others.
        by_extra: whether `--extra` of a job says which nodes may serve it.
    """
    options = list(() if found is None else found.uncounted)
    if job.gres_per_socket:
        options.insert(0, "--gpus-per-socket")
    options += uncounted_names(job.required_nodes, job.features, asked)
    if network.segments_count(0 if found is None else found.segment_size, asked.node_count):
        options.append("--segment")
    if network.block_size is not None and (takes_blocks or (found is not None and found.takes_blocks)):
        options.append("--exclusive=topo")
    if by_extra and found is not None and found.names_extra:
        options.append("--extra")
    if found is not None and not found.may_have_more and _has_more_gpus_than_tasks(job, asked):
        options.append("--gpus on more nodes than tasks")
    return ", ".join([*options, *uncounted_parts(job.gres_per_node, asked.eligible_nodes)])


def _has_more_gpus_than_tasks(job: RawJob, asked: Asked) -> bool:
    """Whether the GPUs of a job need more nodes than it has tasks. 24.11 and 26.05 never start such a job, as
    tried; 24.11 does not show it of one without `--gpus-per-node`. Before it has looked for nodes, 26.05
    shows the same of a job that gets a task for each node.
    """
    few = job.task_count < asked.node_count and job.reason.startswith(_LOOKED_FOR_NODES)
    return few and any(one.name == "gpu" for one in job.gres_per_job)


def uncounted_names(required: tuple[str, ...], features: str, asked: Asked) -> list[str]:
    """The options that ask for some nodes by name or feature, and for others besides, if the others have not
    been chosen.
    """
    chosen = asked.eligible_nodes
    complete = chosen is not None and len(chosen) == asked.node_count and chosen.issuperset(required)
    given = {
        "--nodelist with fewer nodes than the job gets": 0 < len(required) < asked.node_count
        and not complete,
        "--constraint with numbers of nodes": "*" in features,
    }
    return [option for option, is_given in given.items() if is_given]


def uncounted_parts(wanted: tuple[Gres, ...], eligible: frozenset[str] | None) -> list[str]:
    """The shards that a request for several asks for, if no node can serve it."""
    parts = (one for one in wanted if one.name in GPU_PARTS and one.count > 1)
    return [f"{one.count} of gres/{one.name} for one job" for one in parts] if eligible == frozenset() else []
