"""What `makeway doctor` reports: checks, each a value."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    what: str, known: frozenset[str] | None, wanted: Mapping[str, frozenset[str]]
) -> list[Check]:
    """A warning if classes ask for names that the cluster does not know. `known` None: unknown."""
    missing = sorted(
        f"{class_name}: {printable(name)}"
        for class_name, names in wanted.items()
        for name in names
        if known is not None and name not in known
    )
    text = f"Slurm knows no such {what} ({', '.join(missing)}): no job ever has it; correct the name"
    return [warning("classes", text)] if missing else []
