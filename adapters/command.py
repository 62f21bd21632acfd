"""The one place that starts processes: an argument list, never a shell, a time-out and a limit on what it may
print.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO, Protocol

from makeway.adapters.protocol import Unavailable, Unreadable

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for, whatever the caller's own PATH."""
_CHUNK_BYTES = 1 << 16
_KEPT_ERRORS = 4096
"""How much of the error output of a program that is kept running is remembered, in bytes."""
_END_S = 5.0
"""How long a program that has closed its output may take to end."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_GUARD = 'exec 3<&0; { read -r word <&3 || exec "$@" 3<&-; } &'
"""A script that runs its arguments as a command if its input ends before a line comes. It waits in the
background, where a shell takes standard input away.
"""
_GUARDED: set[int] = set()
"""The ends of the pipes that this process holds while guards wait for its death."""


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
        take: Callable[[bytes], object] | None = None,
        until: str = "",
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
        take: Callable[[bytes], object] | None = None,
        until: str = "",
    ) -> CompletedCommand:
        """Run one command to its end.

        `timeout_s`: None: the runner's. `environment` is added to the runner's; `stdin` is what the command
        may read. `take` gets the output in pieces while the command runs, and `stdout` is then empty; it has
        to be quick, since its time counts. None: the output is kept whole. A command whose error output has
        the words `until` is killed at once; empty: none is.

        Raises:
            Unavailable: it cannot be started.
            NoAnswer: it did not end in time. It is killed, with whatever it started.
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
            stdout, stderr, why = _read(process, deadline_s, self.output_limit_bytes, take, until)
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
            raise NoAnswer(f"{argv[0]} gave no answer within {limit_s:g} s", said=_decode(stderr))
        if why == "long":
            message = f"{argv[0]} printed more than {self.output_limit_bytes} bytes"
            raise Unreadable(message, command=argv, text=_decode(stdout[:_CHUNK_BYTES]))
        return CompletedCommand(
            argv=argv, returncode=process.returncode, stdout=_decode(stdout), stderr=_decode(stderr)
        )

    def start(self, argv: tuple[str, ...], *, name: str) -> "LiveProgram":
        """Start a program that answers requests until it is ended. `name` is what errors call it.

        Raises `Unavailable` if it cannot be started.
        """
        variables = {"PATH": SEARCH_PATH, "LC_ALL": "C", "TZ": "UTC", **self.environment}
        process = _popen(self.prefix + argv, variables, self.folder, subprocess.PIPE)
        return LiveProgram(process, name, self.output_limit_bytes)


