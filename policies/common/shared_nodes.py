"""The room on shared nodes for a demand: what is free, or comes free when jobs leave. Pure functions.

A job with whole nodes holds all that its nodes have. Nodes that the cluster gives only as a whole never have
room for a demand.

The hold of an urgent job that needs a part of its nodes ends when the job runs. What it leaves of them
(`Leftover`) then serves other jobs.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Protocol

from makeway.policies.common.departures import (
    NodeRelease,
    completing,
    node_release_of,
    pending_checkpoints,
)
from makeway.policies.model import (
    NO_RESOURCES,
    Cluster,
    Job,
    JobState,
    Node,
    Operation,
    OperationKind,
    Phase,
    Resources,
    Task,
    memoise_last,
)

Holder = tuple[Job, tuple[str, ...]]
"""A job and those of its nodes that would serve the urgent job."""


def apart(holders: Sequence[Holder], stay: AbstractSet[str]) -> tuple[list[Holder], list[Holder]]:
    """The holders whose nodes could come free, with these nodes alone, and the others: the jobs that stay,
    and those that are on nodes of these alone. `stay`: the jobs that may not be evicted, by id.
    """
    kept = frozenset(name for job, nodes in holders if job.job_id in stay for name in nodes)
    able: list[Holder] = []
    others: list[Holder] = []
    for job, nodes in holders:
        free = tuple(name for name in nodes if name not in kept)
        (able if free else others).append((job, free or nodes))
    return able, others


def connected(holders: Sequence[Holder]) -> list[list[Holder]]:
    """The holders in groups that are connected by shared nodes, each group in the order of job ids."""
    nodes_of_all = [nodes for _, nodes in holders]
    if len(frozenset[str]().union(*nodes_of_all)) == sum(map(len, nodes_of_all)):
        return [[holder] for holder in holders]
    group_of_node: dict[str, int] = {}
    groups: list[list[Holder]] = []
    for holder in holders:
        touched = sorted({group_of_node[name] for name in holder[1] if name in group_of_node})
        merged = [member for index in touched for member in groups[index]]
        for index in touched:
            groups[index] = []
        merged.append(holder)
        for _, nodes in merged if touched else [holder]:
            group_of_node.update(dict.fromkeys(nodes, len(groups)))
        groups.append(merged)
    return [sorted(group, key=lambda holder: holder[0].job_id) for group in groups if group]


@memoise_last
def sorted_holders(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """The jobs that hold nodes, sorted by id."""
    return tuple(sorted((job for job in jobs if job.nodes), key=lambda job: job.job_id))


def held_on(job: Job, cluster: Cluster) -> dict[str, Resources]:
    """What a job holds on each of its nodes."""
    if job.allocation is None:
        capacities = cluster.capacities()
        return {name: capacities.get(name, NO_RESOURCES) for name in job.nodes}
    return dict(zip(job.nodes, job.allocation, strict=True))


def room_when_left(
    cluster: Cluster, releases: Mapping[str, NodeRelease], among: AbstractSet[str] | None = None
) -> dict[str, Resources]:
    """What is free of every node, up or not, once the leaving jobs are gone.

    A node that is only given as a whole has no room.

    Args:
        cluster: the snapshot.
        releases: the jobs that are leaving, by job id.
        among: nodes that are asked about. None: all.
    """
    unused, jobs = cluster.unused(), cluster.jobs_by_id()
    if among is None:
        room = dict(_no_room(cluster.nodes))
        room.update(unused)
    else:
        room = {name: unused.get(name, NO_RESOURCES) for name in among}
    for job_id, release in releases.items():
        job = jobs.get(job_id)
        if job is None or not job.nodes or (among is not None and among.isdisjoint(job.nodes)):
            continue
        for name, held in held_on(job, cluster).items():
            if name not in release.kept_nodes and (among is None or name in among):
                room[name] = room.get(name, NO_RESOURCES).plus(held)
    return room


@memoise_last
def _no_room(nodes: tuple[Node, ...]) -> Mapping[str, Resources]:
    return dict.fromkeys((node.name for node in nodes), NO_RESOURCES)


def free_set_for(cluster: Cluster, demand: Resources) -> int:
    """The nodes of `Cluster.free_nodes` for a demand, as a set of the cluster's `node_sets`: found once."""
    known = _free_sets(cluster)
    if demand not in known:
        known[demand] = cluster.node_sets().of_new(cluster.free_nodes(None, demand))
    return known[demand]


@memoise_last
def _free_sets(_: Cluster) -> dict[Resources, int]:
    """What `free_set_for` has found on a snapshot."""
    return {}


