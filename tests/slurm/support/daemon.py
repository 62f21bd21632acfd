"""The daemon's process with a real Slurm, and its configuration."""

import json
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from makeway.adapters.command import at_death
from makeway.adapters.devcluster.cluster import DevCluster
from makeway.daemon.errors import UserError
from makeway.daemon.journal.codec import StoredCommand
from makeway.daemon.journal.errors import JournalError
from makeway.daemon.journal.store import Journal
from makeway.daemon.service.socket_api import request
from makeway.policies.model import Operation
from tests.forked import Printed, Program, printed
from tests.waiting import await_that, limit_s, meanwhile

_Row = TypeVar("_Row")

BRIEF_S = 25.0
"""Within which time an urgent job has to start where a test waits for that time, in seconds of an idle
machine.
"""
MOST_SLOWDOWN = 5.0
"""By how much a busy machine makes a deadline longer at most. Some tests wait for it."""
POLL_S = 2.0
"""How often a daemon of the tests looks without an occasion: sixteen of them run at the same time."""
COMMANDS = ("squeue", "scontrol", "scancel", "salloc")
READS_ACCOUNTING = "sacctmgr"
CONFIGURATION = """
mode: {mode}
adapter:
  type: slurm
  conf: {conf}
  bin_dir: {bin_dir}
  timeout_s: {timeout_s}
  placements: {placements}
  classes:
  - name: urgent
    accounts: [urgent]
    kind: on_demand
    start_within_s: {start_within_s}
  - name: saving
    accounts: [saving]
    preemptible: true
    checkpoint: {{system_s: 1, grace_s: {grace_s}}}
  - name: leaving
    accounts: [leaving]
    preemptible: true
    checkpoint: {{system_s: 1, grace_s: {grace_s}, acknowledgement: exit}}
  - name: requeueing
    accounts: [requeueing]
    preemptible: true
    checkpoint: {{system_s: 1, grace_s: {grace_s}, acknowledgement: requeue}}
  - name: hasty
    accounts: [hasty]
    preemptible: true
    checkpoint: {{system_s: 1, grace_s: 3}}
  - name: malleable
    accounts: [malleable]
    preemptible: true
    kind: malleable
    node_count_min: 2
  - name: elastic
    accounts: [elastic]
    preemptible: true
    kind: malleable
    node_count_min: 2
    checkpoint: {{system_s: 1, grace_s: {grace_s}}}
policy:
  name: {policy}
  settings: {settings}
poll_interval_s: {poll_interval_s}
poke_gap_s: 0.1
limits: {{min_runtime_s: 1}}
timeouts: {{settle_s: {settle_s}, retry_s: 1, linger_s: {linger_s}}}
journal: journal.sqlite
socket: daemon.sock
backoff_max_s: 1
metrics: {{enabled: false}}
leader: {leader}
"""

