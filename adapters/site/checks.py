"""What `makeway doctor` reports: checks, each a value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from makeway.adapters.site.text import printable


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"  # it works, and perhaps not as you expect
    PROBLEM = "problem"  # it does not work


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    level: Level
    text: str
    """What was found and, unless all is well, what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingNames:
    """Names of things of the cluster that settings outside the adapter's section have, by their keys."""

    accounts: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    qos: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    users: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])


NO_NAMES = SettingNames()


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorContext:
    """What an adapter's checks may know of the rest of the configuration, and of the cluster."""

    acts: bool
    """Whether the mode is act."""
    poll_interval_s: float
    margin_s: float | None
    """How much earlier than needed the policy makes a job leave. None: it has no such setting."""
    start_within_s: float | None
    """How soon a start is on time of an urgent job that does not say so itself. None: the policy has no such
    setting.
    """
    can_expand: bool
    """Whether running jobs can grow on this cluster."""
    names: SettingNames = NO_NAMES
    """Which jobs the limits and the policy treat in a way of their own."""


def ok(name: str, text: str) -> Check:
    """All is well."""
    return Check(name=name, level=Level.OK, text=text)


def warning(name: str, text: str) -> Check:
    """It works, and perhaps not as one expects."""
    return Check(name=name, level=Level.WARNING, text=text)


def problem(name: str, text: str) -> Check:
    """It does not work."""
    return Check(name=name, level=Level.PROBLEM, text=text)


def unknown_names(
    what: str, known: frozenset[str] | None, wanted: Mapping[str, frozenset[str]], check: str = "classes"
) -> list[Check]:
    """A warning if classes, or settings, ask for names that the cluster does not know.

    Args:
        what: what the names are of.
        known: those that the cluster knows. None: unknown.
        wanted: those that are asked for, by the class or the setting.
        check: the name of the check.
    """
    if known is None:
        return []
    missing = sorted(
        f"{key}: {printable(name)}{_in_lower_case(name, known)}"
        for key, names in wanted.items()
        for name in names
        if name not in known
    )
    text = f"Slurm knows no such {what} ({', '.join(missing)}): no job ever has it; correct the name"
    return [warning(check, text)] if missing else []


def _in_lower_case(name: str, known: frozenset[str]) -> str:
    """Slurm writes accounts and QOS in lower case, whatever sbatch and sacctmgr are given."""
    return f", which is {printable(name.lower())} in Slurm" if name.lower() in known else ""
