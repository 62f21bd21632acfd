"""The commands `sweep` and `compare`: many replays, and what their results say."""

from itertools import chain
from pathlib import Path

import click

from makeway.daemon.errors import UserError, counted
from makeway.simharness.cli import terminal
from makeway.simharness.cli.options import NAMED_FILE
from makeway.simharness.cli.output import require_outputs

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("grid", type=_PATH)
@click.option("--out", type=NAMED_FILE, help="The file of results [default: GRID with the ending .parquet].")
@click.option(
    "--jobs", "workers", type=click.IntRange(min=1), default=1, show_default=True, help="Replays at a time."
)
@click.option(
    "--cells",
    type=_PATH,
    help="Folder of the finished cells [default: that of the results, with .cells added].",
)
@click.option("--dry-run", is_flag=True, help="Check the grid, say how many cells it has, and exit.")
def sweep(grid: Path, out: Path | None, workers: int, cells: Path | None, dry_run: bool) -> None:
    """Replay every cell of GRID, a YAML file: policies x traces x workloads x seeds x settings.

    Each finished cell is kept in a folder next to the results: a sweep that was interrupted goes on where it
    was. A cell is computed again if the grid, a trace or makeway itself has changed.

    A cell that fails does not stop the others: the results are written without it, and the exit status is 2.
    """
    from makeway.simharness.papers.common.cache import ResultCache
    from makeway.simharness.papers.reproduce import TrialsFailed, run_all
    from makeway.simharness.sweep.cell import SweepCell, run_cell
    from makeway.simharness.sweep.check import deadline_remarks, trace_remarks
    from makeway.simharness.sweep.grid import files_of, read_grid
    from makeway.simharness.sweep.table import require_pyarrow, write_results

    found = read_grid(grid)
    click.echo(f"makeway: {counted(len(found), 'cell')}", err=True)
    target = out or grid.with_suffix(".parquet")
    if not dry_run:
        require_pyarrow()
        require_outputs(None, {"--out": target}, [grid, *files_of(found)])
    for remark in chain(deadline_remarks(found), trace_remarks(found)):
        click.echo(f"makeway: {remark}", err=True)
    if dry_run:
        return
    kept = cells or target.with_name(f"{target.name}.cells")
    if not kept.parent.is_dir():
        raise UserError(f"--cells {kept}: there is no folder {kept.parent}; make it first")
    cache = ResultCache(directory=kept, option="--cells", bypass=None)
    cache.require()
    try:
        results = run_all(
            run_cell, found, workers=workers, label="cells", cache=cache, named=SweepCell.described
        )
        write_results(target, found, results)
    except TrialsFailed as failed:
        if not failed.finished:
            raise
        places = sorted(failed.finished)
        write_results(
            target, [found[place] for place in places], [failed.finished[place] for place in places]
        )
        click.echo(f"Results of the other cells: {target}")
        raise
    click.echo(f"Results: {target}")


@click.command()
@click.argument("results", type=_PATH)
@click.option(
    "--against",
    metavar="CHOICE",
    help="Compare with this choice, as the first table names it [default: the first].",
)
@click.option("--report", type=NAMED_FILE, help="Write the HTML page there.")
def compare(results: Path, against: str | None, report: Path | None) -> None:
    """Compare the settings of RESULTS, a file that `makeway sweep` has written.

    Differences and ratios are taken pair by pair, on the same trace, workload, seed and settings.
    """
    from makeway.simharness.papers.common.page import grid_table
    from makeway.simharness.sweep.compare import compare as compared_rows
    from makeway.simharness.sweep.report import (
        NOTE,
        best_sentence,
        choice_grid,
        comparison_grid,
        write_comparison,
    )
    from makeway.simharness.sweep.table import read_results

    require_outputs(report, {"--report": report}, [results])
    compared = compared_rows(read_results(results), against)
    terminal.print_wide(grid_table(choice_grid(compared)))
    if compared.comparisons:
        terminal.print_wide(grid_table(comparison_grid(compared)))
        click.echo(NOTE)
    if compared.left_out:
        why = "they have no urgent job, or not a result of every choice"
        click.echo(f"makeway: cases left out, because {why}: {compared.left_out}", err=True)
    click.echo(best_sentence(compared))
    if report is not None:
        write_comparison(report, compared, f"makeway compare {results.name}")
        click.echo(f"Report: {report}")
