"""The curves of a report, one line for each replay: load over time, waits and slowdowns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from makeway.policies.model import JobKind
from makeway.simharness.engine.records import ReplayRecord
from makeway.simharness.results.figures.axes import TimeScale, add_tools, base_figure, style_time
from makeway.simharness.results.figures.gantt import TimeWindow
from makeway.simharness.results.formats import format_duration
from makeway.simharness.results.measures import MeasureSettings
from makeway.simharness.results.series import Floats, StepSeries, floats
from makeway.simharness.results.tables import NO_MAKEWAY

if TYPE_CHECKING:
    from bokeh.models import FixedTicker, Range1d
    from bokeh.plotting import figure

BINS = 800
"""The most steps of a curve; one with more is drawn as its means over this many equal stretches."""
_ECDF_POINTS = 500
_HEIGHT_PX = 230
_PANEL_HEIGHT_PX = 260

_WAIT_TICKS = {
    1: "≤ 1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    3600: "1 h",
    36000: "10 h",
    345600: "4 d",
    3456000: "40 d",
}
_SLOWDOWN_TICKS = {1: "1", 2: "2", 5: "5", 10: "10", 100: "100", 1000: "1,000", 10000: "10,000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStyle:
    """How the curves of one replay are drawn."""

    colour: str
    dash: str
    width: float


_WITHOUT_STYLES = (
    LineStyle(colour="#9AA1AB", dash="", width=2.2),
    LineStyle(colour="#9AA1AB", dash="2 3", width=2.2),
)
_STYLES = tuple(
    LineStyle(colour=colour, dash=dash, width=1.6)
    for dash in ("", "9 3 2 3")
    for colour in ("#5B2A86", "#E09F00", "#0F6FC6", "#D6336C", "#3F2A14", "#4D8B31")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCurve:
    """One replay's line, ready to draw. Both arrays have shape (n,)."""

    name: str
    x: Floats
    y: Floats
    binned_s: float | None = None
    """Length of the stretches whose means are drawn. None: the curve is exact."""


def line_styles(records: Sequence[ReplayRecord]) -> list[LineStyle]:
    """A style for each replay; those without makeway are grey."""
    without = with_makeway = 0
    styles: list[LineStyle] = []
    for record in records:
        if record.policy == NO_MAKEWAY:
            styles.append(_WITHOUT_STYLES[without % len(_WITHOUT_STYLES)])
            without += 1
        else:
            styles.append(_STYLES[with_makeway % len(_STYLES)])
            with_makeway += 1
    return styles


def load_curve(
    name: str, series: StepSeries, whole: TimeWindow, scale: TimeScale, *, factor: float
) -> ReplayCurve:
    """A step curve of `series` x `factor` over the whole replay, or its means over `BINS` stretches."""
    if series.times_s.size <= BINS:
        times_s = np.concatenate(([whole.from_s], series.times_s, [whole.to_s]))
        values = np.concatenate(([0.0], series.values, series.values[-1:] if series.values.size else [0.0]))
        return ReplayCurve(name=name, x=times_s - scale.zero_s, y=values * factor)
    edges_s = np.linspace(whole.from_s, whole.to_s, BINS + 1)
    means = series.bin_means(edges_s) * factor
    return ReplayCurve(
        name=name,
        x=edges_s - scale.zero_s,
        y=np.concatenate((means, means[-1:])),
        binned_s=(whole.to_s - whole.from_s) / BINS,
    )


def share_curve(name: str, values: Floats, jobs: int) -> ReplayCurve:
    """The share of `jobs` jobs, in percent, whose value is at most x. Many values are thinned evenly.

    A job without a value (it never started) is in `jobs` and not in `values`: the curve then ends below 100%.
    """
    ordered = np.sort(values)
    counts = np.arange(1, ordered.size + 1)
    if ordered.size > _ECDF_POINTS:
        kept = np.unique(np.linspace(0, ordered.size - 1, _ECDF_POINTS).round().astype(np.int64))
        ordered, counts = ordered[kept], counts[kept]
    return ReplayCurve(
        name=name,
        x=np.concatenate((ordered[:1], ordered)),
        y=np.concatenate(([0.0][: ordered.size], 100.0 * counts / max(jobs, 1))),
    )


def waits_s(record: ReplayRecord, kind: JobKind) -> Floats:
    """Waits of the jobs of a kind that started."""
    return floats(
        entry.start_s - entry.job.submit_s
        for entry in record.jobs
        if entry.job.kind is kind and entry.start_s is not None
    )


def bounded_slowdowns(record: ReplayRecord, kind: JobKind, settings: MeasureSettings) -> Floats:
    """Bounded slowdowns of the jobs of a kind that started, as `measures` defines them."""
    run_s = floats(
        max(entry.job.runtime_s, settings.bound_s)
        for entry in record.jobs
        if entry.job.kind is kind and entry.start_s is not None
    )
    return np.asarray((waits_s(record, kind) + run_s) / run_s, dtype=np.float64)


