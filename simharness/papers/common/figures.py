"""Curves and bars of a reproduced paper's figures. bokeh is loaded when the first one is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from makeway.simharness.results.figures.axes import base_figure
from makeway.simharness.results.figures.curves import LineStyle

if TYPE_CHECKING:
    from bokeh.plotting import figure


@dataclass(frozen=True, slots=True, kw_only=True)
class HoverCurve:
    """One curve, with what the hover says at each of its points."""

    name: str
    """The name of the drawing, by which the legend finds it."""
    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    texts: tuple[str, ...]
    """What `y` says in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarSeries:
    """The bars of one arm of an experiment, one in each group."""

    name: str
    """The name of the drawing, by which the legend finds it."""
    label: str
    colour: str
    heights: tuple[float | None, ...]
    """In the order of the groups. None: there is no bar."""
    texts: tuple[str, ...]
    """What the hover says of each bar."""


_GROUP_WIDTH = 0.8
"""Of the distance between two groups."""


def bar_figure(
    groups: Sequence[str], series: Sequence[BarSeries], *, height: int, top: float, label: str
) -> "figure":
    """Bars in groups, side by side, from 0 upwards, with a hover.

    Args:
        groups: what is written below each group. Each word has a line of its own: of labels that touch each
            other in a narrow window, one would be left out.
        series: at least one; in the order in which the bars of a group stand.
        height: in pixels.
        top: upper end of the vertical axis.
        label: of the vertical axis.
    """
    from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, Range1d
    from bokeh.models.renderers import DataRenderer

    drawn = base_figure(
        height=height,
        x_range=Range1d(start=-0.5, end=len(groups) - 0.5),
        y_range=Range1d(start=0, end=top),
    )
    drawn.xaxis.ticker = FixedTicker(ticks=list(range(len(groups))))
    drawn.xaxis.major_label_overrides = {
        place: "\n".join(group.split()) for place, group in enumerate(groups)
    }
    drawn.xgrid.visible = False
    drawn.yaxis.axis_label = label
    step = _GROUP_WIDTH / len(series)
    renderers: list[DataRenderer] = []
    for index, one in enumerate(series):
        shift = (index - (len(series) - 1) / 2) * step
        renderers.append(
            drawn.vbar(
                x="x",
                top="top",
                width=0.9 * step,
                source=ColumnDataSource(data=_bar_columns(groups, one, shift)),
                name=one.name,
                fill_color=one.colour,
                line_color=None,
            )
        )
    drawn.add_tools(HoverTool(renderers=renderers, tooltips=[("", "@label"), ("", "@group: @text")]))
    return drawn


def _bar_columns(groups: Sequence[str], one: BarSeries, shift: float) -> dict[str, list[float] | list[str]]:
    """The bars of one arm that there are, each so far from the middle of its group."""
    bars = [(place, bar) for place, bar in enumerate(one.heights) if bar is not None]
    return {
        "x": [place + shift for place, _ in bars],
        "top": [bar for _, bar in bars],
        "text": [one.texts[place] for place, _ in bars],
        "group": [groups[place] for place, _ in bars],
        "label": [one.label] * len(bars),
    }


def draw_lines(
    drawn: "figure", lines: Sequence[HoverCurve], styles: Sequence[LineStyle], *, x_tip: tuple[str, str]
) -> None:
    """Draw curves, each in the style of its place, with a hover.

    Args:
        drawn: the picture.
        lines: at most as many as there are styles.
        styles: in the order of the lines.
        x_tip: what the hover says of the abscissa: a name, and a text in which `@x` is its value.
    """
    from bokeh.models import ColumnDataSource, HoverTool
    from bokeh.models.renderers import DataRenderer

    renderers: list[DataRenderer] = []
    for line, style in zip(lines, styles, strict=False):
        columns = {"x": line.x, "y": line.y, "text": line.texts, "label": (line.label,) * len(line.x)}
        renderers.append(
            drawn.line(
                x="x",
                y="y",
                source=ColumnDataSource(data=columns),
                name=line.name,
                line_color=style.colour,
                line_dash=style.dash,
                line_width=style.width,
            )
        )
    tips = [("", "@label"), x_tip, ("", "@text")]
    drawn.add_tools(HoverTool(renderers=renderers, tooltips=tips, mode="mouse", line_policy="nearest"))
