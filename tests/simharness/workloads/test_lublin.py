"""The Lublin-Feitelson model: its marginals by the published parameters, and against its authors' own
output.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.simharness.workloads.job import SimJob, WorkloadError
from makeway.simharness.workloads.lublin import ESTIMATES_S, generate
from makeway.simharness.workloads.trace import read_trace

HOUR_S = 3600.0


@pytest.fixture(scope="module")
def many() -> list[SimJob]:
    return generate(40_000, 256, 7)


def load_of(jobs: list[SimJob], node_count: int) -> float:
    return sum(job.node_count * job.runtime_s for job in jobs) / (node_count * jobs[-1].submit_s)


def distance(one: list[float], other: list[float]) -> float:
    """Largest distance of the two distribution functions (Kolmogorov and Smirnov's)."""
    values = np.concatenate([one, other])
    ranks = [np.searchsorted(np.sort(sample), values, "right") / len(sample) for sample in (one, other)]
    return float(np.max(np.abs(ranks[0] - ranks[1])))


def test_sizes_are_serial_powers_of_two_or_anything(many: list[SimJob]) -> None:
    sizes = np.array([job.node_count for job in many])
    assert np.mean(sizes == 1) == pytest.approx(0.244, abs=0.01)
    assert np.mean(np.bincount(sizes, minlength=257)[[2**i for i in range(1, 9)]].sum() / len(sizes)) > 0.576
    # 14% of the parallel jobs lie above the bend, 2.5 below log2 of the machine.
    assert np.mean(sizes[sizes > 1] > 2**5.5) == pytest.approx(0.14, abs=0.03)
    assert sizes.max() == 256


def test_runtimes_are_a_mixture_that_leans_to_the_long_for_large_jobs(many: list[SimJob]) -> None:
    serial = np.log([job.runtime_s for job in many if job.node_count == 1])
    large = np.log([job.runtime_s for job in many if job.node_count >= 145])
    # The longer gamma has mean 9.36 and a deviation of 0.53, the shorter 3.95 and 1.93.
    assert np.mean(large) == pytest.approx(9.36, abs=0.03)
    assert np.std(large) == pytest.approx(0.53, abs=0.03)
    assert np.mean(serial) == pytest.approx(0.775 * 3.95 + 0.225 * 9.36, abs=0.1)
    assert max(job.runtime_s for job in many) < np.exp(12)


def test_arrivals_have_a_daily_cycle(many: list[SimJob]) -> None:
    hours = np.histogram([job.submit_s % 86_400 / HOUR_S for job in many], 24, (0, 24))[0] / len(many)
    assert 12 <= int(np.argmax(hours)) <= 15
    assert int(np.argmin(hours)) in (3, 4, 5)
    assert hours.max() > 6 * hours.min()


def test_estimates_are_round_and_upper_bounds(many: list[SimJob]) -> None:
    assert {job.walltime_s for job in many} <= set(ESTIMATES_S)
    assert all(job.walltime_s >= job.runtime_s for job in many)
    long = [job.runtime_s / job.walltime_s for job in many if HOUR_S < job.runtime_s < 12 * HOUR_S]
    assert 0.3 < np.mean(long) < 0.6


def test_few_users_have_most_jobs(many: list[SimJob]) -> None:
    counts = np.sort(np.unique([job.user for job in many], return_counts=True)[1])[::-1]
    assert len(counts) > 1000
    assert 0.4 < counts[: len(counts) // 20].sum() / len(many) < 0.8
    assert len({job.account for job in many}) == 7
    assert len({(job.user, job.account) for job in many}) == len(counts)


@settings(deadline=None, max_examples=50)
@given(
    count=st.integers(1, 300),
    node_count=st.integers(1, 5000),
    seed=st.integers(0, 2**40),
    load=st.none() | st.floats(0.05, 3),
)
def test_any_workload_is_sound(count: int, node_count: int, seed: int, load: float | None) -> None:
    jobs = generate(count, node_count, seed, load)
    assert jobs == generate(count, node_count, seed, load)
    assert [job.job_id for job in jobs] == [str(number) for number in range(1, count + 1)]
    assert all(1 <= job.node_count <= node_count for job in jobs)
    assert all(earlier.submit_s <= later.submit_s for earlier, later in pairwise(jobs))
    assert jobs[0].submit_s >= 0


@pytest.mark.parametrize("load", [0.3, 0.88, 1.2])
def test_the_load_is_the_one_asked_for_and_the_day_stays_a_day(load: float) -> None:
    jobs = generate(3000, 64, 3, load)
    assert load_of(jobs, 64) == pytest.approx(load, rel=1e-3)
    hours = np.histogram([job.submit_s % 86_400 / HOUR_S for job in jobs], 24, (0, 24))[0]
    assert hours[10:18].sum() > 2 * (hours[:8].sum())


def test_arguments_out_of_range_are_named() -> None:
    with pytest.raises(WorkloadError, match="count: 0; accepted: a whole number from 1"):
        generate(0, 64, 1)
    with pytest.raises(WorkloadError, match="seed: -1; accepted"):
        generate(1, 64, -1)
    with pytest.raises(WorkloadError, match=r"load: nan; accepted: a number from 0.001 to 100"):
        generate(1, 64, 1, float("nan"))


@pytest.mark.shared
def test_the_model_s_own_output_has_the_same_marginals(shared_traces: Path) -> None:
    """10,000 jobs each: two samples of one distribution differ by less than 0.023 in 99 of 100 cases."""
    theirs = read_trace(shared_traces / "lublin_256.swf.gz").jobs
    ours = generate(len(theirs), 256, 1)
    for name in ("node_count", "runtime_s"):
        assert distance([getattr(job, name) for job in ours], [getattr(job, name) for job in theirs]) < 0.023
    gaps = [[later.submit_s - job.submit_s for job, later in pairwise(jobs)] for jobs in (ours, theirs)]
    assert distance(*gaps) < 0.023
    days = [[job.submit_s % 86_400 for job in jobs] for jobs in (ours, theirs)]
    assert (
        distance(*days) < 0.1
    )  # arrivals come in bursts: two seeds of makeway's generator differ by up to 0.05
