"""The export of `sacct`: the command that writes it, and its rows."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Final, TypeVar

from makeway.adapters.site.comment import comment_words
from makeway.adapters.site.text import printable
from makeway.adapters.slurm.parse import memory_mb
from makeway.policies.model import CPU, MEMORY

ValueT = TypeVar("ValueT")
NEEDED: Final = (
    *("JobID", "JobIDRaw", "User", "Account", "Partition", "QOS", "State", "Submit", "Eligible", "Start"),
    *("End", "ElapsedRaw", "TimelimitRaw", "NNodes", "AllocTRES"),
)
CLUSTER: Final = "Cluster"
"""An export may lack it."""
CONSTRAINTS: Final = "Constraints"
"""Only classes with features need it."""
COMMENT: Final = "Comment"
"""Only classes with words need it. It has to be the last column, because users may write anything there."""
DELIMITER: Final = ";"
"""Slurm's own, `|`, may be part of Constraints."""
_NEVER = frozenset({"", "None", "Unknown", "N/A"})
_NO_LIMIT = frozenset({"", "UNLIMITED", "Partition_Limit", "INFINITE", "NOT_SET"})
_UNITS: Mapping[str, int] = MappingProxyType({"": 1, "K": 1024, "M": 1024**2, "G": 1024**3})
_STEP = re.compile(r"[\d_+]+\.")
"""How the JobID of a step begins. `27_[0,1,4,...]` are waiting tasks: sacct does not name all of many."""
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMG]?)", re.ASCII)
_DIGITS = 12
"""A number with more digits is damage: as seconds it is 30,000 years."""
_SHOWN = 60


class BadExport(ValueError):
    """A text that is not such an export. The message begins with the number of the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingRow:
    """One run of one job, or a job that never started."""

    line: int
    """Of the file; 1 is the header."""
    job_id: str
    """As users know it: `123`, for a task of an array `123_4`, for a part of a heterogeneous job `123+0`."""
    raw_id: str
    """The number that each task and each part has of its own."""
    user: str
    account: str
    partition: str
    qos: str
    state: str
    """Slurm's word, without what may follow it: CANCELLED for `CANCELLED by 0`."""
    submit_s: float
    eligible_s: float | None
    """From when on it could start. None: not yet."""
    start_s: float | None
    """None: it never started."""
    end_s: float | None
    """None: it runs or waits still."""
    elapsed_s: float
    """How long it ran, without the time for which it was suspended."""
    limit_s: float | None
    """None: it has no limit of its own."""
    node_count: int
    tres: tuple[tuple[str, int], ...]
    """What it held of all its nodes together, by name; memory is in megabytes. Empty: it never started."""
    cluster: str = ""
    """Empty: the export does not say."""
    features: str = ""
    words: frozenset[str] = frozenset()
    """The `makeway:` words of its comment."""

    @property
    def ran(self) -> bool:
        """Whether it is a run. A job that is cancelled while it waits may have that time as its start."""
        return self.start_s is not None and (self.elapsed_s > 0 or bool(self.tres))


def export_command(first: str, end: str, *, features: bool = False, words: bool = False) -> str:
    """The command, for a shell, that prints the jobs of a period.

    Args:
        first, end: the period, as sacct takes it: 2026-10-01.
        features: also what the jobs ask of nodes.
        words: also the comments of the jobs.
    """
    columns = [*NEEDED, CLUSTER, *((CONSTRAINTS,) if features else ()), *((COMMENT,) if words else ())]
    return (
        "SLURM_TIME_FORMAT=%s sacct --local --allusers --allocations --duplicates --noconvert --parsable2 "
        f"--delimiter='{DELIMITER}' --starttime={first} --endtime={end} --format={','.join(columns)}"
    )


def read_rows(lines: Iterable[str], zone: tzinfo | None = None) -> Iterator[AccountingRow]:
    """The rows of an export. Steps are left out.

    Args:
        lines: of the file, the header first.
        zone: where times without a zone are meant. None: times are seconds since 1970.

    Raises:
        BadExport: the header or a row is not what `export_command` prints.
    """
    numbered = iter(enumerate(lines, 1))
    header = next(numbered, (1, ""))[1].rstrip("\r\n")
    delimiter, names = _header(header)
    last_is_free = names[-1] == COMMENT
    waiting: tuple[int, list[str]] | None = None
    for number, text in numbered:
        line = text.rstrip("\r\n")
        if line == header or not (line or last_is_free):
            continue  # several exports may be one file
        cells = line.split(delimiter, len(names) - 1 if last_is_free else -1)
        if len(cells) != len(names):
            if not last_is_free or waiting is None:
                found = f"{len(cells)} of {len(names)} columns" if line else "an empty line"
                raise BadExport(f"line {number}: {found}; accepted: what the header names")
            # A comment may hold line ends.
            waiting[1][-1] += "\n" + line
            continue
        if waiting is not None:
            yield from _row(*waiting, names, zone)
        waiting = (number, cells)
    if waiting is not None:
        yield from _row(*waiting, names, zone)


