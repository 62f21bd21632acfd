"""A signal to a task of an array that has waiting tasks, which scancel would repeat."""

import pytest

from makeway.adapters.protocol import Rejected
from makeway.adapters.slurm import build
from makeway.adapters.slurm.leaving.signals import TRIES_AGAIN
from makeway.policies.model import SignalTarget
from tests import acts
from tests.adapters.slurm.fake_slurm import RUNNING, FakeSlurm, adapter_of

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
