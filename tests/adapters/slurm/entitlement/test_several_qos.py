"""Jobs that ask for several QOS (`--qos=normal,urgent`) or partitions, as Slurm prints them."""

from dataclasses import replace

import pytest

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.adapters.slurm.entitlement.qos import QosRules
from makeway.adapters.slurm.entitlement.several_qos import with_counting_qos
from makeway.adapters.slurm.resources.limits import KnownLimits, chosen
from makeway.adapters.slurm.settings import SlurmSettings
from makeway.adapters.slurm.translate import job_class
from makeway.policies.model import Job, JobKind, JobState
from tests.adapters.slurm.fake_slurm import NOW_S, FakeSlurm
from tests.adapters.slurm.jobs.raw_jobs import PENDING
from tests.adapters.slurm.test_parse import ROW

CLASSES = (
    JobClass(
        name="beam", qos=frozenset({"urgent", "now"}), accounts=frozenset({"physics"}), kind=JobKind.ON_DEMAND
    ),
    JobClass(name="batch", qos=frozenset({"normal"}), preemptible=True),
)
LIMITS = "QOS=urgent(4) GrpJobs=1(1) GrpTRES=cpu=N(2) GrpTRESRunMins=cpu=N(0) Account Limits= User Limits="
"""One job may run with the QOS, and one does."""


@pytest.mark.parametrize(
    ("qos", "account", "counts"),
    [
        ("urgent", "physics", "urgent"),
        ("normal,urgent", "physics", "normal,urgent"),
        ("urgent,normal", "physics", "normal,urgent"),
        ("urgent,now", "physics", "urgent,now"),
        ("urgent,normal", "chemistry", "urgent,normal"),
        ("low,normal", "physics", "low,normal"),
        ("low,urgent,low", "physics", "low,urgent"),
        ("", "physics", ""),
    ],
)
def test_only_a_job_that_is_urgent_by_each_of_its_qos_is_urgent(qos: str, account: str, counts: str) -> None:
    """The first QOS decides on the class. The others stay known: one may be protected."""
    raw = replace(PENDING, qos=qos, account=account)
    assert with_counting_qos(raw, CLASSES) == replace(raw, qos=counts)


def snapshot_of(qos: str, *limits: str) -> Job:
    """A job that waits with these QOS, on a Slurm with these limits."""
    waits = ROW | {"State": "PENDING", "QOS": qos, "UserName": "ada", "Account": "a", "JobArrayID": "7"}
    slurm = FakeSlurm(waits)
    slurm.settings = {"AccountingStorageEnforce": "limits"}
    slurm.change = lambda lines: [
        one for line in lines for one in ((line, *limits) if "show assoc_mgr" in line else (line,))
    ]
    settings = SlurmSettings(classes=(replace(CLASSES[0], accounts=frozenset()),))
    (job,) = SlurmCliAdapter(settings, runner=slurm, now=lambda: NOW_S).snapshot().jobs
    return job


def test_of_several_urgent_qos_a_limit_counts_that_all_have() -> None:
    now = LIMITS.replace("urgent", "now")
    job = snapshot_of("urgent,now", LIMITS)
    assert (job.kind, job.state, job.quotas) == (JobKind.ON_DEMAND, JobState.PENDING, ())
    assert [one.name for one in snapshot_of("urgent", LIMITS, now).quotas] == ["jobs of QOS urgent"]
    assert snapshot_of("urgent,normal", LIMITS).kind is JobKind.RIGID


def test_the_limits_of_each_qos_are_asked_for() -> None:
    waits = replace(PENDING, qos="urgent,now")
    assert chosen([waits], {waits.account: ""}, {}).endswith("qos=now,urgent")
    known = KnownLimits(of_partitions={"batch": "part"}, rules=QosRules(before_partitions=frozenset({"now"})))
    assert known.in_force(waits) == ((None, ("part", "urgent")), (None, ("now", "part")))


def test_a_job_in_several_partitions_is_urgent_only_if_each_makes_it_urgent() -> None:
    """Slurm takes the job if one of them admits its user, and starts it there."""
    urgent = JobClass(name="u", partitions=frozenset({"urg", "rt"}), kind=JobKind.ON_DEMAND)
    batch = JobClass(name="b", partitions=frozenset({"batch"}), preemptible=True)
    by_user = JobClass(name="v", users=frozenset({"alice"}), kind=JobKind.ON_DEMAND)

    def found(names: str, *classes: JobClass) -> str | None:
        of = job_class(replace(PENDING, partitions=tuple(names.split(","))), classes)
        return None if of is None else of.name

    assert [found(names, urgent, batch) for names in ("urg", "urg,rt", "rt,urg")] == ["u", "u", "u"]
    assert [found(names, urgent, batch) for names in ("urg,batch", "batch,urg,rt", "urg,x")] == [
        "b",
        "b",
        None,
    ]
    assert found("urg,batch", by_user, urgent) == "v", "its user makes it urgent wherever it runs"
    assert found("batch,x", batch) == "b", "one that may leave needs only one of its partitions"
