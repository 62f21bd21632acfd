"""What commands share on the terminal: wide output, text files, a bar that counts."""

import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from makeway.daemon.errors import UserError, printable

LINE_EVERY_S = 60.0
"""How often a long run reports to standard error where that is not a terminal."""
PIPE_COLUMNS = 160
"""How wide output is that goes to no terminal: a pipe has no width of its own, and 80 columns cut tables."""


def is_stdout(path: Path | None) -> bool:
    """Whether a path that the user gave means standard output."""
    return path is not None and str(path) == "-"


def require_writable(outputs: Mapping[str, Path | None], *, inputs: Iterable[Path] = ()) -> None:
    """Check before any computing that files can be written. Nothing is made.

    Args:
        outputs: the files by the option that names them. None: no such file; -: standard output.
        inputs: the files that are read: none of them may be replaced.

    Raises:
        UserError: a folder is missing, a file cannot be written there, or two outputs, or an output and an
            input, are one file.
    """
    taken = {path.resolve(): "the file that is read" for path in inputs}
    for option, path in outputs.items():
        if path is None:
            continue
        _require_possible(option, path)
        place = path if is_stdout(path) else path.resolve()
        if place in taken:
            raise UserError(f"{option} {printable(str(path))}: it is {taken[place]}; accepted: another file")
        if is_stdout(path) or path.is_file() or not path.exists():  # a device may be named twice
            taken[place] = f"the file of {option} too"


def _require_possible(option: str, path: Path) -> None:
    """Raises `UserError` if the file cannot be written. Standard output can."""
    if is_stdout(path):
        return
    where = f"{option} {printable(str(path))}"
    try:
        found = stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        found = None
    except (OSError, ValueError) as error:
        raise UserError(f"{where}: cannot be written ({_cause(error)})") from error
    if not path.parent.is_dir():
        raise UserError(f"{where}: there is no folder {printable(str(path.parent))}; make it first")
    if found == stat.S_IFDIR:
        raise UserError(f"{where}: it is a folder; accepted: a file")
    try:
        if found is None:
            tempfile.TemporaryFile(dir=path.parent).close()
        elif found == stat.S_IFREG:
            path.open("ab").close()
    except OSError as error:
        raise UserError(f"{where}: cannot be written ({_cause(error)})") from error


def _cause(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def write_text(path: Path | None, text: Callable[[], str]) -> None:
    """Write a text where the user wants it: nowhere (None), standard output (-) or a file."""
    if path is None:
        return
    if is_stdout(path):
        click.echo(text(), nl=False)
    else:
        from makeway.simharness.results.files import write_file

        write_file(path, text())


def print_wide(*renderables: object) -> None:
    """Print tables and texts of rich, one below the other."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_COLUMNS)
    for renderable in renderables:
        console.print(renderable)


@contextmanager
def counter(label: str, total: int) -> Generator[Callable[[int], None]]:
    """A progress bar on standard error, moved on by the count of each call; a line every minute if
    standard error is not a terminal.
    """
    if not sys.stderr.isatty():
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count

        with line_every_minute(lambda: f"{done} of {total} {label} are done"):
            yield advance
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def line_every_minute(text: Callable[[], str]) -> Generator[None]:
    """Print what `text` returns to standard error every minute (`LINE_EVERY_S`), by a thread of its own."""
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(LINE_EVERY_S):
            click.echo(f"makeway: {text()}", err=True)

    thread = threading.Thread(target=report, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
