"""Daemons that contend for a lease on a clock that the test turns."""

from dataclasses import replace
from itertools import count
from pathlib import Path

from makeway.adapters.protocol import AdapterError
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.leadership import Leadership
from makeway.daemon.leader.standing import Role
from makeway.policies.model import Cluster, LeaderLease
from makeway.simharness.engine.reservations import LeaseBook

LEASE_S = 60.0
COMMAND_S = 5.0


class World:
    """The leases that a cluster keeps, and its time."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.book = LeaseBook()
        self._marks = count(1)

    def view(self) -> Cluster:
        return Cluster(now_s=self.now_s, nodes=(), jobs=(), leader_leases=self.book.all())

    def with_leases(self, view: Cluster) -> Cluster:
        return replace(view, leader_leases=self.book.all())

    def terms(self) -> list[int]:
        return [lease.term for lease in self.book.all()]

    def mark(self) -> int:
        return next(self._marks)


class Daemon:
    """One daemon. It keeps leases in the world, with the errors that a test wants."""

    def __init__(self, world: World, path: Path | None = None, boot: str = "boot") -> None:
        self.world = world
        self.command_s = COMMAND_S
        self.saves_s = 0.0
        self.errors: dict[str, AdapterError] = {}
        self.calls: list[str] = []
        self.journal = Journal(path)
        self.lease = Leadership(
            self, self.journal, LEASE_S, clock=lambda: world.now_s, boot=boot, draw=world.mark
        )

    def look(self, *, wanted: bool = True) -> Role:
        self.lease.look(self.world.view, wanted)
        return self.lease.standing.role

    @property
    def acts(self) -> bool:
        return self.lease.may_act()

    def create_lease(self, lease: LeaderLease) -> None:
        self._call("create")
        self.world.book.create(lease, self.world.now_s)

    def renew_lease(self, lease: LeaderLease) -> None:
        self._call("renew")
        self.world.book.renew(lease)

    def remove_lease(self, term: int) -> None:
        self._call("remove")
        self.world.book.remove(term)

    def _call(self, verb: str) -> None:
        self.calls.append(verb)
        if verb in self.errors:
            raise self.errors[verb]
