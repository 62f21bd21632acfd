"""Curves of a reproduced paper's figures. bokeh is loaded when the first one is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
