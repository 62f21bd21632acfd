"""The page about a past period, and its numbers as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from makeway.simharness.history.ceilings import ceiling_text
from makeway.simharness.history.study import HistoryOutcome
from makeway.simharness.papers.common.page import FigurePanels, PageSection, PaperPage, TextGrid, page_html
from makeway.simharness.results.figures.frontier import FrontierPoint, frontier_figure
from makeway.simharness.results.files import write_file
from makeway.simharness.results.formats import Unit, format_number
from makeway.simharness.results.measures import numbers
from makeway.simharness.results.report import ReportUnavailable
from makeway.simharness.results.tables import WITHOUT

if TYPE_CHECKING:
    from bokeh.model import Model


def write_history_page(
    path: Path,
    outcomes: Sequence[HistoryOutcome],
    *,
    title: str,
    facts: Sequence[str],
    notes: Sequence[str],
    grids: Sequence[TextGrid],
) -> None:
    """Write the page: the plot of on-time starts against cost, and the tables.

    Raises:
        ReportUnavailable: bokeh is not installed.
        UserError: the file cannot be written.
    """
    figures: dict[str, Model] = {}
    try:
        if any(one.urgent for one in outcomes):
            figures["frontier"] = frontier_figure(points(outcomes))
    except ImportError as error:
        raise ReportUnavailable("the report needs bokeh: pip install 'makeway[report]'") from error
    panels = (FigurePanels(heading="", figures=(("each policy at its ceilings", "frontier"),)),)
    page = PaperPage(
        title=title,
        facts=tuple(facts),
        claims=(),
        notes=tuple(notes),
        sections=(
            PageSection(heading="On-time starts against cost", panels=panels if figures else ()),
            PageSection(heading="Numbers", grids=tuple(grids)),
        ),
    )
    write_file(path, page_html(page, figures))


def points(outcomes: Sequence[HistoryOutcome]) -> list[FrontierPoint]:
    """A point for each replay with urgent jobs."""
    return [
        FrontierPoint(
            series=WITHOUT if one.policy == "none" else one.policy,
            text=f"ceiling {ceiling_text(one.max_loss_node_hours)}: {one.on_time} of {one.urgent} on time, "
            f"{format_number(one.cost_node_hours, Unit.NODE_HOURS)} node-hours",
            cost=one.cost_node_hours,
            on_time_rate=one.on_time / one.urgent,
        )
        for one in outcomes
        if one.urgent
    ]


def outcomes_json(outcomes: Sequence[HistoryOutcome], chosen: HistoryOutcome) -> str:
    """The numbers of each replay as JSON. `chosen`: the one that is recommended, if there are urgent jobs."""
    values = [
        {
            "policy": one.policy,
            "max_loss_node_hours": one.max_loss_node_hours,
            "recommended": one is chosen and one.urgent > 0,
            "numbers": numbers(one.measures),
            "owners": [
                {
                    "user": owner.user,
                    "account": owner.account,
                    "jobs": owner.jobs,
                    "evicted": owner.evicted,
                    "lost_node_hours": owner.lost_node_hours,
                    "overhead_node_hours": owner.overhead_node_hours,
                }
                for owner in one.owners
            ],
        }
        for one in outcomes
    ]
    return json.dumps({"format": 1, "replays": values}, indent=2, allow_nan=False) + "\n"
