"""A shrink to which slurmctld sends an answer that scontrol does not expect."""

from collections.abc import Mapping

import pytest

from makeway.adapters.protocol import Rejected, Unavailable
from makeway.adapters.slurm import build
from tests import acts
from tests.adapters.slurm.fake_slurm import RUNNING, Answer, FakeSlurm, adapter_of

ODD = (1, "", "Unexpected message received for job 17")
NO_INDEX = (1, "", "Job update not available right now, the DB index is being set, try again in a bit")
SILENT = (1, "", "slurm_update error: Socket timed out on send/recv operation")
SHRINK = acts.shrink("17", keep_nodes=("n1",), walltime_s=0)


class Shrinks(FakeSlurm):
    """It shrinks the job, whatever it answers."""

    def _answer(self, argv: tuple[str, ...], stdin: bytes, environment: Mapping[str, str]) -> Answer:
        answer = super()._answer(argv, stdin, environment)
        if "NodeList=n1" in argv:
            self.rows[0] = RUNNING | {"NodeList": "n1"}
        return answer


@pytest.mark.parametrize("answer", [ODD, NO_INDEX])
def test_a_job_that_keeps_its_nodes_counts_as_refused(answer: Answer) -> None:
    slurm = FakeSlurm(RUNNING, script=(answer,), release="22.05.8")
    with pytest.raises(Rejected, match="job keeps its nodes") as refusal:
        adapter_of(slurm).apply(SHRINK)
    assert answer[2] in str(refusal.value)
    assert not refusal.value.retryable
    assert slurm.acts == [build.resize("17", ("n1",), None)]


def test_a_job_that_has_lost_them_counts_as_shrunk() -> None:
    slurm = Shrinks(RUNNING, script=(ODD,))
    adapter_of(slurm).apply(SHRINK)
    assert len(slurm.acts) == 1


def test_a_slurm_that_gives_no_answer_has_not_refused() -> None:
    with pytest.raises(Unavailable):
        adapter_of(FakeSlurm(RUNNING, script=(SILENT,))).apply(SHRINK)


def test_a_database_gives_the_number_soon() -> None:
    slurm = FakeSlurm(RUNNING, script=(NO_INDEX,), release="22.05.8")
    slurm.settings["AccountingStorageType"] = "accounting_storage/slurmdbd"
    with pytest.raises(Rejected) as refusal:
        adapter_of(slurm).apply(SHRINK)
    assert refusal.value.retryable
