"""Slurm's own preemption, and whether it makes jobs leave for urgent ones."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.command import CompletedCommand
from makeway.adapters.site.checks import NO_NAMES, Level, SettingNames
from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.partitions.preemption import (
    partition_tiers,
    preempting_qos,
    spared_partitions,
)
from makeway.adapters.slurm.partitions.preemption_check import (
    check_gang,
    check_preemption,
    check_spared,
)
from makeway.adapters.slurm.settings import SlurmSettings
from makeway.adapters.slurm.survey import survey
from makeway.policies.model import JobKind
from tests.adapters.slurm.test_doctor import BATCH, LAYOUT, URGENT, slurm
from tests.adapters.slurm.test_parse import RELEASES, captured
from tests.adapters.slurm.test_survey import Printer

BY_QOS = JobClass(name="beam", qos=frozenset({"beam", "now"}), kind=JobKind.ON_DEMAND)
ANY = JobClass(name="any", users=frozenset({"ada"}), kind=JobKind.ON_DEMAND)
TIERS = {"rt": 10, "batch": 1, "long": 1}


@pytest.mark.parametrize(
    ("kind", "one", "preempting", "tiers", "named"),
    [
        ("preempt/qos", BY_QOS, {"now", "other"}, {}, "(Preempt=, PriorityTier=): now"),
        ("preempt/qos", BY_QOS, {"other"}, TIERS, None),
        ("preempt/qos", ANY, {"other"}, {}, ": other"),
        ("preempt/qos", ANY, set(), TIERS, None),
        ("preempt/qos", BY_QOS, None, TIERS, "PriorityTier=)"),
        ("preempt/partition_prio", URGENT, None, TIERS, ": rt"),
        ("preempt/partition_prio", URGENT, None, dict.fromkeys(TIERS, 5), None),
        ("preempt/partition_prio", replace(URGENT, partitions=frozenset({"long"})), None, TIERS, None),
        ("preempt/partition_prio", ANY, None, TIERS, ": rt"),
        ("preempt/partition_prio", URGENT, None, {}, "PriorityTier=)"),
    ],
)
def test_it_is_warned_of_where_it_serves_urgent_jobs(
    kind: str, one: JobClass, preempting: set[str] | None, tiers: dict[str, int], named: str | None
) -> None:
    qos = None if preempting is None else frozenset(preempting)
    settings = {"PreemptType": kind, "PreemptMode": "REQUEUE"}
    check = check_preemption(slurm(settings, preempting=qos, tiers=tiers), (one, BATCH))
    assert check.level is (Level.OK if named is None else Level.WARNING)
    assert check.text.endswith("but not for urgent jobs" if named is None else named)


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        ("(null)", Level.OK),
        ("preempt/none", Level.OK),
        ("preempt/qos", Level.WARNING),
        ("preempt/x", Level.WARNING),
    ],
)
def test_preemption(kind: str, level: Level) -> None:
    found = slurm({"PreemptType": kind, "PreemptMode": "REQUEUE"})
    assert check_preemption(found, (URGENT, BATCH)).level is level
    assert check_preemption(slurm(), (URGENT, BATCH)).level is Level.OK


TURNS = (RawPartition(name="batch", state="UP", oversubscribed=True),)
WHOLE_TURNS = (RawPartition(name="batch", state="UP", oversubscribed=True, exclusive=True),)


@pytest.mark.parametrize(
    ("mode", "kind", "layout", "words"),
    [
        ("OFF", "(null)", TURNS, None),
        ("REQUEUE", "preempt/qos", TURNS, None),
        ("GANG", "(null)", LAYOUT, None),
        ("GANG", "preempt/none", WHOLE_TURNS, None),
        (
            "GANG",
            "preempt/none",
            TURNS,
            "(PreemptMode=GANG), in partition batch also by turns (OverSubscribe):",
        ),
        (
            "GANG,SUSPEND",
            "preempt/partition_prio",
            LAYOUT,
            "(PreemptMode=GANG,SUSPEND): a suspended job keeps",
        ),
    ],
)
def test_where_slurm_suspends_jobs_it_is_warned_that_they_keep_their_nodes(
    mode: str, kind: str, layout: tuple[RawPartition, ...], words: str | None
) -> None:
    check = check_gang(slurm({"PreemptMode": mode, "PreemptType": kind}, layout=layout))
    if words is None:
        assert check is None
    else:
        assert check is not None
        assert check.level is Level.WARNING
        assert words in check.text


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_the_tiers_of_partitions_are_read(release: str) -> None:
    tiers = partition_tiers(captured(release, "scontrol").splitlines())
    assert tiers == {"batch": 1, "urgent": 10, "closed": 1}


def test_the_qos_that_preempt_others_are_read() -> None:
    assert preempting_qos(["normal|", "high|low,normal", "low|"]) == {"high"}


class PrintsQos(Printer):
    """A Slurm of which sacctmgr prints QOS."""

    def run(self, argv: tuple[str, ...], **options: Any) -> CompletedCommand:
        done = super().run(argv, **options)
        return replace(done, stdout="normal|\nhigh|normal\n") if argv[0] == "sacctmgr" else done


@pytest.mark.parametrize(("kind", "qos"), [("preempt/qos", {"high"}), ("preempt/partition_prio", None)])
def test_only_where_slurm_goes_by_them_they_are_asked_for(kind: str, qos: set[str] | None) -> None:
    config = f"Configuration data as of 1000\nSLURM_VERSION = 24.11.5\nPreemptType = {kind}\n"
    found = survey(SlurmSettings(classes=()), runner=PrintsQos(config=config), now=lambda: 1000.5, user_id=0)
    assert found.preempting == qos


LONG_ONLY = replace(BATCH, name="long", partitions=frozenset({"long"}))
BY_USER = replace(BATCH, name="opted", partitions=frozenset[str](), users=frozenset({"ada"}))
NOBODY = JobClass(name="nobody", partitions=frozenset({"long"}))
RT_LONG = replace(URGENT, partitions=frozenset({"long"}), preemptible=True)
PROTECTED = SettingNames(partitions={"limits.protected_partitions": frozenset({"long"})})
PRIO = "preempt/partition_prio"
SOME = frozenset({"some"})


@pytest.mark.parametrize(
    ("classes", "spared", "names", "kind", "named"),
    [
        ((URGENT, LONG_ONLY), {"long"}, NO_NAMES, PRIO, "partition long (class long)"),
        ((URGENT, BY_USER), {"long", "rt"}, NO_NAMES, PRIO, "partition long (class opted)"),
        ((BY_USER, NOBODY), {"long"}, NO_NAMES, PRIO, "partition long (class opted)"),
        ((replace(NOBODY, qos=SOME), BY_USER), {"long"}, NO_NAMES, PRIO, "partition long (class opted)"),
        ((replace(NOBODY, accounts=SOME), BY_USER), {"long"}, NO_NAMES, PRIO, "partition long (class opted)"),
        ((replace(NOBODY, users=SOME), BY_USER), {"long"}, NO_NAMES, PRIO, "partition long (class opted)"),
        ((replace(NOBODY, features=SOME), BY_USER), {"long"}, NO_NAMES, PRIO, "partition long (class opted)"),
        ((replace(NOBODY, words=SOME), BY_USER), {"long"}, NO_NAMES, PRIO, "partition long (class opted)"),
        ((NOBODY, BY_USER), {"long"}, NO_NAMES, PRIO, None),
        ((RT_LONG, BY_USER), {"long"}, NO_NAMES, PRIO, None),
        ((URGENT, LONG_ONLY), {"batch", "rt"}, NO_NAMES, PRIO, None),
        ((URGENT, LONG_ONLY), {"long"}, PROTECTED, PRIO, None),
        ((URGENT, LONG_ONLY), {"long"}, NO_NAMES, "preempt/qos", None),
        ((URGENT, LONG_ONLY), {"long"}, NO_NAMES, "preempt/none", None),
        ((URGENT, LONG_ONLY), {"long"}, NO_NAMES, "(null)", None),
        ((URGENT, LONG_ONLY), set(TIERS), NO_NAMES, PRIO, None),
        ((URGENT, LONG_ONLY), set(), NO_NAMES, PRIO, None),
    ],
)
def test_it_is_warned_where_makeway_takes_from_a_partition_that_slurm_spares(
    classes: tuple[JobClass, ...], spared: set[str], names: SettingNames, kind: str, named: str | None
) -> None:
    found = slurm({"PreemptType": kind, "PreemptMode": "REQUEUE"}, tiers=TIERS, spared=frozenset(spared))
    check = check_spared(found, classes, names)
    if named is None:
        assert check is None
    else:
        assert check is not None
        assert check.level is Level.WARNING
        assert f"in {named}: PreemptMode=OFF" in check.text


def test_the_partitions_that_slurm_spares_are_read() -> None:
    lines = (
        "PartitionName=a AllowGroups=ALL PriorityTier=1 PreemptMode=REQUEUE State=UP",
        "PartitionName=b AllowGroups=ALL PriorityTier=2 PreemptMode=OFF State=UP",
        "PartitionName=c AllowGroups=ALL PriorityTier=2 PreemptMode=OFF",
        "PartitionName=d AllowGroups=ALL PriorityTier=2 PreemptMode=OFFLINE",
    )
    assert spared_partitions(lines) == {"b", "c"}


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_where_slurm_preempts_nobody_every_partition_is_spared(release: str) -> None:
    lines = captured(release, "scontrol").splitlines()
    assert spared_partitions(lines) == partition_tiers(lines).keys()


def test_the_survey_knows_the_tiers_and_which_partitions_slurm_spares() -> None:
    config = "Configuration data as of 1000\nSLURM_VERSION = 24.11.5\n"
    partitions = (
        "PartitionName=rt PriorityTier=10 PreemptMode=REQUEUE State=UP\n"
        "PartitionName=long PriorityTier=1 PreemptMode=OFF State=UP\n"
    )
    printer = Printer(config=config, partitions=partitions)
    found = survey(SlurmSettings(classes=()), runner=printer, now=lambda: 1000.5, user_id=0)
    assert found.tiers == {"rt": 10, "long": 1}
    assert found.spared == {"long"}
