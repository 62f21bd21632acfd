"""The one module that starts processes, with programs that every machine has."""

import ast
import os
import sys
from pathlib import Path

import pytest

from makeway.adapters.command import CommandRunner, CompletedCommand, NoAnswer
from makeway.adapters.protocol import Unavailable, Unreadable
from tests.waiting import await_that, limit_s

PYTHON = sys.executable


def python(program: str, *arguments: str) -> tuple[str, ...]:
    return (PYTHON, "-I", "-S", "-c", program, *arguments)


def gone(pid: int) -> bool:
    """Whether the process has ended; a zombie that is not waited for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[-1].split()[0] in "ZX"
    except OSError:
        return True


def test_what_a_command_says() -> None:
    program = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = CommandRunner().run(python(program))
    assert done == CompletedCommand(argv=python(program), returncode=3, stdout="out\n", stderr="err\n")


def test_a_command_that_says_the_words_is_ended_at_once() -> None:
    program = "import sys, time; print('and ag', 'ain', sep='', file=sys.stderr, flush=True); time.sleep(999)"
    done = CommandRunner().run(python(program), timeout_s=limit_s(), until="again")
    assert (done.returncode, done.stderr) == (-9, "and again\n")


def test_words_are_one_line() -> None:
    done = CompletedCommand(argv=("a",), returncode=1, stdout="out", stderr=" one\n two \n")
    assert done.words == "one two"
    assert CompletedCommand(argv=("a",), returncode=1, stdout="out\n", stderr="\n").words == "out"


def test_arguments_are_no_shell_s() -> None:
    words = ("a b", "$HOME", "`id`", "; rm -rf /", "*", "'\"", "new\nline", "")
    done = CommandRunner().run(python("import sys; print(sys.argv[1:])", *words))
    assert done.stdout == f"{list(words)}\n"


def test_nothing_of_the_environment_reaches_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("LD_PRELOAD", "")
    runner = CommandRunner(environment={"SLURM_CONF": "/etc/slurm.conf"})
    program = "import os; print(sorted(os.environ.items()))"
    done = runner.run(python(program), environment={"SLURM_TIME_FORMAT": "%s"})
    variables = dict(ast.literal_eval(done.stdout))
    assert set(variables) - {"LC_CTYPE"} == {"PATH", "LC_ALL", "TZ", "SLURM_CONF", "SLURM_TIME_FORMAT"}
    assert (variables["LC_ALL"], variables["TZ"]) == ("C", "UTC")


def test_bytes_that_are_no_text_survive() -> None:
    program = (
        "import sys; sys.stdout.buffer.write(sys.argv[1].encode('utf-8', 'surrogateescape') + b'\\xff\\n')"
    )
    done = CommandRunner(environment={"PYTHONUTF8": "1"}).run((PYTHON, "-S", "-c", program, "é\udcc3"))
    assert done.stdout == "é\udcc3\udcff\n"
    assert done.stdout.encode("utf-8", "surrogateescape") == b"\xc3\xa9\xc3\xff\n"


def test_output_is_taken_while_the_command_runs() -> None:
    program = (
        "import sys; print('one', file=sys.stderr); print('one', flush=True)\n"
        "print(sys.stdin.read() * 100_000)"
    )
    pieces: list[bytes] = []
    done = CommandRunner().run(python(program), stdin=b"two", take=pieces.append)
    assert b"".join(pieces) == b"one\n" + b"two" * 100_000 + b"\n"
    assert len(pieces) > 1
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "one\n")


def test_output_that_is_taken_has_the_same_limit() -> None:
    program = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    pieces: list[bytes] = []
    runner = CommandRunner(output_limit_bytes=1_000_000, timeout_s=limit_s())
    with pytest.raises(Unreadable, match=r"more than 1000000 bytes"):
        runner.run(python(program), take=pieces.append)
    assert sum(map(len, pieces)) < 1_200_000


def test_a_command_is_killed_if_its_output_cannot_be_taken() -> None:
    pids: list[int] = []

    def take(piece: bytes) -> None:
        pids.append(int(piece))
        raise LookupError

    with pytest.raises(LookupError):
        CommandRunner().run(
            python("import os, time; print(os.getpid(), flush=True); time.sleep(1000)"), take=take
        )
    assert gone(pids[0])


def test_standard_input() -> None:
    echo = python("import sys; sys.stdout.write(sys.stdin.read())")
    text = b"line\n" * 100_000
    assert CommandRunner().run(echo, stdin=text).stdout == text.decode()
    assert CommandRunner().run(echo).stdout == ""


def test_a_time_out_kills_the_command_and_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    child = "import time; time.sleep(1000)"
    program = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {child!r}])\n"
        "open(sys.argv[1], 'w').write(f'{os.getpid()} {child.pid}')\n"
        "time.sleep(1000)"
    )
    timeout_s = round(limit_s(4.0))
    with pytest.raises(Unavailable, match=rf"gave no answer within {timeout_s} s"):
        CommandRunner(timeout_s=timeout_s).run(python(program, str(pids)))
    left = [int(pid) for pid in pids.read_text().split()]
    assert len(left) == 2
    await_that("no process outlives its time-out", lambda: all(gone(pid) for pid in left))


def test_a_time_out_tells_all_that_the_command_has_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what it says when its time is over already."""
    late, said = tmp_path / "late", tmp_path / "said"
    program = f"until [ -e '{late}' ]; do sleep 0.05; done; echo last words >&2; : > '{said}'; sleep 1000"
    killpg = os.killpg

    def speak_first(group: int, number: int) -> None:
        late.touch()
        await_that("it has spoken", said.exists)
        killpg(group, number)

    monkeypatch.setattr(os, "killpg", speak_first)
    with pytest.raises(NoAnswer) as caught:
        CommandRunner().run(("sh", "-c", program), timeout_s=1)
    assert caught.value.said == "last words\n"


