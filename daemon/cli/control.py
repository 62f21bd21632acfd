"""The commands that talk to the running daemon: status, poke, notice."""

import json
from collections.abc import Mapping
from pathlib import Path

import click

from makeway.daemon.errors import printable
from makeway.daemon.service.socket_api import request


def status(path: Path, *, as_json: bool) -> None:
    """Print the state of the daemon behind the socket `path`."""
    values: dict[str, object] = request(path, {"command": "status"})["status"]
    if as_json:
        click.echo(json.dumps(values, indent=2))
        return
    for name, value in values.items():
        click.echo(f"{printable(name.replace('_', ' ')):<16} {printable(str(value))}")


def poke(path: Path, job_id: str | None) -> None:
    """Start a cycle; with a job's id only if an open operation waits for that job."""
    if job_id is None:
        request(path, {"command": "poke"})
    elif not request(path, {"command": "ack", "job_id": job_id})["awaited"]:
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
    click.echo(printable(str(request(path, message)["notice_id"])))
