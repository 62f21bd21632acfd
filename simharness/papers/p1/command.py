"""`makeway reproduce p1`: real-time jobs on Mira's partitions under WCJS, and the sweep of settings.

Reference:
    Nickolay et al., "Towards Accommodating Real-time Jobs on HPC Platforms" (arXiv 2021), sections 4 and 7.

Differs from the paper:
    Section 5, the offline optimum, and the jobs of the Advanced Photon Source, whose log is not public, are
    not here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from makeway.daemon.errors import UserError
from makeway.simharness.papers.common.claims import Claim, claims_table
from makeway.simharness.papers.common.page import TextGrid, grid_table
from makeway.simharness.papers.p1.cases import WINDOWS, P1Result, P1Trial, compute
from makeway.simharness.papers.p1.claims import DECIDES, claims
from makeway.simharness.papers.p1.means import USUAL_SHARE, P1Means
from makeway.simharness.papers.p1.report import facts, grids, report_html
from makeway.simharness.papers.p1.sweep import SEEDS as SWEEP_SEEDS
from makeway.simharness.papers.p1.sweep import WEEK, Settings, SweepResult, sweep
from makeway.simharness.papers.reproduce import ReproduceOptions, deliver, paper_options, run_all
from makeway.simharness.workloads.mira import BASIC, HEURISTICS, LEAST_PRICE
from makeway.simharness.workloads.partitions import PartitionsError, read_partitions

if TYPE_CHECKING:
    from rich.console import RenderableType

TITLE = "P1: real-time jobs on Mira"
SEEDS = 20
QUICK_SEEDS = 2
SHARES = (0.05, 0.10, 0.15, 0.20)
NOTES = (
    (
        "Slowdowns are bounded (600 s) and by the run time of the trace: what checkpoints and restarts add "
        "counts as waiting."
    ),
    (
        "Jobs count that were submitted in the authors' own week of each trace; those before and after it "
        "run, too."
    ),
    (
        "The baseline is the simulator's WFP with EASY backfill by partition; a job gets the partition that "
        "takes the fewest free ones from others."
    ),
    (
        "Under APP-CKPT real-time jobs checkpoint like all others (section 7.1.4); under JIT-CKPT and "
        "SYS-CKPT they do not."
    ),
    (
        "Real-time jobs wait for the checkpoint under JIT-CKPT, 512 s at the least (eq. 34), and under "
        "APP-CKPT for nothing: for them the two are nearer to each other here than in the paper, or the "
        "other way round."
    ),
    (
        "The base scheduler starts batch jobs regardless of makeway: while a real-time job of high "
        "priority waits, the scheduler below goes on, where the paper's serves the high-priority queue alone."
    ),
    (
        "A job that was preempted goes first in the queue when the real-time job is over; the paper "
        "resubmits it among all others."
    ),
    (
        "Thresholds and weights, which the paper does not give, were chosen on wk3 (--sweep); nothing was "
        "chosen on wk1 and on Curie."
    ),
    (
        "Curie is scaled to Mira (eq. 59); as in the authors' script, sizes are rounded to the nearest "
        "partition and jobs of fewer than 257 processors are left out."
    ),
)


@click.command("p1")
@paper_options
@click.option(
    "--partitions",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Mira's partitions as CSV [default: data/mira-partitions.csv next to the directory of traces].",
)
@click.option(
    "--sweep",
    "sweeping",
    is_flag=True,
    help=f"Instead, try settings of the policy on {WEEK} one after another and print the best.",
)
def command(partitions: Path | None, sweeping: bool, **shared: Any) -> None:
    """Real-time jobs on Mira (Nickolay et al., arXiv:2103.13130, sections 4 and 7).

    Two weeks of Mira and one of Curie, 5% to 20% real-time jobs: the baseline, WCJS with JIT-CKPT,
    APP-CKPT-5% and APP-CKPT-10%, the basic schemes, and policy least-price. Everything takes about an hour
    of one processor. With --quick the first week of Mira, which decides about the claims.
    """
    options = ReproduceOptions(**shared)
    weeks = [WEEK] if sweeping else _weeks(options)
    for week in weeks:
        options.require_trace(WINDOWS[week].file)
    table = partitions or options.trace_folder.parent / "data" / "mira-partitions.csv"
    try:
        read_partitions(table)
    except PartitionsError as error:
        raise UserError(f"--partitions: {error}") from error
    options.require_outputs()
    if sweeping:
        if options.report is not None:
            raise click.BadParameter("a sweep is printed, and written as --json", param_hint="--report")
        _sweep(options, table)
        return
    cache = options.results_cache()
    cases = run_all(compute, trials(options, table), workers=options.jobs, label="replays", cache=cache)
    means = P1Means(cases)
    checked = options.checked(claims(means))
    notes = (*filter(None, map(means.levels, means.weeks)), *NOTES)
    deliver(
        options,
        tables=list(tables(cases, checked, notes)),
        values=as_values(cases, checked, notes),
        html=lambda: report_html(cases, checked, TITLE, notes),
    )


def _weeks(options: ReproduceOptions) -> Sequence[str]:
    """The weeks that are replayed: with `--quick` the one that decides."""
    return (DECIDES,) if options.quick else tuple(WINDOWS)


def trials(options: ReproduceOptions, partitions: Path) -> list[P1Trial]:
    """Every replay of the experiment.

    With `--quick`: wk1 alone. Without `--seeds` it has a second seed there with 10% real-time jobs of any
    length, under the paper's schemes.
    """
    few = options.quick and options.seeds is None
    asked: list[P1Trial] = []
    for week in _weeks(options):
        for seed in range(options.seeds or (QUICK_SEEDS if few else SEEDS)):

            def ask(
                scheme: str,
                share: float = USUAL_SHARE,
                short_only: bool = False,
                week: str = week,
                seed: int = seed,
            ) -> P1Trial:
                return P1Trial(
                    trace=options.trace_folder / WINDOWS[week].file,
                    partitions=partitions,
                    week=week,
                    share=share,
                    short_only=short_only,
                    seed=seed,
                    scheme=scheme,
                )

            every = not few or seed == 0
            shares = SHARES if every else (USUAL_SHARE,)
            asked += [ask(scheme.name, share) for share in shares for scheme in HEURISTICS]
            asked += [ask(scheme.name) for scheme in BASIC]
            if every:
                asked.append(ask(LEAST_PRICE.name))
                asked += [ask(scheme.name, short_only=True) for scheme in HEURISTICS]
    return asked


def _sweep(options: ReproduceOptions, partitions: Path) -> None:
    """Try the settings and report how each did."""
    cache = options.results_cache()
    seeds = range(options.seeds or (1 if options.quick else SWEEP_SEEDS))

    def replays(scheme: str, settings: Settings) -> list[P1Result]:
        asked = [
            P1Trial(
                trace=options.trace_folder / WINDOWS[WEEK].file,
                partitions=partitions,
                week=WEEK,
                share=USUAL_SHARE,
                short_only=False,
                seed=seed,
                scheme=scheme,
                settings=settings,
            )
            for seed in seeds
        ]
        told = ", ".join(f"{name}={value:g}" for name, value in settings)
        return run_all(compute, asked, workers=options.jobs, label=f"{scheme} {told}", cache=cache)

    tried, chosen = sweep(replays)
    deliver(
        options,
        tables=[grid_table(sweep_grid(tried)), f"Chosen: {chosen}"],
        values={"paper": "P1", "sweep": [asdict(one) for one in tried], "chosen": chosen},
        html=str,
    )


def sweep_grid(tried: Sequence[SweepResult]) -> TextGrid:
    """What was tried, as a table."""
    return TextGrid(
        heading=f"Settings on {WEEK}, 10% real-time jobs",
        head=("setting", "value", "RTJ", "BJ", "score", ""),
        rows=tuple(
            (
                one.stage,
                one.option,
                f"{one.urgent:.2f}",
                f"{one.batch:.2f}",
                f"{one.score:.3f}",
                "best" if one.best else "",
            )
            for one in tried
        ),
    )


def tables(
    cases: Sequence[P1Result], checked: Sequence[Claim], notes: Sequence[str]
) -> "Iterator[RenderableType]":
    """The terminal's output: the paper's numbers next to those found, all schemes, and the claims."""
    from rich.text import Text

    yield Text(" · ".join(facts(cases)), style="bold")
    for grid in grids(P1Means(cases)):
        yield grid_table(grid)
        yield ""
    yield claims_table(checked)
    yield ""
    for note in notes:
        yield Text(note, style="dim")


def as_values(cases: Sequence[P1Result], checked: Sequence[Claim], notes: Sequence[str]) -> dict[str, object]:
    """Everything as plain values for JSON."""
    return {
        "paper": "P1",
        "title": TITLE,
        "notes": list(notes),
        "claims": [claim.values() for claim in checked],
        "replays": [asdict(case) for case in cases],
    }
