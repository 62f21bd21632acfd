"""What making room now would cost: the least loss by deadline, and for each loss which jobs would leave, and
how.

Pure: the answer depends on the snapshot and the question only. It comes from the functions that policy
`eviction` uses. Nodes that other urgent jobs are about to get do not count as free, and checkpoints are
written one after another.
"""

from dataclasses import dataclass

from makeway.daemon.errors import UserError
from makeway.daemon.inspect.loss_curves import LossCurve, LossLevel, policy_curve, whole_curve
from makeway.policies.common.commitments import Commitments
from makeway.policies.common.departures import committed
from makeway.policies.common.requests import Request, candidates_of, request_for
from makeway.policies.common.urgent_jobs import UrgentJob, unavailable_nodes
from makeway.policies.common.victims import victim_groups
from makeway.policies.eviction.policy import EVICTION, EvictionConfig
from makeway.policies.model import (
    NO_RESOURCES,
    Cluster,
    Job,
    JobKind,
    JobState,
    NodeState,
    Resources,
    without_numbers,
)

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
    demand: Resources | None = None
    """What it needs on each of its nodes. None: whole nodes."""
    eligible_nodes: frozenset[str] | None = None
    """Nodes that may serve it. None: any node."""
    blocked_by: str = ""
    """What it would wait for besides nodes. Empty: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedGroup:
    """Jobs on the same nodes that may not be asked to leave."""

    job_ids: tuple[str, ...]
    node_count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfAnswer:
    """The least loss of work by deadline."""

    now_s: float
    question: WhatIfQuestion
    step_s: float
    node_count_up: int
    """Nodes of the cluster that are up."""
    node_count_free: int
    """Nodes that are free for the job, or have room for it, at most as many as it needs."""
    losses_node_s: tuple[int | None, ...]
    """The least loss by each deadline 0, step, 2 * step, ... None: no choice of jobs is quick enough."""
    levels: tuple[LossLevel, ...]
    protected: tuple[ProtectedGroup, ...]

    @property
    def shortage(self) -> int:
        """Nodes that other jobs would have to give."""
        return self.question.node_count - self.node_count_free


def question_like(
    job: Job, *, deadline_s: float, walltime_s: float | None, step_s: float | None, shrink: bool
) -> WhatIfQuestion:
    """The question about one more job like this one, which waits or runs.

    Of a running job the amounts count that it holds, on each node as much as on the one where it holds most.
    `walltime_s` None: the job's own.
    """
    demand = job.demand
    if job.allocation is not None:
        most: dict[str, int] = {}
        for part in job.allocation:
            asked = without_numbers(dict(part.amounts), as_held=True)
            most |= {name: max(amount, most.get(name, 0)) for name, amount in asked.items()}
        demand = Resources.of(most)
    return WhatIfQuestion(
        node_count=job.node_count,
        deadline_s=deadline_s,
        walltime_s=job.walltime_s if walltime_s is None else walltime_s,
        step_s=step_s,
        shrink=shrink,
        demand=demand,
        eligible_nodes=job.eligible_nodes,
        blocked_by=job.blocked_by,
    )


def what_if(cluster: Cluster, question: WhatIfQuestion) -> WhatIfAnswer:
    """The least loss by deadline on a snapshot.

    Raises:
        UserError: more nodes than the cluster has, or a resolution that is too fine to compute.
    """
    up = sum(1 for node in cluster.nodes if node.state is NodeState.UP)
    _refuse_if_too_many(cluster, question, up)
    by_parts = question.demand is not None or (bool(cluster.shared_nodes()) and not question.shrink)
    answer = _on_shared_nodes if by_parts else _on_whole_nodes
    return answer(cluster, question, up, question.step_s or _nice_step_s(question.deadline_s))


def _on_whole_nodes(cluster: Cluster, question: WhatIfQuestion, up: int, step_s: float) -> WhatIfAnswer:
    urgent = UrgentJob(job=_urgent_job(cluster, question))
    until_s = cluster.now_s + question.deadline_s + question.walltime_s
    unusable = unavailable_nodes(cluster, urgent, until_s=until_s)
    free = [name for name in cluster.free_nodes(question.eligible_nodes) if name not in unusable]
    free_count = min(len(free), question.node_count)
    considered = victim_groups(cluster, urgent, unusable=unusable, excluded=committed(cluster))
    shortage = question.node_count - free_count
    able_count = sum(1 for group in considered if not group.protected_by)
    _refuse_if_too_fine(question.deadline_s / step_s, able_count, shortage)
    settings = EvictionConfig(shrink=question.shrink)
    curve = whole_curve(considered, settings, shortage, question.deadline_s, step_s)
    protected = tuple(
        ProtectedGroup(job_ids=group.job_ids, node_count=len(group.nodes), reason=group.protected_by)
        for group in considered
        if group.protected_by
    )
    return _answer(cluster, question, up, free_count, step_s, curve, protected)


def _on_shared_nodes(cluster: Cluster, question: WhatIfQuestion, up: int, step_s: float) -> WhatIfAnswer:
    urgent = UrgentJob(job=_urgent_job(cluster, question))
    commitments = Commitments(cluster=cluster)

    def request_at(deadline_s: float) -> Request:
        return request_for(
            commitments,
            urgent,
            EVICTION.name,
            cluster.now_s + deadline_s,
            duration_s=deadline_s + question.walltime_s,
        )

    _refuse_if_too_fine(question.deadline_s / step_s, 1, 1)
    settings = EvictionConfig(margin_s=0.0, step_s=step_s, shrink=question.shrink)
    curve = policy_curve(request_at, settings, question.deadline_s, step_s)
    last = request_at(question.deadline_s)
    protected = tuple(
        ProtectedGroup(job_ids=candidate.job_ids, node_count=candidate.node_count, reason=candidate.note)
        for candidate in candidates_of(last, last.deadline_s).protected()
    )
    free_count = min(len(request_at(0.0).free), question.node_count)
    return _answer(cluster, question, up, free_count, step_s, curve, protected)


def _answer(
    cluster: Cluster,
    question: WhatIfQuestion,
    up: int,
    free_count: int,
    step_s: float,
    curve: LossCurve,
    protected: tuple[ProtectedGroup, ...],
) -> WhatIfAnswer:
    return WhatIfAnswer(
        now_s=cluster.now_s,
        question=question,
        step_s=step_s,
        node_count_up=up,
        node_count_free=free_count,
        losses_node_s=curve.losses_node_s,
        levels=curve.levels,
        protected=protected,
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
        demand=question.demand,
        eligible_nodes=question.eligible_nodes,
    )


def _refuse_if_too_many(cluster: Cluster, question: WhatIfQuestion, up: int) -> None:
    wanted = question.node_count
    if wanted > up:
        raise UserError(f"--nodes: {wanted} nodes are wanted, but only {up} nodes of the cluster are up")
    eligible, demand, capacities = question.eligible_nodes, question.demand, cluster.capacities()
    able = sum(
        1
        for name in cluster.up_nodes()
        if (eligible is None or name in eligible)
        and (demand is None or capacities.get(name, NO_RESOURCES).covers(demand))
    )
    if wanted > able:
        raise UserError(
            f"too few nodes can serve the request: {wanted} wanted, {able} of the {up} nodes that are up can"
        )


def _nice_step_s(deadline_s: float) -> float:
    return next(
        (step_s for step_s in _NICE_STEPS_S if deadline_s / step_s <= STEPS_WANTED), _NICE_STEPS_S[-1]
    )


def _refuse_if_too_fine(steps: float, items: int, shortage: int) -> None:
    if steps > STEPS_LIMIT or steps * items * max(1, shortage) > CELLS_LIMIT:
        raise UserError(
            f"--step: {steps:.0f} steps for {items} jobs and {shortage} nodes are too many; use a longer step"
        )
