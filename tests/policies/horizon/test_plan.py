"""The planning problem: due dates, plans by rules, and the solver against exhaustive search."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.horizon.cp_sat import Proof
from makeway.policies.horizon.plan import (
    AcceptanceCurve,
    Objective,
    PlanJob,
    PlanProblem,
    Reading,
    Taken,
    acceptable_s,
    by_start,
    conservative,
    easy,
    in_time_at_best,
    is_feasible,
    late_count,
    least_value,
    listed,
    makespan_s,
    rules,
    tardiness_sum_s,
    value_of,
)
from makeway.policies.horizon.solver import Effort, solve


def job(job_id: str, node_count: int, length_s: int, due_s: int = 10**6) -> PlanJob:
    return PlanJob(job_id=job_id, node_count=node_count, length_s=length_s, due_s=due_s)


@st.composite
def problems(draw: st.DrawFn, most: int = 5) -> PlanProblem:
    """A few jobs on a small machine, part of which is taken."""
    node_count = draw(st.integers(1, 6))
    jobs = tuple(
        job(
            f"j{index}",
            draw(st.integers(1, node_count)),
            draw(st.integers(1, 12)),
            draw(st.integers(-5, 30)),
        )
        for index in range(draw(st.integers(1, most)))
    )
    left, taken = node_count, []
    while left and draw(st.booleans()):
        size = draw(st.integers(1, left))
        left -= size
        taken.append(Taken(node_count=size, until_s=draw(st.integers(0, 15))))
    return PlanProblem(jobs=jobs, node_count=node_count, taken=tuple(taken))


objectives = st.sampled_from(
    [
        Objective(late=1, tardiness=0),
        Objective(tardiness=1),
        Objective(tardiness=0, makespan=1),
        Objective(late=7, tardiness=2, makespan=1),
    ]
)


@settings(deadline=None, max_examples=120)
@given(problem=problems(), objective=objectives)
def test_the_solver_finds_what_exhaustive_search_finds(problem: PlanProblem, objective: Objective) -> None:
    """Some order of placing each job as early as it fits is best, as the objectives never gain by a delay."""
    orders = permutations(range(len(problem.jobs)))
    best = min(value_of(problem, listed(problem, order), objective) for order in orders)
    found = solve(problem, objective)
    assert found.proof is Proof.OPTIMAL
    assert (found.value, found.bound, found.gap) == (best, best, 0.0)
    assert value_of(problem, found.starts, objective) == best
    assert is_feasible(problem, found.starts)
    assert found.value <= found.easy_value == value_of(problem, easy(problem), objective)
    assert solve(problem, objective).starts == found.starts


@settings(deadline=None, max_examples=40)
@given(problem=problems(most=12), objective=objectives)
def test_with_hardly_any_effort_no_plan_is_worse_than_any_rule(
    problem: PlanProblem, objective: Objective
) -> None:
    found = solve(problem, objective, Effort(work=1e-4))
    assert is_feasible(problem, found.starts)
    assert found.value == value_of(problem, found.starts, objective)
    assert found.bound <= found.value <= min(value_of(problem, plan, objective) for plan in rules(problem))
    assert found.bound >= least_value(problem, objective)


@settings(deadline=None, max_examples=150)
@given(problem=problems(most=8))
def test_every_rule_gives_a_plan_that_fits_the_machine(problem: PlanProblem) -> None:
    assert all(is_feasible(problem, plan) for plan in rules(problem))
    assert rules(problem)[0] == easy(problem)


@settings(deadline=None, max_examples=150)
@given(problem=problems())
def test_no_order_has_more_jobs_in_time_than_the_bound(problem: PlanProblem) -> None:
    orders = permutations(range(len(problem.jobs)))
    fewest = min(late_count(problem, listed(problem, order)) for order in orders)
    assert len(problem.jobs) - len(in_time_at_best(problem)) <= fewest
    assert not any(problem.jobs[index].hopeless for index in in_time_at_best(problem))


def test_the_job_with_most_work_is_left_out_of_the_bound() -> None:
    problem = PlanProblem(
        jobs=(job("big", 2, 10, 12), job("a", 2, 5, 12), job("b", 1, 7, 12), job("late", 1, 9, 8)),
        node_count=2,
        taken=(Taken(node_count=1, until_s=2),),
    )
    assert in_time_at_best(problem) == [1, 2]
    assert least_value(problem, Objective(late=1, tardiness=0)) == 2


def test_easy_lets_a_later_job_pass_that_conservative_does_not() -> None:
    problem = PlanProblem(
        jobs=(job("head", 4, 10), job("second", 3, 10), job("third", 1, 30)),
        node_count=4,
        taken=(Taken(node_count=3, until_s=5),),
    )
    assert conservative(problem) == (5, 15, 15)
    assert easy(problem) == (5, 15, 15)
    smaller = PlanProblem(
        jobs=(job("head", 3, 10), job("second", 4, 10), job("third", 1, 30)),
        node_count=4,
        taken=(Taken(node_count=3, until_s=5),),
    )
    assert conservative(smaller) == (5, 15, 25)
    assert easy(smaller) == (5, 30, 0), "it delays the second job, which is not the first of the queue"


@pytest.mark.parametrize(
    ("curve", "reading", "minutes", "accepted"),
    [
        (AcceptanceCurve.MEDIAN, Reading.RESPONSE, 60, 131.51),
        (AcceptanceCurve.MEDIAN, Reading.PRINTED, 60, 71.51),
        (AcceptanceCurve.MEDIAN, Reading.PRINTED, 600, 600.0),
        (AcceptanceCurve.UPPER, Reading.RESPONSE, 60, 352.55),
        (AcceptanceCurve.LOWER, Reading.RESPONSE, 60, 60.0),
        (AcceptanceCurve.LOWER, Reading.RESPONSE, 6000, 6673.81),
    ],
)
def test_accepted_response_times_are_those_of_table_1(
    curve: AcceptanceCurve, reading: Reading, minutes: float, accepted: float
) -> None:
    assert acceptable_s(60 * minutes, curve, reading) == pytest.approx(60 * accepted)


def test_the_measures_of_a_plan() -> None:
    problem = PlanProblem(jobs=(job("a", 1, 10, 8), job("b", 1, 5, 20), job("c", 1, 5, 12)), node_count=1)
    starts = conservative(problem)
    assert starts == (0, 10, 15)
    assert late_count(problem, starts) == 2
    assert tardiness_sum_s(problem, starts) == 2 + 8
    assert makespan_s(problem, starts) == 20
    assert [one.hopeless for one in problem.jobs] == [True, False, False]
    assert value_of(problem, starts, Objective(late=100, tardiness=2, makespan=3)) == 200 + 20 + 60
    assert by_start((15, 0, 5)) == [1, 2, 0]


def test_a_job_that_is_late_anyway_comes_last_where_late_jobs_count() -> None:
    problem = PlanProblem(jobs=(job("late", 2, 10, 5), job("soon", 2, 5, 6)), node_count=2)
    found = solve(problem, Objective(late=1, tardiness=0))
    assert [problem.jobs[index].job_id for index in by_start(found.starts)] == ["soon", "late"]
    assert (found.value, found.easy_value) == (1, 2)


def test_what_is_no_problem_is_refused() -> None:
    with pytest.raises(ValueError, match="job big: 3 nodes for 5 s on 2 nodes"):
        PlanProblem(jobs=(job("big", 3, 5),), node_count=2)
    with pytest.raises(ValueError, match="one must be above 0"):
        Objective(tardiness=0)
    with pytest.raises(ValueError, match="work and time above 0"):
        Effort(work=0.0)
