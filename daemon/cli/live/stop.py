"""The command `stop`: ends the running daemon, with `--restore` after it has given everything back."""

import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from makeway.daemon.cli.options import (
    JOURNAL_PATH,
    SOCKET_PATH,
    config_option,
    duration,
    from_config,
    socket_option,
)
from makeway.daemon.errors import UserError, counted, printable
from makeway.daemon.leader.standing import Role

LOOK_S = 0.5
"""Interval at which the daemon is asked how far it is."""


@click.command()
@click.option(
    "--restore",
    is_flag=True,
    help="First give back what is held or was taken: holds, nodes, queue positions, time limits.",
)
@click.option(
    "--wait",
    "wait_s",
    type=duration,
    default="10m",
    show_default=True,
    help="How long that may take; then the daemon runs on, and goes on giving back.",
)
@socket_option
@config_option
def stop(restore: bool, wait_s: float, socket: Path | None, config: Path | None) -> None:
    """End the running daemon. For root and the daemon's user only.

    With --restore, makeway takes nothing from now on, in either mode. Urgent jobs that run keep their nodes.
    The command prints what cannot be given back, such as nodes on which other jobs run; the next daemon in
    act mode gives that back. If another daemon leads, what is held and was taken belongs to that daemon: this
    one gives nothing back, says so, and ends. If no daemon runs, the journal says whether there is anything
    to give back.
    """
    from makeway.daemon.inspect.now import reported_status
    from makeway.daemon.service.socket_api import request

    path = socket or from_config(config, "socket", SOCKET_PATH)
    status, problem = reported_status(path)
    if status is None and restore:
        click.echo(_nothing_to_give_back(problem, from_config(config, "journal", JOURNAL_PATH)))
        return
    if status is None:
        raise UserError(problem)
    if restore:
        status = _restored(path, wait_s)
        click.echo(_given_back(status))
    request(path, {"command": "stop"})
    _await_end(path, wait_s)
    click.echo("The daemon has stopped.")


def _nothing_to_give_back(problem: str, journal: Path) -> str:
    """What there is to say if no daemon runs and, by its journal, nothing is held or taken.

    Raises:
        UserError: there is something, or that is not known, because a daemon has the journal and does not
            answer, or the journal cannot be read. It begins with `problem`.
    """
    from makeway.daemon.journal.errors import JournalError, JournalUnfinished
    from makeway.daemon.journal.file_guard import journal_owner
    from makeway.daemon.journal.store import Journal

    where = printable(str(journal))
    if (owner := journal_owner(journal)) is not None:
        raise UserError(f"{problem} The journal {where} is in use by {owner}")
    later = "a daemon that is started in `mode: act` gives back what the last one took"
    try:
        if not journal.exists():
            return f"No daemon runs, and there is no journal {where}: nothing is to be given back."
        with closing(Journal(journal, read_only=True)) as store:
            left = [one for one in store.open_operations() if not one.observe]
    except JournalUnfinished:
        left = []
    except (JournalError, OSError) as error:
        raise UserError(f"{problem}; {printable(str(error))}; {later}") from error
    if left:
        raise UserError(
            f"{problem}; by the journal {where}, {counted(len(left), 'operation')} of the last daemon "
            f"{'is' if len(left) == 1 else 'are'} open; {later}"
        )
    return f"No daemon runs, and by the journal {where} nothing is to be given back."


def _restored(path: Path, wait_s: float) -> Mapping[str, Any]:
    """The status of the daemon once it has given back what it can."""
    from makeway.daemon.service.socket_api import request

    until_s = time.monotonic() + wait_s
    request(path, {"command": "restore"})
    while True:
        status: Mapping[str, Any] = request(path, {"command": "status"})["status"]
        if status["restored"]:
            return status
        if time.monotonic() >= until_s:
            raise UserError(
                f"not everything is given back yet: {printable(str(status['sentence']))}; the daemon goes on "
                "giving back, and `makeway stop` ends it as it is"
            )
        if status["restored"] is None:
            request(path, {"command": "restore"})  # a daemon that was started again does not know of it
        time.sleep(LOOK_S)


def _given_back(status: Mapping[str, Any]) -> str:
    leader = printable(str(status["leader"]))
    if leader.startswith(Role.FOLLOWS):
        return (
            f"Nothing is given back: another daemon leads, and this one {leader}. What is held and was taken "
            "is the leader's, which goes on. `makeway stop --restore` on its host gives it back."
        )
    if status["not_given_back"] is None:
        return "Everything is given back."
    return f"Given back, except: {printable(str(status['not_given_back']))}."


def _await_end(path: Path, wait_s: float) -> None:
    """Wait until no daemon answers any more."""
    from makeway.daemon.inspect.now import reported_status

    until_s = time.monotonic() + wait_s
    while reported_status(path)[0] is not None:
        if time.monotonic() >= until_s:
            raise UserError(f"socket {printable(str(path))}: the daemon has not ended yet")
        time.sleep(LOOK_S)
