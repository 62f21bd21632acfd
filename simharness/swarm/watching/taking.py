"""What has to hold of a command that takes something, by the snapshot that the daemon has seen.

It does not use the daemon's own count of what an urgent job gets: code that counts wrongly must be noticed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from makeway.policies.model import (
    Acknowledgement,
    Action,
    Cancel,
    Cluster,
    Job,
    JobKind,
    JobState,
    NodeState,
    Operation,
    OperationKind,
    Phase,
    Progress,
    Requeue,
    Reserve,
    Resources,
    Shrink,
    total,
)
from makeway.simharness.engine.job_run import TOLERANCE_S
from makeway.simharness.swarm.law import Law

_TO_LEAVE = (Progress.PLANNED, Progress.ISSUING, Progress.ACCEPTED)


@dataclass(frozen=True, slots=True)
class Taking:
    """One command that takes something, when it is sent."""

    action: Action
    operation: Operation
    view: Cluster
    """The last snapshot."""
    operations: Collection[Operation]
    """The open ones of the daemon that sends it."""

    def checks(self) -> Iterator[tuple[Law, bool, str]]:
        """Each law that it meets: whether it holds, and the violation."""
        action, operation, view = self.action, self.operation, self.view
        job = view.jobs_by_id().get(operation.for_job_id)
        what = f"{action.verb} of job {action.job_id}"
        leaves = view.jobs_by_id().get(action.job_id)
        if not isinstance(action, Reserve) and leaves is not None:
            yield Law.UNTOUCHABLE, leaves.preemptible, f"{what}, which was seen not to be open to preemption"
        if job is not None and job.state is JobState.PENDING and operation.kind.serves_urgent_job:
            text = f"{what} for job {job.job_id}, which is not urgent any more"
            yield Law.NOT_URGENT, job.kind is JobKind.ON_DEMAND, text
        if operation.phase is not Phase.MAKING_ROOM or isinstance(action, Reserve):
            return
        if operation.reservation:
            seen = any(hold.name == operation.reservation for hold in view.reservations)
            yield Law.HOLD_FIRST, seen, f"{what} before {operation.reservation} was seen"
        if operation.kind is OperationKind.NOTICE:
            return
        yield from self._starts(job, f"{what} for job {operation.for_job_id}")
        if job is not None and operation.kind.serves_urgent_job and self._is_countable(job):
            text = f"{what} for job {job.job_id}, which gets {job.node_count} nodes without that"
            yield Law.NEEDLESS, self._gets(job) < job.node_count, text
            text = f"{what} for job {job.job_id}, which does not get {job.node_count} nodes by that either"
            yield Law.IN_VAIN, self._gets(job, leaves=True) >= job.node_count, text

    def _starts(self, job: Job | None, what: str) -> Iterator[tuple[Law, bool, str]]:
        """Whether the urgent job starts when the nodes are free."""
        operation, view = self.operation, self.view
        together = () if job is None else view.components(job)
        waiting = [one for one in together if one.state is JobState.PENDING]
        may_start = job in waiting and all(
            not one.blocked_by and (one.eligible_s is None or one.eligible_s <= view.now_s) for one in waiting
        )
        yield Law.IN_VAIN, may_start, f"{what}, which cannot start"
        seen = {hold.name for hold in view.reservations}
        held = {one.for_job_id for one in self.operations if one.reservation in seen}
        unheld = [one.job_id for one in waiting if one.job_id not in held]
        yield Law.HOLD_FIRST, not unheld, f"{what} before the holds of {', '.join(unheld)} were seen"
        silent = {node.name for node in view.nodes if node.state is NodeState.SILENT}
        yield Law.IN_VAIN, silent.isdisjoint(operation.nodes), f"{what}, whose nodes are silent"
        if job is not None and operation.kind.serves_urgent_job:
            until_s = view.now_s + job.walltime_s - TOLERANCE_S
            ends_s = [hold.end_s for hold in view.reservations if hold.name == operation.reservation]
            lasts = all(end_s >= until_s for end_s in ends_s)
            yield Law.IN_VAIN, lasts, f"{what}, which does not end before its hold"

    def _is_countable(self, job: Job) -> bool:
        """Whether it is known which nodes the urgent job gets: not if other holds have those that come
        free.
        """
        leaves = self.view.jobs_by_id().get(self.action.job_id)
        return (
            job.state is JobState.PENDING
            and leaves is not None
            and self._held_by_others().isdisjoint(leaves.nodes)
        )

    def _held_by_others(self) -> set[str]:
        """The nodes that other operations hold, or are about to."""
        return {
            name
            for one in self.operations
            if one.operation_id != self.operation.operation_id and one.phase is Phase.MAKING_ROOM
            for name in one.nodes
        }

    def _gets(self, job: Job, *, leaves: bool = False) -> int:
        """How many nodes of its hold the urgent job gets if all others leave that are to leave. `leaves`:
        whether this job does so too, those that are to leave for other urgent jobs, and those that have left
        since the view was taken.
        """
        staying = {other.job_id for other in self.view.jobs if _stays(other)}
        leaving = {
            task.action.job_id: set(task.action.keep_nodes) if isinstance(task.action, Shrink) else set[str]()
            for operation in (*(self.operations if leaves else ()), self.operation)
            for task in operation.tasks
            if isinstance(task.action, Requeue | Cancel | Shrink)
            and (task.progress in _TO_LEAVE or (leaves and task.progress is Progress.GONE))
            and (leaves or task.action.job_id != self.action.job_id)
            and not (leaves and task.progress is Progress.PLANNED and task.action.job_id in staying)
        }
        used: defaultdict[str, list[Resources | None]] = defaultdict(list)
        for other in self.view.jobs:
            parts = other.allocation or (None,) * len(other.nodes)
            for name, part in zip(other.nodes, parts, strict=True):
                if other.state is not JobState.COMPLETING and name in leaving.get(other.job_id, {name}):
                    used[name].append(part)
        wanted = set(self.operation.nodes) - self._held_by_others()
        return sum(
            _has_room(node.capacity, used[node.name], job.demand)
            for node in self.view.nodes
            if node.name in wanted and node.state is NodeState.UP
        )


def _stays(job: Job) -> bool:
    """Whether a running job may not be made to leave, and does not leave by itself at a signal either."""
    answer = None if job.checkpoint is None else job.checkpoint.acknowledgement
    by_itself = answer in {Acknowledgement.REQUEUE, Acknowledgement.EXIT}
    return job.state is JobState.RUNNING and not job.preemptible and not by_itself


def _has_room(capacity: Resources | None, used: list[Resources | None], demand: Resources | None) -> bool:
    """Whether what is left of a node covers a demand. `demand` None: the whole node."""
    if demand is None or capacity is None or None in used:
        return not used
    return capacity.minus(total([part for part in used if part is not None])).covers(demand)