POLICY_SETTINGS = {
    "eviction": "{margin_s: 5, step_s: 1, kills: at_once}",
    # Every start waits for its deadline, in its hold.
    "least-price": "{margin_s: 5, leave_s: 10, step_s: 1, waiting_machine_hours: 0, kills: at_once}",
    "n-spaa": "{}",
    # A job that starts before its turn may be asked to leave a few seconds later.
    "ckpt-backfill": "{p: 0.001}",
    "cua-spaa": "{warning_s: 5}",
    # Long enough for a job to save its work although the daemon dies meanwhile.
    "cua-paa": "{warning_s: 60}",
    "cup-paa": "{warning_s: 5}",
    "horizon": "{work: 5}",
    "wcjs": "{}",
}
STEP = """
step="{name} $1 $2 ${{3%%=*}}"
[ "$1" != -vvv ] || step="{name} $2 $3 ${{4%%=*}}"
step=$(printf %s "$step" | tr -c A-Za-z0-9 _)
case "{name} $1" in
scontrol\\ create | scontrol\\ update | scontrol\\ delete | scontrol\\ requeue) ;;
scontrol\\ release | scancel* | salloc*) ;;
*) step= ;;
esac
case "$step" in {only}*) ;; *) step= ;; esac
[ -z "{only}" ] || [ -z "$(ls "{folder}/steps")" ] || step=
"""
"""What a command does, without numbers that change; empty for those that only read."""
KILL = """
end() {{
    pid=$(cat {pid})
    kill -9 "$pid"
    while grep -qs '^State:[[:space:]]*[^XZ[:space:]]' "/proc/$pid/status"; do sleep 0.02; done
}}
"""
"""Kills a process and waits until it is dead, or a zombie that its parent has not looked at."""
KILLING = {
    "before": STEP
    + KILL
    + """
if [ -n "$step" ] && mkdir "{folder}/steps/$step" 2>/dev/null; then
    {first}
    end
    [ "{target}" = controller ] || exit 1
fi
""",
    "after": STEP
    + KILL
    + """
if [ -n "$step" ] && mkdir "{folder}/steps/$step" 2>/dev/null; then
    {first}
    {enter} "$@"
    status=$?
    end
    exit "$status"
fi
""",
}
"""Kills the first time that a step comes."""
AWAIT_SAVE = """saved="saved-$$-$(date +%s%N)"
    while ! grep -qs "$saved" "{saved}"; do
        first="$({prefix}squeue -h -o %A | head -n 1)"
        {prefix}scontrol update JobId="$first" AdminComment="$saved" || sleep 1
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            grep -qs "$saved" "{saved}" && break
            sleep 0.1
        done
    done
"""
"""Changes a job and waits until the change is in slurmctld's saved state, and with it everything before.

slurmctld saves all jobs some seconds after a request has changed one. A start by its backfill alone is not
saved.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killing:
    """A process that is killed at every command that changes something."""

    target: Literal["daemon", "controller"]
    when: Literal["before", "after"]
    step: str = ""
    """Kill only at the first command whose name in `DaemonProcess.steps` begins so. Empty: at each
    command.
    """
    saved: bool = False
    """The command waits until slurmctld has saved what came before it, so that only the command can be
    forgotten.
    """


class DaemonProcess:
    """The daemon of a configuration in a folder of its own; may be killed and started again.

    Args:
        cluster: the Slurm.
        folder: for configuration, journal, socket and log.
        mode: observe or act.
        policy: one of `POLICY_SETTINGS`.
        start_within_s: the deadline of urgent jobs after their submission, in seconds of an idle machine. A
            test that waits for the deadline wants it short.
        waited_s: how long the urgent job of the test has waited already, which comes on top, in seconds.
        killing: who is killed at the commands. None: nobody.
        lease_s: how long its lease lasts. None: it takes none, and is the only daemon.
        placements: any or topology. None: topology, if the cluster has one.
    """

    def __init__(
        self,
        cluster: DevCluster,
        folder: Path,
        mode: str,
        *,
        policy: str = "eviction",
        poll_interval_s: float = POLL_S,
        start_within_s: float | None = None,
        waited_s: float = 0.0,
        killing: Killing | None = None,
        lease_s: float | None = None,
        placements: str | None = None,
        linger_s: float = 0.0,
    ) -> None:
        self.folder = folder
        self.config = folder / "makeway.yaml"
        self.socket = folder / "daemon.sock"
        if killing is not None and start_within_s is None:
            # A job whose signal is in doubt, or whose acknowledgement is lost, has until the deadline.
            start_within_s = BRIEF_S
        if start_within_s is not None:
            self.start_within_s = round(min(MOST_SLOWDOWN * start_within_s, limit_s(start_within_s)))
        else:
            self.start_within_s = 150
        self.start_within_s += round(waited_s)
        daemon_dies = killing is not None and killing.target == "daemon"
        self._configured: dict[str, object] = {
            "mode": mode,
            "conf": cluster.inner_folder / "slurm.conf",
            "bin_dir": _wrappers(cluster, folder, killing) or "null",
            "placements": placements or ("topology" if cluster.spec.switches else "any"),
            "poll_interval_s": poll_interval_s,
            "timeout_s": min(600, round(limit_s(60.0))) if lease_s is None else lease_s / 3,
            "leader": "{enabled: false}" if lease_s is None else f"{{lease_s: {lease_s:g}}}",
            "start_within_s": self.start_within_s,
            # Within it a job that left has to start again, before the next of the queue takes its nodes.
            "settle_s": min(10, round(limit_s(3.0))),
            "linger_s": linger_s,
            # On a busy machine a daemon that is killed again and again takes longer. The jobs then have
            # longer to save, so that their grace is not over before the daemon is back. Not where slurmctld
            # is killed: what a job acknowledges meanwhile is lost.
            "grace_s": self.start_within_s * 3 // 4 if daemon_dies else min(30, self.start_within_s // 2),
        }
        self._process: Program | None = None
        self.use_policy(policy)

    def use_policy(self, policy: str) -> None:
        """Write the configuration with one of `POLICY_SETTINGS`, for the next start."""
        settings = POLICY_SETTINGS[policy]
        self.config.write_text(CONFIGURATION.format(policy=policy, settings=settings, **self._configured))

    def start(self, *, sees: bool = True) -> None:
        """Start it, and wait until it has looked at the cluster; `sees` says whether it is to see something
        there.
        """
        self._spawn()
        self.await_sight(sees=sees)

    def await_sight(self, *, sees: bool = True) -> None:
        """Wait until its last look at the cluster was a success, or with `sees` false until it failed."""

        def seen() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"the daemon has ended: {self.log()}"
            return self._sees() is sees

        await_that("the daemon looks at the cluster", seen, self.log)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int | None:
        """End it by a signal. Returns its exit status; None if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(number)
        try:
            return process.wait(limit_s())
        finally:
            process.kill()

    def ends_by_itself(self) -> int:
        """Wait for its end, without a signal. Returns its exit status."""
        assert self._process is not None
        process, self._process = self._process, None
        try:
            return process.wait(limit_s())
        finally:
            process.kill()

    def restarted(self) -> AbstractContextManager[None]:
        """In a `with` block it is started again whenever it has died, as its service would do."""

        def look() -> None:
            if self._process is not None and self._process.poll() is not None:
                self._spawn()

        return meanwhile(look)

    def guarded(self) -> AbstractContextManager[object]:
        """For a `with` block: if this process dies in it, the daemon is killed."""
        # The process of the number in the file is the daemon if its log is open in it.
        kill = 'pid=$(cat "$1") && [ "$2" = "$(readlink /proc/$pid/fd/2)" ] && kill -9 "$pid"'
        return at_death(("sh", "-c", kill, "sh", str(self.folder / "pid"), str(self.folder / "log")))

    def steps(self) -> set[str]:
        """The commands at which a process was killed."""
        return {path.name for path in (self.folder / "bin" / "steps").iterdir()}

    def _spawn(self) -> None:
        process = Program(("run", "--config", str(self.config)), stderr=self.folder / "log")
        written = self.folder / "pid.new"  # who reads the file never finds it empty
        written.write_text(str(process.pid))
        written.replace(self.folder / "pid")
        self._process = process

    def log(self) -> str:
        """What it has logged."""
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def run(self, *arguments: str) -> Printed:
        """Run another command with the same configuration."""
        return printed((*arguments, "--config", str(self.config)), limit_s=limit_s())

    def told(self, *arguments: str) -> Any:
        """The JSON that a command prints."""
        done = self.run(*arguments, "--json")
        assert done.status == 0, done.stderr + done.stdout
        return json.loads(done.stdout)

    def operations(self) -> tuple[Operation, ...]:
        """The operations that are open in its journal."""
        return self._of_journal(Journal.open_operations)

    def commands(self) -> tuple[StoredCommand, ...]:
        """Every command that its journal has."""
        return self._of_journal(Journal.commands)

    def signals(self) -> int:
        """How often it set about to signal a job."""
        return sum(command.action.verb == "checkpoint" for command in self.commands())

    def status(self) -> dict[str, Any]:
        """What its socket reports."""
        told: dict[str, Any] = request(self.socket, {"command": "status"}, wait_s=limit_s())["status"]
        return told

    def _of_journal(self, read: Callable[[Journal], tuple[_Row, ...]]) -> tuple[_Row, ...]:
        """What the journal says, once it can be read: a test may have deleted it."""
        found: list[tuple[_Row, ...]] = []

        def is_read() -> bool:
            try:
                with closing(Journal(self.folder / "journal.sqlite", read_only=True)) as journal:
                    found[:] = [read(journal)]
            except JournalError:
                return False
            return True

        await_that("the journal can be read", is_read, self.log)
        return found[0]

    def _sees(self) -> bool | None:
        """Whether its last look at the cluster was a success. None: it has not looked yet."""
        try:
            told = self.status()
        except UserError:
            return None
        return bool(told["failures"] == 0) if told["cycles"] else None


