"""Whether this daemon acts, as it is reported."""

from dataclasses import dataclass
from enum import StrEnum

from makeway.policies.model import LeaderLease


class Role(StrEnum):
    """What this daemon is among those of its instance. The value is also the metric label."""

    ALONE = "alone"  # no leases are kept: it is taken for the only one, and acts
    LEADS = "leads"  # it has the lease, and acts
    FOLLOWS = "follows"  # another daemon has the lease: it decides, and only writes that down
    WAITS = "waits"  # no daemon is known to lead, and it does not lead yet: it begins nothing
    IDLE = "idle"  # observe mode: it has nothing to give back, and needs no lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The role of this daemon in one cycle."""

    role: Role = Role.ALONE
    term: int | None = None
    """The highest term of a lease that was seen. None: none was."""
    lease: LeaderLease | None = None
    """The lease of that term as it was seen: one that was renewed since has another mark. None: none was."""
    problem: str | None = None
    """Why the lease could not be written the last time. None: it could."""

    @property
    def begins(self) -> bool:
        """Whether what is decided now may be begun, or recorded, as the mode has it."""
        return self.role is not Role.WAITS

    @property
    def cleans_up(self) -> bool:
        """Whether what nothing needs any more is taken away, or that is recorded, as the mode has it."""
        return self.role not in (Role.FOLLOWS, Role.WAITS)

    @property
    def lease_text(self) -> str | None:
        """The newest lease, for the status. None: there is none."""
        if self.lease is None:
            return None
        mark = "given up" if self.lease.mark is None else f"mark {self.lease.mark}"
        return f"{mark}, lasts {self.lease.lasts_s:.0f} s"

    @property
    def text(self) -> str:
        """Why this daemon does not act, for the log. Empty: it acts, or does not want to."""
        why = "" if self.problem is None else f" ({self.problem})"
        match self.role:
            case Role.FOLLOWS:
                return f"another daemon leads{why}"
            case Role.WAITS:
                return f"waits for the lease{why}"
            case Role.ALONE | Role.LEADS | Role.IDLE:
                return "" if self.problem is None else f"the lease was not written: {self.problem}"


ALONE = Standing()
"""The standing of a daemon where no leases are kept."""
