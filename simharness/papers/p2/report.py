"""P2's figures 5 to 8 drawn again, and the page around them. bokeh is loaded when the first one is drawn."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from makeway.simharness.papers.common.claims import Claim
from makeway.simharness.papers.common.figures import HoverCurve, draw_lines
from makeway.simharness.papers.common.page import FigurePanels, PageSection, PaperPage, TextGrid, page_html
from makeway.simharness.papers.p2.cases import DEADLINES_S, P2Result, P2SeedMeans, groups
from makeway.simharness.papers.p2.claims import format_response, format_times
from makeway.simharness.results.figures.axes import base_figure
from makeway.simharness.results.figures.curves import LineStyle
from makeway.simharness.results.text import line_switches

if TYPE_CHECKING:
    from bokeh.model import Model
    from bokeh.models import Range1d
    from bokeh.plotting import figure

APPROACHES = ("exact programme", "greedy", "backtracking", "with shrinking", "concurrent checkpoints")
_BACKTRACKING = 2
_APPROACH_STYLES = (
    LineStyle(colour="#5B2A86", dash="", width=2.2),
    LineStyle(colour="#E09F00", dash="", width=1.6),
    LineStyle(colour="#0F6FC6", dash="6 3", width=1.6),
    LineStyle(colour="#D6336C", dash="9 3 2 3", width=1.6),
    LineStyle(colour="#4D8B31", dash="2 3", width=2.2),
)
_ADDITIONS = ("with shrinking", "with concurrent checkpoints")
_SCENARIO_STYLES = (
    LineStyle(colour="#D6336C", dash="", width=1.6),
    LineStyle(colour="#3F2A14", dash="6 3", width=1.6),
    LineStyle(colour="#4D8B31", dash="2 3", width=2.2),
)
_MINUTES = tuple(deadline_s / 60 for deadline_s in DEADLINES_S)
_MINUTE_TICKS = (0, 3, 6, 9, 12, 15)
_HEIGHT_PX = 270
_FIRST_FIGURE = 5
"""The paper's figure of scenario 1; the others follow."""
LETTERS = "abc"


def report_html(cases: Sequence[P2Result], claims: Sequence[Claim], title: str, notes: Sequence[str]) -> str:
    """The page as text.

    Args:
        cases: every scenario with every number of nodes.
        claims: what the paper says, checked on them.
        title: the heading.
        notes: remarks that belong on the page, one sentence each.
    """
    found = groups(cases)
    figures = _figures(found)
    page = PaperPage(
        title=title,
        facts=facts(found),
        claims=tuple(claims),
        notes=tuple(notes),
        sections=_sections(found),
    )
    return page_html(page, figures)


def _sections(found: Sequence[P2SeedMeans]) -> tuple[PageSection, ...]:
    """The parts of the page, in their order."""
    scenarios = sorted({group.scenario for group in found})
    wanted = sorted({group.wanted_nodes for group in found})
    names = [scenario_name(group) for group in found if group.wanted_nodes == wanted[0]]
    return (
        PageSection(
            heading="Response time",
            hint="One run for each deadline, accumulated; the exact programme answers all deadlines in "
            "one pass. A hollow triangle: stopped there by its budget, so a lower bound.",
            switches=line_switches(
                APPROACHES,
                _APPROACH_STYLES,
                [key(group) for key in (response_key, _stopped_key) for group in found],
            ),
            panels=tuple(_response_panels(found, scenario) for scenario in scenarios),
        ),
        PageSection(
            heading="What greedy loses beyond the least",
            hint="Loss of greedy − least loss, for each deadline. Lower is better; 0 is the optimum.",
            switches=line_switches(names, _SCENARIO_STYLES, [excess_key(nodes) for nodes in wanted]),
            panels=(
                FigurePanels(
                    heading="Figure 8",
                    figures=tuple(
                        (f"({letter}) K = {nodes} nodes", excess_key(nodes))
                        for letter, nodes in zip(LETTERS, wanted, strict=False)
                    ),
                ),
            ),
        ),
        _additions_section(names, wanted),
        PageSection(
            heading="The numbers",
            hint="Losses are node-hours of work, by the minutes until the deadline. An empty cell: not "
            "finished within the budget.",
            grids=(times_grid(found), *(_loss_grid(found, scenario) for scenario in scenarios)),
        ),
    )


