"""Policy "horizon": all waiting jobs are planned together, and the queue is put into the order of the plan.

A horizon begins when no job of the last plan waits any more: then all waiting jobs are planned as one
problem. The jobs that have to move get queue positions; the cluster's scheduler starts the jobs in that order
and backfills, also with jobs that are submitted later. Later jobs that do not fit wait for the next horizon,
after all planned jobs, so no job starves. Plans are made outside of the cycles (`Planner`) from the same
snapshots; until a plan is finished, the queue stays as it is.

Reference:
    Schlagkamp et al., "Increasing Waiting Time Satisfaction in Parallel Job Scheduling via a Flexible MILP
    Approach" (HPCS 2016), section III and figure 1; the problem is in `horizon.plan`, its solution in
    `horizon.solver`.

Differs from the paper:
    A plan is an order, not a timetable: when jobs end earlier than their limits, the next ones start earlier.
    Nodes are not told apart; a job that cannot use all of them may start later than planned. A job that the
    site has not opted in, or an urgent one, is not moved, and no later job is moved ahead of it. The next
    plan is made when the jobs of the last one have started, not when they have ended. Every job counts with
    whole nodes, even where jobs share nodes.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from makeway.policies.contract import Planner, Policy, require_durations
from makeway.policies.horizon.cp_sat import cp_sat
from makeway.policies.horizon.plan import (
    AcceptanceCurve,
    Objective,
    PlanJob,
    PlanProblem,
    Reading,
    Taken,
    acceptable_s,
    by_start,
)
from makeway.policies.horizon.solver import Effort, solve
from makeway.policies.model import (
    QUEUE_POSITIONS,
    Action,
    Cluster,
    Decision,
    Job,
    Plan,
    Prioritise,
    Rationale,
    Reason,
)
from makeway.policies.queue.order import QueueKey, queue_key, waits_for_nodes
from makeway.policies.safety.protection import hard_protection

NAME = "horizon"
STEP = 32
"""The distance between queue positions, so that other jobs can get positions between them later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonConfig:
    """Settings of policy "horizon"."""

    curve: AcceptanceCurve = AcceptanceCurve.MEDIAN
    """Which users' accepted response times give the due dates: median, upper or lower (table I)."""
    reading: Reading = Reading.RESPONSE
    """The reading of eq. 22: response, or printed."""
    late_weight: int = 0
    """The weight of each late job (sum of U)."""
    tardiness_weight: int = 1
    """The weight of each second that a job is late (sum of T)."""
    makespan_weight: int = 0
    """The weight of each second until the last planned job is done (C_max)."""
    work: float = 20.0
    """How long to search, in the solver's deterministic unit: about a second each."""
    time_limit_s: float = 600.0
    """The longest search by the clock; the best plan found until then is used."""
    moves_per_cycle: int = 50
    """The most jobs that get their queue positions in one cycle."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for values out of range."""
        require_durations(work=self.work, time_limit_s=self.time_limit_s)
        _ = self.objective, self.effort
        if self.moves_per_cycle < 1:
            raise ValueError(f"moves_per_cycle is {self.moves_per_cycle}; accepted: at least 1")

    @property
    def objective(self) -> Objective:
        """The objective of the settings."""
        return Objective(
            late=self.late_weight, tardiness=self.tardiness_weight, makespan=self.makespan_weight
        )

    @property
    def effort(self) -> Effort:
        """The effort of the settings."""
        return Effort(work=self.work, time_limit_s=self.time_limit_s)


def queue(cluster: Cluster) -> list[Job]:
    """The jobs that wait for nodes and nothing else, in the queue's order."""
    waiting = (job for job in cluster.jobs if waits_for_nodes(job, cluster.now_s))
    return sorted(waiting, key=queue_key)


def movable(cluster: Cluster) -> list[Job]:
    """The jobs that may be moved: those before the first one that may not be touched, in the order of the
    queue.

    A job for which too few nodes are up stays where it is: it delays no other job, and no horizon waits for
    it.
    """
    unprotected = takewhile(lambda job: hard_protection(job, cluster) is None, queue(cluster))
    return [job for job in unprotected if job.node_count <= _serving_count(job, cluster)]


