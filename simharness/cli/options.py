"""Option types that the commands share."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., object])

FILE = click.Path(path_type=Path, dir_okay=False, writable=True, allow_dash=True)
"""A file to write; - is standard output."""


class _NamedFile(click.Path):
    """A file that has a name: - does not mean standard output, and is not taken for a name either."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if str(value) == "-":
            self.fail("- is not accepted: give the name of a file", param, ctx)
        return super().convert(value, param, ctx)


NAMED_FILE = _NamedFile(path_type=Path, dir_okay=False)
"""A file to write that cannot be standard output."""
_SCHEDULER = (
    click.option(
        "--backfill",
        type=click.Choice(["none", "easy", "easy-cqsim", "conservative"]),
        default="easy",
        show_default=True,
        help="Which waiting jobs may start before their turn.",
    ),
    click.option(
        "--order",
        type=click.Choice(["fcfs", "wfp"]),
        default="fcfs",
        show_default=True,
        help="Order of the queue: by submission, or by waiting time and size.",
    ),
)


def scheduler_options(command: CommandT) -> CommandT:
    """Give a command the options of the base scheduler: `backfill` and `order`."""
    return with_options(command, _SCHEDULER)


def cache_options(kept_in: str) -> Callable[[CommandT], CommandT]:
    """The options of the folder of finished results: `cache` and `no_cache`.

    `kept_in`: the default folder below the user's folder of caches.
    """
    options = (
        click.option(
            "--cache",
            type=click.Path(path_type=Path, file_okay=False),
            help=f"Keep results there [default: $XDG_CACHE_HOME or ~/.cache, in {kept_in}].",
        ),
        click.option("--no-cache", is_flag=True, help="Compute everything again and store nothing."),
    )
    return lambda command: with_options(command, options)


def with_options(command: CommandT, options: tuple[Callable[[CommandT], CommandT], ...]) -> CommandT:
    """Give a command several options, which its help shows in this order."""
    for option in reversed(options):
        command = option(command)
    return command
