"""What `makeway doctor` says while the daemon of the configuration runs."""

import json
import os
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from makeway.adapters.registry import Connection
from makeway.adapters.site.checks import Level
from makeway.daemon.cli.main import run_cli
from makeway.daemon.inspect.doctor import check_cycles
from makeway.daemon.journal.store import Journal
from tests.builders import cluster, node_names, running
from tests.fakes import FakeAdapter


@pytest.mark.parametrize(("other_pid", "level"), [(None, "ok"), (4_242_424, "warning")])
def test_the_daemon_of_the_configuration_may_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    other_pid: int | None,
    level: str,
) -> None:
    """Its journal and its socket are in use then. That another process has the journal is no good sign."""
    pid = other_pid or os.getpid()
    for user in ("makeway.daemon.service.socket_api", "makeway.daemon.inspect.now"):
        monkeypatch.setattr(f"{user}.request", lambda *_, **__: {"ok": True, "status": {"pid": pid}})
    config = tmp_path / "makeway.yaml"
    config.write_text("adapter: {type: simulated}\njournal: j.sqlite\nsocket: s.sock\nmetrics: {port: 0}\n")
    adapter = FakeAdapter(cluster(4, running("a", node_names(4))))
    factories = {"simulated": lambda _: Connection(adapter=adapter)}
    with socket.socket(socket.AF_UNIX) as answering, closing(Journal(tmp_path / "j.sqlite")):
        answering.bind(str(tmp_path / "s.sock"))
        assert run_cli(["doctor", "--config", str(config), "--json"], factories=factories) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert (checks["journal"]["level"], checks["socket"]["level"]) == (level, level)
    assert f"in use by the daemon with pid {os.getpid()}" in checks["journal"]["text"]
    assert f"the daemon with pid {pid} answers" in checks["socket"]["text"]


@pytest.mark.parametrize("status", [None, {"pid": 7, "failures": 0, "sentence": "act"}])
def test_a_daemon_whose_cycles_end_is_not_told(status: dict[str, Any] | None) -> None:
    assert list(check_cycles(status)) == []


def test_a_daemon_whose_cycles_fail_is_told() -> None:
    (found,) = check_cycles({"pid": 7, "failures": 3, "sentence": "the last cycle failed: disk\x1b"})
    assert found.level is Level.WARNING
    assert found.text == (
        "of the daemon with pid 7, the last 3 cycles ended without a decision: "
        "the last cycle failed: disk\\x1b"
    )
