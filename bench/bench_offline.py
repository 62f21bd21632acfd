"""How long the offline optimum takes on the largest row of P1's table 2; the paper's took 11 h 52 min on 32
cores.
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from makeway.policies.horizon.cp_sat import Proof
from makeway.simharness.papers.p1_offline.logs import TABLE_2, random_log
from makeway.simharness.papers.p1_offline.optimum import solve_offline

MOST_S = 10.0


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_row_of_table_2(benchmark: BenchmarkFixture, seed: int) -> None:
    found = benchmark(solve_offline, random_log(*TABLE_2[-1], seed=seed))
    assert found.proof is Proof.OPTIMAL
    assert found.wall_s <= MOST_S
