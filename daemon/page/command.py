"""The command `page`: serves the page until it is interrupted."""

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

DEFAULT_LISTEN = "127.0.0.1:9790"


@click.command()
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    show_default=True,
    metavar="ADDRESS",
    help="127.0.0.1:PORT, localhost:PORT, [::1]:PORT, or unix:PATH; port 0: any free port.",
)
@config_option
@click.option("--journal", type=FILE, help="The journal [default: the configuration's].")
@socket_option
def page(listen: str, config: Path | None, journal: Path | None, socket: Path | None) -> None:
    """Serve a page that shows what the daemon does: now, the last hours, decisions, what if.

    It is a process of its own, reads the journal and the socket of the daemon, and changes nothing. Any user
    who reaches the address can read it: use unix:PATH where users of the machine may not see each other's
    jobs.
    """
    from makeway.daemon.page.application import Page
    from makeway.daemon.page.serving import serve

    serve(
        Page(
            journal or from_config(config, "journal", JOURNAL_PATH),
            socket or from_config(config, "socket", SOCKET_PATH),
        ),
        listen,
        ready=lambda address: click.echo(f"The page is at {address}", err=True),
    )
