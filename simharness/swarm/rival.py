"""The second daemon of a story, which contends with the first for the lease."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from makeway.adapters.protocol import LeaseKeeper
from makeway.daemon.control.permission import Permission
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.daemon.leader.leadership import Leadership
from makeway.policies.contract import Policy
from makeway.policies.model import LEASE_MARKS, Operation
from makeway.simharness.swarm.troubled import TroubledAdapter

LEASE_S: Final = 600.0
FIRST, SECOND = "first", "second"
"""The daemons, as the laws call them."""


def leadership(keeper: LeaseKeeper, journal: Journal, clock: Callable[[], float], seed: str) -> Leadership:
    """The lease of a daemon of a story."""
    random = Random(seed)
    return Leadership(
        keeper, journal, LEASE_S, clock=clock, boot="swarm", draw=lambda: random.randrange(LEASE_MARKS)
    )


class Rival:
    """A daemon with a journal of its own, while it is there.

    Args:
        adapter: its way to the cluster.
        path: its journal, which it finds again when it comes back.
        policy: as the first daemon's.
        settings: as the first daemon's.
        clock: the cluster's time.
        seed: of the marks of its leases.

    Attributes:
        due_s: when it looks at the cluster again. None: when something changes there.
        lease_due_s: the same, for its lease alone.
    """

    def __init__(
        self,
        adapter: TroubledAdapter,
        path: Path,
        policy: Policy[Any],
        settings: LoopSettings,
        *,
        clock: Callable[[], float],
        seed: str,
    ) -> None:
        self.adapter = adapter
        self.due_s: float | None = clock()
        self.lease_due_s: float | None = None
        self._clock = clock
        path.parent.mkdir(exist_ok=True)
        self._journal = Journal(path)
        self._lease = leadership(adapter, self._journal, clock, seed)
        self._reconciler = Reconciler(
            adapter,
            self._journal,
            policy,
            policy.config_type(),
            settings,
            now=adapter.clock_s,
            clock=clock,
            plan_in_thread=False,
            permission=Permission(leadership=self._lease),
        )

    def operations(self) -> tuple[Operation, ...]:
        """Its open operations."""
        return self._journal.open_operations()

    def look_at(self, at_s: float) -> None:
        """Look at the cluster at that instant, or before."""
        self.due_s = at_s if self.due_s is None else min(self.due_s, at_s)

    def cycle(self) -> CycleReport:
        """Run one cycle."""
        self.due_s = None
        return self._reconciler.reconcile()

    def plan_next(self, poll_interval_s: float) -> None:
        """After the cycles of an instant: say when the next one is."""
        now_s = self._clock()
        clock_s = self.adapter.clock_s()
        wakeup_s = self._reconciler.wakeup_s(clock_s, poll_interval_s)
        if wakeup_s is not None:
            self.look_at(now_s + max(poll_interval_s / 10, wakeup_s - clock_s))
        self.lease_due_s = due_after(self._lease, now_s)

    def close(self) -> None:
        """It is killed."""
        self._journal.close()


def due_after(lease: Leadership | None, now_s: float) -> float | None:
    """When a lease is due. None: never."""
    due_in_s = None if lease is None else lease.due_in_s()
    return None if due_in_s is None else now_s + due_in_s