def load_figure(
    curves: Sequence[ReplayCurve],
    styles: Sequence[LineStyle],
    scale: TimeScale,
    x_range: "Range1d",
    *,
    what: str,
    label: str,
    top: float | None = None,
    mark: TimeWindow | None = None,
) -> "figure":
    """Curves over time.

    Args:
        curves: one a replay.
        styles: one a replay.
        scale: the page's time axis.
        x_range: shared by the pictures that move together.
        what: the first part of the lines' names.
        label: of the vertical axis.
        top: upper end of the vertical axis. None: what the curves need.
        mark: a stretch of time to shade. None: none.
    """
    from bokeh.models import Range1d
    from bokeh.models.annotations import BoxAnnotation

    highest = max((float(curve.y.max()) for curve in curves if curve.y.size), default=0.0)
    drawn = base_figure(
        height=_HEIGHT_PX,
        x_range=x_range,
        y_range=Range1d(start=0, end=top if top is not None else max(1.05 * highest, 1.0)),
    )
    add_tools(drawn)
    style_time(drawn, scale)
    drawn.yaxis.axis_label = label
    if mark is not None:
        left, right = mark.from_s - scale.zero_s, mark.to_s - scale.zero_s
        drawn.add_layout(BoxAnnotation(left=left, right=right, fill_color="#F5C518", fill_alpha=0.25))
    _draw(drawn, curves, styles, what, tips=[("", "@name"), (label, "@y{0,0.0}")])
    return drawn


def wait_figure(
    curves: Sequence[ReplayCurve], styles: Sequence[LineStyle], *, kind: JobKind, within_s: float | None
) -> "figure":
    """Share of the jobs of a kind that waited at most x. `within_s`: where on time ends; None: not drawn."""
    from bokeh.models.annotations import Span

    drawn = _distribution(curves, _WAIT_TICKS, label="wait until the first start")
    if within_s is not None:
        drawn.add_layout(
            Span(
                location=within_s, dimension="height", line_color="#B0300F", line_dash=[3, 3], line_width=1.5
            )
        )
    clipped = [ReplayCurve(name=curve.name, x=np.maximum(curve.x, 1.0), y=curve.y) for curve in curves]
    _draw(
        drawn,
        clipped,
        styles,
        f"wait_{kind.value}",
        tips=[("", "@name"), ("share", "@y{0.0}%"), ("wait", "@text")],
    )
    return drawn


def slowdown_figure(curves: Sequence[ReplayCurve], styles: Sequence[LineStyle], *, kind: JobKind) -> "figure":
    """Share of the jobs of a kind whose bounded slowdown is at most x."""
    drawn = _distribution(curves, _SLOWDOWN_TICKS, label="bounded slowdown")
    tips = [("", "@name"), ("share", "@y{0.0}%"), ("bounded slowdown", "@x{0,0.00}")]
    _draw(drawn, curves, styles, f"slowdown_{kind.value}", tips=tips)
    return drawn


def _distribution(curves: Sequence[ReplayCurve], ticks: dict[int, str], *, label: str) -> "figure":
    from bokeh.models import Range1d

    highest = max((float(curve.x.max()) for curve in curves if curve.x.size), default=1.0)
    end = next((tick for tick in ticks if tick >= highest), highest)
    drawn = base_figure(
        height=_PANEL_HEIGHT_PX,
        x_range=Range1d(start=0.9, end=max(float(end), 10.0) * 1.1),
        y_range=Range1d(start=0, end=101),
        x_type="log",
    )
    drawn.min_border_left = 50
    drawn.xaxis.ticker = drawn.xgrid.ticker = _ticker(ticks)
    drawn.xaxis.major_label_overrides = {float(tick): text for tick, text in ticks.items()}
    drawn.xaxis.axis_label = label
    drawn.yaxis.axis_label = "share of jobs (%)"
    return drawn


def _ticker(ticks: dict[int, str]) -> "FixedTicker":
    from bokeh.models import FixedTicker

    return FixedTicker(ticks=[float(tick) for tick in ticks])


def _draw(
    drawn: "figure",
    curves: Sequence[ReplayCurve],
    styles: Sequence[LineStyle],
    what: str,
    *,
    tips: list[tuple[str, str]],
) -> None:
    from bokeh.models import ColumnDataSource, HoverTool
    from bokeh.models.renderers import DataRenderer

    lines: list[DataRenderer] = []
    for index, (curve, style) in enumerate(zip(curves, styles, strict=True)):
        texts = [format_duration(x) for x in curve.x] if what.startswith("wait") else []
        columns = {"x": curve.x, "y": curve.y, "name": [curve.name] * curve.x.size}
        if texts:
            columns["text"] = texts
        lines.append(
            drawn.step(
                x="x",
                y="y",
                source=ColumnDataSource(data=columns),
                mode="after",
                name=f"{what}-{index}",
                line_color=style.colour,
                line_dash=style.dash,
                line_width=style.width,
            )
        )
    drawn.add_tools(HoverTool(renderers=lines, tooltips=tips, line_policy="nearest"))
