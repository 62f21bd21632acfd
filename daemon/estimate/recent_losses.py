"""What the evictions of the last day have lost, for the limits on what urgent jobs may cost.

A run counts with what its decision expected to lose until it is measured, then with what it lost.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from makeway.daemon.estimate.actual_losses import LeavingRun, LossLesson, RunKey, RunLoss

DAY_S: Final = 86_400.0


class RecentLoss(NamedTuple):
    """Node-seconds of work, and who pays for them. An empty name: unknown."""

    for_job_id: str
    user: str
    account: str
    decided_s: float
    node_s: float


class RecentLosses:
    """The losses by run, kept in memory for every cycle."""

    def __init__(self) -> None:
        self._entries: dict[RunKey, RecentLoss] = {}

    def expect(self, key: RunKey, run: LeavingRun) -> None:
        """Add a run that is to leave."""
        self._entries[key] = _entry(run, run.expected.node_s)

    def measured(self, key: RunKey, loss: RunLoss) -> None:
        """Replace what was expected by what was lost."""
        self._entries[key] = _entry(loss.run, loss.lost.node_s)

    def learn(self, lesson: LossLesson) -> None:
        """Add what one cycle has observed."""
        for key, run in lesson.begun:
            self.expect(key, run)
        for key, loss in lesson.measured:
            self.measured(key, loss)
        for key in lesson.void:
            self._entries.pop(key, None)

    def since(self, since_s: float) -> tuple[RecentLoss, ...]:
        """Those of the decisions since then. What is older is forgotten."""
        for key in [key for key, entry in self._entries.items() if entry.decided_s < since_s]:
            del self._entries[key]
        return tuple(entry for entry in self._entries.values() if entry.node_s)


def totals(losses: Iterable[RecentLoss], key: Callable[[RecentLoss], str]) -> Mapping[str, float]:
    """Node-seconds by what `key` gives: the urgent job, its user or its account. No unknown name counts."""
    found: dict[str, float] = {}
    for entry in losses:
        if name := key(entry):
            found[name] = found.get(name, 0.0) + entry.node_s
    return found


def _entry(run: LeavingRun, node_s: float) -> RecentLoss:
    return RecentLoss(run.for_job_id, run.for_user, run.for_account, run.decided_s, node_s)
