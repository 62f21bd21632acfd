"""P1's figures 3 to 7 drawn again as boxplots, its numbers, and the page. bokeh is loaded late."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from makeway.policies.model import JobKind
from makeway.simharness.papers.common.claims import Claim
from makeway.simharness.papers.common.page import FigurePanels, PageSection, PaperPage, TextGrid, page_html
from makeway.simharness.papers.p1.cases import CATEGORIES, GROUPS, P1Result, Spread
from makeway.simharness.papers.p1.means import KIND_LABELS, USUAL_SHARE, P1Combination, P1Means
from makeway.simharness.results.figures.axes import base_figure
from makeway.simharness.results.page import ReportSwitch
from makeway.simharness.workloads.mira import BASELINE, BASIC, HEURISTICS, JIT, LEAST_PRICE

if TYPE_CHECKING:
    from bokeh.model import Model
    from bokeh.plotting import figure

COLOURS = ("#9AA1AB", "#0F6FC6", "#E09F00", "#D6336C")
"""In the order of `HEURISTICS`."""
_HEIGHT_PX = 250
_HALF = 0.36
_PARTS = ("lines", "box", "mean")
_GAP = len(HEURISTICS) + 1
PAPER = {
    (JobKind.ON_DEMAND, "all"): ("1.94", "1.25"),
    (JobKind.RIGID, "all"): ("2.26", "2.51"),
    (JobKind.RIGID, "narrow-short"): ("1.68", "1.94"),
    (JobKind.ON_DEMAND, "narrow-short"): ("", "−20%"),
    (JobKind.ON_DEMAND, "narrow-long"): ("", "median 1.08"),
    (JobKind.RIGID, "narrow-long"): ("about 1.40", "about 1.40"),
    (JobKind.ON_DEMAND, "wide-short"): ("24.40", "5.06"),
    (JobKind.ON_DEMAND, "wide-long"): ("3.0", "1.2"),
}
"""Section 7.2: the mean slowdowns with 10% real-time jobs under the baseline and under JIT-CKPT."""


def report_html(cases: Sequence[P1Result], claims: Sequence[Claim], title: str, notes: Sequence[str]) -> str:
    """The page as text.

    Args:
        cases: every replay of the experiment.
        claims: what the paper says, checked on them.
        title: the heading.
        notes: remarks that belong on the page, one sentence each.
    """
    means = P1Means(cases)
    figures: dict[str, Model] = {}
    sections: list[PageSection] = []
    for week in means.weeks:
        keys: list[tuple[str, str]] = []
        # A figure takes the longer to make, the more of them are on the page: a piece of an experiment gets
        # the first only.
        whole = len(means.shares(week)) > 1
        for category in CATEGORIES if whole else CATEGORIES[:1]:
            for kind in GROUPS:
                for metric in ("slowdown", "turnaround") if category == "all" else ("slowdown",):
                    key = f"{week}-{category}-{kind.value}-{metric}".replace("_", "-")
                    figures[key] = boxplots(means, week, kind, category, metric, key)
                    keys.append((f"{KIND_LABELS[kind]}, {category}, {metric}", key))
        sections.append(
            PageSection(
                heading=f"{week}: slowdown and turnaround by the share of real-time jobs",
                hint="Boxes from 25% to 75% with the median, whiskers at 5% and 95%, dots at the mean.",
                switches=_switches([key for _, key in keys]),
                panels=(FigurePanels(heading="Figures 3 to 7", figures=tuple(keys)),),
            )
        )
    page = PaperPage(
        title=title,
        facts=facts(cases),
        claims=tuple(claims),
        notes=tuple(notes),
        sections=(
            PageSection(
                heading="The paper's numbers and makeway's",
                hint=(
                    "Mean bounded slowdowns (bound 600 s) with 10% real-time jobs (RTJ); the others are "
                    "batch jobs (BJ)."
                ),
                grids=tuple(grids(means)),
            ),
            *sections,
        ),
    )
    return page_html(page, figures)


def facts(cases: Sequence[P1Result]) -> tuple[str, ...]:
    """What was computed, in a few words each."""
    means = P1Means(cases)
    return (
        *(
            f"{week}: seeds {max(case.seed for case in cases if case.week == week) + 1}, jobs that count "
            f"{_jobs(means, week):,}"
            for week in means.weeks
        ),
        f"{len(cases)} replays",
    )


def _jobs(means: P1Means, week: str) -> int:
    """Jobs of the week in one replay."""
    cases = means.cases(P1Combination(week=week, scheme=BASELINE.name))
    return sum(group.spread.jobs for group in cases[0].groups if group.category == "all") if cases else 0


def grids(means: P1Means) -> list[TextGrid]:
    """Every table: the paper's numbers, the basic schemes, the variant with short jobs, all shares."""
    found: list[TextGrid] = []
    for week in means.weeks:
        found.append(paper_grid(means, week))
        found.append(basic_grid(means, week))
        if means.cases(P1Combination(week=week, scheme=BASELINE.name, short_only=True)):
            found.append(share_grid(means, week, short_only=True))
        found.append(share_grid(means, week, short_only=False))
    return [grid for grid in found if grid.rows]


