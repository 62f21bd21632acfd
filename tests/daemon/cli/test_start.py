"""Ctrl-C while the command line is imported, and after that."""

import signal
import subprocess
import sys
from typing import Any

import pytest

from makeway.daemon.cli import start


def test_ctrl_c_during_the_imports_leaves_no_traceback() -> None:
    code = """
import os, signal, sys
from makeway.daemon.cli.start import main

class Interrupt:
    def find_spec(self, name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_IGN])
def test_ctrl_c_is_then_answered_as_before(monkeypatch: pytest.MonkeyPatch, before: Any) -> None:
    """Under nohup it is ignored, and stays so."""
    monkeypatch.setattr("makeway.daemon.cli.main.main", lambda: signal.getsignal(signal.SIGINT) == before)
    usual = signal.signal(signal.SIGINT, before)
    try:
        assert start.main()
    finally:
        signal.signal(signal.SIGINT, usual)
