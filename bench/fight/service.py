"""A process that serves while others use it."""

import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from makeway.adapters.command import SEARCH_PATH
from makeway.adapters.devcluster.load import TimeLimit

START_S = 60.0
"""How long a start may take, in seconds of an idle machine."""
_STOP_S = 30.0


class NotServing(Exception):
    """A service is not installed or did not start."""


@contextmanager
def serving(
    argv: tuple[str, ...], log: Path, environment: Mapping[str, str], ready: Callable[[], bool]
) -> Generator[None, None, None]:
    """A process for a `with` block, once it is ready. It is ended at the block's end.

    Args:
        argv: its command.
        log: gets what it prints.
        environment: added to PATH, LC_ALL=C and TZ=UTC.
        ready: whether it serves.

    Raises:
        NotServing: it cannot be started, or is not ready in time.
    """
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                # It ends with this process, even if this one is killed.
                ("setpriv", "--pdeathsig", "TERM", *argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": SEARCH_PATH, "LC_ALL": "C", "TZ": "UTC", **environment},
                # An interrupt of the terminal must not end it before those that use it.
                start_new_session=True,
            )
        except OSError as error:
            raise NotServing(f"{argv[0]} cannot be started: {error.strerror}") from None
    try:
        limit = TimeLimit(START_S)
        while not ready():
            if process.poll() is not None or limit.passed():
                what = "is not ready" if process.returncode is None else "has ended"
                raise NotServing(f"{argv[0]} {what}: {log.read_text(errors='replace')[-800:]}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