def _serving_count(job: Job, cluster: Cluster) -> int:
    """How many nodes that are up could serve a job."""
    up = cluster.up_nodes()
    return len(up) if job.eligible_nodes is None else len(job.eligible_nodes & up.keys())


def is_due(cluster: Cluster, config: HorizonConfig) -> bool:
    """Whether a horizon begins: no job of the last plan waits any more, and several jobs may be moved
    (section III).
    """
    waiting = movable(cluster)
    planned = frozenset[str]() if cluster.plan is None else frozenset(cluster.plan.order)
    return len(waiting) > 1 and not any(job.job_id in planned for job in waiting)


def make(cluster: Cluster, config: HorizonConfig) -> Plan:
    """Plan all jobs that may be moved (section III, figure 1).

    Raises:
        SolverUnavailable: OR-Tools is not installed.
    """
    problem = problem_of(cluster, config)
    found = solve(problem, config.objective, config.effort)
    order = by_start(found.starts)
    return Plan(
        made_s=cluster.now_s,
        order=tuple(problem.jobs[index].job_id for index in order),
        starts_s=tuple(cluster.now_s + found.starts[index] for index in order),
        value=found.value,
        easy_value=found.easy_value,
        bound=found.bound,
    )


def problem_of(cluster: Cluster, config: HorizonConfig) -> PlanProblem:
    """The planning problem of a snapshot (eq. 25 to 27), with due dates by eq. 21 and 22."""
    jobs: list[PlanJob] = []
    for job in movable(cluster):
        length_s = max(1, math.ceil(job.walltime_s))
        accepted_s = acceptable_s(length_s, config.curve, config.reading)
        jobs.append(
            PlanJob(
                job_id=job.job_id,
                node_count=job.node_count,
                length_s=length_s,
                due_s=math.floor(accepted_s - (cluster.now_s - job.submit_s)),
            )
        )
    return PlanProblem(jobs=tuple(jobs), node_count=len(cluster.up_nodes()), taken=_taken(cluster))


def _taken(cluster: Cluster) -> tuple[Taken, ...]:
    """The nodes that are held by jobs or reserved, grouped by the instant until which they are."""
    up = cluster.up_nodes()
    until: dict[str, float] = {}
    for job in cluster.holders():
        end_s = cluster.now_s if job.start_s is None else job.start_s + job.walltime_s
        for name in job.nodes:
            until[name] = max(until.get(name, 0.0), end_s)
    for reservation in cluster.reservations:
        if reservation.start_s <= cluster.now_s < reservation.end_s:
            for name in reservation.nodes:
                until[name] = max(until.get(name, 0.0), reservation.end_s)
    counts: dict[int, int] = {}
    for name, end_s in until.items():
        if name in up:
            left_s = max(1, math.ceil(end_s - cluster.now_s))
            counts[left_s] = counts.get(left_s, 0) + 1
    return tuple(Taken(node_count=count, until_s=left_s) for left_s, count in sorted(counts.items()))


def decide(cluster: Cluster, config: HorizonConfig) -> Decision:
    """Give the jobs of the plan their queue positions, the first jobs first, unless they have them (section
    III).
    """
    plan = cluster.plan
    if plan is None:
        return Decision(policy=NAME)
    waiting = movable(cluster)
    jobs = {job.job_id: job for job in waiting}
    order = [jobs[job_id] for job_id in plan.order if job_id in jobs]
    positions = queue_positions(order, _newcomers(waiting, plan))
    under_way = {operation.for_job_id for operation in cluster.operations}
    moves = [
        job
        for job in order
        if job.job_id in positions
        and positions[job.job_id] != job.queue_position
        and job.job_id not in under_way
    ]
    starts_s = dict(zip(plan.order, plan.starts_s, strict=True))
    actions: list[Action] = []
    reasons: list[Rationale] = []
    for job in moves[: config.moves_per_cycle]:
        actions.append(
            Prioritise(
                job_id=job.job_id,
                for_job_id=job.job_id,
                policy=NAME,
                reason=Reason.PLANNED,
                queue_position=positions[job.job_id],
            )
        )
        reasons.append(_why(job, cluster, plan, starts_s[job.job_id]))
    return Decision(policy=NAME, actions=tuple(actions), rationale=tuple(reasons))


