"""P3's figures 4 to 7 drawn again, and the page around them. bokeh is loaded when the first one is drawn."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from makeway.simharness.papers.common.claims import Claim
from makeway.simharness.papers.common.figures import HoverCurve, draw_lines
from makeway.simharness.papers.common.page import FigurePanels, PageSection, PaperPage, page_html
from makeway.simharness.papers.p3.cases import (
    ALPHAS,
    EXTENDS_S,
    LOAD_EDGES,
    P_VALUES,
    P,
    P3Result,
    P3Results,
)
from makeway.simharness.papers.p3.tables import (
    CHECKPOINTS,
    COMPARED,
    OVERHEADS,
    WAIT,
    P3Metric,
    paper_grid,
    trace_grid,
)
from makeway.simharness.results.figures.axes import INK, base_figure
from makeway.simharness.results.figures.curves import LineStyle
from makeway.simharness.results.text import line_switches

if TYPE_CHECKING:
    from bokeh.model import Model
    from bokeh.plotting import figure

_HEIGHT_PX = 270
_GREY = LineStyle(colour="#9AA1AB", dash="", width=2.2)
_ALGORITHM_STYLES = (
    _GREY,
    LineStyle(colour="#0F6FC6", dash="6 3", width=1.6),
    LineStyle(colour="#5B2A86", dash="", width=2.2),
    LineStyle(colour="#E09F00", dash="2 3", width=2.2),
)
_TRACE_STYLES = (
    LineStyle(colour="#5B2A86", dash="", width=1.6),
    LineStyle(colour="#E09F00", dash="6 3", width=1.6),
    LineStyle(colour="#0F6FC6", dash="2 3", width=2.2),
)
_BAR_COLOURS = ("#9AA1AB", "#E09F00", "#5B2A86", "#0F6FC6", "#D6336C")
_BAR_NAMES = ("classical, actual run times", *(f"p = {p:g}" for p in P_VALUES))
_BAR_STYLES = tuple(LineStyle(colour=colour, dash="", width=6.0) for colour in _BAR_COLOURS)
_BAR_WIDTH = 0.16
_ALGORITHMS = (
    "classical, users' limits",
    "classical, actual run times",
    f"makeway, p = {P:g}",
    f"the paper's algorithms as written, p = {P:g}",
)
_ALPHA_PLACES = (0, 2, 3)
"""The algorithms shown in figure 6."""


def report_html(
    results: P3Results, claims: Sequence[Claim], title: str, facts: Sequence[str], notes: Sequence[str]
) -> str:
    """The page as text.

    Args:
        results: every replay.
        claims: what the paper says, checked on them.
        title: the heading.
        facts: what was replayed, in a few words each.
        notes: remarks that belong on the page, one sentence each.
    """
    figures = _figures(results)
    page = PaperPage(
        title=title,
        facts=tuple(facts),
        claims=tuple(claims),
        notes=tuple(notes),
        sections=_sections(results),
    )
    return page_html(page, figures)


def _sections(results: P3Results) -> tuple[PageSection, ...]:
    """The parts of the page, in their order."""
    traces = results.traces
    return (
        PageSection(
            heading="The share p of the time limit that is believed",
            hint="In percent of the classical algorithm with the users' time limits, the dotted line. "
            "Less is better, except for the backfill ratio.",
            switches=line_switches(_BAR_NAMES, _BAR_STYLES, [f"share-{trace}" for trace in traces]),
            panels=(_panels("Figure 4", [(trace, f"share-{trace}") for trace in traces]),),
        ),
        PageSection(
            heading="Queue length by how busy the machine is",
            hint=(
                "Days sorted by the utilisation that each algorithm reached on them; mean of their "
                "jobs that wait."
            ),
            switches=line_switches(_ALGORITHMS, _ALGORITHM_STYLES, [f"load-{trace}" for trace in traces]),
            panels=(_panels("Figure 5", [(trace, f"load-{trace}") for trace in traces]),),
        ),
        PageSection(
            heading="How good the time limits are",
            hint="Time limit = run time + α (what the user asked for − run time).",
            switches=line_switches(
                [_ALGORITHMS[place].split(", users")[0] for place in _ALPHA_PLACES],
                [_ALGORITHM_STYLES[place] for place in _ALPHA_PLACES],
                [f"alpha-{quantity.key}-{trace}" for quantity in COMPARED for trace in traces],
            ),
            panels=tuple(
                _panels(
                    f"Figure 6, {quantity.name}",
                    [(trace, f"alpha-{quantity.key}-{trace}") for trace in traces],
                )
                for quantity in COMPARED
            ),
        ),
        _overhead_section(traces),
        PageSection(
            heading="The numbers",
            hint="Changes are against the classical algorithm with the users' time limits.",
            grids=(paper_grid(results), *(trace_grid(results, trace) for trace in traces)),
        ),
    )


def _overhead_section(traces: Sequence[str]) -> PageSection:
    """What the time for checkpoints makes of the figures, and what evictions cost."""
    return PageSection(
        heading="What checkpoints cost",
        hint=f"p = {P:g}. Above: in percent of the classical algorithm. Below: jobs that were evicted, "
        "checkpoints per node and day, node-time that was lost by evictions. The paper shows Intrepid.",
        switches=line_switches(
            traces,
            _TRACE_STYLES[: len(traces)],
            [f"extend-{quantity.key}" for quantity in (*COMPARED, *OVERHEADS)],
        ),
        panels=tuple(
            _panels("Figure 7", [(quantity.name, f"extend-{quantity.key}") for quantity in row])
            for row in (COMPARED, OVERHEADS)
        ),
    )


def _panels(heading: str, figures: Sequence[tuple[str, str]]) -> FigurePanels:
    return FigurePanels(heading=heading, figures=tuple(figures))


def _figures(results: P3Results) -> "dict[str, Model]":
    """Every figure under its key. Pictures that are compared have the same axes."""
    figures: dict[str, Model] = {}
    for trace in results.traces:
        figures[f"share-{trace}"] = _share_figure(results, trace)
        figures[f"load-{trace}"] = _load_figure(results, trace)
        for quantity in COMPARED:
            figures[f"alpha-{quantity.key}-{trace}"] = _alpha_figure(results, trace, quantity)
    for quantity in (*COMPARED, *OVERHEADS):
        figures[f"extend-{quantity.key}"] = _extend_figure(results, quantity)
    return figures


def _share_figure(results: P3Results, trace: str) -> "figure":
    """The metrics under each p in percent of the classical algorithm's (one panel of figure 4)."""
    from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, Range1d
    from bokeh.models.renderers import DataRenderer

    base = results.classical(trace)
    shown = (results.classical(trace, alpha=0.0), *(results.early(trace, p) for p in P_VALUES))
    highest = max(100 * quantity.of(one) / quantity.of(base) for one in shown for quantity in _present(base))
    drawn = base_figure(
        height=_HEIGHT_PX,
        x_range=Range1d(start=-0.5, end=len(COMPARED) - 0.5),
        y_range=Range1d(start=0, end=1.05 * max(highest, 100.0)),
    )
    drawn.xaxis.ticker = FixedTicker(ticks=list(range(len(COMPARED))))
    drawn.xaxis.major_label_overrides = {index: one.name for index, one in enumerate(COMPARED)}
    drawn.xgrid.visible = False
    drawn.yaxis.axis_label = "% of the classical algorithm"
    bars: list[DataRenderer] = []
    for index, one in enumerate(shown):
        columns = {
            "x": [
                place + (index - (len(shown) - 1) / 2) * _BAR_WIDTH
                for place, quantity in enumerate(COMPARED)
                if quantity in _present(base)
            ],
            "top": [100 * quantity.of(one) / quantity.of(base) for quantity in _present(base)],
            "text": [f"{quantity.name} {quantity.text(quantity.of(one))}" for quantity in _present(base)],
            "label": [_BAR_NAMES[index]] * len(_present(base)),
        }
        bars.append(
            drawn.vbar(
                x="x",
                top="top",
                width=0.9 * _BAR_WIDTH,
                source=ColumnDataSource(data=columns),
                name=f"share-{trace}-{index}",
                fill_color=_BAR_COLOURS[index],
                line_color=None,
            )
        )
    drawn.hspan(y=100, line_color=INK, line_dash="dotted")
    drawn.add_tools(HoverTool(renderers=bars, tooltips=[("", "@label"), ("", "@text"), ("", "@top{0}%")]))
    return drawn


