"""P3's figures 4 to 7 drawn again, and the page around them. bokeh is loaded when the first one is drawn."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from makeway.simharness.papers.common.claims import Claim
from makeway.simharness.papers.common.figures import BarSeries, HoverCurve, bar_figure, draw_lines
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
        _share_section(traces),
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


def _share_section(traces: Sequence[str]) -> PageSection:
    """What p makes of each metric, under makeway's policy and under the paper's algorithms."""
    return PageSection(
        heading="The share p of the time limit that is believed",
        hint=(
            "Each bar is one replay; nothing is drawn at random. In percent of the classical "
            "algorithm with the users' time limits, the dotted line. Less is better, except for the "
            "backfill ratio. The paper: p = 0.1 or 0.2 is best, wait and queue length fall by up to 40%, "
            "and the slowdown by more than 50% on CTC and HPC2N."
        ),
        switches=line_switches(
            _BAR_NAMES,
            _BAR_STYLES,
            [f"{what}-{trace}" for what in ("share", "written") for trace in traces],
        ),
        panels=(
            _panels("Figure 4, makeway's policy", [(trace, f"share-{trace}") for trace in traces]),
            _panels(
                "Figure 4, the paper's algorithms as written",
                [(trace, f"written-{trace}") for trace in traces],
            ),
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
    """Every figure under its key."""
    figures: dict[str, Model] = {**share_figures(results)}
    for trace in results.traces:
        figures[f"load-{trace}"] = _load_figure(results, trace)
        for quantity in COMPARED:
            figures[f"alpha-{quantity.key}-{trace}"] = _alpha_figure(results, trace, quantity)
    for quantity in (*COMPARED, *OVERHEADS):
        figures[f"extend-{quantity.key}"] = _extend_figure(results, quantity)
    return figures


def share_figures(results: P3Results) -> "dict[str, figure]":
    """The panels of figure 4: with makeway's policy, and with the paper's algorithms as they are written.

    All have the same vertical axis.
    """
    panels: dict[str, tuple[BarSeries, ...]] = {}
    for trace in results.traces:
        panels[f"share-{trace}"] = _share_bars(f"share-{trace}", results, trace, results.early)
        panels[f"written-{trace}"] = _share_bars(f"written-{trace}", results, trace, results.literal)
    heights = (bar for series in panels.values() for one in series for bar in one.heights if bar is not None)
    top = 1.05 * max(100.0, *heights)
    figures: dict[str, figure] = {}
    for key, series in panels.items():
        drawn = bar_figure(
            [quantity.name for quantity in COMPARED],
            series,
            height=_HEIGHT_PX,
            top=top,
            label="% of the classical algorithm",
        )
        drawn.hspan(y=100, line_color=INK, line_dash="dotted")
        figures[key] = drawn
    return figures


def _share_bars(
    key: str, results: P3Results, trace: str, of: Callable[[str, float], P3Result]
) -> tuple[BarSeries, ...]:
    """The metrics of a trace in percent of the classical algorithm's, with the actual run times and by p."""
    base = results.classical(trace)
    shown = (results.classical(trace, alpha=0.0), *(of(trace, p) for p in P_VALUES))
    return tuple(
        BarSeries(
            name=f"{key}-{index}",
            label=_BAR_NAMES[index],
            colour=_BAR_COLOURS[index],
            heights=tuple(_percent_of(quantity, one, base) for quantity in COMPARED),
            texts=tuple(_bar_text(quantity, one, base) for quantity in COMPARED),
        )
        for index, one in enumerate(shown)
    )


def _percent_of(quantity: P3Metric, one: P3Result, base: P3Result) -> float | None:
    """None: the classical algorithm has nothing of it, so that there is no ratio."""
    whole = quantity.of(base)
    return 100 * quantity.of(one) / whole if whole else None


def _bar_text(quantity: P3Metric, one: P3Result, base: P3Result) -> str:
    part = _percent_of(quantity, one, base)
    return quantity.text(quantity.of(one)) + ("" if part is None else f", {part:.0f}%")


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
