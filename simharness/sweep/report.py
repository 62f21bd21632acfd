"""A comparison as tables, a sentence and a page."""

from pathlib import Path
from typing import TYPE_CHECKING

from makeway.daemon.errors import counted
from makeway.simharness.papers.common.page import FigurePanels, PageSection, PaperPage, TextGrid, page_html
from makeway.simharness.results.figures.frontier import FrontierPoint, frontier_figure
from makeway.simharness.results.files import write_file
from makeway.simharness.results.formats import Unit, format_number, format_percent
from makeway.simharness.results.paired import Interval
from makeway.simharness.results.report import ReportUnavailable
from makeway.simharness.sweep.compare import COST, NEAR_BEST, Compared

if TYPE_CHECKING:
    from bokeh.model import Model

NOTE = (
    "Ratios are geometric means over the pairs in which both values are above 0. Cases of one trace and seed "
    "(a draw) count as one value, their mean. An interval is the wider one of Student's t and the bootstrap, "
    "both over draws. An asterisk: neither contains 0, or 1 for ratios. Seeds of one trace, but for "
    "`sample`, share its batch jobs: the interval does not say how other traces would differ."
)


def choice_grid(compared: Compared) -> TextGrid:
    """One row a choice."""
    return TextGrid(
        heading=f"Choices, means over {_size(compared)}",
        head=("choice", "urgent on time", "cost (node-h)", "on the frontier", "best in resamples"),
        rows=tuple(
            (
                one.name,
                format_number(one.on_time, Unit.SHARE),
                format_number(one.cost, Unit.NODE_HOURS),
                "yes" if one.on_frontier else "no",
                "-" if one.best_share is None else f"{one.best_share:.0%}",
            )
            for one in compared.choices
        ),
    )


def comparison_grid(compared: Compared) -> TextGrid:
    """One row a number of a choice; differences and ratios with their wider interval."""
    return TextGrid(
        heading=f"Against {compared.against}, pair by pair (95% intervals)",
        head=("choice", "number", "difference", "ratio", "pairs", "draws", "without ratio"),
        rows=tuple(
            (
                one.choice,
                one.number,
                _interval(one.difference, one.number),
                _ratio(one.ratio),
                str(one.difference.pairs),
                str(one.difference.groups),
                str(one.without_ratio),
            )
            for one in compared.comparisons
            if one.difference is not None
        ),
    )


def unit_of(number: str) -> Unit:
    """How a compared number is written."""
    if number == COST or number.endswith("_hours"):
        return Unit.NODE_HOURS
    return Unit.SECONDS if number.endswith("_s") else Unit.SHARE


def _size(compared: Compared) -> str:
    return f"{counted(compared.cases, 'case')} of {counted(compared.draws, 'draw')}"


def _interval(found: Interval | None, number: str) -> str:
    if found is None:
        return "-"
    mean, low, high = (
        None if value is None else format_number(value, unit_of(number)).replace("%", " pts")
        for value in (found.mean, *_bounds(found))
    )
    if low is None or high is None:
        return str(mean)
    return f"{mean} [{low}, {high}]{' *' if found.decided else ''}"


def _ratio(found: Interval | None) -> str:
    if found is None:
        return "-"
    low, high = _bounds(found)
    if low is None or high is None:
        return f"{found.mean:.3f}"
    return f"{found.mean:.3f} [{low:.3f}, {high:.3f}]{' *' if found.ratio_decided else ''}"


def _bounds(found: Interval) -> tuple[float | None, float | None]:
    """The outer bounds of both intervals."""
    if found.t_low is None or found.t_high is None or found.boot_low is None or found.boot_high is None:
        return None, None
    return min(found.t_low, found.boot_low), max(found.t_high, found.boot_high)


def best_sentence(compared: Compared) -> str:
    """Which choice is best here, and how sure that is."""
    best = compared.best
    others = ", ".join(one.name for one in compared.as_good)
    sure = (
        "How sure that is, one draw does not say."
        if best.best_share is None
        else f"It is so in {best.best_share:.0%} of the resamples of {counted(compared.draws, 'draw')}."
    )
    return (
        f"Best here: {best.name}, with {format_number(best.on_time, Unit.SHARE)} of the urgent jobs on time "
        f"for {format_number(best.cost, Unit.NODE_HOURS)} node-hours a case: the cheapest within "
        f"{format_percent(NEAR_BEST)} of the best on-time share. {f'As good: {others}. ' if others else ''}"
        f"{sure}"
    )


def write_comparison(path: Path, compared: Compared, title: str) -> None:
    """Write the page.

    Raises:
        ReportUnavailable: bokeh is not installed.
        UserError: the file cannot be written.
    """
    points = [
        FrontierPoint(
            series=one.policy,
            text=f"{one.name}: {format_number(one.cost, Unit.NODE_HOURS)} node-hours",
            cost=one.cost,
            on_time_rate=one.on_time,
        )
        for one in compared.choices
    ]
    try:
        figures: dict[str, Model] = {"frontier": frontier_figure(points)}
    except ImportError as error:
        raise ReportUnavailable("the report needs bokeh: pip install 'makeway[report]'") from error
    panels = (FigurePanels(heading="", figures=(("means over the cases", "frontier"),)),)
    page = PaperPage(
        title=title,
        facts=(_size(compared), f"compared with {compared.against}"),
        claims=(),
        notes=(best_sentence(compared), NOTE),
        sections=(
            PageSection(heading="On-time starts against cost", panels=panels),
            PageSection(heading="Numbers", grids=(choice_grid(compared), comparison_grid(compared))),
        ),
    )
    write_file(path, page_html(page, figures))