def _additions_section(names: Sequence[str], wanted: Sequence[int]) -> PageSection:
    """What shrinking and concurrent checkpoints save, for every number of nodes."""
    return PageSection(
        heading="What two additions save",
        hint="Least loss of the paper's problem − least loss if some jobs may shrink, or if checkpoints "
        "share the file system. Higher is better.",
        switches=line_switches(
            names,
            _SCENARIO_STYLES,
            [saved_key(index, nodes) for index in range(len(_ADDITIONS)) for nodes in wanted],
        ),
        panels=tuple(
            FigurePanels(
                heading=addition.capitalize(),
                figures=tuple(
                    (f"({letter}) K = {nodes} nodes", saved_key(index, nodes))
                    for letter, nodes in zip(LETTERS, wanted, strict=False)
                ),
            )
            for index, addition in enumerate(_ADDITIONS)
        ),
    )


def facts(found: Sequence[P2SeedMeans]) -> tuple[str, ...]:
    """What was computed, in a few words each."""
    seeds = len(found[0].cases)
    return (
        *(scenario_name(group) for group in found if group.wanted_nodes == found[0].wanted_nodes),
        f"{seeds} seed{'' if seeds == 1 else 's, averaged'}",
    )


def scenario_name(group: P2SeedMeans) -> str:
    """Which jobs on how many nodes; where the seeds differ, from the fewest to the most."""
    nodes = sorted({case.busy_nodes for case in group.cases})
    span = f"{nodes[0]:,}" if len(nodes) == 1 else f"{nodes[0]:,} to {nodes[-1]:,}"
    return f"Scenario {group.scenario}: {group.cases[0].job_count} jobs on {span} nodes"


def response_key(group: P2SeedMeans) -> str:
    """The key of a panel of figures 5 to 7."""
    return f"response-{group.scenario}-{group.wanted_nodes}"


def _stopped_key(group: P2SeedMeans) -> str:
    """The key of the mark where backtracking was stopped."""
    return f"stopped-{group.scenario}-{group.wanted_nodes}"


def excess_key(wanted_nodes: int) -> str:
    """The key of a panel of figure 8."""
    return f"excess-{wanted_nodes}"


def saved_key(addition: int, wanted_nodes: int) -> str:
    """The key of a panel of what an addition saves."""
    return f"saved-{addition}-{wanted_nodes}"


def _response_panels(found: Sequence[P2SeedMeans], scenario: int) -> FigurePanels:
    mine = [group for group in found if group.scenario == scenario]
    return FigurePanels(
        heading=f"Figure {_FIRST_FIGURE + scenario - 1}. {scenario_name(mine[0])}",
        figures=tuple(
            (f"({letter}) K = {group.wanted_nodes} nodes", response_key(group))
            for letter, group in zip(LETTERS, mine, strict=False)
        ),
    )


def times_grid(found: Sequence[P2SeedMeans]) -> TextGrid:
    """Response times for all deadlines together, and how they compare with the exact programme."""
    rows: list[tuple[str, ...]] = []
    for group in found:
        greedy_s, slow_s = group.greedy_s[-1], _slow_s(group)[-1]
        bound = "" if group.stopped_s is None else "≥ "
        rows.append(
            (
                str(group.scenario),
                str(group.wanted_nodes),
                format_response(group.exact_s),
                format_response(greedy_s),
                format_times(group.exact_s / greedy_s),
                f"{bound}{format_response(slow_s)}",
                f"{bound}{format_times(slow_s / group.exact_s)}",
                _progress(group),
                format_response(group.shrinking_s),
                format_response(group.concurrent_s),
            )
        )
    return TextGrid(
        heading="Response time for all deadlines together",
        head=(
            "scenario",
            "K",
            "exact",
            "greedy",
            "faster by",
            "backtracking",
            "slower by",
            "finished",
            "with shrinking",
            "concurrent",
        ),
        rows=tuple(rows),
    )


