"""The life of the process that reads through pyslurm: started when it is needed, asked, and ended.

pyslurm cannot be loaded into the daemon: see `pyslurm_helper`.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path

from makeway.adapters.command import CommandRunner, LiveProgram, ProgramEnded
from makeway.adapters.protocol import AdapterError, Unavailable, Unreadable
from makeway.adapters.slurm.reader.answer import Answer, AnswerReader, row_of

PROGRAM = Path(__file__).with_name("pyslurm_helper.py")
NAME = "pyslurm's helper"
FIRST_PAUSE_S = 1.0
"""How long the helper stays away after a failure; twice as long after each further one in a row."""
LONGEST_PAUSE_S = 300.0
MOST_ANSWERS = 5_000
"""After so many answers a new process takes over, whatever the libraries may have lost of memory."""


class HelperFailed(Unavailable):
    """The helper cannot be used now: the controller was not asked, or what was answered is lost."""


class PyslurmHelper:
    """Reads whole clusters through pyslurm.

    Args:
        starter: what starts the process.
        python: the interpreter that has pyslurm.
        timeout_s: how long an answer may take; also how long the start may.
        clock: the time, in seconds.
    """

    def __init__(
        self,
        starter: CommandRunner,
        python: str,
        timeout_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._starter = starter
        self._python = python
        self._timeout_s = timeout_s
        self._clock = clock
        self._program: LiveProgram | None = None
        self._answers = AnswerReader()
        self._answered = 0
        self._failures = 0
        self._not_before_s = -math.inf
        self._why = ""
        self.version = ""
        """Of the pyslurm that runs, such as 25.11.2. Empty: none was started yet."""
        self.starts = 0
        """How many processes were started."""

    def start(self) -> None:
        """Start the process unless it runs.

        Raises:
            HelperFailed: it cannot be started, or has failed a short while ago.
            Unavailable: it did not begin in time.
        """
        if self._program is not None and self._answered >= MOST_ANSWERS:
            self.close()
        if self._program is not None:
            return
        left_s = self._not_before_s - self._clock()
        if left_s > 0:
            raise HelperFailed(f"{self._why}; it is started again in {math.ceil(left_s)} s")
        try:
            self._start()
        except AdapterError as error:
            raise self.fail(error) from error

    def read(self) -> Answer:
        """The whole cluster now.

        Raises:
            HelperFailed: the helper cannot be used now.
            Unavailable: the controller did not answer it, or it did not answer in time.
        """
        self.start()
        assert self._program is not None
        try:
            lines = self._program.ask(b"\n", timeout_s=self._timeout_s, is_last=_is_last)
            last = _row(lines[-1])
            if last[0] == "error" and last[1:2] == ["slurm"]:
                raise Unavailable(f"pyslurm: {' '.join(last[2:])}")
            if last[0] == "error":
                raise HelperFailed(f"pyslurm cannot read this cluster: {' '.join(last[2:])}")
            found = self._answers.read(lines)
        except AdapterError as error:
            if type(error) is Unavailable and self._alive():
                self._failures = 0
                raise
            raise self.fail(error) from error
        self._answered += 1
        self._failures = 0
        return found

    def fail(self, error: AdapterError) -> AdapterError:
        """End the process and let it rest. Returns the error to raise."""
        self.close()
        self._why = str(error)
        self._failures += 1
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 30))
        self._not_before_s = self._clock() + pause_s
        if isinstance(error, ProgramEnded | Unreadable):
            return HelperFailed(str(error))
        return error

    def close(self) -> None:
        """End the process. A later `start` starts another one."""
        if self._program is not None:
            self._program.end()
        self._program = None

    def _alive(self) -> bool:
        return self._program is not None and self._program.running

    def _start(self) -> None:
        source = PROGRAM.read_text(encoding="utf-8")
        # A signal ends it if the daemon dies.
        limit_s = str(math.ceil(self._timeout_s) + 1)
        try:
            program = self._starter.start((self._python, "-s", "-c", source, limit_s), name=NAME)
        except Unavailable as error:
            raise HelperFailed(str(error)) from error
        self._program = program
        self._answered = 0
        self.starts += 1
        hello = _row(program.ask(b"", timeout_s=self._timeout_s, is_last=bool)[-1])
        if hello[0] != "hello" or len(hello) != 2:
            raise HelperFailed(f"pyslurm cannot be used with {self._python}: {' '.join(hello[2:])}")
        self.version = hello[1]


def _is_last(line: bytes) -> bool:
    return line.startswith((b'["end"', b'["error"'))


def _row(line: bytes) -> list[str]:
    try:
        return row_of(line)
    except ValueError:
        words = line[:200].decode("utf-8", "replace")
        raise Unreadable(f"{NAME} wrote {words!r}", command=(NAME,), text=words) from None