def _present(base: P3Result) -> list[P3Metric]:
    """The metrics of which the classical algorithm has any, so that there is a ratio."""
    return [quantity for quantity in COMPARED if quantity.of(base)]


def _load_figure(results: P3Results, trace: str) -> "figure":
    """Queue length by utilisation of the day (one panel of figure 5)."""
    shown = (
        results.classical(trace),
        results.classical(trace, alpha=0.0),
        results.early(trace),
        results.literal(trace),
    )
    lines: list[HoverCurve] = []
    for index, one in enumerate(shown):
        days = [bucket for bucket in one.by_load if bucket.queue_length is not None]
        lines.append(
            HoverCurve(
                name=f"load-{trace}-{index}",
                label=_ALGORITHMS[index],
                x=tuple(50 * (bucket.from_utilisation + bucket.to_utilisation) for bucket in days),
                y=tuple(bucket.queue_length or 0.0 for bucket in days),
                texts=tuple(f"{bucket.queue_length:.1f} jobs ({bucket.days} days)" for bucket in days),
            )
        )
    ticks = [(100 * edge, f"{100 * edge:.0f}%") for edge in LOAD_EDGES]
    return _curves(lines, _ALGORITHM_STYLES, ticks, ("utilisation", "around @x%"), "jobs that wait")


