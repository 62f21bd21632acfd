"""A horizon's problem solved by CP-SAT: the best plan found with a given effort, and a bound on every plan.

Every job is an interval of its length; together they never use more nodes than there are (a cumulative
constraint over identical nodes, in place of the paper's assignment of jobs to resources). The search begins
with the best plan of `horizon.plan.rules`, which include EASY, so that the result is never worse than EASY.
If only the number of late jobs counts, jobs that are late under any schedule are left out, and every other
job is either done in time or not placed; jobs that are not placed follow after the others.

Reference:
    Schlagkamp et al., "Increasing Waiting Time Satisfaction in Parallel Job Scheduling via a Flexible MILP
    Approach" (HPCS 2016), section IV, eq. 14 to 19, and section V-C.

Differs from the paper:
    CP-SAT in place of CPLEX, and another formulation than eq. 14 to 19: nodes are counted and not told apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from makeway.policies.horizon.cp_sat import Proof, cp_sat, proof_of
from makeway.policies.horizon.plan import (
    Objective,
    PlanProblem,
    Starts,
    improved,
    is_feasible,
    least_value,
    listed,
    makespan_s,
    rules,
    tardiness_s,
    value_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to search."""

    work: float = 20.0
    """In the solver's deterministic unit, about a second each (more for long queues): the same problem gets
    the same result."""
    time_limit_s: float = 600.0
    """Limit by the clock. If it ends a search, the result may differ from run to run."""
    workers: int = 1

    def __post_init__(self) -> None:
        """Raises `ValueError` for values out of range."""
        if not (self.work > 0.0 and self.time_limit_s > 0.0 and self.workers >= 1):
            raise ValueError(f"effort: {self} wants work and time above 0, and a worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The best plan found."""

    starts: Starts
    value: int
    """The plan's value of the objective; lower is better."""
    easy_value: int
    """The value of EASY's plan."""
    bound: int
    """A lower bound: no plan has a lower value."""
    proof: Proof
    wall_s: float = 0.0
    """How long the solver ran."""

    @property
    def gap(self) -> float:
        """(value - bound) / value; 0 if the plan is proven to be the best."""
        return 0.0 if self.value <= self.bound else (self.value - self.bound) / self.value


def solve(problem: PlanProblem, objective: Objective, effort: Effort | None = None) -> Solution:
    """The best plan found: never worse than EASY's and those of the other rules.

    The solver runs only if the best of these plans is not proven to be the best of all.

    Raises:
        SolverUnavailable: OR-Tools is not installed.
    """
    known = rules(problem)
    easy_value = value_of(problem, known[0], objective)
    first = min(known, key=lambda starts: value_of(problem, starts, objective))
    value = value_of(problem, first, objective)
    bound = least_value(problem, objective)
    if value <= bound:
        return Solution(starts=first, value=value, easy_value=easy_value, bound=value, proof=Proof.OPTIMAL)
    only_late = not objective.tardiness and not objective.makespan
    search = _in_time if only_late else _weighted
    found, found_bound, proof, wall_s = search(problem, objective, first, effort or Effort())
    best = first
    for starts in found:
        for plan in (starts, improved(problem, starts)):
            if is_feasible(problem, plan) and value_of(problem, plan, objective) < value:
                best, value = plan, value_of(problem, plan, objective)
    bound = max(bound, found_bound)
    if value <= bound:
        proof = Proof.OPTIMAL
    return Solution(
        starts=best, value=value, easy_value=easy_value, bound=min(bound, value), proof=proof, wall_s=wall_s
    )


_Found = tuple[list[Starts], int, Proof, float]
"""Plans, a bound, what is proven, and how long the search took in seconds."""


def _weighted(problem: PlanProblem, objective: Objective, first: Starts, effort: Effort) -> _Found:
    """All jobs placed, any weighted sum (eq. 14)."""
    model = cp_sat().CpModel()
    jobs, horizon_s = problem.jobs, problem.horizon_s
    starts = [model.new_int_var(0, horizon_s - job.length_s, "") for job in jobs]
    intervals = [
        model.new_fixed_size_interval_var(start, job.length_s, "")
        for start, job in zip(starts, jobs, strict=True)
    ]
    _limit_nodes(model, problem, intervals, [job.node_count for job in jobs])
    cost: Any = 0
    for job, start, hint in zip(jobs, starts, first, strict=True):
        model.add_hint(start, hint)
        over_s = job.length_s - job.due_s
        if objective.tardiness:
            late_s = model.new_int_var(max(0, over_s), max(0, horizon_s - job.due_s), "")
            model.add(late_s >= start + over_s)
            model.add_hint(late_s, tardiness_s(job, hint))
            cost += objective.tardiness * late_s
        if objective.late and job.hopeless:
            cost += objective.late
        elif objective.late:
            late = model.new_bool_var("")
            model.add(start + over_s <= 0).only_enforce_if(~late)
            model.add_hint(late, tardiness_s(job, hint) > 0)
            cost += objective.late * late
    if objective.makespan:
        end_s = model.new_int_var(0, horizon_s, "")
        for start, job in zip(starts, jobs, strict=True):
            model.add(end_s >= start + job.length_s)
        model.add_hint(end_s, makespan_s(problem, first))
        cost += objective.makespan * end_s
    model.minimize(cost)
    solver, proof = _run(model, effort, relaxation=2)
    found: list[Starts] = []
    if proof not in (Proof.UNKNOWN, Proof.INFEASIBLE):
        found.append(tuple(int(solver.value(start)) for start in starts))
    return found, _whole(solver.best_objective_bound), proof, solver.wall_time


def _in_time(problem: PlanProblem, objective: Objective, first: Starts, effort: Effort) -> _Found:
    """As many jobs in time as possible; the others are not placed (section V-C)."""
    model = cp_sat().CpModel()
    jobs = problem.jobs
    hopeful = [index for index, job in enumerate(jobs) if not job.hopeless]
    starts: dict[int, Any] = {}
    placed: dict[int, Any] = {}
    intervals: list[Any] = []
    for index in hopeful:
        job = jobs[index]
        latest_s = job.due_s - job.length_s
        starts[index] = model.new_int_var(0, latest_s, "")
        placed[index] = model.new_bool_var("")
        intervals.append(
            model.new_optional_fixed_size_interval_var(starts[index], job.length_s, placed[index], "")
        )
        model.add_hint(placed[index], first[index] <= latest_s)
        model.add_hint(starts[index], min(first[index], latest_s))
    _limit_nodes(model, problem, intervals, [jobs[index].node_count for index in hopeful])
    model.maximize(sum(placed.values()))
    solver, proof = _run(model, effort, relaxation=1)
    if proof in (Proof.UNKNOWN, Proof.INFEASIBLE):
        return [], 0, proof, solver.wall_time
    in_time = {index: solver.value(starts[index]) for index in hopeful if solver.value(placed[index])}
    ahead = sorted(in_time, key=lambda index: (in_time[index], index))
    behind = [index for index in range(len(jobs)) if index not in in_time]
    bound = objective.late * (len(jobs) - int(solver.best_objective_bound + 1e-6))
    return [listed(problem, [*ahead, *behind])], bound, proof, solver.wall_time


def _limit_nodes(model: Any, problem: PlanProblem, intervals: Sequence[Any], sizes: Sequence[int]) -> None:
    """Constrain the jobs to the nodes that there are, less those of running jobs (eq. 15 to 19)."""
    gone = [taken for taken in problem.taken if taken.until_s > 0]
    busy = [model.new_fixed_size_interval_var(0, taken.until_s, "") for taken in gone]
    demands = [*sizes, *(taken.node_count for taken in gone)]
    model.add_cumulative([*intervals, *busy], demands, problem.node_count)


def _run(model: Any, effort: Effort, *, relaxation: int) -> tuple[Any, Proof]:
    """Search, deterministically unless the clock ends it. `relaxation`: CP-SAT's linearization level."""
    solver = cp_sat().CpSolver()
    parameters = solver.parameters
    parameters.num_workers = effort.workers
    parameters.max_deterministic_time = effort.work
    parameters.max_time_in_seconds = effort.time_limit_s
    parameters.random_seed = 1
    parameters.linearization_level = relaxation
    parameters.relative_gap_limit = 0.0
    return solver, proof_of(solver.solve(model))


def _whole(bound: float) -> int:
    """The solver's bound, a float, as a whole number."""
    return int(-(-(bound - 1e-6) // 1))
