"""A program that is killed before every single SQL statement of a job, each time in a child process of its
own.

Usage: killer.py start|prune TEMPLATE FOLDER. The job is done on a copy of the file TEMPLATE (which may be
    absent), once for
each statement: FOLDER/1.sqlite is the file of the process that was killed before its first statement, and so
on. The last one was not killed. Prints how many there are.
"""

import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from makeway.daemon.journal.store import Journal

CUTOFF_S = 5.0
import_module("pydantic.type_adapter")  # else each child would load it for itself


def main(job: Callable[[Path], None], template: Path, folder: Path) -> int:
    """Kill the job before each of its statements. Returns how often it was started."""
    for number in count(1):
        path = folder / f"{number}.sqlite"
        for suffix in ("", "-wal"):
            source = template.with_name(template.name + suffix)
            if source.exists():
                shutil.copy(source, path.with_name(path.name + suffix))
        child = os.fork()
        if child == 0:
            _die_before(number)
            job(path)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            return number
        if status != -signal.SIGKILL:
            raise SystemExit(f"{path}: exit status {status}")
    raise AssertionError


def start(path: Path) -> None:
    """Open the journal as the daemon does."""
    Journal(path)


def prune(path: Path) -> None:
    """Delete all that is old."""
    journal = Journal(path)
    while journal.prune(CUTOFF_S, most=3):
        pass


def _die_before(last: int) -> None:
    """Have this process killed before statement number `last`, counted over all connections."""
    counted = count(1)

    def one_more() -> None:
        if next(counted) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    class Mortal(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            one_more()
            return super().execute(*arguments)

        def executescript(self, *arguments: Any) -> sqlite3.Cursor:
            one_more()
            return super().executescript(*arguments)

    connect = sqlite3.connect
    sqlite3.connect = lambda *arguments, **named: connect(*arguments, factory=Mortal, **named)  # type: ignore[assignment]


if __name__ == "__main__":
    print(main({"start": start, "prune": prune}[sys.argv[1]], Path(sys.argv[2]), Path(sys.argv[3])))
