"""`makeway reproduce p4`: planned queues of KTH and Mira, long queues, successive horizons; each against
conservative backfilling, which the paper calls EASY, or against EASY.

Reference:
    Schlagkamp et al., "Increasing Waiting Time Satisfaction in Parallel Job Scheduling via a Flexible MILP
    Approach" (HPCS 2016), section V.

Differs from the paper:
    Mira's trace is a week of 2017, not 2014; the solver is CP-SAT on one thread, not CPLEX on five cores.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from makeway.policies.horizon.cp_sat import cp_sat
from makeway.simharness.papers.common.claims import Claim, claims_table
from makeway.simharness.papers.common.page import PageSection, PaperPage, TextGrid, grid_table, page_html
from makeway.simharness.papers.p4.cases import (
    CURVES,
    LATE,
    OBJECTIVES,
    SMALLEST_QUEUE,
    TRACES,
    MonthResult,
    P4Result,
    compute,
    compute_month,
    month_trials,
    trials,
)
from makeway.simharness.papers.p4.claims import claims
from makeway.simharness.papers.reproduce import ReproduceOptions, deliver, paper_options, run_all

if TYPE_CHECKING:
    from rich.console import RenderableType

TITLE = "P4: planning horizons and users' waiting-time satisfaction"
SEEDS = 20
WORK, QUICK_WORK = 60.0, 2.0
LEAST_WORK, WORK_SHARE = 1.0, 1 / 12
"""Of the effort, for each plan of a replay, which has hundreds."""
MONTH_DAYS, QUICK_DAYS = 30, 5
NOTES = (
    (
        "A scenario is the queue and the machine by the trace's own record at the submission of a job drawn "
        f"at random, with at least {SMALLEST_QUEUE} jobs waiting. Lengths are the users' limits."
    ),
    "Due dates are max(r(p), p) after the submission; the paper's eq. 22 as printed takes p off once more.",
    (
        "EASY in the paper places each job where it delays none before it; that is called conservative here, "
        "and EASY is the usual one, which delays no more than the first job. What the paper says of EASY is "
        "judged against conservative backfilling; figures against EASY are given beside it. No plan is worse "
        "than either, because the search begins with both. The replays of horizons are compared with EASY."
    ),
    "Late jobs include those that are late under any schedule, which the paper leaves out.",
    "The long queues are consecutive jobs of KTH, all submitted at once to an empty machine.",
    (
        "Efforts are in the solver's own measure, about a second each, so that the same question always gets "
        "the same answer."
    ),
    "In the replays a plan is there at once; what jobs really take is the trace's, which no plan knows.",
)


@click.command("p4")
@paper_options
@click.option(
    "--work",
    type=click.FloatRange(min=0.0, min_open=True),
    help=f"Effort for each scenario [default: {WORK:.0f}; quick: {QUICK_WORK:.0f}].",
)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    help=f"So many days of horizons one after another [default: {MONTH_DAYS}; quick: {QUICK_DAYS}].",
)
def command(work: float | None, days: int | None, **shared: Any) -> None:
    """Planning horizons for users' satisfaction (Schlagkamp et al., HPCS 2016, section V).

    Twenty scenarios each of KTH and Mira, planned for the fewest late jobs and for the least tardiness under
    two curves of acceptance; queues of 1,000 and 100 jobs; a month of KTH, horizon after horizon, against
    EASY.
    """
    options = ReproduceOptions(**shared)
    cp_sat()
    for name in TRACES.values():
        options.require_trace(name)
    options.require_outputs()
    effort = work or (QUICK_WORK if options.quick else WORK)
    span = days or (QUICK_DAYS if options.quick else MONTH_DAYS)
    cache = options.results_cache(*TRACES.values())
    asked = trials(options.trace_folder, options.seed_range(SEEDS), effort)
    cases = run_all(compute, asked, workers=options.jobs, label="scenarios", cache=cache)
    replays = month_trials(options.trace_folder, span, min(effort, max(LEAST_WORK, effort * WORK_SHARE)))
    months = run_all(compute_month, replays, workers=options.jobs, label="replays", cache=cache)
    checked = options.checked(claims(cases, months))
    deliver(
        options,
        tables=list(tables(cases, months, checked)),
        values={
            "paper": "P4",
            "title": TITLE,
            "notes": list(NOTES),
            "settings": {"work": effort, "days": span},
            "claims": [claim.values() for claim in checked],
            "scenarios": [asdict(case) for case in cases],
            "replays": [asdict(month) for month in months],
        },
        html=lambda: page_html(page(cases, months, checked, effort), {}),
    )


def overview(cases: Sequence[P4Result]) -> TextGrid:
    """The scenarios of each trace together, by objective and curve."""
    rows: list[tuple[str, ...]] = []
    for trace in TRACES:
        for objective in OBJECTIVES:
            for curve in CURVES:
                mine = [
                    case
                    for case in cases
                    if (case.trace, case.objective, case.curve, case.scale)
                    == (trace, objective, curve, False)
                ]
                rows.append((f"{trace}, {objective}, {curve}", *_means(mine)))
    head = (
        "scenarios",
        "jobs",
        "EASY",
        "conservative",
        "ours",
        "better than EASY",
        "better than conservative",
        "C_max to EASY",
        "C_max to conservative",
        "proven",
        "gap",
        "time",
    )
    return TextGrid(heading="Means over the scenarios (tardiness in hours)", head=head, rows=tuple(rows))


def _means(cases: Sequence[P4Result]) -> tuple[str, ...]:
    """The cells of one row."""
    return (
        f"{fmean(case.jobs for case in cases):.1f}",
        _amount(cases, [case.value(case.easy) for case in cases]),
        _amount(cases, [case.value(case.conservative) for case in cases]),
        _amount(cases, [case.value(case.ours) for case in cases]),
        _better([case.improvement(case.easy) for case in cases]),
        _better([case.improvement(case.conservative) for case in cases]),
        f"{fmean(case.ours.makespan_s / case.easy.makespan_s for case in cases) - 1.0:+.1%}",
        f"{fmean(case.ours.makespan_s / case.conservative.makespan_s for case in cases) - 1.0:+.1%}",
        f"{sum(case.proven for case in cases)} of {len(cases)}",
        f"{fmean(case.gap for case in cases):.1%}",
        f"{fmean(case.wall_s for case in cases):.1f} s",
    )


def _better(shares: Sequence[float | None]) -> str:
    known = [share for share in shares if share is not None]
    return f"{fmean(known):.1%}" if known else "none late"


def _amount(cases: Sequence[P4Result], values: Sequence[int]) -> str:
    return f"{fmean(values):.1f}" if cases[0].objective == LATE else f"{fmean(values) / 3600.0:,.1f}"


def scenarios_grid(cases: Sequence[P4Result]) -> TextGrid:
    """Every scenario and long queue."""
    rows = [
        (
            f"{case.trace} {'queue' if case.scale else case.seed}, {case.objective}, {case.curve}",
            f"{case.jobs} ({case.hopeless})",
            f"{case.value(case.easy):,}",
            f"{case.value(case.conservative):,}",
            f"{case.value(case.ours):,}",
            f"{case.bound:,}",
            f"{case.gap:.1%}",
            f"{case.easy.makespan_s / 3600.0:.1f} h",
            f"{case.conservative.makespan_s / 3600.0:.1f} h",
            f"{case.ours.makespan_s / 3600.0:.1f} h",
            f"{case.wall_s:.1f} s",
        )
        for case in cases
    ]
    head = (
        "scenario",
        "jobs (hopeless)",
        "EASY",
        "conservative",
        "ours",
        "bound",
        "gap",
        "C_max EASY",
        "C_max conservative",
        "C_max ours",
        "time",
    )
    return TextGrid(
        heading="Every scenario (late jobs, or seconds of tardiness)", head=head, rows=tuple(rows)
    )


def months_grid(months: Sequence[MonthResult]) -> TextGrid:
    """Successive horizons, compared with EASY."""
    rows = [
        (
            f"{month.policy}, {month.objective}, {month.curve}",
            str(month.jobs),
            str(month.late),
            f"{month.tardiness_mean_h:.2f} h",
            f"{month.wait_mean_h:.2f} h",
            f"{month.wait_max_h:.1f} h",
            f"{month.slowdown_mean:.1f}",
            str(month.moved),
        )
        for month in months
    ]
    head = ("replay", "jobs", "late", "tardiness", "wait", "longest wait", "bounded slowdown", "places given")
    days = months[0].days
    return TextGrid(heading=f"Horizons one after another: {days} days of KTH", head=head, rows=tuple(rows))


def tables(
    cases: Sequence[P4Result], months: Sequence[MonthResult], checked: Sequence[Claim]
) -> "Iterator[RenderableType]":
    """What the terminal shows."""
    from rich.text import Text

    for grid in (overview(cases), months_grid(months)):
        yield grid_table(grid)
        yield ""
    yield claims_table(checked)
    yield ""
    for note in NOTES:
        yield Text(note, style="dim")


def page(
    cases: Sequence[P4Result], months: Sequence[MonthResult], checked: Sequence[Claim], work: float
) -> PaperPage:
    """The report."""
    seeds = len({case.seed for case in cases})
    return PaperPage(
        title=TITLE,
        facts=(
            f"{seeds} scenarios of each trace",
            f"effort {work:g} for each",
            f"{months[0].days} days of KTH",
        ),
        claims=tuple(checked),
        notes=NOTES,
        sections=(
            PageSection(heading="Scenarios", grids=(overview(cases), scenarios_grid(cases))),
            PageSection(heading="Horizons", grids=(months_grid(months),)),
        ),
    )
