"""The one place that starts processes: an argument list, never a shell, a time-out and a limit on what it may
print.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO, Protocol

from makeway.adapters.protocol import Unavailable, Unreadable

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for, whatever the caller's own PATH."""
_CHUNK_BYTES = 1 << 16
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedCommand:
    """A command that ended by itself, and what it said."""

    argv: tuple[str, ...]
    returncode: int
    """Its exit status; minus the signal that ended it."""
    stdout: str
    stderr: str

    @property
    def words(self) -> str:
        """What it said, in one line: the error output, or else the output."""
        return " ".join((self.stderr.strip() or self.stdout.strip()).split())


class Runner(Protocol):
    """Runs commands: a `CommandRunner`, or a stand-in for one."""

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] = _NOTHING,
    ) -> CompletedCommand:
        """Run one command to its end, as `CommandRunner.run`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRunner:
    """Runs commands with an environment of their own: nothing of the caller's environment reaches them.

    Output is decoded as UTF-8; a byte that is none becomes a lone surrogate (`surrogateescape`), so that
    nothing is lost and nothing fails.
    """

    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to PATH, LC_ALL=C and TZ=UTC, which are always set."""
    prefix: tuple[str, ...] = ()
    """Put before every argument list, such as the words that enter a chroot."""
    folder: str = "/"
    """Where they run; with a prefix that enters a chroot, the prefix decides."""
    timeout_s: float = 10.0
    output_limit_bytes: int = 1 << 28
    """Both outputs together."""

    def run(
        self,
        argv: tuple[str, ...],
        *,
        timeout_s: float | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] = _NOTHING,
    ) -> CompletedCommand:
        """Run one command to its end.

        `timeout_s`: None: the runner's. `environment` is added to the runner's; `stdin` is what the command
        may read.

        Raises:
            Unavailable: it cannot be started, or did not end in time. It is killed, with whatever it started.
            Unreadable: it printed more than the limit. It is killed too.
            ValueError: an argument has a NUL byte.
        """
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        command = self.prefix + argv
        if any("\0" in word for word in command):
            raise ValueError(f"an argument with a NUL byte cannot be passed on: {command!r}")
        deadline_s = time.monotonic() + limit_s
        variables = {"PATH": SEARCH_PATH, "LC_ALL": "C", "TZ": "UTC", **self.environment, **environment}
        process = _start(command, variables, self.folder, stdin)
        try:
            stdout, stderr, why = _read(process, deadline_s, self.output_limit_bytes)
        except BaseException:
            _kill(process)
            raise
        if why is None:
            try:
                process.wait(timeout=max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                why = "late"
        if why is not None:
            _kill(process)
        if why == "late":
            raise Unavailable(f"{argv[0]} gave no answer within {limit_s:g} s")
        if why == "long":
            message = f"{argv[0]} printed more than {self.output_limit_bytes} bytes"
            raise Unreadable(message, command=argv, text=_decode(stdout[:_CHUNK_BYTES]))
        return CompletedCommand(
            argv=argv, returncode=process.returncode, stdout=_decode(stdout), stderr=_decode(stderr)
        )


def _start(
    command: tuple[str, ...], environment: dict[str, str], folder: str, stdin: bytes
) -> subprocess.Popen[bytes]:
    # A file in memory, not a pipe: no thread has to write while the command reads.
    with os.fdopen(os.memfd_create("stdin"), "w+b") as given:
        given.write(stdin)
        given.seek(0)
        try:
            return subprocess.Popen(
                [os.fsencode(word) for word in command],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"{command[0]} cannot be started in {folder}: {error.strerror}") from None


def _read(
    process: subprocess.Popen[bytes], deadline_s: float, limit_bytes: int
) -> tuple[bytearray, bytearray, str | None]:
    """Both outputs to their ends; the third value says why it stopped before: "late", "long", or None."""
    assert process.stdout is not None
    assert process.stderr is not None
    outputs: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    size = 0
    why = None
    with process.stdout, process.stderr, selectors.DefaultSelector() as selector:
        for stream in outputs:
            selector.register(stream, selectors.EVENT_READ, stream)
        while selector.get_map() and why is None:
            ready = selector.select(max(0.0, deadline_s - time.monotonic()))
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if chunk:
                    outputs[key.data] += chunk
                else:
                    selector.unregister(key.fileobj)
                size += len(chunk)
            if size > limit_bytes:
                why = "long"
            elif not ready:
                why = "late"
    return outputs[process.stdout], outputs[process.stderr], why


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the command and whatever it started in its session; it leads a process group of its own."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    process.wait()


def _decode(data: bytearray) -> str:
    return data.decode("utf-8", "surrogateescape")
