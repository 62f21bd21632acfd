"""Which jobs need not leave any more, because the urgent job needs less than when it was decided on.

It may want fewer nodes, or less of each; or nodes have come free for it meanwhile: in its hold, or elsewhere,
so that they can be added to it. What was sent already stays.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from makeway.daemon.operation.changed.hold_end import MAKES_WAY
from makeway.daemon.operation.returns import method_of
from makeway.daemon.operation.tasks import (
    freed_set,
    may_be_dropped,
    requeue_themselves,
    signal_of,
)
from makeway.policies.common.departures import NodeRelease
from makeway.policies.common.holds import eligible_set, hold_releases, still_occupied_set
from makeway.policies.common.losses import cost_node_s
from makeway.policies.common.shared_nodes import held_on, room_at_last
from makeway.policies.model import (
    Cluster,
    Job,
    JobState,
    Method,
    NodeSets,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Resources,
    Task,
    changed,
)


def not_needed(operation: Operation, cluster: Cluster) -> frozenset[str]:
    """The jobs that need not leave for the waiting urgent job of an operation, by id.

    Those that lose most stay first, as long as the others leave enough nodes. While a held node is silent, it
    is not known which nodes are enough. A node that another operation holds too is left for that one.
    """
    return _staying(operation, cluster, 0)[0]


def nodes_that_spare(operation: Operation, cluster: Cluster, free: int) -> int:
    """How many of further nodes would let jobs stay that are to leave, if the hold had them too. 0: none
    would.

    `free`: nodes outside the hold on which the urgent job could start now, as a set of `node_sets`.
    """
    staying, gets = _staying(operation, cluster, free)
    if not staying:
        return 0
    job = cluster.jobs_by_id()[operation.for_job_id]
    return max(0, job.node_count - (gets & ~free).bit_count())


def _staying(operation: Operation, cluster: Cluster, more: int) -> tuple[frozenset[str], int]:
    """The jobs that need not leave, by id, and the nodes that the urgent job gets all the same. `more`: free
    nodes that it gets besides those of its hold.
    """
    job = cluster.jobs_by_id().get(operation.for_job_id)
    sets = cluster.node_sets()
    if operation.kind not in MAKES_WAY or job is None or job.state is not JobState.PENDING:
        return frozenset(), 0
    if sets.silent & sets.of(operation.nodes):
        return frozenset(), 0
    held = sets.of(operation.nodes) | more
    least = job.node_count if operation.kind is OperationKind.MAKE_WAY else 0  # else it may share nodes
    departures = sorted(
        _departures(operation, cluster, held, least),
        key=lambda one: (-one.cost_node_s, -one.freed.bit_count(), one.job.job_id),
    )
    if not departures:
        return frozenset(), 0
    room = _room(operation, job, cluster, more)
    staying = frozenset(
        one.job.job_id for one in departures if room.stays(one, cluster, at_least=job.node_count)
    )
    return staying, room.nodes


def held_by_others(operation: Operation, cluster: Cluster) -> int:
    """The nodes that other operations hold for jobs that wait, as a set of the cluster's `node_sets`."""
    return cluster.node_sets().union(
        other.nodes
        for other in cluster.operations
        if other.operation_id != operation.operation_id
        and other.phase is Phase.MAKING_ROOM
        and not other.observe
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Departure:
    """A job that was not yet made to leave."""

    job: Job
    freed: int
    """The nodes that it would leave, as a set of the cluster's `node_sets`."""
    cost_node_s: int
    """What is spent again if it leaves now."""


def _departures(operation: Operation, cluster: Cluster, held: int, least: int) -> Iterator[_Departure]:
    """The departures of an operation that can still be called off. If one is, at least so many of the held
    nodes are left for the urgent job.
    """
    jobs, sets = cluster.jobs_by_id(), cluster.node_sets()
    leaving = requeue_themselves(operation, cluster) | {
        task.action.job_id
        for task in operation.tasks
        if method_of(task.action) is not None and task.progress in (Progress.ISSUING, Progress.ACCEPTED)
    }
    others = held_by_others(operation, cluster)
    for task in operation.tasks:
        job, method = jobs.get(task.action.job_id), method_of(task.action)
        if job is None or method is None or not may_be_dropped(task) or job.job_id in leaving:
            continue
        freed = freed_set(task, job, sets)
        if (held & ~freed).bit_count() < least:
            continue
        # One that is completing leaves in any case.
        if job.nodes and job.state is not JobState.COMPLETING and not freed & others:
            way = _way_from_now_on(operation, task, method)
            yield _Departure(job=job, freed=freed, cost_node_s=cost_node_s(job, way, cluster.now_s))


def _way_from_now_on(operation: Operation, task: Task, method: Method) -> Method:
    """How a job would leave, by what is still to come. The time of a checkpoint that was requested is spent
    already; what the job has done since that checkpoint would be lost.
    """
    match method:
        case Method.KILL | Method.SHRINK | Method.APPLICATION:
            return method
        case Method.SYSTEM:
            signal = signal_of(operation, task)
            if signal is not None and signal.progress is Progress.PLANNED:
                return Method.SYSTEM
            saving = signal is not None and signal.progress in (Progress.ISSUING, Progress.ACCEPTED)
            return Method.APPLICATION if saving else Method.KILL
        case _:
            assert_never(method)


@dataclass(slots=True, kw_only=True)
class _Room:
    """What the urgent job gets of the held nodes if certain jobs leave."""

    nodes: int
    """The nodes that it gets, as a set of the cluster's `node_sets`."""
    demand: Resources | None
    """What it needs on each of them. None: whole nodes."""
    room: dict[str, Resources]
    """What is free then of each node that it may get. Empty: it needs whole nodes."""

    def stays(self, one: _Departure, cluster: Cluster, *, at_least: int) -> bool:
        """Whether enough nodes come free if a job stays; then it is counted as staying."""
        sets = cluster.node_sets()
        there = self._there(one, cluster, sets)
        left = self.nodes & ~self._lost(one, there, sets)
        if left.bit_count() < at_least:
            return False
        self.nodes = left
        self.room.update(there)
        return True

    def _there(self, one: _Departure, cluster: Cluster, sets: NodeSets) -> dict[str, Resources]:
        """What is free of those of its nodes if it stays. Empty: the urgent job needs whole nodes."""
        if self.demand is None:
            return {}
        return {
            name: self.room[name].minus(held)
            for name, held in held_on(one.job, cluster).items()
            if name in self.room and sets.has(one.freed, name)
        }

    def _lost(self, one: _Departure, there: dict[str, Resources], sets: NodeSets) -> int:
        """The nodes that the urgent job does not get if the job stays."""
        if self.demand is None:
            return one.freed
        return sets.of_new([name for name, room in there.items() if not room.covers(self.demand)])


def _room(operation: Operation, job: Job, cluster: Cluster, more: int) -> _Room:
    """What the urgent job gets if all jobs leave that are to leave, and of further free nodes."""
    others = tuple(one for one in cluster.operations if one.operation_id != operation.operation_id)
    releases: dict[str, NodeRelease] = hold_releases(changed(cluster, operations=others), (operation,))
    demand = job.demand if operation.kind is OperationKind.MAKE_WAY_SHARED else None
    sets = cluster.node_sets()
    held = (sets.of(operation.nodes) | more) & sets.up & eligible_set(job, cluster)
    if demand is None:
        return _Room(nodes=held & ~still_occupied_set(cluster, releases), demand=None, room={})
    room = room_at_last(cluster, releases, frozenset(sets.names(held)))
    fits = [name for name, left in room.items() if left.covers(demand)]
    return _Room(nodes=sets.of_new(fits), demand=demand, room=room)