def _newcomers(waiting: Sequence[Job], plan: Plan) -> list[Job]:
    """The jobs that were submitted after the plan."""
    planned = frozenset(plan.order)
    return [job for job in waiting if job.job_id not in planned]


def queue_positions(order: Sequence[Job], others: Sequence[Job]) -> Mapping[str, int]:
    """A queue position for every job that needs one, so that the queue is in this order with the others after
    it.

    The last jobs of the order need no position if they have none, are already in order, and come before the
    others. Of the jobs that have a position, as many as possible keep it.
    """
    count = _positioned_count(order, min(map(queue_key, others), default=None))
    head = order[:count]
    kept = _longest_increasing([job.queue_position for job in head])
    positions: dict[str, int] = {}
    low, run = 0, list[Job]()
    for index, job in enumerate(head):
        if index not in kept or job.queue_position is None:
            run.append(job)
            continue
        if not _spread(run, low, job.queue_position, positions):
            return _renumbered(head)
        positions[job.job_id] = low = job.queue_position
        run = []
    if not _spread(run, low, min(low + STEP * (len(run) + 1), QUEUE_POSITIONS + 1), positions):
        return _renumbered(head)
    return positions


def _positioned_count(order: Sequence[Job], first_other: QueueKey | None) -> int:
    """How many jobs from the start of the order need a queue position."""
    count = len(order)
    following = first_other
    for job in reversed(order):
        own = queue_key(job)
        if job.queue_position is not None or (following is not None and own > following):
            break
        following = own
        count -= 1
    return count


def _spread(run: Sequence[Job], low: int, high: int, positions: dict[str, int]) -> bool:
    """Give consecutive jobs positions between two others, evenly. Returns whether there is room."""
    width = (high - low) // (len(run) + 1)
    if run and width < 1:
        return False
    for number, job in enumerate(run, start=1):
        positions[job.job_id] = low + number * width
    return True


def _renumbered(head: Sequence[Job]) -> dict[str, int]:
    """New positions for all jobs, or for as many as there are positions."""
    width = max(1, min(STEP, QUEUE_POSITIONS // (len(head) + 1)))
    return {job.job_id: number * width for number, job in enumerate(head[:QUEUE_POSITIONS], start=1)}


def _longest_increasing(values: Sequence[int | None]) -> frozenset[int]:
    """The indices of a longest strictly increasing subsequence; None is left out."""
    tails: list[int] = []
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for index, value in enumerate(values):
        if value is not None:
            length = bisect_left(tails, value)
            before[index] = ends[length - 1] if length else None
            tails[length : length + 1] = [value]
            ends[length : length + 1] = [index]
    chain: set[int] = set()
    last = ends[-1] if ends else None
    while last is not None:
        chain.add(last)
        last = before[last]
    return frozenset(chain)


def _why(job: Job, cluster: Cluster, plan: Plan, start_s: float) -> Rationale:
    """Why a job gets its queue position."""
    number = plan.order.index(job.job_id) + 1
    return Rationale(
        for_job_id=job.job_id,
        node_count=job.node_count,
        free_node_count=len(cluster.free_nodes()),
        deadline_s=start_s,
        summary=(
            f"Number {number} of the {len(plan.order)} jobs planned at {plan.made_s:.0f} s, "
            f"to start by {start_s:.0f} s. "
            f"The plan's value is {plan.value:.0f} "
            f"(EASY {plan.easy_value:.0f}, lower bound {plan.bound:.0f})."
        ),
    )


HORIZON = Policy(
    name=NAME,
    summary="Plan all waiting jobs together by the response times that users accept (P4).",
    config_type=HorizonConfig,
    decide=decide,
    arrivals_only=False,
    planner=Planner(due=is_due, make=make, require=cp_sat),
)