def paper_grid(means: P1Means, week: str) -> TextGrid:
    """The numbers of section 7.2, and those found here."""
    rows: list[tuple[str, ...]] = []
    for kind in GROUPS:
        for category in CATEGORIES:
            before = means.spread(P1Combination(week=week, scheme=BASELINE.name), kind, category)
            after = means.spread(P1Combination(week=week, scheme=JIT.name), kind, category)
            theirs = PAPER.get((kind, category), ("", ""))
            rows.append(
                (
                    f"{KIND_LABELS[kind]} {category}",
                    *theirs,
                    _number(before),
                    _number(after),
                    "–"
                    if before is None or after is None
                    else f"{after.slowdown_mean / before.slowdown_mean - 1:+.0%}",
                    "–" if after is None else f"{after.slowdown[2]:.2f}",
                    "–" if after is None else f"{after.jobs}",
                )
            )
    return TextGrid(
        heading=f"{week}: WCJS with JIT-CKPT against the baseline",
        head=(
            "",
            "paper: baseline",
            "paper: JIT",
            "baseline",
            "JIT",
            "change",
            "median, JIT",
            "jobs, all seeds",
        ),
        rows=tuple(rows),
    )


def _number(spread: Spread | None) -> str:
    return "–" if spread is None else f"{spread.slowdown_mean:.2f}"


def basic_grid(means: P1Means, week: str) -> TextGrid:
    """All schemes with 10% urgent jobs, and what they cost: section 4's table, as far as it has one."""
    rows: list[tuple[str, ...]] = []
    for scheme in (*HEURISTICS, *BASIC, LEAST_PRICE):
        place = P1Combination(week=week, scheme=scheme.name)
        cases = means.cases(place)
        if not cases:
            continue
        label = f"WCJS, {scheme.label}" if scheme.name.startswith("wcjs") else scheme.label
        costs = (
            sum(case.evictions for case in cases),
            sum(case.checkpoint_node_hours for case in cases),
            sum(case.overhead_node_hours for case in cases),
            sum(case.lost_node_hours for case in cases),
        )
        rows.append(
            (
                label,
                *(_number(means.spread(place, kind)) for kind in GROUPS),
                *(
                    "–"
                    if (spread := means.spread(place, kind)) is None
                    else f"{spread.plain_slowdown_mean:.2f}"
                    for kind in GROUPS
                ),
                *(f"{cost / len(cases):,.0f}" for cost in costs),
            )
        )
    return TextGrid(
        heading=f"{week}: all schemes with 10% real-time jobs, means over the seeds",
        head=(
            "",
            "RTJ",
            "BJ",
            "RTJ, unbounded",
            "BJ, unbounded",
            "preemptions",
            "checkpoints, node-h",
            "saving and restarting, node-h",
            "lost work, node-h",
        ),
        rows=tuple(rows),
    )


