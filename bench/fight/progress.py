"""What the jobs wrote down about themselves, run by run. See job.sh for the lines."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class BadProgress(Exception):
    """A job's file has a line that job.sh does not write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a job's file."""

    at_s: float
    """Seconds since 1970."""
    word: str
    work_s: float
    """The work that is done, or that a checkpoint has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunProgress:
    """One run of a job, from a start to its end or to its interruption."""

    start_s: float
    stop_s: float | None
    """When it ended, or was asked to. None: it was killed without a word."""
    finished: bool
    """Whether its work was done."""
    first: bool
    """Whether it is the job's first run."""
    gained_s: float
    """Work that this run added and that is not lost: up to its last checkpoint, or to the job's end."""
    setup_s: float
    """From its start to its first work, without a checkpoint that was asked for in between."""
    regular_s: float
    """Complete regular checkpoints."""
    requested_s: float
    """Complete requested checkpoints."""


def read_progress(path: Path) -> tuple[JobRunProgress, ...]:
    """The runs of the job with that file. Empty: it never started. Raises BadProgress."""
    if not path.exists():
        return ()
    events: list[Event] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            at_ms, word, work_ms = line.split()
            events.append(Event(at_s=int(at_ms) / 1000, word=word, work_s=int(work_ms) / 1000))
        except ValueError:
            raise BadProgress(f"{path.name}:{number}: {line!r} is no event of a job") from None
    return runs_of(events)


def runs_of(events: Iterable[Event]) -> tuple[JobRunProgress, ...]:
    """The runs that a job's events describe, in the order in which they were written."""
    groups: list[list[Event]] = []
    for event in events:
        if event.word == "start":
            groups.append([])
        if groups:
            groups[-1].append(event)
    return tuple(_run(group, first=number == 0) for number, group in enumerate(groups))


def _run(events: list[Event], *, first: bool) -> JobRunProgress:
    start, last = events[0], events[-1]
    saved_s, began, stop_s = start.work_s, start, None
    setup_s = regular_s = requested_s = 0.0
    for event in events:
        match event.word:
            case "work":
                setup_s = event.at_s - start.at_s - requested_s
            case "save" | "signalled":
                began = event
            case "saved":
                saved_s = event.work_s
                if began.word == "save":
                    regular_s += event.at_s - began.at_s
                else:
                    requested_s += event.at_s - began.at_s
            case "end":
                saved_s, stop_s = event.work_s, event.at_s
            case "term":
                stop_s = event.at_s if stop_s is None else stop_s
            case _:
                pass
    return JobRunProgress(
        start_s=start.at_s,
        stop_s=stop_s,
        finished=last.word == "end",
        first=first,
        gained_s=saved_s - start.work_s,
        setup_s=setup_s,
        regular_s=regular_s,
        requested_s=requested_s,
    )
