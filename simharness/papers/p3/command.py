"""`makeway reproduce p3`: backfilling with checkpoints on CTC, SDSC-BLUE and HPC2N.

Reference:
    Niu et al., "Employing Checkpoint to Improve Job Scheduling in Large-Scale Systems" (JSSPP 2012), sections
    4 and 5.

Differs from the paper:
    Intrepid's trace is not to be had, and the archive has cleaned the others since (see `NOTES`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from makeway.simharness.papers.common.claims import Claim, claims_table
from makeway.simharness.papers.common.page import grid_table
from makeway.simharness.papers.p3.cases import TRACES, P3Result, P3Results, P3Trial, compute, settings
from makeway.simharness.papers.p3.claims import claims
from makeway.simharness.papers.p3.report import report_html
from makeway.simharness.papers.p3.tables import paper_grid, trace_grid
from makeway.simharness.papers.reproduce import ReproduceOptions, deliver, paper_options, run_all

if TYPE_CHECKING:
    from rich.console import RenderableType

TITLE = "P3: backfilling with checkpoints"
QUICK_JOBS = 1_000
NOTES = (
    "Nothing is drawn at random. Every job can checkpoint, as the paper assumes.",
    (
        "Classical is EASY without makeway; checkpoint-based is makeway's policy ckpt-backfill over the same "
        "EASY."
    ),
    "The policy adds starts that EASY would not make, and never shortens a time limit.",
    (
        "As written: the paper's algorithms in a scheduler of their own, where any job that passes the first "
        "of the queue may be "
    )
    + (
        "preempted. Where they fall short of the paper as well, the difference lies in the traces and not in "
        "makeway."
    ),
    (
        "Chosen on the first 6,000 jobs of CTC: besides those that makeway started, jobs that EASY has let "
        "pass since the first "
    )
    + "of the queue was promised its start may be asked to leave. Nothing was chosen on SDSC-BLUE and HPC2N.",
    (
        "p learned: of each user, the median share of the time limit that the last 20 finished runs took, "
        "once there are "
    )
    + "five; 0.2 until then. Runs with time limits of less than half an hour do not count.",
    (
        "Levels differ from the paper's, which draws them and gives few numbers: these are the archive's "
        "cleaned traces "
    )
    + (
        "(HPC2N 202,871 jobs of 527,371, SDSC-BLUE 232,536 of 250,440, CTC 77,205 of 79,302), and the "
        "machines are other "
    )
    + "than in the paper (CTC 338 nodes, not 512; HPC2N 240 processors, not 120 nodes).",
    (
        "cNum counts an eviction once for each of its nodes; wRatio is of the machine's whole node-time, "
        "used or not."
    ),
)


@click.command("p3")
@paper_options
@click.option(
    "--first",
    type=click.IntRange(min=1),
    help=f"Only so many jobs from the beginning of each trace [default: all; quick: {QUICK_JOBS:,}].",
)
def command(first: int | None, **shared: Any) -> None:
    """Backfilling with checkpoints (Niu et al., JSSPP 2012, sections 4 and 5).

    CTC, SDSC-BLUE and HPC2N under EASY alone and with early starts on top of it: p = 0.1, 0.2, 0.5, 1, time
    limits between the run time and what users asked for, checkpoints of up to an hour. Twenty replays of each
    trace, six of them with the paper's algorithms as they are written.
    """
    options = ReproduceOptions(**shared)
    if options.seeds is not None:
        raise click.BadParameter("p3 draws nothing at random, so it has no seeds", param_hint="--seeds")
    for name in TRACES.values():
        options.require_trace(name)
    options.require_outputs()
    wanted = first or (QUICK_JOBS if options.quick else None)
    trials = [
        P3Trial(traces=options.trace_folder, setting=setting, first=wanted)
        for trace in TRACES
        for setting in settings(trace)
    ]
    cache = options.results_cache(*TRACES.values())
    outcomes = run_all(compute, trials, workers=options.jobs, label="replays", cache=cache)
    results = P3Results(outcomes)
    checked = options.checked(claims(results))
    deliver(
        options,
        tables=list(tables(results, checked, wanted)),
        values=as_values(outcomes, checked, wanted),
        html=lambda: report_html(results, checked, TITLE, facts(results, wanted), notes(wanted)),
    )


def facts(results: P3Results, first: int | None) -> tuple[str, ...]:
    """What was replayed, in a few words each."""
    part = "the whole of each trace" if first is None else f"the first {first:,} jobs of each trace"
    return (part, *(f"{trace}: {results.classical(trace).node_count} nodes" for trace in results.traces))


def notes(first: int | None) -> tuple[str, ...]:
    """The remarks on the experiment."""
    if first is None:
        return NOTES
    return (
        f"A piece: only the first {first:,} jobs of each trace. The paper's claims are about the whole.",
        *NOTES,
    )


def tables(results: P3Results, checked: Sequence[Claim], first: int | None) -> "Iterator[RenderableType]":
    """The terminal's output: every replay, the paper's figures next to those found, and the claims."""
    from rich.text import Text

    yield Text(" · ".join(facts(results, first)), style="bold")
    for trace in results.traces:
        yield grid_table(trace_grid(results, trace))
        yield ""
    yield grid_table(paper_grid(results))
    yield ""
    yield claims_table(checked)
    yield ""
    for note in notes(first):
        yield Text(note, style="dim")


def as_values(outcomes: Sequence[P3Result], checked: Sequence[Claim], first: int | None) -> dict[str, object]:
    """Everything as plain values for JSON."""
    return {
        "paper": "P3",
        "title": TITLE,
        "notes": list(notes(first)),
        "settings": {"first_jobs": first},
        "claims": [claim.values() for claim in checked],
        "replays": [asdict(one) for one in outcomes],
    }
