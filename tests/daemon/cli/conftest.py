"""A cluster with an urgent job, its configuration, and the program that reads them."""

from pathlib import Path

import pytest

from makeway.policies.model import CheckpointSpec
from tests.builders import cluster, node_names, running, urgent
from tests.daemon.cli.program import HOSTILE, Program
from tests.fakes import FakeAdapter


@pytest.fixture
def adapter() -> FakeAdapter:
    spec = CheckpointSpec(system_s=200.0)
    return FakeAdapter(
        cluster(
            8,
            urgent("u", 4, submit_s=990.0),
            running(HOSTILE, node_names(4), start_s=-36_000.0, checkpoint=spec),
            running("young", node_names(4, 5), start_s=900.0),
        )
    )


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "makeway.yaml"
    path.write_text("adapter: {type: simulated}\njournal: j.sqlite\nsocket: s.sock\n")
    return path


@pytest.fixture
def program(adapter: FakeAdapter, capsys: pytest.CaptureFixture[str]) -> Program:
    return Program(adapter, capsys)
