"""Which leases of other daemons have ended, by what this daemon has seen of them.

No clocks of two machines are compared. A lease lives as long as its mark changes; how long the mark has been
the same is counted on this daemon's own clock, from the end of the reading that first showed it to the
beginning of the one that shows it last.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from makeway.policies.model import LeaderLease

_KEPT = 32
"""So many of the highest terms are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sighting:
    """A lease of another daemon, as it was last seen."""

    lease: LeaderLease | None
    """None: it is gone, and its daemon may not know that yet."""
    since_s: float
    """When it was first seen like this."""
    lasts_s: float
    ended: bool = False
    """Whether its daemon cannot act by it any more."""


class LeaseWatch:
    """The leases of other daemons."""

    def __init__(self) -> None:
        self._seen: dict[int, _Sighting] = {}

    @property
    def highest(self) -> int:
        """The highest term that was seen. 0: none was."""
        return max(self._seen, default=0)

    def see(self, leases: Iterable[LeaderLease], *, began_s: float, ended_s: float, margin_s: float) -> None:
        """Take note of what a snapshot shows of other daemons' leases.

        Args:
            leases: all of them.
            began_s: when its reading began.
            ended_s: when its reading ended.
            margin_s: how much longer than it lasts a lease has to be unchanged.
        """
        shown = {lease.term: lease for lease in leases}
        for term in shown.keys() | self._seen.keys():
            lease, old = shown.get(term), self._seen.get(term)
            if old is None or (old.lease != lease and not (lease is None and old.ended)):
                lasts_s = lease.lasts_s if lease is not None else 0.0 if old is None else old.lasts_s
                old = _Sighting(lease=lease, since_s=ended_s, lasts_s=lasts_s)
            given_up = old.lease is not None and old.lease.mark is None
            if given_up or began_s - old.since_s >= old.lasts_s + margin_s:
                old = replace(old, ended=True)
            self._seen[term] = old
        for term in sorted(self._seen)[:-_KEPT]:
            del self._seen[term]

    def alive(self) -> tuple[int, ...]:
        """The terms whose daemons may act, sorted."""
        return tuple(sorted(term for term, sighting in self._seen.items() if not sighting.ended))

    def next_end_s(self, margin_s: float) -> float | None:
        """When the first of them ends, if its mark does not change. None: none is alive."""
        ends_s = [one.since_s + one.lasts_s + margin_s for one in self._seen.values() if not one.ended]
        return min(ends_s, default=None)
