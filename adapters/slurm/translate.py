"""Which job is what, and where it may run: from Slurm's records and the site's classes to the model. Pure
functions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from types import MappingProxyType

from makeway.adapters.site.comment import (
    checkpoint_spec,
    comment_words,
    instant_in_run,
    notice_word,
    smallest_size,
)
from makeway.adapters.site.job_class import JobClass, first_class
from makeway.adapters.site.text import printable
from makeway.adapters.site.times import NOT_BEFORE_S, UNLIMITED_S
from makeway.adapters.slurm.build import FRONT_PRIORITY, queue_position_of
from makeway.adapters.slurm.features import satisfying
from makeway.adapters.slurm.parse import Gres, RawJob, RawNode, RawPartition, RawReservation
from makeway.policies.model import (
    Job,
    JobKind,
    JobState,
    Node,
    NodeState,
    Reservation,
)

_STATES = MappingProxyType(
    {
        "PENDING": JobState.PENDING,
        "REQUEUED": JobState.PENDING,
        "REQUEUE_FED": JobState.PENDING,
        "REQUEUE_HOLD": JobState.PENDING,
        "SPECIAL_EXIT": JobState.PENDING,
        "RESV_DEL_HOLD": JobState.PENDING,
        "RUNNING": JobState.RUNNING,
        "CONFIGURING": JobState.RUNNING,
        "RESIZING": JobState.RUNNING,
        "SIGNALING": JobState.RUNNING,
        "COMPLETING": JobState.COMPLETING,
        "STAGE_OUT": JobState.COMPLETING,
        "SUSPENDED": JobState.SUSPENDED,
        "STOPPED": JobState.SUSPENDED,
    }
)
_OVER = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "RECONFIG_FAIL",
        "REVOKED",
        "TIMEOUT",
    }
)
_TOUCHABLE = frozenset({"RUNNING", "PENDING"})
"""A job that is configuring, resizing or signalled is left alone: Slurm is at work on it."""
_STARTABLE = (
    "None",
    "Resources",
    "Priority",
    "BeginTime",
    "Reservation",
    "ReqNodeNotAvail",
    "Nodes required for job are DOWN",
    "Cleaning",
)
"""How the reasons begin with which a job waits for nodes, or for nothing. Any other is nothing that nodes
would help.
"""
_DOWN = frozenset(
    {"DOWN", "UNKNOWN", "FUTURE", "NOT_RESPONDING", "INVAL", "INVALID_REG", "POWERED_DOWN", "POWERING_DOWN"}
    | {"POWER_DOWN", "POWERING_UP", "POWER_UP", "REBOOT_ISSUED", "REBOOT_REQUESTED", "REBOOT", "ERROR"}
)
_DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINTENANCE", "MAINT", "BLOCKED"})
_OPEN_PARTITION = frozenset({"UP", "DRAIN"})
"""A partition that drains takes no new jobs and goes on with the ones that it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demand:
    """What a job asks of each node."""

    partitions: tuple[str, ...]
    features: str
    required: tuple[str, ...]
    required_are_all: bool
    """Whether the job asks for no node besides the required ones."""
    excluded: tuple[str, ...]
    cpu_count: int
    memory_mb: float
    gres: tuple[Gres, ...]


def node(raw: RawNode) -> Node:
    """A node as the model has it."""
    if raw.states & _DOWN:
        return Node(name=raw.name, state=NodeState.DOWN)
    return Node(name=raw.name, state=NodeState.DRAINED if raw.states & _DRAINED else NodeState.UP)


def reservation(raw: RawReservation) -> Reservation:
    """A reservation as the model has it."""
    return Reservation(name=raw.name, nodes=raw.nodes, start_s=raw.start_s, end_s=raw.end_s)


