"""The gate that every action of every policy passes: the site's limits, and rules that always hold.

Pure: a verdict depends on the actions and the snapshot alone. Actions that take nodes or a queue position are
checked. Actions that give back (`Release`, `Expand`, `Prioritise` to the front, `RestorePriority`,
`RestoreLimit`) are allowed even when the circuit breaker has tripped.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from makeway.policies.gate.breaker import breaker_tripped
from makeway.policies.model import (
    Action,
    Cancel,
    Checkpoint,
    Cluster,
    Expand,
    Job,
    JobState,
    Operation,
    OperationKind,
    Phase,
    Prioritise,
    Release,
    Requeue,
    Reserve,
    RestoreLimit,
    RestorePriority,
    Shrink,
    changed,
    reservation_name,
)
from makeway.policies.safety.prices import HOUR_S, killed_node_s, overdrawn, price_refusal
from makeway.policies.safety.protection import (
    Refusal,
    hard_protection,
    protection,
    shrink_refusal,
    start_protection,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The arbiter's answer to one action. `refusal` None: it is allowed. `detail` is for people."""

    action: Action
    refusal: Refusal | None = None
    detail: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the action is allowed."""
        return self.refusal is None


Ruling = tuple[Refusal, str] | None


def arbitrate(actions: Sequence[Action], cluster: Cluster) -> tuple[Verdict, ...]:
    """One verdict for each action, in order.

    Actions with the same `for_job_id`, or for the components of one heterogeneous job, one of which is a
    `Reserve`, are allowed or refused together: if one is refused, the others get `GROUP`. An action that is
    already a task of an open operation is judged alone; if it is an eviction, only the breaker and
    `hard_protection` stop it. So a limit that an operation met when it was opened does not leave it half
    done.
    """
    if not actions:
        return ()
    arbiter = _Arbiter(cluster, actions)
    together = {
        action.for_job_id
        for action in actions
        if isinstance(action, Reserve) and not arbiter.under_way(action)
    }
    rulings: list[Ruling] = [None] * len(actions)
    for members in _groups(actions, together, arbiter):
        before = arbiter.spent
        for index in members:
            rulings[index] = arbiter.judge(actions[index])
        culprit = next((index for index in members if rulings[index] is not None), None)
        if culprit is None:
            continue
        arbiter.spent = before
        for index in members:
            if rulings[index] is None:
                first = actions[culprit]
                rulings[index] = (Refusal.GROUP, f"{first.verb} of job {first.job_id} was refused")
    return tuple(
        Verdict(action=action)
        if ruling is None
        else Verdict(action=action, refusal=ruling[0], detail=ruling[1])
        for action, ruling in zip(actions, rulings, strict=True)
    )


def _groups(actions: Sequence[Action], together: set[str], arbiter: "_Arbiter") -> Iterable[list[int]]:
    """The indices of actions that are judged together, in the order of each group's first action."""
    groups: dict[str, list[int]] = {}
    for index, action in enumerate(actions):
        alone = action.for_job_id not in together or arbiter.under_way(action)
        key = f"alone {index}" if alone else f"group {arbiter.whole(action.for_job_id)}"
        groups.setdefault(key, []).append(index)
    return groups.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spent:
    """What the actions allowed by this call use of the limits. A value, so that a group can be undone."""

    evicted: frozenset[str] = frozenset()
    held: tuple[Reserve, ...] = ()
    released: frozenset[str] = frozenset()
    """Names of reservations."""
    lost_node_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """Node-seconds of work by urgent job."""


