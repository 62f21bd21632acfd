"""Why a journal cannot be used."""

from pathlib import Path
from typing import ClassVar

from makeway.daemon.errors import TRY_AGAIN, OneProblem


class JournalError(OneProblem):
    """The journal cannot be used. The message names the file and says what to do."""


class JournalUnavailable(JournalError):
    """It cannot be used now, but may be later: its disk is full, not mounted yet, or does not answer."""

    exit_status: ClassVar[int] = TRY_AGAIN


class JournalReplaced(JournalUnavailable):
    """The file is no longer the one that this process opened, or no longer what it wrote."""


class JournalInUse(JournalError):
    """Another daemon has it open."""

    def __init__(self, path: Path, pid: int | None) -> None:
        owner = f"the daemon with pid {pid}" if pid is not None else "another daemon"
        super().__init__(f"{path}: in use by {owner}; one journal serves one daemon")
        self.path = path
        self.pid = pid


class JournalTooNew(JournalError):
    """A newer makeway wrote it, or a part of it."""


class JournalUnfinished(JournalError):
    """The file has no complete tables yet, and no rows: makeway was killed while it made them."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(f"{path}: holds nothing yet; the next start of `makeway run` makes its tables")
