"""`makeway reproduce PAPER`: a paper's experiments run again, and its claims checked.

Each paper is a module of its own with a click command called `command`, loaded when it is asked for. What the
papers share is here: the options, the work spread over processes, and where the results go. What was computed
once is stored (see `common.cache`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from makeway.daemon.errors import UserError, printable
from makeway.simharness.cli.options import NAMED_FILE, CommandT, cache_options, with_options
from makeway.simharness.cli.terminal import counter

if TYPE_CHECKING:
    from rich.console import RenderableType

    from makeway.simharness.papers.common.cache import KeptResults, ResultCache
    from makeway.simharness.papers.common.claims import Claim
    from makeway.simharness.run.workers import Failure

PAPERS = {
    "p1": "makeway.simharness.papers.p1.command",
    "p1-offline": "makeway.simharness.papers.p1_offline.command",
    "p2": "makeway.simharness.papers.p2.command",
    "p3": "makeway.simharness.papers.p3.command",
    "p4": "makeway.simharness.papers.p4.command",
    "p5": "makeway.simharness.papers.p5.command",
}
"""The module of each paper."""

_NAME = "reproduce"
_NEXT_TO_CHECKOUT = Path("../shared/traces")
"""Where the traces are on the machines of makeway's own tests."""
FORMAT = 1
"""The version of the JSON; it grows when a key changes its meaning."""

TrialT = TypeVar("TrialT")
ResultT = TypeVar("ResultT")


class PaperCommands(click.Group):
    """Imports the module of a paper when its command is asked for."""

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


@click.group(cls=PaperCommands)
def reproduce() -> None:
    """Run the experiments of a paper again and check what it claims.

    Every result is stored at once: an interrupted run resumes, and a second one only reports. A
    result counts as long as the trial, the trace and the code that computes it are the same.
    """


def _traces(_context: click.Context, _option: click.Parameter, given: Path | None) -> Path | None:
    """The directory that is given, or the usual one if it is there."""
    return _NEXT_TO_CHECKOUT if given is None and _NEXT_TO_CHECKOUT.is_dir() else given


_OPTIONS = (
    click.option(
        "--traces",
        metavar="DIR",
        type=click.Path(path_type=Path),
        callback=_traces,
        help="Directory of the traces, which makeway does not ship: see docs/traces.md [default: "
        f"{_NEXT_TO_CHECKOUT}, if it is there].",
    ),
    click.option(
        "--seeds", type=click.IntRange(min=1), help="How many seeds, from 0 on [default: the paper's own]."
    ),
    click.option(
        "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes side by side."
    ),
    click.option("--quick", is_flag=True, help="One seed and little time, unless said otherwise."),
    click.option("--report", type=NAMED_FILE, help="Write the HTML report there."),
    click.option(
        "--json",
        "json_path",
        type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
        help="Write every number as JSON there; - is standard output.",
    ),
    cache_options(f"makeway/{_NAME}"),
)


