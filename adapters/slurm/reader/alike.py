"""Waiting tasks of a job array of which Slurm prints the same: the first of them stand for the others.

slurmctld has one record for all tasks of an array that have not started and were not changed one by one.
squeue, asked for each task, prints that record once for each: of 30,000 tasks, as many equal lines.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from makeway.adapters.slurm.build import FRONT_PRIORITY, queue_position_of
from makeway.adapters.slurm.parse import RawJob

SHOWN: Final = 100
"""So many alike tasks of an array that are not urgent are in a snapshot. Slurm starts them in this order, and
the next ones follow.
"""
_TASK = re.compile(rb"(\d+_)\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJobs:
    """The jobs that a reader has read."""

    jobs: tuple[RawJob, ...]
    """Of more than `SHOWN` alike tasks the first ones."""
    others: Mapping[str, tuple[range, ...]] = field(default_factory=dict[str, tuple[range, ...]])
    """The numbers of the others, by the id of the last of their array that is in `jobs`."""

    def with_others(self, of: Callable[[RawJob], bool]) -> Iterable[RawJob]:
        """The jobs, those arrays whole of which `of` says so of one task."""
        if not self.others:
            return self.jobs
        return chain.from_iterable((job, *self._others(job, of)) for job in self.jobs)

    def _others(self, job: RawJob, of: Callable[[RawJob], bool]) -> Iterable[RawJob]:
        numbers = self.others.get(job.job_id)
        if numbers is None or not of(job):
            return ()
        array = job.job_id.partition("_")[0]
        return (replace(job, job_id=f"{array}_{number}") for number in chain.from_iterable(numbers))


class AlikeTasks:
    """Finds the rows that differ from the one before in the number of a task of an array alone.

    Args:
        between: what is between two cells of a row. The cell before the id of the job has no user's words.
        place: which cell has the id of the job: 0, 1.
        read: the job of a row. Raises KeyError or ValueError if it cannot be read.
    """

    def __init__(self, between: bytes, place: int, read: Callable[[bytes], RawJob]) -> None:
        self._between, self._place, self._read = between, place, read
        self._array = ""
        """What the id of the task begins with in the row before. Empty: it has no task."""
        self._before = self._after = b""
        """What comes in that row before the number of the task, and after it."""
        self._count = 0
        """How many rows one after another are alike, up to the last one."""
        self._stand = False
        """Whether the first of them may stand for the others. False while there are no others."""
        self._shown = ""
        """The id of the last one of the first."""
        self._others: dict[str, list[range]] = {}

    def is_other(self, text: bytes | bytearray, begin: int, end: int) -> bool:
        """Whether others stand for the next row, which is there in the text. If not, it has to be kept."""
        if self._count < SHOWN:
            return False
        number = self._number(text, begin, end)
        if number is None:
            return False
        if self._count == SHOWN:
            self._count += 1
            self._stand = self._may_stand(bytes(text[begin:end]))
        if self._stand:
            self._note(number)
        return self._stand

    def keep(self, row: bytes | bytearray) -> None:
        """Note the next row, which is kept."""
        number = self._number(row, 0, len(row))
        if number is None:
            self._begin(row)
            return
        self._count += 1
        self._shown = f"{self._array}{number}"

    def others(self) -> Mapping[str, tuple[range, ...]]:
        """See `ListedJobs.others`."""
        return {job_id: tuple(numbers) for job_id, numbers in self._others.items()}

    def _number(self, text: bytes | bytearray, begin: int, end: int) -> int | None:
        """The number of the task, if a row differs from the one before in nothing else."""
        before, after = self._before, self._after
        if not self._array or not (text.startswith(before, begin, end) and text.endswith(after, begin, end)):
            return None
        digits = text[begin + len(before) : end - len(after)]
        return int(digits) if digits.isdigit() else None

    def _begin(self, row: bytes | bytearray) -> None:
        begin = 0
        for _ in range(self._place):
            begin = row.find(self._between, begin) + len(self._between)
        end = row.find(self._between, begin)
        found = _TASK.fullmatch(row, begin, max(begin, end))
        self._count, self._stand, self._array = 1, False, ""
        if found is not None:
            self._array = found[1].decode()
            self._before, self._after = bytes(row[: found.end(1)]), bytes(row[end:])

    def _may_stand(self, row: bytes) -> bool:
        """Whether such a task waits as it was submitted, and makeway has nothing to do with it."""
        try:
            job = self._read(row)
        except (KeyError, ValueError):
            return False  # who reads the rows that are kept says so
        own = job.priority >= FRONT_PRIORITY or queue_position_of(job.priority) is not None
        return job.state == "PENDING" and job.restarts == 0 and not own

    def _note(self, number: int) -> None:
        numbers = self._others.setdefault(self._shown, [])
        if numbers and numbers[-1].stop == number:
            numbers[-1] = range(numbers[-1].start, number + 1)
        else:
            numbers.append(range(number, number + 1))