def share_grid(means: P1Means, week: str, *, short_only: bool) -> TextGrid:
    """The four heuristics by the share of urgent jobs."""
    shares = means.shares(week) if not short_only else (USUAL_SHARE,)
    return TextGrid(
        heading=f"{week}: "
        + (
            "real-time jobs only among those under 90 minutes"
            if short_only
            else "by the share of real-time jobs"
        ),
        head=("", *(f"{share:.0%}" for share in shares)),
        rows=tuple(
            (
                f"{KIND_LABELS[kind]}, {scheme.label}",
                *(
                    _number(
                        means.spread(
                            P1Combination(week=week, scheme=scheme.name, share=share, short_only=short_only),
                            kind,
                        )
                    )
                    for share in shares
                ),
            )
            for kind in GROUPS
            for scheme in HEURISTICS
        ),
    )


def boxplots(means: P1Means, week: str, kind: JobKind, category: str, metric: str, key: str) -> "figure":
    """One panel: a box for every share and heuristic."""
    from bokeh.models import DataRange1d, FixedTicker, Range1d

    shares = means.shares(week)
    drawn = base_figure(
        height=_HEIGHT_PX, x_range=Range1d(start=-1, end=_GAP * len(shares) - 1), y_range=DataRange1d(start=0)
    )
    middle = (len(HEURISTICS) - 1) / 2
    ticks = {_GAP * place + middle: f"{share:.0%}" for place, share in enumerate(shares)}
    drawn.xaxis.ticker = FixedTicker(ticks=list(ticks))
    drawn.xgrid.ticker = FixedTicker(ticks=[])
    drawn.xaxis.major_label_overrides = dict(ticks.items())
    drawn.yaxis.axis_label = "slowdown" if metric == "slowdown" else "turnaround (h)"
    for index, scheme in enumerate(HEURISTICS):
        spreads = [
            (
                _GAP * place + index,
                means.spread(P1Combination(week=week, scheme=scheme.name, share=share), kind, category),
            )
            for place, share in enumerate(shares)
        ]
        boxes = [_Box.of(x, spread, metric) for x, spread in spreads if spread is not None]
        _draw(drawn, boxes, COLOURS[index], f"{key}-{index}")
    return drawn


@dataclass(frozen=True, slots=True)
class _Box:
    """The position of one box, and its five quantiles and mean."""

    x: float
    mean: float
    low: float
    first: float
    median: float
    third: float
    high: float

    @classmethod
    def of(cls, x: float, spread: Spread, metric: str) -> "_Box":
        """The box of some jobs' slowdowns, or of their turnarounds."""
        if metric == "slowdown":
            return cls(x, spread.slowdown_mean, *spread.slowdown)
        return cls(x, spread.turnaround_mean_h, *spread.turnaround_h)


def _draw(drawn: "figure", boxes: Sequence[_Box], colour: str, name: str) -> None:
    """The boxes of one heuristic: whiskers, quartiles, medians and means."""
    centre = [box.x for box in boxes]
    left, right = [x - _HALF for x in centre], [x + _HALF for x in centre]
    first, third = [box.first for box in boxes], [box.third for box in boxes]
    median = [box.median for box in boxes]
    drawn.segment(
        x0=centre * 2 + left,
        x1=centre * 2 + right,
        y0=[box.low for box in boxes] + third + median,
        y1=first + [box.high for box in boxes] + median,
        color=colour,
        line_width=1.6,
        name=f"{name}-lines",
    )
    drawn.quad(
        left=left,
        right=right,
        bottom=first,
        top=third,
        fill_color=colour,
        fill_alpha=0.35,
        line_color=colour,
        name=f"{name}-box",
    )
    drawn.scatter(
        x=centre,
        y=[box.mean for box in boxes],
        size=6,
        color=colour,
        line_color="#FFFFFF",
        name=f"{name}-mean",
    )


def _switches(keys: Sequence[str]) -> tuple[ReportSwitch, ...]:
    """The legend: one entry a heuristic."""
    return tuple(
        ReportSwitch(
            label=scheme.label,
            names=" ".join(f"{key}-{index}-{part}" for key in keys for part in _PARTS),
            symbol=(
                '<svg width="14" height="14" aria-hidden="true">'
                f'<rect x="2" y="2" width="10" height="10" fill="{COLOURS[index]}"/></svg>'
            ),
        )
        for index, scheme in enumerate(HEURISTICS)
    )
