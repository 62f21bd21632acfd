"""Which processes belong to a development cluster, and their end. Reads /proc; Linux only."""

import contextlib
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from makeway.adapters.devcluster.load import TimeLimit

MARKER = "MAKEWAY_DEVCLUSTER"
"""The variable in the environment of every daemon of a development cluster; its value is the state folder as
it is seen outside a chroot.
"""

_DAEMONS = frozenset({"munged", "slurmctld", "slurmd", "slurmstepd"})
_POLL_S = 0.02
_KILLED_S = 10.0
"""A process that was killed is gone within this time, unless the kernel holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process. A later process with the same pid has another start, so it is never taken for this one."""

    pid: int
    start_ticks: int
    name: str
    parent: int = field(default=0, compare=False)
    """The pid of the process that has started it, or of the one that has it since that one ended. 0: none."""

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return _read(self.pid) == self


def of_cluster(folder: str, root: str = "/") -> tuple[Process, ...]:
    """The processes of the cluster whose state folder is `folder` as they see it, sorted by pid.

    They are its daemons and the processes of its jobs, if they are in the chroot `root`, and what these have
    started, whatever its environment. A shell that merely uses the cluster is not one of them.
    """
    marked = f"{MARKER}={Path(root).resolve() / folder.lstrip('/')}".encode()
    children = defaultdict[int, list[Process]](list)
    found: dict[int, Process] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            process = _read(int(entry.name))
            if process is not None:
                children[process.parent].append(process)
                environment = _bytes(entry / "environ").split(b"\0")
                # The mark finds a process outside the chroot, too: it has yet to enter it, or stays outside.
                if marked in environment or (
                    _lives_in(entry, root) and _belongs(entry, process, environment, folder)
                ):
                    found[process.pid] = process
    unseen = list(found)
    while unseen:
        for child in children.pop(unseen.pop(), ()):
            found[child.pid] = child
            unseen.append(child.pid)
    return tuple(sorted(found.values(), key=lambda process: process.pid))


def by_pid(pid: int) -> Process | None:
    """The process with that pid. None: there is none."""
    return _read(pid)


def end(processes: tuple[Process, ...], *, grace_s: float) -> tuple[Process, ...]:
    """Ask the processes to end, and kill those that still run after `grace_s`, in seconds of an idle machine.

    With a grace of 0 they are killed at once. Returns those that had to be killed, when they are gone.
    """
    if grace_s > 0:
        for process in processes:
            _signal(process, signal.SIGTERM)
    left = wait(processes, timeout_s=grace_s)
    for process in left:
        _signal(process, signal.SIGKILL)
    wait(left, timeout_s=_KILLED_S)
    return left


def end_all(
    known: tuple[Process, ...], look: Callable[[], tuple[Process, ...]], *, grace_s: float
) -> tuple[Process, ...]:
    """End the known processes and what `look` finds, until two looks find none. Returns those that had to be
    killed.

    One look is not enough: a process that forks while /proc is read can be missed, and a start that was in
    progress when its own process died goes on.
    """
    killed = end(known, grace_s=grace_s)
    empty = 0
    limit = TimeLimit(_KILLED_S)
    while empty < 2 and not limit.passed():
        found = look()
        killed += end(found, grace_s=grace_s)
        empty = 0 if found else empty + 1
    return killed


def wait(processes: tuple[Process, ...], *, timeout_s: float) -> tuple[Process, ...]:
    """Wait until all have ended, for at most `timeout_s` seconds of an idle machine. Returns those that have
    not.
    """
    limit = TimeLimit(timeout_s)
    left = tuple(process for process in processes if process.alive)
    while left and not limit.passed():
        time.sleep(_POLL_S)
        left = tuple(process for process in left if process.alive)
    return left


def _signal(process: Process, number: signal.Signals) -> None:
    if process.alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _read(pid: int) -> Process | None:
    """The process as /proc/PID/stat shows it. None: there is none, or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name is in parentheses and may contain anything, parentheses too.
    name = text[text.index("(") + 1 : text.rindex(")")]
    fields = text[text.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    return Process(pid=pid, start_ticks=int(fields[19]), name=name, parent=int(fields[1]))


def _belongs(entry: Path, process: Process, environment: list[bytes], folder: str) -> bool:
    in_job = any(word.startswith(b"SLURM_JOB_ID=") for word in environment)
    if in_job and f"SLURM_CONF={folder}/slurm.conf".encode() in environment:
        return True
    # Slurm's daemons overwrite their environment with their titles: look at their folder and their arguments.
    if process.name.split(":")[0] not in _DAEMONS:
        return False
    words = _bytes(entry / "cmdline").split(b"\0")
    return any(folder.encode() in word for word in words) or _inside(entry / "cwd", folder)


def _lives_in(entry: Path, root: str) -> bool:
    """Whether a process has that root. A link of /proc is compared by its target, not by its name."""
    try:
        return os.path.samefile(entry / "root", root)
    except OSError:
        return False


def _inside(link: Path, folder: str) -> bool:
    try:
        where = str(link.readlink())
    except OSError:
        return False
    # A process in a chroot is shown with the path outside.
    return where.endswith(folder) or f"{folder}/" in where


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
