"""Whether an operator has paused makeway."""

from typing import Final

from makeway.daemon.journal.store import Journal

_NAME: Final = "paused"


class Pause:
    """A switch that survives a restart. May be used from any thread.

    Args:
        journal: where it is kept.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._on = journal.noted(_NAME) == "yes"

    @property
    def on(self) -> bool:
        """Whether nothing may be taken now."""
        return self._on

    def set(self, on: bool) -> None:
        """Pause, or go on."""
        self._journal.note(_NAME, "yes" if on else "no")
        self._on = on
