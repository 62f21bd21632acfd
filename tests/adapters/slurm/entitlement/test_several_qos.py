"""Jobs that ask for several QOS (`--qos=normal,urgent`), as Slurm prints them while they wait."""

from dataclasses import replace

import pytest

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.entitlement.several_qos import with_one_qos
from makeway.policies.model import JobKind, JobState
from tests.adapters.slurm.fake_slurm import RUNNING as RUNNING_ROW
from tests.adapters.slurm.fake_slurm import FakeSlurm, adapter_of
from tests.adapters.slurm.jobs.raw_jobs import PENDING
from tests.adapters.slurm.test_parse import ROW

CLASSES = (
    JobClass(name="beam", qos=frozenset({"urgent"}), accounts=frozenset({"physics"}), kind=JobKind.ON_DEMAND),
    JobClass(name="batch", qos=frozenset({"normal"}), preemptible=True),
)
LIMITS = "QOS=urgent(4) GrpJobs=1(1) GrpTRES=cpu=N(2) GrpTRESRunMins=cpu=N(0) Account Limits= User Limits="
"""One job may run with the QOS, and one does."""


@pytest.mark.parametrize(
    ("qos", "account", "counts"),
    [
        ("urgent", "physics", "urgent"),
        ("normal,urgent", "physics", "urgent"),
        ("urgent,normal", "physics", "urgent"),
        ("normal,urgent", "chemistry", "normal"),
        ("low,normal", "physics", "low"),
        ("", "physics", ""),
    ],
)
def test_of_several_qos_the_urgent_one_counts(qos: str, account: str, counts: str) -> None:
    raw = replace(PENDING, qos=qos, account=account)
    assert with_one_qos(raw, CLASSES) == replace(raw, qos=counts)


def test_a_job_with_an_urgent_qos_among_several_is_urgent_by_the_limits_of_that_one() -> None:
    """Its other QOS would admit more: room is made for no more jobs than the urgent one admits."""
    waits = ROW | {"State": "PENDING", "QOS": "normal,urgent", "UserName": "ada", "Account": "a"}
    slurm = FakeSlurm(RUNNING_ROW | {"QOS": "urgent", "JobArrayID": "6"}, waits | {"JobArrayID": "7"})
    slurm.settings = {
        "AccountingStorageEnforce": "limits",
        "AccountingStorageType": "accounting_storage/slurmdbd",
    }
    slurm.change = lambda lines: [
        one for line in lines for one in ((line, LIMITS) if "show assoc_mgr" in line else (line,))
    ]
    job = adapter_of(slurm).snapshot().jobs_by_id()["7"]
    assert (job.kind, job.state, job.qos) == (JobKind.ON_DEMAND, JobState.PENDING, "urgent")
    assert [(one.name, one.left) for one in job.quotas] == [("jobs of QOS urgent", 0.0)]