def _header(line: str) -> tuple[str, tuple[str, ...]]:
    """The delimiter and the names of the columns."""
    found = re.match(r"[A-Za-z]+([^A-Za-z]+)[A-Za-z]", line)
    if found is None:
        raise BadExport("line 1: no header of sacct; accepted: its output with --parsable2 and no --noheader")
    known = {name.lower(): name for name in (*NEEDED, CLUSTER, CONSTRAINTS, COMMENT)}
    names = tuple(known.get(name.strip().lower(), name) for name in line.split(found[1]))
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise BadExport(f"line 1: the column {missing[0]} is missing; accepted: {', '.join(NEEDED)}")
    if COMMENT in names[:-1]:
        raise BadExport(f"line 1: the column {COMMENT} is not the last one; accepted: {COMMENT} at the end")
    return found[1], names


@dataclass(frozen=True, slots=True)
class _Cells:
    """The fields of one row by the names of their columns."""

    line: int
    by_name: Mapping[str, str]
    zone: tzinfo | None

    def read(self, name: str, parse: Callable[[str], ValueT], accepted: str) -> ValueT:
        """The value of a field. Raises BadExport if `parse` refuses it with a ValueError."""
        text = self.by_name[name]
        try:
            return parse(text)
        except (ValueError, OverflowError):
            shown = printable(text)[:_SHOWN]
            raise BadExport(f"line {self.line}: {name} {shown!r}; accepted: {accepted}") from None

    def instant(self, name: str) -> float | None:
        """A time in seconds since 1970. None: Slurm's word for no time."""
        if self.by_name[name] in _NEVER:
            return None
        return self.needed_instant(name)

    def needed_instant(self, name: str) -> float:
        """A time that every job has."""
        zone = self.zone
        if zone is None:
            accepted = "seconds since 1970, as SLURM_TIME_FORMAT=%s prints them, or --time-zone"
        else:
            accepted = "seconds since 1970, or a time such as 2026-10-01T08:00:00"
        return self.read(name, lambda text: _instant(text, zone), accepted)

    def whole(self, name: str) -> int:
        """A number, 0 if the field is empty: that of a job that never started."""
        return self.read(name, _whole, "a whole number from 0")


def _row(
    number: int, cells: Sequence[str], names: Sequence[str], zone: tzinfo | None
) -> Iterator[AccountingRow]:
    """The row, unless it is a step's."""
    cell = dict(zip(names, cells, strict=True))
    if _STEP.match(cell["JobID"]):
        return
    fields = _Cells(number, cell, zone)
    yield AccountingRow(
        line=number,
        job_id=cell["JobID"],
        raw_id=cell["JobIDRaw"],
        user=intern(cell["User"]),
        account=intern(cell["Account"]),
        partition=intern(cell["Partition"]),
        qos=intern(cell["QOS"]),
        state=intern(cell["State"].partition(" ")[0].rstrip("+")),
        submit_s=fields.needed_instant("Submit"),
        eligible_s=fields.instant("Eligible"),
        start_s=fields.instant("Start"),
        end_s=fields.instant("End"),
        elapsed_s=float(fields.whole("ElapsedRaw")),
        limit_s=None if cell["TimelimitRaw"] in _NO_LIMIT else 60.0 * fields.whole("TimelimitRaw"),
        node_count=fields.whole("NNodes"),
        tres=fields.read("AllocTRES", _tres, "amounts such as cpu=2,mem=4000M,node=1"),
        cluster=intern(cell.get(CLUSTER, "")),
        features=intern(cell.get(CONSTRAINTS, "")),
        words=frozenset(comment_words(cell.get(COMMENT, ""))),
    )


def _instant(text: str, zone: tzinfo | None) -> float:
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return float(text)
    if zone is None:
        raise ValueError(text)
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo is not None else found.replace(tzinfo=zone)).timestamp()


def _whole(text: str) -> int:
    if text and not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ValueError(text)
    return int(text or 0)


@lru_cache(maxsize=1 << 16)
def _tres(text: str) -> tuple[tuple[str, int], ...]:
    """The amounts of CPUs, memory and generic resources; others, such as energy, are left out."""
    return tuple(_amounts(text))


def _amounts(text: str) -> Iterator[tuple[str, int]]:
    for part in text.split(",") if text else ():
        name, equals, amount = part.rpartition("=")
        if not equals:
            raise ValueError(text)
        if name == MEMORY:
            yield name, round(memory_mb(amount))
        elif name == CPU or name.startswith("gres/"):
            wanted = _AMOUNT.fullmatch(amount)
            if wanted is None:
                raise ValueError(text)
            yield name, round(float(wanted[1]) * _UNITS[wanted[2]])
