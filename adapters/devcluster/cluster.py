"""A real Slurm on this machine for development: on loopback, in its own folder, removed without a trace.

The machine's own Slurm and munge are not touched: the cluster has its own configuration, key, sockets, ports
and state. It needs the programs that `deploy/install-slurm.sh` installs.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from makeway.adapters.command import CommandRunner, CompletedCommand
from makeway.adapters.devcluster import processes
from makeway.adapters.devcluster.conf import DevSpec
from makeway.adapters.devcluster.guard import guarded
from makeway.adapters.devcluster.load import TimeLimit, scaled
from makeway.adapters.devcluster.ports import NoFreePorts, claimed_ports
from makeway.adapters.devcluster.state_folder import RECORD, inner_folder, log_ends, write_files
from makeway.adapters.protocol import AdapterError

_START_S = 30.0
"""The limit of each command and of a start, in seconds of an idle machine, as all limits here."""
_NODE_START_S = 0.5
"""What each node adds to the limit of a start: the slurmds start one after another."""
_STOP_S = 20.0
_POLL_S = 0.1
_POLL_MOST_S = 0.5
_POLL_GROWTH = 1.6
"""Between two looks at first, at most, and by how much each pause is longer than the one before: a look
starts a command of Slurm.
"""
_IN_ORDER = ("slurmd", "slurmctld", "slurmdbd", "mariadbd", "munged")
"""In which order the daemons stop: each before those that it needs."""
_FOLDER_CHARACTERS = 80
"""A socket's path may have 107 characters."""
_MUNGE_FILES = (
    ("key-file", "key"),
    ("socket", "socket"),
    ("pid-file", "pid"),
    ("log-file", "log"),
    ("seed-file", "seed"),
)


class DevClusterError(Exception):
    """A development cluster cannot be started, used or stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What runs in a state folder."""

    folder: Path
    running: tuple[processes.Process, ...]
    """Its processes."""
    answer: str
    """The output of `sinfo`, or why there is none."""


