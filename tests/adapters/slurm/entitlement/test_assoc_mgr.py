"""Limits on each job, and on the minutes that jobs have used, as `scontrol show assoc_mgr` prints them.

Tried on 24.11.5 on 2026-11-26. With `AccountingStorageEnforce=safe`, a job of 120 CPU minutes waits under
`GrpTRESMins=cpu=119`, and under 200 while another one of 120 runs. A UsageFactor counts only with the flag
UsageFactorSafe.

Tried on 22.05.8, 24.11.5 and 26.05.5 on 2026-11-27: an exclusive job of one CPU on a node of four, for ten
minutes, waits under `MaxTRESMinsPerJob=cpu=39` and runs under 40, also without `safe`. The same limit of an
association comes after that of the QOS, and no LimitFactor scales it. The same holds for `MaxWall` and
`MaxTRESPerNode`. Jobs wait under `MaxTRESPerNode=cpu=2`, on nodes of four CPUs, with `-n6`, which gets two
nodes, and with `-N2 --exclusive`; with `-n5` and `-n3 -N2` they run. A `--time-min` makes no difference to
`MaxWall`.
"""

from dataclasses import replace

import pytest

from makeway.adapters.slurm.entitlement.assoc_mgr import limits
from makeway.adapters.slurm.entitlement.qos import QosRules
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.resources.limits import KnownLimits, LimitsReader, quotas
from tests.adapters.slurm.fake_slurm import FakeSlurm, adapter_of
from tests.adapters.slurm.jobs.raw_jobs import PENDING
from tests.adapters.slurm.test_parse import ROW

NO_MINUTES = "GrpTRESMins=cpu=N(40),node=N(20) GrpTRESRunMins=cpu=N(120),node=N(60)"
RAW = replace(PENDING, user_id="0", account="a", qos="x", tres="cpu=4,node=2", limit_s=1800.0)


def of_qos(words: str, name: str = "x") -> str:
    return f"QOS={name}(4) UsageRaw=0.0 GrpJobs=N(1) {words} PreemptMode=OFF Account Limits= User Limits="


def of_user(words: str) -> str:
    return (
        f"ClusterName=c Account=a UserName=root(0) Partition= ParentAccount= GrpJobs=N(0) {words} Comment=x"
    )


def drawn_on(known: KnownLimits) -> set[tuple[str, float, float]]:
    return {(one.name, one.needs, one.left) for one in quotas(RAW, known)}


@pytest.mark.parametrize(
    ("lines", "drawn"),
    [
        (
            (of_qos("MaxTRESPJ=cpu=3,node=5"),),
            {("cpu of job 7, QOS x", 4.0, 3.0), ("node of job 7, QOS x", 2.0, 5.0)},
        ),
        ((of_qos("MaxTRESPJ="), of_user("MaxTRESPJ=cpu=3")), {("cpu of job 7, account a, user 0", 4.0, 3.0)}),
        ((of_qos("MaxTRESPJ=cpu=8"), of_user("MaxTRESPJ=cpu=3")), {("cpu of job 7, QOS x", 4.0, 8.0)}),
        (
            (of_qos("MaxTRESPJ=node=8"), of_user("MaxTRESPJ=node=3,energy=N")),
            {("node of job 7, QOS x", 2.0, 8.0)},
        ),
        ((of_qos("MaxTRESPJ=cpu=3", "other"), of_user("MaxTRESPJ=gres/gpu=3")), set()),
        ((of_qos("MaxTRESPJ= MaxTRESMinsPJ=cpu=119"),), {("cpu job minutes of job 7, QOS x", 120.0, 119.0)}),
        (
            (of_qos("MaxTRESMinsPJ=cpu=900"), of_user("MaxTRESPJ=cpu=3 MaxTRESMinsPJ=cpu=30,node=50")),
            {
                ("cpu job minutes of job 7, QOS x", 120.0, 900.0),
                ("cpu of job 7, account a, user 0", 4.0, 3.0),
                ("node job minutes of job 7, account a, user 0", 60.0, 50.0),
            },
        ),
        (
            (of_qos("MaxWallPJ=20 MaxTRESPN=cpu=1"), of_user("MaxWallPJ=40 MaxTRESPN=cpu=3,gres/gpu=1")),
            {
                ("minutes of the time limit of job 7, QOS x", 30.0, 20.0),
                ("cpu per node of job 7, QOS x", 2.0, 1.0),
            },
        ),
        (
            (of_qos("MaxWallPJ= MaxTRESPN="), of_user("MaxWallPJ=40 MaxTRESPN=cpu=3")),
            {
                ("minutes of the time limit of job 7, account a, user 0", 30.0, 40.0),
                ("cpu per node of job 7, account a, user 0", 2.0, 3.0),
            },
        ),
    ],
)
def test_what_each_job_may_have(lines: tuple[str, ...], drawn: set[tuple[str, float, float]]) -> None:
    assert drawn_on(KnownLimits(limited=limits(lines))) == drawn


