"""What the commands `replay` and `demo` print and write: the summary, the files, a bar of progress."""

import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from makeway.simharness.cli import terminal

if TYPE_CHECKING:
    from makeway.simharness.engine.records import ReplayRecord
    from makeway.simharness.results.measures import MeasureSettings
    from makeway.simharness.run.experiment import Workload


def require_outputs(
    report: Path | None, outputs: "Mapping[str, Path | None]", inputs: Iterable[Path] = ()
) -> None:
    """Check before any computing that the report can be drawn and each file be written.

    Args:
        report: the HTML report. None: none.
        outputs: see `terminal.require_writable`.
        inputs: the same.

    Raises:
        ReportUnavailable: a report is wanted and bokeh is not installed.
        UserError: a file cannot be written.
    """
    if report is not None:
        from makeway.simharness.results.report import require_bokeh

        require_bokeh()
    terminal.require_writable(outputs, inputs=inputs)


def show(
    records: "Sequence[ReplayRecord]",
    start_within_s: float | None,
    json_path: Path | None,
    csv_path: Path | None,
) -> None:
    """Print the summary, and write the files that were asked for.

    `start_within_s` None: the default of `MeasureSettings`. A path None: no such file; -: standard output.
    """
    from makeway.simharness.results import exports, tables
    from makeway.simharness.results.headline import headlines
    from makeway.simharness.results.measures import measure

    measured = [measure(record, measure_settings(start_within_s)) for record in records]
    # The files last: where there is no room for them, the numbers are at least on the terminal.
    if not any(map(terminal.is_stdout, (json_path, csv_path))):
        terminal.print_wide(tables.summary_table(measured))
        click.echo()
        for headline in headlines(measured):
            click.echo(str(headline))
    terminal.write_text(json_path, lambda: exports.to_json(measured))
    terminal.write_text(csv_path, lambda: exports.to_csv(measured))


def measure_settings(start_within_s: float | None) -> "MeasureSettings":
    """What counts as on time. None: the default."""
    from makeway.simharness.results.measures import MeasureSettings

    return MeasureSettings() if start_within_s is None else MeasureSettings(start_within_s=start_within_s)


def write_page(
    path: Path,
    records: "Sequence[ReplayRecord]",
    title: str,
    settings: "MeasureSettings | None",
    *,
    notes: Sequence[str] = (),
    quiet: bool = False,
) -> None:
    """Write the HTML report of replays and print where it is.

    Args:
        path: where.
        records: the one to compare with first.
        title: the heading.
        settings: what the measures leave open. None: the defaults.
        notes: remarks, one sentence each.
        quiet: whether standard output has a file: the line goes to standard error.

    Raises:
        UserError: the file cannot be written.
        ReportUnavailable: bokeh is not installed.
    """
    from makeway.simharness.results.files import write_file
    from makeway.simharness.results.report import report_html

    write_file(path, report_html(records, title=title, notes=notes, settings=settings))
    click.echo(f"Report: {path}", err=quiet)


@contextmanager
def progress(label: str, workload: "Workload") -> "Generator[Callable[[float], None] | None]":
    """A bar that follows the virtual time, or a line every minute where standard error is not a terminal.
    None: there are no jobs.
    """
    if not workload.jobs:
        yield None
        return
    first_s = min(job.submit_s for job in workload.jobs)
    last_s = max(job.submit_s for job in workload.jobs)
    if not sys.stderr.isatty():
        reached_s = first_s

        def reach(now_s: float) -> None:
            nonlocal reached_s
            reached_s = now_s

        def text() -> str:
            share = (min(reached_s, last_s) - first_s) / max(1.0, last_s - first_s)
            return f"{label}: {share:.0%} of the submissions are replayed"

        with terminal.line_every_minute(text):
            yield reach
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=max(1.0, last_s - first_s))
        yield lambda now_s: bar.update(task, completed=min(now_s, last_s) - first_s)