def job_class(raw: RawJob, classes: tuple[JobClass, ...]) -> JobClass | None:
    """The first class whose conditions the job fulfils. None: no class."""
    return first_class(
        classes,
        partitions=raw.partitions,
        qos=raw.qos,
        account=raw.account,
        user=raw.user,
        features=raw.features,
        words=frozenset(comment_words(raw.comment)),
    )


def over(raw: RawJob) -> bool:
    """Whether the job has ended: it is in no snapshot."""
    return raw.state in _OVER


def state(raw: RawJob) -> JobState:
    """The job's state. An unknown one is one that may not be acted upon."""
    return _STATES.get(raw.state, JobState.SUSPENDED if raw.nodes else JobState.PENDING)


class Translator:
    """Turns the jobs of one snapshot into the model's.

    Args:
        classes: the site's classes.
        nodes: the nodes of the snapshot.
        partitions: its partitions.
        now_s: its instant.
        exclusive_shrink: whether this Slurm can take nodes from an exclusive job. If not, such a job is not
            malleable.
    """

    def __init__(
        self,
        classes: tuple[JobClass, ...],
        nodes: tuple[RawNode, ...],
        partitions: tuple[RawPartition, ...],
        now_s: float,
        *,
        exclusive_shrink: bool,
    ) -> None:
        self._classes = classes
        self._exclusive_shrink = exclusive_shrink
        self._nodes = nodes
        self._open = {partition.name for partition in partitions if partition.state in _OPEN_PARTITION}
        self._now_s = now_s
        self._least_cpus = {
            name: min(one.cpu_count for one in nodes if name in one.partitions)
            for name in frozenset[str]().union(*(one.partitions for one in nodes))
        }
        # Most jobs of a queue ask for the same: the answer is worked out once.
        self._eligible: Callable[[_Demand], frozenset[str] | None] = lru_cache(maxsize=None)(self._serving)

    def job(self, raw: RawJob, *, asked_node_count: int | None = None) -> Job:
        """One job. `asked_node_count` is the size before makeway shrank it; None: it did not."""
        found = None if raw.heterogeneous else job_class(raw, self._classes)
        kind = found.kind if found else JobKind.RIGID
        if kind is JobKind.MALLEABLE and raw.exclusive and not self._exclusive_shrink:
            kind = JobKind.RIGID
        words = comment_words(raw.comment)
        present = state(raw)
        started_s = raw.start_s if present is not JobState.PENDING else None
        size = len(raw.nodes) or raw.node_count
        if present is JobState.PENDING and raw.restarts:
            size = max(size, raw.requested_node_count)
        size_max = max(size, asked_node_count or 0) if kind is JobKind.MALLEABLE else None
        if kind is JobKind.ON_DEMAND and present is JobState.PENDING:
            size_max, size = size, self._least_size(raw, size)
        return Job(
            job_id=raw.job_id,
            kind=kind,
            state=present,
            node_count=size,
            walltime_s=UNLIMITED_S if raw.limit_s is None else raw.limit_s,
            submit_s=raw.submit_s,
            user=printable(raw.user),
            account=printable(raw.account),
            qos=printable(raw.qos),
            partition=printable(",".join(raw.partitions)),
            node_count_min=smallest_size(found, words, size) if found and kind is JobKind.MALLEABLE else None,
            node_count_max=size_max,
            nodes=raw.nodes,
            eligible_nodes=self._eligible(_demand(raw, size if present is JobState.PENDING else None)),
            start_s=started_s,
            eligible_s=self._eligible_s(raw) if present is JobState.PENDING else None,
            setup_s=found.setup_s if found else 0.0,
            checkpoint=checkpoint_spec(found, words),
            last_checkpoint_s=instant_in_run(words.get("ckpt"), started_s, self._now_s),
            checkpointing_since_s=instant_in_run(words.get("ckpt-begin"), started_s, self._now_s),
            requeue_count=raw.restarts,
            preemptible=_preemptible(raw, found),
            reservation=raw.reservation,
            start_within_s=found.start_within_s if found and kind is JobKind.ON_DEMAND else None,
            prioritised=raw.priority >= FRONT_PRIORITY or queue_position_of(raw.priority) is not None,
            queue_position=queue_position_of(raw.priority),
            notice_id=notice_word(raw.comment) if kind is JobKind.ON_DEMAND else None,
            priority=raw.priority,
        )

    def _least_size(self, raw: RawJob, size: int) -> int:
        """The least number of nodes that a waiting job asks for.

        For a range such as 2-4 Slurm shows the size that it would give the job now, mostly the largest. The
        least one is in the requested resources. It is 1 for a job that asks for CPUs alone: such a job needs
        as many nodes as hold its CPUs.
        """
        told = raw.requested_node_count or size
        least_cpus = min((self._least_cpus.get(name, 1) for name in raw.partitions), default=1)
        return min(size, max(told, ceil(raw.cpu_count / max(1, least_cpus))))

    def _eligible_s(self, raw: RawJob) -> float | None:
        reason = raw.reason.replace("_", " ")
        # With several partitions the reason is the one of the last that Slurm tried.
        elsewhere = len(raw.partitions) > 1 and reason.startswith("Partition")
        if raw.priority == 0 or not (elsewhere or reason.startswith(_STARTABLE)):
            return NOT_BEFORE_S
        if raw.eligible_s is None or raw.eligible_s <= self._now_s:
            return None
        return raw.eligible_s

    def _serving(self, demand: _Demand) -> frozenset[str] | None:
        # A job runs in one of its partitions alone: the one with most nodes for it, of equal ones the first.
        names = max((self._serving_in(name, demand) for name in demand.partitions), key=len)
        return None if len(names) == len(self._nodes) else names

    def _serving_in(self, partition: str, demand: _Demand) -> frozenset[str]:
        if partition not in self._open:
            return frozenset()
        fitting = (one for one in self._nodes if partition in one.partitions and _fits(one, demand))
        names = satisfying(demand.features, {one.name: one.features for one in fitting})
        if not demand.required:
            return names
        # A set of nodes cannot say "these, and some others": then no nodes are the right ones.
        serves = demand.required_are_all and names.issuperset(demand.required)
        return frozenset(demand.required) if serves else frozenset()


