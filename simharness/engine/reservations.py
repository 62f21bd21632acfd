"""Reservations and leases of the simulated machine, when nodes come free where there are any, and what starts
apart from the queue.

Jobs that are bound to a reservation start in it. The components of a heterogeneous job start at one instant
or none. No component is in the queue: one that is bound starts in its reservation, any other one on nodes
that are free before the queue gets them.
"""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from makeway.adapters.protocol import Gone, Rejected
from makeway.policies.model import LeaderLease
from makeway.simharness.engine.job_run import TOLERANCE_S, JobRun
from makeway.simharness.engine.scheduler import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class SimHold:
    """A reservation: nodes on which only the jobs bound to it may start, until `end_s`."""

    name: str
    nodes: int
    """The set of its nodes (`nodeset`)."""
    start_s: float
    end_s: float
    changed_s: float
    """When it was made or changed last."""
    before: "SimHold | None" = None
    """What it was before the last change. None: it was not changed."""


def hold_of(before: SimHold | None, name: str, nodes: int, now_s: float, end_s: float) -> SimHold:
    """A reservation that is made or changed now. `before`: what it is until now; None: there is none."""
    return SimHold(
        name=name,
        nodes=nodes,
        start_s=now_s if before is None else before.start_s,
        end_s=end_s,
        changed_s=now_s,
        before=None if before is None else replace(before, before=None),
    )


class LeaseBook:
    """The leases of daemons, which hold no nodes. The words of the refusals are those of Slurm."""

    def __init__(self) -> None:
        self._leases: dict[int, LeaderLease] = {}
        self._made_s: dict[int, float] = {}

    def all(self) -> tuple[LeaderLease, ...]:
        """Every lease, by term."""
        return tuple(self._leases[term] for term in sorted(self._leases))

    def create(self, lease: LeaderLease, now_s: float) -> None:
        """See `LeaseKeeper.create_lease`."""
        if lease.term in self._leases:
            raise Rejected(f"lease {lease.term}: Duplicate reservation name")
        self._leases[lease.term] = lease
        self._made_s[lease.term] = now_s

    def renew(self, lease: LeaderLease) -> None:
        """See `LeaseKeeper.renew_lease`."""
        self._find(lease.term)
        self._leases[lease.term] = lease

    def remove(self, term: int) -> None:
        """See `LeaseKeeper.remove_lease`."""
        self._find(term)
        del self._leases[term]

    def forget(self, since_s: float) -> None:
        """Lose the leases that were made since then."""
        for term in [term for term in self._leases if self._made_s[term] >= since_s]:
            del self._leases[term]

    def _find(self, term: int) -> None:
        if term not in self._leases:
            raise Gone(f"lease {term}: Requested reservation is invalid")


def releases_with_holds(holds: Iterable[SimHold], running: Iterable[JobRun], free: int) -> list[Release]:
    """When each node comes free for the common queue at the latest, soonest first.

    A node comes free at its job's time limit, and not before the last reservation that has it ends. `free` is
    the set of nodes that no job holds; of these only reserved ones are listed.
    """
    releases: list[Release] = []
    parts = _disjoint(holds)
    reserved = 0
    for end_s, nodes in parts:
        reserved |= nodes
        idle = (nodes & free).bit_count()
        if idle:
            releases.append((end_s, -1, idle))
    for live in running:
        unreserved = (live.nodes & ~reserved).bit_count()
        if unreserved:
            releases.append((live.limit_s, live.index, unreserved))
        if unreserved < live.size:
            for end_s, nodes in parts:
                count = (live.nodes & nodes).bit_count()
                if count:
                    releases.append((max(live.limit_s, end_s), live.index, count))
    releases.sort()
    return releases


def _disjoint(holds: Iterable[SimHold]) -> list[tuple[float, int]]:
    """The reserved nodes in disjoint sets, each with the end of the last reservation that has them."""
    parts: list[tuple[float, int]] = []
    seen = 0
    for hold in sorted(holds, key=lambda hold: -hold.end_s):
        if nodes := hold.nodes & ~seen:
            parts.append((hold.end_s, nodes))
        seen |= hold.nodes
    return parts


class StartingView(Protocol):
    """What the start of jobs apart from the queue needs of the machine."""

    now_s: float
    reserved: int
    holds: dict[str, SimHold]
    bound: dict[int, JobRun]
    het_jobs: dict[str, list[JobRun]]

    @abstractmethod
    def serving(self, live: JobRun, among: int) -> int:
        """The nodes of `among` on which a job can start now. 0: they do not suffice."""

    @abstractmethod
    def start_on(self, live: JobRun, nodes: int) -> None:
        """Start a run on exactly these free nodes."""

    @abstractmethod
    def interfere(self) -> None:
        """Something has happened that the scheduler did not plan."""


def start_apart(machine: StartingView) -> None:
    """Start the jobs that may start in their reservations, and the heterogeneous jobs that fit as a whole."""
    if machine.holds:
        for live in machine.bound.values():
            nodes = 0 if live.job.het_job_id else _in_hold(machine, live)
            if nodes:
                machine.start_on(live, nodes)
    for components in machine.het_jobs.values():
        _start_together([live for live in components if not live.nodes], machine)


def _in_hold(machine: StartingView, live: JobRun) -> int:
    """The nodes on which a waiting job that is bound to a reservation can start now: none, unless the nodes
    and the time of the reservation suffice.
    """
    hold = machine.holds.get(live.reservation or "")
    if hold is None or live.nodes or live.eligible_s is not None:
        return 0
    in_time = machine.now_s + live.walltime_s <= hold.end_s + TOLERANCE_S
    return machine.serving(live, hold.nodes) if in_time else 0


def _start_together(waiting: list[JobRun], machine: StartingView) -> None:
    starts: list[tuple[JobRun, int]] = []
    left = ~machine.reserved
    for live in waiting:
        if live.eligible_s is not None:
            return
        nodes = machine.serving(live, left) if live.reservation is None else _in_hold(machine, live)
        if not nodes:
            return
        left &= ~nodes
        starts.append((live, nodes))
    for live, nodes in starts:
        machine.interfere()
        machine.start_on(live, nodes)
