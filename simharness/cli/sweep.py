"""The commands `sweep` and `compare`: many replays, and what their results say."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from makeway.daemon.errors import UserError, counted, printable
from makeway.simharness.cli import terminal
from makeway.simharness.cli.options import NAMED_FILE
from makeway.simharness.cli.output import require_outputs

if TYPE_CHECKING:
    from makeway.simharness.papers.common.cache import ResultCache
    from makeway.simharness.sweep.cell import CellResult, SweepCell

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("grid", type=_PATH)
@click.option("--out", type=NAMED_FILE, help="The file of results [default: GRID with the ending .parquet].")
@click.option(
    "--jobs",
    "workers",
    type=click.IntRange(min=1),
    help="Replays at a time [default: 1; with --slurm as many as cells, 100 at most].",
)
@click.option(
    "--cells",
    type=_PATH,
    help="Folder of the finished cells [default: that of the results, with .cells added].",
)
@click.option("--slurm", is_flag=True, help="Replay in a job array on this machine's Slurm, by submitit.")
@click.option(
    "--sbatch",
    "sbatch",
    metavar="NAME=VALUE",
    multiple=True,
    help="An option of sbatch for the array, such as partition=short or time=120. Can be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Check the grid, say how many cells it has, and exit.")
def sweep(
    grid: Path,
    out: Path | None,
    workers: int | None,
    cells: Path | None,
    slurm: bool,
    sbatch: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Replay every cell of GRID, a YAML file: policies x traces x workloads x seeds x settings.

    Each finished cell is kept in a folder next to the results: a sweep that was interrupted goes on where it
    was. A cell is computed again if the grid, a trace or makeway itself has changed.

    A cell that fails does not stop the others: the results are written without it, and the exit status is 2.

    With --slurm the folder of the cells, the traces and makeway itself have to be on a file system that the
    nodes share. The array ends with this command.
    """
    from makeway.simharness.papers.reproduce import TrialsFailed
    from makeway.simharness.sweep.check import deadline_remarks, trace_remarks
    from makeway.simharness.sweep.grid import files_of, read_grid
    from makeway.simharness.sweep.table import require_pyarrow, write_results

    options = _array_options(slurm, sbatch)
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
    cache = _cells_folder(cells or target.with_name(f"{target.name}.cells"))
    try:
        results = _on_slurm(found, cache, workers, options) if slurm else _here(found, cache, workers or 1)
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


def _array_options(slurm: bool, given: Sequence[str]) -> "Mapping[str, str | bool]":
    """What sbatch is given for the array. Raises `UserError` if that cannot be."""
    from makeway.simharness.sweep.slurm_array import sbatch_options

    if given and not slurm:
        raise UserError(f"--sbatch {printable(given[0])}: goes with --slurm only")
    return sbatch_options(given)


def _cells_folder(folder: Path) -> "ResultCache":
    """Where the finished cells are kept. Raises `UserError` if nothing can be written there."""
    from makeway.simharness.papers.common.cache import ResultCache

    if not folder.parent.is_dir():
        raise UserError(f"--cells {folder}: there is no folder {folder.parent}; make it first")
    cache = ResultCache(directory=folder, option="--cells", bypass=None)
    cache.require()
    return cache


def _here(cells: "Sequence[SweepCell]", cache: "ResultCache", workers: int) -> "list[CellResult]":
    """The results of all cells, computed by processes of this machine. Raises as `run_all`."""
    from makeway.simharness.papers.reproduce import run_all
    from makeway.simharness.sweep.cell import SweepCell, run_cell

    return run_all(run_cell, cells, workers=workers, label="cells", cache=cache, named=SweepCell.described)


def _on_slurm(
    cells: "Sequence[SweepCell]",
    cache: "ResultCache",
    tasks: int | None,
    options: "Mapping[str, str | bool]",
) -> "list[CellResult]":
    """The results of all cells, computed by a job array. Raises as `run_all` and `slurm_array`."""
    from makeway.simharness.papers.reproduce import run_all
    from makeway.simharness.sweep.cell import SweepCell, run_cell
    from makeway.simharness.sweep.slurm_array import TASKS, slurm_array

    shared = replace(cache, directory=cache.directory.absolute())
    with slurm_array(shared.directory / "slurm", tasks or TASKS, options) as array:
        return run_all(
            run_cell,
            cells,
            workers=1,
            label="cells",
            cache=cache,
            named=SweepCell.described,
            spread=lambda missing: array.spread(run_cell, shared, missing),
        )


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
