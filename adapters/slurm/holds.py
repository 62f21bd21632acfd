"""Which of Slurm's reservations are makeway's holds: by name, flags and shape. Pure functions.

A name alone proves nothing. Slurm calls a reservation without a name after its user, `mw_1` for a user `mw`,
and an administrator may choose any name. `build.create_reservation` makes every hold alike, and no other
program makes a reservation like it: see decision 22.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from makeway.adapters.site.text import printable
from makeway.adapters.slurm.build import PURGE_MIN
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawReservation
from makeway.policies.model import LastHold

OLD_PREFIX = "mw_"
"""How the names of holds began before they had an instance."""

_JOB = r"\d+(?:[_+]\d+)?"
_NOTICE = r"notice-[A-Za-z0-9-]+"
_FOR = re.compile(rf"{_JOB}|{_NOTICE}", re.ASCII)
_OLD_NOTICE = re.compile(r"notice-\d+-\d+-\d+", re.ASCII)
_PURGE = f"PURGE_COMP=00:{PURGE_MIN:02}:00"
_NEEDED = frozenset({"IGNORE_JOBS", "NO_HOLD_JOBS_AFTER_END"})
_ALLOWED = _NEEDED | {"SPEC_NODES", "OVERLAP", _PURGE}
_HOLD_MARK = "makeway:hold="
FLEX = "FLEX"
"""The flag of a reservation whose jobs may start before it begins, and run on after it has ended."""
_REPLACED = "REPLACE"
"""The flag of a reservation to which Slurm gives other nodes when its own are in use."""
ENDS_SLURMCTLD = (26, 5)
"""The first release whose slurmctld was seen to end (`fatal: list_iterator_create`) when it looks at a job
that waits bound to such a reservation and another: 26.05.5, also without makeway. 22.05 and 24.11 do not,
and REPLACE_DOWN does no harm.
"""
_NO_END_S = 364 * 86_400.0
"""A reservation without an end lasts a year."""


def hold_prefix(cluster_name: str, instance: str | None) -> str:
    """What the names of an instance's holds begin with. Without a name, it is the cluster's own instance."""
    own = re.sub(r"[^A-Za-z0-9-]", "-", cluster_name)[:32] or "cluster"
    return f"makeway_{own if instance is None else instance}."


def made_as_hold(raw: RawReservation) -> bool:
    """Whether it has the flags and the shape that makeway gives to every hold."""
    return (
        raw.flags >= _NEEDED
        and raw.flags <= _ALLOWED
        and bool(raw.nodes)
        and bool(raw.users)
        and not raw.limited_by
        and raw.end_s - raw.start_s < _NO_END_S
    )


def named_as_hold(name: str, prefix: str) -> bool:
    """Whether it is the name of a hold for a job or an announcement, as this or an earlier version has it."""
    wanted = name.removeprefix(prefix)
    if wanted != name:
        return _FOR.fullmatch(wanted) is not None
    old = name.removeprefix(OLD_PREFIX)
    return old != name and _FOR.fullmatch(old) is not None


def is_hold(raw: RawReservation, prefix: str) -> bool:
    """Whether a reservation, read by itself, may be changed or deleted as a hold of that instance."""
    return named_as_hold(raw.name, prefix) and made_as_hold(raw)


def holds_among(
    reservations: Iterable[RawReservation], jobs: Iterable[RawJob], prefix: str
) -> Mapping[str, bool]:
    """Whether each reservation of a snapshot is a hold of that instance, by name.

    A hold with an old name has no instance, and its name is short: it has to be bound to the very job that
    it is named after, and Slurm removes it when the job is over, or it has the name of an announcement.
    """
    bound = {(name, job.job_id) for job in jobs for name in job.reservations}

    def is_held(raw: RawReservation) -> bool:
        old = raw.name.removeprefix(OLD_PREFIX)
        if old == raw.name or _OLD_NOTICE.fullmatch(old):
            return is_hold(raw, prefix)
        return is_hold(raw, prefix) and _PURGE in raw.flags and (raw.name, old) in bound

    return {raw.name: is_held(raw) for raw in reservations}


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldNames:
    """Which of the names of reservations that jobs are bound to are holds."""

    prefix: str
    seen: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """`holds_among` of the last snapshot. What is not there is told by its prefix."""
    licensed: frozenset[str] = frozenset()
    """The reservations that keep licences. A job that is bound to a hold instead cannot get them."""
    ends_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """By name, when the reservations end whose jobs end with them: all but those that are FLEX."""
    replaced: frozenset[str] = frozenset()
    """The reservations whose jobs no hold may have: see `ENDS_SLURMCTLD`."""

    def has(self, name: str) -> bool:
        """Whether that is a hold of this instance."""
        return self.seen.get(name, name.startswith(self.prefix))

    def counting(self, job: RawJob) -> str | None:
        """The reservation of a job that counts: the hold, if it is bound to one. None: it is bound to
        none.
        """
        return next(filter(self.has, job.reservations), ",".join(job.reservations) or None)

    def own(self, job: RawJob, hold: str) -> tuple[str, ...]:
        """The reservations that the user of a job asked for, which is or will be bound to `hold`."""
        return tuple(name for name in job.reservations if name != hold and not self.has(name))

    def outlasting(self, job: RawJob, own: tuple[str, ...]) -> tuple[str, ...]:
        """Those of a job's own reservations that may be left to it: if it runs, none that ends before its
        time limit, with which Slurm would end it. It has started elsewhere then.
        """
        if not job.nodes or job.start_s is None:
            return own
        until_s = inf if job.limit_s is None else job.start_s + job.limit_s
        return tuple(name for name in own if self.ends_s.get(name, inf) >= until_s)

    def kept_from(self, job: RawJob) -> str:
        """What a job lacks for which no hold may be made, because of its reservations. Empty: one may."""
        own = frozenset(self.own(job, ""))
        if job.licenses and (names := self.licensed & own):
            return f"licences of its reservation {printable(min(names))}, which no hold has"
        if names := self.replaced & own:
            return (
                f"another reservation than {printable(min(names))}: this Slurm binds no job to it and a hold"
            )
        return ""


def hold_names(
    reservations: Sequence[RawReservation], jobs: Iterable[RawJob], prefix: str, release: tuple[int, int]
) -> HoldNames:
    """What the names of the reservations in a snapshot say. `release`: that of the Slurm."""
    replaced = (one.name for one in reservations if _REPLACED in one.flags)
    return HoldNames(
        prefix=prefix,
        seen=holds_among(reservations, jobs, prefix),
        ends_s={one.name: one.end_s for one in reservations if FLEX not in one.flags},
        licensed=frozenset(one.name for one in reservations if "Licenses" in one.limited_by),
        replaced=frozenset(replaced) if release >= ENDS_SLURMCTLD else frozenset(),
    )


def with_hold_word(text: str, prefix: str, hold: str | None, now_s: float) -> str:
    """An AdminComment with the word that says which hold of an instance its job is bound to. None: without a
    word. The rest of it stays as it is.
    """
    rest = _hold_words(prefix).sub("", text)
    return " ".join(filter(None, (rest, hold and f"{_HOLD_MARK}{hold},since={int(now_s)}")))


def last_hold(job: RawJob, prefix: str) -> LastHold | None:
    """The hold that the word in the AdminComment says, the last if there are several. None: there is none."""
    found = list(_hold_words(prefix).finditer(job.admin_comment)) if _HOLD_MARK in job.admin_comment else []
    return LastHold(reservation=found[-1]["name"], since_s=float(found[-1]["since"])) if found else None


def _hold_words(prefix: str) -> re.Pattern[str]:
    """The words of an instance in a field, each with the blank before it."""
    name = rf"(?P<name>{re.escape(prefix)}(?:{_JOB}|{_NOTICE}))"
    return re.compile(rf" ?(?<!\S){_HOLD_MARK}{name},since=(?P<since>\d{{1,12}})(?!\S)", re.ASCII)
