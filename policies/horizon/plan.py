"""The planning problem of a horizon: waiting jobs with due dates on a machine of identical nodes, and plans
for them.

A plan gives every waiting job a start: in the order of the plan, each job starts as early as it can without
delaying a job before it. The due dates come from a survey of response times that users accept, a linear
function of the job's length.

Reference:
    Schlagkamp et al., "Increasing Waiting Time Satisfaction in Parallel Job Scheduling via a Flexible MILP
    Approach" (HPCS 2016), section V: table I, eq. 20 to 24, and the filter of section V-C.

Differs from the paper:
    Eq. 22 as printed subtracts the processing time twice if r(p) is a response time: by default a job is due
    at max(r(p), p) after its submission, and `Reading.PRINTED` is the equation as printed. Processing times
    are the jobs' time limits, because a scheduler knows nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush

from makeway.policies.queue.profile import Profile


class AcceptanceCurve(StrEnum):
    """Which users' accepted response times are used (table I)."""

    MEDIAN = "median"
    UPPER = "upper"  # the .75-quantile: users who accept longer times
    LOWER = "lower"  # the .25-quantile


class Reading(StrEnum):
    """The reading of eq. 22."""

    RESPONSE = "response"  # r(p) limits the response time: due at max(r(p), p)
    PRINTED = "printed"  # as printed: due at max(r(p) - p, p)


COEFFICIENTS = {
    AcceptanceCurve.MEDIAN: (1.70, 29.51),
    AcceptanceCurve.UPPER: (2.28, 215.75),
    AcceptanceCurve.LOWER: (1.14, -166.19),
}
"""c1 and c2 of eq. 21, c2 in minutes."""


