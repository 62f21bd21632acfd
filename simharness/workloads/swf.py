"""The Standard Workload Format, line by line: what a sound line is, and what is wrong with one that is not.

A file is text, plain or compressed by gzip: header lines `; Key: value`, then one line of 18 numbers a job,
-1 for what is not known. `trace` makes a workload of it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import inf, isfinite
from pathlib import Path

from makeway.daemon.errors import OneProblem, counted
from makeway.simharness.workloads.text_files import DAMAGE, FileKind, TextFile, open_text, shown

FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
"""The 18 fields of a job line. Messages count them from 1, as the definition of the format does."""

TIME_LIMIT_S = 1e10
"""Times from here on (three centuries) are damage."""
PROCESSOR_LIMIT = 1e8
_SECONDS = f"seconds from 0 to {TIME_LIMIT_S:.0e}"
_PROCESSORS = f"a whole number from 0 to {PROCESSOR_LIMIT:.0e}, or -1 for unknown"
_RANGES = {
    0: (0.0, inf, "a whole number from 0"),
    1: (0.0, TIME_LIMIT_S, _SECONDS),
    2: (-1.0, TIME_LIMIT_S, f"{_SECONDS}, or -1 for unknown"),
    3: (-1.0, TIME_LIMIT_S, f"{_SECONDS}, or -1 for unknown"),
    4: (-1.0, PROCESSOR_LIMIT, _PROCESSORS),
    7: (-1.0, PROCESSOR_LIMIT, _PROCESSORS),
    8: (-1.0, TIME_LIMIT_S, f"{_SECONDS}, or -1 for unknown"),
}
"""Lowest value, limit (excluded) and wording for the fields that are used, by index."""
_WHOLE = frozenset({4, 7})
SUMMARIES = frozenset({0.0, 1.0})
"""The status of a job that failed or completed."""
PARTS = frozenset({2.0, 3.0, 4.0})
"""The status of a partial execution of a job that was checkpointed or swapped out. The job has a line of its
own too, with one of `SUMMARIES`.
"""
_BLOCK = 1024
"""Lines read at once."""
_MARK = ";"


class TraceError(OneProblem):
    """A trace that cannot be read or written.

    The message is one line: the file, and what is accepted.
    """


SWF = FileKind(noun="an SWF file", error=TraceError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Sound job lines, column by column; -1 is unknown. Processors are whole numbers."""

    job_id: list[str]
    submit_s: list[float]
    wait_s: list[float]
    run_s: list[float]
    allocated: list[float]
    requested: list[float]
    requested_s: list[float]
    requested_kb: list[float]
    """Memory for each processor."""
    status: list[float]
    """How a job ended; of a partial execution (`PARTS`), how that did."""
    user: list[str]
    group: list[str]
    queue: list[str]
    partition: list[str]


@dataclass(slots=True, kw_only=True)
class Header:
    """What the header says of the machine; None: nothing."""

    max_nodes: int | None = None
    max_procs: int | None = None
    start_epoch_s: int | None = None


@dataclass(slots=True, kw_only=True)
class SwfReader:
    """Reads one file once: the header while its lines pass, the sound job lines in blocks of columns.

    With `skip_bad` damage is counted in `bad`; without, it raises `TraceError`.
    """

    path: Path
    skip_bad: bool = False
    bad: int = 0
    """Damaged lines so far; a stream that breaks off counts as one."""
    header: Header = field(default_factory=Header)

    def blocks(self) -> Iterator[Columns]:
        """Every sound job line, in the order of the file.

        Raises:
            TraceError: the file is missing, empty or cannot be read; also damage, without `skip_bad`.
        """
        first = 1
        with open_text(self.path, SWF) as file:
            lines = self._lines(file)
            while block := list(islice(lines, _BLOCK)):
                columns = _columns(block)
                if columns is None:
                    columns = self._mixed(first, block)
                if columns is not None and columns.job_id:
                    yield columns
                first += len(block)
        if first == 1 and not self.bad:
            raise TraceError(f"{self.path}: is empty; accepted: {SWF.accepted}")

    def _lines(self, file: TextFile) -> Iterator[str]:
        """The lines of the file; damage of the compression ends them."""
        passed = 0
        try:
            for line in file.stream:
                passed += 1
                yield line
        except DAMAGE as error:
            self._damaged(passed + 1, file.complaint(error))

    def _mixed(self, first: int, block: list[str]) -> Columns | None:
        """The sound job lines of a block with other lines too; header and damage are recorded."""
        marked = [line.lstrip().startswith(";") for line in block]
        columns = _columns([line for line, comment in zip(block, marked, strict=True) if not comment])
        if columns is None:
            return _columns(list(self._sound(first, block)))
        for line_number, (line, comment) in enumerate(zip(block, marked, strict=True), first):
            if comment:
                self._directive(line_number, line.strip())
        return columns

    def _sound(self, first: int, block: list[str]) -> Iterator[str]:
        """The sound job lines of a block with other lines too; header and damage are recorded."""
        for line_number, line in enumerate(block, first):
            text = line.strip()
            if text.startswith(";"):
                self._directive(line_number, text)
            elif text:
                if _columns([line]) is None:
                    self._damaged(line_number, _complaint(text))
                else:
                    yield line

    def _directive(self, line_number: int, text: str) -> None:
        """Take what a header line says, if it is one of the directives that are used."""
        key, _, value = text.lstrip(";").partition(":")
        match key.strip():
            case "MaxNodes":
                self.header.max_nodes = self._number(line_number, "MaxNodes", value, PROCESSOR_LIMIT)
            case "MaxProcs":
                self.header.max_procs = self._number(line_number, "MaxProcs", value, PROCESSOR_LIMIT)
            case "UnixStartTime":
                self.header.start_epoch_s = self._number(line_number, "UnixStartTime", value, TIME_LIMIT_S)
            case _:
                pass

    def _number(self, line_number: int, key: str, value: str, limit: float) -> int | None:
        """The number that `value` begins with (words may follow it). None: not known (0, -1), or damaged.

        1,024 is refused: it may be a thousand or, of two partitions, the first.
        """
        found = re.match(r"\s*(-1|[0-9]{1,15})(?![0-9.eE]|,[0-9])", value, re.ASCII)
        if found is None or int(found[1]) >= limit:
            accepted = f"a whole number below {limit:.0e}, or -1 for unknown, without separators"
            self._damaged(line_number, f"header {key}: '{shown(value)}'; accepted: {accepted}")
            return None
        number = int(found[1])
        return number if number > 0 else None

    def _damaged(self, line_number: int, complaint: str) -> None:
        if not self.skip_bad:
            raise TraceError(f"{self.path}, line {line_number}: {complaint}")
        self.bad += 1


