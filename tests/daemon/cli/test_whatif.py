"""`makeway whatif`: the curve, its JSON form, and what it leaves alone."""

from pathlib import Path

from makeway.adapters.protocol import Unavailable
from makeway.daemon.config.mode import Mode
from tests.builders import cluster, node_names, running
from tests.daemon.cli.program import HOSTILE, Program, decide
from tests.fakes import FakeAdapter


def test_whatif_shows_the_curve(program: Program, config: Path) -> None:
    text = program("whatif", "--nodes", 4, "--deadline", "5m", "--config", config)
    assert "4 nodes within 5:00: 0 are free (8 nodes are up)." in text
    assert "0.11" in text
    assert "killed: young (4)" in text
    assert "after a signal: j\\x1b[2J\\n[red]x (4)" in text
    assert "\x1b" not in text


def test_whatif_as_json(program: Program, config: Path) -> None:
    values = program.json("whatif", "--nodes", 4, "--deadline", "5m", "--step", "100s", "--config", config)
    hours = 400 / 3600
    assert values["curve"] == [
        {"deadline_s": 0.0, "loss_node_hours": hours},
        {"deadline_s": 100.0, "loss_node_hours": hours},
        {"deadline_s": 200.0, "loss_node_hours": 0.0},
        {"deadline_s": 300.0, "loss_node_hours": 0.0},
    ]
    assert [(level["from_s"], level["until_s"]) for level in values["levels"]] == [
        (0.0, 100.0),
        (200.0, 300.0),
    ]
    assert values["levels"][1]["departures"] == [
        {"job_ids": [HOSTILE], "method": "system", "nodes": 4, "loss_node_hours": 0.0}
    ]


def test_whatif_changes_nothing(program: Program, config: Path, adapter: FakeAdapter, tmp_path: Path) -> None:
    program("whatif", "--nodes", 4, "--config", config)
    assert adapter.calls == [("close", "")]
    assert [path.name for path in tmp_path.iterdir()] == ["makeway.yaml"]


def test_whatif_without_an_answer(program: Program, config: Path, adapter: FakeAdapter) -> None:
    adapter.errors["snapshot"] = Unavailable("squeue: no answer in 10 s")
    refused = program.refused("whatif", "--nodes", 4, "--config", config)
    assert refused == "the cluster cannot be read: squeue: no answer in 10 s"
    del adapter.errors["snapshot"]
    assert "only 8 nodes of the cluster are up" in program.refused("whatif", "--nodes", 9, "--config", config)


def test_whatif_when_no_job_has_to_leave_or_none_can(
    program: Program, config: Path, adapter: FakeAdapter
) -> None:
    adapter.view = cluster(8)
    assert "No job has to leave." in program("whatif", "--nodes", 4, "--config", config)
    adapter.view = cluster(4, running("a", node_names(4), preemptible=False))
    text = program("whatif", "--nodes", 4, "--config", config)
    assert "4 more are needed, and no choice of jobs frees them in time." in text
    assert "a (4 nodes): not_preemptible" in text


def test_whatif_of_a_stored_snapshot(program: Program, adapter: FakeAdapter, tmp_path: Path) -> None:
    journal = tmp_path / "j.sqlite"
    decide(adapter, journal, Mode.OBSERVE)
    adapter.view = cluster(1)
    assert program.json("whatif", "--nodes", 4, "--journal", journal)["nodes_up"] == 8
    assert program.json("whatif", "--nodes", 4, "--journal", journal, "--decision", 1)["nodes_up"] == 8
    refused = program.refused("whatif", "--nodes", 4, "--journal", journal, "--decision", 7)
    assert refused == f"{journal}: there is no decision 7"
