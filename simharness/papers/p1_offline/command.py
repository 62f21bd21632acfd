"""`makeway reproduce p1-offline`: the offline optimum, P1's table 2 (its time) and table 3 (its value).

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), sections 5.5 and
    7.3.

Differs from the paper:
    Its logs are not published, so they are drawn at random here (see `logs`), and the solver is CP-SAT, not
    CPLEX.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from makeway.policies.horizon.cp_sat import cp_sat
from makeway.simharness.papers.common.claims import Claim, claims_table
from makeway.simharness.papers.common.page import PageSection, PaperPage, grid_table, page_html
from makeway.simharness.papers.p1_offline.cases import OfflineResult, compute, trials
from makeway.simharness.papers.p1_offline.claims import claims
from makeway.simharness.papers.p1_offline.logs import RUNTIME_MIN, SUBMIT_WITHIN_MIN, TABLE_3_LOGS
from makeway.simharness.papers.p1_offline.tables import grids
from makeway.simharness.papers.reproduce import ReproduceOptions, deliver, paper_options, run_all

if TYPE_CHECKING:
    from rich.console import RenderableType

TITLE = "P1: the offline optimum"
SEEDS = 5
QUICK_LOGS = 5
NOTES = (
    (
        f"Random logs: runtimes {RUNTIME_MIN[0]} to {RUNTIME_MIN[1]} minutes, all submitted within "
        f"{SUBMIT_WITHIN_MIN} minutes; the paper does not tell its own, so levels do not compare."
    ),
    "Optimal means proven by the solver; what is not proven is called feasible.",
    (
        "A limit that no schedule keeps is loosened by steps of 0.1; that the step is the tightest is proven "
        "too."
    ),
    "Times are wall-clock times of one thread on the machine that solved them; kept results keep theirs.",
)


@click.command("p1-offline")
@paper_options
@click.option(
    "--logs",
    type=click.IntRange(min=1),
    help=f"How many logs of table 3 [default: the paper's {TABLE_3_LOGS}; quick: {QUICK_LOGS}].",
)
def command(logs: int | None, **shared: Any) -> None:
    """The offline optimum of real-time and batch jobs (Nickolay et al., 2021, section 5; tables 2 and 3)."""
    options = ReproduceOptions(**shared)
    cp_sat()
    options.require_outputs()
    logs = logs or (QUICK_LOGS if options.quick else TABLE_3_LOGS)
    asked = trials(options.seed_range(SEEDS), logs)
    cases = run_all(compute, asked, workers=options.jobs, label="logs", cache=options.results_cache())
    checked = options.checked(claims(cases))
    deliver(
        options,
        tables=list(tables(cases, checked)),
        values={
            "paper": "P1",
            "title": TITLE,
            "notes": list(NOTES),
            "claims": [claim.values() for claim in checked],
            "cases": [asdict(case) for case in cases],
        },
        html=lambda: page_html(page(cases, checked), {}),
    )


def tables(cases: Sequence[OfflineResult], checked: Sequence[Claim]) -> "Iterator[RenderableType]":
    """What the terminal shows."""
    from rich.text import Text

    for grid in grids(cases):
        yield grid_table(grid)
        yield ""
    yield claims_table(checked)
    yield ""
    for note in NOTES:
        yield Text(note, style="dim")


def page(cases: Sequence[OfflineResult], checked: Sequence[Claim]) -> PaperPage:
    """The report."""
    return PaperPage(
        title=TITLE,
        facts=(f"{len(cases)} logs", "CP-SAT, one thread"),
        claims=tuple(checked),
        notes=NOTES,
        sections=(PageSection(heading="Tables", grids=grids(cases)),),
    )
