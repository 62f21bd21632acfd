"""Announcements of jobs that never come, through the daemon's own desk."""

from typing import Final

from makeway.adapters.protocol import AnnouncedJob, Entitlement
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.announcements import NoticeLimits
from makeway.daemon.operation.observation import Timeouts
from makeway.daemon.service.announcing import NoticeDesk
from makeway.daemon.service.socket_api import Announcement, BadRequest
from makeway.policies.model import Notice
from makeway.simharness.swarm.story import Trouble

NOBODY: Final = "nobody"
"""The user whose jobs never come."""
LIMITS: Final = NoticeLimits(node_hours_per_user_per_day=None, no_shows=1)


class _Everybody:
    """All users may submit urgent jobs."""

    def entitlement(self, job: AnnouncedJob) -> Entitlement:
        return Entitlement()


class NoShows:
    """The announcements that were taken of jobs that never come, and when the daemon must have noticed."""

    def __init__(self) -> None:
        self._taken: list[Notice] = []
        self._looks_s: list[float] = []

    def looked(self, now_s: float) -> None:
        """The daemon has looked at the cluster while nothing went wrong."""
        self._looks_s.append(now_s)

    def forget(self) -> None:
        """The daemon's journal is gone: it does not know what it has taken."""
        self._taken.clear()

    def taken(self, notice: Notice) -> tuple[bool, str]:
        """One more was taken. Returns whether it may be, and what is wrong otherwise."""
        missed = sum(map(self._missed, self._taken))
        self._taken.append(notice)
        text = f"an announcement of {notice.user} is taken after {missed} jobs that did not come"
        return missed < (LIMITS.no_shows or 0), text

    def _missed(self, notice: Notice) -> bool:
        """Whether the daemon must have noticed that the job did not come."""
        over_s = notice.expected_s + Timeouts().give_up_after_s
        return any(notice.expected_s <= at_s < over_s for at_s in self._looks_s) and any(
            at_s >= over_s for at_s in self._looks_s
        )


def announce_in_vain(journal: Journal, trouble: Trouble, now_s: float, number: int) -> Notice | None:
    """Announce a job that never comes. None: the announcement is not taken.

    `number`: another one each time, for the id.
    """
    desk = NoticeDesk(journal, _Everybody(), lambda: now_s, lambda: LIMITS, process=number)
    try:
        return desk.announce(
            Announcement(user=NOBODY, node_count=int(trouble.amount), walltime_s=3600.0, in_s=trouble.lasts_s)
        )
    except BadRequest:
        return None
