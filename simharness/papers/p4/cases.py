"""P4's scenarios, planned: the queue and the machine of a trace at an instant; and successive horizons.

Reference:
    Schlagkamp et al., "Increasing Waiting Time Satisfaction in Parallel Job Scheduling via a Flexible MILP
    Approach" (HPCS 2016), sections V-B (eq. 25 to 27) and V-C.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

from makeway.policies.horizon.cp_sat import Proof
from makeway.policies.horizon.plan import (
    AcceptanceCurve,
    Objective,
    PlanJob,
    PlanProblem,
    Starts,
    Taken,
    acceptable_s,
    conservative,
    easy,
    late_count,
    makespan_s,
    tardiness_sum_s,
)
from makeway.policies.horizon.solver import Effort, solve
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.run.experiment import Experiment, Workload, run
from makeway.simharness.workloads.job import SimJob
from makeway.simharness.workloads.swf import SwfReader
from makeway.simharness.workloads.trace import Trace, read_trace

TRACES = {"KTH": "KTH-SP2-1996-2.1-cln.swf.gz", "Mira": "ANL-Mira-2018-wk1.swf.gz"}
LATE, TARDINESS = "late", "tardiness"
OBJECTIVES = {LATE: Objective(late=1, tardiness=0), TARDINESS: Objective(tardiness=1)}
PAPER_LIMIT_S = {LATE: 600.0, TARDINESS: 3600.0}
"""The paper's time limits (sections V-C)."""
CURVES = (AcceptanceCurve.MEDIAN, AcceptanceCurve.UPPER)
"""Those that the paper evaluates."""
SMALLEST_QUEUE = 5
SCALE = {LATE: 1000, TARDINESS: 100}
"""Queues far longer than the paper's 350 and 30."""
LONG_QUEUE_SHARE = 0.25
"""Of the effort: what the solver takes for one is more by the clock than by its own measure."""
MONTH_FROM_DAY = 120
BASE = "none"
HORIZON = "horizon"
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class P4Trial:
    """One scenario to plan."""

    traces: Path
    trace: str
    seed: int
    curve: str
    objective: str
    work: float
    """The solver's effort."""
    queue_size: int | None = None
    """This number of the trace's jobs, submitted at once to an empty machine. None: the queue at an
    instant.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFigures:
    """What a plan comes to."""

    late: int
    """Late jobs, those that are late under any schedule included."""
    tardiness_s: int
    makespan_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class P4Result:
    """One scenario, planned."""

    trace: str
    seed: int
    curve: str
    objective: str
    scale: bool
    """Whether it is one of the long queues."""
    jobs: int
    hopeless: int
    """Jobs that are late under any schedule."""
    easy: PlanFigures
    conservative: PlanFigures
    """What the paper compares with, and calls EASY."""
    ours: PlanFigures
    bound: int
    """No plan has a smaller objective."""
    proven: bool
    wall_s: float

    def value(self, figures: PlanFigures) -> int:
        """The objective of a plan."""
        return figures.late if self.objective == LATE else figures.tardiness_s

    @property
    def gap(self) -> float:
        """(value - bound) / value."""
        value = self.value(self.ours)
        return (value - self.bound) / value if value > self.bound else 0.0

    def improvement(self, base: PlanFigures) -> float | None:
        """By which share the objective is smaller than in another plan. None: it is 0 there already."""
        return self._share(self.value(self.ours), base)

    def possible(self, base: PlanFigures) -> float | None:
        """By which share it could be smaller at most, as far as is proven. None: it is 0 there already."""
        return self._share(self.bound, base)

    def _share(self, value: int, base: PlanFigures) -> float | None:
        base_value = self.value(base)
        return (base_value - value) / base_value if base_value else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthTrial:
    """One replay of horizons one after another, or of the scheduler alone."""

    traces: Path
    days: int
    curve: str
    objective: str
    policy: str
    work: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthResult:
    """What a replay came to."""

    days: int
    curve: str
    objective: str
    policy: str
    jobs: int
    late: int
    """Jobs whose response time was longer than is accepted."""
    tardiness_mean_h: float
    wait_mean_h: float
    wait_max_h: float
    slowdown_mean: float
    """Bounded by 10 s."""
    moved: int
    """How many places in the queue were given."""


def trials(traces: Path, seeds: Sequence[int], work: float) -> list[P4Trial]:
    """Every scenario under both curves and objectives, then the long queues of the first trace."""
    asked = [
        P4Trial(traces=traces, trace=trace, seed=seed, curve=curve, objective=objective, work=work)
        for trace in TRACES
        for seed in seeds
        for curve in CURVES
        for objective in OBJECTIVES
    ]
    asked += [
        P4Trial(
            traces=traces,
            trace="KTH",
            seed=0,
            curve=curve,
            objective=objective,
            work=work * LONG_QUEUE_SHARE,
            queue_size=SCALE[objective],
        )
        for objective in OBJECTIVES
        for curve in CURVES
    ]
    return asked


def month_trials(traces: Path, days: int, work: float) -> list[MonthTrial]:
    """The scheduler alone and horizons, under both objectives and curves."""
    return [
        MonthTrial(traces=traces, days=days, curve=curve, objective=objective, policy=policy, work=work)
        for curve in CURVES
        for objective in OBJECTIVES
        for policy in (BASE, HORIZON)
    ]


def compute(trial: P4Trial) -> P4Result:
    """Make the scenario and plan it.

    Raises:
        TraceError: the trace cannot be read.
        SolverUnavailable: OR-Tools is not installed.
    """
    problem = problem_of(trial)
    effort = Effort(work=trial.work, time_limit_s=PAPER_LIMIT_S[trial.objective])
    found = solve(problem, OBJECTIVES[trial.objective], effort)
    return P4Result(
        trace=trial.trace,
        seed=trial.seed,
        curve=trial.curve,
        objective=trial.objective,
        scale=trial.queue_size is not None,
        jobs=len(problem.jobs),
        hopeless=sum(job.hopeless for job in problem.jobs),
        easy=_figures(problem, easy(problem)),
        conservative=_figures(problem, conservative(problem)),
        ours=_figures(problem, found.starts),
        bound=found.bound,
        proven=found.proof is Proof.OPTIMAL,
        wall_s=found.wall_s,
    )


def _figures(problem: PlanProblem, starts: Starts) -> PlanFigures:
    return PlanFigures(
        late=late_count(problem, starts),
        tardiness_s=tardiness_sum_s(problem, starts),
        makespan_s=makespan_s(problem, starts),
    )


def problem_of(trial: P4Trial) -> PlanProblem:
    """The planning problem that a trial poses."""
    path = trial.traces / TRACES[trial.trace]
    trace = _trace(path)
    curve = AcceptanceCurve(trial.curve)
    random = Random(trial.seed)
    if trial.queue_size is not None:
        first = random.randrange(max(1, len(trace.jobs) - trial.queue_size))
        queue = trace.jobs[first : first + trial.queue_size]
        jobs = tuple(_plan_job(job, 0.0, curve) for job in queue)
        return PlanProblem(jobs=jobs, node_count=trace.node_count)
    starts_s = _recorded_starts_s(path)
    instants = [job.submit_s for job in trace.jobs]
    while True:
        at_s = random.choice(instants)
        problem = scenario(trace, starts_s, at_s, curve)
        if problem is not None and len(problem.jobs) >= SMALLEST_QUEUE:
            return problem


@lru_cache(maxsize=1)
def _trace(path: Path) -> Trace:
    """Read once for all the scenarios of a trace."""
    return read_trace(path)


@lru_cache(maxsize=1)
def _recorded_starts_s(path: Path) -> dict[str, float]:
    """The recorded starts of a trace, read once for all its scenarios."""
    return recorded_starts_s(path, _trace(path))


def recorded_starts_s(path: Path, trace: Trace) -> dict[str, float]:
    """When each job started in the trace's own record. Jobs whose wait is unknown are left out."""
    waits_s = dict(_waits(path))
    return {job.job_id: job.submit_s + waits_s[job.job_id] for job in trace.jobs if job.job_id in waits_s}


