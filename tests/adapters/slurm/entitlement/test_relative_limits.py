"""QOS with the flag Relative (24.05 and later): their limits on resources are percentages.

Tried on 24.11.5 and 26.05.5 on 2026-11-26, on 8 nodes of 2 cores: `GrpTRES=node=50,cpu=25` are 4 nodes and 4
cores, 30% of 8 nodes are 2, 5% none.
"""

import pytest

from makeway.adapters.site.job_class import JobClass
from makeway.policies.model import JobKind, Resources
from tests.adapters.slurm.entitlement.test_entitlement import (
    FakeAccounting,
    asked,
    association,
    of_qos,
    too_much,
)


def relative(**limits: str) -> str:
    return of_qos("urgent", Flags="DenyOnLimit,Relative", **limits)


@pytest.mark.parametrize(
    ("limits", "nodes", "refusal"),
    [
        ({"GrpTRES": "node=10"}, 4, None),
        ({"GrpTRES": "node=9"}, 4, "4 nodes are asked for, QOS urgent admits 3"),
        ({"MaxTRES": "cpu=5,node=25"}, 4, None),
        ({"MaxTRES": "cpu=5,node=25"}, 5, "5 cpu are asked for, QOS urgent admits 4"),
        ({"MaxTRESPU": "node=2"}, 1, "1 nodes are asked for, QOS urgent admits 0"),
        ({"MaxTRESPA": "mem=1"}, 1, None),
        ({"MaxWall": "00:30:00"}, 1, "3600 seconds are asked for, QOS urgent admits 1800"),
        ({"MaxJobsPU": "1"}, 1, None),
    ],
)
def test_percentages_are_of_the_cluster(limits: dict[str, str], nodes: int, refusal: str | None) -> None:
    slurm = FakeAccounting()
    slurm.qos = (relative(**limits),)
    demand = Resources.of({"cpu": 1, "mem": 800})
    assert asked(slurm, nodes=nodes, demand=demand)[0] == too_much(refusal)


def test_those_of_a_partition_are_of_its_resources() -> None:
    slurm = FakeAccounting()
    slurm.partition["own"] = "urgent"
    slurm.qos = (of_qos("normal"), relative(GrpTRES="node=40"))
    slurm.associations = {"ada": (association("light", "normal"),)}
    classes = (JobClass(name="beam", partitions=frozenset({"batch"}), kind=JobKind.ON_DEMAND),)
    assert asked(slurm, nodes=3, classes=classes)[0] is None
    assert asked(slurm, nodes=4, classes=classes)[0] == too_much("4 nodes are asked for, QOS urgent admits 3")


def test_the_cluster_is_only_asked_for_percentages() -> None:
    slurm = FakeAccounting()
    asked(slurm)
    assert not any("cluster" in argv for argv in slurm.calls)