def paper_options(command: CommandT) -> CommandT:
    """Give a paper's command the options of all of them; `ReproduceOptions` takes their values."""
    return with_options(command, _OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproduceOptions:
    """The options that every paper has."""

    traces: Path | None
    """None: not said."""
    seeds: int | None
    """None: not said."""
    jobs: int
    quick: bool
    report: Path | None
    json_path: Path | None
    cache: Path | None = None
    """None: the usual directory."""
    no_cache: bool = False

    def results_cache(self, *traces: str) -> "ResultCache | None":
        """Where results are kept that depend on these files of the directory of traces. None: nowhere.

        Raises:
            UserError: nothing can be written there.
        """
        from makeway.simharness.papers.common.cache import ResultCache, default_directory

        if self.no_cache:
            return None
        kept = ResultCache(
            directory=self.cache or default_directory(_NAME),
            traces=tuple(self.trace_folder / name for name in traces),
        )
        kept.require()
        return kept

    def seed_range(self, usual: int) -> range:
        """The seeds to run: those of `--seeds`, else one if it has to be quick, else `usual` many."""
        return range(self.seeds or (1 if self.quick else usual))

    def checked(self, claims: "Iterable[Claim]") -> "tuple[Claim, ...]":
        """The claims; with `--quick` marked as preliminary."""
        return tuple(replace(claim, preliminary=self.quick) for claim in claims)

    @property
    def trace_folder(self) -> Path:
        """The directory of the traces. Raises `UserError` if none is given: see `require_trace`."""
        if self.traces is None:
            raise UserError("--traces: missing; accepted: --traces DIR, the directory of the traces")
        return self.traces

    def require_trace(self, name: str) -> None:
        """Make sure of a trace before anything is computed.

        Raises:
            UserError: no directory is given, or there is no such file in it.
        """
        if self.traces is None or not (self.traces / name).is_file():
            what = "--traces: missing" if self.traces is None else f"--traces {self.traces}: has no {name}"
            raise UserError(
                f"{what}; accepted: --traces DIR, the directory that holds {name} (docs/traces.md says where "
                "to get it)"
            )

    def require_outputs(self) -> None:
        """Check before any computing that the results can be written.

        Raises:
            ReportUnavailable: a report is wanted and bokeh is not installed.
            UserError: a file cannot be written there.
        """
        from makeway.simharness.cli.terminal import require_writable
        from makeway.simharness.results.report import require_bokeh

        if self.report is not None:
            require_bokeh()
        require_writable({"--report": self.report, "--json": self.json_path})


class Interrupted(KeyboardInterrupt):
    """The user interrupted `run_all`."""

    def __init__(self, finished: Mapping[int, Any]) -> None:
        super().__init__()
        self.finished = finished
        """The results that are there, by the places of their trials."""


class TrialsFailed(UserError):
    """Some trials of `run_all` failed. The message names them."""

    def __init__(self, failed: Mapping[int, str], finished: Mapping[int, Any], label: str) -> None:
        count, names = len(failed) + len(finished), (failed[place] for place in sorted(failed))
        super().__init__("\n".join((f"{len(failed)} of {count} {label} failed:", *names)))
        self.finished = finished
        """The results of the others, by the places of their trials."""


def run_all(
    work: Callable[[TrialT], ResultT],
    trials: Sequence[TrialT],
    *,
    workers: int,
    label: str,
    cache: "ResultCache | None" = None,
    named: Callable[[TrialT], str] | None = None,
    spread: "Callable[[Sequence[TrialT]], Iterator[tuple[int, ResultT | Failure]]] | None" = None,
) -> list[ResultT]:
    """The result of every trial, in their order, with a bar that counts them.

    Args:
        work: a function of a module, so that another process can be given it. With a cache it says by its
            annotation what it returns: frozen dataclasses of plain values, nested as they like.
        trials: values that another process can be given; with a cache frozen dataclasses of plain values.
        workers: processes side by side; 1: this one alone.
        label: what the bar says.
        cache: where results are kept, as soon as they are there, and looked for first. None: nowhere.
        named: what a trial is called: the others go on after one that fails. None: the first failure ends it.
        spread: computes the trials that have no result, and keeps theirs. None: `workers` processes do.

    Raises:
        Interrupted: by Ctrl-C. What is finished is in it, and in the cache.
        TrialsFailed: with `named`, after the others. The same holds.
    """
    from makeway.simharness.run import workers as processes

    kept = None if cache is None else cache.of(work)
    results = _kept(trials, label, cache, kept) if cache and kept else {}
    missing = [index for index in range(len(trials)) if index not in results]
    failed, tried = dict[int, str](), work if named is None else processes.Attempts(work)
    asked = [trials[index] for index in missing]
    try:
        with counter(label, len(trials)) as advance:
            advance(len(results))
            for position, result in spread(asked) if spread else processes.spread(tried, asked, workers):
                index = missing[position]
                if named is not None and isinstance(result, processes.Failure):
                    failed[index] = _reported(named(trials[index]), result)
                elif not isinstance(result, processes.Failure):
                    results[index] = result
                    if kept is not None and spread is None:
                        kept.put(trials[index], result)
                advance(1)
    except KeyboardInterrupt as interrupt:
        kept_in = f" and kept in {cache.directory}; the same command goes on from there" if cache else ""
        click.echo(f"interrupted: {len(results)} of {len(trials)} {label} are finished{kept_in}", err=True)
        raise Interrupted(results) from interrupt
    return _in_order(results, failed, label)


def _in_order(results: Mapping[int, ResultT], failed: Mapping[int, str], label: str) -> list[ResultT]:
    """The results in the order of their trials. Raises `TrialsFailed` if some failed."""
    if failed:
        raise TrialsFailed(failed, results, label)
    return [results[index] for index in range(len(results))]


def _reported(name: str, failure: "Failure") -> str:
    """The name of a trial, once its failure is printed."""
    click.echo(f"makeway: failed: {printable(f'{name}: {failure.text}')}", err=True)
    return name


def _kept(
    trials: Sequence[TrialT], label: str, cache: "ResultCache", kept: "KeptResults[TrialT, ResultT]"
) -> dict[int, ResultT]:
    """The results that are kept already, by the places of their trials."""
    results = {
        index: found[0] for index, trial in enumerate(trials) if (found := kept.get(trial)) is not None
    }
    if results:
        text = f"{len(results)} of {len(trials)} {label} were kept in {cache.directory}"
        again = f"; {cache.bypass} computes them again" if cache.bypass else ""
        click.echo(f"{text}{again}", err=True)
    return results


def deliver(
    options: ReproduceOptions,
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
    from makeway.simharness.cli.terminal import is_stdout, print_wide, write_text
    from makeway.simharness.results.files import write_file

    write_text(
        options.json_path,
        lambda: json.dumps({"format": FORMAT, **values}, indent=2, allow_nan=False) + "\n",
    )
    quiet = is_stdout(options.json_path)
    if not quiet:
        print_wide(*tables)
    if options.report is not None:
        write_file(options.report, html())
        click.echo(f"Report: {options.report}", err=quiet)
