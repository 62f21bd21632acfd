"""Option types that the commands share."""

import os
from pathlib import Path
from typing import Any

import click

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