def _alpha_figure(results: P3Results, trace: str, quantity: P3Metric) -> "figure":
    """A metric against the inaccuracy of the time limits (one panel of figure 6)."""
    curves = (
        [of(trace, alpha=alpha) for alpha in ALPHAS]
        for of in (results.classical, results.early, results.literal)
    )
    lines = [
        HoverCurve(
            name=f"alpha-{quantity.key}-{trace}-{index}",
            label=_ALGORITHMS[place].split(", users")[0],
            x=ALPHAS,
            y=tuple(map(quantity.of, outcomes)),
            texts=tuple(quantity.text(quantity.of(one)) for one in outcomes),
        )
        for index, (place, outcomes) in enumerate(zip(_ALPHA_PLACES, curves, strict=True))
    ]
    ticks = [(alpha, f"{alpha:g}") for alpha in ALPHAS]
    name = f"{quantity.name} (s)" if quantity is WAIT else quantity.name
    styles = [_ALGORITHM_STYLES[place] for place in _ALPHA_PLACES]
    return _curves(lines, styles, ticks, ("α", "@x"), name)


def _extend_figure(results: P3Results, quantity: P3Metric) -> "figure":
    """A metric against the cost of a checkpoint, a line a trace (one panel of figure 7)."""
    lines: list[HoverCurve] = []
    for index, trace in enumerate(results.traces):
        base = quantity.of(results.classical(trace))
        relative = quantity in COMPARED
        scale = 100 / base if relative and base else 1.0 if quantity is CHECKPOINTS else 100.0
        outcomes = [results.early(trace, extend_s=extend_s) for extend_s in EXTENDS_S]
        lines.append(
            HoverCurve(
                name=f"extend-{quantity.key}-{index}",
                label=trace,
                x=EXTENDS_S,
                y=tuple(scale * quantity.of(one) for one in outcomes),
                texts=tuple(quantity.text(quantity.of(one)) for one in outcomes),
            )
        )
    ticks = [(extend_s, f"{extend_s:.0f}") for extend_s in EXTENDS_S if extend_s != 120.0]
    unit = (
        "% of classical" if quantity in COMPARED else "per node and day" if quantity is CHECKPOINTS else "%"
    )
    return _curves(lines, _TRACE_STYLES, ticks, ("T_extend", "@x s"), unit)


def _curves(
    lines: Sequence[HoverCurve],
    styles: Sequence[LineStyle],
    ticks: Sequence[tuple[float, str]],
    x_tip: tuple[str, str],
    y_label: str,
) -> "figure":
    """Curves over the span of `ticks`, from 0 upwards."""
    from bokeh.models import FixedTicker, Range1d

    places = [place for place, _ in ticks]
    low, high = min(places), max(places)
    highest = max((value for line in lines for value in line.y), default=0.0)
    room = 0.03 * (high - low)
    drawn = base_figure(
        height=_HEIGHT_PX,
        x_range=Range1d(start=low - room, end=high + room),
        y_range=Range1d(start=0, end=1.08 * highest or 1.0),
    )
    drawn.xaxis.ticker = drawn.xgrid.ticker = FixedTicker(ticks=places)
    drawn.xaxis.major_label_overrides = dict(ticks)
    drawn.xaxis.axis_label, drawn.yaxis.axis_label = x_tip[0], y_label
    draw_lines(drawn, lines, styles, x_tip=x_tip)
    return drawn
