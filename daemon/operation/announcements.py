"""What users announced in the last days, and which of their jobs were missed.

An announcement counts with the node-hours that it keeps from others: its nodes, from the announcement to the
end of the announced job. Each announcement counts, whether or not the job came. A job that did not come until
its announcement was given up, or that came for less than half of the announced nodes, is missed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from makeway.policies.model import Notice

DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncementRecord:
    """One announcement, as the limits count it."""

    user: str
    announced_s: float
    node_s: float
    """Node-seconds that it keeps from others."""
    missed_s: float | None = None
    """When its job was missed. None: it came, or may still come."""


def record_of(notice: Notice) -> AnnouncementRecord:
    """What a new announcement counts as."""
    until_s = max(notice.expected_s, notice.announced_s) + notice.walltime_s
    return AnnouncementRecord(
        user=notice.user,
        announced_s=notice.announced_s,
        node_s=notice.node_count * (until_s - notice.announced_s),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeLimits:
    """What one user may announce."""

    node_hours_per_user_per_day: float | None = 1000.0
    """Node-hours of the announcements of 24 hours. None: no limit."""
    no_shows: int | None = 3
    """After so many missed jobs within `no_show_window_s`, no announcement is taken. None: they are only
    counted."""
    no_show_window_s: float = 7 * DAY_S
    """How long a missed job counts."""

    def refusal(self, user: str, notice: Notice, known: Mapping[str, AnnouncementRecord]) -> str | None:
        """Why a new announcement of the user is not taken, in one line. None: it is.

        Args:
            user: the user's name, as it is shown.
            notice: the announcement.
            known: what was announced before, by the id of the announcement.
        """
        now_s = notice.announced_s
        own = [one for one in known.values() if one.user == notice.user]
        missed_s = sorted(
            one.missed_s
            for one in own
            if one.missed_s is not None and now_s - self.no_show_window_s < one.missed_s
        )
        if self.no_shows is not None and len(missed_s) >= self.no_shows:
            again_s = missed_s[-self.no_shows] + self.no_show_window_s - now_s
            return (
                f"{len(missed_s)} announced jobs of user {user} did not come: no announcement is taken for "
                f"{again_s / 3600.0:.1f} hours (notices.no_shows is {self.no_shows})"
            )
        limit = self.node_hours_per_user_per_day
        if limit is None:
            return None
        used_node_s = sum(one.node_s for one in own if now_s - DAY_S < one.announced_s)
        wanted_node_s = record_of(notice).node_s
        if used_node_s + wanted_node_s <= limit * 3600.0:
            return None
        return (
            f"the announcement keeps {_hours(wanted_node_s)} node-hours from others, and user {user} has "
            f"used {_hours(used_node_s)} of the {_hours(limit * 3600.0)} of a day "
            "(notices.node_hours_per_user_per_day)"
        )


def _hours(seconds: float) -> str:
    """Hours with at most one decimal, never as a power of ten."""
    return f"{round(seconds / 3600.0, 1):.12g}"
