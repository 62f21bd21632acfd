"""`makeway reproduce p5`: six mechanisms on Theta, by accuracy of notices and checkpoint interval.

Reference:
    Fan et al., "Hybrid Workload Scheduling on HPC Systems" (IPDPS 2022), sections IV and V.

Differs from the paper:
    The trace is of 2023, not of 2019, and has users where the paper's has projects. The daemon polls every 30
    seconds, an evicted job may start again after two minutes, and a start within three minutes counts as
    instant.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from makeway.simharness.engine.scheduler import Backfill
from makeway.simharness.papers.common.claims import Claim, claims_table
from makeway.simharness.papers.common.page import grid_table
from makeway.simharness.papers.p5.cases import (
    FROM_DAY,
    INTERVALS,
    BaseScheduler,
    P5Result,
    P5Trial,
    compute,
    of_all_mixes,
    trials,
)
from makeway.simharness.papers.p5.claims import claims
from makeway.simharness.papers.p5.means import P5Means
from makeway.simharness.papers.p5.report import by_kind, report_html, table_ii
from makeway.simharness.papers.p5.why import explanations
from makeway.simharness.papers.reproduce import ReproduceOptions, deliver, paper_options, run_all
from makeway.simharness.workloads.scenarios import TRACE

if TYPE_CHECKING:
    from rich.console import RenderableType

TITLE = "P5: on-demand, rigid and malleable jobs together on Theta"
SEEDS = 10
"""The paper's ten random traces."""
QUICK_DAYS = 10
SMALLER = (
    "Under the mechanisms and in the row 'start smaller', malleable jobs start as soon as their smallest "
    "size fits, on what is free; in the rows 'full size' they start at the size that they ask for. The paper "
    "lets its scheduler choose under the mechanisms, and does not say how. Observation 1 is judged against "
    "the row 'start smaller'."
)
FULL_SIZE = (
    "Malleable jobs start at the size that they ask for, in every row; the paper lets its scheduler choose "
    "under the mechanisms."
)
NOTES = (
    "The trace is of 2023 (the paper: 2019): directions compare, levels do not.",
    "A tenth of the users, not of the projects, is on-demand: the trace has no projects.",
    (
        "Of the waiting jobs only those start on nodes held for announced ones that lose no work when they "
        "have to leave."
    ),
    "Useful utilisation leaves out work that was lost, and setups and checkpoints that preemptions caused.",
    "Decision times are processor times of the machine that ran the replays; kept results keep theirs.",
)


@click.command("p5")
@paper_options
@click.option(
    "--backfill",
    type=click.Choice(["easy", "easy-cqsim"]),
    default=Backfill.EASY_CQSIM.value,
    show_default=True,
    help="The base scheduler under the mechanisms; easy-cqsim is that of the paper's simulator.",
)
@click.option(
    "--start-smaller/--full-size",
    default=True,
    show_default=True,
    help=(
        "Whether malleable jobs may start with fewer nodes than they ask for, under the mechanisms and in "
        "the base row that they are compared with."
    ),
)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    help=f"Only so many days of the trace [default: all; quick: {QUICK_DAYS}].",
)
def command(backfill: str, start_smaller: bool, days: int | None, **shared: Any) -> None:
    """On-demand, rigid and malleable jobs together (Fan et al., IPDPS 2022, section V).

    The six mechanisms and FCFS/EASY on Theta: workloads W1 to W5, and checkpoints at 50% to 200% of Daly's
    interval (with --quick at 100% alone).
    """
    options = ReproduceOptions(**shared)
    options.require_trace(TRACE)
    options.require_outputs()
    cache = options.results_cache()
    piece = days if days is not None or not options.quick else QUICK_DAYS
    asked = trials(
        options.trace_folder / TRACE,
        options.seed_range(SEEDS),
        BaseScheduler(backfill=Backfill(backfill), start_smaller=start_smaller),
        days=piece,
        intervals=() if options.quick else INTERVALS,
    )
    cases = of_all_mixes(run_all(compute, asked, workers=options.jobs, label="replays", cache=cache))
    checked = options.checked(claims(cases))
    notes = (*explanations(cases), _piece(piece), SMALLER if start_smaller else FULL_SIZE, *NOTES)
    deliver(
        options,
        tables=list(tables(cases, checked, notes)),
        values=as_values(cases, checked, notes, asked[-1], piece),
        html=lambda: report_html(cases, checked, TITLE, notes),
    )


def _piece(days: int | None) -> str:
    """Which part of the trace was replayed."""
    left_out = f"The first {FROM_DAY} days of the trace, nearly empty, are left out"
    if days is None:
        return f"{left_out}."
    return f"A piece of the trace only, {days} days: figures of so few jobs are rough. {left_out}."


def tables(
    cases: Sequence[P5Result], checked: Sequence[Claim], notes: Sequence[str]
) -> "Iterator[RenderableType]":
    """What the terminal shows: the averages of every mechanism, and the paper's observations."""
    from rich.text import Text

    means = P5Means(cases)
    for grid in (table_ii(means), by_kind(means)):
        yield grid_table(grid)
        yield ""
    yield claims_table(checked)
    yield ""
    for note in notes:
        yield Text(note, style="dim")


def as_values(
    cases: Sequence[P5Result], checked: Sequence[Claim], notes: Sequence[str], last: P5Trial, days: int | None
) -> dict[str, object]:
    """Everything as plain values for JSON. Decision times differ from run to run.

    `last`: a trial of a mechanism.
    """
    return {
        "paper": "P5",
        "title": TITLE,
        "notes": list(notes),
        "settings": {
            "seeds": sorted({case.seed for case in cases}),
            "backfill": last.backfill,
            "start_smaller": last.start_smaller,
            "from_day": FROM_DAY,
            "days": days,
        },
        "claims": [claim.values() for claim in checked],
        "cases": [asdict(case) for case in cases],
    }
