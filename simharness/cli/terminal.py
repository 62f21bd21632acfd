"""What commands share on the terminal: wide output, text files, a bar that counts."""

import os
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from makeway.daemon.errors import UserError

LINE_EVERY_S = 60.0
"""How often a long run reports to standard error where that is not a terminal."""
PIPE_COLUMNS = 160
"""How wide output is that goes to no terminal: a pipe has no width of its own, and 80 columns cut tables."""


def is_stdout(path: Path | None) -> bool:
    """Whether a path that the user gave means standard output."""
    return path is not None and str(path) == "-"


def require_writable(outputs: Mapping[str, Path | None]) -> None:
    """Check before any computing that files can be written. Nothing is made.

    Args:
        outputs: the files by the option that names them. None: no such file; -: standard output.

    Raises:
        UserError: a folder is missing, or a file cannot be written there.
    """
    for option, path in outputs.items():
        if path is None or is_stdout(path):
            continue
        if not path.parent.is_dir():
            raise UserError(f"{option} {path}: there is no folder {path.parent}; make it first")
        if path.is_dir():
            raise UserError(f"{option} {path}: it is a folder; accepted: a file")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UserError(f"{option} {path}: cannot be written (permission denied or read-only)")


def write_file(path: Path, text: str) -> None:
    """Write a text into a file.

    Raises:
        UserError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from error


def write_text(path: Path | None, text: Callable[[], str]) -> None:
    """Write a text where the user wants it: nowhere (None), standard output (-) or a file."""
    if path is None:
        return
    if is_stdout(path):
        click.echo(text(), nl=False)
    else:
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
