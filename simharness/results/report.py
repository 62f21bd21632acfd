"""One self-contained HTML page about one replay, or about several of the same workload side by side.

The page loads nothing: scripts and styles are inline, and its content security policy forbids every
connection.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from makeway.daemon.errors import UserError
from makeway.policies.model import JobKind
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.results import text
from makeway.simharness.results.figures.axes import TimeScale
from makeway.simharness.results.figures.curves import (
    ReplayCurve,
    bounded_slowdowns,
    line_styles,
    load_curve,
    load_figure,
    share_curve,
    slowdown_figure,
    wait_figure,
    waits_s,
)
from makeway.simharness.results.figures.embedding import embedded
from makeway.simharness.results.figures.gantt import GanttWindows, TimeWindow, choose_windows
from makeway.simharness.results.figures.pictures import gantt_figure, waits_figure
from makeway.simharness.results.headline import headlines
from makeway.simharness.results.measures import Measures, MeasureSettings, measure
from makeway.simharness.results.page import ReplayPictures, ReportPage, ReportPicture, render
from makeway.simharness.results.series import nodes_held, queue_length
from makeway.simharness.results.tables import GROUP_TITLES, column_names, summarise

if TYPE_CHECKING:
    from bokeh.model import Model
    from bokeh.models import Range1d

_KINDS = (JobKind.ON_DEMAND, JobKind.RIGID, JobKind.MALLEABLE)
_DISTRIBUTIONS = {f"wait_{kind}": f"{GROUP_TITLES[kind]}: wait" for kind in _KINDS} | {
    f"slowdown_{kind}": f"{GROUP_TITLES[kind]}: bounded slowdown" for kind in _KINDS
}


class ReportUnavailable(UserError):
    """The library that draws is not installed."""


def require_bokeh() -> None:
    """Raises `ReportUnavailable` where bokeh is not installed."""
    try:
        import_module("bokeh.embed")
    except ImportError as error:
        raise ReportUnavailable("the report needs bokeh: pip install 'makeway[report]'") from error


def report_html(
    records: Sequence[ReplayRecord],
    *,
    title: str,
    notes: Sequence[str] = (),
    settings: MeasureSettings | None = None,
) -> str:
    """The page as text. Raises `ValueError` without a record, `ReportUnavailable` without bokeh.

    Args:
        records: replays of one workload, the one to compare with first.
        title: the heading. It is escaped, as every other text.
        notes: remarks, one sentence each.
        settings: what the measures leave open. None: the defaults.
    """
    if not records:
        raise ValueError("nothing to report: no replay was given")
    require_bokeh()
    from bokeh.resources import Resources

    settings = settings or MeasureSettings()
    measured = [measure(record, settings) for record in records]
    names = column_names(measured)
    windows = choose_windows(records)
    curves = _load_curves(records, names, windows)
    figures = {} if windows is None else _figures(records, names, windows, curves, settings)
    script, divs = embedded(figures)
    styles = line_styles(records)
    page = ReportPage(
        title=title,
        facts=text.facts(records, measured),
        notes=tuple(notes),
        headlines=headlines(measured),
        summary=summarise(measured),
        window_note=text.window_note(windows),
        kinds=text.kind_switches(records),
        replays=_replay_pictures(names, measured, divs) if divs else (),
        load_switches=text.line_switches(names, styles, _load_captions(records)),
        load=_pictures(divs, _load_captions(records)),
        load_note=text.load_note([curve for group in curves.values() for curve in group], windows),
        distribution_switches=text.line_switches(names, styles, _DISTRIBUTIONS),
        distributions=_pictures(divs, _DISTRIBUTIONS),
        limit_note=text.limit_note(_common_limit_s(records, settings)),
        settings=text.settings_text(settings),
        script=script,
        library=tuple(Resources(mode="inline", components=["bokeh"]).js_raw),
    )
    return render(page)


def _replay_pictures(
    names: Sequence[str], measured: Sequence[Measures], divs: Mapping[str, str]
) -> tuple[ReplayPictures, ...]:
    """The Gantt chart of each replay, and the waits of its urgent jobs if it has any."""
    return tuple(
        ReplayPictures(
            name=names[index],
            caption=text.caption(one),
            waits=divs.get(f"waits-{index}"),
            gantt=divs[f"gantt-{index}"],
        )
        for index, one in enumerate(measured)
    )


def _pictures(divs: Mapping[str, str], captions: Mapping[str, str]) -> tuple[ReportPicture, ...]:
    return tuple(
        ReportPicture(caption=caption, div=divs[key]) for key, caption in captions.items() if key in divs
    )


def _shared(records: Sequence[ReplayRecord]) -> bool:
    """Whether jobs share nodes: what they hold can then be more than all nodes."""
    return any(record.capacities is not None for record in records)


def _load_captions(records: Sequence[ReplayRecord]) -> dict[str, str]:
    held = "Dominant shares held" if _shared(records) else "Nodes in use"
    return {"utilisation": held, "queue": "Jobs that wait"}


def _figures(
    records: Sequence[ReplayRecord],
    names: Sequence[str],
    windows: GanttWindows,
    curves: Mapping[str, Sequence[ReplayCurve]],
    settings: MeasureSettings,
) -> dict[str, "Model"]:
    """Every picture of the page under a key of its own."""
    scale = TimeScale.spanning(windows.whole.from_s, windows.whole.to_s)
    moving = _range(windows.view, windows.loaded, scale)
    figures: dict[str, Model] = {}
    for index, record in enumerate(records):
        if any(entry.job.kind is JobKind.ON_DEMAND for entry in record.jobs):
            figures[f"waits-{index}"] = waits_figure(
                record, index, windows, scale, moving, start_within_s=settings.start_within_s
            )
        figures[f"gantt-{index}"] = gantt_figure(record, index, windows, scale, moving)
    over_time = moving if windows.complete else _range(windows.whole, windows.whole, scale)
    mark = None if windows.complete else windows.loaded
    styles = line_styles(records)
    shared = _shared(records)
    held = "dominant shares held (%)" if shared else "nodes in use (%)"
    for key, label, top in (
        ("utilisation", held, None if shared else 102.0),
        ("queue", "waiting jobs", None),
    ):
        figures[key] = load_figure(
            curves[key], styles, scale, over_time, what=key, label=label, top=top, mark=mark
        )
    return figures | _distribution_figures(records, names, settings)


def _range(view: TimeWindow, bounds: TimeWindow, scale: TimeScale) -> "Range1d":
    """A horizontal range that begins with `view` and cannot leave `bounds`."""
    from bokeh.models import Range1d

    return Range1d(
        start=view.from_s - scale.zero_s,
        end=view.to_s - scale.zero_s,
        bounds=(bounds.from_s - scale.zero_s, bounds.to_s - scale.zero_s),
    )


def _load_curves(
    records: Sequence[ReplayRecord], names: Sequence[str], windows: GanttWindows | None
) -> dict[str, list[ReplayCurve]]:
    """The curves over time by picture; none if nothing was submitted."""
    if windows is None:
        return {}
    whole = windows.whole
    scale = TimeScale.spanning(whole.from_s, whole.to_s)
    pairs = list(zip(names, records, strict=True))
    return {
        "utilisation": [
            load_curve(name, nodes_held(record), whole, scale, factor=100.0 / record.node_count)
            for name, record in pairs
        ],
        "queue": [load_curve(name, queue_length(record), whole, scale, factor=1.0) for name, record in pairs],
    }


def _distribution_figures(
    records: Sequence[ReplayRecord], names: Sequence[str], settings: MeasureSettings
) -> dict[str, "Model"]:
    """Waits and bounded slowdowns of every kind that has jobs."""
    styles = line_styles(records)
    figures: dict[str, Model] = {}
    for kind in _KINDS:
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
    """How late a start may be to be on time, if that is the same for every urgent job. None: it is not."""
    limits = {
        settings.start_within_s if entry.job.start_within_s is None else entry.job.start_within_s
        for record in records
        for entry in record.jobs
        if entry.job.kind is JobKind.ON_DEMAND
    }
    return limits.pop() if len(limits) == 1 else None
