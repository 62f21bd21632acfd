"""A signal to a task of an array that has waiting tasks, which scancel would repeat, and one that was not
sent.
"""

import pytest

from makeway.adapters.command import NoAnswer
from makeway.adapters.protocol import Rejected, Unavailable
from makeway.adapters.slurm import build
from makeway.adapters.slurm.leaving.signals import TRIES_AGAIN
from makeway.policies.model import SignalTarget
from tests import acts
from tests.adapters.slurm.fake_slurm import RUNNING, Answer, FakeSlurm, adapter_of

TASK = RUNNING | {"JobArrayID": "17_0"}
ENDED = (-9, "", f"scancel: Signal 10 to batch job 17_0\nscancel: {TRIES_AGAIN}\n")
"""scancel after it was ended."""


def test_a_task_is_signalled_although_scancel_would_try_again() -> None:
    slurm = FakeSlurm(TASK)
    slurm.script = [ENDED, ENDED]
    adapter = adapter_of(slurm)
    adapter.apply(acts.checkpoint("17_0", signal="USR1", signal_to=SignalTarget.BOTH, walltime_s=0))
    assert slurm.acts == [build.signal_batch("17_0", "USR1"), build.signal_steps("17_0", "USR1")]
    assert slurm.untils == {TRIES_AGAIN}


def test_another_failure_is_one() -> None:
    slurm = FakeSlurm(TASK)
    slurm.script = [(1, "", "scancel: error: Kill job error on job id 17_0: Access/permission denied")]
    with pytest.raises(Rejected):
        adapter_of(slurm).apply(acts.checkpoint("17_0", signal="USR1", walltime_s=0))


SIGNALS = "scancel: Signal 10 to batch job 17_0\n"
TOLD = (0, "", SIGNALS)


@pytest.mark.parametrize(
    ("before", "answer", "sent"),
    [
        ([], (1, "", "slurm_load_jobs error: Socket timed out on send/recv operation"), False),
        ([], (1, "", "scancel: error: Kill job error: Unable to contact slurm controller"), True),
        ([TOLD], NoAnswer("scancel gave no answer within 20 s", said=""), False),
        ([TOLD], NoAnswer("scancel gave no answer within 20 s", said=SIGNALS), True),
        ([(0, "", "")], NoAnswer("scancel gave no answer within 20 s", said=""), True),
        ([], NoAnswer("scancel gave no answer within 20 s", said=""), True),
    ],
    ids=["no list", "no answer", "no word", "a word", "never a word", "the first"],
)
def test_a_scancel_that_has_not_read_the_list_of_jobs_has_signalled_none(
    before: list[Answer], answer: Answer | Exception, sent: bool
) -> None:
    slurm = FakeSlurm(TASK)
    adapter = adapter_of(slurm)
    slurm.script = [*before, answer]
    for _ in before:
        adapter.apply(acts.checkpoint("17_0", signal="USR1", walltime_s=0))
    with pytest.raises(Unavailable) as caught:
        adapter.apply(acts.checkpoint("17_0", signal="USR1", walltime_s=0))
    assert caught.value.sent is sent


def test_the_second_of_two_signals_may_not_be_sent_alone() -> None:
    slurm = FakeSlurm(TASK)
    slurm.script = [TOLD, (1, "", "slurm_load_jobs error: Socket timed out on send/recv operation")]
    with pytest.raises(Unavailable) as caught:
        adapter_of(slurm).apply(
            acts.checkpoint("17_0", signal="USR1", signal_to=SignalTarget.BOTH, walltime_s=0)
        )
    assert caught.value.sent
