"""What the partitions of a snapshot say of their jobs: whether one starts there, and how long it runs on."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from makeway.adapters.site.times import UNLIMITED_S
from makeway.adapters.slurm import parse_cluster
from makeway.adapters.slurm.holds import HoldNames
from makeway.adapters.slurm.leaving.requeues import goes_back
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.partitions.accounts import with_accounts_below
from makeway.adapters.slurm.partitions.rules import NO_RULES, PartitionRules
from makeway.adapters.slurm.partitions.times import NO_TIMES, PartitionTimes
from makeway.adapters.slurm.resources.view import SnapshotResources
from makeway.adapters.slurm.survey import count
from makeway.adapters.slurm.translate import Translator, kept_jobs
from makeway.policies.model import LostNodes, TakenFromJob
from tests.adapters.slurm.fake_slurm import RUNNING as ROW
from tests.adapters.slurm.fake_slurm import FakeSlurm, adapter_of
from tests.adapters.slurm.jobs.raw_jobs import ANY, NODES, NOW_S, PARTITIONS, PENDING, RUNNING
from tests.adapters.slurm.test_parse import ROW as WAITING

RULES = PartitionRules.of(
    (
        RawPartition(name="up", state="UP"),
        RawPartition(name="draining", state="DRAIN"),
        RawPartition(name="down", state="DOWN"),
        RawPartition(name="inactive", state="INACTIVE"),
    )
)
TIMES = {
    # as 22.05 prints them, without power saving and with it, and as 24.11 does
    "OverTimeLimit=NONE PreemptMode=OFF": NO_TIMES,
    "OverTimeLimit=7 ResumeTimeout=500 SuspendTimeout=9 SuspendTime=GLOBAL": PartitionTimes(
        overtime_s=420.0, resume_s=500.0, suspend_s=9.0
    ),
    "OverTimeLimit=0 ResumeTimeout=GLOBAL SuspendTimeout=GLOBAL SuspendTime=INFINITE": PartitionTimes(
        overtime_s=0.0
    ),
    "OverTimeLimit=UNLIMITED ResumeTimeout=7 SuspendTimeout=GLOBAL PowerDownOnIdle=NO": PartitionTimes(
        overtime_s=UNLIMITED_S, resume_s=7.0
    ),
}


def shown(*partitions: str) -> Callable[[list[str]], list[str]]:
    """Changes what scontrol prints: these are the partitions."""
    return lambda lines: [
        line.replace("PartitionName=batch State=UP", "\n".join(partitions)) for line in lines
    ]


@pytest.mark.parametrize("words", TIMES)
def test_the_times_of_a_partition(words: str) -> None:
    line = f"PartitionName=p State=UP {words}"
    (found,) = parse_cluster.partitions([line], command=("scontrol",))
    assert found.times == TIMES[words]


@pytest.mark.parametrize(
    ("partitions", "starts"),
    [
        (("up",), True),
        (("draining",), True),
        (("unknown",), True),
        (("down",), False),
        (("inactive",), False),
        (("down", "up"), True),  # only of a job that waits: one that runs shows one partition
        (("down", "inactive"), False),
    ],
)
def test_whether_a_job_starts_again(partitions: tuple[str, ...], starts: bool) -> None:
    for job in (RUNNING, PENDING):
        assert goes_back(replace(job, partitions=partitions), RULES) is starts
        assert goes_back(replace(job, partitions=partitions), NO_RULES)


@pytest.mark.parametrize(
    ("words", "account", "starts"),
    [
        ("MaxNodes=2 AllowAccounts=ALL", "saving", True),
        ("MaxNodes=1", "saving", False),
        ("MinNodes=2", "saving", True),
        ("MinNodes=3", "saving", False),
        ("RootOnly=YES", "saving", False),
        ("AllowAccounts=physics", "saving", False),
        ("AllowAccounts=physics,saving", "saving", True),
        ("DenyAccounts=saving", "saving", False),
        ("AllowQos=urgent", "saving", False),
        ("MaxTime=00:01:00", "saving", True),
        ("AllowAccounts=physics", "", True),  # no accounting
        ("MaxNodes=1", "", False),
    ],
)
def test_a_job_that_its_partition_takes_no_more_does_not_start_again(
    words: str, account: str, starts: bool
) -> None:
    """It runs on; requeued, it would wait until an administrator changes the partition back."""
    rules = PartitionRules.of(parse_cluster.partitions([f"PartitionName=up State=UP {words}"], command=()))
    job = replace(RUNNING, partitions=("up",), account=account, qos="normal", node_count=2, limit_s=3600.0)
    assert goes_back(job, rules) is starts


def test_a_partition_for_root_alone_starts_the_jobs_of_root_again() -> None:
    rules = PartitionRules.of(
        parse_cluster.partitions(["PartitionName=up State=UP RootOnly=YES"], command=())
    )
    job = replace(RUNNING, partitions=("up",), account="root", qos="normal")
    assert [goes_back(replace(job, user_id=number), rules) for number in ("0", "1000")] == [True, False]


@pytest.mark.parametrize(
    ("words", "parents", "release", "starts"),
    [
        ("AllowAccounts=science", {"science": "root", "saving": "science", "root": ""}, (24, 11), True),
        ("AllowAccounts=physics", {"science": "root", "saving": "science", "root": ""}, (24, 11), False),
        ("AllowAccounts=physics", {}, (24, 11), True),
        ("AllowAccounts=physics", {"saving": "science"}, (24, 11), True),
        ("AllowAccounts=physics", {}, (22, 5), False),
        ("AllowAccounts=physics", {"saving": "root", "root": ""}, (23, 11), True),  # not tried
        ("DenyAccounts=saving", {}, (24, 11), False),
        ("AllowAccounts=physics AllowQos=urgent", {}, (24, 11), False),
    ],
)
def test_an_account_may_be_below_an_allowed_one_as_long_as_not_all_above_it_are_known(
    words: str, parents: dict[str, str], release: tuple[int, int], starts: bool
) -> None:
    """makeway reads accounts only for urgent jobs, and only where limits are enforced."""
    partitions = parse_cluster.partitions([f"PartitionName=up State=UP {words}"], command=())
    rules = PartitionRules.of(with_accounts_below(partitions, parents, release))
    assert goes_back(replace(RUNNING, partitions=("up",), account="saving", qos="normal"), rules) is starts


def test_a_job_of_an_account_below_the_one_that_its_partition_allows_may_leave() -> None:
    slurm = FakeSlurm(ROW | {"Account": "saving", "QOS": "normal"})
    slurm.change = shown("PartitionName=batch State=UP AllowAccounts=science")
    assert [job.preemptible for job in adapter_of(slurm).snapshot().jobs] == [True]


@pytest.mark.parametrize(
    ("words", "starts"),
    [("MinNodes=3", True), ("MinNodes=5", False), ("MaxNodes=4", True), ("MaxNodes=3", False)],
)
def test_a_shrunk_job_starts_again_with_all_its_nodes(words: str, starts: bool) -> None:
    rules = PartitionRules.of(parse_cluster.partitions([f"PartitionName=up State=UP {words}"], command=()))
    job = replace(RUNNING, partitions=("up",), nodes=("n1", "n2"), node_count=2)
    lost = LostNodes(node_count=4, kept_count=2, walltime_s=None, since_s=0.0)
    taken = TakenFromJob(run=job.restarts, for_job_id="9", lost_nodes=lost)
    resources, holds = SnapshotResources(NODES, PARTITIONS), HoldNames(prefix="makeway_c.")
    translator = Translator((ANY,), resources, NOW_S, exclusive_shrink=True, holds=holds, rules=rules)
    assert translator.job(job, taken).preemptible is starts
    assert kept_jobs((job,), (ANY,), rules, lambda _: taken) == (() if starts else (job,))


def test_those_that_are_left_alone_are_counted() -> None:
    jobs = (replace(RUNNING, partitions=("down",)), replace(RUNNING, partitions=("up",)))
    assert [one.unable for one in count(jobs, (ANY,), RULES)] == [1, 0]


@pytest.mark.parametrize(
    ("state", "preemptible"), [("UP", True), ("DRAIN", True), ("DOWN", False), ("INACTIVE", False)]
)
def test_a_job_whose_partition_is_closed_while_it_runs_is_left_alone(state: str, preemptible: bool) -> None:
    """And it may be made to leave again as soon as the partition is open."""
    slurm = FakeSlurm(ROW, WAITING | {"JobArrayID": "18"})
    adapter = adapter_of(slurm)
    for present, expected in (("UP", True), (state, preemptible), ("UP", True)):
        slurm.change = shown(f"PartitionName=batch State={present}")
        assert [job.preemptible for job in adapter.snapshot().jobs] == [expected, expected]


def test_an_overtime_of_the_partition_counts_instead_of_the_clusters() -> None:
    rows = [
        ROW | {"JobArrayID": str(number), "Partition": name}
        for number, name in enumerate(("batch", "none", "more", "endless"), start=1)
    ]
    slurm = FakeSlurm(*rows, WAITING | {"JobArrayID": "5", "Partition": "more"})
    slurm.settings = {"OverTimeLimit": "2 min"}
    slurm.change = shown(
        "PartitionName=batch State=UP OverTimeLimit=NONE",
        "PartitionName=none State=UP OverTimeLimit=0",
        "PartitionName=more State=UP OverTimeLimit=7",
        "PartitionName=endless State=UP OverTimeLimit=UNLIMITED",
    )
    jobs = adapter_of(slurm).snapshot().jobs
    assert [job.overtime_s for job in jobs] == [120.0, 0.0, 420.0, UNLIMITED_S, 0.0]
