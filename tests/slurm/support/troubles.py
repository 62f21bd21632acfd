"""What goes wrong while a story runs on a real Slurm: all from one seed."""

import os
import signal
import time
from collections import Counter
from contextlib import suppress
from random import Random

from makeway.adapters.devcluster.processes import Process
from tests.slurm.support.daemon import DaemonProcess
from tests.slurm.support.story import Story
from tests.waiting import await_that

_LONGEST_GAP_S = 5.0
_LONGEST_HANG_S = 6.0


class Troubles:
    """Random troubles of a daemon and its slurmctld, which are both started again when they have died.

    Args:
        story: its cluster. A held job is added, by which is seen what slurmctld has saved.
        daemon: runs, or is started again soon.
        seed: the same seed gives the same troubles, at other moments.
    """

    def __init__(self, story: Story, daemon: DaemonProcess, seed: int) -> None:
        self.happened: Counter[str] = Counter()
        self._story = story
        self._daemon = daemon
        self._random = Random(seed)
        self._marker = story.submit("exec true", 1, "other", "--hold")
        self._kinds = (self.kill_daemon, self.kill_controller, self.hang_controller, self.delete_journal)

    def happen(self, count: int) -> None:
        """So many troubles, one after another."""
        for _ in range(count):
            time.sleep(self._random.uniform(0.0, _LONGEST_GAP_S))
            (trouble,) = self._random.choices(self._kinds, weights=(5, 3, 2, 1))
            self.happened[trouble.__name__] += 1
            trouble()

    def kill_daemon(self) -> None:
        """SIGKILL at any instant."""
        with suppress(ProcessLookupError):
            os.kill(int((self._daemon.folder / "pid").read_text()), signal.SIGKILL)

    def kill_controller(self) -> None:
        """SIGKILL soon after slurmctld has saved: Slurm itself loses a job whose start it has forgotten."""
        cluster = self._story.world.cluster
        saved = cluster.folder / "state" / "job_state"
        mark = f"mark-{time.monotonic_ns()}".encode()

        def in_saved_state() -> bool:
            self._story.ask("scontrol", "update", f"JobId={self._marker}", f"AdminComment={mark.decode()}")
            with suppress(FileNotFoundError):  # slurmctld is about to replace it
                return mark in saved.read_bytes()
            return False

        await_that("slurmctld saves its state", in_saved_state, cluster.log_end)
        cluster.stop_controller(kill=True)

    def hang_controller(self) -> None:
        """slurmctld does not run for some seconds, then goes on."""
        controllers = [one for one in self._story.world.cluster.processes() if one.name == "slurmctld"]
        try:
            self._signal(controllers, signal.SIGSTOP)
            time.sleep(self._random.uniform(1.0, _LONGEST_HANG_S))
        finally:
            self._signal(controllers, signal.SIGCONT)

    def delete_journal(self) -> None:
        """The files of the journal go while the daemon runs, or between two of its lives."""
        for path in self._daemon.folder.glob("journal.sqlite*"):
            path.unlink(missing_ok=True)

    def _signal(self, controllers: list[Process], number: signal.Signals) -> None:
        for process in controllers:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)
