"""P5's tables II and III, its figures 6 and 7 drawn again, and the page. bokeh is loaded late."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from makeway.simharness.papers.common.claims import Claim
from makeway.simharness.papers.common.page import FigurePanels, PageSection, PaperPage, TextGrid, page_html
from makeway.simharness.papers.p5.cases import (
    BASE_SCHEDULERS,
    INTERVALS,
    MECHANISMS,
    MIXES,
    USUAL_MIX,
    P5Result,
)
from makeway.simharness.papers.p5.means import (
    INSTANT,
    LOST,
    MALLEABLE_PREEMPTION,
    MALLEABLE_TURNAROUND,
    METRICS,
    RIGID_PREEMPTION,
    RIGID_TURNAROUND,
    TURNAROUND,
    UTILISATION,
    P5Means,
    P5Metric,
)
from makeway.simharness.results.figures.axes import base_figure
from makeway.simharness.results.figures.curves import LineStyle
from makeway.simharness.results.text import line_switches
from makeway.simharness.workloads.synthesis import NOTICE_MIXES

if TYPE_CHECKING:
    from bokeh.model import Model
    from bokeh.plotting import figure

_STYLES = tuple(
    LineStyle(colour=colour, dash=dash, width=1.8)
    for colour in ("#D6336C", "#0F6FC6", "#E09F00")
    for dash in ("", "6 3")
)
"""In the order of `MECHANISMS`: the colour shows the notice, the dash SPAA."""
_BASE_STYLE = LineStyle(colour="#9AA1AB", dash="2 3", width=2.2)
_HEIGHT_PX = 250
_DRAWN = (
    TURNAROUND,
    RIGID_TURNAROUND,
    MALLEABLE_TURNAROUND,
    INSTANT,
    RIGID_PREEMPTION,
    MALLEABLE_PREEMPTION,
    UTILISATION,
    LOST,
)
_PAPER = {TURNAROUND.key: "15.6 h", INSTANT.key: "22.69%", UTILISATION.key: "83.93%"}
"""The paper's table II."""


def report_html(cases: Sequence[P5Result], claims: Sequence[Claim], title: str, notes: Sequence[str]) -> str:
    """The page as text.

    Args:
        cases: every replay of the experiment.
        claims: what the paper says, checked on them.
        title: the heading.
        notes: remarks that belong on the page, one sentence each.
    """
    means = P5Means(cases)
    figures: dict[str, Model] = {}
    for metric in _DRAWN:
        figures[f"notices-{metric.key}"] = notices_figure(means, metric)
        figures[f"intervals-{metric.key}"] = intervals_figure(means, metric)
    page = PaperPage(
        title=title,
        facts=facts(cases),
        claims=tuple(claims),
        notes=tuple(notes),
        sections=_sections(means, cases),
    )
    return page_html(page, figures)


def _sections(means: P5Means, cases: Sequence[P5Result]) -> tuple[PageSection, ...]:
    """The parts of the page, in their order."""
    names = [*MECHANISMS, f"FCFS/{means.under.value}"]
    styles = [*_STYLES, _BASE_STYLE]
    return (
        PageSection(
            heading="FCFS/EASY and the six mechanisms",
            hint="Means over the seeds, and for the mechanisms over W1 to W5.",
            grids=(overview(cases), _mixes_grid()),
        ),
        PageSection(
            heading="By the accuracy of notices",
            hint=(
                "W1: mostly without notice, W2: mostly accurate, W3: mostly early, W4: mostly late, W5: even."
            ),
            switches=line_switches(names, styles, [f"notices-{metric.key}" for metric in _DRAWN]),
            panels=(_panels("Figure 6", "notices"),),
        ),
        PageSection(
            heading="By the checkpoint interval of rigid jobs",
            hint=f"As a share of Daly's optimum: 50% is twice as often. Workload {USUAL_MIX}.",
            switches=line_switches(names, styles, [f"intervals-{metric.key}" for metric in _DRAWN]),
            panels=(_panels("Figure 7", "intervals"),),
        ),
        PageSection(
            heading="The numbers",
            grids=tuple(
                grid
                for metric in METRICS
                for grid in (_mix_grid(means, metric), _interval_grid(means, metric))
            ),
        ),
    )


def facts(cases: Sequence[P5Result]) -> tuple[str, ...]:
    """What was computed, in a few words each."""
    seeds = sorted({case.seed for case in cases})
    urgent = [case.on_demand_jobs / case.jobs for case in cases if case.jobs]
    share = f", {min(urgent):.1%} to {max(urgent):.1%} of them on-demand" if urgent else ""
    under = "/".join(dict.fromkeys(case.backfill for case in cases if case.policy in MECHANISMS))
    return (
        f"{max(case.jobs for case in cases):,} jobs{share}",
        f"{len(seeds)} seed{'' if len(seeds) == 1 else 's, averaged'}",
        f"{len(cases)} replays",
        f"FCFS with {under} under the mechanisms",
    )


