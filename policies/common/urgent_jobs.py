"""The urgent jobs that need nodes now, and the nodes that are unavailable to one of them. Pure functions.

An urgent job needs nodes if it waits without an operation, if the hold of its operation has lost nodes
(`shortfall`) or has fewer than the job wants by now, or if it was announced, has arrived, and what was held
for the notice has to become its own hold. One that would not start on free nodes either needs none
(`held_up`). The components of a heterogeneous job start together: what one of them lacks, all lack.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from makeway.policies.common.departures import LEAVE_S
from makeway.policies.common.holds import (
    guests,
    lost_for_good,
    shortfall_set,
    site_reservations,
    site_set,
)
from makeway.policies.model import (
    NO_RESOURCES,
    Cluster,
    Job,
    Method,
    NodeSet,
    Operation,
    OperationKind,
    Phase,
    Rationale,
    Reserve,
    memoise_last,
)

Urgency = tuple[bool, bool, float, float, str]
"""See `urgency`."""
_MOST_SOONER = 3
"""How many sooner starts are tried, so that one decision does not take long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """What a choice for all components of a heterogeneous job leaves to one of them."""

    avoided: frozenset[str]
    """The nodes that are chosen for the others, and those that would not serve it."""
    methods: Mapping[str, Method]
    """The jobs that may leave, by id: by a kill, or in the way that is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentJob:
    """An urgent job that needs nodes now. `operation` None: nothing is held for it yet."""

    job: Job
    operation: Operation | None = None
    kept_nodes: tuple[str, ...] = ()
    """Nodes that its operation holds and that the job can still get."""
    announced: bool = False
    """Whether the job has not arrived: then `job` is made from its notice, and its id is the notice's."""
    guests: tuple[Job, ...] = ()
    """Jobs that were started on the nodes of its operation until it would arrive."""
    guide: Guide | None = None
    """What a joint choice leaves to it. None: it is served for itself."""

    @property
    def missing(self) -> int:
        """How many nodes it needs in addition to the kept ones."""
        return self.job.node_count - len(self.kept_nodes)

    @property
    def most_missing(self) -> int:
        """How many nodes it could use in addition to the kept ones, up to its largest size."""
        return most_nodes(self.job) - len(self.kept_nodes)

    def deadline_s(self, start_within_s: float) -> float:
        """The latest start that is on time. `start_within_s`: for a job that declares no limit."""
        if self.operation is not None and self.operation.kind is not OperationKind.ARRIVAL:
            return self.operation.deadline_s
        within_s = self.job.start_within_s
        on_time_s = self.job.waits_since_s + (start_within_s if within_s is None else within_s)
        return on_time_s if self.job.start_by_s is None else min(on_time_s, self.job.start_by_s)


