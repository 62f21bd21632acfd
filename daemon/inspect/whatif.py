"""What making room now would cost: the least loss by deadline, and for each loss which jobs would leave, and
how.

Pure: the answer depends on the snapshot and the question only. It comes from the functions that policy
    `eviction` uses.
Nodes that other urgent jobs are about to get do not count as free, and checkpoints are written one after
another.
"""

from dataclasses import dataclass

from makeway.daemon.errors import UserError
from makeway.policies.common.departures import committed
from makeway.policies.common.urgent_jobs import UrgentJob, unavailable_nodes
from makeway.policies.common.victims import victim_groups
from makeway.policies.eviction.knapsack import Departure, EvictionJob, EvictionPlan, solve
from makeway.policies.eviction.policy import EvictionConfig, item_of
from makeway.policies.model import Cluster, Job, JobKind, JobState, NodeState

STEPS_WANTED = 60
"""Most points of the curve if no step is given."""
STEPS_LIMIT = 2000
CELLS_LIMIT = 1_000_000_000
"""Most memory of the dynamic programme, in bytes, roughly."""
_NICE_STEPS_S = (1.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 10_800.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfQuestion:
    """An urgent job that might be submitted."""

    node_count: int
    deadline_s: float
    """Seconds from now until its nodes must be free."""
    walltime_s: float = 3600.0
    """How long the job may run. Reservations of the site that begin before its end are in its way."""
    step_s: float | None = None
    """Resolution of the deadlines. None: the finest with at most `STEPS_WANTED` points."""
    shrink: bool = False
    """Whether malleable jobs may give nodes instead of leaving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedGroup:
    """Jobs on the same nodes that may not be asked to leave."""

    job_ids: tuple[str, ...]
    node_count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossLevel:
    """A range of deadlines with the same loss."""

    from_s: float
    """The shortest of these deadlines."""
    until_s: float
    """The longest of them."""
    plan: EvictionPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfAnswer:
    """The least loss of work by deadline."""

    now_s: float
    question: WhatIfQuestion
    step_s: float
    node_count_up: int
    """Nodes of the cluster that are up."""
    node_count_free: int
    """Nodes that are free for the job, at most as many as it needs."""
    losses_node_s: tuple[int | None, ...]
    """The least loss by each deadline 0, step, 2 * step, ... None: no choice of jobs is quick enough."""
    levels: tuple[LossLevel, ...]
    protected: tuple[ProtectedGroup, ...]

    @property
    def shortage(self) -> int:
        """Nodes that other jobs would have to give."""
        return self.question.node_count - self.node_count_free


def what_if(cluster: Cluster, question: WhatIfQuestion) -> WhatIfAnswer:
    """The least loss by deadline on a snapshot.

    Raises:
        UserError: more nodes than the cluster has, or a resolution that is too fine to compute.
    """
    up = sum(1 for node in cluster.nodes if node.state is NodeState.UP)
    if question.node_count > up:
        raise UserError(
            f"--nodes: {question.node_count} nodes are wanted, but only {up} nodes of the cluster are up"
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
    return WhatIfAnswer(
        now_s=cluster.now_s,
        question=question,
        step_s=step_s,
        node_count_up=up,
        node_count_free=len(free),
        losses_node_s=losses,
        levels=levels,
        protected=tuple(
            ProtectedGroup(job_ids=group.job_ids, node_count=len(group.nodes), reason=group.protected_by)
            for group in considered
            if group.protected_by
        ),
    )


def departures(plan: EvictionPlan) -> tuple[Departure, ...]:
    """The jobs that leave: greatest loss first, then most nodes, then by job id."""
    return tuple(
        sorted(
            plan.departures,
            key=lambda leaver: (-leaver.loss_node_s, -leaver.node_count, leaver.item.job_ids),
        )
    )


def _urgent_job(cluster: Cluster, question: WhatIfQuestion) -> Job:
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
) -> tuple[tuple[int | None, ...], tuple[LossLevel, ...]]:
    """The least loss by each deadline, and the ranges of equal loss with their plans."""
    curve = solve(items, max(0, shortage), deadline_s, step_s)
    losses = curve.losses()
    levels: list[LossLevel] = []
    for index, loss in enumerate(losses):
        at_s = index * step_s
        if loss is None:
            continue
        if levels and levels[-1].plan.loss_node_s == loss:
            levels[-1] = LossLevel(from_s=levels[-1].from_s, until_s=at_s, plan=levels[-1].plan)
            continue
        plan = curve.plan(at_s)
        if plan is not None:
            levels.append(LossLevel(from_s=at_s, until_s=at_s, plan=plan))
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
