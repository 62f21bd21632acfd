"""`makeway status --watch`: one picture without a terminal, a refreshed one on a terminal until Ctrl-C."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from makeway.daemon.config.mode import Mode
from tests.daemon.cli.program import Program, decide
from tests.fakes import FakeAdapter
from tests.paths import ROOT
from tests.waiting import limit_s


def test_without_a_terminal_one_picture_is_printed(
    program: Program, adapter: FakeAdapter, config: Path, tmp_path: Path
) -> None:
    decide(adapter, tmp_path / "j.sqlite", Mode.ACT)
    printed = program("status", "--watch", "--config", config)
    assert "no daemon answers" in printed
    assert "make way" in printed
    assert "requeue j\\x1b[2J\\n[red]x: planned" in " ".join(printed.split())
    assert "job u: 4 more nodes are needed" in printed
    assert "\x1b" not in printed
    assert (
        program("status", "--watch", "--socket", tmp_path / "s.sock", "--journal", tmp_path / "j.sqlite")
        == printed
    )


def test_without_a_journal_the_status_is_shown(program: Program, config: Path, tmp_path: Path) -> None:
    socket_line, journal_line = program("status", "--watch", "--config", config).strip().splitlines()
    assert socket_line.startswith(f"socket {tmp_path / 's.sock'}: no daemon answers")
    assert journal_line.startswith(str(tmp_path / "j.sqlite"))


def test_options_that_do_not_go_together(program: Program, config: Path) -> None:
    refused = program.refused("status", "--watch", "--json", "--config", config)
    assert refused.startswith("accepted: --watch or --json, not both")
    refused = program.refused("status", "--journal", "j.sqlite", "--config", config)
    assert refused.startswith("--journal: accepted only with --watch")


def test_ctrl_c_ends_it_on_a_terminal(adapter: FakeAdapter, config: Path, tmp_path: Path) -> None:
    decide(adapter, tmp_path / "j.sqlite", Mode.OBSERVE)
    keyboard, terminal = pty.openpty()
    command = (sys.executable, "-m", "makeway.daemon.cli.main", "status", "--watch", "--config", config)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    ) as child:
        os.close(terminal)
        try:
            shown = read_until(keyboard, b"make way (observed)")
            child.send_signal(signal.SIGINT)
            shown += read_to_end(keyboard)
            assert child.wait(limit_s()) == 130
        finally:
            child.kill()
            os.close(keyboard)
    assert b"Traceback" not in shown
    assert b"\x1b[?25h\x1b[?1049l" in shown, "the cursor is there again, and what was on the terminal"


def read_until(terminal: int, text: bytes) -> bytes:
    """What a program writes on a terminal, until it has written a text."""
    seen = b""
    while text not in seen:
        seen += os.read(terminal, 4096)
    return seen


def read_to_end(terminal: int) -> bytes:
    """What a program writes on a terminal until it ends: Linux reports an error then."""
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            return seen
        seen += piece
