"""When a job may start, and since when. Pure functions.

Reference: 22.05, 24.11 as tried. EligibleTime is the submission, or later the begin time, the end of what the
    job depends on, or its release from a hold. While it is held or depends on others, there is none. A
    priority, a comment and a reservation leave it as it is. A requeue counts as a new submission.
"""

from makeway.adapters.site.times import NOT_BEFORE_S
from makeway.adapters.slurm.parse import RawJob
from makeway.policies.model import JobKind

RESERVATION_LOST = "RESV_DEL_HOLD"
"""What 24.11 and 26.05 call a job whose reservation slurmctld has lost: one that waits is held, and one that
runs goes on. A waiting job has this state until it starts, also once it is bound again or released.
"""
LOSES_PRIORITY = (26, 5)
"""The first release that was seen to give a waiting job the priority 0 when it has lost the reservation.

24.11 leaves it its priority, and so a hold of its user.
"""


def is_held(raw: RawJob) -> bool:
    """Whether a waiting job is held. One whose reservation slurmctld has lost is not: 26.05 gives it the
    priority 0, too, but lets it start once it is bound to another reservation.
    """
    return raw.priority == 0 and raw.state != RESERVATION_LOST


def reservation_lost(raw: RawJob) -> bool:
    """Whether slurmctld keeps a waiting job from starting because it has lost its reservation. The reason
    says so: "Reservation (null) is invalid".
    """
    invalid = raw.reason.startswith("Reservation") and raw.reason.endswith("invalid")
    return invalid and raw.state == RESERVATION_LOST and not raw.nodes


def eligible_s(raw: RawJob, blocked_by: str, now_s: float) -> float | None:
    """Before when a waiting job may not start. None: there is no such limit. `blocked_by`: see `Job`."""
    if is_held(raw) or blocked_by:
        return NOT_BEFORE_S
    if raw.eligible_s is None or raw.eligible_s <= now_s:
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