class DevCluster:
    """A cluster that runs. Made by `up`."""

    def __init__(self, spec: DevSpec, folder: Path, version: tuple[int, int]) -> None:
        self.spec = spec
        self.folder = folder
        """The state folder, seen from outside a chroot."""
        self.version = version
        """Year and month of the Slurm release, such as (24, 11)."""

    @property
    def inner_folder(self) -> PurePosixPath:
        """The state folder as Slurm and its jobs see it."""
        return inner_folder(self.folder, self.spec.root)

    @property
    def runner(self) -> CommandRunner:
        """Runs Slurm's commands on this cluster."""
        return _runner(self.spec, self.folder)

    def run(self, *argv: str, stdin: bytes = b"") -> str:
        """Run one command on this cluster and return its output. Raises DevClusterError if it fails."""
        return _checked(self.runner.run(argv, stdin=stdin, timeout_s=scaled(_START_S)))

    def submit(self, script: str, *options: str) -> str:
        """Submit a batch job whose script is `script` (its first line is added). Returns the job id."""
        argv = ("sbatch", "--parsable", f"--chdir={self.inner_folder}/work", "--output=job-%j.out", *options)
        return self.run(*argv, stdin=f"#!/bin/bash\n{script}\n".encode()).strip().split(";")[0]

    def output(self, job_id: str) -> str:
        """What the job has printed so far."""
        path = self.folder / "work" / f"job-{job_id}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def start_controller(self) -> None:
        """Start slurmctld with the state that it has saved, and wait until it answers."""
        self._start("slurmctld", "-i")
        _until("slurmctld answers", self._answers)

    def stop_controller(self, *, kill: bool = False) -> None:
        """Stop slurmctld. `kill`: by SIGKILL, so that it saves nothing."""
        self._stop(self.folder / "slurmctld.pid", kill=kill)

    def start_node(self, node: str, *more: str) -> None:
        """Start the slurmd of a node. `more`: further arguments, such as `-Z` for a dynamic node."""
        self._start("slurmd", *more, "-N", node)

    def stop_node(self, node: str, *, kill: bool = False) -> None:
        """Stop the slurmd of a node. Its steps go on."""
        self._stop(self.folder / f"slurmd.{node}.pid", kill=kill)

    def log_end(self, lines: int = 20) -> str:
        """The last lines of slurmctld's log."""
        return "\n".join((self.folder / "slurmctld.log").read_text(errors="replace").splitlines()[-lines:])

    def await_idle(self) -> None:
        """Wait until every node is idle. Raises DevClusterError if a node does not become idle in time."""
        _until("every node is idle", self._idle, _START_S + _NODE_START_S * len(self.spec.nodes))

    def cancel_all(self, limit_s: float = _START_S) -> None:
        """Cancel every job and wait until no job holds a node. Raises DevClusterError if a job does not end
        in time.
        """
        _until("every job has ended", self._cancelled, limit_s)

    def processes(self) -> tuple[processes.Process, ...]:
        """Its daemons, and the processes of its jobs."""
        return processes.of_cluster(str(self.inner_folder), self.spec.root or "/")

    def start_all(self, before_controller: Callable[[], None] | None = None) -> None:
        """Start munged, slurmctld and every slurmd, and wait until every node is idle."""
        munge = [f"--{what}={self.inner_folder}/munge.{end}" for what, end in _MUNGE_FILES]
        self._start("munged", "--num-threads=2", *munge)
        if before_controller is not None:
            before_controller()
        self.start_controller()
        for node in self.spec.nodes:
            self.start_node(node)
        self.await_idle()

    def _answers(self) -> bool:
        if self.runner.run(("scontrol", "ping"), timeout_s=scaled(_START_S)).returncode == 0:
            return True
        # A process that forks while /proc is read can be missed once: slurmctld goes into the background by
        # two forks.
        if not self._controller_runs() and not self._controller_runs():
            raise DevClusterError("slurmctld has ended")
        return False

    def _controller_runs(self) -> bool:
        return any(process.name == "slurmctld" for process in self.processes())

    def _idle(self) -> bool:
        states = self.run("sinfo", "-h", "-N", "-o", "%N %t").splitlines()
        return {line for line in states if line.endswith(" idle")} == {
            f"{node} idle" for node in self.spec.nodes
        }

    def _cancelled(self) -> bool:
        rows = {tuple(line.split("|")) for line in self.run("squeue", "-h", "-o", "%A|%t|%N").splitlines()}
        # An allocation that could not be merged into a job may complete for ever, without nodes.
        uncancelled = sorted(job_id for job_id, state, _ in rows if state != "CG")
        if uncancelled:
            # A job may have ended meanwhile: the next look shows it.
            self.runner.run(("scancel", "--quiet", *uncancelled), timeout_s=scaled(_START_S))
        return all((state, nodes) == ("CG", "") for _, state, nodes in rows)

    def _start(self, *argv: str) -> None:
        _checked(_runner(self.spec, self.folder, marked=True).run(argv, timeout_s=scaled(_START_S)))

    def _stop(self, pid_file: Path, *, kill: bool) -> None:
        process = _process(pid_file)
        if process is not None:
            processes.end((process,), grace_s=0.0 if kill else _STOP_S)


def up(
    spec: DevSpec, folder: Path | None = None, before_controller: Callable[[], None] | None = None
) -> DevCluster:
    """Start a cluster and wait until every node is idle.

    `folder` is the state folder: new or empty, and inside the chroot if there is one. None: a new one in
    /tmp. `before_controller` runs once munged does, such as to start slurmdbd. If the start fails or is
    interrupted, or this process is killed meanwhile, everything that it started is stopped again. A cluster
    that has come up outlives this process.

    Raises:
        DevClusterError: Slurm is not installed, the folder is in use, or the cluster did not come up.
    """
    version = slurm_version(spec.root)
    folder = _prepared(folder, spec.root)
    with guarded(folder) as hand_over:
        return _started(spec, folder, version, before_controller, hand_over)


