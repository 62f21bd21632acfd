"""The lease of this daemon: taken, renewed, given up, and read with each snapshot.

A daemon takes the lease by making the next term, which the cluster allows once, and leads if a snapshot
taken after that shows its lease, none higher, and no other that may still be in use. It leads only once the
cluster has saved the lease: a controller that crashes before that may forget the lease, and let another
daemon lead. From then on it acts for as long as the lease lasts, counted from the beginning of the
last command that wrote it. A lease that was not renewed in time is never renewed: its daemon takes the next
term, like any other.

Why two daemons never act at once: `docs/decisions/0024-one-leader.md`.
"""

import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Final

from makeway.adapters.protocol import AdapterError, Gone, LeaseKeeper
from makeway.adapters.site.clock import since_boot_s
from makeway.adapters.site.text import printable
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.notes import LeaseNotes, store_notes, stored_notes
from makeway.daemon.leader.standing import Role, Standing
from makeway.daemon.leader.watch import LeaseWatch
from makeway.policies.model import LEASE_MARKS, Cluster, LeaderLease

_RENEWED_AFTER: Final = 1 / 3
"""The lease is written again after this part of it."""
_TRIED_AGAIN_AFTER: Final = 1 / 12
"""And if that got no answer, again after this part."""
_SLACK_S: Final = 0.01
"""What is due is looked at a little later, so that rounding makes no difference."""
_DRIFT: Final = 0.05
"""By which part the clocks of two machines may run at different speeds."""