def _wrappers(cluster: DevCluster, folder: Path, killing: Killing | None) -> Path | None:
    """A folder with Slurm's commands that run inside a chroot, or kill. None: the commands as they are will
    do.
    """
    root = cluster.spec.root
    if root is None and killing is None:
        return None
    found = folder / "bin"
    (found / "steps").mkdir(parents=True, exist_ok=True)
    prefix = f"unshare --mount --root={root} --wd=/ --mount-proc=/proc " if root else "/usr/bin/"
    for name in (*COMMANDS, READS_ACCOUNTING):
        enter = f"{prefix}{name}"
        script = f'exec {enter} "$@"\n'
        if killing is not None and name in COMMANDS:
            pid_file = folder / "pid" if killing.target == "daemon" else cluster.folder / "slurmctld.pid"
            saved = cluster.folder / "state" / "job_state"
            script = (
                KILLING[killing.when].format(
                    name=name,
                    folder=found,
                    enter=enter,
                    pid=pid_file,
                    target=killing.target,
                    only=killing.step,
                    first=AWAIT_SAVE.format(folder=found, saved=saved, prefix=prefix)
                    if killing.saved
                    else ":",
                )
                + script
            )
        (found / name).write_text(f"#!/bin/sh\n{script}")
        (found / name).chmod(0o755)
    return found
