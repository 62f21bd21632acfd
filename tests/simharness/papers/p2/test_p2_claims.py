"""Claims of paper P2: by which figures each holds, fails or stays open."""

from dataclasses import replace

import pytest

from makeway.simharness.papers.common.claims import ClaimStatus
from makeway.simharness.papers.p2.cases import (
    P2Result,
    groups,
)
from makeway.simharness.papers.p2.claims import claims, format_response
from tests.simharness.papers.p2.results import made_case, plan


def standings(*cases: P2Result) -> dict[str, ClaimStatus]:
    three = [
        made_case(scenario) for scenario in (1, 2, 3) if scenario not in {case.scenario for case in cases}
    ]
    return {claim.key: claim.standing for claim in claims([*cases, *three])}


LARGE = made_case(3, slow_s=500.0)

SMALL = made_case(1, slow_s=0.001)


@pytest.mark.parametrize(
    ("key", "case", "standing"),
    [
        ("same_optimum", LARGE, ClaimStatus.HOLDS),
        ("same_optimum", replace(LARGE, exact=(plan(49.0), *LARGE.exact[1:])), ClaimStatus.FAILS),
        ("same_optimum", replace(LARGE, exact=(plan(50.0, 1), *LARGE.exact[1:])), ClaimStatus.FAILS),
        ("same_optimum", made_case(3, finished=3), ClaimStatus.HOLDS),
        ("backtracking_slower", LARGE, ClaimStatus.HOLDS),
        ("backtracking_slower", made_case(3, slow_s=100.0), ClaimStatus.FAILS),
        ("backtracking_slower", made_case(3, slow_s=100.0, finished=15), ClaimStatus.OPEN),
        ("backtracking_slower", made_case(3, slow_s=2000.0, finished=2), ClaimStatus.HOLDS),
        ("backtracking_faster_if_small", SMALL, ClaimStatus.HOLDS),
        ("backtracking_faster_if_small", made_case(1), ClaimStatus.FAILS),
        ("backtracking_faster_if_small", made_case(1, slow_s=0.001, finished=4), ClaimStatus.FAILS),
        ("greedy_faster", LARGE, ClaimStatus.HOLDS),
        ("greedy_faster", made_case(3, greedy_s=1e-5), ClaimStatus.FAILS),
        ("greedy_faster", made_case(3, slow_s=1e-5), ClaimStatus.FAILS),
        ("greedy_faster", made_case(3, slow_s=1e-5, finished=1), ClaimStatus.OPEN),
        ("greedy_worse", LARGE, ClaimStatus.HOLDS),
        ("greedy_worse", made_case(3, excess=(0.0,) * 15 + (10.0,)), ClaimStatus.HOLDS),
        ("greedy_worse", made_case(3, excess=(9.9,) * 16), ClaimStatus.FAILS),
        ("excess_grows", LARGE, ClaimStatus.HOLDS),
        ("excess_grows", made_case(3, excess=(20.0,) * 14 + (1.0, 0.0)), ClaimStatus.HOLDS),
        ("excess_grows", made_case(2, excess=(20.0,) * 14 + (1.0, 0.0)), ClaimStatus.FAILS),
        ("excess_grows", made_case(3, excess=(20.0, 19.0) + (30.0,) * 14), ClaimStatus.FAILS),
        ("often_zero", LARGE, ClaimStatus.HOLDS),
        ("milliseconds", LARGE, ClaimStatus.HOLDS),
        ("milliseconds", made_case(3, exact_s=0.011), ClaimStatus.FAILS),
    ],
)
def test_a_claim_holds_by_its_criterion(key: str, case: P2Result, standing: ClaimStatus) -> None:
    assert standings(case)[key] is standing


def test_nothing_finished_leaves_the_optimum_open_and_half_without_zero_refutes() -> None:
    none = [made_case(scenario, finished=0, losses=(50.0,) * 16) for scenario in (1, 2, 3)]
    assert standings(*none)["same_optimum"] is ClaimStatus.OPEN
    assert standings(*none)["often_zero"] is ClaimStatus.FAILS
    assert standings(*none[:2])["often_zero"] is ClaimStatus.FAILS
    assert standings(none[0])["often_zero"] is ClaimStatus.HOLDS


def test_claims_are_checked_on_each_seed() -> None:
    cases = [made_case(scenario, seed=seed) for seed in (0, 1) for scenario in (1, 2, 3)]
    cases[-1] = replace(cases[-1], exact_s=0.5)
    (found,) = [claim for claim in claims(cases) if claim.key == "milliseconds"]
    assert found.verdict == "partly: holds on 1 of 2 seeds"
    assert found.measured == "2 to 500 ms"
    assert [finding.measured for _, finding in found.parts] == ["2 ms", "2 to 500 ms"]


def test_seeds_are_averaged_and_backtracking_only_as_far_as_every_seed_came() -> None:
    first = made_case(1, losses=(40.0,) * 16, excess=(10.0,) * 16, slow_s=16.0, exact_s=0.002)
    second = made_case(
        1, seed=1, losses=(60.0,) * 16, excess=(30.0,) * 16, slow_s=32.0, finished=3, exact_s=0.004
    )
    (group,) = groups([first, second])
    assert group.exact_node_hours == (50.0,) * 16
    assert group.greedy_node_hours == (70.0,) * 16
    assert group.excess_node_hours == (20.0,) * 16
    assert group.backtracking_node_hours == (50.0,) * 3
    assert group.exact_s == pytest.approx(0.003)
    assert group.shrinking_node_hours == (25.0,) * 16
    assert group.concurrent_node_hours == (12.5,) * 16
    assert group.shrinking_s == pytest.approx(0.006)
    assert group.concurrent_s == pytest.approx(0.012)
    assert group.greedy_s == pytest.approx([index * 1e-6 for index in range(1, 17)])
    assert group.backtracking_s == pytest.approx([1.5, 3.0, 4.5])
    # The fourth deadline: 4 s on the first seed, 6 s and a search of 8 s that was stopped on the second.
    assert group.stopped_s == pytest.approx((4.0 + 14.0) / 2)
    assert groups([first])[0].stopped_s is None


@pytest.mark.parametrize(
    ("time_s", "text"),
    [(1e-5, "10 µs"), (0.000187, "187 µs"), (0.00205, "2.05 ms"), (1.0, "1 s"), (1240.0, "1,240 s")],
)
def test_response_times_in_words(time_s: float, text: str) -> None:
    assert format_response(time_s) == text
