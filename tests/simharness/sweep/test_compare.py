"""What the results of a sweep say: pairs, frontier, the best choice and how sure it is."""

import pytest

from makeway.simharness.sweep.compare import COST, Compared, compare
from makeway.simharness.sweep.report import best_sentence, choice_grid, comparison_grid
from makeway.simharness.sweep.table import KEYS, Cell, ResultRow, ResultsError


def row(
    policy: str, seed: int, on_time: float | None, lost: float, *, ceiling: float | None = None, **more: Cell
) -> ResultRow:
    key = dict.fromkeys(KEYS) | {"policy": policy, "seed": seed, "max_loss_node_hours": ceiling} | more
    return ResultRow(
        key=key,
        numbers={
            "on_demand.on_time_rate": on_time,
            "all.lost_node_hours": lost,
            "all.overhead_node_hours": 1.0,
            "rigid.turnaround_mean_s": 100.0 + lost,
        },
    )


def compared(against: str | None = None) -> Compared:
    return compare(
        [
            *(row("dear", seed, 0.99, 40.0 + seed) for seed in range(6)),
            *(row("cheap", seed, 0.985, 20.0 + seed) for seed in range(6)),
            *(row("cheap", seed, 0.5, 1.0, ceiling=2.0) for seed in range(6)),
            *(row("bad", seed, 0.5, 50.0) for seed in range(6)),
        ],
        against,
    )


def test_the_best_choice_and_the_frontier() -> None:
    found = compared()
    assert found.cases == 6
    assert [one.name for one in found.choices] == ["dear", "cheap", "cheap ≤ 2 node-h", "bad"]
    assert [one.on_frontier for one in found.choices] == [True, True, True, False]
    assert found.best.name == "cheap"
    assert found.best.cost == 23.5
    assert [one.best_share for one in found.choices] == [0.0, 1.0, 0.0, 0.0]
    assert "Best here: cheap, with 98.5% of the urgent jobs on time for 23.5 node-hours" in best_sentence(
        found
    )
    assert "100% of the resamples of 6 draws" in best_sentence(found)


def test_how_sure_it_is_depends_on_the_cases() -> None:
    rows = [row("a", seed, 1.0, 10.0) for seed in range(6)]
    rows += [row("b", seed, 1.0, 4.0 if seed else 45.0) for seed in range(6)]
    found = compare(rows)
    assert [one.cost for one in found.choices] == [pytest.approx(11.0), pytest.approx(1 + 65 / 6)]
    assert found.best.name == "a"
    assert found.best.best_share is not None
    assert 0.4 < found.best.best_share < 0.8


def test_one_draw_does_not_say_how_sure_it_is() -> None:
    found = compare([row("a", 0, 1.0, 4.0), row("b", 0, 1.0, 9.0)])
    assert [one.best_share for one in found.choices] == [None, None]
    assert [cells[-1] for cells in choice_grid(found).rows] == ["-", "-"]
    assert best_sentence(found).endswith("share. How sure that is, one draw does not say.")


def test_choices_that_do_not_differ_are_as_good_as_each_other() -> None:
    rows = [row(name, seed, 1.0, 4.0 + seed) for name in ("a", "same") for seed in range(3)]
    found = compare([*rows, *(row("dear", seed, 1.0, 50.0) for seed in range(3))])
    assert [one.best_share for one in found.choices] == [1.0, 1.0, 0.0]
    assert "As good: same. It is so in 100% of the resamples of 3 draws." in best_sentence(found)


def test_numbers_pair_by_pair() -> None:
    found = compared("dear")
    assert found.against == "dear"
    (cost,) = [one for one in found.comparisons if (one.choice, one.number) == ("cheap", COST)]
    assert cost.difference is not None
    assert (cost.difference.mean, cost.difference.pairs, cost.difference.decided) == (-20.0, 6, True)
    assert cost.ratio is not None
    assert 0.5 < cost.ratio.mean < 0.6
    assert cost.ratio.ratio_decided
    assert not [
        one for one in found.comparisons if one.number == "small.turnaround_mean_s" and one.difference
    ]
    assert choice_grid(found).rows[1][:3] == ("cheap", "98.5%", "23.5")
    (line,) = [line for line in comparison_grid(found).rows if line[:2] == ("cheap", COST)]
    assert line[2] == "-20.0 [-20.0, -20.0] *"
    (line,) = [
        line for line in comparison_grid(found).rows if line[:2] == ("cheap", "on_demand.on_time_rate")
    ]
    assert line[2] == "-0.5 pts [-0.5 pts, -0.5 pts] *"


