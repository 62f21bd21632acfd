"""What making room now would cost: the loss against the deadline, with who would leave and how at each level.

Pure: an answer depends on the snapshot and the question alone, and is found with the very functions that the policy
"eviction" uses. Nodes that jobs are about to leave for other urgent jobs are not counted on, and checkpoints are written one
after another.
"""

from dataclasses import dataclass

from makeway.daemon.errors import UserError
from makeway.policies.common.departures import committed
from makeway.policies.common.urgent_jobs import UrgentJob, unavailable_nodes
from makeway.policies.common.victims import victim_groups
from makeway.policies.eviction.knapsack import Departure, EvictionJob, Plan, solve
from makeway.policies.eviction.policy import EvictionConfig, item_of
from makeway.policies.model import Cluster, Job, JobKind, JobState, NodeState

STEPS_WANTED = 60
"""Points of the curve if nobody says how fine it should be, at the most."""
STEPS_LIMIT = 2000
CELLS_LIMIT = 1_000_000_000
"""Bytes that the dynamic programme may take, roughly."""
_NICE_STEPS_S = (1.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 10_800.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An urgent job that might come."""

    node_count: int
    deadline_s: float
    """Seconds from now until its nodes must be free."""
    walltime_s: float = 3600.0
    """Other people's reservations that begin before it would end are in its way."""
    step_s: float | None = None
    """Resolution of the deadlines. None: as fine as gives `STEPS_WANTED` points or fewer."""
    shrink: bool = False
    """Whether malleable jobs may be asked for nodes instead of leaving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Barred:
    """Jobs that may not be asked to leave."""

    job_ids: tuple[str, ...]
    node_count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A stretch of deadlines with the same loss."""

    from_s: float
    """The shortest deadline at which nothing better is possible."""
    until_s: float
    """The longest."""
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The curve."""

    now_s: float
    question: Question
    step_s: float
    node_count_up: int
    """Nodes of the cluster that could serve anybody."""
    node_count_free: int
    """Nodes that are free for the job, as many as it needs at the most."""
    losses_node_s: tuple[int | None, ...]
    """The least loss by each deadline 0, step, 2 * step, ...; None: no choice is quick enough."""
    levels: tuple[Level, ...]
    barred: tuple[Barred, ...]

    @property
    def shortage(self) -> int:
        """How many nodes somebody would have to leave."""
        return self.question.node_count - self.node_count_free


def what_if(cluster: Cluster, question: Question) -> Proposal:
    """Answer for a cluster as it is.

    Raises:
        UserError: more nodes than the cluster has, or a resolution that is too fine to compute.
    """
    up = sum(1 for node in cluster.nodes if node.state is NodeState.UP)
    if question.node_count > up:
        raise UserError(
            f"--nodes: {question.node_count} nodes are asked for; the cluster has {up} that are up"
        )
    urgent = UrgentJob(job=_urgent_job(cluster, question))
    until_s = cluster.now_s + question.deadline_s + question.walltime_s
    unusable = unavailable_nodes(cluster, urgent, until_s=until_s)
    free = [name for name in cluster.free_nodes() if name not in unusable][: question.node_count]
    shortage = question.node_count - len(free)
    step_s = question.step_s or _nice_step_s(question.deadline_s)
    considered = victim_groups(cluster, urgent, unusable=unusable, excluded=committed(cluster))
    settings = EvictionConfig(shrink=question.shrink)
    items = [item_of(group, settings) for group in considered if not group.protected_by]
    _refuse_if_too_fine(question.deadline_s / step_s, len(items), shortage)
    losses, levels = _curve(items, shortage, question.deadline_s, step_s)
    return Proposal(
        now_s=cluster.now_s,
        question=question,
        step_s=step_s,
        node_count_up=up,
        node_count_free=len(free),
        losses_node_s=losses,
        levels=levels,
        barred=tuple(
            Barred(job_ids=group.job_ids, node_count=len(group.nodes), reason=group.protected_by)
            for group in considered
            if group.protected_by
        ),
    )


def departures(plan: Plan) -> tuple[Departure, ...]:
    """Who leaves, the greatest loss first, then the most nodes, then by job id."""
    return tuple(
        sorted(
            plan.departures,
            key=lambda leaver: (-leaver.loss_node_s, -leaver.node_count, leaver.item.job_ids),
        )
    )


def _urgent_job(cluster: Cluster, question: Question) -> Job:
    return Job(
        job_id="",
        kind=JobKind.ON_DEMAND,
        state=JobState.PENDING,
        node_count=question.node_count,
        walltime_s=question.walltime_s,
        submit_s=cluster.now_s,
        user="",
    )


def _curve(
    items: list[EvictionJob], shortage: int, deadline_s: float, step_s: float
) -> tuple[tuple[int | None, ...], tuple[Level, ...]]:
    """The least loss by each deadline, and the stretches of equal loss with their plans."""
    curve = solve(items, max(0, shortage), deadline_s, step_s)
    losses = curve.losses()
    levels: list[Level] = []
    for index, loss in enumerate(losses):
        at_s = index * step_s
        if loss is None:
            continue
        if levels and levels[-1].plan.loss_node_s == loss:
            levels[-1] = Level(from_s=levels[-1].from_s, until_s=at_s, plan=levels[-1].plan)
            continue
        plan = curve.plan(at_s)
        if plan is not None:
            levels.append(Level(from_s=at_s, until_s=at_s, plan=plan))
    return losses, tuple(levels)


def _nice_step_s(deadline_s: float) -> float:
    return next(
        (step_s for step_s in _NICE_STEPS_S if deadline_s / step_s <= STEPS_WANTED), _NICE_STEPS_S[-1]
    )


def _refuse_if_too_fine(steps: float, items: int, shortage: int) -> None:
    if steps > STEPS_LIMIT or steps * items * max(1, shortage) > CELLS_LIMIT:
        raise UserError(
            f"--step: {steps:.0f} steps for {items} jobs and {shortage} nodes are too many; use a longer step"
        )
