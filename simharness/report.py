"""One self-contained HTML page about one replay, or about several of the same workload side by side.

The page loads nothing: scripts and styles are inline, and its content security policy forbids every connection.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from makeway.policies.model import JobKind
from makeway.simharness.headline import headlines
from makeway.simharness.measures import ALL, Measures, MeasureSettings, measure
from makeway.simharness.records import MarkKind, ReplayRecord
from makeway.simharness.report_axes import INK, TimeScale
from makeway.simharness.report_curves import (
    Curve,
    LineStyle,
    bounded_slowdowns,
    line_styles,
    load_curve,
    load_figure,
    share_curve,
    slowdown_figure,
    wait_figure,
    waits_s,
)
from makeway.simharness.report_figures import (
    EDGE,
    KIND_COLOURS,
    MARK_STYLES,
    gantt_figure,
    toggle_names,
    waits_figure,
)
from makeway.simharness.report_gantt import Windows, choose_windows
from makeway.simharness.report_page import Page, Picture, ReplayPictures, Switch, render
from makeway.simharness.series import nodes_held, queue_length
from makeway.simharness.tables import GROUP_TITLES, column_names, format_duration, format_number, summarise, Unit

if TYPE_CHECKING:
    from bokeh.models import Range1d
    from bokeh.plotting import figure


class ReportUnavailable(Exception):
    """The library that draws is not installed."""


def write_report(
    path: Path,
    records: Sequence[ReplayRecord],
    *,
    title: str,
    notes: Sequence[str] = (),
    settings: MeasureSettings | None = None,
) -> None:
    """Write the page.

    Args:
        path: the file to write; one that exists is replaced.
        records: replays of one workload, the one to compare with first.
        title: the heading. Like every other text it may hold anything: it is escaped.
        notes: remarks that belong on the page, one sentence each.
        settings: what the measures leave open. None: the defaults.

    Raises:
        ValueError: there is no record.
        ReportUnavailable: bokeh is not installed.
        OSError: the file cannot be written.
    """
    path.write_text(report_html(records, title=title, notes=notes, settings=settings), encoding="utf-8")


def report_html(
    records: Sequence[ReplayRecord],
    *,
    title: str,
    notes: Sequence[str] = (),
    settings: MeasureSettings | None = None,
) -> str:
    """The page as text; see `write_report`."""
    if not records:
        raise ValueError("nothing to report: no replay was given")
    try:
        from bokeh.embed import components
        from bokeh.resources import Resources
    except ImportError as error:
        raise ReportUnavailable("the report needs bokeh: pip install 'makeway[report]'") from error
    settings = settings or MeasureSettings()
    measured = [measure(record, settings) for record in records]
    names = column_names(measured)
    windows = choose_windows(records)
    figures = {} if windows is None else _figures(records, names, windows, settings)
    script, divs = components(figures) if figures else ("", {})
    styles = line_styles(records)
    page = Page(
        title=title,
        facts=_facts(records, measured),
        notes=tuple(notes),
        headlines=headlines(measured),
        summary=summarise(measured),
        window_note=_window_note(windows),
        kinds=_kind_switches(records),
        replays=tuple(
            ReplayPictures(
                name=names[index],
                caption=_caption(one),
                waits=divs.get(f"waits-{index}"),
                gantt=divs[f"gantt-{index}"],
            )
            for index, one in enumerate(measured)
            if divs
        ),
        load_switches=_line_switches(names, styles, ("utilisation", "queue")),
        load=_pictures(divs, {"utilisation": "Nodes in use", "queue": "Jobs that wait"}),
        load_note=_load_note(records, windows),
        distribution_switches=_line_switches(names, styles, _DISTRIBUTIONS),
        distributions=_pictures(divs, _DISTRIBUTIONS),
        limit_note=_limit_note(records, settings),
        settings=_settings_text(settings),
        script=script,
        library=Resources(mode="inline", components=["bokeh"]).js_raw,
    )
    return render(page)


_KIND_TITLES = {kind: GROUP_TITLES[kind] for kind in (JobKind.ON_DEMAND, JobKind.RIGID, JobKind.MALLEABLE)}
_DISTRIBUTIONS = {f"wait_{kind}": f"{title}: wait" for kind, title in _KIND_TITLES.items()} | {
    f"slowdown_{kind}": f"{title}: bounded slowdown" for kind, title in _KIND_TITLES.items()
}


def _figures(
    records: Sequence[ReplayRecord], names: Sequence[str], windows: Windows, settings: MeasureSettings
) -> dict[str, "figure"]:
    """Every picture of the page under a key of its own."""
    from bokeh.models import Range1d

    scale = TimeScale.spanning(windows.whole.from_s, windows.whole.to_s)
    moving = _range(windows.view, windows.loaded, scale)
    figures = {}
    for index, record in enumerate(records):
        if any(entry.job.kind is JobKind.ON_DEMAND for entry in record.jobs):
            figures[f"waits-{index}"] = waits_figure(
                record, index, windows, scale, moving, start_within_s=settings.start_within_s
            )
        figures[f"gantt-{index}"] = gantt_figure(record, index, windows, scale, moving)
    over_time = moving if windows.complete else _range(windows.whole, windows.whole, scale)
    return figures | _load_figures(records, names, windows, scale, over_time) | _distribution_figures(...)


def _range(view: Window, bounds: Window, scale: TimeScale) -> "Range1d":
    """A horizontal range that begins with `view` and cannot leave `bounds`."""
    from bokeh.models import Range1d

    zero_s = scale.zero_s
    return Range1d(
        start=view.from_s - zero_s,
        end=view.to_s - zero_s,
        bounds=(bounds.from_s - zero_s, bounds.to_s - zero_s),
    )


def _load_figures(
    records: Sequence[ReplayRecord],
    names: Sequence[str],
    windows: Windows,
    scale: TimeScale,
    x_range: "Range1d",
) -> dict[str, "figure"]:
    whole, styles = windows.whole, line_styles(records)
    pairs = list(zip(names, records, strict=True))
    used = [
        load_curve(name, nodes_held(record), whole, scale, factor=100.0 / record.node_count)
        for name, record in pairs
    ]
    waiting = [load_curve(name, queue_length(record), whole, scale, factor=1.0) for name, record in pairs]
    mark = None if windows.complete else windows.loaded
    return {
        "utilisation": load_figure(
            used, styles, scale, x_range, what="utilisation", label="nodes in use (%)", top=102.0, mark=mark
        ),
        "queue": load_figure(waiting, styles, scale, x_range, what="queue", label="waiting jobs", mark=mark),
    }


def _distribution_figures(
    records: Sequence[ReplayRecord], names: Sequence[str], settings: MeasureSettings
) -> dict[str, "figure"]:
    """Waits and bounded slowdowns of every kind that has jobs."""
    styles = line_styles(records)
    figures = {}
    for kind in _KIND_TITLES:
        counts = [sum(entry.job.kind is kind for entry in record.jobs) for record in records]
        if not any(counts):
            continue
        rows = list(zip(names, records, counts, strict=True))
        waits = [share_curve(name, waits_s(record, kind), jobs) for name, record, jobs in rows]
        slow = [
            share_curve(name, bounded_slowdowns(record, kind, settings), jobs) for name, record, jobs in rows
        ]
        limit_s = _common_limit_s(records, settings) if kind is JobKind.ON_DEMAND else None
        figures[f"wait_{kind}"] = wait_figure(waits, styles, kind=kind, within_s=limit_s)
        figures[f"slowdown_{kind}"] = slowdown_figure(slow, styles, kind=kind)
    return figures


def _common_limit_s(records: Sequence[ReplayRecord], settings: MeasureSettings) -> float | None:
    """Until when a start is on time, if that is the same for every urgent job. None: it is not."""
    limits = {
        settings.start_within_s if entry.job.start_within_s is None else entry.job.start_within_s
        for record in records
        for entry in record.jobs
        if entry.job.kind is JobKind.ON_DEMAND
    }
    return limits.pop() if len(limits) == 1 else None


def _limit_note(records: Sequence[ReplayRecord], settings: MeasureSettings) -> str:
    limit_s = _common_limit_s(records, settings)
    return "" if limit_s is None else f"The dotted line is where on time ends: {format_duration(limit_s)}."


def _pictures(divs: Mapping[str, str], captions: Mapping[str, str]) -> tuple[Picture, ...]:
    return tuple(Picture(caption=text, div=divs[key]) for key, text in captions.items() if key in divs)


def _facts(records: Sequence[ReplayRecord], measured: Sequence[Measures]) -> tuple[str, ...]:
    """What was replayed, in a few words each; what differs between the replays is listed."""
    first = measured[0]
    kinds = [(first.group(kind).jobs, word) for kind, word in KIND_WORDS.items()]
    split = ", ".join(f"{count:,} {word}" for count, word in kinds if count)
    facts = [
        _distinct(record.workload for record in records),
        f"{_distinct(f'{record.node_count:,}' for record in records)} nodes",
        f"{first.group(ALL).jobs:,} jobs ({split})" if split else "no jobs",
        f"base scheduler with {_distinct(record.backfill for record in records)} backfill",
    ]
    if first.makespan_s is not None:
        facts.append(f"{format_duration(first.makespan_s)} of cluster time")
    if any(one.excluded for one in measured):
        facts.append(f"{_distinct(f'{one.excluded:,}' for one in measured)} jobs left out: larger than the machine")
    return tuple(facts)


def _distinct(texts: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(texts))


def _caption(measures: Measures) -> str:
    urgent, total = measures.group(JobKind.ON_DEMAND), measures.group(ALL)
    parts = [f"{urgent.on_time:,} of {urgent.jobs:,} urgent jobs on time"] if urgent.jobs else []
    parts += [f"{total.evictions:,} evictions"] if total.evictions else []
    parts += [f"{total.shrinks:,} shrinks"] if total.shrinks else []
    if measures.utilisation is not None:
        parts.append(f"utilisation {format_number(measures.utilisation, Unit.SHARE)}")
    return ", ".join(parts)


def _window_note(windows: Windows | None) -> str:
    if windows is None or (windows.complete and windows.view == windows.whole):
        return ""
    whole = windows.whole
    scale = TimeScale.spanning(whole.from_s, whole.to_s)

    def between(window: Window) -> str:
        return f"{scale.text(window.from_s)} to {scale.text(window.to_s)}"

    seen = f"These pictures open on {between(windows.view)}, where most jobs were evicted or shrunk"
    if windows.complete:
        return f"{seen}; zoom out to see the whole replay."
    return (
        f"{seen}, and hold {between(windows.loaded)}; the rest of the replay "
        f"({format_duration(whole.to_s - whole.from_s)} in all) is left out of them, to keep this file small. "
        "The numbers, the load and the distributions are of the whole replay."
    )


def _load_note(records: Sequence[ReplayRecord], windows: Windows | None) -> str:
    if windows is None:
        return ""
    notes = []
    if not windows.complete:
        notes.append("The shaded stretch is the one of the pictures above.")
    if any(2 * len(record.jobs) > BINS for record in records):
        binned = format_duration((windows.whole.to_s - windows.whole.from_s) / BINS)
        notes.append(f"Where a curve has too many steps to be told apart, each step is the mean over {binned}.")
    return " ".join(notes)
