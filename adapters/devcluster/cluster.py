"""A real Slurm on this machine for development: on loopback, in a folder of its own, gone without a trace afterwards.

Nothing of the machine's own Slurm or munge is touched: the cluster has its own configuration, key, sockets, ports and
state. It needs the programs that `deploy/install-slurm.sh` installs.
"""

import contextlib
import dataclasses
import json
import os
import pwd
import random
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from makeway.adapters.command import CommandRunner, CompletedCommand
from makeway.adapters.devcluster import processes
from makeway.adapters.devcluster.conf import DevSpec, cgroup_conf, gres_conf, slurm_conf, topology_conf
from makeway.adapters.protocol import AdapterError

_START_S = 30.0
_NODE_START_S = 0.5
"""What each node may add to that: a hundred slurmd start one after another, on a machine that has other work."""
_STOP_S = 20.0
_POLL_S = 0.05
_PORTS = range(20000, 32000)
"""Below the ports that Linux hands out by itself."""
_RECORD = "devcluster.json"
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
    """A development cluster that cannot be started, used or stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is left of, or runs in, a state folder."""

    folder: Path
    running: tuple[processes.Process, ...]
    """Its processes."""
    answer: str
    """What `sinfo` says of it, or why it says nothing."""


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
        return _inner(self.folder, self.spec.root)

    @property
    def runner(self) -> CommandRunner:
        """Runs Slurm's commands on this cluster."""
        return _runner(self.spec, self.folder)

    def run(self, *argv: str, stdin: bytes = b"") -> str:
        """Run one command on this cluster and return its output. Raises DevClusterError if it fails."""
        return _checked(self.runner.run(argv, stdin=stdin, timeout_s=_START_S))

    def submit(self, script: str, *options: str) -> str:
        """Submit a batch job whose script is `script` (its first line is added). Returns the job id."""
        argv = ("sbatch", "--parsable", f"--chdir={self.inner_folder}/work", "--output=job-%j.out", *options)
        return self.run(*argv, stdin=f"#!/bin/bash\n{script}\n".encode()).strip().split(";")[0]

    def output(self, job_id: str) -> str:
        """What the job has printed so far."""
        path = self.folder / "work" / f"job-{job_id}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def start_controller(self) -> None:
        """Start slurmctld with the state that it left, and wait until it answers."""
        self._start("slurmctld", "-i")
        _until("slurmctld answers", self._answers)

    def stop_controller(self, *, kill: bool = False) -> None:
        """Stop slurmctld; with `kill` without a chance to save anything."""
        self._stop(self.folder / "slurmctld.pid", kill=kill)

    def start_node(self, node: str) -> None:
        """Start the slurmd of a node."""
        self._start("slurmd", "-N", node)

    def stop_node(self, node: str, *, kill: bool = False) -> None:
        """Stop the slurmd of a node; its steps go on."""
        self._stop(self.folder / f"slurmd.{node}.pid", kill=kill)

    def log_end(self, lines: int = 20) -> str:
        """The last lines of slurmctld's log."""
        return "\n".join((self.folder / "slurmctld.log").read_text(errors="replace").splitlines()[-lines:])

    def await_idle(self) -> None:
        """Wait until every node is idle. Raises DevClusterError if one does not become so."""
        _until("every node is idle", self._idle, _START_S + _NODE_START_S * len(self.spec.nodes))

    def cancel_all(self, timeout_s: float = _START_S) -> None:
        """Cancel every job and wait until no job holds a node. Raises DevClusterError if one does not end in time."""
        _until("every job has ended", self._cancelled, timeout_s)

    def processes(self) -> tuple[processes.Process, ...]:
        """Its daemons, and the processes of its jobs."""
        return processes.of_cluster(str(self.inner_folder), self.spec.root or "/")

    def _answers(self) -> bool:
        if self.runner.run(("scontrol", "ping"), timeout_s=_START_S).returncode == 0:
            return True
        if all(process.name != "slurmctld" for process in self.processes()):
            raise DevClusterError("slurmctld has ended")
        return False

    def _idle(self) -> bool:
        states = self.run("sinfo", "-h", "-N", "-o", "%N %t").splitlines()
        return {line for line in states if line.endswith(" idle")} == {
            f"{node} idle" for node in self.spec.nodes
        }

    def _cancelled(self) -> bool:
        rows = {tuple(line.split("|")) for line in self.run("squeue", "-h", "-o", "%A|%t|%N").splitlines()}
        # An allocation that could not be merged into a job may be completing for ever, without nodes.
        left = sorted(job_id for job_id, state, nodes in rows if (state, nodes) != ("CG", ""))
        if left:
            # It may have ended meanwhile; the next look tells.
            self.runner.run(("scancel", "--quiet", *left), timeout_s=_START_S)
        return not left

    def _start(self, *argv: str) -> None:
        _checked(_runner(self.spec, self.folder, marked=True).run(argv, timeout_s=_START_S))

    def _stop(self, pid_file: Path, *, kill: bool) -> None:
        process = _process(pid_file)
        if process is not None:
            processes.end((process,), grace_s=0.0 if kill else _STOP_S)


