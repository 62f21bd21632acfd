"""`makeway reproduce PAPER`: the experiments of a paper run again, and what it claims marked as holding or not.

Each paper is a module of its own with a click command called `command`, loaded when it is asked for. What the papers
share is here: the options, the work spread over processes, and where the results go.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from makeway.daemon.cli import cli
from makeway.daemon.errors import UserError

if TYPE_CHECKING:
    from rich.console import RenderableType

PAPERS = {"p2": "makeway.simharness.reproduce_p2", "p3": "makeway.simharness.reproduce_p3"}
"""The module of each paper."""

FORMAT = 1
"""The version of the JSON; it grows when a key changes its meaning."""

QuestionT = TypeVar("QuestionT")
ResultT = TypeVar("ResultT")
CommandT = TypeVar("CommandT", bound=Callable[..., object])


class Papers(click.Group):
    """Loads the module of a paper when its command is asked for, so that others cost nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The papers, in the order of the table."""
        return [*PAPERS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of one paper. None: there is no such paper."""
        module = PAPERS.get(cmd_name)
        if module is None:
            return None
        found: click.Command = import_module(module).command
        return found


@cli.group(cls=Papers)
def reproduce() -> None:
    """Run the experiments of a paper again and check what it claims."""


_OPTIONS = (
    click.option(
        "--traces",
        type=click.Path(path_type=Path),
        default=Path("../shared/traces"),
        show_default=True,
        help="Directory of the traces.",
    ),
    click.option(
        "--seeds", type=click.IntRange(min=1), help="How many seeds, from 0 on [default: the paper's own]."
    ),
    click.option(
        "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes side by side."
    ),
    click.option("--quick", is_flag=True, help="One seed and little time, unless said otherwise."),
    click.option(
        "--report", type=click.Path(path_type=Path, dir_okay=False), help="Write the HTML report there."
    ),
    click.option(
        "--json",
        "json_path",
        type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
        help="Write every number as JSON there; - is standard output.",
    ),
)


def paper_options(command: CommandT) -> CommandT:
    """Give a paper's command the options of all of them; `Options` takes their values."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that every paper has."""

    traces: Path
    seeds: int | None
    """None: not said."""
    jobs: int
    quick: bool
    report: Path | None
    json_path: Path | None

    def seed_range(self, usual: int) -> range:
        """The seeds to run: those of `--seeds`, else one if it has to be quick, else `usual` many."""
        return range(self.seeds or (1 if self.quick else usual))

    def require_trace(self, name: str) -> None:
        """Make sure of a trace before anything is computed.

        Raises:
            UserError: there is no such file in the directory.
        """
        if not (self.traces / name).is_file():
            raise UserError(
                f"{self.traces}: has no {name}; accepted: --traces DIR, the directory that holds this trace"
            )

    def require_outputs(self) -> None:
        """Make sure before anything is computed that the results will have a place; missing directories are made.

        Raises:
            ReportUnavailable: a report is wanted and bokeh is not installed.
            UserError: a file cannot be written there.
        """
        if self.report is not None:
            require_bokeh()
        for flag, path in (("--report", self.report), ("--json", self.json_path)):
            if path is None or str(path) == "-":
                continue
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(f"{flag} {path}: cannot be written ({error.strerror})") from error
            if not os.access(path if path.exists() else path.parent, os.W_OK):
                raise UserError(f"{flag} {path}: cannot be written (permission denied)")


def require_bokeh() -> None:
    """Raises `ReportUnavailable` where bokeh is not installed."""
    from makeway.simharness.report import ReportUnavailable

    try:
        import_module("bokeh")
    except ImportError as error:
        raise ReportUnavailable("the report needs bokeh: pip install 'makeway[report]'") from error


def run_all(
    work: Callable[[QuestionT], ResultT], questions: Sequence[QuestionT], *, workers: int, label: str
) -> list[ResultT]:
    """The result of every question, in their order, with a bar that counts them.

    Args:
        work: a function of a module, so that another process can be given it.
        questions: values that another process can be given.
        workers: processes side by side; 1: this one alone.
        label: what the bar says.
    """
    from concurrent.futures import ProcessPoolExecutor

    from makeway.simharness.terminal import counter

    results: list[ResultT] = []
    with counter(label, len(questions)) as advance:
        if workers == 1:
            for question in questions:
                results.append(work(question))
                advance()
        else:
            with ProcessPoolExecutor(workers) as pool:
                for result in pool.map(work, questions):
                    results.append(result)
                    advance()
    return results


def deliver(
    options: Options,
    *,
    tables: "Sequence[RenderableType]",
    values: Mapping[str, object],
    html: Callable[[], str],
) -> None:
    """Put the results where the user wants them.

    Args:
        options: of the command.
        tables: for the terminal, one below the other; left out where JSON goes to standard output.
        values: plain values for JSON; the version of the format is added.
        html: makes the report; called if one is wanted.
    """
    from makeway.simharness.terminal import is_stdout, print_wide, write_text

    write_text(
        options.json_path,
        lambda: json.dumps({"format": FORMAT, **values}, indent=2, allow_nan=False) + "\n",
    )
    quiet = is_stdout(options.json_path)
    if not quiet:
        print_wide(*tables)
    if options.report is not None:
        options.report.write_text(html(), encoding="utf-8")
        click.echo(f"Report: {options.report}", err=quiet)
