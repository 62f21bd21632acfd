"""How a job ended, as squeue prints it, and whether it is put back into the queue."""

from contextlib import nullcontext
from typing import Any

import pytest

from makeway.adapters.command import CompletedCommand
from makeway.adapters.protocol import Gone, Rejected, Unavailable, Unreadable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.leaving.ended import last_runs
from makeway.policies.model import RunIdentity
from tests import acts
from tests.adapters.slurm.fake_slurm import RUNNING, FakeSlurm, adapter_of

RUN = RunIdentity(requeue_count=0, start_s=1_795_249_000.0)
FAILED = RUNNING | {"State": "FAILED", "exit_code": "0:10"}


@pytest.mark.parametrize(
    ("state", "status", "by_signal"),
    [
        # As 22.05 prints them, for the scripts that the comments name.
        ("FAILED", "10", True),  # sleep 100
        ("COMPLETED", "0", False),  # srun sleep 100; echo $?
        ("FAILED", "35328", True),  # set -e; srun sleep 100
        ("FAILED", "21760", False),  # trap 'exit 85' USR1
        ("CANCELLED", "10", False),
        # As 24.11 prints the same.
        ("FAILED", "0:10", True),
        ("COMPLETED", "0:0", False),
        ("FAILED", "138:0", True),
        ("FAILED", "85:0", False),
        ("FAILED", "0:9", False),
        # A requeue that slurmctld has forgotten, as both print it; a script that ends with 143 by itself.
        ("FAILED", "15", True),
        ("FAILED", "0:15", True),
        ("FAILED", "143:0", False),
        ("CANCELLED", "0:15", False),
        ("TIMEOUT", "0:10", False),
    ],
)
def test_a_job_is_put_back_if_the_signal_has_ended_it(state: str, status: str, by_signal: bool) -> None:
    slurm = FakeSlurm(RUNNING | {"State": state, "exit_code": status})
    put_back = acts.requeue("17", ended_by="USR1", run=RUN)
    if by_signal:
        adapter_of(slurm).apply(put_back)
        assert slurm.acts == [build.requeue_any("17")]
    else:
        with pytest.raises(Gone, match="was not ended by signal USR1"):
            adapter_of(slurm).apply(put_back)
        assert slurm.acts == []


@pytest.mark.parametrize(
    ("signal", "by_signal"), [("USR1", True), ("10", True), ("USR2", False), ("TERM", False), ("X", False)]
)
def test_only_the_signal_that_was_sent_counts(signal: str, by_signal: bool) -> None:
    slurm = FakeSlurm(FAILED)
    put_back = acts.requeue("17", ended_by=signal, run=RUN)
    if by_signal:
        adapter_of(slurm).apply(put_back)
    else:
        with pytest.raises(Gone):
            adapter_of(slurm).apply(put_back)


def test_another_run_that_has_failed_is_not_put_back() -> None:
    for later in ({"RestartCnt": "1"}, {"StartTime": "1795249999"}):
        slurm = FakeSlurm(FAILED | later)
        with pytest.raises(Gone, match="has left the run"):
            adapter_of(slurm).apply(acts.requeue("17", ended_by="USR1", run=RUN))
        assert slurm.acts == []


def test_a_job_that_completes_is_looked_at_later() -> None:
    slurm = FakeSlurm(FAILED | {"State": "COMPLETING"})
    with pytest.raises(Rejected, match="still completing") as rejected:
        adapter_of(slurm).apply(acts.requeue("17", ended_by="USR1", run=RUN))
    assert rejected.value.retryable


def test_a_job_that_slurm_has_forgotten_is_over() -> None:
    with pytest.raises(Gone, match="has forgotten"):
        adapter_of(FakeSlurm()).apply(acts.requeue("17", ended_by="USR1", run=RUN))


def test_without_an_answer_nothing_was_sent() -> None:
    slurm = FakeSlurm(FAILED)
    adapter = adapter_of(slurm)
    adapter.snapshot()
    slurm.squeue_answer = (
        1,
        "",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    )
    with pytest.raises(Unavailable) as unavailable:
        adapter.apply(acts.requeue("17", ended_by="USR1", run=RUN))
    assert not unavailable.value.sent


@pytest.mark.parametrize(
    "text", ["17|FAILED", "17|FAILED|0|1795249000|x|", "17|FAILED|a|1795249000|0:10|", "x"]
)
def test_what_is_not_whole_is_not_read(text: str) -> None:
    with pytest.raises(Unreadable):
        last_runs(text, token="|", command=("squeue",))


class Meanwhile(FakeSlurm):
    """Accepts a requeue of a job that is no longer what it was at the look before it."""

    then: dict[str, str]

    def run(self, argv: tuple[str, ...], **how: Any) -> CompletedCommand:
        if argv == build.requeue("17"):
            self.rows = [RUNNING | self.then]
        return super().run(argv, **how)


@pytest.mark.parametrize(
    ("state", "restarts", "status", "has_ended"),
    [
        ("CANCELLED", "0", "0:15", True),
        ("COMPLETED", "0", "0:0", True),
        ("TIMEOUT", "0", "0:15", True),
        ("COMPLETING", "0", "0:0", True),
        ("COMPLETING", "0", "0:15", False),  # cancelled, or requeued and forgotten by a slurmctld that died
        ("COMPLETING", "0", "143:0", False),
        ("COMPLETING", "0", "1:0", True),
        ("FAILED", "0", "0:15", False),
        ("FAILED", "0", "143:0", False),
        ("FAILED", "0", "0:9", False),
        ("FAILED", "0", "137:0", False),
        ("FAILED", "0", "1:0", True),
        ("FAILED", "0", "0:11", True),
        ("DEADLINE", "0", "0:15", True),
        ("OUT_OF_MEMORY", "0", "0:125", True),
        ("COMPLETING", "1", "0:0", False),
        ("CANCELLED", "1", "0:15", False),  # cancelled while it waits again: the snapshot shows it
        ("PENDING", "1", "0:0", False),
    ],
)
def test_a_job_that_ends_between_the_look_and_its_requeue_is_not_requeued(
    state: str, restarts: str, status: str, has_ended: bool
) -> None:
    """Slurm accepts the requeue all the same. It must not be taken for one that slurmctld has forgotten."""
    slurm = Meanwhile(RUNNING)
    slurm.then = {"State": state, "RestartCnt": restarts, "exit_code": status}
    ended = pytest.raises(Gone, match="ended before its requeue") if has_ended else nullcontext()
    with ended:
        adapter_of(slurm).apply(acts.requeue("17"))
    assert slurm.acts == [build.requeue("17")]


def test_a_requeue_after_which_squeue_gives_no_answer_is_sent() -> None:
    class Silent(FakeSlurm):
        def run(self, argv: tuple[str, ...], **how: Any) -> CompletedCommand:
            if argv == build.requeue("17"):
                self.squeue_answer = (1, "", "slurm_load_jobs error: Unable to contact slurm controller")
            return super().run(argv, **how)

    slurm = Silent(RUNNING)
    adapter_of(slurm).apply(acts.requeue("17"))
    assert slurm.acts == [build.requeue("17")]