def test_cases_that_are_not_complete_are_left_out() -> None:
    rows = [row("a", 0, 1.0, 1.0), row("b", 0, 1.0, 2.0), row("a", 1, 1.0, 1.0)]
    rows += [row("a", 2, None, 1.0), row("b", 2, None, 1.0)]
    found = compare(rows)
    assert (found.cases, found.left_out) == (1, 2)


def test_what_cannot_be_compared() -> None:
    with pytest.raises(ResultsError, match="--against other: accepted: dear, cheap, cheap ≤ 2 node-h, bad"):
        compared("other")
    with pytest.raises(ResultsError, match="no case has urgent jobs and a result of each of a"):
        compare([row("a", 0, None, 1.0)])


def test_two_rows_of_one_choice_and_case_are_refused() -> None:
    message = "seed 0: two rows of a; accepted: one row of a choice in a case"
    with pytest.raises(ResultsError, match=message):
        compare([row("a", 0, 1.0, 1.0), row("b", 0, 1.0, 1.0), row("a", 0, 0.5, 2.0)])


def test_ceilings_that_are_close_are_two_choices() -> None:
    found = compare([row("a", 0, 1.0, 1.0, ceiling=ceiling) for ceiling in (1_000_000.0, 1_000_001.0)])
    assert [one.name for one in found.choices] == ["a ≤ 1e+06 node-h", "a ≤ 1000001.0 node-h"]


def test_cases_of_one_trace_and_seed_count_as_one_value() -> None:
    """Four cases of two draws: the differences are 1 and 3 of seed 0, 5 and 7 of seed 1, so 2 and 6."""
    differences = {(0, "W1"): 1.0, (0, "W2"): 3.0, (1, "W1"): 5.0, (1, "W2"): 7.0}
    rows = [row("a", seed, 1.0, 10.0, trace="t", workload=mix) for seed, mix in differences]
    rows += [
        row("b", seed, 1.0, 10.0 + more, trace="t", workload=mix) for (seed, mix), more in differences.items()
    ]
    found = compare(rows)
    assert (found.cases, found.draws) == (4, 2)
    (cost,) = [one.difference for one in found.comparisons if one.number == COST]
    assert cost is not None
    assert (cost.mean, cost.pairs, cost.groups) == (4.0, 4, 2)
    # Of 2 and 6 the standard error of the mean is 2, and t(0.975) with one degree of freedom is 12.706.
    assert cost.t_low == pytest.approx(4.0 - 12.706 * 2.0, rel=1e-3)
    assert (cost.boot_low, cost.boot_high) == (2.0, 6.0), "a resample has whole draws: 2, 4 or 6"
    assert not cost.decided, "four independent values from 1 to 7 would seem to be"
    assert comparison_grid(found).rows[0][4:6] == ("4", "2")
    assert "resamples of 2 draws" in best_sentence(found)


def test_a_seed_of_another_trace_is_another_draw() -> None:
    rows = [row(name, 0, 1.0, 1.0, trace=trace) for name in ("a", "b") for trace in ("t", "u")]
    assert compare(rows).draws == 2


def test_a_draw_counts_once_however_many_cases_it_has() -> None:
    rows = [row("a", 0, 1.0, 10.0, workload=mix) for mix in ("W1", "W2", "W3")] + [row("a", 1, 0.5, 30.0)]
    (only,) = compare(rows).choices
    assert (only.on_time, only.cost) == (0.75, 21.0)


def test_limits_are_a_choice() -> None:
    rows = [row("a", 0, 1.0, 1.0, limits=limits) for limits in ("none", "default")]
    rows.append(row("a", 0, 1.0, 1.0, ceiling=5.0, limits="default"))
    assert [one.name for one in compare(rows).choices] == [
        "a",
        "a, default limits",
        "a ≤ 5 node-h, default limits",
    ]