class HasRoom(Protocol):
    """Nodes that could serve, such as those of `SharedCandidates`."""

    @property
    def room(self) -> Mapping[str, Resources]:
        """The nodes, and what is free of each."""
        ...


def take_until_room(
    ranked: Iterable[Job], candidates: HasRoom, cluster: Cluster, demand: Resources, node_count: int
) -> tuple[list[Job], list[str]]:
    """The first jobs of a ranking whose leaving makes room on enough nodes, and these nodes; too few nodes if
    all of them do not.

    A job that turns out not to be needed stays, the last of the ranking first.

    Args:
        ranked: the jobs, the first choice first.
        candidates: the nodes that could serve.
        cluster: the snapshot.
        demand: what is needed on each node.
        node_count: on how many nodes.
    """
    room = dict(candidates.room)
    nodes = [name for name, left in room.items() if left.covers(demand)][:node_count]
    chosen: list[Job] = []
    for job in ranked:
        if len(nodes) >= node_count:
            break
        chosen.append(job)
        for name, held in held_on(job, cluster).items():
            if name in room:
                before = room[name].covers(demand)
                room[name] = room[name].plus(held)
                if not before and room[name].covers(demand) and len(nodes) < node_count:
                    nodes.append(name)
    if len(nodes) < node_count:
        return chosen, nodes
    for job in reversed(tuple(chosen)):
        without = {
            name: room[name].minus(held) for name, held in held_on(job, cluster).items() if name in nodes
        }
        if all(left.covers(demand) for left in without.values()):
            room.update(without)
            chosen.remove(job)
    return chosen, nodes


def with_room(
    cluster: Cluster,
    releases: Mapping[str, NodeRelease],
    demand: Resources,
    among: AbstractSet[str] | None = None,
) -> frozenset[str]:
    """The nodes that are up and have room for the demand once leaving and completing jobs are gone, except
    those that are stuck. `among`: only these are looked at. None: all.
    """
    room, up = room_at_last(cluster, releases, among), cluster.up_nodes()
    looked_at = up if among is None else among
    return frozenset(name for name in looked_at if name in up and room[name].covers(demand))


def room_at_last(
    cluster: Cluster, releases: Mapping[str, NodeRelease], among: AbstractSet[str] | None = None
) -> dict[str, Resources]:
    """The same as `room_when_left`, once the completing jobs are gone too, except those that are stuck."""
    return room_when_left(cluster, {**completing(cluster), **releases}, among)


