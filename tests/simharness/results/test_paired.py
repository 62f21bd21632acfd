"""Paired differences and ratios with their intervals."""

from math import exp, log, sqrt

import pytest

from makeway.simharness.results.paired import mean_difference, mean_quotient, mean_ratio


def test_the_mean_difference_and_its_interval() -> None:
    found = mean_difference([1.0, 2.0, 3.0, 6.0])
    assert found is not None
    assert found.mean == 3.0
    half = 3.182 * sqrt(14 / 3) / 2  # Student's t with 3 degrees of freedom
    assert (found.t_low, found.t_high) == pytest.approx((3 - half, 3 + half))
    assert found.boot_low is not None
    assert found.boot_high is not None
    assert 1.0 <= found.boot_low < 3.0 < found.boot_high <= 6.0
    assert not found.decided
    assert found == mean_difference([1.0, 2.0, 3.0, 6.0]), "the resamples have a seed"


def test_a_difference_that_is_decided() -> None:
    found = mean_difference([2.0, 2.1, 1.9, 2.0, 2.2])
    assert found is not None
    assert found.decided


def test_the_geometric_mean_of_ratios() -> None:
    found = mean_ratio([(1.0, 2.0), (4.0, 2.0), (2.0, 2.0), (0.0, 5.0), (5.0, 0.0)])
    assert found is not None
    assert (found.mean, found.pairs) == pytest.approx((1.0, 3))
    assert found.t_low is not None
    assert log(found.t_low) == pytest.approx(-4.303 * log(2) / sqrt(3))
    assert not found.ratio_decided
    better = mean_ratio([(1.0, 2.0), (1.1, 2.0), (0.9, 2.0), (1.0, 2.1)])
    assert better is not None
    assert better.ratio_decided
    assert better.mean == pytest.approx(exp((4 * log(0.5) + log(1.1) + log(0.9) - log(1.05)) / 4))


def test_too_few_pairs() -> None:
    assert mean_difference([]) is None
    assert mean_ratio([(0.0, 1.0)]) is None
    found = mean_difference([4.0])
    assert found is not None
    assert (found.mean, found.t_low, found.boot_high, found.decided) == (4.0, None, None, False)


def test_a_quotient_of_means_counts_large_pairs_more() -> None:
    found = mean_quotient([(2.0, 1.0), (9.0, 9.0)])
    assert found is not None
    assert found.mean == 1.1
    assert (found.boot_low, found.boot_high) == (1.0, 2.0), "one of the two pairs, twice"
    assert (found.t_low, found.t_high) == (None, None)
    alone = mean_quotient([(3.0, 2.0)])
    assert alone is not None
    assert (alone.mean, alone.boot_low) == (1.5, None)
    assert mean_quotient([]) is None
    assert mean_quotient([(1.0, 0.0)]) is None
