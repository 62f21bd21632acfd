"""What the evictions of the last day have lost, for the limits on what urgent jobs may cost.

A run counts with what its decision expected to lose until it is measured, then with what it lost.
"""

from math import inf
from typing import Final, NamedTuple

from makeway.daemon.estimate.actual_losses import LeavingRun, LossLesson, RunKey, RunLoss
from makeway.policies.model import memoise_last

DAY_S: Final = 86_400.0


class RecentLoss(NamedTuple):
    """Node-seconds of work, and who pays for them. An empty name: unknown."""

    for_job_id: str
    user: str
    account: str
    decided_s: float
    node_s: float
    missed_by: str = ""
    """The job that has left without the regular checkpoint after which it should have left. Empty: none."""


class RecentLosses:
    """The losses by run, kept in memory for every cycle."""

    def __init__(self) -> None:
        self._entries: dict[RunKey, RecentLoss] = {}
        self._measured: dict[RunKey, RecentLoss] = {}
        """What runs have lost. An old view may show such a run once more, as if it were still to leave."""
        self._found: tuple[RecentLoss, ...] = ()
        self._valid_until_s = -inf
        """`_found` is what counts up to this instant, unless an entry changes."""

    def expect(self, key: RunKey, run: LeavingRun) -> None:
        """Add a run that is to leave."""
        self._set(key, self._entry(key, run, run.expected.node_s))

    def measured(self, key: RunKey, loss: RunLoss) -> None:
        """Replace what was expected by what was lost."""
        entry = self._entry(key, loss.run, loss.lost.node_s)
        if loss.missed_checkpoint:
            entry = entry._replace(missed_by=key.job_id)
        self._measured[key] = entry
        self._set(key, entry)

    def learn(self, lesson: LossLesson) -> None:
        """Add what one cycle has observed."""
        for key, run in lesson.begun:
            self.expect(key, run)
        for key, loss in lesson.measured:
            self.measured(key, loss)
        for key in lesson.void:
            self._set(key, self._measured.get(key))

    def _entry(self, key: RunKey, run: LeavingRun, node_s: float) -> RecentLoss:
        """Who paid for the run before pays for it again: an old view may not show the urgent job."""
        before = self._measured.get(key)
        user, account = run.for_user, run.for_account
        if before is not None and not user:
            user, account = before.user, before.account
        return RecentLoss(run.for_job_id, user, account, run.decided_s, node_s)

    def _set(self, key: RunKey, entry: RecentLoss | None) -> None:
        """Replace the entry of a run. None: it has none any more."""
        self._valid_until_s = -inf
        if entry is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry

    def since(self, since_s: float) -> tuple[RecentLoss, ...]:
        """Those of the decisions since then; what is older is forgotten. The same tuple while all is the
        same.
        """
        if since_s > self._valid_until_s:
            for key in [key for key, entry in self._entries.items() if entry.decided_s < since_s]:
                del self._entries[key]
                self._measured.pop(key, None)
            self._found = tuple(entry for entry in self._entries.values() if entry.node_s)
            self._valid_until_s = min((entry.decided_s for entry in self._entries.values()), default=inf)
        return self._found


class LossTotals(NamedTuple):
    """Node-seconds of work by who pays for them. No unknown name counts."""

    by_job: dict[str, float]
    by_user: dict[str, float]
    by_account: dict[str, float]


@memoise_last
def totals(losses: tuple[RecentLoss, ...]) -> LossTotals:
    """What was lost for each urgent job, its user and its account."""
    found = LossTotals({}, {}, {})
    for entry in losses:
        for name, lost in zip((entry.for_job_id, entry.user, entry.account), found, strict=True):
            if name:
                lost[name] = lost.get(name, 0.0) + entry.node_s
    return found