def room_times_s(
    cluster: Cluster, leaving: Iterable[tuple[Job, NodeRelease]], demand: Resources
) -> dict[str, float]:
    """The nodes that have too little room for the demand now, and enough once these jobs have left.

    Each node comes with the instant by which enough of the jobs have left it.
    """
    unused = cluster.unused()
    room: dict[str, Resources] = {}
    ready_s: dict[str, float] = {}
    for job, release in sorted(leaving, key=lambda one: one[1].by_s):
        for name, held in held_on(job, cluster).items():
            if name in release.kept_nodes or name in ready_s:
                continue
            before = room.get(name, unused.get(name, NO_RESOURCES))
            room[name] = before.plus(held)
            if room[name].covers(demand) and not before.covers(demand):
                ready_s[name] = release.by_s
    return ready_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What an urgent job leaves of one of the nodes held for it, once it runs and its hold has ended."""

    for_job_id: str
    room: Resources
    ready_s: float
    """When the jobs have left that leave the nodes for the urgent job, by the plan. The kill of a job may
    take some time more."""
    is_free: bool
    """Whether no job has to leave the nodes any more: the urgent job can start, or it runs already."""

    def awaited_until_s(self, now_s: float, deadline_s: float, handover_s: float) -> float | None:
        """Until when another urgent job may wait for this room. None: not, or no longer.

        It is on time if it can run `handover_s` after `ready_s`. At the last moment at which jobs can be made
        to leave for that job itself, it waits only for room that is free already.

        Args:
            now_s: the present.
            deadline_s: the latest start of that job that is on time.
            handover_s: how long it takes from `ready_s` until that job can run.
        """
        by_s = self.ready_s + handover_s
        until_s = min(by_s, deadline_s if self.is_free else deadline_s - handover_s)
        in_time = by_s <= deadline_s or self.is_free
        return until_s if in_time and now_s < until_s else None


def leftovers_of(
    cluster: Cluster, nodes: Iterable[str], job: Job, releases: Mapping[str, NodeRelease], ready_s: float
) -> dict[str, Leftover]:
    """What a job leaves of the nodes that are or will be held for it, by node. A node on which it finds too
    little room is absent, and so is one of which it is not known which GPU it gets.

    Args:
        cluster: the snapshot.
        nodes: those of its hold.
        job: the urgent job. If it runs, what it holds is taken already.
        releases: the jobs that are leaving, by id.
        ready_s: when the last of them has left.
    """
    demand = job.demand if job.state is JobState.PENDING and job.demand is not None else NO_RESOURCES
    up, room = cluster.up_nodes(), cluster.unused()
    held = [name for name in nodes if name in up]
    is_free = all(room.get(name, NO_RESOURCES).covers(demand) for name in held)
    if not is_free:
        room = room_at_last(cluster, releases, frozenset(held))
    rest = {name: _without(room.get(name, NO_RESOURCES), demand) for name in held}
    return {
        name: Leftover(for_job_id=job.job_id, room=left, ready_s=ready_s, is_free=is_free)
        for name, left in rest.items()
        if left is not None
    }


def _without(room: Resources, demand: Resources) -> Resources | None:
    """What is left for certain of the room if a job gets its demand. None: it has too little, or it is not
    known of which GPU the job gets parts.
    """
    if not room.covers(demand):
        return None
    if any("#" in name for name, _ in room.amounts):
        return room if not demand else None
    return room.minus(Resources.of({name: _most_of(name, demand) for name, _ in room.amounts}))


def _most_of(name: str, demand: Resources) -> int:
    """How much of a resource of a node the demand takes at most: GPUs of any type may be of this one."""
    generic, colon, _ = name.partition(":")
    if not colon:
        return demand.amount(name)
    typed = sum(amount for one, amount in demand.amounts if one.startswith(f"{generic}:"))
    return demand.amount(name) + max(0, demand.amount(generic) - typed)


def less_room(leftover: Leftover, demand: Resources) -> Leftover | None:
    """The leftover without what another job gets of it. None: that job does not fit."""
    room = _without(leftover.room, demand)
    return None if room is None else replace(leftover, room=room)


def room_comes(nodes: Iterable[str], for_job_ids: Iterable[str]) -> str:
    """On which nodes room comes, and after the start of which jobs, in words."""
    jobs = sorted(for_job_ids)
    started = f"job {jobs[0]} has" if len(jobs) == 1 else f"jobs {', '.join(jobs)} have"
    return f"Room comes on {', '.join(nodes)} when {started} started; no job has to leave."


@memoise_last
def open_leftovers(cluster: Cluster) -> Mapping[str, Leftover]:
    """What the urgent jobs leave for which open operations hold shared nodes, by node.

    A job whose victims are not chosen yet leaves nothing. One that runs leaves the rest of its nodes as soon
    as its hold ends. Of an operation that is only observed, all counts as done.
    """
    jobs, found = cluster.jobs_by_id(), dict[str, Leftover]()
    held = {reservation.name for reservation in cluster.reservations}
    for operation in cluster.operations:
        job = jobs.get(operation.for_job_id)
        if operation.kind is not OperationKind.MAKE_WAY_SHARED or job is None or job.het_job_id:
            continue
        waits = job.state is JobState.PENDING
        makes_room = waits and operation.phase is Phase.MAKING_ROOM
        ends = not waits and operation.phase is Phase.RETURNING and operation.reservation in held
        if makes_room or ends:
            leaving = _leaving_for(operation, cluster)
            ready_s = cluster.now_s if operation.observe else _ready_s(operation, cluster)
            left = leftovers_of(cluster, operation.nodes, job, leaving, ready_s)
            if operation.observe:
                left = {name: replace(one, is_free=True) for name, one in left.items()}
            found.update(left)
    return found


def _leaving_for(operation: Operation, cluster: Cluster) -> dict[str, NodeRelease]:
    """The jobs that an operation makes leave whole nodes, or would if it were not only observed."""
    released = (
        (task.action.job_id, node_release_of(task.action, cluster.now_s))
        for task in operation.tasks
        if task.ended_s is None
    )
    return {job_id: release for job_id, release in released if release is not None}


def _ready_s(operation: Operation, cluster: Cluster) -> float:
    """When there is room for the job of an operation, by the plan; of one that gives back, since when."""
    if operation.phase is Phase.RETURNING:
        return cluster.now_s if operation.ended_s is None else operation.ended_s
    return max((_done_s(task, operation, cluster) for task in operation.tasks), default=operation.opened_s)


def _done_s(task: Task, operation: Operation, cluster: Cluster) -> float:
    """When a task is done, by the plan."""
    if task.ended_s is not None:
        return task.ended_s
    pending = pending_checkpoints(cluster).get(task.action.job_id)
    if pending is not None:
        return pending.complete_s
    return operation.opened_s if task.planned_s is None else task.planned_s
