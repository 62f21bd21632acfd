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


OPTIONS = "scancel: batch          : true\nscancel: job_id[0]      : 17_0\n"
SIGNALS = f"{OPTIONS}scancel: Signal 10 to batch job 17_0\n"
TOLD = (0, "", SIGNALS)
LATE = "scancel gave no answer within 20 s"


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        ((1, "", f"{OPTIONS}slurm_load_jobs error: Socket timed out on send/recv operation"), False),
        ((1, "", f"{OPTIONS}scancel: error: Kill job error: Unable to contact slurm controller"), True),
        ((1, "", f"{SIGNALS}slurm_load_jobs error: Unable to contact slurm controller"), True),
        (NoAnswer(LATE, said=OPTIONS), False),
        (NoAnswer(LATE, said=SIGNALS), True),
        (NoAnswer(LATE, said=""), True),
    ],
    ids=["no list", "no answer", "no second list", "only its options", "the job", "never a word"],
)
def test_a_scancel_that_has_not_read_the_list_of_jobs_has_signalled_none(
    answer: Answer | Exception, sent: bool
) -> None:
    slurm = FakeSlurm(TASK)
    # Also after one that has told all: a site's own script may pass it on at its end only.
    slurm.script = [TOLD, answer]
    adapter = adapter_of(slurm)
    adapter.apply(acts.checkpoint("17_0", signal="USR1", walltime_s=0))
    with pytest.raises(Unavailable) as caught:
        adapter.apply(acts.checkpoint("17_0", signal="USR1", walltime_s=0))
    assert caught.value.sent is sent


def test_an_attempt_that_scancel_goes_on_from_is_no_failure() -> None:
    """Nor is what it says of its options shown to anybody."""
    attempt = "scancel: debug2: Error connecting slurm stream socket at 10.0.0.1:6817: Connection refused\n"
    plugin = "scancel: select/cons_tres: common_init: select/cons_tres loaded\n"
    error = "scancel: error: Kill job error on job id 17_0: Access/permission denied"
    slurm = FakeSlurm(TASK)
    slurm.script = [(1, "", OPTIONS + plugin + attempt + error)]
    with pytest.raises(Rejected) as caught:
        adapter_of(slurm).apply(acts.checkpoint("17_0", signal="USR1", walltime_s=0))
    assert str(caught.value) == f"scancel: {error}"


def test_the_second_of_two_signals_may_not_be_sent_alone() -> None:
    slurm = FakeSlurm(TASK)
    slurm.script = [TOLD, (1, "", "slurm_load_jobs error: Socket timed out on send/recv operation")]
    with pytest.raises(Unavailable) as caught:
        adapter_of(slurm).apply(
            acts.checkpoint("17_0", signal="USR1", signal_to=SignalTarget.BOTH, walltime_s=0)
        )
    assert caught.value.sent
