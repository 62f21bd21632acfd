"""What `makeway status --watch` shows: the status, the open operations and the latest decisions."""

import time
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from makeway.daemon.cli.text import console, instant, plain, status_lines
from makeway.daemon.inspect.now import latest_decisions, now, reported_status
from makeway.daemon.journal.errors import JournalError
from makeway.daemon.journal.store import Journal

REFRESH_S = 2.0
DECISIONS_SHOWN = 10
"""The newest are shown; a terminal that is too low cuts the oldest of them."""
_OPERATION_HEADINGS = ("for job", "kind", "phase", "nodes", "deadline", "tasks")
_DECISION_HEADINGS = ("decision", "at", "policy", "actions", "why")


def show(journal: Path, socket: Path) -> None:
    """Show a picture on the terminal and refresh it, until the process is interrupted. Where the output is
    no terminal, print one.

    Args:
        journal: path of the daemon's journal. It is opened for each picture, read-only.
        socket: path of the daemon's socket.
    """
    output = console()
    if not output.is_terminal:
        output.print(picture(journal, socket))
        return
    with Live(console=output, screen=True, auto_refresh=False) as live:
        while True:
            live.update(picture(journal, socket), refresh=True)
            time.sleep(REFRESH_S)


def picture(journal: Path, socket: Path) -> Group:
    """What is shown. A journal or a socket that cannot be read is one line of it."""
    try:
        with closing(Journal(journal, read_only=True)) as opened:
            found, decisions = now(opened, socket), latest_decisions(opened, DECISIONS_SHOWN)
    except JournalError as error:
        status, problem = reported_status(socket)
        return Group(*_status(status, problem), plain(str(error), style="red"))
    operations = [_operation(one) for one in found["operations"]]
    return Group(
        *_status(found["status"], found["problem"]),
        Text(),
        _table("No operation is open.", _OPERATION_HEADINGS, operations),
        Text(),
        _table("Nothing is decided yet.", _DECISION_HEADINGS, [_decision(one) for one in decisions]),
    )


def _status(status: Any, problem: str) -> list[RenderableType]:
    if status is None:
        return [plain(problem, style="red")]
    return [Text(line) for line in status_lines(status)]


def _operation(values: dict[str, Any]) -> tuple[str, ...]:
    kind = values["kind"].replace("_", " ") + (" (observed)" if values["observe"] else "")
    tasks = "; ".join(f"{task['verb']} {task['job']}: {task['progress']}" for task in values["tasks"])
    phase = values["phase"].replace("_", " ")
    return values["for_job"], kind, phase, str(values["nodes"]), instant(values["deadline_s"]), tasks


def _decision(values: dict[str, Any]) -> tuple[str, ...]:
    why = " ".join(values["summaries"])
    return str(values["decision"]), instant(values["at_s"]), values["policy"], str(values["actions"]), why


def _table(empty: str, headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> RenderableType:
    """A table of texts as they are. `empty`: what is said in place of a table without rows."""
    if not rows:
        return Text(empty, style="dim")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(*map(plain, row))
    return table
