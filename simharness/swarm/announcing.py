"""Announcements of jobs that never come, through the daemon's own desk."""

from typing import Final

from makeway.adapters.protocol import AnnouncedJob, Entitlement
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.announcements import NoticeLimits
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