def urgent_jobs(cluster: Cluster) -> tuple[UrgentJob, ...]:
    """The urgent jobs that need nodes now, and nothing else, by (submission, job id)."""
    operations = cluster.operations_by_job()
    waits_for = held_up(cluster)
    urgents: list[UrgentJob] = []
    for job in cluster.waiting_urgent_jobs():
        if job.job_id in waits_for:
            continue
        operation = operations.get(job.job_id)
        if operation is None or (operation.observe and not operation.kind.holds_nodes):
            if job.eligible_s is None or job.eligible_s <= cluster.now_s:
                urgents.append(UrgentJob(job=job))
        elif operation.phase is Phase.MAKING_ROOM and not operation.observe:
            lost = shortfall_set(operation, cluster)
            grown = operation.kind.serves_urgent_job and len(operation.nodes) < job.node_count
            if lost or grown or operation.kind is OperationKind.ARRIVAL:
                urgents.append(
                    UrgentJob(
                        job=job,
                        operation=operation,
                        kept_nodes=_kept_nodes(job, operation, cluster, lost),
                        guests=guests(cluster).get(operation.reservation, ()),
                    )
                )
    whole = [
        urgent
        for urgent in urgents
        if urgent.operation is not None or not urgent.job.het_job_id or _is_whole(urgent, urgents, cluster)
    ]
    return tuple(sorted(whole, key=lambda urgent: (urgent.job.submit_s, urgent.job.job_id)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestStart:
    """The latest start that is planned for a job."""

    at_s: float
    ends_s: float
    """When the job ends in that case, jobs that are slow to leave allowed for. It may not have nodes that the
    site has reserved from before that on."""


def latest_starts(cluster: Cluster, job: Job, latest_s: float) -> tuple[LatestStart, ...]:
    """The start at `latest_s`, and sooner ones that give the job nodes which the site has reserved for later,
    the latest first. If there are sooner ones, the last is now, for which no job has time to leave.

    The components of a heterogeneous job have the first only: they start together.
    """
    now_s, eligible, ahead_s = cluster.now_s, job.eligible_nodes, LEAVE_S + job.walltime_s
    first = LatestStart(at_s=latest_s, ends_s=latest_s + ahead_s)
    begins_s = {
        one.start_s
        for one in site_reservations(cluster.reservations)
        if now_s + job.walltime_s <= one.start_s < first.ends_s
        and (eligible is None or not eligible.isdisjoint(one.nodes))
    }
    if not begins_s or job.het_job_id:
        return (first,)
    sooner = sorted((one for one in begins_s if now_s < one - ahead_s), reverse=True)[:_MOST_SOONER]
    return (
        first,
        *(LatestStart(at_s=begin_s - ahead_s, ends_s=begin_s) for begin_s in sooner),
        LatestStart(at_s=now_s, ends_s=now_s + job.walltime_s),
    )


def keeping_until(cluster: Cluster, urgent: UrgentJob, until_s: float) -> UrgentJob:
    """The urgent job with those of its kept nodes that the site does not need before `until_s`."""
    barred = site_set(cluster, until_s) if urgent.kept_nodes else 0
    if not barred:
        return urgent
    return replace(urgent, kept_nodes=cluster.node_sets().among(urgent.kept_nodes, ~barred))


def urgency(urgent: UrgentJob, start_within_s: float, *, vital: bool = False) -> Urgency:
    """Sorts the urgent jobs of one decision: those for which jobs are leaving already come first, then the
    vital ones, then the earliest deadline, then the first submission.

    If those came later for which jobs are leaving, what these jobs lose could be in vain. They may take room
    of one with an earlier deadline only if both cannot have some (`serve_each`).

    Args:
        urgent: the job.
        start_within_s: how long after a job became eligible its start is on time, if it declares no limit.
        vital: whether it comes before those that are not.
    """
    operation = urgent.operation
    leaving = operation is not None and any(not isinstance(one.action, Reserve) for one in operation.tasks)
    return not leaving, not vital, urgent.deadline_s(start_within_s), urgent.job.submit_s, urgent.job.job_id


def _is_whole(urgent: UrgentJob, urgents: list[UrgentJob], cluster: Cluster) -> bool:
    """Whether nothing is under way for any component that the job starts together with: their holds are
    decided on together.
    """
    new = {one.job.job_id for one in urgents if one.operation is None}
    return all(one.job_id in new for one in cluster.components(urgent.job))


def held_up(cluster: Cluster) -> Mapping[str, str]:
    """What the waiting urgent jobs lack that would not start on free nodes either, by job id.

    A job lacks what the cluster says. Of several jobs under one limit only as many count as the cluster will
    admit: those that nodes are held for first, then in the order of submission. The components of a
    heterogeneous job count together, and for nothing if one of them cannot start.
    """
    waiting = cluster.waiting_urgent_jobs()
    found = _held_up(waiting, cluster.operations)
    if found and any(job.het_job_id for job in waiting):
        return _with_components(waiting, found)
    return found


@memoise_last
def _with_components(waiting: tuple[Job, ...], lacks: Mapping[str, str]) -> Mapping[str, str]:
    """What the jobs lack, and for each component of a heterogeneous job what another one lacks."""
    found = dict(lacks)
    lacking = {
        job.het_job_id: job
        for job in sorted(waiting, key=lambda job: job.job_id, reverse=True)
        if job.het_job_id and job.job_id in lacks
    }
    for job in waiting:
        other = lacking.get(job.het_job_id)
        if other is not None and job.job_id not in found:
            found[job.job_id] = f"its component {other.job_id}, which waits for {lacks[other.job_id]}"
    return found


@memoise_last
def _held_up(waiting: tuple[Job, ...], operations: tuple[Operation, ...]) -> Mapping[str, str]:
    found = {job.job_id: job.blocked_by for job in waiting if job.blocked_by}
    limited = [job for job in waiting if job.quotas and not job.blocked_by]
    if not limited:
        return found
    served = {
        operation.for_job_id
        for operation in operations
        if operation.phase is Phase.MAKING_ROOM and operation.kind.serves_urgent_job
    }
    blocked = {job.het_job_id for job in waiting if job.het_job_id and job.blocked_by}
    limited.sort(key=lambda job: (job.job_id not in served, job.submit_s, *_in_array(job)))
    together: dict[str, list[Job]] = {}
    for job in limited:
        if job.het_job_id not in blocked:
            together.setdefault(job.het_job_id or job.job_id, []).append(job)
    promised: dict[str, float] = {}
    for jobs in together.values():
        needs, left = _drawn(jobs)
        full = next((name for name in needs if promised.get(name, 0.0) + needs[name] > left[name]), None)
        if full is None:
            promised.update({name: promised.get(name, 0.0) + needs[name] for name in needs})
            continue
        lacks = "other urgent jobs" if needs[full] <= left[full] else "a limit"
        who = "its components need" if jobs[0].het_job_id else "it needs"
        why = f"{lacks} ({full}: {who} {needs[full]:.12g} of {left[full]:.12g} left)"
        found.update({job.job_id: why for job in jobs})
    return found


def _in_array(job: Job) -> tuple[str, int, str]:
    """Sorts jobs by id, and the tasks of an array by number: of two, the longer id has the higher one."""
    return job.array_job_id or job.job_id, len(job.job_id) if job.array_job_id else 0, job.job_id


def blocked_rationales(cluster: Cluster, start_within_s: float) -> tuple[Rationale, ...]:
    """Why nothing is done for the urgent jobs that lack something besides nodes.

    `start_within_s`: how long after a job became eligible its start is on time, if it declares no limit.
    """
    waits_for = held_up(cluster)
    if not waits_for:
        return ()
    blocked = sorted(
        (job for job in cluster.jobs if job.job_id in waits_for), key=lambda job: (job.submit_s, job.job_id)
    )
    return tuple(
        Rationale(
            for_job_id=job.job_id,
            node_count=job.node_count,
            free_node_count=len(cluster.free_nodes(job.eligible_nodes, job.demand)),
            deadline_s=job.waits_since_s
            + (start_within_s if job.start_within_s is None else job.start_within_s),
            summary=f"It waits for {waits_for[job.job_id]}: no job is evicted for it.",
        )
        for job in blocked
    )


def _drawn(jobs: Iterable[Job]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """What jobs that start together take of each limit, and what running jobs leave of it."""
    needs: dict[str, float] = {}
    left: dict[str, float] = {}
    for job in jobs:
        for one in job.quotas:
            needs[one.name] = needs.get(one.name, 0.0) + one.needs
            left[one.name] = one.left
    return needs, left


def most_nodes(job: Job) -> int:
    """The largest size that a waiting job accepts."""
    return max(job.node_count, job.node_count_max or 0)


def _kept_nodes(job: Job, operation: Operation, cluster: Cluster, lost: int) -> tuple[str, ...]:
    """The nodes of an operation that its job can still get, no more than the job's largest size."""
    sets, eligible = cluster.node_sets(), job.eligible_nodes
    good = ~lost if eligible is None else sets.of(eligible) & ~lost
    return sets.among(operation.nodes, good)[: most_nodes(job)]


def could_start(cluster: Cluster, job: Job) -> bool:
    """Whether the job, with its other components, could start if all jobs left. If not, it would only keep
    nodes idle at the front.

    Nodes that are not up do not count, nor do those that the site has reserved now.
    """
    reserved = [
        one.nodes
        for one in site_reservations(cluster.reservations)
        if one.start_s <= cluster.now_s < one.end_s
    ]
    there = cluster.up_nodes().keys() - frozenset[str]().union(*reserved)
    return all(_could_start_on(there, one, cluster) for one in cluster.components(job))


def _could_start_on(there: AbstractSet[str], job: Job, cluster: Cluster) -> bool:
    if job.eligible_nodes is not None:
        there = there & job.eligible_nodes
    if job.demand is not None:
        capacities, demand = cluster.capacities(), job.demand
        there = {name for name in there if capacities.get(name, NO_RESOURCES).covers(demand)}
    return len(there) >= job.node_count


def unavailable_nodes(cluster: Cluster, urgent: UrgentJob, *, until_s: float) -> NodeSet:
    """Nodes that are held for other jobs now, or reserved by the site before `until_s`.

    Of a hold for an announced job only those nodes count that the announced job can get: the others are not
    held for it.
    """
    sets, taken = cluster.node_sets(), 0
    announced = _held_for_announced(cluster)
    for reservation in cluster.reservations:
        own = urgent.operation is not None and reservation.name == urgent.operation.reservation
        by_makeway, start_s = reservation.by_makeway, reservation.start_s
        begun = start_s <= cluster.now_s if by_makeway else start_s < until_s
        if not own and begun and cluster.now_s < reservation.end_s:
            held = announced.get(reservation.name)
            taken |= sets.of(reservation.nodes) if held is None else held
    for operation in cluster.operations:
        lent = operation.phase is Phase.LENT and not operation.observe and operation.kind.holds_while_running
        if (lent or operation.phase is Phase.MAKING_ROOM) and operation.for_job_id != urgent.job.job_id:
            held = announced.get(operation.reservation)
            taken |= sets.of(operation.nodes) if held is None else held
    return NodeSet(sets, taken)


def asleep_too_late(cluster: Cluster, job: Job, deadline_s: float, wakes_s: float = 0.0) -> int:
    """The nodes that sleep and may be awake only after the deadline of a waiting job, as a set of the
    cluster's `node_sets`. A job that is late in any case may wait for them.

    Of the nodes with jobs that are on their way to sleep (Slurm's POWER_DOWN), those count that take longer
    than `wakes_s`: they wake only once all of these jobs have left. A part of such a node never serves.
    """
    sets = cluster.node_sets()
    if not sets.asleep:
        return 0
    occupied = sets.sleeping_first & cluster.held_set()
    if cluster.now_s > deadline_s:
        return 0 if job.demand is None else occupied
    return sets.asleep_for(deadline_s - cluster.now_s) | (occupied & sets.asleep_for(wakes_s))


def wakes_after_s(cluster: Cluster, job: Job, deadline_s: float) -> tuple[float, ...]:
    """How long the nodes take to wake that a waiting job could have once others have left them, and that
    sleep first; each time once, the shortest first. None by which it would be late.

    The components of a heterogeneous job have none: they start together.
    """
    sets, eligible = cluster.node_sets(), job.eligible_nodes
    if not sets.sleeping_first or job.demand is not None or job.het_job_id:
        return ()
    occupied = sets.sleeping_first & cluster.held_set()
    times_s = sets.wake_times_s(occupied if eligible is None else occupied & sets.of(eligible))
    return tuple(wakes_s for wakes_s in times_s if cluster.now_s + wakes_s < deadline_s)


@memoise_last
def _held_for_announced(cluster: Cluster) -> Mapping[str, int]:
    """By reservation: held nodes that are idle, or used by jobs that leave when the announced job arrives."""
    sets = cluster.node_sets()
    return {
        operation.reservation: sets.of(operation.nodes) & ~lost_for_good(operation, cluster)
        for operation in cluster.operations
        if operation.kind is OperationKind.NOTICE and operation.phase is Phase.MAKING_ROOM
    }
