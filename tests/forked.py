"""makeway in processes that are forked from one that has imported it.

A start of Python that imports the daemon takes more than half a second of processor time, and the tests on a
real Slurm start it many hundred times. Everything from the command line on is the same. Other tests start the
program as a user does.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

_IMPORTED = (
    "makeway.adapters.slurm.adapter",
    "makeway.adapters.slurm.entry_point",
    "makeway.adapters.slurm.entitlement.reader",
    "makeway.daemon.cli.main",
    "makeway.daemon.config.load",
    "makeway.daemon.service.service",
    "makeway.policies.ckpt_backfill.policy",
    "makeway.policies.hybrid.policy",
    "makeway.policies.least_price.policy",
    "makeway.policies.wcjs.policy",
    "pydantic.type_adapter",
)
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, *_IMPORTED])


class Program:
    """A process of makeway.

    Args:
        arguments: the command line without the program's name.
        stderr: the file to which standard error is appended.
        stdout: the same for standard output. None: that of the tests.
    """

    def __init__(self, arguments: Sequence[str], *, stderr: Path, stdout: Path | None = None) -> None:
        self._process = _context.Process(
            target=_run, args=(tuple(arguments), dict(os.environ), stderr, stdout)
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Its exit status, negative if a signal has ended it. None: it runs."""
        return self._process.exitcode

    def wait(self, limit_s: float) -> int:
        """Wait for its end. Returns its exit status.

        Raises:
            TimeoutError: it still runs after `limit_s` seconds.
        """
        self._process.join(limit_s)
        if self._process.exitcode is None:
            raise TimeoutError(f"process {self.pid} still runs after {limit_s:.0f} s")
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self._process.is_alive():
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it, if it still runs."""
        self._process.kill()


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What a command of the program printed."""

    status: int
    stdout: str
    stderr: str


def printed(arguments: Sequence[str], *, limit_s: float) -> Printed:
    """Run a command of the program to its end, which has to come within `limit_s` seconds."""
    with TemporaryDirectory() as folder:
        stdout, stderr = Path(folder, "stdout"), Path(folder, "stderr")
        program = Program(arguments, stdout=stdout, stderr=stderr)
        try:
            status = program.wait(limit_s)
        finally:
            program.kill()
        return Printed(status=status, stdout=stdout.read_text(), stderr=stderr.read_text())


def _run(arguments: tuple[str, ...], environment: dict[str, str], stderr: Path, stdout: Path | None) -> None:
    """The whole life of a process after its fork."""
    # Imported before the fork.
    from makeway.daemon.cli.main import main

    os.environ.clear()
    os.environ.update(environment)
    for stream, path in ((sys.stdout, stdout), (sys.stderr, stderr)):
        if path is not None:
            with path.open("ab") as file:
                os.dup2(file.fileno(), stream.fileno())
    sys.argv = ["makeway", *arguments]
    sys.exit(main())
