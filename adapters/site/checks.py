"""What `makeway doctor` reports: checks, each a value."""

from dataclasses import dataclass
from enum import StrEnum


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