def _progress(group: P2SeedMeans) -> str:
    """How far backtracking came on every seed, in words."""
    finished = len(group.backtracking_s)
    if finished == len(DEADLINES_S):
        return "all"
    return f"{finished} of {len(DEADLINES_S)}, stopped at {DEADLINES_S[finished] / 60:.0f} min"


def _loss_grid(found: Sequence[P2SeedMeans], scenario: int) -> TextGrid:
    rows: list[tuple[str, ...]] = []
    mine = [group for group in found if group.scenario == scenario]
    for group in mine:
        for name, hours in (
            ("exact", group.exact_node_hours),
            ("greedy", group.greedy_node_hours),
            ("greedy − exact", group.excess_node_hours),
            ("backtracking", group.backtracking_node_hours),
            ("with shrinking", group.shrinking_node_hours),
            ("concurrent", group.concurrent_node_hours),
        ):
            texts = [f"{value:.1f}" for value in hours]
            texts += [""] * (len(DEADLINES_S) - len(texts))
            rows.append((f"K = {group.wanted_nodes}, {name}", *texts))
    return TextGrid(
        heading=scenario_name(mine[0]),
        head=("deadline (min)", *(f"{minutes:.0f}" for minutes in _MINUTES)),
        rows=tuple(rows),
    )


def _figures(found: Sequence[P2SeedMeans]) -> "dict[str, Model]":
    """Every figure under its key. Pictures that are compared have the same axes."""
    times_s = [time_s for group in found for line in _response_lines(group) for time_s in line]
    low_s = 10.0 ** math.floor(math.log10(min(times_s)))
    high_s = 10.0 ** math.ceil(math.log10(max(times_s)))
    figures: dict[str, Model] = {
        response_key(group): response_figure(group, low_s=low_s, high_s=high_s) for group in found
    }
    for nodes in sorted({group.wanted_nodes for group in found}):
        mine = [group for group in found if group.wanted_nodes == nodes]
        figures[excess_key(nodes)] = excess_figure(mine)
        for addition in range(len(_ADDITIONS)):
            figures[saved_key(addition, nodes)] = saved_figure(mine, addition)
    return figures


def _response_lines(group: P2SeedMeans) -> tuple[tuple[float, ...], ...]:
    """The response times of each of `APPROACHES`, at each deadline that it reached."""
    at_once = [
        (time_s,) * len(DEADLINES_S) for time_s in (group.exact_s, group.shrinking_s, group.concurrent_s)
    ]
    return (at_once[0], group.greedy_s, _slow_s(group), *at_once[1:])


def _slow_s(group: P2SeedMeans) -> tuple[float, ...]:
    """Backtracking's accumulated times, the one at which it was stopped included."""
    return group.backtracking_s if group.stopped_s is None else (*group.backtracking_s, group.stopped_s)


