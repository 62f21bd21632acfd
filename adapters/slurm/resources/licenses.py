"""Which licenses a waiting job could have. Pure functions.

Slurm keeps from a job what the reservations have that overlap with its run, whether or not their own jobs use
it (22.05, 24.11 and 26.05 as tried). What `scontrol show licenses` calls free includes that; what it calls
reserved is that of the reservations that have begun.

Licenses of resources.yaml belong to nodes: a job may have them on some nodes and not on others, in one of
three modes, and each layer of nodes is a line of its own (26.05). Slurm's reason does not tell such a job
that it lacks one. No room is made for it: it would be the wrong room.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from makeway.adapters.slurm.parse import RawJob, value
from makeway.adapters.slurm.parse_cluster import RawReservation, optional, records


class LicenseCount(NamedTuple):
    """One license of `scontrol show licenses`."""

    free: int
    """Not used by a job. Reservations may have some of these."""
    reserved: int
    on_nodes: bool = False
    """Whether it is one of resources.yaml. Then the numbers are those of one layer."""


def license_counts(lines: list[str], *, command: tuple[str, ...]) -> dict[str, LicenseCount]:
    """How many of each license there are, by that section."""
    return dict(records(lines, "LicenseName=", _license_count, command))


def _license_count(line: str) -> tuple[str, LicenseCount]:
    free, reserved = int(value(line, "Free")), int(optional(line, "Reserved", "0"))
    return value(line, "LicenseName"), LicenseCount(free, reserved, " Nodes=" in line)


def asked_licenses(text: str) -> Mapping[str, int]:
    """The licenses of `fluent:2,matlab`, by name; none where the job accepts one or the other.

    Users may write `fluent:2;matlab`, and `fluent=2` (24.11, 26.05), and 26.05 prints those of a reservation
    so. One that is named twice counts twice.
    """
    found: dict[str, int] = {}
    for part in re.split("[,;]", text) if text and "|" not in text else ():
        name, _, number = part.replace("=", ":").partition(":")
        found[name] = found.get(name, 0) + (int(number) if number.isascii() and number.isdigit() else 1)
    return found


@dataclass(frozen=True, slots=True)
class FreeLicenses:
    """The licenses of one snapshot."""

    counts: Mapping[str, LicenseCount] = field(default_factory=dict[str, LicenseCount])
    """By name. A name that is absent is unknown."""
    reservations: Sequence[RawReservation] = ()
    """Those of the snapshot. pyslurm does not tell what they have: then those that have begun count alone."""

    def on_nodes(self, raw: RawJob) -> str:
        """A license that a job asks for, or may have, and that belongs to nodes. Empty: there is none."""
        asked = (re.split("[:=]", part)[0] for part in re.split("[,;|]", raw.licenses))
        return next((name for name in asked if name in self.counts and self.counts[name].on_nodes), "")

    def left(self, raw: RawJob, now_s: float) -> Mapping[str, int]:
        """How many of each license that a job asks for are left to it if it starts now."""
        asked = [name for name in asked_licenses(raw.licenses) if name in self.counts]
        if not asked:
            return {}
        kept = self._kept(now_s, inf if raw.limit_s is None else now_s + raw.limit_s)
        return {name: self._left(self.counts[name], kept.get(name, 0)) for name in asked}

    def _left(self, count: LicenseCount, kept: int) -> int:
        return max(0, count.free - max(count.reserved, kept))

    def _kept(self, start_s: float, end_s: float) -> Mapping[str, int]:
        """What the reservations have that overlap with a run."""
        kept: dict[str, int] = {}
        for one in self.reservations:
            if one.start_s < end_s and one.end_s > start_s:
                for name, count in asked_licenses(one.licenses).items():
                    kept[name] = kept.get(name, 0) + count
        return kept


NO_LICENSES = FreeLicenses()
"""Nothing is known of any license."""