class LiveProgram:
    """A program that is kept running, reads requests and answers each of them with lines.

    Use `CommandRunner.start`. Once it has failed, it has been ended, with whatever it started.
    """

    def __init__(self, process: subprocess.Popen[bytes], name: str, limit_bytes: int) -> None:
        self._process = process
        self._name = name
        self._limit_bytes = limit_bytes
        self._errors = bytearray()
        """The end of its error output."""

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def ask(self, request: bytes, *, timeout_s: float, is_last: Callable[[bytes], bool]) -> list[bytes]:
        """Write a request and read the lines of the answer, without their line ends.

        Args:
            request: a few bytes, which a pipe takes at once. Empty: it speaks first.
            timeout_s: how long the answer may take.
            is_last: whether a line is the last one of the answer.

        Raises:
            Unavailable: it did not answer in time.
            ProgramEnded: it has ended.
            Unreadable: it printed more than the limit.
        """
        try:
            if request:
                self._write(request)
            return bytes(self._answer(time.monotonic() + timeout_s, timeout_s, is_last)).splitlines()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """End it and whatever it started. May be called again."""
        _kill(self._process)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _write(self, request: bytes) -> None:
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), request)
        except OSError:
            raise self._ended() from None

    def _answer(self, deadline_s: float, timeout_s: float, is_last: Callable[[bytes], bool]) -> bytearray:
        stdout, stderr = self._process.stdout, self._process.stderr
        assert stdout is not None
        assert stderr is not None
        found = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            while not (found.endswith(b"\n") and is_last(bytes(found[found.rfind(b"\n", 0, -1) + 1 : -1]))):
                ready = selector.select(max(0.0, deadline_s - time.monotonic()))
                if not ready:
                    raise Unavailable(f"{self._name} gave no answer within {timeout_s:g} s")
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK_BYTES)
                    if key.fileobj is stderr:
                        self._errors = (self._errors + chunk)[-_KEPT_ERRORS:]
                    else:
                        found += chunk
                    if not chunk and key.fileobj is stdout:
                        raise self._ended()
                    if not chunk:
                        selector.unregister(key.fileobj)
                if len(found) > self._limit_bytes:
                    message = f"{self._name} printed more than {self._limit_bytes} bytes"
                    raise Unreadable(message, command=(self._name,), text=_decode(found[:_CHUNK_BYTES]))
        return found

    def _ended(self) -> "ProgramEnded":
        """How it has ended, with the last line of its error output. It is given a moment to end by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_END_S)
        status = self._process.poll()
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._process.stderr.fileno(), _CHUNK_BYTES):
                self._errors = (self._errors + chunk)[-_KEPT_ERRORS:]
        how = "closed its output" if status is None else f"ended with exit status {status}"
        if status is not None and status < 0:
            how = f"was ended by signal {-status}"
        said = _decode(self._errors).strip().splitlines()
        return ProgramEnded(f"{self._name} {how}" + (f": {said[-1]}" if said else ""))


class NoAnswer(Unavailable):
    """A command did not end in time. `said`: all that it wrote to its error output."""

    def __init__(self, message: str, *, said: str) -> None:
        super().__init__(message)
        self.said = said


class ProgramEnded(Unavailable):
    """A program that should answer has ended."""


def _start(
    command: tuple[str, ...], environment: dict[str, str], folder: str, stdin: bytes
) -> subprocess.Popen[bytes]:
    # A file in memory, not a pipe: no thread has to write while the command reads.
    with os.fdopen(os.memfd_create("stdin"), "w+b") as given:
        given.write(stdin)
        given.seek(0)
        return _popen(command, environment, folder, given)


def _popen(
    command: tuple[str, ...], environment: dict[str, str], folder: str, stdin: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [os.fsencode(word) for word in command],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable(f"{command[0]} cannot be started in {folder}: {error.strerror}") from None


def _read(
    process: subprocess.Popen[bytes],
    deadline_s: float,
    limit_bytes: int,
    take: Callable[[bytes], object] | None,
    until: str,
) -> tuple[bytearray, bytearray, str | None]:
    """Both outputs to their ends; the third value says why it stopped before: "late", "long", "said", or
    None.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    stdout, stderr = bytearray(), bytearray()
    takes: dict[IO[bytes], Callable[[bytes], object]] = {
        process.stdout: stdout.extend if take is None else take,
        process.stderr: stderr.extend,
    }
    size = 0
    why = None
    with process.stdout, process.stderr, selectors.DefaultSelector() as selector:
        for stream, taking in takes.items():
            selector.register(stream, selectors.EVENT_READ, taking)
        while selector.get_map() and why is None:
            ready = selector.select(max(0.0, deadline_s - time.monotonic()))
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if chunk:
                    key.data(chunk)
                else:
                    selector.unregister(key.fileobj)
                size += len(chunk)
            if size > limit_bytes:
                why = "long"
            elif until and until.encode() in stderr:
                why = "said"
            elif not ready:
                why = "late"
                _kill(process)
                _read_rest(process.stderr, stderr)
    return stdout, stderr, why


def _read_rest(stream: IO[bytes], read: bytearray) -> None:
    """Read what a command has left in the pipe, which a process that outlives it may hold open."""
    os.set_blocking(stream.fileno(), False)
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(stream.fileno(), _CHUNK_BYTES):
            read.extend(chunk)


@contextlib.contextmanager
def at_death(argv: Sequence[str]) -> Generator[Callable[[], None], None, None]:
    """For a `with` block: if this process dies in it, even by SIGKILL, the command is run. It is not run if
    the block ends in any other way, unless what the block is given was called.

    The guard that waits for that is no child of this process and has a session of its own: it outlives an
    end of this process with all its children, or with its process group.
    """
    ends, held = os.pipe()
    try:
        subprocess.run(
            ("sh", "-c", _GUARD, "makeway-guard", *argv), stdin=ends, start_new_session=True, check=True
        )
    except BaseException:
        _call_off(held)
        raise
    finally:
        os.close(ends)
    _GUARDED.add(held)
    wanted: list[bool] = []
    try:
        yield lambda: wanted.append(True)
    finally:
        if held in _GUARDED:  # else this is a child that was forked in the block
            _GUARDED.remove(held)
            if wanted:
                os.close(held)
            else:
                _call_off(held)


def _call_off(held: int) -> None:
    """Tell a guard that its command is not to be run."""
    with contextlib.suppress(BrokenPipeError):
        os.write(held, b"over\n")
    os.close(held)


def _leave_guards() -> None:
    """In a forked child: guards wait for the end of the process that started them, not for the child's."""
    while _GUARDED:
        os.close(_GUARDED.pop())


os.register_at_fork(after_in_child=_leave_guards)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the command and whatever it started in its session; it leads a process group of its own."""
    if process.returncode is None:  # else the number of its group may be another's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    process.wait()


def _decode(data: bytearray) -> str:
    return data.decode("utf-8", "surrogateescape")


def kill_children() -> None:
    """Kill the workers of this process's process pools, without waiting for them."""
    # Imported here: no other use of this module needs it, and it takes longer than the rest.
    import multiprocessing

    for child in multiprocessing.active_children():
        child.kill()
