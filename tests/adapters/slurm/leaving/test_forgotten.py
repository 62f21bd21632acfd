"""A requeue that a crashed slurmctld has forgotten: what is looked at, and what the job is owed."""

from collections.abc import Mapping
from typing import Any

import pytest

from makeway.adapters.command import CompletedCommand
from makeway.adapters.protocol import Gone
from makeway.adapters.slurm import build
from tests import acts
from tests.adapters.slurm.fake_slurm import RUNNING, FakeSlurm, adapter_of

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
