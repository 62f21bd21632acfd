"""The command `status`: what the running daemon reports, once or again and again."""

import json
from pathlib import Path

import click

from makeway.daemon.cli.options import (
    FILE,
    JOURNAL_PATH,
    SOCKET_PATH,
    config_option,
    from_config,
    socket_option,
)


@click.command()
@socket_option
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--watch",
    is_flag=True,
    help="Show it with the open operations and the latest decisions, and refresh that until Ctrl-C.",
)
@click.option("--journal", type=FILE, help="The journal, for --watch [default: the configuration's].")
def status(
    socket: Path | None, config: Path | None, as_json: bool, watch: bool, journal: Path | None
) -> None:
    """Print the state of the running daemon.

    --watch also reads the journal, which only root and the daemon's user may do; without it, only the status
    is shown. Where the output is not a terminal, --watch prints one picture and ends.
    """
    if watch and as_json:
        raise click.UsageError("accepted: --watch or --json, not both")
    if journal is not None and not watch:
        raise click.UsageError("--journal: accepted only with --watch")
    path = socket or from_config(config, "socket", SOCKET_PATH)
    if watch:
        from makeway.daemon.cli.live.watch import show

        show(journal or from_config(config, "journal", JOURNAL_PATH), path)
        return
    from makeway.daemon.cli.text import status_lines
    from makeway.daemon.service.socket_api import request

    values: dict[str, object] = request(path, {"command": "status"})["status"]
    if as_json:
        click.echo(json.dumps(values, indent=2))
        return
    for line in status_lines(values):
        click.echo(line)
