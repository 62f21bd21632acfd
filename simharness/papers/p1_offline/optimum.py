"""The offline optimum of P1: all jobs are known in advance, batch jobs have the least average slowdown.

A machine is a row of 512-node blocks. A job takes an aligned run of them and stays there. A batch job may be
interrupted once, each part at least a tenth of its work, and then pays for its checkpoint in the first part
and for the restart in the second. The formulation is makeway's, for CP-SAT: interval variables, a choice of
blocks for each job, and for each pair of parts whether one comes first or their blocks are apart.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), section 5:
    objective eq. 36, urgent jobs eq. 37, starts and ends eq. 27 to 33, blocks eq. 45 to 50 and 55,
    interruptions eq. 51 to 54, eq. 34.

Differs from the paper:
    No number of sequences per block is fixed in advance. Times are whole seconds, so overheads are rounded
    up. Interruptions in whose gap no other job has a part are left out: without them some schedule is as
    good.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from makeway.policies.horizon.cp_sat import Proof, cp_sat, proof_of

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntervalVar, IntVar
    from ortools.sat.python.cp_model_helper import Literal

RTJ_LIMIT = Fraction(6, 5)
"""The average slowdown that urgent jobs may have (section 5.1; table 3's experiment)."""
STEP = Fraction(1, 10)
"""By how much the limit is loosened where no schedule keeps it."""
SMALLEST_PART = 10
"""Each part of an interrupted job has at least one in so many parts of its work: a tenth (eq. 51)."""
_EXACT_SCALE = 10**12
_SCALE = 10**11
"""Slowdowns are whole numbers to the solver: multiples of 1 / scale, exact where the runtimes allow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineJob:
    """A rigid job that is known in advance."""

    job_id: str
    submit_s: int
    runtime_s: int
    blocks: int
    """How many blocks it takes; it begins at a multiple of it."""
    urgent: bool
    overhead_s: int = 0
    """What its checkpoint takes, and its restart (eq. 34). Urgent jobs are not interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineProblem:
    """The jobs, and how many blocks the machine has."""

    jobs: tuple[OfflineJob, ...]
    machine_blocks: int

    def __post_init__(self) -> None:
        """Raises `ValueError` for a job that does not fit, or that takes no time."""
        for job in self.jobs:
            if job.blocks < 1 or job.blocks > self.machine_blocks or self.machine_blocks % job.blocks:
                raise ValueError(
                    f"job {job.job_id}: {job.blocks} blocks; accepted: a divisor of {self.machine_blocks}"
                )
            if job.runtime_s < 1 or job.submit_s < 0 or job.overhead_s < 0:
                raise ValueError(f"job {job.job_id}: times are whole seconds, the runtime at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedJob:
    """Where and when a job runs."""

    job_id: str
    first_block: int
    parts: tuple[tuple[int, int], ...]
    """Start and end of each part, in seconds; two if it is interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineSchedule:
    """The best schedule found."""

    placed: tuple[PlacedJob, ...]
    """In the order of the problem's jobs."""
    batch_slowdown: float
    """Average of the batch jobs; 1 if there is none."""
    urgent_slowdown: float
    urgent_limit: float
    """The limit that was kept: `RTJ_LIMIT`, or the tightest looser step that some schedule keeps."""
    proof: Proof
    """Of the batch jobs' slowdown under that limit."""
    limit_proof: Proof
    """Whether the limit is proven to be the tightest step."""
    bound: float
    """No schedule under that limit has a smaller average slowdown of batch jobs."""
    wall_s: float
    """What the solver took."""


class NoSchedule(Exception):
    """The solver's time was over before it had a schedule."""


def solve_offline(
    problem: OfflineProblem,
    *,
    limit: Fraction = RTJ_LIMIT,
    time_limit_s: float = 600.0,
    workers: int = 1,
) -> OfflineSchedule:
    """The schedule that is best for batch jobs among those that keep the urgent jobs' limit.

    Where none keeps it, the limit is loosened by the least number of steps: urgent jobs can always be served
    as if there were no batch jobs, so what is possible for them alone tells how many.

    Args:
        problem: what to schedule.
        limit: of the urgent jobs' average slowdown.
        time_limit_s: for each of the two searches.
        workers: the solver's threads.

    Raises:
        SolverUnavailable: OR-Tools is not installed.
        NoSchedule: the time was over before there was any schedule.
    """
    urgent = tuple(job for job in problem.jobs if job.urgent)
    spent_s, limit_proof = 0.0, Proof.OPTIMAL
    if urgent:
        alone = _Formulation(replace(problem, jobs=urgent), objective_urgent=True).solve(
            None, time_limit_s, workers
        )
        spent_s, limit_proof = alone.wall_s, alone.proof
        least = Fraction(sum(_slowdowns(urgent, alone.placed), Fraction())) / len(urgent)
        if least > limit:
            limit += STEP * math.ceil((least - limit) / STEP)
        else:
            limit_proof = Proof.OPTIMAL
    found = _Formulation(problem, objective_urgent=False).solve(limit, time_limit_s, workers)
    return replace(found, limit_proof=limit_proof, wall_s=found.wall_s + spent_s)


def slowdown(job: OfflineJob, placed: PlacedJob) -> Fraction:
    """(end - submission) / runtime (definition 1)."""
    return Fraction(placed.parts[-1][1] - job.submit_s, job.runtime_s)


def average_slowdown(problem: OfflineProblem, placed: Sequence[PlacedJob], *, urgent: bool) -> Fraction:
    """Of the urgent, or of the batch jobs; 1 if there is none."""
    kinds = [(job, place) for job, place in zip(problem.jobs, placed, strict=True) if job.urgent is urgent]
    if not kinds:
        return Fraction(1)
    return sum((slowdown(job, place) for job, place in kinds), Fraction()) / len(kinds)


def _slowdowns(jobs: Sequence[OfflineJob], placed: Sequence[PlacedJob]) -> list[Fraction]:
    return [slowdown(job, place) for job, place in zip(jobs, placed, strict=True)]


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch in which a job runs, as variables."""

    job: int
    start: Any
    length: Any
    end: Any
    present: Any
    """None: always."""


class _Conditional(Protocol):
    """A constraint of CP-SAT, as far as it is used here; its own stub has an untyped overload."""

    def only_enforce_if(self, literal: "Literal", /) -> object:
        """Let the constraint hold only if the literal is true."""


def _only_if(literal: "Literal", constraint: _Conditional) -> None:
    constraint.only_enforce_if(literal)


class _Formulation:
    """The model of one problem."""

    def __init__(self, problem: OfflineProblem, *, objective_urgent: bool) -> None:
        self.problem = problem
        self.cp = cp_sat()
        self.model: CpModel = self.cp.CpModel()
        self.horizon = max(job.submit_s for job in problem.jobs) + sum(
            job.runtime_s + 2 * job.overhead_s for job in problem.jobs
        )
        common = math.lcm(*(job.runtime_s for job in problem.jobs))
        self.scale = common if common <= _EXACT_SCALE else _SCALE
        self.objective_urgent = objective_urgent
        self.choices = [self._choose(job) for job in problem.jobs]
        self.parts: list[_Part] = []
        self.last: list[_Part] = []
        for index, job in enumerate(problem.jobs):
            self._add_urgent(index) if job.urgent else self._add_batch(index)
        self._break_symmetry()
        self._keep_apart()
        self._total_work()

    def solve(self, limit: Fraction | None, time_limit_s: float, workers: int) -> OfflineSchedule:
        """Search. `limit` None: urgent jobs have none."""
        urgent = [index for index, job in enumerate(self.problem.jobs) if job.urgent]
        batch = [index for index, job in enumerate(self.problem.jobs) if not job.urgent]
        if limit is not None and urgent:
            self.model.add(self._slowdown_sum(urgent) <= math.floor(limit * len(urgent) * self.scale))
        counted = urgent if self.objective_urgent else batch
        if counted:
            self.model.minimize(self._slowdown_sum(counted))
        solver = self.cp.CpSolver()
        solver.parameters.num_workers = workers
        solver.parameters.max_time_in_seconds = time_limit_s
        solver.parameters.random_seed = 1
        solver.parameters.linearization_level = (
            2  # a strong relaxation: 40 times faster than the default on table 2
        )
        solver.parameters.relative_gap_limit = 0.0
        proof = proof_of(solver.solve(self.model))
        if proof not in (Proof.OPTIMAL, Proof.FEASIBLE):
            raise NoSchedule(f"the solver found no schedule within {time_limit_s:.0f} s ({proof})")
        placed = tuple(self._read(solver, index) for index in range(len(self.problem.jobs)))
        bound = solver.best_objective_bound / self.scale / len(counted) if counted else 1.0
        return OfflineSchedule(
            placed=placed,
            batch_slowdown=float(average_slowdown(self.problem, placed, urgent=False)),
            urgent_slowdown=float(average_slowdown(self.problem, placed, urgent=True)),
            urgent_limit=math.inf if limit is None else float(limit),
            proof=proof,
            limit_proof=Proof.UNKNOWN,
            bound=bound,
            wall_s=solver.wall_time,
        )

    def _choose(self, job: OfflineJob) -> "list[IntVar]":
        """Which of its aligned runs of blocks a job takes: exactly one (eq. 55)."""
        count = self.problem.machine_blocks // job.blocks
        literals = [self.model.new_bool_var("") for _ in range(count)]
        self.model.add_exactly_one(literals)
        return literals

    def _time(self, lower: int) -> "IntVar":
        return self.model.new_int_var(lower, self.horizon, "")

    def _add_urgent(self, index: int) -> None:
        """One part, from its submission on (eq. 27)."""
        job = self.problem.jobs[index]
        start = self._time(job.submit_s)
        part = _Part(index, start, job.runtime_s, start + job.runtime_s, None)
        self.parts.append(part)
        self.last.append(part)

    def _add_batch(self, index: int) -> None:
        """One part, or two with the overhead in each and room for another job between them.

        See eq. 29 to 33, 42 to 44, and 51.
        """
        job, model = self.problem.jobs[index], self.model
        smallest = -(-job.runtime_s // SMALLEST_PART)
        whole = job.runtime_s + job.overhead_s
        gap = min(
            (self._shortest(other) for at, other in enumerate(self.problem.jobs) if at != index), default=0
        )
        twice = model.new_bool_var("")
        work = model.new_int_var(smallest, job.runtime_s, "")
        _only_if(~twice, model.add(work == job.runtime_s))
        _only_if(twice, model.add(work <= job.runtime_s - smallest))
        start, end = self._time(job.submit_s), self._time(job.submit_s)
        length = model.new_int_var(smallest, whole, "")
        model.add(length == work + job.overhead_s * twice)
        model.add(end == start + length)
        again, over = self._time(job.submit_s), self._time(job.submit_s + job.runtime_s)
        rest = model.new_int_var(0, whole, "")
        model.add(rest == job.runtime_s - work + job.overhead_s * twice)
        model.add(over == again + rest)
        _only_if(~twice, model.add(again == end))
        model.add(again >= end + gap * twice)
        model.add(over >= start + job.runtime_s + (2 * job.overhead_s + gap) * twice)
        self.parts.append(_Part(index, start, length, end, None))
        second = _Part(index, again, rest, over, twice)
        self.parts.append(second)
        self.last.append(second)

    @staticmethod
    def _shortest(job: OfflineJob) -> int:
        """The shortest part that a job can have."""
        if job.urgent:
            return job.runtime_s
        return min(job.runtime_s, -(-job.runtime_s // SMALLEST_PART) + job.overhead_s)

    def _break_symmetry(self) -> None:
        """The blocks are alike: the largest job, of these the first, takes the first ones."""
        jobs = self.problem.jobs
        largest = max(range(len(jobs)), key=lambda index: (jobs[index].blocks, -index))
        self.model.add(self.choices[largest][0] == 1)

    def _apart(self, one: int, other: int) -> "IntVar | None":
        """Whether two jobs have no block in common. None: they always have one."""
        jobs, model = self.problem.jobs, self.model
        wide, slim = (one, other) if jobs[one].blocks >= jobs[other].blocks else (other, one)
        if jobs[wide].blocks == self.problem.machine_blocks:
            return None
        apart = model.new_bool_var("")
        width, size = jobs[wide].blocks, jobs[slim].blocks
        for at, here in enumerate(self.choices[wide]):
            inside = [
                literal
                for place, literal in enumerate(self.choices[slim])
                if place * size < (at + 1) * width and (place + 1) * size > at * width
            ]
            model.add_bool_or([~here, apart, *inside])
            for literal in inside:
                model.add_bool_or([~here, ~literal, ~apart])
        return apart

    def _keep_apart(self) -> None:
        """Of two parts one comes first, or their jobs share no block."""
        model, jobs, parts = self.model, self.problem.jobs, self.parts
        apart = {(one, other): self._apart(one, other) for other in range(len(jobs)) for one in range(other)}
        first: dict[tuple[int, int], Any] = {}
        for right, later in enumerate(parts):
            for left, earlier in enumerate(parts[:right]):
                if earlier.job == later.job:
                    continue
                before, after = model.new_bool_var(""), model.new_bool_var("")
                first[left, right], first[right, left] = before, after
                _only_if(before, model.add(earlier.end <= later.start))
                _only_if(after, model.add(later.end <= earlier.start))
                excuses = [
                    literal
                    for literal in (
                        apart[earlier.job, later.job],
                        *(~part.present for part in (earlier, later) if part.present is not None),
                    )
                    if literal is not None
                ]
                model.add_bool_or([before, after, *excuses])
                model.add_bool_or([~before, ~after])
                for excuse in excuses:
                    model.add_implication(excuse, ~before)
                    model.add_implication(excuse, ~after)
        for place, part in enumerate(parts):
            if part.present is not None:
                self._fill_gap(place, part, first)

    def _fill_gap(self, place: int, part: _Part, first: dict[tuple[int, int], Any]) -> None:
        """Require that a job runs between the two parts of an interrupted one: else there is no reason for
        it.
        """
        between: list[IntVar] = []
        for other, candidate in enumerate(self.parts):
            if candidate.job != part.job:
                literal = self.model.new_bool_var("")
                self.model.add_implication(literal, first[place - 1, other])
                self.model.add_implication(literal, first[other, place])
                between.append(literal)
        self.model.add_bool_or([*between, ~part.present])

    def _total_work(self) -> None:
        """No more blocks are busy at once than there are: implied, and a help to the search."""
        intervals: list[IntervalVar] = []
        demands: list[int] = []
        for part in self.parts:
            span = (part.start, part.length, part.end)
            intervals.append(
                self.model.new_interval_var(*span, "")
                if part.present is None
                else self.model.new_optional_interval_var(*span, part.present, "")
            )
            demands.append(self.problem.jobs[part.job].blocks)
        self.model.add_cumulative(intervals, demands, self.problem.machine_blocks)

    def _slowdown_sum(self, indices: list[int]) -> Any:
        """The sum of the slowdowns of these jobs, in units of 1 / scale (eq. 36 and 37)."""
        jobs = self.problem.jobs
        return sum(
            (self.scale // jobs[index].runtime_s) * (self.last[index].end - jobs[index].submit_s)
            for index in indices
        )

    def _read(self, solver: Any, index: int) -> PlacedJob:
        """What the solver decided for one job."""
        job = self.problem.jobs[index]
        place = next(at for at, literal in enumerate(self.choices[index]) if solver.value(literal))
        parts = [
            (int(solver.value(part.start)), int(solver.value(part.end)))
            for part in self.parts
            if part.job == index and (part.present is None or solver.value(part.present))
        ]
        return PlacedJob(job_id=job.job_id, first_block=place * job.blocks, parts=tuple(parts))
