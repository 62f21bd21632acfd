"""What a daemon remembers of its leases: which it wrote, and which term was the highest.

It is written to the journal before the lease is written to the cluster, so a daemon that was killed in
between knows its own lease.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from makeway.daemon.journal.store import Journal
from makeway.policies.model import LeaderLease

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_NAME: Final = "leases"
_VERSION: Final = 1
_KEPT: Final = 16
"""So many of the last writings are remembered: a command without an answer may be carried out late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseNotes:
    """The notes of one daemon."""

    boot: str
    """Which boot of which machine wrote them: a copy of the journal elsewhere does not own the lease. Empty:
    it is not known.
    """
    highest: int = 0
    """The highest term that this daemon has tried to make. 0: none."""
    led: int = 0
    """The highest term by which this daemon has led. 0: none."""
    written: tuple[tuple[int, int], ...] = ()
    """The term and the mark of the last writings, the newest last."""
    version: int = _VERSION
    """Of the form in which the notes are stored."""

    def with_written(self, lease: LeaderLease) -> "LeaseNotes":
        """The notes, with one more writing."""
        assert lease.mark is not None
        written = (*self.written, (lease.term, lease.mark))[-_KEPT:]
        return replace(self, highest=max(self.highest, lease.term), written=written)

    def wrote(self, lease: LeaderLease) -> bool:
        """Whether this daemon has written the lease as it is."""
        if lease.mark is None:
            return any(term == lease.term for term, _ in self.written)
        return (lease.term, lease.mark) in self.written


@cache
def _notes() -> "TypeAdapter[LeaseNotes]":
    from pydantic import TypeAdapter  # a replay, whose daemon is the only one, does without it

    return TypeAdapter(LeaseNotes)


def stored_notes(journal: Journal, boot: str) -> LeaseNotes:
    """The notes in the journal. After another boot, or on another machine, only the terms count.

    An empty `boot` is no boot that is known: it equals none.
    Notes that cannot be read count for nothing: the daemon then waits for the end of its own lease.
    """
    try:
        found = _notes().validate_json(journal.noted(_NAME) or "")
    except ValueError:
        return LeaseNotes(boot=boot)
    if found.version != _VERSION:
        return LeaseNotes(boot=boot)
    same_boot = boot != "" and found.boot == boot
    return found if same_boot else LeaseNotes(boot=boot, highest=found.highest, led=found.led)


def store_notes(journal: Journal, notes: LeaseNotes) -> None:
    """Write the notes down."""
    journal.note(_NAME, _notes().dump_json(notes).decode())
