"""What `makeway summary` shows for days on the simulated cluster, in observe mode and in act mode."""

import json
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.daemon.config.mode import Mode
from makeway.daemon.inspect.summary import summarise
from makeway.daemon.inspect.summary_values import UNKNOWN, ActualTotals, DecisionSummary, UrgentAnswer
from makeway.daemon.journal.store import Journal
from makeway.policies.model import JobKind, Limits, Method
from makeway.policies.registry import find
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.records import MarkKind, ReplayRecord
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.experiment import SAMPLE, Experiment, run
from makeway.simharness.run.loading import load_workload
from makeway.simharness.run.replay import Replay, ReplaySettings
from makeway.simharness.workloads.sample import sample_workload


def sample() -> SimCluster:
    node_count, jobs = sample_workload(3)
    easy = SchedulerSettings(backfill=Backfill.EASY)
    storage = StorageSettings(aggregate_gb_s=20.0, node_gb_s=2.0)
    return SimCluster(node_count, jobs, scheduler=easy, storage=storage)


def replayed(
    path: Path, mode: Mode, policy: str = "eviction", **settings: Any
) -> tuple[ReplayRecord, DecisionSummary]:
    """The record of a replay of the sample, and the summary of its journal."""
    chosen = find(policy)
    journal = Journal(path)
    wanted = replace(ReplaySettings(mode=mode, keep_snapshots=True), **settings)
    record = Replay(sample(), chosen, chosen.config_type(), wanted, journal=journal).run()
    found = summarise(journal, None)
    journal.close()
    assert found is not None
    return record, found


def starts(record: ReplayRecord) -> dict[str, float | None]:
    return {done.job.job_id: done.start_s for done in record.jobs if done.job.kind is JobKind.ON_DEMAND}


def test_what_was_done_is_counted_as_it_was_done(tmp_path: Path) -> None:
    record, found = replayed(tmp_path / "acted.sqlite", Mode.ACT)
    evictions = Counter(mark.job for mark in record.marks if mark.kind is MarkKind.EVICTED)
    assert found.observed == 0
    assert found.all_lenders.jobs == len(evictions)
    assert sum(found.all_lenders.departures.values()) == evictions.total()
    requeues = [totals for totals in found.actions if totals.verb == "requeue"]
    assert sum(totals.accepted for totals in requeues) == evictions.total()
    known = starts(record)
    assert {job.job_id: job.started_s for job in found.urgent} == {
        job.job_id: known[job.job_id] for job in found.urgent
    }
    assert all(job.started_on_time and job.expected_on_time for job in found.urgent)


def test_what_was_lost_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "acted.sqlite"
    record, found = replayed(path, Mode.ACT, "n-paa")
    actual = found.all_lenders.actual
    assert actual.departures == sum(found.all_lenders.departures.values())
    assert actual.lost.node_s > 0.0
    spent_node_s = sum(done.lost_node_s + done.overhead_node_s for done in record.jobs)
    assert actual.lost.node_s + actual.overhead.node_s == pytest.approx(spent_node_s)
    for part in ("lost", "overhead"):
        parts = [getattr(lenders.actual, part).node_s for lenders in found.lenders.values()]
        assert sum(parts) == pytest.approx(getattr(actual, part).node_s)
    assert (found.all_lenders.loss_core_s, actual.lost.core_s) == (None, None), "no capacity is known"

    assert run_cli(["summary", "--journal", str(path)], factories={}) == 0
    text = capsys.readouterr().out
    assert f"Measured of {actual.departures} of these departures: {actual.lost.node_s / 3600:.2f}" in text
    assert run_cli(["summary", "--journal", str(path), "--json"], factories={}) == 0
    values = json.loads(capsys.readouterr().out)["all_lenders"]
    assert values["loss_node_s"] == found.all_lenders.loss_node_s
    assert values["actual"]["lost"] == {"node_s": actual.lost.node_s, "core_s": None, "gpu_s": None}


def test_nothing_is_measured_in_observe_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "observed.sqlite"
    _, found = replayed(path, Mode.OBSERVE)
    assert found.all_lenders.actual == ActualTotals()
    assert run_cli(["summary", "--journal", str(path)], factories={}) == 0
    assert "Measured" not in capsys.readouterr().out


def test_what_was_observed_stands_beside_what_the_scheduler_did(tmp_path: Path) -> None:
    record, found = replayed(tmp_path / "observed.sqlite", Mode.OBSERVE)
    plain = sample()
    plain.run()
    assert found.acted == 0
    assert found.all_lenders.departures[Method.SYSTEM] > 0
    assert sum(totals.sent for totals in found.actions) == 0
    assert all(job.expected_on_time for job in found.urgent)
    assert any(not job.started_on_time for job in found.urgent), "else makeway were of no use here"
    known, alone = starts(record), starts(plain.record(policy="none", excluded=0))
    assert {job.job_id: job.started_s for job in found.urgent} == {
        job.job_id: known[job.job_id] for job in found.urgent
    }
    assert known == alone
    # However long it waits, each is decided about once, and once more if it was not served at first.
    assert len(found.urgent) <= found.decisions <= 2 * len(found.urgent)


