"""How a report writes instants: time since the first submission, as hours or as days."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bokeh.models import CompositeTicker, CustomJSTickFormatter

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
