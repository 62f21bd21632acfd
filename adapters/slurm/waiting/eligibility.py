"""When a job may start, since when and until when. Pure functions.

Reference: 22.05, 24.11 as tried. EligibleTime is the submission, or later the begin time, the end of what the
    job depends on, or its release from a hold. While it is held or depends on others, there is none. A
    priority, a comment and makeway's hold leave it as it is. A requeue counts as a new submission. A job that
    asks for reservations of the site has none until the first of them begins; then it is that instant.
    Slurm ends a waiting job (DEADLINE) that could not be over by its `--deadline`, by its `--time-min` if it
    has one (22.05).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from makeway.adapters.site.times import NOT_BEFORE_S
from makeway.adapters.slurm.holds import FLEX, HoldNames
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawReservation
from makeway.policies.model import JobKind

RESERVATION_LOST = "RESV_DEL_HOLD"
"""What 24.11 and 26.05 call a job whose reservation slurmctld has lost: one that waits is held, and one that
runs goes on. A waiting job has this state until it starts, also once it is bound again or released.

22.05, 24.11 and 26.05 call a waiting job so whose reservation has ended (unless it had the flag
NO_HOLD_JOBS_AFTER_END). That one starts nowhere before it is released, also not in another reservation.
"""
_ENDED = "deleted"
"""How the reason of a job ends whose reservation has ended: "Reservation mine was deleted"."""
LETS_GO = "NO_HOLD_JOBS_AFTER_END"
"""The flag of a reservation whose jobs may start elsewhere once it has ended."""
ENDLESS_S = 364 * 86_400.0
"""A reservation without an end lasts a year. Jobs without a time limit run in it."""
RETURNS_WITHIN_S = 86_400.0
"""How long a job may have to wait after its requeue, in seconds: urgent jobs run for a day at most, as a
rule.
"""
LOSES_PRIORITY = (26, 5)
"""The first release that was seen to give a waiting job the priority 0 when it has lost the reservation.

24.11 leaves it its priority, and so a hold of its user.
"""


def is_held(raw: RawJob) -> bool:
    """Whether a waiting job is held. One whose reservation slurmctld has lost is not: 26.05 gives it the
    priority 0, too, but lets it start once it is bound to another reservation. One whose reservation has
    ended is.
    """
    return raw.priority == 0 and (raw.state != RESERVATION_LOST or raw.reason.endswith(_ENDED))


def reservation_lost(raw: RawJob) -> bool:
    """Whether slurmctld keeps a waiting job from starting because it has lost its reservation. The reason
    says so: "Reservation (null) is invalid".
    """
    invalid = raw.reason.startswith("Reservation") and raw.reason.endswith("invalid")
    return invalid and raw.state == RESERVATION_LOST and not raw.nodes


def eligible_s(raw: RawJob, blocked_by: str, now_s: float) -> float | None:
    """Before when a waiting job may not start. None: there is no such limit. `blocked_by`: see `Job`.

    A job that was eligible when it was submitted is so now, also where the controller's clock is ahead of
    `now_s`: makeway follows a system clock that was set forward slowly.
    """
    if is_held(raw) or blocked_by:
        return NOT_BEFORE_S
    if raw.eligible_s is None or raw.eligible_s <= max(now_s, raw.submit_s):
        return None
    return raw.eligible_s


def eligible_since_s(raw: RawJob, kind: JobKind, blocked_by: str, now_s: float) -> float | None:
    """When an urgent job became eligible: see `Job.eligible_since_s`. `kind`: of the job.

    Slurm says it a little after the job is free: until then it is now.
    """
    if kind is not JobKind.ON_DEMAND:
        return None
    if raw.eligible_s is None:
        return None if is_held(raw) or blocked_by or raw.nodes else now_s
    return raw.eligible_s if raw.eligible_s > raw.submit_s else None


def start_by_s(raw: RawJob, kind: JobKind, least_limit_s: float | None) -> float | None:
    """Until when a waiting urgent job may start: see `Job.start_by_s`. `kind`: of the job; `least_limit_s`:
    see `JobDetails`.
    """
    if kind is not JobKind.ON_DEMAND or raw.deadline_s is None or raw.nodes:
        return None
    limit_s = raw.limit_s if least_limit_s is None else least_limit_s
    return raw.deadline_s - (limit_s or 0.0)


def with_reserved_times(
    jobs: Iterable[RawJob], reservations: Iterable[RawReservation], holds: HoldNames, now_s: float
) -> list[RawJob]:
    """The jobs, by when the reservations of the site begin and end.

    Those that wait for reservations are eligible from the first start of these on, also one to which Slurm
    gave an EligibleTime before its user bound it to them. Those that run in reservations that may end before
    they could run again count as not to be requeued: Slurm would hold them until somebody releases them.
    """
    known = {one.name: one for one in reservations}
    return [_with_reserved_times(job, known, holds, now_s) if job.reservations else job for job in jobs]


def _with_reserved_times(
    raw: RawJob, known: Mapping[str, RawReservation], holds: HoldNames, now_s: float
) -> RawJob:
    own = [known.get(name) for name in holds.own(raw, "")]
    found = [one for one in own if one is not None]
    if raw.nodes:
        returns = not found or any(_admits_again(one, raw, now_s) for one in found)
        return raw if returns else replace(raw, requeueable=False)
    later = [one.start_s for one in found if one.start_s > now_s and FLEX not in one.flags]
    if not own or len(later) < len(own):
        return raw
    return replace(raw, eligible_s=max(raw.eligible_s or 0.0, min(later)))


def _admits_again(reservation: RawReservation, raw: RawJob, now_s: float) -> bool:
    """Whether a job of a reservation that is requeued now surely runs again: there, or after its end."""
    if LETS_GO in reservation.flags:
        return True
    endless = reservation.end_s - reservation.start_s >= ENDLESS_S
    limit_s = 0.0 if raw.limit_s is None and endless else raw.limit_s
    return limit_s is not None and now_s + RETURNS_WITHIN_S + limit_s <= reservation.end_s