@dataclass(slots=True)
class _Arbiter:
    """One call of `arbitrate`: the snapshot, indexed, and what has been allowed so far."""

    cluster: Cluster
    jobs: Mapping[str, Job] = field(init=False)
    operations: tuple[Operation, ...] = field(init=False)
    """The open operations. An urgent job may have several: one that makes way, and one for its priority."""
    actions: Sequence[Action]
    tasks: defaultdict[str, list[Action]] = field(init=False)
    """What open operations do, by the job that they do it to."""
    tripped: bool = field(init=False)
    spent: _Spent = field(init=False)

    def __post_init__(self) -> None:
        self.jobs = self.cluster.jobs_by_id()
        self.operations = tuple(one for one in self.cluster.operations if one.phase is not Phase.CLOSED)
        self.tasks = defaultdict(list)
        for task in (task for operation in self.operations for task in operation.tasks):
            self.tasks[task.action.job_id].append(task.action)
        self.tripped = breaker_tripped(self.cluster.failures_s, self.cluster.limits, self.cluster.now_s)
        self.spent = _Spent()

    def under_way(self, action: Action) -> bool:
        """Whether the action is a task of an open operation."""
        return action in self.tasks[action.job_id]

    def whole(self, job_id: str) -> str:
        """The heterogeneous job that a job is a component of, else the job itself."""
        job = self.jobs.get(job_id)
        return job_id if job is None else job.het_job_id or job_id

    def judge(self, action: Action) -> Ruling:
        """The ruling on one action. If it is allowed, what it uses of the limits is added to `spent`."""
        if action.verb not in self.cluster.actions:
            return Refusal.UNSUPPORTED, f"this cluster does not support the action {action.verb}"
        match action:
            case Checkpoint() | Requeue() | Cancel() | Shrink():
                return self._judge_eviction(action)
            case Reserve():
                return self._judge_reserve(action)
            case Release():
                if not self.cluster.owns_reservation(action.reservation):
                    return self._foreign(action.reservation)
                self.spent = changed(self.spent, released=self.spent.released | {action.reservation})
                return None
            case Prioritise():
                if action.queue_position is not None:
                    return self._judge_queue_position(action)
                # To the front for its own sake; a lender gets back what it had.
                return self._blocked(action.job_id) if action.job_id == action.for_job_id else None
            case Expand() | RestorePriority() | RestoreLimit():
                return None
        assert_never(action)

    def _judge_queue_position(self, action: Prioritise) -> Ruling:
        """A queue position gives nothing back: it is only for waiting jobs that the site has opted in."""
        if self.tripped:
            return _breaker(self.cluster)
        job = self.jobs.get(action.job_id)
        if job is None or job.state is not JobState.PENDING:
            return Refusal.NOT_WAITING, f"job {action.job_id}"
        refusal = hard_protection(job, self.cluster)
        return None if refusal is None else (refusal, f"job {action.job_id}")

    def _judge_eviction(self, action: Checkpoint | Requeue | Cancel | Shrink) -> Ruling:
        if isinstance(action, Requeue) and action.puts_back and self.under_way(action):
            return None
        if self.tripped:
            return _breaker(self.cluster)
        job = self.jobs.get(action.job_id)
        if self.under_way(action):
            refusal = None if job is None else hard_protection(job, self.cluster)
            if refusal is not None:
                return refusal, f"job {action.job_id}"
            if isinstance(action, Shrink):
                return None if job is None else shrink_refusal(action, job)
            return overdrawn(action, self.cluster)
        if job is None:
            return Refusal.NOT_RUNNING, f"there is no job {action.job_id}"
        blocked = self._blocked(action.for_job_id)
        if blocked is not None:
            return blocked
        refusal = protection(job, self.cluster)
        if refusal is not None:
            return refusal, f"job {action.job_id}"
        if not self._held_for(action.for_job_id):
            return Refusal.NO_HOLD, f"no nodes are held for job {action.for_job_id}"
        if isinstance(action, Shrink):
            ruling = shrink_refusal(action, job)
            if ruling is not None:
                return ruling
        return self._count_loss(action.for_job_id) or self._count_eviction(action.job_id)

    def _count_loss(self, for_job_id: str) -> Ruling:
        """The limits of the work that evictions for one urgent job, and for all of a day, may lose."""
        if for_job_id in self.spent.lost_node_s:
            return None
        cost_node_s = killed_node_s(
            (one for one in self.actions if one.for_job_id == for_job_id and not self.under_way(one)),
            self.cluster,
        )
        ruling = price_refusal(self.cluster, for_job_id, cost_node_s, self.spent.lost_node_s)
        if ruling is None:
            lost_node_s = {**self.spent.lost_node_s, for_job_id: cost_node_s}
            self.spent = changed(self.spent, lost_node_s=lost_node_s)
        return ruling

    def _blocked(self, job_id: str) -> Ruling:
        """Nothing is taken for a waiting job that lacks something besides nodes."""
        job = self.jobs.get(job_id)
        if job is None or job.state is not JobState.PENDING or not job.blocked_by:
            return None
        return Refusal.BLOCKED, f"job {job_id} waits for {job.blocked_by}"

    def _held_for(self, for_job_id: str) -> bool:
        """Whether nodes are held for the job, or its hold is being made or was allowed by this call.

        A promise of later nodes is no hold, and neither is one that goes back or whose job runs.
        """
        holds = any(
            operation.for_job_id == for_job_id
            and operation.kind.holds_nodes
            and operation.phase is Phase.MAKING_ROOM
            and bool(operation.nodes)
            for operation in self.operations
        )
        return holds or any(hold.for_job_id == for_job_id and hold.nodes for hold in self.spent.held)

    def _count_eviction(self, job_id: str) -> Ruling:
        """The limit of evictions per hour. A job counts once, whether or not it checkpoints first."""
        if job_id in self.spent.evicted:
            return None
        limit = self.cluster.limits.evictions_per_hour
        if limit is not None:
            used = self._evictions_counted(job_id) + len(self.spent.evicted)
            if used >= limit:
                return Refusal.PER_HOUR, f"{used} of {limit} evictions in an hour are used"
        self.spent = changed(self.spent, evicted=self.spent.evicted | {job_id})
        return None

    def _evictions_counted(self, but_for: str) -> int:
        """Evictions of the last hour, and those that open operations have still to carry out.

        The guests of a hold for an announced job count, because they will have to leave. `but_for`: a guest
        that does not count.
        """
        now_s = self.cluster.now_s
        past = [eviction for eviction in self.cluster.evictions if now_s - HOUR_S < eviction.at_s <= now_s]
        commitments = {
            task.action.job_id
            for operation in self.operations
            if not operation.observe
            for task in operation.tasks
            if task.ended_s is None
            and isinstance(task.action, Requeue | Cancel | Shrink)
            and not any(
                eviction.job_id == task.action.job_id and eviction.at_s >= operation.opened_s
                for eviction in past
            )
        }
        guests_of = {
            operation.for_job_id
            for operation in self.operations
            if not self._lent_nodes(operation.out_of).isdisjoint(operation.nodes)
        }
        return len(past) + len(commitments | (guests_of - self.spent.evicted - {but_for}))

    def _lent_nodes(self, out_of: tuple[str, ...]) -> frozenset[str]:
        """The nodes in these reservations that are held for jobs which have not started."""
        holds = [
            operation.nodes
            for operation in (self.operations if out_of else ())
            if operation.reservation in out_of
            and operation.phase is Phase.MAKING_ROOM
            and not operation.observe
        ]
        return frozenset[str]().union(*holds)

    def _judge_reserve(self, action: Reserve) -> Ruling:
        if self.tripped:
            return _breaker(self.cluster)
        if not self.cluster.owns_reservation(action.reservation):
            return self._foreign(action.reservation)
        for other in self.operations:  # that of the next task of its array, if the job is there once more
            if other.reservation == action.reservation and other.for_job_id != action.for_job_id:
                return Refusal.NODE_TAKEN, f"reservation {action.reservation} is for job {other.for_job_id}"
        if (blocked := self._blocked(action.job_id)) is not None:
            return blocked
        if action.kind.starts_early:
            job = self.jobs.get(action.job_id)
            refusal = Refusal.NOT_WAITING if job is None else start_protection(job, self.cluster)
            if refusal is not None:
                return refusal, f"job {action.job_id}"
        if action.out_of and (ruling := self._judge_lending(action)) is not None:
            return ruling
        sets, holds = self.cluster.node_sets(), self._other_holds(action)
        for name, nodes in (*self._foreign_holds(), *holds.items()):
            common = sets.of(action.nodes) & sets.of(nodes)
            if common:
                return Refusal.NODE_TAKEN, f"{min(sets.names(common))} is in reservation {name}"
        limit = self.cluster.limits.max_nodes
        if limit is not None and action.kind is not OperationKind.QUEUE_HEAD and not action.out_of:
            # The first job of the queue gets back its own nodes, and lent nodes are already counted.
            held = sum(self._counted(name, nodes) for name, nodes in holds.items()) + self._lent_early(holds)
            more = self._counted(action.reservation, action.nodes)
            if held + more > limit:
                return Refusal.MAX_NODES, f"{held} nodes held, {more} more wanted, at most {limit}"
        self.spent = changed(self.spent, held=(*self.spent.held, action))
        return None

    def _judge_lending(self, action: Reserve) -> Ruling:
        """Lent nodes are held for announced jobs, and the limit per hour allows to evict the borrower."""
        awaited_holds = {one.reservation for one in self.operations if one.kind is OperationKind.NOTICE}
        held = self._lent_nodes(tuple(awaited_holds.intersection(action.out_of)))
        outside = sorted(set(action.nodes) - held)
        if outside:
            return Refusal.NODE_TAKEN, f"{outside[0]} is not held for an announced job"
        return self._count_eviction(action.job_id)

    def _counted(self, reservation: str, nodes: tuple[str, ...]) -> int:
        """How many nodes a hold counts as. For an announced job it may have more nodes than it will keep."""
        for notice in self.cluster.notices:
            names = {self.cluster.hold_name(notice.notice_id), reservation_name(notice.notice_id)}
            if notice.job_id is None and reservation in names:
                return min(notice.node_count, len(nodes))
        return len(nodes)

    def _foreign(self, name: str) -> tuple[Refusal, str]:
        there = any(one.name == name for one in self.cluster.reservations)
        why = "was not made by makeway" if there else f"does not begin with {self.cluster.reservation_prefix}"
        return Refusal.NOT_OURS, f"reservation {name} {why}"

    def _foreign_holds(self) -> list[tuple[str, tuple[str, ...]]]:
        now_s = self.cluster.now_s
        return [
            (reservation.name, reservation.nodes)
            for reservation in self.cluster.reservations
            if not reservation.by_makeway and reservation.start_s <= now_s < reservation.end_s
        ]

    def _other_holds(self, action: Reserve) -> dict[str, tuple[str, ...]]:
        """makeway's other holds: in the snapshot, issued and not yet in a snapshot, or allowed by this call.

        Holds that this call releases do not count. Lent nodes are in the holds of both borrower and lender,
        of which the other one does not count.
        """
        own = {action.reservation, *action.out_of}
        own |= {one.reservation for one in self.operations if action.reservation in one.out_of}
        held = {
            operation.reservation: operation.nodes
            for operation in self.operations
            if not operation.observe
            and operation.phase is not Phase.RETURNING
            and (operation.kind.holds_while_running or operation.phase is Phase.MAKING_ROOM)
        }
        for reservation in self.cluster.reservations:
            if reservation.by_makeway and reservation.start_s <= self.cluster.now_s < reservation.end_s:
                held[reservation.name] = reservation.nodes
        held.update({hold.reservation: hold.nodes for hold in self.spent.held})
        return {
            name: nodes for name, nodes in held.items() if name not in own and name not in self.spent.released
        }

    def _lent_early(self, held: Mapping[str, tuple[str, ...]]) -> int:
        """How many nodes are used by jobs that started before their turn and whose hold has ended."""
        return sum(
            len(operation.nodes)
            for operation in self.cluster.speculative_jobs().values()
            if not operation.observe and held.keys().isdisjoint((operation.reservation, *operation.out_of))
        )


def _breaker(cluster: Cluster) -> tuple[Refusal, str]:
    limits = cluster.limits
    return (
        Refusal.BREAKER,
        f"{limits.breaker_failures} commands failed within {limits.breaker_window_s:.0f} s",
    )
