"""Which announcements are taken: those of users who could submit the urgent job, within what one user may
announce.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from makeway.adapters.protocol import AdapterError, AnnouncedJob, EntitlementReader
from makeway.daemon.errors import printable
from makeway.daemon.journal.store import Journal
from makeway.daemon.operation.announcements import NoticeLimits
from makeway.daemon.service.socket_api import Announcement, BadRequest
from makeway.policies.model import Notice

NOTICE_LIMIT = 1000
NOTICE_LIMIT_PER_USER = 100


@dataclass(slots=True)
class NoticeDesk:
    """Takes announcements. May be called from any thread.

    Args:
        journal: where they are kept.
        entitlements: who could submit urgent jobs. None: the adapter cannot say, and none is taken.
        now: the time, in the seconds of the snapshots.
        limits: the present limits on what one user may announce.
    """

    journal: Journal
    entitlements: EntitlementReader | None
    now: Callable[[], float]
    limits: Callable[[], NoticeLimits]
    process: int = field(default_factory=os.getpid)
    """A part of the ids, which another process or desk does not have."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _count: int = 0

    def announce(self, announcement: Announcement) -> Notice:
        """Write an announcement to the journal.

        Raises:
            BadRequest: it is not taken; the message says why.
        """
        with self._lock:
            self._refuse(self._notice(announcement, account=""))
        account = self._account(announcement)
        with self._lock:
            self._count += 1
            notice = self._notice(announcement, account=account)
            self._refuse(notice)  # others may have been taken meanwhile
            self.journal.add_notice(notice)
        return notice

    def _notice(self, announcement: Announcement, *, account: str) -> Notice:
        now_s = self.now()
        return Notice(
            notice_id=f"notice-{now_s:.0f}-{self.process}-{self._count}",
            user=announcement.user,
            node_count=announcement.node_count,
            walltime_s=announcement.walltime_s,
            announced_s=now_s,
            expected_s=now_s + announcement.in_s,
            demand=announcement.demand,
            account=account,
        )

    def _refuse(self, notice: Notice) -> None:
        """Raise `BadRequest` if there are too many announcements, of this user or in all."""
        kept = [one for one in self.journal.notices() if one.job_id is None]
        of_user = sum(1 for one in kept if one.user == notice.user)
        if len(kept) >= NOTICE_LIMIT or of_user >= NOTICE_LIMIT_PER_USER:
            raise BadRequest("too many announcements are kept already")
        refusal = self.limits().refusal(printable(notice.user), notice, self.journal.announcements())
        if refusal is not None:
            raise BadRequest(refusal)

    def _account(self, announcement: Announcement) -> str:
        """The account that the job can be charged to. Raises `BadRequest` if its user could not submit it."""
        if self.entitlements is None:
            raise BadRequest("this cluster does not say who may submit urgent jobs: none can be announced")
        try:
            found = self.entitlements.entitlement(
                AnnouncedJob(
                    user=announcement.user,
                    node_count=announcement.node_count,
                    walltime_s=announcement.walltime_s,
                    demand=announcement.demand,
                )
            )
        except AdapterError as error:
            words = printable(" ".join(str(error).split()))
            raise BadRequest(
                f"who may submit urgent jobs cannot be found out now, try again: {words}"
            ) from error
        if found.refusal is not None:
            raise BadRequest(found.refusal)
        return found.account
