"""P5's table II and figure 6 made from outcomes made by hand."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.simharness.papers.p5.cases import MECHANISMS, MIXES, P5Result
from makeway.simharness.papers.p5.means import INSTANT, METRICS, RIGID_PREEMPTION, TURNAROUND, P5Means
from makeway.simharness.papers.p5.report import by_kind, intervals_figure, notices_figure, table_ii
from tests.simharness.papers.p5_results import alike


def drawn(panel: Any, name: str) -> dict[str, list[Any]]:
    data: dict[str, list[Any]] = panel.select_one({"name": name}).data_source.data
    return data


def with_cup_spaa(**fields: Any) -> list[P5Result]:
    """Two draws that are alike, but that cup-spaa is different on W2 of the second."""
    second = [replace(one, seed=1) for one in alike()]
    return [
        *alike(),
        *(replace(one, **fields) if (one.policy, one.mix) == ("cup-spaa", "W2") else one for one in second),
    ]


def test_a_bar_of_figure_6_is_the_mean_of_a_mechanism_on_a_workload() -> None:
    means = P5Means(with_cup_spaa(turnaround_h=14.0, rigid_preemption_ratio=0.15))
    panel: Any = notices_figure(means, TURNAROUND)
    for index, policy in enumerate(MECHANISMS):
        bars = drawn(panel, f"notices-turnaround-{index}")
        assert bars["group"] == [*MIXES]
        assert set(bars["label"]) == {policy}
        expected = [10.0, 12.0, 10.0, 10.0, 10.0] if policy == "cup-spaa" else [10.0] * 5
        assert bars["top"] == pytest.approx(expected)
    assert drawn(panel, "notices-turnaround-5")["text"][1] == "12.0 h"
    assert (panel.y_range.start, panel.y_range.end) == (0, pytest.approx(1.08 * 12.0))
    percent = drawn(notices_figure(means, RIGID_PREEMPTION), f"notices-{RIGID_PREEMPTION.key}-5")
    assert percent["top"] == pytest.approx([5.0, 10.0, 5.0, 5.0, 5.0])


def test_the_base_scheduler_is_a_line_across_under_its_own_name() -> None:
    cases = [
        replace(one, turnaround_h=7.0)
        if (one.policy, one.backfill, one.start_smaller) == ("none", "easy", True)
        else one
        for one in alike()
    ]
    line = drawn(notices_figure(P5Means(cases), TURNAROUND), "notices-turnaround-6")
    assert list(line["y"]) == [7.0, 7.0]
    assert set(line["label"]) == {"FCFS/easy (start smaller)"}
    assert (min(line["x"]), max(line["x"])) == (-0.5, len(MIXES) - 0.5)


def test_what_was_not_measured_has_no_bar_and_no_line() -> None:
    cases = [
        replace(one, instant_start_rate=None) if one.policy == "none" or one.mix == "W3" else one
        for one in alike()
    ]
    panel: Any = notices_figure(P5Means(cases), INSTANT)
    bars = drawn(panel, f"notices-{INSTANT.key}-0")
    assert bars["group"] == ["W1", "W2", "W4", "W5"]
    assert [round(x) for x in bars["x"]] == [0, 1, 3, 4]
    assert list(drawn(panel, f"notices-{INSTANT.key}-6")["y"]) == []


def test_figure_7_has_the_replays_of_w5_by_interval() -> None:
    cases = [replace(one, turnaround_h=8.0) if one.interval_share == 0.5 else one for one in alike()]
    bars = drawn(intervals_figure(P5Means(cases), TURNAROUND), "intervals-turnaround-2")
    assert (bars["group"], bars["top"]) == (["50%", "100%", "200%"], [8.0, 10.0, 10.0])


def test_table_ii_has_the_papers_values_next_to_those_found() -> None:
    cases = [
        replace(one, turnaround_h=8.0) if one.policy == "none" and not one.start_smaller else one
        for one in with_cup_spaa(turnaround_h=20.0)
    ]
    grid = table_ii(P5Means(cases))
    assert grid.head == ("", "turnaround, all jobs", "useful utilisation", "instant start")
    assert grid.rows == (
        ("FCFS/EASY, the paper", "15.6 h", "83.93%", "22.69%"),
        ("FCFS/easy (full size)", "8.0 h", "80.00%", "30.0%"),
        ("FCFS/easy-cqsim (full size)", "8.0 h", "80.00%", "30.0%"),
        ("FCFS/easy (start smaller)", "9.0 h", "80.00%", "30.0%"),
        ("mechanisms, the paper", "up to 22 h", "up to 90%", "98%"),
        *((policy, "10.0 h", "88.00%", "98.0%") for policy in MECHANISMS[:-1]),
        # One of fourteen replays took 20 hours, the others 10.
        ("cup-spaa", "11.0 h", "88.00%", "98.0%"),
    )


def test_the_other_figures_are_in_a_table_of_their_own() -> None:
    means = P5Means(alike())
    grid = by_kind(means)
    assert {*grid.head, *table_ii(means).head} == {"", *(metric.label for metric in METRICS)}
    bases = ["FCFS/easy (full size)", "FCFS/easy-cqsim (full size)", "FCFS/easy (start smaller)"]
    assert [row[0] for row in grid.rows] == [*bases, *MECHANISMS]
    found = dict(zip(grid.head, grid.rows[3], strict=True))
    assert (found["turnaround, rigid"], found["shrunk, malleable"]) == ("11.0 h", "20.0%")
