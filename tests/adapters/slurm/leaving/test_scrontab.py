"""Jobs of scrontab, which Slurm lets nobody change."""

import pytest

from makeway.adapters.protocol import Rejected
from makeway.adapters.site.job_class import JobClass
from tests import acts
from tests.adapters.slurm.fake_slurm import RUNNING, FakeSlurm, adapter_of

REFUSED = (1, "", "Cannot modify scrontab jobs through scontrol for job 17")
"""As 24.11 prints it."""


def test_a_job_that_is_found_to_be_of_scrontab_is_left_alone() -> None:
    slurm = FakeSlurm(RUNNING, RUNNING | {"JobArrayID": "18"})
    slurm.note_answer = REFUSED
    adapter = adapter_of(slurm)
    adapter.use_classes((JobClass(name="any", preemptible=True),))
    assert [job.preemptible for job in adapter.snapshot().jobs] == [True, True]
    with pytest.raises(Rejected, match="scrontab"):
        adapter.apply(acts.requeue("17"))
    assert slurm.acts == []
    assert [job.preemptible for job in adapter.snapshot().jobs] == [False, True]


def test_a_job_that_slurm_refuses_to_change_for_another_reason_is_none() -> None:
    slurm = FakeSlurm(RUNNING)
    slurm.note_answer = (1, "", "Access/permission denied for job 17")
    adapter = adapter_of(slurm)
    adapter.use_classes((JobClass(name="any", preemptible=True),))
    adapter.snapshot()
    with pytest.raises(Rejected, match="denied"):
        adapter.apply(acts.requeue("17"))
    assert adapter.snapshot().jobs[0].preemptible
