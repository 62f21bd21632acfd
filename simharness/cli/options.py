"""Option types that the commands share."""

from pathlib import Path

import click

FILE = click.Path(path_type=Path, dir_okay=False, writable=True, allow_dash=True)
"""A file to write; - is standard output."""
