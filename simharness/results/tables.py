"""The numbers of one or several replays side by side, as tables for the terminal and for the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from makeway.policies.model import JobKind
from makeway.simharness.results.averages import Aggregate
from makeway.simharness.results.formats import Unit, format_change, format_estimate, format_number
from makeway.simharness.results.measures import ALL, Measures, Number, numbers

if TYPE_CHECKING:
    from rich.table import Table

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
    shared_label: str = ""
    """The label where jobs share nodes. Empty: the same."""
    lower_is_better: bool | None = None
    """None: a change is neither good nor bad."""
    hide_zero: bool = False
    """Leave the line out where it is zero in every replay."""
    hide_equal: str = ""
    """Leave the line out where it equals this other number of the same group in every replay."""

    def label_of(self, *, shared: bool) -> str:
        """The label. `shared`: whether jobs share nodes."""
        return self.shared_label if shared and self.shared_label else self.label


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
    SummaryRow(
        name="utilisation",
        label="utilisation",
        shared_label="dominant shares held",
        unit=Unit.SHARE,
        lower_is_better=False,
    ),
    SummaryRow(
        name="useful_utilisation",
        label="useful utilisation",
        shared_label="useful dominant shares",
        unit=Unit.SHARE,
        lower_is_better=False,
    ),
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
        name="lost_core_hours",
        label="work lost (core-h)",
        unit=Unit.NODE_HOURS,
        lower_is_better=True,
        hide_zero=True,
    ),
    SummaryRow(
        name="lost_gpu_hours",
        label="work lost (GPU-h)",
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
    """A unique name for each replay: the policy, and as much more as is needed."""
    plain = [WITHOUT if one.policy == NO_MAKEWAY else one.policy for one in measured]
    with_backfill = [f"{name}, {one.backfill}" for name, one in zip(plain, measured, strict=True)]
    with_workload = [f"{name}, {one.workload}" for name, one in zip(with_backfill, measured, strict=True)]
    for names in (plain, with_backfill, with_workload):
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"{name} #{index}" for index, name in enumerate(plain, 1))


def summarise(measured: Sequence[Measures]) -> ReplaySummary:
    """The summary of one or several replays. Changes are against the first; lines without numbers are left
    out.
    """
    values = [numbers(one) for one in measured]
    shared = any(one.shared for one in measured)
    sections = [_section(title, group, rows, values, shared) for title, group, rows in _layout(values)]
    return ReplaySummary(
        columns=column_names(measured), sections=tuple(section for section in sections if section.lines)
    )


def _layout(values: Sequence[Mapping[str, Number]]) -> list[tuple[str, str, tuple[SummaryRow, ...]]]:
    """Title, group and rows of every section.

    Kinds without jobs are left out; if all jobs are rigid, only "All jobs" is shown.
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
    title: str,
    group: str,
    rows: Sequence[SummaryRow],
    values: Sequence[Mapping[str, Number]],
    shared: bool,
) -> SummarySection:
    lines: list[SummaryLine] = []
    for row in rows:
        key = f"{group}.{row.name}"
        if _hidden(row, group, values):
            continue
        found = [one[key] for one in values]
        cells = [_cell(row, value, found[0], first=not index) for index, value in enumerate(found)]
        lines.append(SummaryLine(key=key, label=row.label_of(shared=shared), cells=tuple(cells)))
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
    """Means over seeds as a table for the terminal, with half their 95% confidence intervals."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=None if title is None else Text(title), title_justify="left", show_edge=False)
    table.add_column("")
    for one in aggregates:
        table.add_column(Text(f"{one.policy}, {one.replays} replays"), justify="right")
    shared = any(one.shared for one in aggregates)
    means = [{estimate.key: estimate.mean for estimate in one.estimates} for one in aggregates]
    for title_of_group, group, rows in _layout(means):
        shown = [row for row in rows if not _hidden(row, group, means)]
        if shown:
            table.add_section()
            table.add_row(Text(title_of_group, style="bold"))
        for row in shown:
            texts = [format_estimate(one.estimate(f"{group}.{row.name}"), row.unit) for one in aggregates]
            table.add_row(Text(f"  {row.label_of(shared=shared)}"), *map(Text, texts))
    return table
