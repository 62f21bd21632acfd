"""Classes whose jobs cannot meet, as `makeway doctor` reports them."""

from dataclasses import replace

import pytest

from makeway.adapters.site.job_class import JobClass, never_met
from makeway.adapters.slurm.partitions.check import check_meeting, nodes_of_partitions
from makeway.policies.model import JobKind

SHOWN = (
    "PartitionName=batch AllowGroups=ALL AllocNodes=ALL Default=YES Nodes=n[1-4] State=UP TotalNodes=4",
    "PartitionName=rt AllowGroups=ALL AllocNodes=ALL Default=NO Nodes=g[1-2],n4 State=UP TotalNodes=3",
    "PartitionName=gpu AllowGroups=ALL AllocNodes=login Default=NO Nodes=g[1-2] State=UP TotalNodes=2",
    "PartitionName=empty AllowGroups=ALL AllocNodes=ALL Default=NO Nodes=(null) State=UP TotalNodes=0",
)
NODES = nodes_of_partitions(SHOWN)


def urgent(*partitions: str, qos: str = "", word: str = "") -> JobClass:
    return replace(leaves(*partitions, qos=qos, word=word), name="urgent", kind=JobKind.ON_DEMAND)


def leaves(*partitions: str, qos: str = "", word: str = "") -> JobClass:
    return JobClass(
        name="leaves",
        partitions=frozenset(partitions),
        qos=frozenset({qos} - {""}),
        words=frozenset({word} - {""}),
        preemptible=True,
    )


def said(*classes: JobClass) -> list[str]:
    return [one.text for one in check_meeting(NODES, classes)]


def test_the_nodes_of_partitions() -> None:
    assert {
        "batch": {"n1", "n2", "n3", "n4"},
        "rt": {"g1", "g2", "n4"},
        "gpu": {"g1", "g2"},
        "empty": frozenset(),
    } == NODES


@pytest.mark.parametrize(
    "classes",
    [
        (urgent("gpu"), leaves("batch")),
        (urgent("empty"), leaves()),
        (urgent(), leaves("empty")),
        (urgent("batch"), leaves("gpu"), JobClass(name="stays", partitions=frozenset({"rt"}))),
    ],
)
def test_urgent_jobs_for_which_no_job_can_leave(classes: tuple[JobClass, ...]) -> None:
    (text,) = [one for one in said(*classes) if "in common" in one]
    assert text.startswith("the partitions of class urgent have no node in common with those of the preempt")


@pytest.mark.parametrize(
    "classes",
    [
        (urgent("rt"), leaves("batch")),
        (urgent(qos="urgent"), leaves("batch")),
        (urgent("gpu"), leaves()),
        (urgent("gpu"), leaves("batch"), leaves("rt")),
        (urgent("gpu"), leaves("btach")),
        (urgent("gpu"),),
    ],
)
def test_classes_that_meet_or_of_which_other_checks_speak(classes: tuple[JobClass, ...]) -> None:
    assert said(*classes) == []
    assert check_meeting({}, classes) == []


@pytest.mark.parametrize(
    ("first", "second", "hides"),
    [
        (urgent("batch"), leaves("batch"), True),
        (urgent("batch", "rt"), leaves("batch", qos="low"), True),
        (urgent("batch"), leaves("batch", "rt"), False),
        (urgent("batch"), leaves(qos="low"), False),
        (urgent("batch", qos="high"), leaves("batch"), False),
        (urgent(word="now"), leaves(word="now"), True),
    ],
)
def test_a_class_that_comes_too_late(first: JobClass, second: JobClass, *, hides: bool) -> None:
    assert never_met((first, second)) == (((second, first),) if hides else ())
    assert (": leaves (urgent); change the order" in " ".join(said(first, second))) is hides