def this_boot() -> str:
    """What identifies this boot of this machine, or container; empty where the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def lease_length_s(lease_s: float | None, command_s: float) -> float:
    """How long a lease lasts. `lease_s` None: six of the longest commands, and at least two minutes."""
    return max(120.0, 6.0 * command_s) if lease_s is None else lease_s


class Leadership:
    """The lease of one daemon. Only its cycle calls it, but for `hand_over` and `standing`.

    Args:
        keeper: keeps the leases.
        journal: where this daemon remembers its own.
        lease_s: how long a lease lasts. None: see `lease_length_s`.
        clock: seconds that no setting of the clock changes and that pass while the machine is suspended.
        boot: see `LeaseNotes.boot`.
        draw: gives a random mark.
    """

    def __init__(
        self,
        keeper: LeaseKeeper,
        journal: Journal,
        lease_s: float | None,
        *,
        clock: Callable[[], float] = since_boot_s,
        boot: str | None = None,
        draw: Callable[[], int] = lambda: secrets.randbelow(LEASE_MARKS),
    ) -> None:
        self._keeper = keeper
        self._journal = journal
        self._lease_s = lease_s
        self._clock = clock
        self._draw = draw
        self._notes: LeaseNotes = stored_notes(journal, this_boot() if boot is None else boot)
        self._watch = LeaseWatch()
        self._written_s = -inf
        """When the last command began that has certainly written the lease."""
        self._tried_s = -inf
        """When the last command began that was to renew the lease."""
        self._until_s = -inf
        """Until when this daemon has the lease."""
        self._saved_s = inf
        """From when on the cluster has saved the lease."""
        self._is_saved = False
        """Whether a snapshot has shown it since then."""
        # When the last look began, and whether it was not finished.
        self._began_s, self._failed = 0.0, False
        self._stands_back_until_s = -inf
        self._problem: str | None = None
        self._handing_over = threading.Event()
        self.standing = Standing(role=Role.WAITS)

    def configure(self, lease_s: float | None) -> None:
        """Use another length from the next writing on."""
        self._lease_s = lease_s

    def may_act(self) -> bool:
        """Whether a command that is sent now ends before another daemon may act."""
        return self._is_saved and self._clock() + self._keeper.command_s < self._until_s

    def hand_over(self) -> bool:
        """Have the next cycle give the lease up. Returns whether this daemon leads. From any thread."""
        leads = self.standing.role is Role.LEADS
        if leads:
            self._handing_over.set()
        return leads

    def withdraw(self) -> None:
        """Remove the lease, if this daemon has it, or was the last to have it: it has nothing more to do.
        Only after its last cycle.
        """
        newest = self.standing.lease
        if self._until_s > -inf:
            self._until_s = -inf
            self._remove(self._notes.led)
        elif newest is not None and self._notes.wrote(newest):  # it was handed over, and no daemon took it
            self._remove(newest.term)

    def due_in_s(self) -> float | None:
        """Seconds until the lease is to be written, or another daemon's may have ended. None: nothing is
        due.
        """
        match self.standing.role:
            case Role.LEADS:
                due_s: float | None = self._renewal_s
            case Role.FOLLOWS | Role.WAITS:
                ends_s = self._watch.next_end_s(self._margin_s)
                back_s = self._stands_back_until_s
                due_s = back_s if ends_s is None and back_s > self._clock() else ends_s
                if not self._is_saved and self._clock() < self._until_s:
                    due_s = self._saved_s
            case Role.ALONE | Role.IDLE:
                due_s = None
        if due_s is None:
            return None
        due_s = max(due_s, self._began_s + _TRIED_AGAIN_AFTER * self._length_s * self._failed)
        return max(0.0, due_s - self._clock()) + _SLACK_S

    def look(self, read: Callable[[], Cluster], wanted: bool) -> Cluster:
        """A snapshot, and what the lease needs by it: it is renewed, taken or given up.

        Args:
            read: takes a snapshot; used twice where the lease is taken.
            wanted: whether this daemon has anything to do that changes the cluster.

        Raises:
            Unavailable, Unreadable: no snapshot.
        """
        self._began_s, self._failed = self._clock(), True
        seen = self._read(read)
        self._problem = None
        if self._handing_over.is_set() or not wanted:
            self._give_up(seen)
            return self._stand(seen, Role.IDLE if not wanted and not self._watch.alive() else None)
        if self._has_lease(seen):
            self._is_saved = self._is_saved or self._began_s >= self._saved_s
            self._renew(seen)
            return self._stand(seen, Role.LEADS if self._is_saved else None)
        self._until_s = -inf
        if self._watch.alive() or self._clock() < self._stands_back_until_s:
            return self._stand(seen)
        return self._take(seen, read)

    @property
    def _length_s(self) -> float:
        return lease_length_s(self._lease_s, self._keeper.command_s)

    @property
    def _renewal_s(self) -> float:
        """When the lease is to be written again."""
        again_s = self._tried_s + _TRIED_AGAIN_AFTER * self._length_s
        return max(self._written_s + _RENEWED_AFTER * self._length_s, again_s)

    @property
    def _margin_s(self) -> float:
        """How much longer than it lasts another daemon's lease has to be unchanged."""
        return self._keeper.command_s + _DRIFT * self._length_s

    def _read(self, read: Callable[[], Cluster]) -> Cluster:
        began_s = self._clock()
        seen = read()
        others = [lease for lease in seen.leader_leases if not self._notes.wrote(lease)]
        self._watch.see(others, began_s=began_s, ended_s=self._clock(), margin_s=self._margin_s)
        return seen

    def _own(self, seen: Cluster) -> LeaderLease | None:
        """The lease of this daemon with the highest term. None: it has none."""
        own = [lease for lease in seen.leader_leases if self._notes.wrote(lease)]
        return max(own, key=lambda lease: lease.term, default=None)

    def _has_lease(self, seen: Cluster) -> bool:
        """Whether this daemon leads on, and may renew its lease."""
        own = self._own(seen)
        if own is None or own.mark is None or self._clock() >= self._until_s:
            return False
        return not self._watch.alive() and own.term == max(lease.term for lease in seen.leader_leases)

    def _stand(self, seen: Cluster, role: Role | None = None) -> Cluster:
        """Report the role. None: this daemon follows if another one has a newer lease, or else waits."""
        if role is None:
            newer = max(self._watch.alive(), default=0) > self._notes.led
            role = Role.FOLLOWS if newer else Role.WAITS
        if role is Role.FOLLOWS:
            self._stands_back_until_s = -inf
        self._failed = False
        newest = max(seen.leader_leases, key=lambda lease: lease.term, default=None)
        term = None if newest is None else newest.term
        self.standing = Standing(role=role, term=term, lease=newest, problem=self._problem)
        return seen

    def _take(self, seen: Cluster, read: Callable[[], Cluster]) -> Cluster:
        """Make the next term. The lease is this daemon's if a later snapshot shows it and no rival. It leads
        once the cluster has saved the lease.
        """
        shown = [lease.term for lease in seen.leader_leases]
        term = 1 + max(self._notes.highest, self._watch.highest, *shown)
        lease = self._new(term)
        began_s = self._clock()
        try:
            self._keeper.create_lease(lease)
        except AdapterError as error:
            self._note_problem(error)
            return self._stand(seen)
        looks_s = self._clock()
        again = self._read(read)
        made = any((one.term, one.mark) == (term, lease.mark) for one in again.leader_leases)
        if not made or self._watch.alive() or max(one.term for one in again.leader_leases) > term:
            self._remove(term)
            return self._stand(again)
        self._keep(replace(self._notes, led=term))
        self._written_s, self._until_s = began_s, began_s + lease.lasts_s
        self._saved_s = looks_s + self._keeper.saves_s
        self._is_saved = looks_s >= self._saved_s
        self._remove_older(again, term)
        return self._stand(again, Role.LEADS if self._is_saved else None)

    def _renew(self, seen: Cluster) -> None:
        """Write the lease again, if it is time. Without an answer it lasts no longer than before."""
        began_s = self._clock()
        own = self._own(seen)
        assert own is not None
        if began_s < self._renewal_s:
            return
        self._tried_s = began_s
        lease = self._new(own.term)
        try:
            self._keeper.renew_lease(lease)
        except Gone as error:
            self._until_s = -inf
            self._note_problem(error)
        except AdapterError as error:
            self._note_problem(error)
        else:
            self._written_s, self._until_s = began_s, began_s + lease.lasts_s
            self._remove_older(seen, own.term)

    def _give_up(self, seen: Cluster) -> None:
        """Say in the lease that another daemon may take over at once. Nothing is sent from now on."""
        self._until_s = -inf
        own = self._own(seen)
        if own is not None and own.mark is not None:
            try:
                self._keeper.renew_lease(LeaderLease(term=own.term, mark=None, lasts_s=own.lasts_s))
            except Gone:
                pass
            except AdapterError as error:
                self._note_problem(error)
                return
        if self._handing_over.is_set():
            self._handing_over.clear()
            self._stands_back_until_s = self._clock() + self._length_s + self._margin_s

    def _new(self, term: int) -> LeaderLease:
        """A lease with a new mark, which is written down before it is sent."""
        mark = self._draw()
        lease = LeaderLease(term=term, mark=mark, lasts_s=float(round(self._length_s)))
        self._keep(self._notes.with_written(lease))
        return lease

    def _keep(self, notes: LeaseNotes) -> None:
        store_notes(self._journal, notes)
        self._notes = notes

    def _remove_older(self, seen: Cluster, term: int) -> None:
        """Remove the leases that have ended: this daemon's own, and those that it has seen to end."""
        for lease in seen.leader_leases:
            if lease.term < term:
                self._remove(lease.term)

    def _remove(self, term: int) -> None:
        try:
            self._keeper.remove_lease(term)
        except Gone:
            pass
        except AdapterError as error:
            self._note_problem(error)

    def _note_problem(self, error: AdapterError) -> None:
        self._problem = printable(" ".join(str(error).split()))
