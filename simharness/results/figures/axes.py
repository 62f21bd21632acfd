"""The look of a report's pictures.

Time axes count from the first submission, in hours or in days.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from bokeh.models import CompositeTicker, CustomJSTickFormatter, Range
    from bokeh.plotting import figure

INK = "#1B1F24"
"""Text and marks."""

_LEFT_PX = 72
_FONT = "system-ui, sans-serif"
_RIGHT_PX = 16
_LABEL_GAP_PX = 6
"""Between the labels of ticks. One for which there is no room, as in a narrow window, is left out."""

_IN_HOURS_BELOW_S = 72 * 3600.0
_DAY_S = 86400

_TICK_CODE = """
const two = (number) => String(number).padStart(2, "0");
const sign = tick < 0 ? "\u2212" : "";
const seconds = Math.abs(Math.round(tick));
const minute = two(Math.floor(seconds / 60) % 60);
const tail = seconds % 60 ? ":" + two(seconds % 60) : "";
if (in_hours) return sign + Math.floor(seconds / 3600) + ":" + minute + tail;
const day = sign + Math.floor(seconds / 86400) + " d";
if (seconds % 86400 == 0) return day;
return day + " " + two(Math.floor(seconds / 3600) % 24) + ":" + minute + tail;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeScale:
    """The time axis of one page. Positions on it are seconds since `zero_s`."""

    zero_s: float
    """The first submission, in trace seconds."""
    in_hours: bool
    """Hours and minutes throughout (36:15); else days, hours and minutes (12 d 06:15)."""

    @staticmethod
    def spanning(from_s: float, to_s: float) -> "TimeScale":
        """The scale for a replay from its first submission to its last end."""
        return TimeScale(zero_s=from_s, in_hours=to_s - from_s <= _IN_HOURS_BELOW_S)

    @property
    def label(self) -> str:
        """What to write at the axis."""
        unit = "hours" if self.in_hours else "days, hours"
        return f"time since the first submission ({unit})"

    def text(self, at_s: float) -> str:
        """An instant of the trace in words: 36:15 or 12 d 06:15, with seconds where there are any."""
        seconds = round(at_s - self.zero_s)
        sign, seconds = ("−" if seconds < 0 else ""), abs(seconds)
        tail = f":{seconds % 60:02d}" if seconds % 60 else ""
        minutes = seconds // 60 % 60
        if self.in_hours:
            return f"{sign}{seconds // 3600}:{minutes:02d}{tail}"
        return f"{sign}{seconds // _DAY_S} d {seconds % _DAY_S // 3600:02d}:{minutes:02d}{tail}"

    def ticker(self) -> "CompositeTicker":
        """Ticks at whole seconds, minutes, hours or days, whichever suits the zoom."""
        from bokeh.models import AdaptiveTicker, CompositeTicker

        return CompositeTicker(
            desired_num_ticks=8,
            tickers=[
                AdaptiveTicker(
                    base=60, mantissas=[1, 2, 5, 10, 15, 30], min_interval=1.0, max_interval=1800.0
                ),
                AdaptiveTicker(
                    base=24, mantissas=[1, 2, 3, 6, 12], min_interval=3600.0, max_interval=43200.0
                ),
                AdaptiveTicker(base=10, mantissas=[1, 2, 5], min_interval=86400.0),
            ],
        )

    def formatter(self) -> "CustomJSTickFormatter":
        """`text` in the browser; whole days are written without the time of day."""
        from bokeh.models import CustomJSTickFormatter

        return CustomJSTickFormatter(args={"in_hours": self.in_hours}, code=_TICK_CODE)


def base_figure(
    *, height: int, x_range: "Range", y_range: "Range", x_type: Literal["linear", "log"] = "linear"
) -> "figure":
    """An empty picture in the page's style, without tools.

    It is `height` pixels high and as wide as its container.
    """
    from bokeh.models import NoOverlap
    from bokeh.plotting import figure

    drawn = figure(
        height=height,
        x_range=x_range,
        y_range=y_range,
        x_axis_type=x_type,
        sizing_mode="stretch_width",
        tools="",
        toolbar_location=None,
        min_border_left=_LEFT_PX,
        min_border_right=_RIGHT_PX,
        min_border_top=6,
        outline_line_color="#C9CED6",
        background_fill_color="#FFFFFF",
        border_fill_color=None,
        lod_threshold=None,
    )
    for axis in (*drawn.xaxis, *drawn.yaxis):
        axis.axis_label_text_font = axis.major_label_text_font = _FONT
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "12px"
        axis.axis_label_text_color = axis.major_label_text_color = "#3A424D"
        axis.minor_tick_line_color = None
        axis.major_label_policy = NoOverlap(min_distance=_LABEL_GAP_PX)
        axis.axis_line_color = axis.major_tick_line_color = "#8B93A0"
    for grid in (*drawn.xgrid, *drawn.ygrid):
        grid.grid_line_color = "#E6E9EE"
    return drawn


def add_tools(drawn: "figure", *, dimensions: Literal["width", "both"] = "width") -> None:
    """Drag to pan, Ctrl and the wheel to zoom.

    The tool bar, shown on hover, has a box to zoom and a reset.
    """
    from bokeh.models import BoxZoomTool, PanTool, ResetTool, WheelZoomTool

    pan = PanTool(dimensions=dimensions)
    wheel = WheelZoomTool(dimensions=dimensions, modifiers={"ctrl": True})
    drawn.add_tools(pan, wheel, BoxZoomTool(dimensions=dimensions), ResetTool())
    drawn.toolbar.active_drag = pan
    drawn.toolbar.active_scroll = wheel
    drawn.toolbar.logo = None
    drawn.toolbar.autohide = True
    drawn.toolbar_location = "right"
    drawn.toolbar_inner = True


def style_time(drawn: "figure", scale: TimeScale, *, label: bool = True) -> None:
    """Make the horizontal axis a time axis."""
    ticker = scale.ticker()
    drawn.xaxis.ticker = ticker
    drawn.xgrid.ticker = ticker
    drawn.xaxis.formatter = scale.formatter()
    if label:
        drawn.xaxis.axis_label = scale.label