def up(spec: DevSpec, folder: Path | None = None) -> DevCluster:
    """Start a cluster and wait until every node is idle.

    `folder` is the state folder: new or empty, inside the chroot if there is one. None: a new one where temporary files
    are. Whatever was started is stopped again if the start fails or is interrupted.

    Raises:
        DevClusterError: Slurm is not installed, the folder is in use, or the cluster did not come up.
    """
    version = slurm_version(spec.root)
    folder = _prepared(folder, spec.root)
    try:
        _write(spec, folder, version)
        cluster = DevCluster(spec, folder, version)
        inner = cluster.inner_folder
        munge = [f"--{what}={inner}/munge.{end}" for what, end in _MUNGE_FILES]
        cluster._start("munged", "--num-threads=2", *munge)
        cluster.start_controller()
        for node in spec.nodes:
            cluster.start_node(node)
        cluster.await_idle()
    except BaseException as error:
        left = _log_ends(folder)
        if (folder / _RECORD).exists():
            down(folder)
        else:
            shutil.rmtree(folder)
        if isinstance(error, DevClusterError | AdapterError):
            raise DevClusterError(f"the cluster did not come up: {error}\n{left}".rstrip()) from error
        raise
    return cluster


def down(folder: Path) -> tuple[str, ...]:
    """Stop the cluster of that state folder, whoever started it, and remove the folder.

    Jobs are cancelled first, then the nodes stop, then slurmctld. Returns a sentence for each process that had to be
    killed. Does nothing where no cluster is.

    Raises:
        DevClusterError: the folder is no cluster's, or a process would not go.
    """
    if not folder.exists() or not any(folder.iterdir()):
        return ()
    cluster = attach(folder)
    if _process(folder / "slurmctld.pid") is not None:
        # A node that is gone keeps its jobs completing: then they end with their processes, below.
        with contextlib.suppress(DevClusterError, AdapterError):
            cluster.cancel_all(_STOP_S)
    killed: list[processes.Process] = []
    for name in ("slurmd", "slurmctld", "munged"):
        killed += processes.end(
            tuple(one for one in cluster.processes() if one.name == name), grace_s=_STOP_S
        )
    # A step or a job that outlived its slurmd has nobody to end it.
    killed += processes.end(cluster.processes(), grace_s=1.0)
    if left := cluster.processes():
        raise DevClusterError("still there: " + ", ".join(f"{one.name} ({one.pid})" for one in left))
    shutil.rmtree(folder)
    return tuple(f"{one.name} ({one.pid}) had to be killed" for one in killed)


def attach(folder: Path) -> DevCluster:
    """The cluster of a state folder, running or not. Raises DevClusterError if the folder is no cluster's."""
    try:
        record = json.loads((folder / _RECORD).read_text())
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
        raise DevClusterError(f"{folder} is no state folder of a development cluster ({error})") from None


def status(folder: Path) -> Status:
    """What runs in a state folder. Raises DevClusterError if the folder is no cluster's."""
    cluster = attach(folder)
    try:
        answer = cluster.run("sinfo").rstrip()
    except (DevClusterError, AdapterError) as error:
        answer = str(error)
    return Status(folder=folder, running=cluster.processes(), answer=answer)


@contextlib.contextmanager
def dev_cluster(spec: DevSpec, folder: Path | None = None) -> Iterator[DevCluster]:
    """A cluster for the length of a `with` block; stopped and removed at its end, however it ends."""
    cluster = up(spec, folder)
    try:
        yield cluster
    finally:
        down(cluster.folder)


