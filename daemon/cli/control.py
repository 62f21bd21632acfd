"""The commands that talk to the running daemon: poke, notice, pause, resume and handover."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from makeway.daemon.cli.options import SOCKET_PATH, config_option, from_config, socket_option
from makeway.daemon.errors import printable


@click.command()
@socket_option
@config_option
@click.option(
    "--ack",
    "job_id",
    metavar="JOB",
    help="Only if makeway waits for this job to save its work or to leave its nodes.",
)
def poke(socket: Path | None, config: Path | None, job_id: str | None) -> None:
    """Start a cycle of the running daemon at once."""
    path = socket or from_config(config, "socket", SOCKET_PATH)
    if job_id is None:
        _ask(path, {"command": "poke"})
    elif not _ask(path, {"command": "ack", "job_id": job_id})["awaited"]:
        click.echo(f"No operation waits for job {printable(job_id)}: no cycle was started.")


def notice(
    path: Path,
    *,
    nodes: int,
    walltime_s: float,
    in_s: float,
    user: str | None,
    per_node: Mapping[str, int] | None,
) -> None:
    """Announce an urgent job and print the id of the announcement."""
    message: dict[str, object] = {
        "command": "notice",
        "nodes": nodes,
        "walltime_s": walltime_s,
        "in_s": in_s,
    }
    if user is not None:
        message["user"] = user
    if per_node is not None:
        message["per_node"] = dict(per_node)
    click.echo(printable(str(_ask(path, message)["notice_id"])))


@click.command()
@socket_option
@config_option
def pause(socket: Path | None, config: Path | None) -> None:
    """Take nothing from jobs until `makeway resume`, also after a restart of the daemon.

    What was taken is given back as usual. For root and the daemon's user only.
    """
    _request(socket, config, "pause")


@click.command()
@socket_option
@config_option
def resume(socket: Path | None, config: Path | None) -> None:
    """End `makeway pause`. For root and the daemon's user only."""
    _request(socket, config, "resume")


@click.command()
@socket_option
@config_option
def handover(socket: Path | None, config: Path | None) -> None:
    """Give the lease up, so that another daemon of the cluster leads from its next poll on.

    This daemon begins nothing for the length of a lease. If no other one has taken over then, it leads again.
    For root and the daemon's user only.
    """
    if not _request(socket, config, "handover")["led"]:
        click.echo("This daemon does not lead: there is nothing to hand over.")


def _request(socket: Path | None, config: Path | None, command: str) -> dict[str, Any]:
    """Send a command without arguments to the running daemon, and return its reply."""
    return _ask(socket or from_config(config, "socket", SOCKET_PATH), {"command": command})


def _ask(path: Path, message: Mapping[str, object]) -> dict[str, Any]:
    """Send a request to the daemon, and return its reply."""
    from makeway.daemon.service.socket_api import request

    return request(path, message)