def _fits(one: RawNode, demand: _Demand) -> bool:
    return (
        one.cpu_count >= demand.cpu_count
        and one.memory_mb >= demand.memory_mb
        and one.name not in demand.excluded
        and all(_has(one.gres, wanted) for wanted in demand.gres)
    )


def _demand(raw: RawJob, least_size: int | None) -> _Demand:
    """What a job asks of each node. `least_size`: the least number of nodes; None: as many as it has."""
    size = max(raw.node_count if least_size is None else least_size, 1)
    memory_mb = max(raw.memory_mb, raw.tres_memory_mb / size) if raw.memory_mb else 0.0
    return _Demand(
        partitions=raw.partitions,
        features=raw.features,
        required=raw.required_nodes,
        required_are_all=len(raw.required_nodes) >= size,
        excluded=raw.excluded_nodes or (),
        cpu_count=max(raw.cpus_per_task, ceil(raw.cpu_count / size)),
        memory_mb=memory_mb,
        gres=(*raw.gres_per_node, *(replace(one, count=ceil(one.count / size)) for one in raw.gres_per_job)),
    )


def _has(gres: tuple[Gres, ...], wanted: Gres) -> bool:
    having = (one.count for one in gres if one.name == wanted.name and wanted.type in {"", one.type})
    return sum(having) >= wanted.count


def _preemptible(raw: RawJob, found: JobClass | None) -> bool:
    """Whether the job may be touched: it is opted in, and Slurm would requeue it if it were asked to."""
    return (
        found is not None
        and found.preemptible
        and found.kind is not JobKind.ON_DEMAND
        and raw.state in _TOUCHABLE
        and raw.batch
        and raw.requeueable
    )
