"""The checks of Slurm's own configuration: values, made of what was read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.site.checks import DoctorContext, Level
from makeway.adapters.site.class_sections import JobClassSettings
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm import doctor
from makeway.adapters.slurm import parse as slurm_parse
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.settings import SlurmAdapterSettings
from makeway.adapters.slurm.survey import ClassCount, Privilege, Survey
from makeway.policies.model import JobKind
from tests.adapters.slurm.test_parse import RELEASES, captured

URGENT = JobClass(name="rt", partitions=frozenset({"rt"}), kind=JobKind.ON_DEMAND)
BATCH = JobClass(name="batch", partitions=frozenset({"batch"}), preemptible=True)
ELASTIC = replace(BATCH, name="elastic", kind=JobKind.MALLEABLE)
SECTION = SlurmAdapterSettings(
    type="slurm",
    classes=(
        JobClassSettings(name="rt", partitions=frozenset({"rt"}), kind=JobKind.ON_DEMAND),
        JobClassSettings(name="batch", preemptible=True),
    ),
)
CONTEXT = DoctorContext(
    acts=False, poll_interval_s=30.0, margin_s=60.0, start_within_s=600.0, can_expand=False
)
PARTITIONS = {"rt": False, "batch": True}
LAYOUT = (RawPartition(name="rt", state="UP", exclusive=True), RawPartition(name="batch", state="UP"))
SHARING = {
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_CORE_MEMORY",
    "DefMemPerCPU": "500",
    "GresTypes": "gpu",
}


def slurm(settings: Mapping[str, str] | None = None, **changes: Any) -> Survey:
    """A Slurm that is as it should be, but for the changes."""
    return replace(
        Survey(
            settings=settings or {},
            version="24.11.5",
            release=(24, 11),
            user="makeway",
            privilege=Privilege.OPERATOR,
            clock_ahead_s=0.0,
            partitions=PARTITIONS,
            layout=LAYOUT,
            user_id=991,
            counts=(
                ClassCount(name="rt", pending=1),
                ClassCount(name="batch", running=3, nodes=8),
                ClassCount(name=None),
            ),
        ),
        **changes,
    )


@pytest.mark.parametrize(
    ("release", "level", "words"),
    [
        ((21, 8), Level.PROBLEM, "is older than makeway supports: the oldest that was tested is 22.05"),
        ((22, 5), Level.OK, "is one of those that makeway is tested on (22.05, 24.11, 26.05)"),
        ((23, 2), Level.WARNING, "was not tested"),
        ((26, 5), Level.OK, "is one of those"),
        ((26, 11), Level.WARNING, "was not tested"),
    ],
)
def test_releases(release: tuple[int, int], level: Level, words: str) -> None:
    check = doctor.check_release(slurm(release=release))
    assert check.level is level
    assert words in check.text


@pytest.mark.parametrize(
    ("privilege", "acts", "private", "level", "words"),
    [
        (Privilege.ROOT, True, "none", Level.OK, "both modes need (root)"),
        (Privilege.OPERATOR, True, "jobs", Level.OK, "both modes need (operator)"),
        (Privilege.OPERATOR, True, "none", Level.OK, "because an operator may not write AdminComment"),
        (
            Privilege.NONE,
            True,
            "none",
            Level.PROBLEM,
            "sacctmgr modify user makeway set adminlevel=operator",
        ),
        (Privilege.NONE, False, "none", Level.OK, "may read the state, which is all that observe mode needs"),
        (
            Privilege.NONE,
            False,
            "jobs,nodes,users",
            Level.PROBLEM,
            "PrivateData hides the jobs and nodes of",
        ),
        (Privilege.NO_USER, False, "none", Level.OK, "which is all that observe mode needs"),
        (Privilege.NO_USER, True, "none", Level.PROBLEM, "knows no user makeway: sacctmgr add user makeway"),
        (Privilege.NO_USER, False, "jobs", Level.PROBLEM, "knows no user makeway: sacctmgr add user makeway"),
        (Privilege.OTHER_NUMBER, False, "none", Level.OK, "which is all that observe mode needs"),
        (
            Privilege.OTHER_NUMBER,
            True,
            "none",
            Level.PROBLEM,
            "has no user makeway, here it is uid 991",
        ),
        (Privilege.OTHER_NUMBER, False, "jobs", Level.PROBLEM, "the same uid on both machines"),
        (Privilege.UNKNOWN, False, "none", Level.WARNING, "the privileges of makeway are unknown"),
        (Privilege.UNKNOWN, True, "none", Level.WARNING, "act mode an operator"),
    ],
)
def test_privileges(privilege: Privilege, acts: bool, private: str, level: Level, words: str) -> None:
    check = doctor.check_privilege(slurm({"PrivateData": private}, privilege=privilege), acts=acts)
    assert check.level is level
    assert words in check.text


def test_a_user_with_another_number_on_the_machine_of_the_controller() -> None:
    survey = slurm(privilege=Privilege.OTHER_NUMBER, number_there=990)
    check = doctor.check_privilege(survey, acts=True)
    assert check.text.startswith(
        "the controller's machine knows makeway as uid 990, here it is uid 991: Slurm goes by the number"
    )


@pytest.mark.parametrize(
    ("ahead_s", "level", "words"),
    [
        (0.0, Level.OK, "agrees with makeway's"),
        (0.9, Level.OK, "agrees with makeway's"),
        (3.25, Level.PROBLEM, "is 3.2 s ahead of makeway's"),
        (-60.0, Level.PROBLEM, "is 60.0 s behind makeway's"),
        (None, Level.WARNING, "could not be read"),
    ],
)
def test_clocks(ahead_s: float | None, level: Level, words: str) -> None:
    check = doctor.check_clock(slurm(clock_ahead_s=ahead_s))
    assert check is not None
    assert check.level is level
    assert words in check.text


def test_classes_are_counted_and_looked_through() -> None:
    (counts,) = doctor.check_classes(slurm(), (URGENT, BATCH))
    assert counts.level is Level.OK
    assert counts.text == (
        "rt: 0 running on 0 nodes and 1 pending; batch: 3 running on 8 nodes and 0 pending; "
        "of no class: 0 running on 0 nodes and 0 pending"
    )
    assert [check.level for check in doctor.check_classes(slurm(), ())] == [Level.PROBLEM]


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ((BATCH,), "no class is of the kind on_demand"),
        ((URGENT,), "no class is preemptible"),
        (
            (URGENT, replace(BATCH, partitions=frozenset({"batch", "btach"}))),
            "no such partitions (batch: btach)",
        ),
        (
            (URGENT, replace(BATCH, qos=frozenset({"low"}))),
            "without accounting no job has a QOS, so that no job is ever of",
        ),
    ],
)
def test_classes_that_cannot_be_meant_so(classes: tuple[JobClass, ...], words: str) -> None:
    found = [check for check in doctor.check_classes(slurm(), classes) if check.level is Level.WARNING]
    assert [words in check.text for check in found] == [True]


@pytest.mark.parametrize(
    ("condition", "enforced", "level"),
    [
        ({"partitions": {"rt"}}, "none", Level.OK),
        ({"partitions": {"rt", "batch"}}, "none", Level.WARNING),
        ({"users": {"ann"}}, "none", Level.OK),
        ({"qos": {"rt"}}, "associations,limits,qos", Level.OK),
        ({"qos": {"rt"}}, "associations", Level.WARNING),
        ({"accounts": {"a"}}, "associations", Level.OK),
        ({"accounts": {"a"}}, "none", Level.WARNING),
        ({"words": {"urgent"}}, "associations,qos", Level.WARNING),
        ({"features": {"big"}}, "associations,qos", Level.WARNING),
        ({"words": {"urgent"}, "users": {"ann"}}, "none", Level.OK),
    ],
)
def test_who_can_make_a_job_urgent(condition: dict[str, set[str]], enforced: str, level: Level) -> None:
    conditions: dict[str, Any] = {name: frozenset(names) for name, names in condition.items()}
    one = JobClass(name="rt", kind=JobKind.ON_DEMAND, **conditions)
    check = doctor.check_open_door(slurm({"AccountingStorageEnforce": enforced}), (BATCH, one))
    assert check is not None
    assert check.level is level
    assert doctor.check_open_door(slurm(), (BATCH,)) is None


@pytest.mark.parametrize(
    ("survey", "can_expand", "level", "words"),
    [
        (slurm(), True, Level.OK, "grows back"),
        (slurm(release=(22, 5)), False, Level.WARNING, "this release loses the nodes"),
        (slurm(), False, Level.WARNING, "add permit_job_expansion to SchedulerParameters"),
        (slurm(release=(25, 11), version="25.11.7"), False, Level.WARNING, "slurmctld ends when a job grows"),
        (slurm(release=(26, 5), version="26.05.4"), False, Level.WARNING, "upgrade to 26.05.5 or later"),
        (
            slurm({"SchedulerParameters": "bf_continue,permit_job_expansion"}),
            False,
            Level.WARNING,
            "to run as root",
        ),
    ],
)
def test_growth(survey: Survey, can_expand: bool, level: Level, words: str) -> None:
    check = doctor.check_growth(survey, (URGENT, ELASTIC), can_expand=can_expand)
    assert check is not None
    assert check.level is level
    assert words in check.text
    assert doctor.check_growth(survey, (URGENT, BATCH), can_expand=can_expand) is None


def test_the_names_of_holds_are_said() -> None:
    survey = slurm({"ClusterName": "hpc"})
    assert "called makeway_hpc.JOB;" in doctor.check_instance(survey, None).text
    assert "called makeway_test.JOB;" in doctor.check_instance(survey, "test").text


def test_a_release_on_which_users_can_end_slurmctld_is_named_without_malleable_classes() -> None:
    permits = {"SchedulerParameters": "permit_job_expansion"}
    check = doctor.check_growth(
        slurm(permits, release=(25, 11), version="25.11.0-rc1"), (URGENT, BATCH), can_expand=False
    )
    assert check is not None
    assert check.level is Level.WARNING
    assert "remove permit_job_expansion" in check.text
    assert doctor.check_growth(slurm(permits), (URGENT, BATCH), can_expand=False) is None
    mended = slurm(permits, release=(26, 5), version="26.05.5")
    assert doctor.check_growth(mended, (URGENT, BATCH), can_expand=True) is None


@pytest.mark.parametrize(
    ("survey", "expected"),
    [
        (slurm({"JobRequeue": "1"}), {}),
        (
            slurm({"JobRequeue": "0"}),
            {"requeue": "JobRequeue=0: jobs without `sbatch --requeue` are left alone"},
        ),
        (
            slurm(counts=(ClassCount(name="batch", unable=1),)),
            {"requeue": "1 job of preemptible classes left alone"},
        ),
        (slurm(counts=(ClassCount(name="rt", unable=1), ClassCount(name=None, unable=7))), {}),
        (slurm({"MaxBatchRequeue": "0"}), {"requeue limit": "MaxBatchRequeue=0"}),
        (slurm({"SchedulerParameters": "requeue_delay=3600"}), {"requeue delay": "waits 3600 s"}),
        (slurm({"AuthInfo": "socket=/x,cred_expire=1200"}), {"requeue delay": "waits 1200 s"}),
        (slurm({"SchedulerParameters": "requeue_delay=0", "AuthInfo": "cred_expire=1200"}), {}),
        (slurm({"SchedulerParameters": "requeue_delay=soon"}), {}),
    ],
)
def test_requeues(survey: Survey, expected: dict[str, str]) -> None:
    found = doctor.check_requeue(survey, (URGENT, BATCH))
    assert {check.name for check in found} == {"requeue", "requeue delay", "requeue limit"}
    warned = {check.name: check.text for check in found if check.level is not Level.OK}
    assert warned.keys() == expected.keys()
    assert all(words in warned[name] for name, words in expected.items())


def test_a_job_that_will_not_go_has_to_be_gone_within_the_margin() -> None:
    levels = {
        wait: getattr(doctor.check_kill_wait(slurm({"KillWait": wait}), 30.0), "level", None)
        for wait in ("30 sec", "31 sec", "INFINITE", "")
    }
    assert levels == {"30 sec": Level.OK, "31 sec": Level.WARNING, "INFINITE": None, "": None}
    assert doctor.check_kill_wait(slurm({"KillWait": "31 sec"}), None) is None


@pytest.mark.parametrize(
    ("scheduler", "priority", "release", "warned"),
    [
        ("sched/builtin", "priority/basic", (22, 5), True),
        ("sched/builtin", "priority/multifactor", (22, 5), False),
        ("sched/backfill", "priority/basic", (22, 5), False),
        ("sched/builtin", "priority/basic", (24, 11), False),
        ("sched/builtin", "priority/basic", (26, 5), False),
    ],
)
def test_a_strict_order_keeps_urgent_jobs_from_their_holds(
    scheduler: str, priority: str, release: tuple[int, int], *, warned: bool
) -> None:
    settings = {"SchedulerType": scheduler, "PriorityType": priority}
    found = doctor.check_slurm(slurm(settings, release=release), SECTION, CONTEXT)
    assert ("scheduler" in {check.name for check in found if check.level is Level.WARNING}) is warned


def test_no_job_may_keep_others_from_starting_for_longer_than_the_margin() -> None:
    warned = {
        wait: doctor.check_complete_wait(slurm({"CompleteWait": wait}), 30.0) is not None
        for wait in ("0 sec", "30 sec", "31 sec", "65535 sec", "")
    }
    assert warned == {"0 sec": False, "30 sec": False, "31 sec": True, "65535 sec": True, "": False}
    assert doctor.check_complete_wait(slurm({"CompleteWait": "31 sec"}), None) is None
    found = doctor.check_slurm(slurm({"CompleteWait": "61 sec"}), SECTION, CONTEXT)
    assert "complete wait" in {check.name for check in found}


@pytest.mark.parametrize(
    ("said", "privilege", "interval_s", "level"),
    [
        ("(null)", Privilege.OPERATOR, 0.1, Level.OK),
        ("rl_enable", Privilege.ROOT, 0.1, Level.OK),
        ("rl_enable", Privilege.SLURM_USER, 0.1, Level.OK),
        ("rl_enable", Privilege.OPERATOR, 6.9, Level.WARNING),
        ("rl_enable", Privilege.OPERATOR, 7.0, Level.OK),
        ("rl_enable,rl_refill_rate=14", Privilege.OPERATOR, 1.0, Level.OK),
        ("rl_enable,rl_refill_rate=14,rl_refill_period=10", Privilege.OPERATOR, 9.0, Level.WARNING),
        ("rl_enable,rl_refill_rate=0,rl_refill_period=x", Privilege.OPERATOR, 14.0, Level.OK),
    ],
)
def test_the_limit_on_requests(said: str, privilege: Privilege, interval_s: float, level: Level) -> None:
    survey = slurm({"SlurmctldParameters": said}, privilege=privilege)
    assert doctor.check_rate(survey, interval_s).level is level


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_every_check_takes_what_slurm_really_prints(release: str) -> None:
    settings = slurm_parse.config(captured(release, "config"))
    survey = slurm({**settings, **SHARING}, release=RELEASES[release])
    found = doctor.check_slurm(survey, SECTION, CONTEXT)
    assert [check for check in found if check.level is not Level.OK] == []
    assert {check.name for check in found} == {
        "release", "privilege", "instance", "clock", "classes", "urgent", "requeue", "requeue delay",
        "requeue limit", "preemption", "kill wait", "request rate", "priority", "sharing",
    }  # fmt: skip
    assert all(check.text.isprintable() for check in found)


def test_a_partition_that_slurm_spares_and_makeway_does_not_is_named() -> None:
    (name,) = BATCH.partitions
    survey = slurm(
        {"PreemptType": "preempt/partition_prio"}, tiers={name: 1, "rt": 1}, spared=frozenset({name})
    )
    found = doctor.check_slurm(survey, SECTION, CONTEXT)
    assert [one.level for one in found if "PreemptMode=OFF" in one.text] == [Level.WARNING]


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"qos": frozenset({"low"}), "accounts": frozenset({"a"})}, []),
        ({"qos": None, "accounts": None}, []),
        (
            {"qos": frozenset({"normal"}), "accounts": frozenset[str]()},
            ["Slurm knows no such QOS (batch: low)", "Slurm knows no such account (batch: a)"],
        ),
    ],
)
def test_names_of_a_class_that_slurm_does_not_know(known: Mapping[str, Any], words: list[str]) -> None:
    classes = (URGENT, replace(BATCH, qos=frozenset({"low"}), accounts=frozenset({"a"})))
    found = doctor.check_classes(slurm({"AccountingStorageType": "x/slurmdbd"}, **known), classes)
    warnings = [check.text for check in found if check.level is Level.WARNING]
    assert [text.partition("): ")[0] + ")" for text in warnings] == words