def slurm_version(root: str | None = None) -> tuple[int, int]:
    """Year and month of the Slurm release that is installed here, or in a chroot.

    Raises:
        DevClusterError: there is none, or not all of it, or it is in a chroot and we are not root.
    """
    if root is not None and os.geteuid() != 0:
        raise DevClusterError(f"root alone can use the Slurm in the chroot {root}")
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
    """The state folder, new, with its subfolders; everybody may enter it, as jobs of other users have to."""
    if folder is None:
        base = Path(root or "/") / "tmp"
        folder = Path(tempfile.mkdtemp(prefix="makeway-dev-", dir=base))
    if folder.exists() and any(folder.iterdir()):
        raise DevClusterError(f"{folder} is not empty: `makeway devcluster down` clears what a cluster left")
    if root is not None and not folder.resolve().is_relative_to(Path(root).resolve()):
        raise DevClusterError(f"the state folder has to be inside the chroot {root}, and {folder} is not")
    if len(str(_inner(folder, root))) > _FOLDER_CHARACTERS:
        raise DevClusterError(f"the name of the state folder is too long for a socket in it: {folder}")
    for name in (".", "state", "spool", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name).chmod(0o755)
    (folder / "work").chmod(0o1777)
    return folder.resolve()


def _write(spec: DevSpec, folder: Path, version: tuple[int, int]) -> None:
    """Write the record, the configuration and the key."""
    record = {"spec": dataclasses.asdict(spec), "version": version}
    (folder / _RECORD).write_text(json.dumps(record, indent=2) + "\n")
    host = socket.gethostname().split(".")[0]
    if spec.root is not None:
        # Inside the chroot the name of this machine means loopback, whatever it means outside.
        (Path(spec.root) / "etc" / "hosts").write_text(f"127.0.0.1 localhost {host}\n")
    texts = {
        "slurm.conf": slurm_conf(
            spec,
            folder=_inner(folder, spec.root),
            host=host,
            address="127.0.0.1" if spec.root else _loopback_address(host),
            user=pwd.getpwuid(os.getuid()).pw_name,
            ports=_free_ports(spec.node_count + 1),
        ),
        "cgroup.conf": cgroup_conf(version),
        "gres.conf": gres_conf(spec),
        "topology.conf": topology_conf(spec),
    }
    for name, text in texts.items():
        if text is not None:
            (folder / name).write_text(text)
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))


def _free_ports(count: int) -> range:
    """So many ports in a row that nobody listens on."""
    for _ in range(100):
        first = random.randrange(_PORTS.start, _PORTS.stop - count)
        if all(_free(port) for port in range(first, first + count)):
            return range(first, first + count)
    raise DevClusterError(f"no {count} free ports in a row between {_PORTS.start} and {_PORTS.stop}")


def _free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _loopback_address(host: str) -> str | None:
    """What the name of this machine resolves to, if that is a loopback address."""
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return None
    return address if address.startswith("127.") else None


def _inner(folder: Path, root: str | None) -> PurePosixPath:
    if root is None:
        return PurePosixPath(folder)
    return PurePosixPath("/") / folder.resolve().relative_to(Path(root).resolve())


def _runner(spec: DevSpec, folder: Path, *, marked: bool = False) -> CommandRunner:
    inner = str(_inner(folder, spec.root))
    environment = {"SLURM_CONF": f"{inner}/slurm.conf"}
    if marked:
        environment[processes.MARKER] = inner
    return _bare_runner(spec.root, environment)


def _bare_runner(root: str | None, environment: dict[str, str]) -> CommandRunner:
    # A namespace of its own gives the chroot its /proc, which goes when the processes go: nothing is left mounted.
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


def _until(what: str, true: Callable[[], bool], timeout_s: float = _START_S) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline_s:
            raise DevClusterError(f"waited {timeout_s:g} s in vain until {what}")
        time.sleep(_POLL_S)


def _log_ends(folder: Path) -> str:
    """The last lines of the logs of a cluster that did not come up."""
    ends = []
    for path in (folder / "munge.log", folder / "slurmctld.log", folder / "slurmd.n1.log"):
        if path.exists():
            ends += [f"{path.name}: {line}" for line in path.read_text(errors="replace").splitlines()[-5:]]
    return "\n".join(ends)