def test_a_time_out_does_not_wait_for_what_holds_the_pipe(tmp_path: Path) -> None:
    """It has left the command's session, and is not ended."""
    over = tmp_path / "over"
    outlives = f"setsid sh -c \"until [ -e '{over}' ]; do sleep 0.05; done\" & sleep 1000"
    try:
        with pytest.raises(NoAnswer):
            CommandRunner().run(("sh", "-c", outlives), timeout_s=0.5)
    finally:
        over.touch()


def test_a_time_out_kills_what_a_command_left_behind_that_has_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = ("sh", "-c", f"sleep 1000 & echo $! > '{pids}'")
    with pytest.raises(Unavailable, match="gave no answer"):
        CommandRunner().run(command, timeout_s=1)
    await_that("no process outlives the time-out", lambda: gone(int(pids.read_text())))


def test_a_command_that_closes_its_output_is_timed_out_too() -> None:
    program = "import os, time; os.close(1); os.close(2); time.sleep(1000)"
    with pytest.raises(Unavailable):
        CommandRunner().run(python(program), timeout_s=1)


def test_too_much_output_is_cut_off() -> None:
    program = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(Unreadable, match=r"more than 1000000 bytes") as error:
        CommandRunner(output_limit_bytes=1_000_000, timeout_s=limit_s()).run(python(program))
    assert error.value.text.startswith("xxx")


@pytest.mark.parametrize("name", ["no-such-program", "/no/such/program", "/etc/passwd", "/"])
def test_a_program_that_cannot_be_started(name: str) -> None:
    with pytest.raises(Unavailable, match="cannot be started"):
        CommandRunner().run((name, "-h"))


def test_an_argument_with_a_nul_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        CommandRunner().run(("echo", "a\0b"))


def test_a_prefix_stands_before_every_command() -> None:
    done = CommandRunner(prefix=("env", "-i")).run(("env",))
    assert (done.stdout, done.argv) == ("", ("env",))


def test_the_end_by_a_signal() -> None:
    assert CommandRunner().run(python("import os; os.kill(os.getpid(), 9)")).returncode == -9


def test_no_descriptor_is_left_open() -> None:
    runner = CommandRunner(timeout_s=1)
    runner.run(("true",))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        runner.run(("echo", "x"), stdin=b"y")
        with pytest.raises(Unavailable):
            runner.run(("no-such-program",))
    assert len(os.listdir("/proc/self/fd")) == before