def _columns(lines: list[str]) -> Columns | None:
    """The columns of job lines. None if any line is not a sound job line.

    Whole blocks are split and converted at once, which halves the time; a mark put between the lines shows
    that each of them has its 18 fields.
    """
    text = "".join(lines)
    if not text.isascii() or "_" in text:  # float() takes other digits, and 1_000
        return None
    if not text.endswith("\n"):
        text += "\n"
    count, width = len(lines), len(FIELDS) + 1
    fields = text.replace("\n", f" {_MARK} ").split()
    if len(fields) != width * count or fields[width - 1 :: width] != [_MARK] * count:
        return None
    del fields[width - 1 :: width]
    try:
        numbers = list(map(float, fields))
    except ValueError:
        return None
    width -= 1
    columns = Columns(
        job_id=fields[0::width],
        submit_s=numbers[1::width],
        wait_s=numbers[2::width],
        run_s=numbers[3::width],
        allocated=numbers[4::width],
        requested=numbers[7::width],
        requested_s=numbers[8::width],
        requested_kb=numbers[9::width],
        status=numbers[10::width],
        user=fields[11::width],
        group=fields[12::width],
        queue=fields[14::width],
        partition=fields[15::width],
    )
    return columns if _in_range(columns, numbers) else None


def _in_range(columns: Columns, numbers: list[float]) -> bool:
    """Whether all values are finite, and those that are used in their ranges."""
    if not numbers:
        return True
    if not all(map(isfinite, numbers)) or min(columns.submit_s) < 0:
        return False
    for times in (columns.submit_s, columns.wait_s, columns.run_s, columns.requested_s):
        if min(times) < -1 or max(times) >= TIME_LIMIT_S:
            return False
    for sizes in (columns.allocated, columns.requested):
        if min(sizes) < -1 or max(sizes) >= PROCESSOR_LIMIT or not all(map(float.is_integer, sizes)):
            return False
    return all(map(str.isdigit, columns.job_id))


def _complaint(text: str) -> str:
    """What is wrong with a job line that is not sound."""
    fields = text.split()
    if len(fields) != len(FIELDS):
        count = counted(len(fields), "field")
        return f"{count} ('{shown(text)}'); accepted: 18 numbers, or a comment after ';'"
    for index, value in enumerate(fields):
        accepted = _accepted(index, value)
        if accepted:
            return f"field {index + 1} ({FIELDS[index]}): '{shown(value)}'; accepted: {accepted}"
    return f"'{shown(text)}'; accepted: 18 numbers"


def _accepted(index: int, value: str) -> str:
    """What field `index` may hold, if `value` is not it; else nothing."""
    low, limit, words = _RANGES.get(index, (-inf, inf, "a number, or -1 for unknown"))
    try:
        number = float(value)
    except ValueError:
        return words
    sound = isfinite(number) and low <= number < limit and value.isascii() and "_" not in value
    if index == 0:
        sound = sound and value.isdigit()
    if index in _WHOLE:
        sound = sound and number.is_integer()
    return "" if sound else words
