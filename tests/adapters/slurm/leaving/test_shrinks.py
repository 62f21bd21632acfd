"""A shrink to which slurmctld sends an answer that scontrol does not expect."""

from collections.abc import Mapping

import pytest

from makeway.adapters.protocol import Rejected, Unavailable
from makeway.adapters.slurm import build
from tests import acts
from tests.adapters.slurm.fake_slurm import RUNNING, Answer, FakeSlurm, adapter_of

ODD = (1, "", "Unexpected message received for job 17")
SILENT = (1, "", "slurm_update error: Socket timed out on send/recv operation")
SHRINK = acts.shrink("17", keep_nodes=("n1",), walltime_s=0)


class Shrinks(FakeSlurm):
    """It shrinks the job, whatever it answers."""

    def _answer(self, argv: tuple[str, ...], stdin: bytes, environment: Mapping[str, str]) -> Answer:
        answer = super()._answer(argv, stdin, environment)
        if "NodeList=n1" in argv:
            self.rows[0] = RUNNING | {"NodeList": "n1"}
        return answer


def test_a_job_that_keeps_its_nodes_counts_as_refused() -> None:
    slurm = FakeSlurm(RUNNING, script=(ODD,), release="22.05.8")
    with pytest.raises(Rejected, match="job keeps its nodes") as refusal:
        adapter_of(slurm).apply(SHRINK)
    assert ODD[2] in str(refusal.value)
    assert not refusal.value.retryable
    assert slurm.acts == [build.resize("17", ("n1",), None)]


def test_a_job_that_has_lost_them_counts_as_shrunk() -> None:
    slurm = Shrinks(RUNNING, script=(ODD,))
    adapter_of(slurm).apply(SHRINK)
    assert len(slurm.acts) == 1


def test_a_slurm_that_gives_no_answer_has_not_refused() -> None:
    with pytest.raises(Unavailable):
        adapter_of(FakeSlurm(RUNNING, script=(SILENT,))).apply(SHRINK)