def overview(cases: Sequence[P5Result]) -> TextGrid:
    """Table II with the mechanisms."""
    means = P5Means(cases)
    rows: list[tuple[str, ...]] = [
        ("FCFS/EASY, the paper", *(_PAPER.get(metric.key, "") for metric in METRICS))
    ]
    rows += [
        (f"FCFS/{under.value}", *(metric.text(means.base(under, metric)) for metric in METRICS))
        for under in BASE_SCHEDULERS
    ]
    rows += [
        (policy, *(metric.text(means.mechanism(policy, metric)) for metric in METRICS))
        for policy in MECHANISMS
    ]
    return TextGrid(
        heading="Table II and the averages of the mechanisms",
        head=("", *(metric.label for metric in METRICS)),
        rows=tuple(rows),
    )


def _mixes_grid() -> TextGrid:
    return TextGrid(
        heading="Table III: shares of the on-demand jobs",
        head=("", "no notice", "accurate", "early", "late"),
        rows=tuple(
            (name, *(f"{share:.0%}" for share in (mix.none, mix.accurate, mix.early, mix.late)))
            for name, mix in NOTICE_MIXES.items()
        ),
    )


def _mix_grid(means: P5Means, metric: P5Metric) -> TextGrid:
    return TextGrid(
        heading=f"{metric.label}, by workload",
        head=("", *MIXES),
        rows=tuple(
            (policy, *(metric.text(means.mechanism(policy, metric, mix=mix)) for mix in MIXES))
            for policy in MECHANISMS
        ),
    )


def _interval_grid(means: P5Means, metric: P5Metric) -> TextGrid:
    return TextGrid(
        heading=f"{metric.label}, by checkpoint interval",
        head=("", *(f"{share:.0%}" for share in INTERVALS)),
        rows=tuple(
            (
                policy,
                *(
                    metric.text(means.mechanism(policy, metric, mix=USUAL_MIX, interval_share=share))
                    for share in INTERVALS
                ),
            )
            for policy in MECHANISMS
        ),
    )


def _panels(heading: str, what: str) -> FigurePanels:
    return FigurePanels(
        heading=heading,
        figures=tuple((metric.label, f"{what}-{metric.key}") for metric in _DRAWN),
    )


def notices_figure(means: P5Means, metric: P5Metric) -> "figure":
    """One panel of figure 6: a figure of every mechanism on W1 to W5, and of FCFS/EASY for comparison."""
    return _figure(
        f"notices-{metric.key}",
        metric,
        MIXES,
        lambda policy, place: means.mechanism(policy, metric, mix=MIXES[place]),
        means.base(means.under, metric),
    )


def intervals_figure(means: P5Means, metric: P5Metric) -> "figure":
    """One panel of figure 7: a figure of every mechanism by the checkpoint interval."""
    return _figure(
        f"intervals-{metric.key}",
        metric,
        tuple(f"{share:.0%}" for share in INTERVALS),
        lambda policy, place: means.mechanism(policy, metric, mix=USUAL_MIX, interval_share=INTERVALS[place]),
        means.base(means.under, metric),
    )


def _figure(
    key: str,
    metric: P5Metric,
    places: Sequence[str],
    value_at: Callable[[str, int], float | None],
    base: float | None,
) -> "figure":
    """Lines over named places, one a mechanism; what has no value is left out."""
    from bokeh.models import ColumnDataSource, DataRange1d, FixedTicker, HoverTool, Range1d
    from bokeh.models.renderers import DataRenderer

    drawn = base_figure(
        height=_HEIGHT_PX, x_range=Range1d(start=-0.4, end=len(places) - 0.6), y_range=DataRange1d()
    )
    drawn.xaxis.ticker = drawn.xgrid.ticker = FixedTicker(ticks=list(range(len(places))))
    drawn.xaxis.major_label_overrides = dict(enumerate(places))
    drawn.yaxis.axis_label = f"{metric.label}{' (' + metric.unit.strip() + ')' if metric.unit else ''}"
    renderers: list[DataRenderer] = []
    curves = [
        (policy, style, [value_at(policy, place) for place in range(len(places))])
        for policy, style in zip(MECHANISMS, _STYLES, strict=True)
    ]
    curves.append(("FCFS/EASY", _BASE_STYLE, [base] * len(places)))
    for index, (name, style, values) in enumerate(curves):
        known = [(place, value) for place, value in enumerate(values) if value is not None]
        columns = {
            "x": [place for place, _ in known],
            "y": [value * metric.scale for _, value in known],
            "text": [metric.text(value) for _, value in known],
            "place": [places[place] for place, _ in known],
            "label": [name] * len(known),
        }
        renderers.append(
            drawn.line(
                x="x",
                y="y",
                source=ColumnDataSource(data=columns),
                name=f"{key}-{index}",
                line_color=style.colour,
                line_dash=style.dash,
                line_width=style.width,
            )
        )
    tips = [("", "@label"), ("", "@place: @text")]
    drawn.add_tools(HoverTool(renderers=renderers, tooltips=tips, mode="mouse", line_policy="nearest"))
    return drawn