def response_figure(group: P2SeedMeans, *, low_s: float, high_s: float) -> "figure":
    """Response time against the deadline, on a logarithmic axis (one panel of figures 5 to 7).

    Args:
        group: the scenario and number of nodes.
        low_s: lower end of the axis, a power of ten.
        high_s: upper end of the axis, a power of ten.
    """
    from bokeh.models import ColumnDataSource, FixedTicker, LogScale, Range1d

    # A little room: a curve at the very end of the axis would be cut.
    drawn = _minutes_figure(Range1d(start=low_s / 1.3, end=high_s * 1.3), "response time")
    drawn.y_scale = LogScale()
    first, last = round(math.log10(low_s)), round(math.log10(high_s))
    ticks = [10.0**exponent for exponent in range(first, last + 1)]
    drawn.yaxis.ticker = drawn.ygrid.ticker = FixedTicker(ticks=ticks)
    drawn.yaxis.major_label_overrides = {tick: format_response(tick) for tick in ticks}
    key = response_key(group)
    lines: list[HoverCurve] = []
    for index, values in enumerate(_response_lines(group)):
        texts = [format_response(value) for value in values]
        if index == _BACKTRACKING and group.stopped_s is not None:
            texts[-1] = f"at least {texts[-1]}"
        lines.append(_line(f"{key}-{index}", APPROACHES[index], values, texts))
    _draw(drawn, lines, _APPROACH_STYLES)
    if group.stopped_s is not None:
        end = {"x": [_MINUTES[len(_slow_s(group)) - 1]], "y": [group.stopped_s]}
        drawn.scatter(
            x="x",
            y="y",
            source=ColumnDataSource(data=end),
            marker="triangle",
            size=12,
            name=f"{_stopped_key(group)}-{_BACKTRACKING}",
            fill_color="#FFFFFF",
            line_color=_APPROACH_STYLES[_BACKTRACKING].colour,
            line_width=1.6,
        )
    return drawn


def excess_figure(found: Sequence[P2SeedMeans]) -> "figure":
    """What greedy loses beyond the least, by deadline, one line a scenario (one panel of figure 8)."""
    return _scenarios_figure(
        found,
        excess_key(found[0].wanted_nodes),
        [group.excess_node_hours for group in found],
        "node-hours beyond the least",
    )


def saved_figure(found: Sequence[P2SeedMeans], addition: int) -> "figure":
    """How much less than the least of the paper's problem an addition loses, one line a scenario."""
    saved: list[tuple[float, ...]] = []
    for group in found:
        hours = (group.shrinking_node_hours, group.concurrent_node_hours)[addition]
        pairs = zip(group.exact_node_hours, hours, strict=True)
        saved.append(tuple(exact - added for exact, added in pairs))
    return _scenarios_figure(
        found, saved_key(addition, found[0].wanted_nodes), saved, "node-hours that are not lost"
    )


def _scenarios_figure(
    found: Sequence[P2SeedMeans], key: str, rows: Sequence[tuple[float, ...]], label: str
) -> "figure":
    """Node-hours against the deadline, one line a scenario."""
    from bokeh.models import Range1d

    highest = max(hours for row in rows for hours in row)
    lowest = min(0.0, *(hours for row in rows for hours in row))
    room = 0.02 * max(highest - lowest, 1.0)
    drawn = _minutes_figure(Range1d(start=lowest - room, end=max(1.05 * highest, 1.0)), label)
    lines = [
        _line(
            f"{key}-{index}",
            f"scenario {group.scenario}",
            row,
            (f"{hours:.1f} node-hours" for hours in row),
        )
        for index, (group, row) in enumerate(zip(found, rows, strict=True))
    ]
    _draw(drawn, lines, _SCENARIO_STYLES)
    return drawn


def _minutes_figure(y_range: "Range1d", label: str) -> "figure":
    """An empty picture over the deadlines."""
    from bokeh.models import FixedTicker, Range1d

    drawn = base_figure(height=_HEIGHT_PX, x_range=Range1d(start=-0.4, end=15.4), y_range=y_range)
    drawn.xaxis.ticker = drawn.xgrid.ticker = FixedTicker(ticks=list(_MINUTE_TICKS))
    drawn.xaxis.axis_label = "deadline (min)"
    drawn.yaxis.axis_label = label
    return drawn


def _draw(drawn: "figure", lines: Sequence[HoverCurve], styles: Sequence[LineStyle]) -> None:
    draw_lines(drawn, lines, styles, x_tip=("deadline", "@x min"))


def _line(name: str, label: str, values: tuple[float, ...], texts: Iterable[str]) -> HoverCurve:
    """A curve over the first deadlines, as many as there are values."""
    return HoverCurve(name=name, label=label, x=_MINUTES[: len(values)], y=values, texts=tuple(texts))
