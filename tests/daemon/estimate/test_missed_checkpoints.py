"""Jobs that left without the regular checkpoint that makeway waited for, with the whole daemon."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.daemon.estimate.missed_checkpoints import without_missed
from makeway.daemon.estimate.recent_losses import RecentLoss
from makeway.daemon.inspect.summary import summarise
from makeway.daemon.journal.store import Journal
from makeway.policies.model import CheckpointSpec, Cluster, JobKind, Limits, Method
from makeway.policies.registry import find
from makeway.simharness.engine.adapter import SimAdapter
from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.scheduler import Backfill, SchedulerSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.run.replay import UNPRICED, Replay, ReplaySettings
from makeway.simharness.workloads.job import SimJob
from tests.builders import running

HOUR_S = 3600.0
SPEC = CheckpointSpec(interval_s=HOUR_S - 60.0, application_s=60.0)


class Silent(SimAdapter):
    """A job of this name says that it saves every hour, and never does."""

    def snapshot(self) -> Cluster:
        seen = super().snapshot()
        return replace(
            seen,
            jobs=tuple(replace(job, checkpoint=SPEC) if job.job_id == "silent" else job for job in seen.jobs),
        )


def played(limits: Limits, *urgent_s: float, path: Path | None = None) -> Journal:
    """The silent job has four of eight nodes, and so has another. Each urgent job needs four."""
    jobs = [
        SimJob("silent", 0.0, 200 * HOUR_S, 300 * HOUR_S, 4, user="batch"),
        SimJob("other", 0.0, 200 * HOUR_S, 300 * HOUR_S, 4, user="batch"),
        *(
            replace(SimJob(f"u{at_s:.0f}", at_s, 600.0, 900.0, 4, user="beam"), kind=JobKind.ON_DEMAND)
            for at_s in urgent_s
        ),
    ]
    cluster = SimCluster(
        8,
        jobs,
        scheduler=SchedulerSettings(backfill=Backfill.EASY),
        storage=StorageSettings(),
        check=True,
    )
    policy, journal = find("least-price"), Journal(path)
    replay = Replay(
        cluster,
        policy,
        policy.config_type(),
        ReplaySettings(limits=limits, keep_snapshots=path is not None),
        adapter=Silent(cluster),
        journal=journal,
    )
    while replay.cluster.now_s < max(urgent_s) + 2 * HOUR_S and replay.step():
        pass
    return journal


def leaving(journal: Journal) -> list[tuple[str, Method, float]]:
    """The jobs that left, how, and the node-hours that they lost."""
    losses = journal.losses(0.0)
    return [(job_id, loss.run.method, round(loss.lost.node_s / HOUR_S, 1)) for job_id, loss in losses]


def test_a_job_that_reports_nothing_is_not_taken_for_free() -> None:
    """After ten hours, it would lose as much as the other. In its second hour it is believed."""
    assert leaving(played(UNPRICED, 10 * HOUR_S)) == [("other", Method.KILL, 40.0)]
    assert leaving(played(UNPRICED, 1.9 * HOUR_S)) == [("silent", Method.APPLICATION, 8.2)]


def test_a_job_that_missed_a_checkpoint_is_not_believed_in_its_next_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At both submissions, its next checkpoint is due in six minutes. It loses less than the other job."""
    path = tmp_path / "journal.sqlite"
    journal = played(replace(UNPRICED, min_progress_s=0.0), 1.9 * HOUR_S, 14_850.0, path=path)
    assert [(job_id, method) for job_id, method, _ in leaving(journal)] == [
        ("silent", Method.APPLICATION),
        ("silent", Method.KILL),
    ]
    summary = summarise(journal, None)
    journal.close()
    assert summary is not None
    (missed,) = summary.missed_checkpoints
    assert (missed.job_id, missed.user, missed.times) == ("silent", "batch", 1)
    assert round(missed.lost.node_s / HOUR_S, 1) == 8.2
    assert list(summary.urgent_users) == ["beam"]
    assert summary.urgent_users["beam"].departures == {Method.APPLICATION: 1, Method.KILL: 1}
    assert summary.urgent_users["beam"].actual == summary.all_lenders.actual
    assert run_cli(["summary", "--journal", str(path)], factories={}) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "silent of user batch, account (none): 1 time, 8.17 node-hours of work lost" in text
    assert "lost overhead beam 1 1 1 0 0 7.67 15.83 0" in text, "the table by urgent user"
    assert run_cli(["summary", "--json", "--journal", str(path)], factories={}) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["urgent_users"]["beam"]["jobs"] == 1
    assert values["missed_checkpoints"][0]["job_id"] == "silent"


def test_a_kill_that_was_to_be_none_needs_the_limits() -> None:
    """Its checkpoint does not come, and without it the job would lose 8.2 node-hours."""
    limits = replace(UNPRICED, max_loss_node_hours=8.0, max_loss_machine_share=0.0)
    assert leaving(played(limits, 1.9 * HOUR_S)) == []


def test_a_report_makes_up_for_it() -> None:
    losses = (
        RecentLoss("u", "beam", "", 0.0, 1.0, missed_by="a"),
        RecentLoss("u", "beam", "", 0.0, 1.0),
    )
    jobs = tuple(running(name, (f"n{name}",), checkpoint=SPEC) for name in ("a", "b"))
    first, second = without_missed(jobs, losses, 100.0)
    assert first.checkpoint == replace(SPEC, interval_s=None)
    assert second is jobs[1]
    reported = (replace(jobs[0], last_checkpoint_s=50.0), replace(jobs[0], checkpoint=None))
    assert without_missed(reported, losses, 100.0) == reported
    assert without_missed(jobs, losses[1:], 100.0) is jobs
