"""Who asks for room, and who may be asked to make it: the part that all arrival policies share.

An urgent job is served when it waits without an operation, when its operation has lost nodes (`shortfall`), or when
it was announced and what was held for it until now is to become its own.
What may leave is a bundle: one running job, or several that share nodes which would serve, because a node counts as
freed only when every job on it is gone.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters" (DS-RT 2020),
    section III-B: the loss of a job that is killed, and the durations ts and ta of its checkpoints.

Differs from the paper:
    Jobs that share nodes are one item. A regular checkpoint that is overdue is expected at the next multiple of its
    period. Losses are whole node-seconds, not node-hours.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import filterfalse

from makeway.policies.common.guests import guests
from makeway.policies.common.notices import awaited, unbound
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Expand,
    Job,
    JobKind,
    JobState,
    Operation,
    Phase,
    Progress,
    Requeue,
    Shrink,
    Task,
    memoise_last,
    names,
)
from makeway.policies.safety.arbiter import protection

LEAVING = frozenset({Progress.PLANNED, Progress.ISSUING, Progress.ACCEPTED})
"""How far the task is of a victim that still has to leave its nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrgentJob:
    """An urgent job that needs nodes now. `operation` None: nothing is held for it yet."""

    job: Job
    operation: Operation | None = None
    kept: tuple[str, ...] = ()
    """Nodes that its operation holds and that are still good."""
    announced: bool = False
    """Whether the job has not arrived: `job` is what its notice says of it, under the notice's id."""
    guests: tuple[Job, ...] = ()
    """The jobs that were let on the nodes of its operation until it would come."""

    @property
    def missing(self) -> int:
        """How many nodes are needed beyond those that are kept."""
        return self.job.node_count - len(self.kept)

    @property
    def welcome(self) -> int:
        """How many nodes beyond those that are kept it would take if they cost nobody anything."""
        return most_nodes(self.job) - len(self.kept)

    def deadline_s(self, start_within_s: float) -> float:
        """The start is on time until then. `start_within_s` holds for jobs that do not say it themselves."""
        if self.operation is not None and not unbound(self.operation):
            return self.operation.deadline_s
        within_s = self.job.start_within_s
        return self.job.submit_s + (start_within_s if within_s is None else within_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimGroup:
    """Running jobs that can only leave together, sorted by id, and what their leaving would cost and bring."""

    jobs: tuple[Job, ...]
    nodes: tuple[str, ...]
    """The nodes that would serve the urgent job, in the order in which the jobs hold them."""
    loss_node_s: int
    """Node-seconds of work that a kill loses."""
    system_s: float | None
    """How long checkpoints that a signal starts take, one after another. None: some job has none."""
    application_s: float | None
    """How long until the next regular checkpoint is complete. None: there is none, or there are several jobs."""
    protected_by: str = ""
    """Why the bundle may not be asked to leave. Empty: it may."""

    @property
    def job_ids(self) -> tuple[str, ...]:
        """The ids of the jobs, sorted."""
        return tuple(job.job_id for job in self.jobs)


def urgent_jobs(cluster: Cluster) -> tuple[UrgentJob, ...]:
    """The urgent jobs that need nodes now, by (submission, job id)."""
    operations = {
        operation.for_job_id: operation
        for operation in cluster.operations
        if operation.phase is not Phase.CLOSED
    }
    urgents = []
    for job in cluster.jobs:
        if job.kind is not JobKind.ON_DEMAND or job.state is not JobState.PENDING:
            continue
        operation = operations.get(job.job_id)
        if operation is None or is_only_watched(operation):
            if job.eligible_s is None or job.eligible_s <= cluster.now_s:
                urgents.append(UrgentJob(job=job))
        elif operation.phase is Phase.MAKING_ROOM and not operation.observe:
            lost = frozenset(shortfall(operation, cluster))
            if lost or unbound(operation):
                urgents.append(
                    UrgentJob(
                        job=job,
                        operation=operation,
                        kept=_kept(job, operation, lost),
                        guests=guests(cluster).get(operation.reservation, ()),
                    )
                )
    return tuple(sorted(urgents, key=lambda urgent: (urgent.job.submit_s, urgent.job.job_id)))


def is_only_watched(operation: Operation) -> bool:
    """Whether it is one of observe mode by which its urgent job gets nothing: it may yet be served."""
    return operation.observe and not operation.reservation


def most_nodes(job: Job) -> int:
    """The largest size that a waiting job would take."""
    return max(job.node_count, job.node_count_max or 0)


def _kept(job: Job, operation: Operation, lost: AbstractSet[str]) -> tuple[str, ...]:
    """The nodes of an operation that are good for its job, as many as it wants at the most."""
    eligible = job.eligible_nodes
    good = (name for name in operation.nodes if name not in lost and (eligible is None or name in eligible))
    return tuple(good)[: most_nodes(job)]


def shortfall(operation: Operation, cluster: Cluster) -> tuple[str, ...]:
    """The nodes of an operation that makes room which will not come free by themselves, in its own order.

    A node is lost if it is not up, or if a job is on it that is neither the urgent job nor about to leave it, for this
    operation or for another. A job that is completing leaves by itself, whoever it is.
    """
    borrower = cluster.jobs_by_id().get(operation.for_job_id)
    if (borrower is None or not borrower.nodes) and any(one is operation for one in cluster.operations):
        good = _releasing_or_free(cluster)
    else:
        leaves = departures(cluster, (operation,))
        occupied = _occupied([job for job in cluster.jobs if job is not borrower], leaves)
        good = frozenset(cluster.up_nodes().keys() - occupied)
    return tuple(filterfalse(good.__contains__, operation.nodes))


def lost_for_good(operation: Operation, cluster: Cluster) -> tuple[str, ...]:
    """As `shortfall`, for an announced job that has not arrived: whoever was let on its nodes until then is gone then."""
    missing = shortfall(operation, cluster)
    guests_of = guests(cluster).get(operation.reservation, ()) if missing else ()
    if not guests_of:
        return missing
    theirs = frozenset(names(job.nodes for job in guests_of)) - cluster.shared_nodes()
    up = cluster.up_nodes()
    return tuple(name for name in missing if name not in theirs or name not in up)


@memoise_last
def _releasing_or_free(cluster: Cluster) -> frozenset[str]:
    """The nodes that are up, and on which nobody is whom no open operation makes leave."""
    return frozenset(cluster.up_nodes().keys() - _occupied(cluster.jobs, departures(cluster)))


def _occupied(jobs: Iterable[Job], leaves: Mapping[str, "Leave"]) -> frozenset[str]:
    """The nodes that these jobs go on holding."""
    stay = []
    for job in jobs:
        if job.nodes and job.state is not JobState.COMPLETING:
            leave = leaves.get(job.job_id)
            stay.append(job.nodes if leave is None else leave.keeps)
    return frozenset().union(*stay)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """When a job is to be gone at the latest, and the nodes that it keeps all the same (a shrink)."""

    by_s: float
    keeps: frozenset[str] = frozenset()


def departures(cluster: Cluster, operations: tuple[Operation, ...] = ()) -> dict[str, Leave]:
    """The jobs that open operations still make leave, by job id. `operations`: some that `cluster` may not have."""
    found: dict[str, Leave] = {}
    for operation in (*cluster.operations, *operations):
        if operation.observe or operation.phase is Phase.CLOSED:
            continue
        for task in operation.tasks:
            leave = leave_of(task.action, cluster.now_s)
            if leave is not None and task.progress in LEAVING and not _called_off(operation, task):
                found[task.action.job_id] = leave
    return found


def leave_of(action: Action, now_s: float) -> Leave | None:
    """How the action makes its job leave. None: it does not."""
    match action:
        case Requeue() | Cancel():
            return Leave(by_s=max(now_s, action.not_after_s))
        case Shrink():
            return Leave(by_s=now_s, keeps=frozenset(action.keep_nodes))
        case _:
            return None


def releasing_nodes(cluster: Cluster, leaves: Mapping[str, Leave]) -> dict[str, float]:
    """The nodes that are free once these jobs have left, each with the instant by which the last one is gone."""
    if not leaves:
        return {}
    if not cluster.shared_nodes():
        gone = [(job, leaves[job.job_id]) for job in cluster.jobs if job.job_id in leaves]
        return {name: leave.by_s for job, leave in gone for name in job.nodes if name not in leave.keeps}
    held = Counter(names(job.nodes for job in cluster.jobs))
    left: Counter[str] = Counter()
    ready_s: dict[str, float] = {}
    for job in cluster.jobs:
        leave = leaves.get(job.job_id)
        for name in job.nodes if leave is not None else ():
            if leave is not None and name not in leave.keeps:
                left[name] += 1
                ready_s[name] = max(leave.by_s, ready_s.get(name, leave.by_s))
    return {name: at_s for name, at_s in ready_s.items() if left[name] == held[name]}


def committed(cluster: Cluster) -> frozenset[str]:
    """The jobs that an open operation still wants something of: to leave, although they refused, or to grow back.

    A lender that has left, or has shrunk, may be asked again, like everybody else.
    """
    found = set()
    for operation in cluster.operations:
        if operation.phase is Phase.CLOSED:
            continue
        for task in operation.tasks:
            open_yet = task.progress in LEAVING
            match task.action:
                case Checkpoint() | Requeue() | Cancel() | Shrink():
                    wanted = task.progress is Progress.REFUSED or (
                        open_yet and not _called_off(operation, task)
                    )
                case _:
                    wanted = open_yet and isinstance(task.action, Expand)
            if wanted:
                found.add(task.action.job_id)
    return frozenset(found)


def _called_off(operation: Operation, task: Task) -> bool:
    """Whether an eviction will not be issued any more: an operation that gives back asks nobody to leave."""
    return operation.phase is not Phase.MAKING_ROOM and task.progress is Progress.PLANNED


def unavailable_nodes(cluster: Cluster, urgent: UrgentJob, *, until_s: float) -> frozenset[str]:
    """Nodes that are kept for somebody else now, or by the site's own reservations before `until_s`.

    A node that is held for an announced job, and on which somebody else is for the time being, is not promised to it.
    """
    taken: list[Iterable[str]] = []
    firm = _firm(cluster)
    for reservation in cluster.reservations:
        own = urgent.operation is not None and reservation.name == urgent.operation.reservation
        begins_s = cluster.now_s if reservation.ours else until_s
        if not own and reservation.start_s <= begins_s and cluster.now_s < reservation.end_s:
            taken.append(firm.get(reservation.name, reservation.nodes))
    for operation in cluster.operations:
        lent = operation.phase is Phase.LENT and not operation.observe and operation.keeps_hold
        if (lent or operation.phase is Phase.MAKING_ROOM) and operation.for_job_id != urgent.job.job_id:
            taken.append(firm.get(operation.reservation, operation.nodes))
    return frozenset().union(*taken)


@memoise_last
def _firm(cluster: Cluster) -> Mapping[str, frozenset[str]]:
    """By reservation: the nodes that are held for an announced job and that nobody else is on, or only until it comes."""
    return {
        operation.reservation: frozenset(operation.nodes).difference(lost_for_good(operation, cluster))
        for operation in cluster.operations
        if awaited(operation) and operation.phase is Phase.MAKING_ROOM
    }


def victim_groups(
    cluster: Cluster, urgent: UrgentJob, *, unusable: AbstractSet[str], excluded: AbstractSet[str]
) -> tuple[VictimGroup, ...]:
    """Every bundle that holds a node which could serve the request, sorted by job ids; see `VictimGroup.protected_by`.

    Args:
        cluster: the snapshot.
        request: who needs the nodes. Nodes that it keeps are no use twice.
        unusable: nodes that may not be promised.
        spared: jobs that may not be asked, because another decision concerns them already.
    """
    barred = frozenset(unusable).union(urgent.kept) if urgent.kept else frozenset(unusable)
    up = cluster.up_nodes()
    if len(up) < len(cluster.nodes):
        barred = barred.union(node.name for node in cluster.nodes if node.name not in up)
    found = _useful(cluster.jobs, barred, urgent.job.eligible_nodes)
    groups = _sharing(found) if cluster.shared_nodes() else [[guest] for guest in found]
    return tuple(
        sorted((_victim_group(group, cluster, excluded) for group in groups), key=lambda group: group.job_ids)
    )


Guest = tuple[Job, tuple[str, ...]]
"""A job and those of its nodes that would serve the urgent job."""


@memoise_last
def _useful(
    jobs: tuple[Job, ...], barred: frozenset[str], eligible: frozenset[str] | None
) -> tuple[Guest, ...]:
    """Every job that holds nodes which are not barred and are eligible."""
    found = []
    for job in jobs:
        held = job.nodes
        if not barred.isdisjoint(held):
            held = tuple(filterfalse(barred.__contains__, held))
        if eligible is not None and not eligible.issuperset(held):
            held = tuple(filter(eligible.__contains__, held))
        if held:
            found.append((job, held))
    return tuple(found)


def _victim_group(group: list[Guest], cluster: Cluster, excluded: AbstractSet[str]) -> VictimGroup:
    jobs = tuple(job for job, _ in group)
    system = [system_s(job) for job in jobs]
    return VictimGroup(
        jobs=jobs,
        nodes=group[0][1] if len(group) == 1 else tuple(dict.fromkeys(names(nodes for _, nodes in group))),
        loss_node_s=sum(loss_node_s(job, cluster.now_s) for job in jobs),
        system_s=None if None in system else sum(duration for duration in system if duration is not None),
        application_s=application_s(jobs[0], cluster.now_s) if len(jobs) == 1 else None,
        protected_by=_protected_by(jobs, cluster, excluded),
    )


def _protected_by(jobs: tuple[Job, ...], cluster: Cluster, excluded: AbstractSet[str]) -> str:
    """The first reason why one of the jobs may not be asked to leave."""
    for job in jobs:
        refusal = protection(job, cluster)
        reason = "engaged elsewhere" if job.job_id in excluded else ("" if refusal is None else refusal.value)
        if reason:
            return reason if len(jobs) == 1 else f"job {job.job_id}: {reason}"
    return ""


def _sharing(guests: Sequence[Guest]) -> list[list[Guest]]:
    """The lodgers in groups that are connected by shared nodes, each group in the order of job ids."""
    nodes_of_all = [nodes for _, nodes in guests]
    if len(frozenset().union(*nodes_of_all)) == sum(map(len, nodes_of_all)):
        return [[guest] for guest in guests]
    group_of_node: dict[str, int] = {}
    groups: list[list[Guest]] = []
    for guest in guests:
        touched = sorted({group_of_node[name] for name in guest[1] if name in group_of_node})
        merged = [member for index in touched for member in groups[index]]
        for index in touched:
            groups[index] = []
        merged.append(guest)
        for _, nodes in merged if touched else [guest]:
            group_of_node.update(dict.fromkeys(nodes, len(groups)))
        groups.append(merged)
    return [sorted(group, key=lambda guest: guest[0].job_id) for group in groups if group]


def loss_node_s(job: Job, now_s: float) -> int:
    """Node-seconds of work that a kill loses, rounded up: since the last checkpoint of this run, else since its start.

    P2, section III-B. A job that has not started loses nothing.
    """
    if job.start_s is None:
        return 0
    since_s = job.start_s if job.last_checkpoint_s is None else max(job.start_s, job.last_checkpoint_s)
    return math.ceil(max(0.0, now_s - since_s) * job.node_count)


def system_s(job: Job) -> float | None:
    """P2's ts: the duration of a checkpoint that a signal starts. None: the job has no such checkpoint."""
    duration_s = None if job.checkpoint is None else job.checkpoint.system_s
    return duration_s if duration_s is not None and _sane(duration_s) else None


def application_s(job: Job, now_s: float) -> float | None:
    """P2's ta: how long until the next regular checkpoint is complete, its own duration included.

    None: the job has no regular checkpoints, or it is not known how often or how long. One that is overdue is
    expected at the next multiple of its period.
    """
    spec = job.checkpoint
    if spec is None or spec.interval_s is None or spec.application_s is None or job.start_s is None:
        return None
    period_s = spec.interval_s + spec.application_s
    if not (_sane(spec.interval_s) and _sane(spec.application_s) and period_s > 0.0):
        return None
    working_s = job.start_s + job.setup_s
    base_s = working_s if job.last_checkpoint_s is None else max(working_s, job.last_checkpoint_s)
    periods = max(1, math.ceil((now_s - base_s) / period_s))
    return max(0.0, base_s + periods * period_s - now_s)


def _sane(duration_s: float) -> bool:
    """Whether it is a duration at all: what jobs declare of themselves may be anything."""
    return math.isfinite(duration_s) and duration_s >= 0.0
