"""What commands share on the terminal: wide output, text files, a bar that counts."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import click

PIPE_COLUMNS = 160
"""How wide output is that goes to no terminal: a pipe has no width of its own, and 80 columns cut tables."""


def is_stdout(path: Path | None) -> bool:
    """Whether a path that the user gave means standard output."""
    return path is not None and str(path) == "-"


def write_text(path: Path | None, text: Callable[[], str]) -> None:
    """Write a text where the user wants it: nowhere (None), standard output (-) or a file."""
    if path is None:
        return
    if is_stdout(path):
        click.echo(text(), nl=False)
    else:
        path.write_text(text(), encoding="utf-8")


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
    """A progress bar on standard error, moved on by the count of each call.

    Nothing is shown if standard error is not a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)
