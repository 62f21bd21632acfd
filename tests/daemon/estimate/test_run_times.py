"""What is known of a user's finished runs, and how it gets from snapshots through the journal into the next
decision.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.cli.main import run_cli
from makeway.daemon.config.mode import Mode
from makeway.daemon.control.reconciler import Reconciler
from makeway.daemon.control.report import LoopSettings
from makeway.daemon.estimate.run_times import LATEST, History, Run, ended_runs, running
from makeway.daemon.journal.store import Journal
from makeway.policies.ckpt_backfill.outlook import CkptBackfillConfig, predicted_s
from makeway.policies.ckpt_backfill.policy import CKPT_BACKFILL
from makeway.policies.model import Cluster, JobState
from makeway.policies.registry import find
from tests import builders
from tests.fakes import FakeAdapter

LIMIT_S = 10_000.0


def run(number: int, share: float, user: str = "ann") -> Run:
    return Run(job_id=f"{number}", user=user, ended_s=float(number), share=share)


def at(now_s: float, *jobs: str, requeue_count: int = 0, walltime_s: float = LIMIT_S) -> Cluster:
    """A cluster on which these jobs of user `batch` run since 0 s, each on a node of its own."""
    held = [
        builders.running(job_id, (f"n{number + 1}",), walltime_s=walltime_s, requeue_count=requeue_count)
        for number, job_id in enumerate(jobs)
    ]
    return builders.cluster(8, *held, now_s=now_s)


def test_the_median_of_the_latest_runs_counts_once_there_are_enough() -> None:
    history = History(run(number, 0.1) for number in range(4))
    assert history.usual == {}
    history.add([run(4, 0.9), run(5, 0.3, "bob")])
    assert history.usual == {"ann": 0.1}
    before = history.usual
    history.add([run(6, 0.5) for _ in range(LATEST)])
    assert history.usual == {"ann": 0.5}
    assert before == {"ann": 0.1}, "what a snapshot has got does not change any more"


def test_runs_are_seen_to_end() -> None:
    before = running(at(100.0, "a", "b", "c"))
    seen = at(2000.0, "a", "b")
    completing = replace(seen, jobs=(seen.jobs[0], replace(seen.jobs[1], state=JobState.COMPLETING)))
    assert ended_runs(before, completing) == (
        Run(job_id="b", user="batch", ended_s=2000.0, share=0.2),
        Run(job_id="c", user="batch", ended_s=2000.0, share=0.2),
    )
    again = replace(completing, jobs=(seen.jobs[0], replace(completing.jobs[1], requeue_count=1)))
    assert [one.job_id for one in ended_runs(before, again)] == ["c"], "b was requeued: its work goes on"
    assert ended_runs(before, at(2000.0, "a", "b", "c")) == ()
    late, early = ended_runs(before, at(99_999.0)), ended_runs(before, at(1.0))
    assert {one.share for one in late} == {1.0}
    assert {one.share for one in early} == {0.01}


@pytest.mark.parametrize("changes", [{"requeue_count": 1}, {"walltime_s": 1799.0}])
def test_runs_that_say_little_do_not_count(changes: dict[str, float]) -> None:
    assert running(at(0.0, "a", **changes)) == {}  # type: ignore[arg-type]


def test_a_job_that_waits_again_has_not_ended() -> None:
    waits = builders.cluster(8, builders.pending("a", 1, requeue_count=1), now_s=500.0)
    assert ended_runs(running(at(100.0, "a")), waits) == ()


def test_the_journal_keeps_the_latest_runs_of_each_user(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.add_runs([run(number, 0.9) for number in range(5)])
    journal.add_runs([run(100 + number, 0.2) for number in range(LATEST)])
    journal.add_runs([run(40 + number, 0.4, "bob") for number in range(5)])
    assert journal.usual_shares() == {"ann": 0.2, "bob": 0.4}
    journal.close()
    journal = Journal(path)
    assert journal.usual_shares() == {"ann": 0.2, "bob": 0.4}
    assert journal.prune(50.0) == 5
    assert journal.usual_shares() == {"ann": 0.2}
    journal.close()


@pytest.mark.parametrize(("policy", "known"), [("ckpt-backfill", {"batch": 0.2}), ("eviction", {})])
def test_the_daemon_notes_what_its_policy_goes_by(policy: str, known: dict[str, float]) -> None:
    names = [f"j{number}" for number in range(6)]
    adapter = FakeAdapter(at(1000.0, *names))
    journal = Journal(None)
    chosen = find(policy)
    daemon = Reconciler(
        adapter, journal, chosen, chosen.config_type(), LoopSettings(mode=Mode.OBSERVE), now=lambda: 0.0
    )
    daemon.reconcile()
    adapter.view = at(2000.0)
    daemon.reconcile()
    assert journal.usual_shares() == known


def test_a_learned_share_takes_the_place_of_the_default() -> None:
    job = builders.pending("a", 1, walltime_s=LIMIT_S)
    learned = CkptBackfillConfig(p="learned")
    usual = {"user": 0.5}
    assert predicted_s(job, learned, 0.0, usual) == 5000.0
    assert predicted_s(job, learned) == 2000.0
    assert predicted_s(job, CkptBackfillConfig(p=0.1), 0.0, usual) == 1000.0
    assert predicted_s(job, replace(learned, p_by_user={"user": 0.3}), 0.0, usual) == 3000.0
    assert CKPT_BACKFILL.learns


def test_a_share_that_is_none_is_told_with_everything_that_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "makeway.yaml"
    text = "adapter: {type: simulated}\npolicy: {name: ckpt-backfill, settings: {p: some}}\n"
    path.write_text(text)
    assert run_cli(["check-config", str(path)], factories={}) == 2
    told = capsys.readouterr().err
    assert '2: policy.settings.p: "some" is not accepted; accepted: a number or learned' in told
    path.write_text(text.replace("some", "learned"))
    assert run_cli(["check-config", str(path)], factories={}) == 0
    assert "p: learned" in capsys.readouterr().out
