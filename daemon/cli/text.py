"""What the commands print with: a console that does not cut tables in pipes, durations, instants."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from rich.console import Console
from rich.text import Text

from makeway.daemon.errors import printable
from makeway.daemon.estimate.actual_losses import Cost
from makeway.policies.model import Method
from makeway.policies.safety.prices import hours_text
from makeway.policies.safety.protection import Refusal

PIPE_COLUMNS = 160
"""Width of the output if it is not a terminal."""
PARTS_NAMED = 20
"""How many tasks of an array an error names."""
WAYS = {
    Method.KILL: "killed",
    Method.APPLICATION: "after its next checkpoint",
    Method.SYSTEM: "after a signal",
    Method.SHRINK: "shrunk",
}
"""How a job leaves, for tables."""
_STAYS = {
    Refusal.URGENT: "it is urgent itself",
    Refusal.NOT_PREEMPTIBLE: "it is of no class that may be asked to leave, or would not run again",
    Refusal.PROTECTED_USER: "limits.protected_users",
    Refusal.PROTECTED_ACCOUNT: "limits.protected_accounts",
    Refusal.PROTECTED_QOS: "limits.protected_qos",
    Refusal.PROTECTED_PARTITION: "limits.protected_partitions",
    Refusal.NOT_RUNNING: "it is suspended or completing, or does not run any more",
    Refusal.MIN_RUNTIME: "it has run for less than limits.min_runtime_s",
    Refusal.MIN_PROGRESS: "it was requeued, and has worked for less than limits.min_progress_s since",
    Refusal.PER_JOB: "it was evicted as often as limits.evictions_per_job allows",
}
"""Why a job may not be asked to leave, for tables: in words, with the setting that says so."""
POSIX_FROM_S = 1e9
"""Instants from here on are dates; smaller ones are seconds of a trace."""


def console() -> Console:
    """The standard output. A table in a pipe is not cut to the width of a terminal."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=PIPE_COLUMNS)


def plain(*lines: str, style: str = "") -> Text:
    """Lines for a console, with markup and control characters escaped: each stays one line."""
    return Text("\n".join(printable(line) for line in lines), style=style)


def span(seconds: float) -> str:
    """A duration as `45 s`, `12:30` (minutes) or `1:05:00` (hours)."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def protection(reason: str) -> str:
    """Why a job or the jobs of a group stay: the word of the log, and what it means."""
    name = reason.rpartition(": ")[2]  # of a group, one job is named first
    return f"{reason}: {_STAYS[Refusal(name)]}" if name in _STAYS else reason


def accepted_parts(job_id: str, names: Iterable[str]) -> str:
    """The end of an error about an array or a heterogeneous job: those of its tasks or components that are
    among these jobs. Empty: none.
    """
    found = {name for name in names if name.startswith((f"{job_id}_", f"{job_id}+"))}
    ordered = sorted(found, key=lambda name: (len(name), name))
    more = f" and {len(ordered) - PARTS_NAMED} more" if len(ordered) > PARTS_NAMED else ""
    return f"; accepted: {printable(', '.join(ordered[:PARTS_NAMED]))}{more}" if found else ""


def hours(cost: Cost) -> str:
    """A loss in node-hours, and in core-hours and GPU-hours where they are known and there are any."""
    parts = [f"{hours_text(cost.node_s)} node-hours"]
    if cost.core_s:
        parts.append(f"{hours_text(cost.core_s)} core-hours")
    if cost.gpu_s:
        parts.append(f"{hours_text(cost.gpu_s)} GPU-hours")
    return ", ".join(parts)


def instant(at_s: float) -> str:
    """A POSIX instant as a date in UTC, an instant of a trace in seconds."""
    if at_s >= POSIX_FROM_S:
        return datetime.fromtimestamp(at_s, UTC).isoformat(sep=" ", timespec="seconds")
    return f"{at_s:.0f} s"


def status_lines(values: Mapping[str, object]) -> list[str]:
    """A line for each value of a status, on which nothing of the cluster acts on the terminal."""
    names = {name: printable(name.replace("_", " ")) for name in values}
    return [f"{names[name]:<16} {printable(_in_words(value))}" for name, value in values.items()]


def _in_words(value: object) -> str:
    """A value of JSON for a reader: `yes`, `no`, `-` for nothing, the parts of a list or an object."""
    if value is None or value == [] or value == {}:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        parts = cast("Mapping[str, object]", value)
        return ", ".join(f"{name.replace('_', ' ')} {_in_words(one)}" for name, one in parts.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_in_words, cast("Sequence[object]", value)))
    return str(value)
