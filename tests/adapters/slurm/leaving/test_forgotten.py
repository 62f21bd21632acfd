"""A requeue that a crashed slurmctld has forgotten: what is looked at, and what the job is owed."""

from collections.abc import Mapping
from typing import Any

import pytest

from makeway.adapters.command import CompletedCommand
from makeway.adapters.protocol import Gone, NotForgotten, Rejected
from makeway.adapters.slurm import build
from makeway.policies.model import RunIdentity
from tests import acts
from tests.adapters.slurm.fake_slurm import RUNNING, FakeSlurm, adapter_of
from tests.adapters.slurm.test_parse import ROW

ENDED = RUNNING | {"State": "FAILED"}
WAITS = RUNNING | {"State": "PENDING", "NodeList": "", "StartTime": "N/A", "RestartCnt": "1"}


class Requeueing(FakeSlurm):
    """Puts the job back when it is told to; then it shows `after`."""

    after: Mapping[str, str] = WAITS

    def run(self, argv: tuple[str, ...], **how: Any) -> CompletedCommand:
        done = super().run(argv, **how)
        if argv == build.requeue_any("17"):
            self.rows = [dict(self.after)]
        return done


def test_a_job_that_has_ended_is_looked_for_too() -> None:
    slurm = FakeSlurm(ENDED)
    adapter_of(slurm).apply(acts.requeue("17", forgotten_run=0))
    assert next(argv for argv in slurm.calls if argv[0] == "squeue") == build.squeue("17", ended=True)


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("", ["AdminComment=makeway:taken=c,run=0,for=urgent"]),  # the crash has lost it
        ("makeway:taken=c,run=0,for=9", []),
    ],
)
def test_a_job_that_is_put_back_goes_first_in_the_queue(word: str, kept: list[str]) -> None:
    """Slurm changes no job that has ended, so that the word is written afterwards, for the run that ended."""
    slurm = Requeueing(ENDED)
    slurm.after = WAITS | {"admin_comment": word}
    adapter_of(slurm).apply(acts.requeue("17", forgotten_run=0))
    assert slurm.acts == [build.requeue_any("17")]
    assert slurm.kept == kept


def test_a_job_that_runs_again_at_once_is_owed_no_turn() -> None:
    slurm = Requeueing(ENDED)
    slurm.after = RUNNING | {"RestartCnt": "1"}
    adapter_of(slurm).apply(acts.requeue("17", forgotten_run=0))
    assert slurm.kept == []


def test_a_job_in_an_earlier_run_is_not_the_one_that_is_meant() -> None:
    """slurmctld has forgotten more than the requeue."""
    slurm = FakeSlurm(RUNNING)
    with pytest.raises(Gone, match="is not in the run that is meant"):
        adapter_of(slurm).apply(acts.requeue("17", forgotten_run=1))
    assert slurm.acts == []


@pytest.mark.parametrize("state", ["RUNNING", "FAILED", "COMPLETED"])
def test_a_requeue_that_slurm_forgot_is_repeated(state: str) -> None:
    """Also if the job ends between the look and the command, which therefore takes ended jobs too."""
    slurm = FakeSlurm(RUNNING | {"State": state, "RestartCnt": "1"})
    adapter_of(slurm).apply(acts.requeue("17", forgotten_run=1))
    assert slurm.acts == [("scontrol", "requeue", "17")]


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        ((), Gone),
        ((RUNNING | {"State": "CANCELLED", "RestartCnt": "2"},), Gone),
        ((RUNNING | {"State": "CANCELLED", "RestartCnt": "1"},), Gone),
        ((RUNNING | {"State": "SUSPENDED", "RestartCnt": "1"},), Gone),
        ((RUNNING | {"RestartCnt": "2"},), NotForgotten),
        ((ROW | {"RestartCnt": "2"},), NotForgotten),
        ((ROW | {"RestartCnt": "1"},), NotForgotten),
        ((RUNNING | {"State": "REVOKED", "RestartCnt": "1"},), NotForgotten),
        ((RUNNING | {"State": "REVOKED", "RestartCnt": "2"},), Gone),
    ],
    ids=[
        "gone",
        "cancelled",
        "cancelled at once",
        "suspended",
        "runs again",
        "waits",
        "start forgotten",
        "offered",
        "away",
    ],
)
def test_a_requeue_that_slurm_remembers_is_not_repeated(
    rows: tuple[dict[str, str], ...], answer: type[Gone]
) -> None:
    slurm = FakeSlurm(*rows)
    with pytest.raises(Gone) as raised:
        adapter_of(slurm).apply(acts.requeue("17", forgotten_run=1))
    assert raised.type is answer
    assert slurm.acts == []


def test_a_run_of_the_same_number_that_started_later_is_not_requeued() -> None:
    """slurmctld had forgotten the start of the run that was meant, not its requeue."""
    slurm = FakeSlurm(RUNNING | {"State": "COMPLETED", "RestartCnt": "1", "StartTime": "1795249999"})
    meant = RunIdentity(requeue_count=1, start_s=1_795_249_000.0)
    with pytest.raises(Gone, match="is in another one"):
        adapter_of(slurm).apply(acts.requeue("17", forgotten_run=1, run=meant))
    assert slurm.acts == []


def test_how_a_job_ends_is_awaited_before_a_forgotten_requeue_is_repeated() -> None:
    """Its user may have cancelled it."""
    slurm = FakeSlurm(RUNNING | {"State": "COMPLETING", "RestartCnt": "1"})
    with pytest.raises(Rejected, match="still completing") as refused:
        adapter_of(slurm).apply(acts.requeue("17", forgotten_run=1))
    assert refused.value.retryable
    assert slurm.acts == []
