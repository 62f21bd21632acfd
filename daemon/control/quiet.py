"""Cycles that can change nothing: they are reported as the one before, and nothing is derived for them again.

A cycle is quiet if no urgent job waits, none is announced, no operation is open, nothing is measured, nothing
is still to be given back, and it did nothing. Then time alone makes nothing due: a policy that acts for
urgent jobs only has none to act for. As long as the cluster shows the same, so does each cycle that follows.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from operator import is_
from typing import Final

from makeway.daemon.control.permission import Permission
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.estimate.recent_losses import DAY_S, RecentLoss
from makeway.daemon.journal.store import Journal
from makeway.policies.contract import Policy
from makeway.policies.model import Cluster, Decision

_OWN: Final = frozenset({"at_s", "snapshot_s", "snapshot_age_s", "standing", "decision_s", "decision_cpu_s"})
"""What each cycle has of its own. A quiet one that is not run decides nothing, in no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quiet:
    """The last cycle, which was quiet."""

    seen: Cluster
    losses: tuple[RecentLoss, ...]
    """What limits count of the past, which is reported."""
    report: CycleReport
    again: Callable[..., CycleReport]
    """The same report, with what is given in place of its own."""


class QuietCycles:
    """Remembers the last cycle, if it was quiet.

    Args:
        journal: what is under way.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._last: _Quiet | None = None

    def forget(self) -> None:
        """The settings are others from now on."""
        self._last = None

    def repeated(
        self, seen: Cluster, permission: Permission, snapshot_s: float, snapshot_age_s: float
    ) -> CycleReport | None:
        """The report of a cycle that can change nothing. None: the cycle has to be run.

        Args:
            seen: its snapshot.
            permission: as it is in this cycle.
            snapshot_s: how long the snapshot took.
            snapshot_age_s: how old it is.
        """
        last = self._last
        if last is None or not _shows_the_same(seen, last.seen) or not _nothing_is_known(self._journal):
            return None
        standing, report = permission.standing, last.report
        if (standing.role, standing.text) != (report.standing.role, report.standing.text):
            return None
        if permission.paused != report.paused or self._losses(seen) != last.losses:
            return None
        return last.again(
            at_s=seen.now_s, snapshot_s=snapshot_s, snapshot_age_s=snapshot_age_s, standing=standing
        )

    def noted(
        self,
        seen: Cluster,
        decision: Decision,
        report: CycleReport,
        policy: Policy[object],
        settings: LoopSettings,
    ) -> CycleReport:
        """The report of a cycle that was run; the cycle is remembered if it was quiet."""
        quiet = (
            policy.arrivals_only
            and policy.planner is None
            and not settings.restoring
            and not (decision.actions or decision.rationale or decision.again_s is not None)
            and not _has_done_anything(report)
            and _nothing_is_known(self._journal)
            and not seen.waiting_urgent_jobs()
            and not any(job.taken is not None or job.reservation_lost for job in seen.jobs)
            and not any(reservation.by_makeway for reservation in seen.reservations)
        )
        self._last = None
        if quiet:
            kept = {one.name: getattr(report, one.name) for one in fields(report) if one.name not in _OWN}
            again = partial(CycleReport, **kept)
            self._last = _Quiet(seen=seen, losses=self._losses(seen), report=report, again=again)
        return report

    def _losses(self, seen: Cluster) -> tuple[RecentLoss, ...]:
        return self._journal.recent_losses(seen.now_s - DAY_S)


def _shows_the_same(seen: Cluster, before: Cluster) -> bool:
    """Whether two snapshots differ in their instants at most. The leases of daemons have no effect here."""
    return (
        len(seen.jobs) == len(before.jobs)
        and all(map(is_, seen.jobs, before.jobs))  # adapters keep the values of unchanged jobs
        and seen.nodes == before.nodes
        and seen.reservations == before.reservations
        and seen.placements == before.placements
        and seen.actions == before.actions
        and seen.recomputes_priority == before.recomputes_priority
        and seen.reservation_prefix == before.reservation_prefix
    )


def _nothing_is_known(journal: Journal) -> bool:
    """Whether the journal has nothing that is under way."""
    return not (
        journal.open_operations()
        or journal.notices()
        or journal.leaving_runs()
        or journal.checkpoints_under_way()
    )


def _has_done_anything(report: CycleReport) -> bool:
    return bool(
        report.actions
        or report.deferred
        or report.closed
        or report.served
        or report.urgent_started
        or report.resumed
        or report.leaving
        or report.losses
        or report.checkpoints
        or report.decision_id is not None
    )
