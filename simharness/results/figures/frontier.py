"""On-time starts against their cost: one point a setting, one line a policy. bokeh is loaded late."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from makeway.simharness.results.figures.axes import add_tools, base_figure

if TYPE_CHECKING:
    from bokeh.plotting import figure

_COLOURS = ("#0F6FC6", "#D6336C", "#E09F00", "#2B8A3E", "#7048E8", "#0B7285", "#A8330F", "#59626E")
_MARGIN = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """One setting."""

    series: str
    """The policy: its points are joined in the order of their cost."""
    text: str
    """What the hover says."""
    cost: float
    """Node-hours."""
    on_time_rate: float
    """From 0 to 1."""


def frontier_figure(points: Sequence[FrontierPoint], *, height: int = 380) -> "figure":
    """Each point at its cost (across) and its on-time share in percent (up).

    Raises:
        ValueError: there is no point.
    """
    from bokeh.models import ColumnDataSource, HoverTool, Range1d
    from bokeh.models.annotations import Legend, LegendItem

    most = max(point.cost for point in points) or 1.0
    shares = [100.0 * point.on_time_rate for point in points]
    low, high = min(shares), max(shares)
    margin = max(1.0, _MARGIN * (high - low))
    drawn = base_figure(
        height=height,
        x_range=Range1d(start=-_MARGIN * most, end=(1 + _MARGIN) * most),
        y_range=Range1d(start=low - margin, end=high + margin),
    )
    items: list[LegendItem] = []
    names = list(dict.fromkeys(point.series for point in points))
    for place, name in enumerate(names):
        own = sorted((point for point in points if point.series == name), key=lambda point: point.cost)
        source = ColumnDataSource(
            data={
                "x": [point.cost for point in own],
                "y": [100.0 * point.on_time_rate for point in own],
                "text": [point.text for point in own],
            }
        )
        colour = _COLOURS[place % len(_COLOURS)]
        line = drawn.line(x="x", y="y", source=source, line_color=colour, line_width=1.6)
        dots = drawn.scatter(x="x", y="y", source=source, color=colour, size=8)
        drawn.add_tools(HoverTool(renderers=[dots], tooltips=[("", name), ("", "@text")]))
        items.append(LegendItem(label=name, renderers=[line, dots]))  # type: ignore[list-item]
    drawn.add_layout(Legend(items=items, click_policy="hide"), "right")
    drawn.xaxis.axis_label = "work lost, repeated setups and checkpoints (node-hours)"
    drawn.yaxis.axis_label = "urgent jobs on time (%)"
    add_tools(drawn, dimensions="both")
    return drawn
