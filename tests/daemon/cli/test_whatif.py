"""`makeway whatif`: the curve, its JSON form, and what it leaves alone."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.adapters.protocol import Unavailable
from makeway.daemon.config.mode import Mode
from makeway.daemon.journal.command_log import Outcome
from makeway.daemon.journal.store import Journal
from makeway.policies.model import Job, Method, Reason, Requeue
from tests import acts
from tests.builders import closed, cluster, node_names, running, urgent
from tests.daemon.cli.program import HOSTILE, Program, decide
from tests.daemon.journal.entries import operation
from tests.fakes import FakeAdapter
from tests.policies.sharing import amounts, part, shared


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
        {
            "job_ids": [HOSTILE],
            "method": "system",
            "nodes": 4,
            "loss_node_hours": 0.0,
            "on": ["n1", "n2", "n3", "n4"],
        }
    ]


def test_whatif_changes_nothing(program: Program, config: Path, adapter: FakeAdapter, tmp_path: Path) -> None:
    program("whatif", "--nodes", 4, "--config", config)
    assert adapter.calls == [("close", "")]
    assert [path.name for path in tmp_path.iterdir()] == ["makeway.yaml"]


def test_whatif_with_a_journal_that_cannot_be_looked_at(program: Program, config: Path) -> None:
    """As in a folder that this user may not enter."""
    config.write_text(f"adapter: {{type: simulated}}\njournal: {'x' * 300}\nsocket: s.sock\n")
    refused = program.refused("whatif", "--nodes", "4", "--config", config)
    assert "cannot be opened as a journal: File name too long" in refused


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


def evict_young(journal: Path) -> None:
    """What the daemon wrote down when it evicted a job once."""
    action = Requeue(
        job_id="young",
        for_job_id="u",
        policy="eviction",
        reason=Reason.URGENT_ARRIVAL,
        method=Method.KILL,
        not_after_s=0.0,
    )
    over = closed(operation("1"))
    with closing(Journal(journal)) as kept:
        number = kept.begin_command(over, action, 0.0)
        kept.finish_command(number, over, outcome=Outcome.ACCEPTED, failed=False, detail="", now_s=0.0)


def test_whatif_counts_past_evictions_as_the_daemon_does(
    program: Program, config: Path, adapter: FakeAdapter, tmp_path: Path
) -> None:
    """`young` loses less than `old`. It was evicted once, so that it counts four times as much."""
    young, old = running("young", node_names(4), start_s=700.0), running("old", node_names(4, 5), start_s=0.0)
    adapter.view = cluster(8, young, old)
    asked = ("whatif", "--nodes", 4, "--deadline", "1m", "--config", config)
    assert "killed: young (4)" in program(*asked)
    evict_young(tmp_path / "j.sqlite")
    assert "killed: old (4)" in program(*asked)
    both = program("whatif", "--nodes", 8, "--deadline", "1m", "--config", config)
    assert "8 more are needed. The loss of work, by deadline:" in both
    assert "the loss of a job that was evicted before counts 4 times" in both
    (header,) = (line for line in both.splitlines() if line.startswith("deadline"))
    assert header.split("  ")[:3] == ["deadline", "node-hours lost", "price (node-hours)"]
    (level,) = program.json("whatif", "--nodes", 8, "--deadline", "1m", "--config", config)["levels"]
    assert level["loss_node_hours"] == 4 * (300 + 1000) / 3600
    assert level["price_node_hours"] == 4 * (4 * 300 + 1000) / 3600
    config.write_text(config.read_text() + "limits: {price_past_evictions: false}\n")
    assert "killed: young (4)" in program(*asked)


def test_whatif_counts_what_the_class_of_a_silent_job_reports(
    program: Program, config: Path, adapter: FakeAdapter, tmp_path: Path
) -> None:
    """`silent` has run longer than `other`, and the jobs of its class have saved their work 100 s ago."""
    told = running("told", node_names(2), last_checkpoint_s=900.0, preemptible=False)
    reports = replace(told, job_class="saving")
    silent = replace(running("silent", node_names(2, 3)), job_class="saving")
    adapter.view = cluster(6, reports, silent, running("other", node_names(2, 5), start_s=500.0))
    asked = ("whatif", "--nodes", 2, "--deadline", "1m", "--config", config)
    assert "killed: silent (2)" in program(*asked)
    Journal(tmp_path / "j.sqlite").close()
    assert "killed: silent (2)" in program(*asked)
    with closing(Journal(tmp_path / "j.sqlite")) as kept:
        kept.begin_command(
            closed(operation("1")), acts.checkpoint("told", signal="USR1", walltime_s=60.0), 890.0
        )
    assert "killed: other (2)" in program(*asked), "it has saved its work because it was asked to"


def shared_nodes(adapter: FakeAdapter) -> None:
    """Of n0, one job that may leave and one that may not have two GPUs each; n1 is full of the latter."""
    adapter.view = shared(
        part("v", "n0", amounts(4, gpu=2)),
        part("other", "n0", amounts(4, gpu=2), preemptible=False),
        part("full", "n1", amounts(8, gpu=4), preemptible=False),
    )


def test_whatif_for_parts_of_nodes(program: Program, config: Path, adapter: FakeAdapter) -> None:
    shared_nodes(adapter)
    a100 = "cpu=2,gres/gpu:a100=1"
    refused = program.refused("whatif", "--nodes", 1, "--per-node", a100, "--config", config)
    assert refused == "too few nodes can serve the request: 1 wanted, 0 of the 2 nodes that are up can"
    asked = ("whatif", "--nodes", 1, "--per-node", "cpu=2,gres/gpu=1", "--deadline", "5m", "--config", config)
    text = program(*asked)
    assert "1 node with cpu=2, gres/gpu=1 on each within 5:00: 0 have room (2 nodes are up)." in text
    assert "killed: v (n0)" in text
    values = program.json(*asked)
    assert (values["nodes"], values["per_node"], values["blocked_by"]) == (1, {"cpu": 2, "gres/gpu": 1}, None)
    (level,) = values["levels"]
    hours = 1000 * 0.5 / 3600
    assert level["served_on"] == ["n0"]
    assert level["departures"] == [
        {"job_ids": ["v"], "method": "kill", "nodes": 1, "loss_node_hours": hours, "on": ["n0"]}
    ]
    assert [group["job_ids"] for group in values["protected"]] == [["full"], ["other"]]


class ReadingAdapter(FakeAdapter):
    """One that reads options: `--gpus=N` for a job of one node, and nothing else."""

    def as_submitted(self, options: Sequence[str], *, walltime_s: float) -> Job:
        name, _, number = options[0].partition("=")
        if name != "--gpus":
            raise ValueError(f"unrecognized arguments: {name}")
        job = replace(urgent("", 1), demand=amounts(1, gpu=int(number)))
        return replace(job, walltime_s=walltime_s)


def test_whatif_for_options_of_sbatch(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter = ReadingAdapter(cluster(1))
    program = Program(adapter, capsys)
    shared_nodes(adapter)
    values = json.loads(program("whatif", "--json", "--deadline", "5m", "--config", config, "--", "--gpus=2"))
    assert values["per_node"] == {"cpu": 1, "gres/gpu": 2, "mem": 1000}
    assert values["levels"][0]["departures"][0]["on"] == ["n0"]
    refused = program.refused("whatif", "--config", config, "--", HOSTILE)
    assert refused == "after --: unrecognized arguments: j\\x1b[2J\\n[red]x"


def test_whatif_where_the_adapter_reads_no_options(program: Program, config: Path) -> None:
    refused = program.refused("whatif", "--config", config, "--", "-n2")
    assert refused == "fake reads no options of sbatch: use --nodes and --per-node"


def test_whatif_like_a_job(program: Program, config: Path, adapter: FakeAdapter) -> None:
    shared_nodes(adapter)
    held = program.json("whatif", "--like", "v", "--config", config)
    assert (held["nodes"], held["per_node"]) == (1, {"cpu": 4, "gres/gpu": 2, "mem": 1000})
    assert held["levels"][0]["departures"][0]["job_ids"] == ["v"]
    waits = replace(urgent("u", 1), demand=amounts(1, gpu=1), blocked_by="a licence (fluent)")
    adapter.view = replace(adapter.view, jobs=(*adapter.view.jobs, waits))
    text = program("whatif", "--like", "u", "--config", config)
    assert "It would wait for a licence (fluent): until then no job leaves for it." in text
    tasks = (replace(waits, job_id="9_2"), replace(waits, job_id="9_10"))
    adapter.view = replace(adapter.view, jobs=(*adapter.view.jobs, *tasks))
    refused = program.refused("whatif", "--like", "9", "--config", config)
    assert refused == "--like: there is no job 9 that waits or runs; accepted: 9_2, 9_10"
    refused = program.refused("whatif", "--like", "9_500", "--config", config)
    assert refused == "--like: there is no job 9_500 that waits or runs; accepted: 9_2, 9_10"
    refused = program.refused("whatif", "--like", HOSTILE, "--config", config)
    assert refused == "--like: there is no job j\\x1b[2J\\n[red]x that waits or runs"
