"""Expected and measured losses on shared nodes, in what `explain` and `summary` say."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import CycleReport, LoopSettings
from makeway.daemon.estimate.actual_losses import Cost
from makeway.daemon.journal.store import Journal
from makeway.policies.eviction.policy import EvictionConfig
from makeway.policies.model import Job, JobKind, JobState
from makeway.policies.registry import find
from tests.fakes import FakeAdapter
from tests.policies.sharing import NOW_S, amounts, part, shared

VICTIM = part("v", "n0", amounts(4, gpu=2), account="physics")
"""It has run for 1000 s on half of a node."""
WAITS = replace(VICTIM, state=JobState.PENDING, nodes=(), allocation=None, start_s=None, requeue_count=1)
URGENT = Job(
    job_id="u",
    kind=JobKind.ON_DEMAND,
    state=JobState.PENDING,
    node_count=1,
    walltime_s=600.0,
    submit_s=NOW_S,
    user="beamline",
    demand=amounts(2, gpu=1),
)
EXPECTED = {"node_s": 500.0, "core_s": 4000.0, "gpu_s": 2000.0}
LOST = {"node_s": 510.0, "core_s": 4080.0, "gpu_s": 2040.0}
NONE = {"node_s": 0.0, "core_s": 0.0, "gpu_s": 0.0}


def evicted(path: Path, mode: Mode = Mode.ACT) -> list[CycleReport]:
    """The decision at 10,000 s, the command for the victim at 10,020 s, and that it has left at 10,030 s."""
    neighbour = part("neighbour", "n0", amounts(4, gpu=2), preemptible=False)
    adapter = FakeAdapter(shared(URGENT, VICTIM, neighbour, node_count=1))
    with closing(Journal(path)) as journal:
        loop = Reconciler(
            adapter,
            journal,
            find("eviction"),
            EvictionConfig(kills="at_once"),
            LoopSettings(mode=mode),
            now=lambda: adapter.view.now_s,
        )
        reports = [loop.reconcile()]
        adapter.view = replace(adapter.view, now_s=NOW_S + 20.0)
        reports.append(loop.reconcile())
        jobs = tuple(WAITS if job.job_id == "v" and mode is Mode.ACT else job for job in adapter.view.jobs)
        adapter.view = replace(adapter.view, now_s=NOW_S + 30.0, jobs=jobs)
        reports.append(loop.reconcile())
    return reports


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_cli(list(words), factories={}) == 0
    return capsys.readouterr().out


def test_the_cycles_report_both(tmp_path: Path) -> None:
    decided, sent, left = evicted(tmp_path / "j.sqlite")
    assert [run.expected for run in decided.leaving] == [Cost(**EXPECTED)]
    assert (sent.leaving, sent.losses) == ((), ())
    assert [loss.lost for loss in left.losses] == [Cost(**LOST)]


def test_explain_has_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "j.sqlite"
    evicted(path)
    values: Any = json.loads(said(capsys, "explain", "1", "--journal", str(path), "--json"))
    assert values["losses"] == [
        {
            "job_id": "v",
            "for_job_id": "u",
            "method": "kill",
            "expected": EXPECTED,
            "actual": {"evicted": True, "left_s": NOW_S + 20.0, "lost": LOST, "overhead": NONE},
        }
    ]
    text = said(capsys, "explain", "1", "--journal", str(path))
    assert "0.14 node-hours, 1.11 core-hours, 0.56 GPU-hours" in text
    assert "Measured in all: 0.14 node-hours, 1.13 core-hours, 0.57 GPU-hours of work lost" in text


def test_summary_has_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "j.sqlite"
    evicted(path)
    values: Any = json.loads(said(capsys, "summary", "--journal", str(path), "--json"))
    for totals in (values["all_lenders"], values["lenders"]["physics"]):
        assert (totals["loss_node_s"], totals["loss_core_s"], totals["loss_gpu_s"]) == (500, 4000.0, 2000.0)
        assert totals["actual"] == {"departures": 1, "lost": LOST, "overhead": NONE}
    text = said(capsys, "summary", "--journal", str(path))
    assert "a loss of 0.14 node-hours, 1.11 core-hours, 0.56 GPU-hours of work was expected." in text
    assert "Measured of 1 of these departures: 0.14 node-hours, 1.13 core-hours, 0.57 GPU-hours" in text


def test_observe_mode_says_only_what_is_expected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "j.sqlite"
    assert [(one.leaving, one.losses) for one in evicted(path, Mode.OBSERVE)] == [((), ())] * 3
    (loss,) = json.loads(said(capsys, "explain", "1", "--journal", str(path), "--json"))["losses"]
    assert (loss["expected"], loss["actual"]) == (EXPECTED, None)
    for command in ("explain 1", "summary"):
        text = said(capsys, *command.split(), "--journal", str(path))
        assert "1.11 core-hours" in text
        assert "easured" not in text
