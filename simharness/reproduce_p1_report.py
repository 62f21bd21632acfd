"""P1's figures 3 to 7 made again as boxplots, its numbers beside ours, and the page around them. bokeh is loaded late."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from makeway.policies.model import JobKind
from makeway.simharness.mira import BASELINE, BASIC, HEURISTICS, JIT
from makeway.simharness.report_axes import base_figure
from makeway.simharness.report_page import Switch
from makeway.simharness.reproduce_claims import Claim
from makeway.simharness.reproduce_p1_cases import CATEGORIES, GROUPS, Case, Spread
from makeway.simharness.reproduce_p1_means import KIND_LABELS, USUAL_SHARE, Means, Place
from makeway.simharness.reproduce_page import Grid, Panels, PaperPage, Section, page_html

if TYPE_CHECKING:
    from bokeh.model import Model
    from bokeh.plotting import figure

COLOURS = ("#9AA1AB", "#0F6FC6", "#E09F00", "#D6336C")
"""In the order of `HEURISTICS`."""
_HEIGHT_PX = 250
_HALF = 0.36
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


def report_html(cases: Sequence[Case], claims: Sequence[Claim], title: str, notes: Sequence[str]) -> str:
    """The page as text.

    Args:
        cases: every replay of the experiment.
        claims: what the paper says, checked on them.
        title: the heading.
        notes: remarks that belong on the page, one sentence each.
    """
    means = Means(cases)
    figures: dict[str, Model] = {}
    sections = []
    for week in means.weeks:
        keys = []
        for category in CATEGORIES:
            for kind in GROUPS:
                for metric in ("slowdown", "turnaround") if category == "all" else ("slowdown",):
                    key = f"{week}-{category}-{kind.value}-{metric}".replace("_", "-")
                    figures[key] = boxplots(means, week, kind, category, metric, key)
                    keys.append((f"{KIND_LABELS[kind]}, {category}, {metric}", key))
        sections.append(
            Section(
                heading=f"{week}: slowdown and turnaround by the share of real-time jobs",
                hint="Boxes from 25% to 75% with the median, whiskers at 5% and 95%, dots at the mean.",
                switches=_switches([key for _, key in keys], means.shares(week)),
                panels=(Panels(heading="Figures 3 to 7", figures=tuple(keys)),),
            )
        )
    page = PaperPage(
        title=title,
        facts=facts(cases),
        claims=tuple(claims),
        notes=tuple(notes),
        sections=(
            Section(
                heading="The paper's numbers and ours",
                hint="Mean bounded slowdowns (bound 600 s) with 10% real-time jobs (RTJ); the others are batch jobs (BJ).",
                grids=tuple(grids(means)),
            ),
            *sections,
        ),
    )
    return page_html(page, figures)


def facts(cases: Sequence[Case]) -> tuple[str, ...]:
    """What was computed, in a few words each."""
    means = Means(cases)
    return (
        *(
            f"{week}: {len({case.seed for case in cases if case.week == week})} seeds, "
            f"{_jobs(means, week):,} jobs that count"
            for week in means.weeks
        ),
        f"{len(cases)} replays",
    )


def _jobs(means: Means, week: str) -> int:
    """Jobs of the week in one replay."""
    cases = means.cases(Place(week=week, scheme=BASELINE.name))
    return sum(group.spread.jobs for group in cases[0].groups if group.category == "all") if cases else 0


def grids(means: Means) -> list[Grid]:
    """Every table: the paper's numbers, the basic schemes, the variant with short jobs, all shares."""
    found = []
    for week in means.weeks:
        found.append(paper_grid(means, week))
        found.append(basic_grid(means, week))
        if means.cases(Place(week=week, scheme=BASELINE.name, short_only=True)):
            found.append(share_grid(means, week, short_only=True))
        found.append(share_grid(means, week, short_only=False))
    return [grid for grid in found if grid.rows]


def paper_grid(means: Means, week: str) -> Grid:
    """The digest of section 7.2 beside ours."""
    rows = []
    for kind in GROUPS:
        for category in CATEGORIES:
            before = means.spread(Place(week=week, scheme=BASELINE.name), kind, category)
            after = means.spread(Place(week=week, scheme=JIT.name), kind, category)
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
    return Grid(
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


def basic_grid(means: Means, week: str) -> Grid:
    """All schemes with 10% urgent jobs, and what they cost: section 4's table, as far as it has one."""
    rows = []
    for scheme in (*HEURISTICS, *BASIC):
        place = Place(week=week, scheme=scheme.name)
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
    return Grid(
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


def share_grid(means: Means, week: str, *, short_only: bool) -> Grid:
    """The four heuristics by the share of urgent jobs."""
    shares = means.shares(week) if not short_only else (USUAL_SHARE,)
    return Grid(
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
                            Place(week=week, scheme=scheme.name, share=share, short_only=short_only), kind
                        )
                    )
                    for share in shares
                ),
            )
            for kind in GROUPS
            for scheme in HEURISTICS
        ),
    )


def boxplots(means: Means, week: str, kind: JobKind, category: str, metric: str, key: str) -> "figure":
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
    for place, share in enumerate(shares):
        for index, scheme in enumerate(HEURISTICS):
            spread = means.spread(Place(week=week, scheme=scheme.name, share=share), kind, category)
            if spread is None:
                continue
            values, mean = (
                (spread.slowdown, spread.slowdown_mean)
                if metric == "slowdown"
                else (spread.turnaround_h, spread.turnaround_mean_h)
            )
            name = f"{key}-{index}-{place}"
            _box(drawn, _GAP * place + index, values, mean, COLOURS[index], name)
    return drawn


def _box(drawn: "figure", x: float, values: Sequence[float], mean: float, colour: str, name: str) -> None:
    """One box: whiskers, quartiles, median and mean; `values` are at the five quantiles of a `Spread`."""
    low, first, median, third, high = values
    drawn.segment(
        x0=[x, x], x1=[x, x], y0=[low, third], y1=[first, high], color=colour, name=f"{name}-whiskers"
    )
    drawn.quad(
        left=[x - _HALF],
        right=[x + _HALF],
        bottom=[first],
        top=[third],
        fill_color=colour,
        fill_alpha=0.35,
        line_color=colour,
        name=f"{name}-box",
    )
    drawn.segment(
        x0=[x - _HALF],
        x1=[x + _HALF],
        y0=[median],
        y1=[median],
        color=colour,
        line_width=2.5,
        name=f"{name}-median",
    )
    drawn.scatter(x=[x], y=[mean], size=6, color=colour, line_color="#FFFFFF", name=f"{name}-mean")


def _switches(keys: Sequence[str], shares: Sequence[float]) -> tuple[Switch, ...]:
    """The legend: one entry a heuristic."""
    parts = ("whiskers", "box", "median", "mean")
    return tuple(
        Switch(
            label=scheme.label,
            names=" ".join(
                f"{key}-{index}-{place}-{part}"
                for key in keys
                for place in range(len(shares))
                for part in parts
            ),
            symbol=(
                '<svg width="14" height="14" aria-hidden="true">'
                f'<rect x="2" y="2" width="10" height="10" fill="{COLOURS[index]}"/></svg>'
            ),
        )
        for index, scheme in enumerate(HEURISTICS)
    )
