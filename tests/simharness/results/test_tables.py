"""Summaries: what is written equals what is measured."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console
from rich.table import Table

from makeway.policies.model import Resources
from makeway.simharness.results.averages import Estimate, aggregate
from makeway.simharness.results.exports import aggregates_to_csv, aggregates_to_json, to_csv, to_json
from makeway.simharness.results.formats import (
    Unit,
    format_change,
    format_duration,
    format_estimate,
    format_number,
    format_percent,
)
from makeway.simharness.results.measures import Measures, measure, numbers
from makeway.simharness.results.tables import (
    ChangeVerdict,
    SummaryLine,
    aggregate_table,
    column_names,
    summarise,
    summary_table,
)
from makeway.simharness.results.text import caption
from tests.simharness.workloads.record_samples import empty, with_makeway, without_makeway


def _both() -> list[Measures]:
    return [measure(without_makeway()), measure(with_makeway())]


def _line(measured: Sequence[Measures], key: str) -> SummaryLine:
    lines = [line for section in summarise(measured).sections for line in section.lines]
    return next(line for line in lines if line.key == key)


def _printed(table: Table) -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text()


def test_every_cell_is_a_measured_number() -> None:
    measured = _both()
    found = [numbers(one) for one in measured]
    lines = [line for section in summarise(measured).sections for line in section.lines]
    assert len(lines) > 25
    for line in lines:
        assert [cell.value for cell in line.cells] == [one[line.key] for one in found]


def test_sections_are_the_kinds_that_there_are_and_the_machine() -> None:
    titles = [section.title for section in summarise(_both()).sections]
    assert titles == ["Urgent jobs", "Rigid jobs", "Malleable jobs", "All jobs", "Machine", "Cost", "makeway"]
    rigid_only = without_makeway()
    rigid_only.jobs = rigid_only.jobs[:1]
    rigid_only.segments = rigid_only.segments[:1]
    assert [section.title for section in summarise([measure(rigid_only)]).sections] == ["All jobs", "Machine"]
    assert [section.title for section in summarise([measure(empty())]).sections] == []


def test_on_shared_nodes_utilisation_is_called_what_it_is() -> None:
    whole, shared = without_makeway(), without_makeway()
    shared.capacities = (Resources.of({"cpu": 1}),) * shared.node_count
    for record, labels in (
        (whole, ["utilisation", "useful utilisation"]),
        (shared, ["dominant shares held", "useful dominant shares"]),
    ):
        measured = measure(record)
        (section,) = [one for one in summarise([measured]).sections if one.title == "Machine"]
        assert [line.label for line in section.lines[:2]] == labels
        assert [line.key for line in section.lines[:2]] == [
            "machine.utilisation",
            "machine.useful_utilisation",
        ]
        cells = list(aggregate_table([aggregate([measured, measured])]).columns[0].cells)
        assert [str(cell).strip() for cell in cells if "util" in str(cell) or "shares" in str(cell)] == labels
        assert f"{labels[0]} 75.4%" in caption(measured)


def test_lines_that_say_nothing_are_left_out() -> None:
    keys = {
        line.key for section in summarise([measure(without_makeway())]).sections for line in section.lines
    }
    assert "all.completed" not in keys, "every job completed"
    assert "all.evictions" not in keys
    assert "machine.decision_p50_ms" not in keys
    assert "all.completed" in {line.key for one in summarise(_both()).sections for line in one.lines}


@pytest.mark.parametrize(
    ("key", "texts", "delta", "verdict"),
    [
        ("on_demand.on_time", ("0", "1"), "", ChangeVerdict.NEUTRAL),  # nothing compares with 0
        ("on_demand.wait_mean_s", ("2.50 min", "10.0 s"), "−93%", ChangeVerdict.BETTER),
        ("on_demand.turnaround_mean_s", ("4.17 min", "1.83 min"), "−56%", ChangeVerdict.BETTER),
        ("rigid.turnaround_mean_s", ("1.71 min", "4.33 min"), "+154%", ChangeVerdict.WORSE),
        ("all.completed", ("4", "3"), "−1", ChangeVerdict.WORSE),
        ("machine.utilisation", ("75.4%", "90.4%"), "+15.0 pts", ChangeVerdict.BETTER),
        ("malleable.wait_mean_s", ("0 s", "0 s"), "", ChangeVerdict.NEUTRAL),
        ("all.jobs", ("4", "4"), "", ChangeVerdict.NEUTRAL),
    ],
)
def test_changes_are_against_the_first(
    key: str, texts: tuple[str, str], delta: str, verdict: ChangeVerdict
) -> None:
    first, second = _line(_both(), key).cells
    assert (first.text, second.text) == texts
    assert (first.delta, second.delta, second.verdict) == ("", delta, verdict)


def test_columns_say_as_much_as_tells_them_apart() -> None:
    none, eviction = _both()
    assert column_names([none, eviction]) == ("without makeway", "eviction")
    conservative = replace(none, backfill="conservative")
    assert column_names([none, conservative]) == ("without makeway, easy", "without makeway, conservative")
    other = replace(none, workload="other")
    assert column_names([none, other])[1] == "without makeway, easy, other"
    assert column_names([none, none]) == ("without makeway #1", "without makeway #2")
    assert column_names([]) == ()


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, Unit.COUNT, "-"),
        (28467, Unit.COUNT, "28,467"),
        (0.6666, Unit.SHARE, "66.7%"),
        (6858.364, Unit.SECONDS, "1.91 h"),
        (0.0062, Unit.MILLISECONDS, "0.0062 ms"),
        (252658.4, Unit.NODE_HOURS, "252,658"),
        (0, Unit.NODE_HOURS, "0"),
        (90.8686, Unit.FACTOR, "90.87"),
    ],
)
def test_numbers_are_written_for_people(value: float | None, unit: Unit, text: str) -> None:
    assert format_number(value, unit) == text


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [
        (0, "0 s"),
        (59.94, "59.9 s"),
        (60, "1.00 min"),
        (3599, "60.0 min"),
        (3600, "1.00 h"),
        (172799, "48.0 h"),
        (172800, "2.00 d"),
        (-90, "-1.50 min"),
        (35337600, "409 d"),
    ],
)
def test_durations_have_the_unit_that_suits_them(duration_s: float, text: str) -> None:
    assert format_duration(duration_s) == text


def test_changes_and_percentages() -> None:
    assert format_change(12, 10, Unit.COUNT) == "+2"
    assert format_change(0.5, 0.62, Unit.SHARE) == "−12.0 pts"
    assert format_change(105, 100, Unit.SECONDS) == "+5%"
    assert [format_percent(share) for share in (0, 0.0003, 0.012, 0.35, 12.04)] == [
        "0%",
        "0.03%",
        "1.2%",
        "35%",
        "1,204%",
    ]


def test_json_holds_every_number_and_the_settings() -> None:
    measured = _both()
    document = json.loads(to_json(measured))
    assert document["format"] == 1
    for one, replay in zip(measured, document["replays"], strict=True):
        assert replay["numbers"] == numbers(one)
        assert (replay["policy"], replay["workload"]) == (one.policy, one.workload)
        assert replay["settings"]["bound_s"] == 10.0


def test_csv_has_one_line_a_replay_and_is_empty_where_there_is_no_number() -> None:
    measured = _both()
    rows = list(csv.DictReader(io.StringIO(to_csv(measured))))
    assert [row["policy"] for row in rows] == ["none", "eviction"]
    for one, row in zip(measured, rows, strict=True):
        for key, value in numbers(one).items():
            assert (row[key] == "") if value is None else (float(row[key]) == value)


def test_averages_are_written_with_their_spread() -> None:
    average = aggregate([measure(with_makeway()), replace(measure(with_makeway()), utilisation=0.5)])
    estimates = json.loads(aggregates_to_json([average]))["policies"][0]["estimates"]
    assert estimates["machine.utilisation"]["count"] == 2
    assert estimates["machine.utilisation"]["mean"] == pytest.approx((0.5 + 940 / 1040) / 2)
    rows = {row["key"]: row for row in csv.DictReader(io.StringIO(aggregates_to_csv([average])))}
    assert float(rows["machine.utilisation"]["ci95"]) == estimates["machine.utilisation"]["ci95"]
    text = _printed(aggregate_table([average], title="averages"))
    assert "eviction, 2 replays" in text
    assert "70.2% ± 256.6%" in text


def test_estimates_of_counts_keep_their_fraction() -> None:
    estimate = Estimate(key="all.evictions", mean=1.5, std=0.5, ci95=0.25, count=2)
    assert format_estimate(estimate, Unit.COUNT) == "1.50 ± 0.25"
    assert format_estimate(replace(estimate, mean=2.0, ci95=0.0), Unit.COUNT) == "2"


def test_the_terminal_shows_text_as_it_is() -> None:
    none, eviction = _both()
    hostile = replace(eviction, policy="[bold]x[/bold][/]")
    text = _printed(summary_table([none, hostile], title="[red]title"))
    assert "[bold]x[/bold][/]" in text
    assert "[red]title" in text
    assert "10.0 s (−93%)" in text
