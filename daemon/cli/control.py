"""The commands that speak to the running daemon: status, poke, notice."""

import json
from pathlib import Path

import click

from makeway.daemon.errors import printable
from makeway.daemon.service.socket_api import request


def status(path: Path, *, as_json: bool) -> None:
    """Print how the daemon behind the socket `path` is."""
    told = request(path, {"command": "status"})["status"]
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    for name, value in told.items():
        click.echo(f"{printable(name.replace('_', ' ')):<16} {printable(str(value))}")


def poke(path: Path, job_id: str | None) -> None:
    """Start a cycle; with a job's id because that job has acknowledged."""
    request(path, {"command": "poke"} if job_id is None else {"command": "ack", "job_id": job_id})


def notice(path: Path, *, nodes: int, walltime_s: float, in_s: float, user: str | None) -> None:
    """Announce an urgent job and print the id of the announcement."""
    message: dict[str, object] = {
        "command": "notice",
        "nodes": nodes,
        "walltime_s": walltime_s,
        "in_s": in_s,
    }
    if user is not None:
        message["user"] = user
    click.echo(printable(str(request(path, message)["notice_id"])))