def test_what_each_job_of_an_association_may_have_is_scaled_by_the_factor_of_its_qos() -> None:
    limited = limits([of_user("MaxTRESPJ=cpu=3 MaxTRESMinsPJ=cpu=30")])
    known = KnownLimits(limited=limited, rules=QosRules(factors={"x": 1.5}))
    assert drawn_on(known) == {
        ("cpu of job 7, account a, user 0", 4.0, 4.0),
        ("cpu job minutes of job 7, account a, user 0", 120.0, 30.0),
    }


MINUTES = "GrpTRESMins=cpu=200(40),node=N(20) GrpTRESRunMins=cpu=N(120),node=N(60)"
"""40 are used, and jobs that run may use 120."""


@pytest.mark.parametrize(
    ("lines", "drawn"),
    [
        ((of_qos(MINUTES),), {("cpu minutes in all of QOS x", 120.0, 40.0)}),
        ((of_qos(NO_MINUTES), of_user(MINUTES)), {("cpu minutes in all of account a, user 0", 120.0, 40.0)}),
        (
            (of_qos(MINUTES.replace("200", "900")), of_user(MINUTES)),
            {("cpu minutes in all of QOS x", 120.0, 740.0)},
        ),
        ((of_qos(MINUTES.replace("200", "100")),), {("cpu minutes in all of QOS x", 120.0, 0.0)}),
        ((of_qos(NO_MINUTES),), set()),
    ],
)
def test_minutes_that_are_left_are_shared_with_the_jobs_that_run(
    lines: tuple[str, ...], drawn: set[tuple[str, float, float]]
) -> None:
    assert drawn_on(KnownLimits(limited=limits(lines, safe=True))) == drawn
    assert drawn_on(KnownLimits(limited=limits(lines))) == set()


def test_minutes_are_not_counted_where_jobs_use_more_or_fewer_than_they_last() -> None:
    known = KnownLimits(
        limited=limits([of_qos(f"{MINUTES} MaxTRESPJ=cpu=8 MaxTRESMinsPJ=cpu=9")], safe=True),
        rules=QosRules(other_prices=frozenset({"x"})),
    )
    assert drawn_on(known) == {("cpu of job 7, QOS x", 4.0, 8.0)}


def test_a_limit_on_minutes_makes_the_rules_of_qos_known() -> None:
    rules = QosRules(other_prices=frozenset({"x"}))
    reader = LimitsReader(lambda: rules)
    partitions = [RawPartition(name="batch", state="UP")]
    assert reader.learn([of_qos(NO_MINUTES)], partitions, [RAW], safe=True).rules == QosRules()
    for words in (MINUTES, "MaxTRESMinsPJ=cpu=9"):
        assert reader.learn([of_qos(words)], partitions, [RAW], safe=True).rules == rules


@pytest.mark.parametrize(("enforced", "drawn"), [("limits,safe", 1), ("safe", 1), ("limits,qos", 0)])
def test_minutes_count_where_slurm_starts_jobs_safely(enforced: str, drawn: int) -> None:
    slurm = FakeSlurm(ROW | {"State": "PENDING", "QOS": "urgent", "UserName": "ada", "Account": "a"})
    slurm.settings = {"AccountingStorageEnforce": enforced}
    slurm.change = lambda lines: [
        one
        for line in lines
        for one in ((line, of_qos(MINUTES, "urgent")) if "show assoc_mgr" in line else (line,))
    ]
    (job,) = adapter_of(slurm).snapshot().jobs
    assert len(job.quotas) == drawn