def _started(
    spec: DevSpec,
    folder: Path,
    version: tuple[int, int],
    before_controller: Callable[[], None] | None,
    hand_over: Callable[[], None],
) -> DevCluster:
    """The cluster in a folder that is prepared for it. `hand_over`: see `_taken_down`."""
    cluster = DevCluster(spec, folder, version)
    try:
        with claimed_ports(spec.node_count + 1) as ports:
            write_files(spec, folder, version, ports)
            cluster.start_all(before_controller)
    except BaseException as error:
        left = log_ends(folder)
        if (folder / RECORD).exists():
            _taken_down(folder, hand_over)
        else:
            shutil.rmtree(folder)
        if isinstance(error, DevClusterError | AdapterError | NoFreePorts):
            raise DevClusterError(f"the cluster did not come up: {error}\n{left}".rstrip()) from error
        raise
    return cluster


def _taken_down(folder: Path, hand_over: Callable[[], None]) -> None:
    """Stop the cluster and remove the folder. If a second interrupt ends that, `hand_over` is called: then
    the guard does it.
    """
    try:
        down(folder)
    except DevClusterError:
        raise
    except BaseException:
        hand_over()
        raise


def down(folder: Path) -> tuple[str, ...]:
    """Stop the cluster of that state folder, even if another process started it, and remove the folder.

    Jobs are cancelled first, then the nodes stop, then slurmctld. Returns a sentence for each process that
    had to be killed. Does nothing if there is no cluster.

    Raises:
        DevClusterError: the folder belongs to no cluster, or a process did not end.
    """
    if not folder.exists() or not any(folder.iterdir()):
        return ()
    cluster = attach(folder)
    # What a job has started without an environment is known only while the job runs.
    known = cluster.processes()
    if _process(folder / "slurmctld.pid") is not None:
        # The jobs of a node that is gone complete for ever: their processes are ended below.
        with contextlib.suppress(DevClusterError, AdapterError):
            cluster.cancel_all(_STOP_S)
    killed: tuple[processes.Process, ...] = ()
    for name in _IN_ORDER:
        killed += processes.end(
            tuple(one for one in cluster.processes() if one.name == name), grace_s=_STOP_S
        )
    # A step or a job that outlived its slurmd is ended here.
    killed += processes.end_all(known, cluster.processes, grace_s=1.0)
    if left := cluster.processes():
        raise DevClusterError(
            "these processes did not end: " + ", ".join(f"{one.name} ({one.pid})" for one in left)
        )
    shutil.rmtree(folder)
    return tuple(f"{one.name} ({one.pid}) had to be killed" for one in killed)


def attach(folder: Path) -> DevCluster:
    """The cluster of a state folder, running or not. Raises DevClusterError if it is of no cluster."""
    try:
        record = json.loads((folder / RECORD).read_text())
        version = (record["version"][0], record["version"][1])
        spec = DevSpec(**record["spec"])
        spec = dataclasses.replace(
            spec,
            partitions=tuple(spec.partitions),
            gres=tuple(spec.gres),
            switches=tuple(spec.switches),
        )
        return DevCluster(spec, folder.resolve(), version)
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"{RECORD}: {error.strerror if isinstance(error, OSError) else error}"
        raise DevClusterError(f"{folder} is no state folder of a development cluster ({why})") from None


def status(folder: Path) -> Status:
    """What runs in a state folder. Raises DevClusterError if the folder belongs to no cluster."""
    cluster = attach(folder)
    try:
        answer = cluster.run("sinfo").rstrip()
    except (DevClusterError, AdapterError) as error:
        answer = str(error)
    return Status(folder=folder, running=cluster.processes(), answer=answer)


@contextlib.contextmanager
def dev_cluster(
    spec: DevSpec, folder: Path | None = None, before_controller: Callable[[], None] | None = None
) -> Generator[DevCluster, None, None]:
    """A cluster for a `with` block, as by `up`. It is stopped and removed at the end, also after an error,
    and also if this process is killed.
    """
    version = slurm_version(spec.root)
    folder = _prepared(folder, spec.root)
    with guarded(folder) as hand_over:
        cluster = _started(spec, folder, version, before_controller, hand_over)
        try:
            yield cluster
        finally:
            _taken_down(cluster.folder, hand_over)


