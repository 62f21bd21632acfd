"""The limits of QOS and associations as two releases print them: of two jobs of a QOS, one may run. And those
on the tasks of arrays.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.slurm.access import SlurmClient
from makeway.adapters.slurm.entitlement.assoc_mgr import Limited, limits, parents_of
from makeway.adapters.slurm.entitlement.qos import QosRules, limit_factor
from makeway.adapters.slurm.parse import RawJob
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.resources.details import JobDetails, details, tasks_left
from makeway.adapters.slurm.resources.limits import (
    NO_LIMITS,
    RULES_KNOWN_S,
    KnownLimits,
    LimitsReader,
    chosen,
    quotas,
)
from makeway.adapters.slurm.settings import SlurmSettings
from makeway.policies.model import Quota
from tests.adapters.slurm.fake_slurm import RUNNING as RUNNING_ROW
from tests.adapters.slurm.fake_slurm import FakeSlurm, adapter_of
from tests.adapters.slurm.jobs.raw_jobs import ANY, PENDING, RUNNING, translated
from tests.adapters.slurm.resources.test_details import printed
from tests.adapters.slurm.test_parse import ROW
from tests.paths import CAPTURED

RELEASES = ("22.05", "24.11")
WAITS = replace(PENDING, account="a", qos="urgent", user="root", user_id="0")


def lines(release: str, name: str = "limits") -> list[str]:
    return (CAPTURED / release / f"{name}.txt").read_text().splitlines()


def captured(release: str) -> tuple[Limited, ...]:
    return limits(lines(release))


def drawn_on(raw: RawJob, known: Iterable[Limited]) -> dict[str, float]:
    """What is left of each limit that a job draws on."""
    return {quota.name: quota.left for quota in quotas(raw, KnownLimits(limited=tuple(known)))}


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_limited_is_read_with_what_is_left(release: str) -> None:
    assert {one.name: dict(one.left) for one in captured(release)} == {
        "account a": {"node": 2.0},
        "account a, user 0": {"jobs": 3.0},
        "QOS urgent": {"cpu": 6.0, "node": 2.0},
        "QOS urgent, user 0": {"jobs": 0.0},
        "QOS grp": {"jobs": 6.0, "node": 0.0},
        "QOS grp, account a": {"jobs": 3.0},
        "QOS grp, user 0": {"node": 1.0},
    }


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_draws_on_the_limits_that_it_is_under(release: str) -> None:
    assert set(quotas(WAITS, KnownLimits(limited=captured(release)))) == {
        Quota(name="cpu of QOS urgent", needs=4.0, left=6.0),
        Quota(name="node of QOS urgent", needs=2.0, left=2.0),
        Quota(name="jobs of QOS urgent, user 0", needs=1.0, left=0.0),
    }


@pytest.mark.parametrize("other", [{"qos": "normal"}, {"account": "b"}, {"user_id": "7"}])
def test_other_jobs_are_under_other_limits(other: dict[str, Any]) -> None:
    names = drawn_on(replace(WAITS, **other), captured("24.11"))
    assert not any(word in name for name in names for word in _words(other))


def _words(other: dict[str, Any]) -> list[str]:
    return {"qos": ["QOS urgent"], "account": ["account a"], "user_id": ["user 0"]}[next(iter(other))]


def test_a_cluster_without_limits_has_none() -> None:
    assert limits(["Current Association Manager state", "No association records", ""]) == ()
    assert limits(["QOS=x(1) GrpJobs=N(3) GrpTRES=cpu=N(2) Account Limits= User Limits="]) == ()


def test_run_minutes_are_limited_for_all_for_an_account_and_for_a_user() -> None:
    qos = (
        "QOS=urgent(2) GrpJobs=N(1) GrpTRESRunMins=cpu=N(60),node=90(30) "
        "Account Limits=a={MaxTRESPA=node=N(1) MaxTRESRunMinsPA=cpu=100(60)} "
        "User Limits=root(0)={MaxJobsPU=N(1) MaxTRESRunMinsPU=node=40(30)}"
    )
    account = "ClusterName=c Account=a UserName= Partition= GrpTRES=cpu=N(0) GrpTRESRunMins=node=500(0) "
    known = limits([qos, account])
    asked = replace(WAITS, limit_s=1800.0)
    of_qos = {
        Quota(name="node run minutes of QOS urgent", needs=60.0, left=60.0),
        Quota(name="cpu run minutes of QOS urgent, account a", needs=120.0, left=40.0),
        Quota(name="node run minutes of QOS urgent, user 0", needs=60.0, left=10.0),
    }
    assert set(quotas(asked, KnownLimits(limited=known))) == of_qos, "the one of the account comes after them"
    of_account = Quota(name="node run minutes of account a", needs=60.0, left=500.0)
    assert quotas(replace(asked, qos="other"), KnownLimits(limited=known)) == (of_account,)
    assert quotas(replace(asked, limit_s=None), KnownLimits(limited=known)) == ()


def test_what_is_over_its_limit_leaves_nothing() -> None:
    (one,) = limits(["QOS=x(1) GrpJobs=2(3) GrpTRES= Account Limits= User Limits="])
    assert one.left == {"jobs": 0.0}


PARENTS = {"a": "p", "b": "p", "p": "root", "root": ""}


def test_only_the_limits_of_the_jobs_are_asked_for() -> None:
    other = replace(WAITS, account="b", qos="fast", partitions=("large", "small"))
    asked = chosen((WAITS, other), PARENTS, {"large": "big", "closed": "none"})
    assert asked == "flags=assoc,qos users=root accounts=a,b,p,root qos=big,fast,urgent"


def test_all_accounts_are_asked_for_while_those_above_are_not_known() -> None:
    assert chosen((WAITS,), {}, {}) == "flags=assoc,qos users=root qos=urgent"
    assert chosen((WAITS,), {"a": "p"}, {}) == "flags=assoc,qos users=root qos=urgent"


def test_names_that_cannot_be_asked_for_are_left_out() -> None:
    """A user may name an account as he likes where nothing checks it."""
    hostile = replace(WAITS, account="x\nshow config", qos="b flags=users")
    asked = chosen((WAITS, hostile), PARENTS, {})
    assert asked == "flags=assoc,qos users=root accounts=a,p,root qos=urgent"
    assert chosen((hostile,), PARENTS, {}) == ""


@pytest.mark.parametrize("release", RELEASES)
def test_the_limits_of_all_accounts_above_hold(release: str) -> None:
    printed = lines(release, "limits-above")
    assert parents_of(printed) == {"lab": "dept", "dept": "root"}
    raw = replace(WAITS, account="lab", qos="normal")
    known = KnownLimits(limited=limits(printed), parents=parents_of(printed))
    assert set(quotas(raw, known)) == {Quota(name="node of account dept", needs=2.0, left=1.0)}
    assert quotas(replace(raw, account="dept2"), known) == ()


def of_qos(name: str, **left: str) -> str:
    """A QOS with limits on the group of its jobs, on those of account a and on those of user 0."""
    return (
        f"QOS={name}(2) GrpJobs={left.get('jobs', 'N')}(0) GrpTRES={left.get('tres', '')} "
        f"Account Limits=a={{MaxJobsPA=N(0)}} User Limits=0={{MaxJobsPU={left.get('user', 'N')}(0)}}"
    )


def test_a_limit_of_the_partitions_qos_comes_before_the_same_one_of_the_jobs() -> None:
    printed = [of_qos("urgent", jobs="5", user="1"), of_qos("part", user="2", tres="node=9(0)")]
    known = KnownLimits(limited=limits(printed), of_partitions={"batch": "part"})
    raw = replace(WAITS, partitions=("batch",))
    mixed = {"jobs of QOS urgent": 5.0, "node of QOS part": 9.0}
    found = {quota.name: quota.left for quota in quotas(raw, known)}
    assert found == mixed | {"jobs of QOS part, user 0": 2.0}
    over = replace(known, rules=QosRules(before_partitions=frozenset({"urgent"})))
    found = {quota.name: quota.left for quota in quotas(raw, over)}
    assert found == mixed | {"jobs of QOS urgent, user 0": 1.0}


def test_of_several_partitions_a_limit_has_to_hold_in_all() -> None:
    printed = [of_qos("urgent", jobs="5", user="1"), of_qos("part", user="2", tres="node=9(0)")]
    known = KnownLimits(limited=limits(printed), of_partitions={"batch": "part", "twin": "part"})

    def drawn(*partitions: str) -> set[str]:
        return {quota.name for quota in quotas(replace(WAITS, partitions=partitions), known)}

    of_part = {"jobs of QOS part, user 0", "node of QOS part", "jobs of QOS urgent"}
    assert drawn("batch", "twin") == of_part
    assert drawn("other") == {"jobs of QOS urgent", "jobs of QOS urgent, user 0"}
    assert drawn("batch", "other") == {"jobs of QOS urgent"}, "each has another limit on the jobs of a user"


def test_a_limit_of_a_qos_comes_before_the_same_one_of_an_association() -> None:
    user = "ClusterName=c Account=a UserName=root(0) Partition= MaxJobs=1(0) GrpTRES=cpu=4(0),node=3(0) "
    account = "ClusterName=c Account=a UserName= Partition= MaxJobs=1(0) GrpTRES=node=2(0) "
    known = limits([of_qos("urgent", user="2", tres="node=9(0)"), user, account])
    assert drawn_on(WAITS, known) == {
        "node of QOS urgent": 9.0,
        "jobs of QOS urgent, user 0": 2.0,
        "cpu of account a, user 0": 4.0,
    }
    assert drawn_on(replace(WAITS, qos="other"), known) == {
        "cpu of account a, user 0": 4.0,
        "node of account a, user 0": 3.0,
        "jobs of account a, user 0": 1.0,
        "node of account a": 2.0,
    }, "what an account says of the jobs of each user is no limit on all of them"


def of_user(partition: str, limited: str) -> str:
    return f"ClusterName=c Account=a UserName=root(0) Partition={partition} {limited} "


def test_an_association_for_the_partition_takes_the_place_of_the_other() -> None:
    printed = [
        of_user("", "MaxJobs=1(0) GrpTRES=node=3(0)"),
        of_user("big", "MaxJobs=2(0) GrpTRES=node=N(0)"),
        of_user("free", "MaxJobs= GrpTRES=node=N(0)"),
        "ClusterName=c Account=a UserName= Partition= MaxJobs= GrpTRES=node=9(0) ",
    ]
    known = LimitsReader(QosRules).learn(printed, [], [WAITS])

    def drawn(*partitions: str) -> dict[str, float]:
        found = quotas(replace(WAITS, partitions=partitions), known)
        return {quota.name: quota.left for quota in found}

    above = {"node of account a": 9.0}
    other = {"jobs of account a, user 0": 1.0, "node of account a, user 0": 3.0}
    assert drawn("small") == above | other
    assert drawn("Big") == above | {"jobs of account a, user 0, partition big": 2.0}
    assert drawn("free") == above
    assert drawn("small", "free") == above


def test_the_flags_of_a_qos_are_only_read_where_they_make_a_difference() -> None:
    asked: list[int] = []

    def rules() -> QosRules:
        asked.append(1)
        return QosRules(before_partitions=frozenset({"urgent"}))

    reader = LimitsReader(rules)
    waiting = (WAITS,)
    partitions = [RawPartition(name=WAITS.partitions[0], state="UP", qos="part")]
    assert reader.to_ask(waiting) == "flags=assoc,qos users=root qos=urgent"
    assert reader.to_ask(()) == ""
    assert reader.learn([], partitions, waiting) == NO_LIMITS
    assert asked == []
    assert reader.to_ask(waiting) == "flags=assoc,qos users=root qos=part,urgent"
    printed = [of_qos("part", jobs="3"), "ClusterName=c Account=a UserName= Partition= ParentAccount= "]
    assert reader.learn(printed, partitions, waiting).rules.before_partitions == {"urgent"}
    assert reader.to_ask(waiting) == "flags=assoc,qos users=root accounts=a qos=part,urgent"
    same = [RawPartition(name=WAITS.partitions[0], state="UP", qos="urgent")]
    assert reader.learn(printed, same, waiting).rules.before_partitions == frozenset()
    assert asked == [1]


def test_the_flags_are_read_again_after_a_while_and_kept_if_the_database_is_silent() -> None:
    urgent, none = frozenset({"urgent"}), frozenset[str]()
    answers = [None, QosRules(before_partitions=urgent), None, QosRules()]
    now_s = [0.0]
    reader = LimitsReader(lambda: answers.pop(0), clock=lambda: now_s[0])
    partitions = [RawPartition(name=WAITS.partitions[0], state="UP", qos="part")]

    def at(time_s: float) -> frozenset[str]:
        now_s[0] = time_s
        return reader.learn([of_qos("part")], partitions, [WAITS]).rules.before_partitions

    wait_s = RULES_KNOWN_S
    assert [at(0.0), at(wait_s - 1.0), at(wait_s)] == [none, none, urgent]
    assert [at(2.0 * wait_s - 1.0), at(2.0 * wait_s), at(3.0 * wait_s)] == [urgent, urgent, none]
    assert answers == []


def test_the_rules_that_sacctmgr_prints() -> None:
    refused = (1, "", "sacctmgr: error: slurm_persist_conn_open: Connection refused")
    printed = (
        "normal|||1.000000\nurgent|DenyOnLimit,OverPartQOS|2.000000|2.000000\n"
        "slow|NoReserve|0.340000|1.000000\ncheap|UsageFactorSafe||0.000000\nsame|UsageFactorSafe||1.000000\n"
    )
    client = SlurmClient(SlurmSettings(classes=()), FakeSlurm(script=((0, printed, ""), refused)))
    factors = {"urgent": 2.0, "slow": 0.34}
    assert client.qos_rules() == QosRules(
        before_partitions=frozenset({"urgent"}), factors=factors, other_prices=frozenset({"cheap"})
    )
    assert client.qos_rules() is None


OF_ASSOCIATION = of_user("", "GrpJobs=3(1) GrpTRES=cpu=8(2),node=3(2) GrpTRESRunMins=node=90(20)")
OF_ACCOUNT = "ClusterName=c Account=a UserName= Partition= GrpTRES=node=2(2) "


@pytest.mark.parametrize(
    ("order", "factors", "cpus", "nodes", "of_account"),
    [
        ("", {}, 6.0, 1.0, 0.0),
        ("", {"urgent": 2.0}, 14.0, 4.0, 2.0),
        ("", {"urgent": 1.5}, 10.0, 2.0, 1.0),  # 4.5 nodes are 4
        ("", {"urgent": 0.5}, 2.0, 0.0, 0.0),
        ("", {"other": 2.0}, 6.0, 1.0, 0.0),
        ("part", {"urgent": 2.0}, 14.0, 4.0, 2.0),  # that of the partition has none
        ("part", {"urgent": 2.0, "part": 0.5}, 2.0, 0.0, 0.0),
        ("urgent", {"urgent": 2.0, "part": 0.5}, 14.0, 4.0, 2.0),  # OverPartQOS
    ],
)
def test_the_factor_of_a_qos_scales_what_associations_may_have_at_once(
    order: str, factors: dict[str, float], cpus: float, nodes: float, of_account: float
) -> None:
    """As tried on 22.05 and 24.11: neither run minutes nor numbers of jobs are scaled."""
    before = frozenset({"urgent"} if order == "urgent" else ())
    known = KnownLimits(
        limited=limits([OF_ASSOCIATION, OF_ACCOUNT]),
        of_partitions={"batch": "part"} if order else {},
        rules=QosRules(before_partitions=before, factors=factors),
    )
    raw = replace(WAITS, partitions=("batch",), tres="cpu=1,node=1", limit_s=600.0)
    assert {quota.name: quota.left for quota in quotas(raw, known)} == {
        "cpu of account a, user 0": cpus,
        "jobs of account a, user 0": 2.0,
        "node of account a": of_account,
        "node of account a, user 0": nodes,
        "node run minutes of account a, user 0": 70.0,
    }


def test_the_factor_leaves_the_limits_of_a_qos_as_they_are() -> None:
    known = KnownLimits(
        limited=limits([of_qos("urgent", tres="node=9(1)"), OF_ACCOUNT]),
        rules=QosRules(factors={"urgent": 2.0}),
    )
    assert {quota.name: quota.left for quota in quotas(WAITS, known)} == {"node of QOS urgent": 8.0}


def test_the_factors_are_only_read_where_an_association_is_limited() -> None:
    asked: list[int] = []

    def rules() -> QosRules:
        asked.append(1)
        return QosRules(factors={"urgent": 2.0})

    reader = LimitsReader(rules, clock=lambda: 0.0)
    unlimited = "ClusterName=c Account=a UserName= Partition= MaxJobs=1(0) GrpTRES=node=N(2) "
    assert reader.learn([of_qos("urgent", tres="node=9(0)"), unlimited], [], [WAITS]).rules == QosRules()
    assert asked == []
    for _ in range(2):
        assert reader.learn([OF_ACCOUNT], [], [WAITS]).rules.factors == {"urgent": 2.0}
    assert asked == [1]


@pytest.mark.parametrize("text", ["", "0.000000", "-1", "nan", "inf", "x"])
def test_a_factor_that_is_none(text: str) -> None:
    assert limit_factor(text) is None


def of_array(task: str, throttle: str) -> JobDetails:
    """The details of a waiting task, where Slurm prints this of its array."""
    raw = replace(PENDING, job_id=f"38_{task}")
    record = printed(raw, "").replace("JobId=38", f"JobId=38 ArrayJobId=38 ArrayTaskId={task} {throttle}", 1)
    found = details(record.replace(f"_{task} JobName", "JobName", 1), raw)
    assert found is not None
    return found


def test_of_an_array_only_as_many_tasks_count_as_may_run_beside_those_that_have_nodes() -> None:
    """As 22.05 and 24.11 print it, before and after a task has an id of its own."""
    tasks = [replace(PENDING, job_id=f"38_{number}") for number in range(2, 5)]
    runs = replace(RUNNING, job_id="38_0")
    completes = replace(RUNNING, job_id="38_1", state="COMPLETING")
    others = (RUNNING, replace(RUNNING, job_id="39_0"), replace(PENDING, job_id="40_0"))
    told = {"38_2": of_array("2", "ArrayTaskThrottle=3 "), "40_0": of_array("0", "")}
    known = KnownLimits(tasks_left=tasks_left([*others, completes, runs, *tasks], told))
    assert known.tasks_left == {"38": 1.0}
    at_once = (Quota(name="tasks of array 38 at once", needs=1.0, left=1.0),)
    assert [quotas(task, known) for task in tasks] == [at_once] * 3, "also of tasks that were not asked for"
    assert quotas(replace(PENDING, job_id="38"), known) == ()
    assert quotas(replace(PENDING, job_id="40_0"), known) == ()


def test_a_snapshot_has_the_limits_on_tasks() -> None:
    task = ROW | {"QOS": "urgent", "JobArrayID": "38_1"}
    raw = replace(PENDING, job_id="38_1", name=task["Name"], account=task["Account"])
    record = printed(raw, "").replace(
        "JobId=38_1", "JobId=38 ArrayJobId=38 ArrayTaskId=1 ArrayTaskThrottle=2"
    )
    slurm = FakeSlurm(RUNNING_ROW | {"QOS": "urgent", "JobArrayID": "38_0"}, task)
    slurm.change = lambda lines: [record if line.startswith("JobId=38_1 ") else line for line in lines]
    jobs = adapter_of(slurm).snapshot().jobs_by_id()
    assert jobs["38_1"].quotas == (Quota(name="tasks of array 38 at once", needs=1.0, left=1.0),)
    assert jobs["38_0"].quotas == ()


def test_a_limit_on_tasks_that_was_lowered_leaves_none() -> None:
    running = [replace(RUNNING, job_id=f"38_{number}") for number in range(3)]
    told = {"38_3": of_array("3", "ArrayTaskThrottle=1 ")}
    assert tasks_left([*running, replace(PENDING, job_id="38_3")], told) == {"38": 0.0}


def test_the_limit_of_an_array_is_out_of_date_once_a_task_has_ended() -> None:
    """Slurm names it until it looks again: what the next task lacks is not known."""
    waits = replace(PENDING, job_id="38_1", reason="JobArrayTaskLimit")
    full, again = KnownLimits(tasks_left={"38": 0.0}), KnownLimits(tasks_left={"38": 1.0})
    lacks = {"known": ("other tasks of its array (JobArrayTaskLimit)", True), "unknown": ("", False)}
    for limits_now, expected in ((full, "known"), (NO_LIMITS, "known"), (again, "unknown")):
        job = translated(waits, ANY, limits=limits_now)
        assert (job.blocked_by, job.examined) == lacks[expected]
    held = translated(replace(waits, reason="JobHeldUser"), ANY, limits=again)
    assert (held.blocked_by, held.examined) == ("its release from a hold (JobHeldUser)", True)