def _waits(path: Path) -> Iterator[tuple[str, float]]:
    for columns in SwfReader(path=path, skip_bad=False).blocks():
        for job_id, wait_s in zip(columns.job_id, columns.wait_s, strict=True):
            if wait_s >= 0:
                yield job_id, wait_s


def scenario(
    trace: Trace, starts_s: dict[str, float], at_s: float, curve: AcceptanceCurve
) -> PlanProblem | None:
    """Queue and machine at an instant (eq. 25 to 27).

    None: by the record more nodes were busy then than there are.
    """
    queue: list[PlanJob] = []
    taken: list[Taken] = []
    for job in trace.jobs:
        if job.submit_s > at_s:
            break
        start_s = starts_s.get(job.job_id)
        if start_s is None:
            continue
        if start_s > at_s:
            queue.append(_plan_job(job, at_s - job.submit_s, curve))
        elif start_s + job.runtime_s > at_s:
            left_s = max(1, math.ceil(start_s + job.walltime_s - at_s))
            taken.append(Taken(node_count=job.node_count, until_s=left_s))
    if sum(one.node_count for one in taken) > trace.node_count:
        return None
    return PlanProblem(jobs=tuple(queue), node_count=trace.node_count, taken=tuple(taken))


def _plan_job(job: SimJob, waited_s: float, curve: AcceptanceCurve) -> PlanJob:
    length_s = max(1, math.ceil(job.walltime_s))
    return PlanJob(
        job_id=job.job_id,
        node_count=job.node_count,
        length_s=length_s,
        due_s=math.floor(acceptable_s(length_s, curve) - waited_s),
    )


