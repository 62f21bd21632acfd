"""P3's figure 4 drawn from outcomes made by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from makeway.simharness.papers.p3.cases import P_VALUES, TRACES, P3Result, P3Results, settings
from makeway.simharness.papers.p3.report import share_figures
from tests.simharness.papers.p3_results import made


def results(change: Callable[[P3Result], P3Result] = lambda one: one) -> P3Results:
    """Every replay of the experiment, each changed so."""
    return P3Results(change(made(setting)) for trace in TRACES for setting in settings(trace))


def bars(figures: dict[str, Any], name: str) -> dict[str, list[Any]]:
    """What a panel draws for one arm."""
    panel = figures[name.rsplit("-", 1)[0]]
    data: dict[str, list[Any]] = panel.select_one({"name": name}).data_source.data
    return data


def test_a_bar_is_a_metric_in_percent_of_the_classical_algorithm() -> None:
    figures = share_figures(results())
    ideal, second = bars(figures, "share-CTC-0"), bars(figures, "share-CTC-2")
    assert ideal["group"] == ["wait", "slowdown", "queue length", "backfill ratio"]
    assert set(ideal["label"]) == {"classical, actual run times"}
    assert ideal["top"] == pytest.approx([80.0, 44.0, 80.0, 100.0])
    # 1000 s become 550 s, 20 becomes 9.5, and 50% become 70%.
    assert set(second["label"]) == {"p = 0.2"}
    assert second["top"] == pytest.approx([55.0, 47.5, 55.0, 140.0])
    assert second["text"] == ["9.2 min, 55%", "9.50, 48%", "5.50, 55%", "70.0%, 140%"]


def test_the_papers_algorithms_have_panels_of_their_own() -> None:
    figures = share_figures(results(lambda one: replace(one, wait_s=1200.0) if one.setting.literal else one))
    assert set(figures) == {f"{what}-{trace}" for what in ("share", "written") for trace in TRACES}
    for trace in TRACES:
        for index, p in enumerate(P_VALUES, start=1):
            written, early = (bars(figures, f"{what}-{trace}-{index}") for what in ("written", "share"))
            assert set(written["label"]) == set(early["label"]) == {f"p = {p:g}"}
            assert written["top"][0] == pytest.approx(120.0)
            assert early["top"][0] == pytest.approx(100.0 if p == 1 else 50.0 + 25.0 * p)
        assert bars(figures, f"written-{trace}-0")["top"] == bars(figures, f"share-{trace}-0")["top"]


def test_bars_of_an_arm_stand_in_their_groups_and_beside_each_other() -> None:
    figures = share_figures(results())
    places = [bars(figures, f"share-CTC-{index}")["x"] for index in range(1 + len(P_VALUES))]
    assert [[round(x) for x in arm] for arm in places] == [[0, 1, 2, 3]] * len(places)
    first = [arm[0] for arm in places]
    assert first == sorted(set(first))


def test_all_panels_have_the_axis_that_the_highest_bar_needs() -> None:
    def tall(one: P3Result) -> P3Result:
        concerned = one.setting.literal and (one.setting.trace, one.setting.p) == ("HPC2N", 0.1)
        return replace(one, slowdown=60.0) if concerned else one

    figures: dict[str, Any] = dict(share_figures(results(tall)))
    assert len(figures) == 6
    assert [panel.y_range.start for panel in figures.values()] == [0] * 6
    assert [panel.y_range.end for panel in figures.values()] == pytest.approx([1.05 * 300.0] * 6)


def test_what_the_classical_algorithm_has_none_of_has_no_bar() -> None:
    figures = share_figures(
        results(lambda one: replace(one, backfill_ratio=0.0) if one.setting.p is None else one)
    )
    assert bars(figures, "share-CTC-1")["group"] == ["wait", "slowdown", "queue length"]
