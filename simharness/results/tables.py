"""The numbers of one or several replays side by side: for the terminal, for the report, as JSON and as CSV.

The keys of JSON and CSV are those of `measures.numbers` and do not change: `<group>.<number>_<unit>`, where
the group is `machine`, `rigid`, `malleable`, `on_demand`, `all` or one of the caller's. The unit is the last
word: `_s` seconds, `_ms` milliseconds, `_hours` (node-hours); rates, ratios, shares and utilisations are
fractions of 1; what has no unit is a count or a slowdown. A number that does not exist is null in JSON and
empty in CSV.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from makeway.policies.model import JobKind
from makeway.simharness.results.measures import ALL, Aggregate, Estimate, Measures, Number, numbers

if TYPE_CHECKING:
    from rich.table import Table

FORMAT = 1
"""The version of the JSON; it grows when a key changes its meaning."""

NO_MAKEWAY = "none"
"""The policy that never does anything: the workload without makeway."""

WITHOUT = "without makeway"
"""What its replay is called."""

GROUP_TITLES = {
    JobKind.ON_DEMAND.value: "Urgent jobs",
    JobKind.RIGID.value: "Rigid jobs",
    JobKind.MALLEABLE.value: "Malleable jobs",
    ALL: "All jobs",
}


class Unit(StrEnum):
    """What a number is, which is how it is written."""

    COUNT = "count"
    SHARE = "share"
    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    NODE_HOURS = "node-hours"
    FACTOR = "factor"


class ChangeVerdict(StrEnum):
    """What a change against the first replay means to the site."""

    BETTER = "better"
    WORSE = "worse"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRow:
    """One line of the summary, before it has values."""

    name: str
    """The key without its group."""
    label: str
    unit: Unit
    lower_is_better: bool | None = None
    """None: a change is neither good nor bad."""
    hide_zero: bool = False
    """Leave the line out where it is zero for everybody."""
    hide_equal: str = ""
    """Leave the line out where everybody's number equals this other one of the same group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCell:
    """One number of one replay, and its change against the first replay."""

    value: Number
    text: str
    delta: str = ""
    """Empty in the first column, where nothing changed, and where the first has 0 or nothing to compare with.
    """
    verdict: ChangeVerdict = ChangeVerdict.NEUTRAL


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryLine:
    """One number of every replay."""

    key: str
    label: str
    cells: tuple[SummaryCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySection:
    """The lines of one group of jobs, or of the machine."""

    title: str
    lines: tuple[SummaryLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    """Replays side by side."""

    columns: tuple[str, ...]
    sections: tuple[SummarySection, ...]


_URGENT_ROWS = (
    SummaryRow(name="jobs", label="jobs", unit=Unit.COUNT),
    SummaryRow(name="on_time", label="started on time", unit=Unit.COUNT, lower_is_better=False),
    SummaryRow(name="on_time_rate", label="on-time rate", unit=Unit.SHARE, lower_is_better=False),
    SummaryRow(name="instant_start_rate", label="instant start rate", unit=Unit.SHARE, lower_is_better=False),
    SummaryRow(name="wait_mean_s", label="wait, mean", unit=Unit.SECONDS, lower_is_better=True),
    SummaryRow(name="wait_p95_s", label="wait, p95", unit=Unit.SECONDS, lower_is_better=True),
    SummaryRow(name="turnaround_mean_s", label="turnaround, mean", unit=Unit.SECONDS, lower_is_better=True),
    SummaryRow(
        name="bounded_slowdown_mean", label="bounded slowdown, mean", unit=Unit.FACTOR, lower_is_better=True
    ),
)
_BATCH_ROWS = (
    SummaryRow(name="jobs", label="jobs", unit=Unit.COUNT),
    SummaryRow(
        name="completed", label="completed", unit=Unit.COUNT, lower_is_better=False, hide_equal="jobs"
    ),
    SummaryRow(name="wait_mean_s", label="wait, mean", unit=Unit.SECONDS, lower_is_better=True),
    SummaryRow(name="wait_median_s", label="wait, median", unit=Unit.SECONDS, lower_is_better=True),
    SummaryRow(name="wait_p95_s", label="wait, p95", unit=Unit.SECONDS, lower_is_better=True),
    SummaryRow(name="turnaround_mean_s", label="turnaround, mean", unit=Unit.SECONDS, lower_is_better=True),
    SummaryRow(
        name="bounded_slowdown_mean", label="bounded slowdown, mean", unit=Unit.FACTOR, lower_is_better=True
    ),
    SummaryRow(
        name="completion_slowdown_mean",
        label="slowdown to the end, mean",
        unit=Unit.FACTOR,
        lower_is_better=True,
    ),
    SummaryRow(
        name="preemption_ratio", label="jobs evicted", unit=Unit.SHARE, lower_is_better=True, hide_zero=True
    ),
    SummaryRow(
        name="shrink_ratio", label="jobs shrunk", unit=Unit.SHARE, lower_is_better=True, hide_zero=True
    ),
)
_MACHINE_ROWS = (
    SummaryRow(name="utilisation", label="utilisation", unit=Unit.SHARE, lower_is_better=False),
    SummaryRow(name="useful_utilisation", label="useful utilisation", unit=Unit.SHARE, lower_is_better=False),
    SummaryRow(name="makespan_s", label="makespan", unit=Unit.SECONDS, lower_is_better=True),
    SummaryRow(name="queue_length_mean", label="queue length, mean", unit=Unit.FACTOR, lower_is_better=True),
)
_COST_ROWS = (
    SummaryRow(name="evictions", label="evictions", unit=Unit.COUNT, lower_is_better=True, hide_zero=True),
    SummaryRow(name="shrinks", label="shrinks", unit=Unit.COUNT, lower_is_better=True, hide_zero=True),
    SummaryRow(
        name="lost_node_hours",
        label="work lost (node-h)",
        unit=Unit.NODE_HOURS,
        lower_is_better=True,
        hide_zero=True,
    ),
    SummaryRow(
        name="overhead_node_hours",
        label="overhead (node-h)",
        unit=Unit.NODE_HOURS,
        lower_is_better=True,
        hide_zero=True,
    ),
)
_DECISION_ROWS = (
    SummaryRow(name="commands", label="commands to the cluster", unit=Unit.COUNT, hide_zero=True),
    SummaryRow(name="decision_p50_ms", label="decision time, median", unit=Unit.MILLISECONDS),
    SummaryRow(name="decision_p99_ms", label="decision time, p99", unit=Unit.MILLISECONDS),
)


def column_names(measured: Sequence[Measures]) -> tuple[str, ...]:
    """A name for each replay that tells it from the others: the policy, and as much more as is needed."""
    plain = [WITHOUT if one.policy == NO_MAKEWAY else one.policy for one in measured]
    with_backfill = [f"{name}, {one.backfill}" for name, one in zip(plain, measured, strict=True)]
    with_workload = [f"{name}, {one.workload}" for name, one in zip(with_backfill, measured, strict=True)]
    for names in (plain, with_backfill, with_workload):
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"{name} #{index}" for index, name in enumerate(plain, 1))


def summarise(measured: Sequence[Measures]) -> ReplaySummary:
    """The summary of one or several replays, changes against the first. Lines without any number are left
    out.
    """
    values = [numbers(one) for one in measured]
    sections = [_section(title, group, rows, values) for title, group, rows in _layout(values)]
    return ReplaySummary(
        columns=column_names(measured), sections=tuple(section for section in sections if section.lines)
    )


def _layout(values: Sequence[Mapping[str, Number]]) -> list[tuple[str, str, tuple[SummaryRow, ...]]]:
    """Title, group and rows of every section. Kinds that nobody has are left out; rigid jobs alone are all
    jobs.
    """
    present = [group for group in GROUP_TITLES if any(one[f"{group}.jobs"] for one in values)]
    if present == [JobKind.RIGID.value, ALL]:
        present = [ALL]
    layout = [
        (GROUP_TITLES[group], group, _URGENT_ROWS if group == JobKind.ON_DEMAND else _BATCH_ROWS)
        for group in present
    ]
    rest = (
        ("Machine", "machine", _MACHINE_ROWS),
        ("Cost", ALL, _COST_ROWS),
        ("makeway", "machine", _DECISION_ROWS),
    )
    return [*layout, *rest]


def _section(
    title: str, group: str, rows: Sequence[SummaryRow], values: Sequence[Mapping[str, Number]]
) -> SummarySection:
    lines: list[SummaryLine] = []
    for row in rows:
        key = f"{group}.{row.name}"
        if _hidden(row, group, values):
            continue
        found = [one[key] for one in values]
        cells = [_cell(row, value, found[0], first=not index) for index, value in enumerate(found)]
        lines.append(SummaryLine(key=key, label=row.label, cells=tuple(cells)))
    return SummarySection(title=title, lines=tuple(lines))


def _hidden(row: SummaryRow, group: str, values: Sequence[Mapping[str, Number]]) -> bool:
    found = [one[f"{group}.{row.name}"] for one in values]
    if row.hide_equal and found == [one[f"{group}.{row.hide_equal}"] for one in values]:
        return True
    return all(value is None or (row.hide_zero and value == 0) for value in found)


def _cell(row: SummaryRow, value: Number, base: Number, *, first: bool) -> SummaryCell:
    text = format_number(value, row.unit)
    if first or value is None or not base or text == format_number(base, row.unit):
        return SummaryCell(value=value, text=text)
    verdict = ChangeVerdict.NEUTRAL
    if row.lower_is_better is not None:
        verdict = ChangeVerdict.BETTER if (value < base) == row.lower_is_better else ChangeVerdict.WORSE
    return SummaryCell(value=value, text=text, delta=format_change(value, base, row.unit), verdict=verdict)


def format_number(value: Number, unit: Unit) -> str:
    """The number in words that people use: `-` for None, 66.7%, 2.31 h; node-hours go without their unit."""
    if value is None:
        return "-"
    match unit:
        case Unit.COUNT:
            return f"{value:,.0f}"
        case Unit.SHARE:
            return f"{100 * value:.1f}%"
        case Unit.SECONDS:
            return format_duration(value)
        case Unit.MILLISECONDS:
            return f"{_significant(value)} ms"
        case Unit.NODE_HOURS:
            return _significant(value)
        case Unit.FACTOR:
            return f"{value:,.2f}"
        case _:
            assert_never(unit)


def format_estimate(estimate: Estimate, unit: Unit) -> str:
    """The mean, and behind it half the width of its 95% confidence interval where there is one: 66.7%
    ± 1.2%.
    """
    if unit is Unit.COUNT and estimate.mean is not None and not estimate.mean.is_integer():
        unit = Unit.FACTOR
    spread = f" ± {format_number(estimate.ci95, unit)}" if estimate.ci95 else ""
    return format_number(estimate.mean, unit) + spread


def format_duration(duration_s: float) -> str:
    """A duration in the largest unit that gives at least 1: 45 s, 12.5 min, 6.20 h, 3.1 d."""
    size = abs(duration_s)
    if size < 60:
        return f"{_significant(duration_s)} s"
    if size < 3600:
        return f"{_significant(duration_s / 60)} min"
    if size < 48 * 3600:
        return f"{_significant(duration_s / 3600)} h"
    return f"{_significant(duration_s / 86400)} d"


def format_change(value: float, base: float, unit: Unit) -> str:
    """The change from `base` to `value`, signed: +12 for counts, +3.2 pts (percentage points) for shares,
    else +5.1% of `base`, not 0.
    """
    change = value - base
    sign = "+" if change > 0 else "−"
    match unit:
        case Unit.COUNT:
            return f"{sign}{abs(change):,.0f}"
        case Unit.SHARE:
            return f"{sign}{abs(100 * change):.1f} pts"
        case Unit.SECONDS | Unit.MILLISECONDS | Unit.NODE_HOURS | Unit.FACTOR:
            return f"{sign}{format_percent(abs(change / base))}"
        case _:
            assert_never(unit)


def format_percent(share: float) -> str:
    """A share in two to three digits: 0.03%, 1.2%, 35%, 1,204%."""
    percent = 100 * share
    return f"{percent:,.0f}%" if percent >= 10 or not percent else f"{percent:.2g}%"


def _significant(value: float) -> str:
    """Three significant digits, thousands set apart, never an exponent."""
    size = abs(value)
    if size >= 100 or value == 0:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.2g}"