@pytest.mark.parametrize("policy", ["eviction", "n-spaa"])
def test_the_losses_of_the_accounts_are_those_of_the_decisions(tmp_path: Path, policy: str) -> None:
    _, found = replayed(tmp_path / "observed.sqlite", Mode.OBSERVE, policy)
    assert found.all_lenders.loss_node_s > 0
    assert sum(lenders.loss_node_s for lenders in found.lenders.values()) == found.all_lenders.loss_node_s
    assert sum(sum(lenders.departures.values()) for lenders in found.lenders.values()) == sum(
        found.all_lenders.departures.values()
    )
    losses = [lenders.loss_node_s for lenders in found.lenders.values()]
    assert losses == sorted(losses, reverse=True)


def test_what_the_arbiter_refuses_is_not_counted(tmp_path: Path) -> None:
    """Only a few may be asked to leave: an urgent job that needs more is not served."""
    _, found = replayed(tmp_path / "limited.sqlite", Mode.ACT, limits=Limits(evictions_per_hour=2))
    answers = Counter(job.answer for job in found.urgent)
    assert answers[UrgentAnswer.LIMIT] > 0
    assert answers[UrgentAnswer.ROOM] > 0
    assert {job.answer for job in found.urgent if "per_hour" in job.why} == {UrgentAnswer.LIMIT}
    evicted = sum(found.all_lenders.departures.values())
    assert evicted == sum(totals.sent for totals in found.actions if totals.verb == "requeue")


def test_without_snapshots_nobody_is_named(tmp_path: Path) -> None:
    _, found = replayed(tmp_path / "bare.sqlite", Mode.ACT, keep_snapshots=False)
    _, whole = replayed(tmp_path / "whole.sqlite", Mode.ACT)
    assert set(found.lenders) == {UNKNOWN}
    assert {job.user for job in found.urgent} == {UNKNOWN}
    assert found.all_lenders == whole.all_lenders
    assert [job.job_id for job in found.urgent] == [job.job_id for job in whole.urgent]


def test_the_last_hours_alone(tmp_path: Path) -> None:
    path = tmp_path / "acted.sqlite"
    _, found = replayed(path, Mode.ACT)
    journal = Journal(path, read_only=True)
    last = summarise(journal, 3600.0)
    journal.close()
    assert last is not None
    assert 0 < last.decisions < found.decisions
    assert last.from_s >= found.to_s - 3600.0
    assert [job.job_id for job in last.urgent] == [
        job.job_id for job in found.urgent if job.decided_s >= found.to_s - 3600.0
    ]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "observed.sqlite"
    _, found = replayed(path, Mode.OBSERVE)
    assert run_cli(["summary", "--journal", str(path)], factories={}) == 0
    text = capsys.readouterr().out
    assert f"{len(found.urgent)} urgent jobs asked for nodes" in text
    assert "by plain Slurm" in text
    assert "would have had to leave" in text
    assert run_cli(["summary", "--journal", str(path), "--since", "90m", "--json"], factories={}) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["to_s"] - values["from_s"] <= 5400.0
    assert values["expected_on_time"] == len(values["urgent"])


def test_a_journal_without_decisions_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.sqlite"
    Journal(path).close()
    assert run_cli(["summary", "--journal", str(path)], factories={}) == 2
    assert "no decision is stored yet" in capsys.readouterr().err


def test_jobs_that_left_for_an_announced_job_are_counted(tmp_path: Path) -> None:
    """The operation of an announcement becomes that of its job. Two departures are called off."""
    path = tmp_path / "announced.sqlite"
    experiment = Experiment(trace=SAMPLE, policy="cup-spaa", synthesis="W5", journal=path)
    record = run(experiment, load_workload(experiment))
    with closing(Journal(path, read_only=True)) as journal:
        found = summarise(journal, None)
    assert found is not None
    done = Counter(mark.kind for mark in record.marks)
    departures = found.all_lenders.departures
    assert departures[Method.SHRINK] == done[MarkKind.SHRUNK]
    assert sum(departures.values()) == done[MarkKind.SHRUNK] + done[MarkKind.EVICTED]
    assert (found.to_come, found.called_off) == (0, 2)
    assert found.all_lenders.loss_node_s == pytest.approx(found.all_lenders.actual.lost.node_s, rel=0.01)
    decided = {(one.verb, one.reason): one.decided for one in found.actions}
    assert decided["requeue", "announced"] > 0
