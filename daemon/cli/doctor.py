"""The command `doctor`: every check, one line each."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click

from makeway.adapters.site.checks import Check, Level
from makeway.daemon.config.load import AdapterFactory, load
from makeway.daemon.errors import counted, printable
from makeway.daemon.inspect.doctor import examine

STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}


def show(factories: Mapping[str, AdapterFactory], path: Path, *, as_json: bool) -> int:
    """Print every check of the configuration `path`. Returns 1 if any check found a problem, else 0.

    Raises:
        UserError: the configuration is not valid, or its adapter cannot be opened.
    """
    checks = examine(load(path), factories)
    counts = Counter(check.level for check in checks)
    if as_json:
        values = {
            "configuration": str(path),
            "problems": counts[Level.PROBLEM],
            "warnings": counts[Level.WARNING],
            "checks": [asdict(check) for check in checks],
        }
        click.echo(json.dumps(values, indent=2))
    else:
        render(checks, counts, path)
    return 1 if counts[Level.PROBLEM] else 0


def render(checks: tuple[Check, ...], counts: Counter[Level], path: Path) -> None:
    """Print the checks as a table, then one sentence that sums them up."""
    from rich.table import Table

    from makeway.daemon.cli.text import console, plain

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for check in checks:
        table.add_row(plain(check.level, style=STYLES[check.level]), plain(check.name), plain(check.text))
    out = console()
    out.print(table)
    found = [counted(counts[level], level) for level in (Level.PROBLEM, Level.WARNING) if counts[level]]
    out.print(plain("", f"{printable(str(path))}: {' and '.join(found) or 'all is well'}."))
