"""Which processes belong to a development cluster, and their end. Reads /proc; Linux only."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from makeway.adapters.devcluster.load import TimeLimit

MARKER = "MAKEWAY_DEVCLUSTER"
"""The variable in the environment of every daemon of a development cluster; its value is the state folder."""

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

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return _read(self.pid) == self


def of_cluster(folder: str, root: str = "/") -> tuple[Process, ...]:
    """The processes of the cluster whose state folder is `folder` as they see it, sorted by pid.

    They are its daemons and the processes of its jobs, if they are in the chroot `root`. A shell that merely
    uses the cluster is not one of them.
    """
    found: list[Process] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            process = _read(int(entry.name))
            if process is not None and _lives_in(entry, root) and _belongs(entry, process, folder):
                found.append(process)
    return tuple(sorted(found, key=lambda process: process.pid))


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
    return None if fields[0] in "ZX" else Process(pid=pid, start_ticks=int(fields[19]), name=name)


def _belongs(entry: Path, process: Process, folder: str) -> bool:
    environment = _bytes(entry / "environ").split(b"\0")
    if f"{MARKER}={folder}".encode() in environment:
        return True
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