def slurm_version(root: str | None = None) -> tuple[int, int]:
    """Year and month of the Slurm release that is installed here, or in a chroot.

    Raises:
        DevClusterError: Slurm, or a part of it, is missing, or it is in a chroot and this process is not
            root's.
    """
    if root is not None and os.geteuid() != 0:
        raise DevClusterError(f"only root can use the Slurm in the chroot {root}")
    try:
        for program in ("munged", "slurmd"):
            _checked(_bare_runner(root, {}).run((program, "-V")))
        text = _checked(_bare_runner(root, {}).run(("slurmctld", "-V")))
        year, month = text.split()[-1].split(".")[:2]
        return int(year), int(month)
    except (AdapterError, DevClusterError, ValueError) as error:
        where = f"in {root}: deploy/install-slurm-chroot.sh" if root else "here: deploy/install-slurm.sh"
        raise DevClusterError(f"no Slurm is installed {where} installs it ({error})") from None


def _prepared(folder: Path | None, root: str | None) -> Path:
    """The new state folder with its subfolders. Every user may enter it, as the jobs of other users
    have to.
    """
    if folder is None:
        base = Path(root or "/") / "tmp"
        folder = Path(tempfile.mkdtemp(prefix="makeway-dev-", dir=base))
    if folder.exists() and any(folder.iterdir()):
        raise DevClusterError(f"{folder} is not empty: `makeway devcluster down` removes what a cluster left")
    if root is not None and not folder.resolve().is_relative_to(Path(root).resolve()):
        raise DevClusterError(f"the state folder has to be inside the chroot {root}; {folder} is not")
    if len(str(inner_folder(folder, root))) > _FOLDER_CHARACTERS:
        raise DevClusterError(f"the name of the state folder is too long for a socket in it: {folder}")
    try:
        for name in (".", "state", "spool", "work"):
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name).chmod(0o755)
        (folder / "work").chmod(0o1777)
    except OSError as error:
        raise DevClusterError(f"{folder}: cannot be made: {error.strerror}") from error
    return folder.resolve()


def _runner(spec: DevSpec, folder: Path, *, marked: bool = False) -> CommandRunner:
    inner = str(inner_folder(folder, spec.root))
    environment = {"SLURM_CONF": f"{inner}/slurm.conf"}
    if marked:
        environment[processes.MARKER] = str(folder)
    return _bare_runner(spec.root, environment)


def _bare_runner(root: str | None, environment: dict[str, str]) -> CommandRunner:
    # A namespace of its own gives the chroot its /proc, which goes when the processes go: nothing is left
    # mounted.
    prefix = ("unshare", "--mount", f"--root={root}", "--wd=/", "--mount-proc=/proc") if root else ()
    return CommandRunner(environment=environment, prefix=prefix)


def _checked(done: CompletedCommand) -> str:
    if done.returncode != 0:
        raise DevClusterError(f"{' '.join(done.argv)}: {done.words or f'exit status {done.returncode}'}")
    return done.stdout


def _process(pid_file: Path) -> processes.Process | None:
    try:
        return processes.by_pid(int(pid_file.read_text()))
    except (OSError, ValueError):
        return None


def _until(what: str, true: Callable[[], bool], limit_s: float = _START_S) -> None:
    """Look again and again until it is true. Raises DevClusterError after `limit_s`, in seconds of an idle
    machine.
    """
    limit = TimeLimit(limit_s)
    since_s = time.monotonic()
    pause_s = _POLL_S
    while not true():
        if limit.passed():
            raise DevClusterError(f"waited {time.monotonic() - since_s:.0f} s in vain until {what}")
        time.sleep(pause_s)
        pause_s = min(_POLL_MOST_S, pause_s * _POLL_GROWTH)
