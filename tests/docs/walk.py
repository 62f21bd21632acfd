"""Walks through a page: its commands in one shell, in order, until each prints what the page shows."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.docs.pages import blocks
from tests.paths import ROOT
from tests.waiting import await_that, limit_s

LOOKS = frozenset({"makeway status", "makeway explain", "makeway summary", "squeue", "scontrol", "sinfo"})
"""What changes nothing: a reader repeats it until it shows what the page does."""
ANYTHING = "..."
END_MARK = "the command has ended with"
_SECTION = re.compile(r"## (.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command of a page."""

    section: str
    command: str
    shown: tuple[str, ...]
    """The lines below it; `...` in them stands for anything."""

    @property
    def looks(self) -> bool:
        """Whether it changes nothing."""
        words = self.command.split()
        return words[0] in LOOKS or " ".join(words[:2]) in LOOKS

    def is_met_by(self, printed: str) -> bool:
        """Whether a command has printed what the page shows. Only what is shown counts: one that shows
        nothing may print anything.
        """
        parts = "\n".join(self.shown).split(ANYTHING)
        return not self.shown or bool(
            re.fullmatch(".*".join(map(re.escape, parts)), printed.strip(), re.DOTALL)
        )


def steps(page: Path) -> Iterator[Step]:
    """The commands of the console blocks of a page, each with its section and with what it prints."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    for block in blocks(page):
        if block.language != "console":
            continue
        above = (_SECTION.fullmatch(line) for line in reversed(lines[: block.line]))
        section = next(found[1] for found in above if found)
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, *shown = part.rstrip().split("\n")
            yield Step(section=section, command=command, shown=tuple(shown))


class Walk:
    """A shell that goes through a page, for a `with` block. What it started in the background ends with it.

    Args:
        folder: where it begins.
        environment: of the shell.
        enter: a command before the shell's, such as one that enters a chroot.
    """

    def __init__(self, folder: Path, environment: dict[str, str], enter: tuple[str, ...] = ()) -> None:
        self.took_s: dict[str, float] = {}
        """By section: how long its commands took, with the waits for what they show."""
        self._shell = subprocess.Popen(
            [*enter, "bash", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate(timeout=limit_s())

    def take(self, step: Step) -> None:
        """Run a command, again and again if it only looks. Fails if it does not print what the page shows."""
        began_s = time.monotonic()
        status, printed = self._run(step.command)
        if step.looks:
            said = [(status, printed)]

            def met() -> bool:
                if not (said[-1][0] == 0 and step.is_met_by(said[-1][1])):
                    said.append(self._run(step.command))
                return said[-1][0] == 0 and step.is_met_by(said[-1][1])

            await_that(f"`{step.command}` shows {step.shown}", met, lambda: said[-1][1] + self._logs())
        else:
            assert status == 0, f"{step.command}: status {status}\n{printed}"
            assert step.is_met_by(printed), f"{step.command}:\n{printed}\nThe page shows {step.shown}"
        self.took_s[step.section] = self.took_s.get(step.section, 0.0) + time.monotonic() - began_s

    def _logs(self) -> str:
        """The ends of the logs that the page writes."""
        return self._run("tail -n 20 *.log")[1]

    def _run(self, command: str) -> tuple[int, str]:
        """The exit status of a command in the shell, and what it printed."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{{ {command}\n}} </dev/null; echo; echo '{END_MARK}' $?\n")
        self._shell.stdin.flush()
        printed: list[str] = []
        while not (line := self._shell.stdout.readline()).startswith(END_MARK):
            assert line, f"the shell has ended: {''.join(printed)}"
            printed.append(line)
        return int(line.removeprefix(END_MARK)), "".join(printed)
