"""The commands of makeway as a program that tests run."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.registry import Connection
from makeway.daemon.cli.main import run_cli
from makeway.daemon.config.load import AdapterFactory
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.journal.store import Journal
from makeway.policies.registry import find
from tests.fakes import FakeAdapter

HOSTILE = "j\x1b[2J\n[red]x"


class Program:
    """Runs commands and keeps what they print."""

    def __init__(self, adapter: FakeAdapter, capsys: pytest.CaptureFixture[str]) -> None:
        self.factories: Mapping[str, AdapterFactory] = {"simulated": lambda _: Connection(adapter=adapter)}
        self.capsys = capsys

    def __call__(self, *arguments: object) -> str:
        """The standard output of a command that succeeds."""
        status = run_cli([str(word) for word in arguments], factories=self.factories)
        printed = self.capsys.readouterr()
        assert (status, printed.err) == (0, "")
        return printed.out

    def json(self, *arguments: object) -> Any:
        return json.loads(self(*arguments, "--json"))

    def refused(self, *arguments: object) -> str:
        """The one line of a command that is refused."""
        assert run_cli([str(word) for word in arguments], factories=self.factories) == 2
        printed = self.capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("makeway: error: ")
        assert printed.err.count("\n") == 1
        return printed.err.removeprefix("makeway: error: ").rstrip("\n")


def decide(
    adapter: FakeAdapter, journal: Path, mode: Mode, *, late_s: float = 0.0, policy: str = "eviction"
) -> None:
    """Let the loop take its decisions. `late_s`: from the first cycle to the second."""
    found = find(policy)
    kept = Journal(journal)
    loop = Reconciler(
        adapter,
        kept,
        found,
        found.config_type(),
        LoopSettings(mode=mode),
        now=lambda: adapter.view.now_s,
    )
    loop.reconcile()
    adapter.view = replace(adapter.view, now_s=adapter.view.now_s + late_s)
    loop.reconcile()
    kept.close()
