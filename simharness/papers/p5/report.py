"""P5's tables II and III, its figures 6 and 7 drawn again, and the page. bokeh is loaded late."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from makeway.daemon.errors import counted
from makeway.simharness.papers.common.claims import Claim
from makeway.simharness.papers.common.figures import BarSeries, HoverCurve, bar_figure, draw_lines
from makeway.simharness.papers.common.page import FigurePanels, PageSection, PaperPage, TextGrid, page_html
from makeway.simharness.papers.p5.cases import (
    INTERVALS,
    MECHANISMS,
    MIXES,
    USUAL_MIX,
    BaseScheduler,
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
from makeway.simharness.results.figures.curves import LineStyle
from makeway.simharness.results.text import line_switches
from makeway.simharness.workloads.synthesis import NOTICE_MIXES

if TYPE_CHECKING:
    from bokeh.model import Model
    from bokeh.plotting import figure

_COLOURS = ("#B3245A", "#F08FB3", "#0F6FC6", "#86BDF0", "#B87F00", "#F5C968")
"""In the order of `MECHANISMS`: the hue shows the notice, the light one SPAA."""
_STYLES = tuple(LineStyle(colour=colour, dash="", width=6.0) for colour in _COLOURS)
_BASE_STYLE = LineStyle(colour="#3A424D", dash="2 3", width=2.2)
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
_TABLE_II = (TURNAROUND, UTILISATION, INSTANT)
"""The columns of the paper's table II."""
_PAPER_BASE = ("15.6 h", "83.93%", "22.69%")
"""The paper's table II."""
_PAPER_MECHANISMS = ("up to 22 h", "up to 90%", "98%")
"""What the paper says of its mechanisms in the same columns (observations 1 and 9)."""
_PAPER_N_SPAA = "n-spaa about 24 h"
_PRINTED = {
    **{
        metric.key: f"FCFS/EASY {base}, mechanisms {mechanisms}"
        for metric, base, mechanisms in zip(_TABLE_II, _PAPER_BASE, _PAPER_MECHANISMS, strict=True)
    },
    RIGID_TURNAROUND.key: _PAPER_N_SPAA,
    MALLEABLE_TURNAROUND.key: _PAPER_N_SPAA,
}
"""The values of figure 6 that the paper's text has (table II, observations 1, 7 and 9)."""


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
    names = [*MECHANISMS, means.under.label]
    styles = [*_STYLES, _BASE_STYLE]
    return (
        PageSection(
            heading="FCFS/EASY and the six mechanisms",
            hint=(
                f"Means over {_draws(cases)}, and for the mechanisms over W1 to W5. The mechanisms run on "
                f"{means.under.label}: compare them with its row."
            ),
            grids=(table_ii(means), by_kind(means), _mixes_grid()),
        ),
        PageSection(
            heading="By the accuracy of notices",
            hint=(
                f"Each bar is the mean over {_draws(cases)}; a draw says which users are on-demand, rigid "
                "and malleable. Notices of W1: mostly none, W2: mostly accurate, W3: mostly early, W4: "
                "mostly late, W5: even."
            ),
            switches=line_switches(names, styles, [f"notices-{metric.key}" for metric in _DRAWN]),
            panels=(_panels("Figure 6", "notices", _PRINTED),),
        ),
        PageSection(
            heading="By the checkpoint interval of rigid jobs",
            hint=(
                f"Each bar is the mean over {_draws(cases)}. As a share of Daly's optimum: 50% is twice as "
                f"often. Workload {USUAL_MIX}."
            ),
            switches=line_switches(names, styles, [f"intervals-{metric.key}" for metric in _DRAWN]),
            panels=(_panels("Figure 7", "intervals", {}),),
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
    urgent = [case.on_demand_jobs / case.jobs for case in cases if case.jobs]
    share = f", {min(urgent):.1%} to {max(urgent):.1%} of them on-demand" if urgent else ""
    return (
        f"{max(case.jobs for case in cases):,} jobs{share}",
        _draws(cases),
        f"{len(cases)} replays",
        f"{P5Means(cases).under.label} under the mechanisms",
    )


def _draws(cases: Sequence[P5Result]) -> str:
    """How many draws of the kinds of jobs there are."""
    return counted(len({case.seed for case in cases}), "draw")


def table_ii(means: P5Means) -> TextGrid:
    """Table II with the paper's values, and the mechanisms in the same columns."""
    rows = [
        ("FCFS/EASY, the paper", *_PAPER_BASE),
        *((alone.label, *_base_texts(means, alone, _TABLE_II)) for alone in means.alone),
        ("mechanisms, the paper", *_PAPER_MECHANISMS),
        *((policy, *_mechanism_texts(means, policy, _TABLE_II)) for policy in MECHANISMS),
    ]
    return TextGrid(
        heading="Table II, and the mechanisms",
        head=("", *(metric.label for metric in _TABLE_II)),
        rows=tuple(rows),
    )


def by_kind(means: P5Means) -> TextGrid:
    """What table II has not: the kinds of jobs, the price, and the time for a decision."""
    others = [metric for metric in METRICS if metric not in _TABLE_II]
    rows = [
        *((alone.label, *_base_texts(means, alone, others)) for alone in means.alone),
        *((policy, *_mechanism_texts(means, policy, others)) for policy in MECHANISMS),
    ]
    return TextGrid(
        heading="By kind of job", head=("", *(metric.label for metric in others)), rows=tuple(rows)
    )


def _base_texts(means: P5Means, alone: BaseScheduler, metrics: Sequence[P5Metric]) -> tuple[str, ...]:
    return tuple(metric.text(means.base(alone, metric)) for metric in metrics)


def _mechanism_texts(means: P5Means, policy: str, metrics: Sequence[P5Metric]) -> tuple[str, ...]:
    return tuple(metric.text(means.mechanism(policy, metric)) for metric in metrics)


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


def _panels(heading: str, what: str, printed: Mapping[str, str]) -> FigurePanels:
    """One panel for each metric; `printed`: by its key, what the paper's text says of it."""
    return FigurePanels(
        heading=heading,
        figures=tuple(
            (
                f"{metric.label} (the paper: {printed[metric.key]})"
                if metric.key in printed
                else metric.label,
                f"{what}-{metric.key}",
            )
            for metric in _DRAWN
        ),
    )


def notices_figure(means: P5Means, metric: P5Metric) -> "figure":
    """One panel of figure 6: a figure of every mechanism on W1 to W5, and of the base scheduler alone."""
    return _figure(
        f"notices-{metric.key}",
        means,
        metric,
        MIXES,
        lambda policy, place: means.mechanism(policy, metric, mix=MIXES[place]),
    )


def intervals_figure(means: P5Means, metric: P5Metric) -> "figure":
    """One panel of figure 7: a figure of every mechanism by the checkpoint interval."""
    return _figure(
        f"intervals-{metric.key}",
        means,
        metric,
        tuple(f"{share:.0%}" for share in INTERVALS),
        lambda policy, place: means.mechanism(policy, metric, mix=USUAL_MIX, interval_share=INTERVALS[place]),
    )


def _figure(
    key: str,
    means: P5Means,
    metric: P5Metric,
    groups: Sequence[str],
    value_at: Callable[[str, int], float | None],
) -> "figure":
    """Bars in groups, one a mechanism, and the base scheduler alone, with their option, as a line across.

    What has no value is left out.
    """
    series: list[BarSeries] = []
    for index, (policy, colour) in enumerate(zip(MECHANISMS, _COLOURS, strict=True)):
        values = [value_at(policy, place) for place in range(len(groups))]
        series.append(
            BarSeries(
                name=f"{key}-{index}",
                label=policy,
                colour=colour,
                heights=tuple(None if value is None else value * metric.scale for value in values),
                texts=tuple(map(metric.text, values)),
            )
        )
    base = means.base(means.under, metric)
    line = () if base is None else (base * metric.scale,) * 2
    highest = max((bar for one in series for bar in (*one.heights, *line) if bar is not None), default=0.0)
    drawn = bar_figure(
        groups,
        series,
        height=_HEIGHT_PX,
        top=1.08 * highest or 1.0,
        label=f"{metric.label}{' (' + metric.unit.strip() + ')' if metric.unit else ''}",
    )
    across = HoverCurve(
        name=f"{key}-{len(MECHANISMS)}",
        label=means.under.label,
        x=(-0.5, len(groups) - 0.5) if line else (),
        y=line,
        texts=(metric.text(base),) * len(line),
    )
    draw_lines(drawn, [across], [_BASE_STYLE], x_tip=("", "without makeway"))
    return drawn
