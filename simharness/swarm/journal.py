"""A journal that dies, or has no room on its disk, at the writes that a story says."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from makeway.daemon.journal.database import Statement
from makeway.daemon.journal.store import Journal


class Killed(BaseException):
    """The daemon's death: nothing that handles errors may see it."""


class MortalJournal(Journal):
    """A journal whose daemon can die at any write.

    Args:
        path: the file.
        full: says whether the disk is full now.

    Attributes:
        dies_in: the write before or after which the daemon dies, counted from now; None: at none.
        after: whether it dies after that write.
    """

    def __init__(self, path: Path, full: Callable[[], bool]) -> None:
        self.dies_in: int | None = None
        self.after = False
        self._full = full
        super().__init__(path)

    def _write(self, *statements: Statement) -> int:
        if self.dies_in is not None:
            self.dies_in -= 1
        dies = self.dies_in == 0
        if dies and not self.after:
            raise Killed
        if self._full():
            raise sqlite3.OperationalError("database or disk is full")
        row_id = super()._write(*statements)
        if dies:
            raise Killed
        return row_id