def compute_month(trial: MonthTrial) -> MonthResult:
    """Replay some days of KTH.

    Raises:
        TraceError: the trace cannot be read.
        SolverUnavailable: OR-Tools is not installed.
    """
    trace = _trace(trial.traces / TRACES["KTH"])
    from_s = MONTH_FROM_DAY * _DAY_S
    jobs = [job for job in trace.jobs if from_s <= job.submit_s < from_s + trial.days * _DAY_S]
    weights = OBJECTIVES[trial.objective]
    settings = {
        "curve": trial.curve,
        "late_weight": weights.late,
        "tardiness_weight": weights.tardiness,
        "work": trial.work,
    }
    experiment = Experiment(
        trace=trace.name,
        policy=trial.policy,
        policy_settings=settings if trial.policy == HORIZON else {},
    )
    record = run(experiment, Workload(name=trace.name, node_count=trace.node_count, jobs=jobs))
    return month_of(trial, record)


def month_of(trial: MonthTrial, record: ReplayRecord) -> MonthResult:
    """The figures of a replay; every job of it is done."""
    curve = AcceptanceCurve(trial.curve)
    late, tardiness_s = 0, 0.0
    waits_s: list[float] = []
    slowdowns: list[float] = []
    for one in record.jobs:
        assert one.start_s is not None
        assert one.end_s is not None
        over_s = one.end_s - one.job.submit_s - acceptable_s(one.job.walltime_s, curve)
        late += over_s > 0
        tardiness_s += max(0.0, over_s)
        waits_s.append(one.start_s - one.job.submit_s)
        least_s = max(10.0, one.job.runtime_s)
        slowdowns.append((waits_s[-1] + least_s) / least_s)
    count = len(record.jobs)
    return MonthResult(
        days=trial.days,
        curve=trial.curve,
        objective=trial.objective,
        policy=trial.policy,
        jobs=count,
        late=late,
        tardiness_mean_h=tardiness_s / count / 3600.0,
        wait_mean_h=sum(waits_s) / count / 3600.0,
        wait_max_h=max(waits_s) / 3600.0,
        slowdown_mean=sum(slowdowns) / count,
        moved=record.commands.get("prioritise", 0),
    )
