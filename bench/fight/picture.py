"""The picture of a fight: what interruptions took, and how long urgent jobs waited. One HTML file."""

from collections.abc import Callable, Sequence

from bench.fight.arms import ARMS, START_WITHIN_S, Arm
from bench.fight.measure import Amount, Outcome
from bench.fight.report import Round, mean
from bokeh.embed import file_html
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Range1d
from bokeh.plotting import figure
from bokeh.resources import INLINE

from makeway.simharness.results.figures.axes import INK, base_figure

_PARTS: tuple[tuple[str, str, Callable[[Outcome], Amount]], ...] = (
    ("work lost", "#B0300F", lambda outcome: outcome.lost),
    ("checkpoints", "#A9C8E8", lambda outcome: outcome.requested),
    ("restarts", "#8B93A0", lambda outcome: outcome.restarts),
)
_ROW_PX = 44


def picture_html(rounds: Sequence[Round]) -> str:
    """The page with three pictures: core-seconds, GPU-seconds, start delays."""
    arms = [arm for arm in ARMS if any(one.of(arm.name) for one in rounds)]
    cores = _taken(rounds, arms, "core-seconds taken, mean of the rounds", lambda amount: amount.core_s)
    gpus = _taken(rounds, arms, "GPU-seconds taken, mean of the rounds", lambda amount: amount.gpu_s)
    page = column(cores, gpus, _delays(rounds, arms), sizing_mode="stretch_width")
    return file_html(page, INLINE, "The fight")


def _empty(arms: Sequence[Arm], longest: float, label: str) -> figure:
    drawn = base_figure(
        height=90 + _ROW_PX * len(arms),
        x_range=Range1d(start=0, end=1.05 * max(longest, 1.0)),
        y_range=FactorRange(factors=[arm.title for arm in reversed(arms)]),
    )
    drawn.xaxis.axis_label = label
    return drawn


def _taken(
    rounds: Sequence[Round], arms: Sequence[Arm], label: str, unit: Callable[[Amount], float]
) -> figure:
    """A bar for each arm, in parts."""
    rows: list[tuple[str, str, str, float, float]] = []
    for arm in arms:
        outcomes = [outcome for one in rounds if (outcome := one.of(arm.name)) is not None]
        left = 0.0
        for part, colour, amount in _PARTS:
            value = mean([unit(amount(outcome)) for outcome in outcomes])
            rows.append((arm.title, part, colour, left, left + value))
            left += value
    drawn = _empty(arms, max(row[4] for row in rows), label)
    data = dict(
        zip(("arm", "part", "colour", "left", "right"), map(list, zip(*rows, strict=True)), strict=True)
    )
    data["value"] = [right - left for *_, left, right in rows]
    drawn.hbar(
        y="arm",
        left="left",
        right="right",
        height=0.6,
        fill_color="colour",
        line_color=None,
        legend_group="part",
        source=ColumnDataSource(data=data),
    )
    drawn.legend.location = "bottom_right"
    drawn.add_tools(HoverTool(tooltips=[("", "@arm"), ("@part", "@value{0,0}")]))
    return drawn


def _delays(rounds: Sequence[Round], arms: Sequence[Arm]) -> figure:
    """A mark for each urgent job; the upright line is the end of the time within which a start is on time."""
    rows = [
        (arm.title, f"{start.name}, seed {one.seed}", start.kind.value, start.delay_s)
        for arm in arms
        for one in rounds
        if (outcome := one.of(arm.name)) is not None
        for start in outcome.urgent
    ]
    drawn = _empty(arms, max(row[3] for row in rows), "start delay of each urgent job, s")
    names = ("arm", "job", "kind", "delay")
    data = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    drawn.scatter(
        x="delay", y="arm", size=9, fill_alpha=0.35, color="#0F6FC6", source=ColumnDataSource(data=data)
    )
    drawn.vspan(x=[START_WITHIN_S], line_color=INK, line_dash="dashed")
    drawn.add_tools(HoverTool(tooltips=[("", "@arm"), ("@job", "@kind, @delay{0.0} s")]))
    return drawn
