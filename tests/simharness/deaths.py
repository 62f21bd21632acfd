"""Deaths of a daemon at the writes of its journal: one of them, or each in a process of its own.

What comes before a death is the same with and without it. `every_death` replays it once, and forks where a
death belongs: the child dies there and goes on with a new daemon, and its parent waits for what came of it.
"""

import gc
import os
import pickle
import shutil
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Generic, NoReturn, Protocol, TypeVar

End = TypeVar("End")

Moment = tuple[int, int, int]
"""How many steps of the replay, snapshots and commands there were. Within a moment no cluster changes."""


class Killed(BaseException):
    """The daemon's death: nothing that handles errors may see it.

    Attributes:
        forked: the files of the journal belong to the parent of this process, which lives on.
    """

    def __init__(self, *, forked: bool = False) -> None:
        super().__init__()
        self.forked = forked


class AtWrite(Protocol):
    """Called just before and just after a write is on the disk. Raises `Killed` if the daemon dies there.

    `write` counts them from 1 on.
    """

    def __call__(self, write: int, moment: Moment, *, after: bool) -> None: ...


def never(write: int, moment: Moment, *, after: bool) -> None:
    """No death."""


def one_death(cut: int, *, after: bool) -> AtWrite:
    """The death at the write number `cut`."""
    wanted = (cut, after)

    def dies(write: int, moment: Moment, *, after: bool) -> None:
        if (write, after) == wanted:
            raise Killed

    return dies


@dataclass(frozen=True, slots=True)
class Death(Generic[End]):
    """A death at a write: whether it came after it, and how the replay ended."""

    write: int
    after: bool
    end: End


def copied(journal: Path) -> Path:
    """A copy of a journal, with the files next to it."""
    folder = journal.parent
    return Path(shutil.copytree(folder, mkdtemp(dir=folder.parent), dirs_exist_ok=True)) / journal.name


def every_death(replay: Callable[[AtWrite], End]) -> tuple[End, list[Death[End]]]:
    """The end of a replay without a death, and that with each of the deaths that differ.

    `replay` replays to the end and returns a value that can be pickled. Its journal calls the argument.
    """
    forks = _Forks[End]()
    try:
        end = replay(forks)
    except BaseException:
        if forks.answer is not None:
            _answer(forks.answer, (None, traceback.format_exc()))
        raise
    if forks.answer is not None:
        _answer(forks.answer, (end, ""))
    return end, forks.deaths


class _Forks(Generic[End]):
    """Forks at each death that differs from the one before it, and dies in the child.

    Attributes:
        deaths: what the children came to.
        answer: the pipe by which a child tells its parent. None: this is the parent.
    """

    def __init__(self) -> None:
        self.deaths: list[Death[End]] = []
        self.answer: int | None = None
        self._latest: Moment | None = None

    def __call__(self, write: int, moment: Moment, *, after: bool) -> None:
        if self.answer is not None or (not after and moment == self._latest):
            return
        self._latest = moment
        found, problem = self._child()
        assert found is not None, f"{write=}, {after=}: {problem}"
        self.deaths.append(Death(write, after, found))

    def _child(self) -> tuple[End | None, str]:
        """What a child came to that dies here, or its traceback."""
        reads, writes = os.pipe()
        with warnings.catch_warnings():
            # From 3.12 on Python warns of threads, here those of who runs the tests.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os.close(reads)
            self.answer = writes
            gc.freeze()  # else the search for garbage would copy all memory of the parent
            raise Killed(forked=True)
        os.close(writes)
        with open(reads, "rb") as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        return pickle.loads(told) if told else (None, "the child ended without an answer")


def _answer(pipe: int, told: tuple[object, str]) -> NoReturn:
    """Tell the parent, and end. Nothing of the tests, which were copied too, may go on here."""
    try:
        with open(pipe, "wb") as file:
            pickle.dump(told, file)
    finally:
        os._exit(0)