_STYLES = {ChangeVerdict.BETTER: "green", ChangeVerdict.WORSE: "red", ChangeVerdict.NEUTRAL: "dim"}


def summary_table(measured: Sequence[Measures], *, title: str | None = None) -> "Table":
    """The summary as a table for the terminal, changes against the first replay behind each number."""
    from rich.table import Table
    from rich.text import Text

    summary = summarise(measured)
    table = Table(title=None if title is None else Text(title), title_justify="left", show_edge=False)
    table.add_column("")
    for name in summary.columns:
        table.add_column(Text(name), justify="right")
    for section in summary.sections:
        table.add_section()
        table.add_row(Text(section.title, style="bold"))
        for line in section.lines:
            cells: list[Text] = []
            for cell in line.cells:
                text = Text(cell.text)
                if cell.delta:
                    text.append(f" ({cell.delta})", style=_STYLES[cell.verdict])
                cells.append(text)
            table.add_row(Text(f"  {line.label}"), *cells)
    return table


def aggregate_table(aggregates: Sequence[Aggregate], *, title: str | None = None) -> "Table":
    """Means over seeds as a table for the terminal, each with half the width of its 95% confidence
    interval.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(title=None if title is None else Text(title), title_justify="left", show_edge=False)
    table.add_column("")
    for one in aggregates:
        table.add_column(Text(f"{one.policy}, {one.replays} replays"), justify="right")
    means = [{estimate.key: estimate.mean for estimate in one.estimates} for one in aggregates]
    for title_of_group, group, rows in _layout(means):
        shown = [row for row in rows if not _hidden(row, group, means)]
        if shown:
            table.add_section()
            table.add_row(Text(title_of_group, style="bold"))
        for row in shown:
            texts = [format_estimate(one.estimate(f"{group}.{row.name}"), row.unit) for one in aggregates]
            table.add_row(Text(f"  {row.label}"), *map(Text, texts))
    return table


def to_json(measured: Sequence[Measures]) -> str:
    """Replays as JSON: `{"format": 1, "replays": [{policy, backfill, workload, settings, numbers: {key:
    value}}]}`.
    """
    replays = [
        {
            "policy": one.policy,
            "backfill": one.backfill,
            "workload": one.workload,
            "settings": asdict(one.settings),
            "numbers": numbers(one),
        }
        for one in measured
    ]
    return json.dumps({"format": FORMAT, "replays": replays}, indent=2, allow_nan=False) + "\n"


def to_csv(measured: Sequence[Measures]) -> str:
    """Replays as CSV: one line each; the columns are policy, backfill, workload and every key of
    `numbers`.
    """
    rows = [numbers(one) for one in measured]
    keys = list({key: None for row in rows for key in row})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["policy", "backfill", "workload", *keys])
    for one, row in zip(measured, rows, strict=True):
        writer.writerow([one.policy, one.backfill, one.workload, *(row.get(key) for key in keys)])
    return text.getvalue()


def aggregates_to_json(aggregates: Sequence[Aggregate]) -> str:
    """Means over seeds as JSON; `estimates` maps each key to `{mean, std, ci95, count}`."""
    policies = [
        {
            "policy": one.policy,
            "backfill": one.backfill,
            "workload": one.workload,
            "replays": one.replays,
            "estimates": {
                estimate.key: {
                    "mean": estimate.mean,
                    "std": estimate.std,
                    "ci95": estimate.ci95,
                    "count": estimate.count,
                }
                for estimate in one.estimates
            },
        }
        for one in aggregates
    ]
    return json.dumps({"format": FORMAT, "policies": policies}, indent=2, allow_nan=False) + "\n"


def aggregates_to_csv(aggregates: Sequence[Aggregate]) -> str:
    """Means over seeds as CSV: one line for each policy and key, with mean, std, ci95 and count."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["policy", "backfill", "workload", "key", "mean", "std", "ci95", "count"])
    for one in aggregates:
        for estimate in one.estimates:
            numbers_of = [estimate.mean, estimate.std, estimate.ci95, estimate.count]
            writer.writerow([one.policy, one.backfill, one.workload, estimate.key, *numbers_of])
    return text.getvalue()
