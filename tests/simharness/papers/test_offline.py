"""The offline optimum against exhaustive search, and what its schedules must keep."""

import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.policies.horizon.cp_sat import Proof, SolverUnavailable
from makeway.policies.model import JobKind
from makeway.simharness.papers.p1_offline.logs import TABLE_2, as_partitions, as_workload, random_log
from makeway.simharness.papers.p1_offline.optimum import (
    OfflineJob,
    OfflineProblem,
    OfflineSchedule,
    PlacedJob,
    average_slowdown,
    solve_offline,
)


def job(
    job_id: str, submit_s: int, runtime_s: int, blocks: int = 1, overhead: int | None = None
) -> OfflineJob:
    """A batch job with an overhead, or an urgent job without one."""
    return OfflineJob(
        job_id=job_id,
        submit_s=submit_s,
        runtime_s=runtime_s,
        blocks=blocks,
        urgent=overhead is None,
        overhead_s=overhead or 0,
    )


def works(job: OfflineJob) -> Iterator[tuple[int, ...]]:
    """The lengths of the parts that a job may have: eq. 51 and 54, with the overheads."""
    yield (job.runtime_s,)
    if not job.urgent:
        least = -(-job.runtime_s // 10)
        for first in range(least, job.runtime_s - least + 1):
            yield (first + job.overhead_s, job.runtime_s - first + job.overhead_s)


def exhaustive(problem: OfflineProblem, limit: Fraction) -> Fraction | None:
    """The least average slowdown of batch jobs. None: no schedule keeps the limit.

    Every schedule, read in the order of its starts and moved to the left, is among those that are built here.
    """
    best: Fraction | None = None
    places = [range(0, problem.machine_blocks, job.blocks) for job in problem.jobs]
    for blocks in product(*places):
        for lengths in product(*(tuple(works(job)) for job in problem.jobs)):
            parts = [index for index, mine in enumerate(lengths) for _ in mine]
            for order in set(permutations(parts)):
                placed = in_order(problem, blocks, lengths, order)
                if average_slowdown(problem, placed, urgent=True) <= limit:
                    found = average_slowdown(problem, placed, urgent=False)
                    best = found if best is None else min(best, found)
    return best


def in_order(
    problem: OfflineProblem,
    blocks: tuple[int, ...],
    lengths: tuple[tuple[int, ...], ...],
    order: tuple[int, ...],
) -> list[PlacedJob]:
    """Each part as early as those before it allow."""
    free = [0] * problem.machine_blocks
    parts: list[list[tuple[int, int]]] = [[] for _ in problem.jobs]
    for index in order:
        job = problem.jobs[index]
        mine = range(blocks[index], blocks[index] + job.blocks)
        start = max(job.submit_s, *(free[block] for block in mine))
        end = start + lengths[index][len(parts[index])]
        parts[index].append((start, end))
        for block in mine:
            free[block] = end
    return [
        PlacedJob(job_id=job.job_id, first_block=blocks[index], parts=tuple(parts[index]))
        for index, job in enumerate(problem.jobs)
    ]


@st.composite
def problems(draw: st.DrawFn) -> OfflineProblem:
    """One or two urgent jobs and one or two batch jobs on two blocks, all of them short."""
    batch = draw(st.integers(1, 2))
    urgent = draw(st.integers(1, 3 - batch))
    jobs = tuple(
        job(
            str(index),
            draw(st.integers(0, 4)),
            draw(st.integers(2, 5)),
            draw(st.sampled_from([1, 2])),
            None if index >= batch else draw(st.integers(0, 1)),
        )
        for index in range(batch + urgent)
    )
    return OfflineProblem(jobs=jobs, machine_blocks=2)


@settings(deadline=None, max_examples=60)
@given(problem=problems())
def test_the_optimum_is_that_of_exhaustive_search(problem: OfflineProblem) -> None:
    found = solve_offline(problem, limit=Fraction(6, 5))
    assert (found.proof, found.limit_proof) == (Proof.OPTIMAL, Proof.OPTIMAL)
    check(problem, found)
    limit = Fraction(6, 5)
    while (wanted := exhaustive(problem, limit)) is None:
        limit += Fraction(1, 10)
    assert found.urgent_limit == float(limit)
    assert found.batch_slowdown == pytest.approx(float(wanted), abs=1e-9)
    assert found.bound == pytest.approx(float(wanted), abs=1e-6)


def check(problem: OfflineProblem, found: OfflineSchedule) -> None:
    """Aligned blocks, no two jobs on one at once, all the work done, parts of a tenth at least, and the limit
    kept.
    """
    assert [place.job_id for place in found.placed] == [job.job_id for job in problem.jobs]
    busy: list[tuple[int, int, int]] = []
    for job, place in zip(problem.jobs, found.placed, strict=True):
        assert place.first_block % job.blocks == 0
        assert place.first_block + job.blocks <= problem.machine_blocks
        assert place.parts[0][0] >= job.submit_s
        overhead = job.overhead_s if len(place.parts) == 2 else 0
        worked = [end - start - overhead for start, end in place.parts]
        assert sum(worked) == job.runtime_s
        assert len(place.parts) == 1 or (
            not job.urgent and len(place.parts) == 2 and min(worked) * 10 >= job.runtime_s
        )
        busy += [
            (block, start, end)
            for block in range(place.first_block, place.first_block + job.blocks)
            for start, end in place.parts
        ]
    busy.sort()
    for (block, _, end), (other, start, _) in pairwise(busy):
        assert block != other or end <= start
    assert average_slowdown(problem, found.placed, urgent=True) <= found.urgent_limit + 1e-9


@pytest.mark.parametrize(("batch", "urgent", "blocks"), TABLE_2)
def test_the_rows_of_table_2_are_proven(batch: int, urgent: int, blocks: int) -> None:
    problem = random_log(batch, urgent, blocks, seed=0)
    found = solve_offline(problem, time_limit_s=120.0)
    assert (found.proof, found.limit_proof) == (Proof.OPTIMAL, Proof.OPTIMAL)
    assert found.bound == pytest.approx(found.batch_slowdown, abs=1e-4)
    check(problem, found)


def test_an_interruption_costs_its_overhead_twice() -> None:
    problem = OfflineProblem(jobs=(job("long", 0, 100, 2, 5), job("urgent", 50, 10, 2)), machine_blocks=2)
    found = solve_offline(problem)
    first, second = found.placed[0].parts
    assert (first[1] - first[0]) + (second[1] - second[0]) == 100 + 2 * 5
    assert (second[1], second[0] - first[1]) == (120, 10)
    assert found.batch_slowdown == 1.2


def test_two_urgent_jobs_at_once_need_a_looser_limit() -> None:
    problem = OfflineProblem(jobs=(job("1", 0, 10, 2), job("2", 0, 10, 2)), machine_blocks=2)
    found = solve_offline(problem)
    assert found.urgent_slowdown == 1.5
    assert found.urgent_limit == 1.5
    assert found.limit_proof is Proof.OPTIMAL


def test_the_logs_of_a_replay_are_those_of_the_optimum() -> None:
    problem = random_log(5, 2, 16, seed=4)
    jobs, partitions = as_workload(problem), as_partitions(problem)
    assert [(job.submit_s, job.runtime_s, job.node_count) for job in jobs] == [
        (job.submit_s, job.runtime_s, job.blocks) for job in problem.jobs
    ]
    assert sum(job.kind is JobKind.ON_DEMAND for job in jobs) == 2
    assert (partitions.sizes, len(partitions.every)) == ((1, 2, 4, 8, 16), 31)
    assert {job.overhead_s for job in problem.jobs if not job.urgent} <= {512, 607}


def test_a_job_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="job 1: 3 blocks; accepted: a divisor of 4"):
        OfflineProblem(jobs=(job("1", 0, 10, 3),), machine_blocks=4)


def test_without_the_solver_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(SolverUnavailable, match=r"pip install 'makeway\[solver\]'"):
        solve_offline(random_log(2, 2, 4, seed=0))
