"""Whose jobs a partition takes, as `scontrol show partition` prints it."""

from typing import Any

import pytest

from makeway.adapters.slurm import parse_cluster
from makeway.adapters.slurm.parse_cluster import RawPartition
from makeway.adapters.slurm.partitions.accounts import children_of, with_accounts_below, with_those_below
from makeway.adapters.slurm.partitions.admission import ANYBODY, TakenJobs
from makeway.adapters.slurm.resources.limits import LimitsReader
from tests.adapters.slurm.jobs.raw_jobs import PENDING

PARENTS = {"child": "top", "top": "root", "root": "", "other": "root"}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("AllowAccounts=ALL AllowQos=ALL MaxMemPerNode=UNLIMITED MinNodes=0 RootOnly=NO", ANYBODY),
        (
            "AllowAccounts=top,other DenyQos=normal MaxMemPerNode=300 MinNodes=2 RootOnly=YES",
            TakenJobs(
                allowed_accounts="top,other",
                denied_qos="normal",
                root_only=True,
                node_count_min=2,
                memory_max_mb=300.0,
            ),
        ),
        (
            "DenyAccounts=top AllowQos=long MaxMemPerCPU=9",
            TakenJobs(denied_accounts="top", allowed_qos="long"),
        ),
    ],
)
def test_what_a_partition_says_of_the_jobs_that_it_takes(words: str, found: TakenJobs) -> None:
    line = f"PartitionName=p AllocNodes=ALL {words} MaxTime=UNLIMITED State=UP"
    (partition,) = parse_cluster.partitions([line], command=())
    assert partition.admission == found


def test_names_that_are_denied_count_only_where_none_are_allowed() -> None:
    both = TakenJobs(allowed_accounts="child", denied_accounts="child")
    assert both.takes(account="child", qos="", user_id="7")
    assert not both.takes(account="other", qos="", user_id="7")


@pytest.mark.parametrize(("release", "below"), [((22, 5), False), ((24, 11), True), ((26, 5), True)])
def test_from_24_11_on_an_account_stands_for_those_below_it(release: tuple[int, int], below: bool) -> None:
    def takes(said: TakenJobs, account: str) -> bool:
        partitions = (RawPartition(name="p", state="UP", admission=said),)
        (one,) = with_accounts_below(partitions, PARENTS, release)
        return one.admission.takes(account=account, qos="", user_id="7")

    allowed, denied = TakenJobs(allowed_accounts="top"), TakenJobs(denied_accounts="top")
    assert [takes(allowed, account) for account in ("top", "child", "other")] == [True, below, False]
    assert [takes(denied, account) for account in ("top", "child", "other")] == [False, not below, True]


def test_no_account_is_looked_at_again_for_each_partition() -> None:
    """A site may have ten thousand accounts and a hundred partitions."""

    class Counted(dict[str, str]):
        looks = 0

        def get(self, name: str, default: Any = None) -> Any:
            self.looks += 1
            return super().get(name, default)

    looks: list[int] = []
    for partition_count in (1, 20):
        parents = Counted({"root": "", **{f"a{number}": "root" for number in range(50)}})
        partitions = [
            RawPartition(name=f"p{number}", state="UP", admission=TakenJobs(allowed_accounts="a7"))
            for number in range(partition_count)
        ]
        with_accounts_below(partitions, parents, (24, 11))
        looks.append(parents.looks)
    assert looks[0] == looks[1] > 0


def test_an_account_stands_for_those_below_it_however_deep_they_are_and_in_a_circle_too() -> None:
    children = children_of({"b": "a", "c": "b", "a": "c", "x": "y", "root": ""}, (24, 11))
    assert [with_those_below(names, children) for names in ("a", "b,z", "y", "x", "")] == [
        "a,b,c",
        "b,z,a,c",
        "y,x",
        "x",
        "",
    ]


def test_the_accounts_stay_known_while_no_urgent_job_waits() -> None:
    """If the adapter forgot them, the partitions would change with each urgent job.

    The adapter would then build all jobs again.
    """
    lines = [
        "ClusterName=c Account=root UserName= Partition= ParentAccount= Comment= GrpJobs=N(0)",
        "ClusterName=c Account=top UserName= Partition= ParentAccount=root(1) Comment= GrpJobs=N(0)",
    ]
    reader = LimitsReader(lambda: None)
    partitions = [RawPartition(name="p", state="UP", admission=TakenJobs(allowed_accounts="root"))]
    told = [
        with_accounts_below(partitions, reader.learn(read, partitions, [PENDING]).parents, (24, 11))
        for read in (lines, [])
    ]
    assert told[0] == told[1]
    assert told[0][0].admission.allowed_accounts == "root,top"
