"""The laws by name, and what a law that was broken says."""

from dataclasses import dataclass
from enum import StrEnum


class Law(StrEnum):
    """What must hold."""

    UNTOUCHABLE = "untouchable"  # only jobs that are open to preemption lose anything
    HOLD_FIRST = "hold_first"  # nothing is taken for a job before its nodes were seen to be held
    IN_VAIN = "in_vain"  # nothing is taken for a job that was seen not to be able to start
    NOT_URGENT = "not_urgent"  # nothing is taken for a job that was seen not to be urgent any more
    NEEDLESS = "needless"  # no job leaves without which the urgent job gets nodes enough, as it was seen
    STALE_VIEW = "stale_view"  # nothing is taken on a view older than the limit
    OTHER_RUN = "other_run"  # the run that is hit is the run that was meant
    SECOND_SIGNAL = "second_signal"  # a run is signalled again only after it has saved, or after its grace
    UNSIGNALLED = "unsignalled"  # a job that may save its work first is asked to before it has to leave
    TOO_MANY = "too_many"  # the commands of one cycle are bounded
    INSISTS = "insists"  # a hold that is refused again and again is asked for with pauses
    DEFECT = "defect"  # no cycle ends by an exception
    STUCK = "stuck"  # every job that was not cancelled ends
    LEFT_BEHIND = "left_behind"  # what no operation needs goes back, and at the end nothing is under way
    AS_DECIDED = "as_decided"  # an eviction loses what was decided, if nothing has gone wrong since
    FOREIGN = "foreign"  # makeway ends no reservation of others
    CAPS = "caps"  # the urgent jobs of a user cost others no more than the limit allows
    NO_SHOW = "no_show"  # who announces jobs that do not come announces no more
    ONE_LEADER = "one_leader"  # of two daemons none acts without a lease, or while that of the other lasts
    RESTORED = "restored"  # sizes, limits and turns are given back, also after the loss of the journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A law that was broken."""

    law: Law
    at_s: float
    text: str
