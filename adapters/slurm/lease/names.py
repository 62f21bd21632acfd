"""How a lease is a reservation: its name, its times, and the commands that write it. Pure functions.

The reservation lies far in the future, so it keeps no job from any node. Its name has the term, its start is
the mark, and its length is how long the lease lasts. A start before all marks says that it was given up.
"""

import re
from collections.abc import Iterable
from typing import Final

from makeway.adapters.slurm.parse_cluster import RawReservation
from makeway.policies.model import LEASE_MARKS, LeaderLease

FIRST_START_S: Final = 3_471_292_800
"""2080-01-01, the start of a lease with mark 0; the last is in December 2087."""
GIVEN_UP_S: Final = FIRST_START_S - 86_400
"""The start of a lease that was given up."""


def lease_prefix(hold_prefix: str) -> str:
    """What the names of an instance's leases begin with. No hold has such a name."""
    return "makeway-lease_" + hold_prefix.removeprefix("makeway_")


def leases_among(reservations: Iterable[RawReservation], hold_prefix: str) -> dict[str, LeaderLease]:
    """The leases of that instance, by the name of their reservation.

    A reservation that was moved out of the far future keeps jobs from its node, and is no lease any more.
    """
    pattern = re.compile(re.escape(lease_prefix(hold_prefix)) + r"([1-9]\d{0,15})", re.ASCII)
    return {
        raw.name: LeaderLease(
            term=int(found.group(1)),
            mark=None if raw.start_s < FIRST_START_S else int(raw.start_s) - FIRST_START_S,
            lasts_s=raw.end_s - raw.start_s,
        )
        for raw in reservations
        if (found := pattern.fullmatch(raw.name)) is not None and raw.start_s >= GIVEN_UP_S
    }


def create_lease(lease: LeaderLease, hold_prefix: str, *, node: str, user_id: int) -> tuple[str, ...]:
    """Make the reservation of a lease; Slurm refuses a second one of that name, and one without a node or a
    user. Which user it is means nothing.
    """
    what = (f"Nodes={node}", f"Users={user_id}", *_times(lease), "Flags=IGNORE_JOBS,OVERLAP")
    return ("scontrol", "create", "reservation", f"ReservationName={_name(lease.term, hold_prefix)}", *what)


def renew_lease(lease: LeaderLease, hold_prefix: str) -> tuple[str, ...]:
    """Give the reservation of that term another mark and length."""
    return ("scontrol", "update", f"ReservationName={_name(lease.term, hold_prefix)}", *_times(lease))


def remove_lease(term: int, hold_prefix: str) -> tuple[str, ...]:
    """Delete the reservation of that term."""
    return ("scontrol", "delete", f"ReservationName={_name(term, hold_prefix)}")


def _name(term: int, hold_prefix: str) -> str:
    return f"{lease_prefix(hold_prefix)}{term}"


def _times(lease: LeaderLease) -> tuple[str, str]:
    """The start and the end, in seconds since 1970: they do not depend on a time zone."""
    start_s = GIVEN_UP_S if lease.mark is None else FIRST_START_S + lease.mark % LEASE_MARKS
    return f"StartTime=uts{start_s}", f"EndTime=uts{start_s + round(lease.lasts_s)}"
