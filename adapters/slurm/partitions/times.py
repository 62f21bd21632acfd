"""The times of a partition that override those of the cluster. Pure functions of scontrol's words.

Reference: slurm.conf(5) of 22.05; 22.05 and 24.11 as tried. `OverTimeLimit=NONE`, `ResumeTimeout=GLOBAL` and
    no such word at all (22.05) mean that the cluster's counts; `OverTimeLimit=0` is a limit of its own.
"""

from dataclasses import dataclass

from makeway.adapters.site.times import UNLIMITED_S

MINUTE_S = 60.0
_ENDLESS = frozenset({"UNLIMITED", "INFINITE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTimes:
    """The times of one partition, in seconds. None: that of the cluster counts."""

    overtime_s: float | None = None
    """How long its jobs may run on after their time limits (OverTimeLimit)."""
    resume_s: float | None = None
    """How long its nodes take at most to wake (ResumeTimeout)."""
    suspend_s: float | None = None
    """How long they take at most to fall asleep (SuspendTimeout)."""


NO_TIMES = PartitionTimes()


def partition_times(overtime: str, resume: str = "", suspend: str = "") -> PartitionTimes:
    """The times by scontrol's words, the first in minutes. Words that are no number mean the cluster's."""
    return PartitionTimes(
        overtime_s=_seconds(overtime, MINUTE_S),
        resume_s=_seconds(resume, 1.0),
        suspend_s=_seconds(suspend, 1.0),
    )


def cluster_overtime_s(text: str) -> float:
    """The seconds of the cluster's OverTimeLimit, such as `5 min` or UNLIMITED; 0 of anything else."""
    minutes, unit, _ = text.partition(" min")
    if text.startswith("UNLIMITED"):
        return UNLIMITED_S
    return MINUTE_S * int(minutes) if unit and minutes.isdecimal() else 0.0


def _seconds(text: str, unit_s: float) -> float | None:
    if text in _ENDLESS:
        return UNLIMITED_S
    return unit_s * int(text) if text.isascii() and text.isdigit() else None
