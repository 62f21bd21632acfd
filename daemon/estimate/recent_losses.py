"""What the evictions of the last day have lost, for the limits on what urgent jobs may cost.

A run counts with what its decision expected to lose until it is measured, then with what it lost.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from makeway.daemon.estimate.actual_losses import LeavingRun, LossLesson, RunKey, RunLoss

DAY_S: Final = 86_400.0


class _Entry(NamedTuple):
    for_job_id: str
    decided_s: float
    node_s: float


class RecentLosses:
    """The losses by run, kept in memory for every cycle."""

    def __init__(self) -> None:
        self._entries: dict[RunKey, _Entry] = {}

    def expect(self, key: RunKey, run: LeavingRun) -> None:
        """Add a run that is to leave."""
        self._entries[key] = _Entry(run.for_job_id, run.decided_s, run.expected.node_s)

    def measured(self, key: RunKey, loss: RunLoss) -> None:
        """Replace what was expected by what was lost."""
        self._entries[key] = _Entry(loss.run.for_job_id, loss.run.decided_s, loss.lost.node_s)

    def learn(self, lesson: LossLesson) -> None:
        """Add what one cycle has observed."""
        for key, run in lesson.begun:
            self.expect(key, run)
        for key, loss in lesson.measured:
            self.measured(key, loss)
        for key in lesson.void:
            self._entries.pop(key, None)

    def by_urgent_job(self, since_s: float) -> Mapping[str, float]:
        """Node-seconds of the decisions since then, by urgent job. What is older is forgotten."""
        for key in [key for key, entry in self._entries.items() if entry.decided_s < since_s]:
            del self._entries[key]
        found: dict[str, float] = {}
        for entry in self._entries.values():
            if entry.node_s:
                found[entry.for_job_id] = found.get(entry.for_job_id, 0.0) + entry.node_s
        return found