def acceptable_s(run_s: float, curve: AcceptanceCurve, reading: Reading = Reading.RESPONSE) -> float:
    """The response time that users accept for a job of that length, in seconds (eq. 21 and 22)."""
    slope, minutes = COEFFICIENTS[curve]
    accepted_s = slope * run_s + 60.0 * minutes
    if reading is Reading.PRINTED:
        accepted_s -= run_s
    return max(accepted_s, run_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanJob:
    """A waiting job. Times are whole seconds from the instant of planning."""

    job_id: str
    node_count: int
    length_s: int
    due_s: int
    """When it should be done; below 0 if that has passed."""

    @property
    def hopeless(self) -> bool:
        """Whether it is late under any schedule (section V-C)."""
        return self.length_s > self.due_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Nodes that are not available before `until_s`, in whole seconds from the instant of planning."""

    node_count: int
    until_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The objective, to be minimised: a weighted sum (eq. 14)."""

    late: int = 0
    """For each late job: sum of U (eq. 23)."""
    tardiness: int = 1
    """For each second that a job is late: sum of T (eq. 24)."""
    makespan: int = 0
    """For each second until the last job is done: C_max."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for weights that are negative or all 0."""
        weights = (self.late, self.tardiness, self.makespan)
        if min(weights) < 0 or not any(weights):
            raise ValueError(f"weights {weights}: none may be negative, and one must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProblem:
    """The jobs to be planned, and the machine."""

    jobs: tuple[PlanJob, ...]
    """In the order of the queue."""
    node_count: int
    """The number of nodes of the machine."""
    taken: tuple[Taken, ...] = ()
    """The nodes of running jobs."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for jobs that can never run."""
        for job in self.jobs:
            if not 1 <= job.node_count <= self.node_count or job.length_s < 1:
                raise ValueError(
                    f"job {job.job_id}: {job.node_count} nodes for {job.length_s} s "
                    f"on {self.node_count} nodes"
                )

    @property
    def horizon_s(self) -> int:
        """The latest end of any plan without needless gaps."""
        return max((taken.until_s for taken in self.taken), default=0) + sum(
            job.length_s for job in self.jobs
        )


Starts = tuple[int, ...]
"""The start of every job of a problem, in the problem's order."""


def listed(problem: PlanProblem, order: Sequence[int]) -> Starts:
    """Each job in this order as early as possible without delaying a job before it (conservative
    backfilling).

    Args:
        problem: the jobs.
        order: indices into `problem.jobs`, each once.
    """
    profile = _profile(problem)
    starts = [0] * len(problem.jobs)
    for index in order:
        job = problem.jobs[index]
        starts[index] = int(profile.place(job.node_count, job.length_s))
    return tuple(starts)


def conservative(problem: PlanProblem) -> Starts:
    """The order of the queue, backfilled conservatively: the paper compares with it and calls it EASY
    (section V).
    """
    return listed(problem, range(len(problem.jobs)))


def easy(problem: PlanProblem) -> Starts:
    """The order of the queue under EASY backfilling, which reserves nodes for the first job only."""
    releases = sorted((taken.until_s, taken.node_count) for taken in problem.taken)
    free = problem.node_count - sum(taken.node_count for taken in problem.taken)
    starts = [0] * len(problem.jobs)
    queue = list(range(len(problem.jobs)))
    now_s = 0
    while queue:
        while releases and releases[0][0] <= now_s:
            free += releases.pop(0)[1]
        for index in _easy_pass(problem, queue, free, releases, now_s):
            job = problem.jobs[index]
            starts[index] = now_s
            free -= job.node_count
            releases.append((now_s + job.length_s, job.node_count))
            queue.remove(index)
        releases.sort()
        if queue:
            now_s = releases[0][0]
    return tuple(starts)


def _easy_pass(
    problem: PlanProblem, queue: list[int], free: int, releases: list[tuple[int, int]], now_s: int
) -> list[int]:
    """The jobs that start now, as indices."""
    jobs = problem.jobs
    started: list[int] = []
    waiting = list(queue)
    running = list(releases)
    while waiting and jobs[waiting[0]].node_count <= free:
        first = waiting.pop(0)
        started.append(first)
        free -= jobs[first].node_count
        running.append((now_s + jobs[first].length_s, jobs[first].node_count))
    if not waiting:
        return started
    shadow_s, there = now_s, free
    for at_s, count in sorted(running):
        if there >= jobs[waiting[0]].node_count and at_s > shadow_s:
            break
        there, shadow_s = there + count, at_s
    extra = there - jobs[waiting[0]].node_count
    for index in waiting[1:]:
        job = jobs[index]
        in_time = now_s + job.length_s <= shadow_s
        if job.node_count <= free and (in_time or job.node_count <= extra):
            started.append(index)
            free -= job.node_count
            extra -= 0 if in_time else job.node_count
    return started


def improved(problem: PlanProblem, starts: Starts) -> Starts:
    """The same order of starts without needless gaps: no job starts later."""
    return listed(problem, by_start(starts))


def by_start(starts: Starts) -> list[int]:
    """The indices of the jobs in the order of their starts, equal starts in the order of the queue."""
    return sorted(range(len(starts)), key=lambda index: (starts[index], index))


def tardiness_s(job: PlanJob, start_s: int) -> int:
    """How late the job is done, in seconds; 0 if in time (eq. 24)."""
    return max(0, start_s + job.length_s - job.due_s)


def late_count(problem: PlanProblem, starts: Starts) -> int:
    """How many jobs are late (eq. 23); those that are late under any schedule count."""
    return sum(tardiness_s(job, start) > 0 for job, start in zip(problem.jobs, starts, strict=True))


def tardiness_sum_s(problem: PlanProblem, starts: Starts) -> int:
    """The sum of all jobs' tardiness in seconds (eq. 24)."""
    return sum(tardiness_s(job, start) for job, start in zip(problem.jobs, starts, strict=True))


def makespan_s(problem: PlanProblem, starts: Starts) -> int:
    """When the last job is done; 0 if there are no jobs."""
    return max((start + job.length_s for job, start in zip(problem.jobs, starts, strict=True)), default=0)


def value_of(problem: PlanProblem, starts: Starts, objective: Objective) -> int:
    """A plan's value of the objective; lower is better (eq. 14)."""
    value = 0
    if objective.late:
        value += objective.late * late_count(problem, starts)
    if objective.tardiness:
        value += objective.tardiness * tardiness_sum_s(problem, starts)
    if objective.makespan:
        value += objective.makespan * makespan_s(problem, starts)
    return value


def least_value(problem: PlanProblem, objective: Objective) -> int:
    """A lower bound of all plans' values: every job starts as if it were alone; the number of late jobs see
    `in_time_at_best`.
    """
    soonest = tuple(int(_profile(problem).place(job.node_count, job.length_s)) for job in problem.jobs)
    more = len(problem.jobs) - len(in_time_at_best(problem)) - late_count(problem, soonest)
    return value_of(problem, soonest, objective) + objective.late * max(0, more)


def in_time_at_best(problem: PlanProblem) -> list[int]:
    """A largest set of jobs that would be in time if work could be divided freely over the nodes, by due
    date.

    No plan has more jobs in time. This is Moore and Hodgson's rule, with work in place of time, and the
    machine's capacity until a due date in place of the due date. Jobs that are late under any schedule are
    not in the set.
    """
    jobs = problem.jobs
    hopeful = [index for index, job in enumerate(jobs) if not job.hopeless]
    kept: list[tuple[int, int]] = []
    work = 0
    for index in sorted(hopeful, key=lambda index: (jobs[index].due_s, index)):
        job = jobs[index]
        heappush(kept, (-job.node_count * job.length_s, index))
        work += job.node_count * job.length_s
        if work > _capacity(problem, job.due_s):
            work += heappop(kept)[0]
    return sorted((index for _, index in kept), key=lambda index: (jobs[index].due_s, index))


def _capacity(problem: PlanProblem, until_s: int) -> int:
    """The node-seconds that are available before `until_s`."""
    gone = sum(taken.node_count * min(taken.until_s, until_s) for taken in problem.taken)
    return problem.node_count * until_s - gone


def is_feasible(problem: PlanProblem, starts: Starts) -> bool:
    """Whether the plan never uses more nodes than there are, and no job starts before now."""
    steps = [(taken.until_s, -taken.node_count) for taken in problem.taken]
    busy = sum(taken.node_count for taken in problem.taken)
    for job, start in zip(problem.jobs, starts, strict=True):
        steps += [(start, job.node_count), (start + job.length_s, -job.node_count)]
    for at_s, change in sorted(steps):
        busy += change
        if busy > problem.node_count or at_s < 0:
            return False
    return True


def rules(problem: PlanProblem) -> list[Starts]:
    """Plans by simple rules, the first one EASY's. The search begins with the best of them.

    The rules: the order of the queue under EASY and conservative backfilling, and lists by due date, length
    and work, and with the jobs of `in_time_at_best` first.
    """
    jobs = problem.jobs
    keys = [
        [(job.hopeless, job.due_s - job.length_s) for job in jobs],
        [(job.hopeless, job.due_s) for job in jobs],
        [(job.hopeless, job.length_s * job.node_count) for job in jobs],
        [(False, job.length_s) for job in jobs],
        [(False, job.length_s * job.node_count) for job in jobs],
        [(False, -job.length_s * job.node_count) for job in jobs],
    ]
    orders = [sorted(range(len(jobs)), key=key.__getitem__) for key in keys]
    first = in_time_at_best(problem)
    orders.append(first + [index for index in range(len(jobs)) if index not in set(first)])
    return [easy(problem), conservative(problem), *(listed(problem, order) for order in orders)]


def _profile(problem: PlanProblem) -> Profile:
    """The number of free nodes over time."""
    free = problem.node_count - sum(taken.node_count for taken in problem.taken)
    releases = sorted((float(taken.until_s), 0, taken.node_count) for taken in problem.taken)
    return Profile(0.0, free, releases)
