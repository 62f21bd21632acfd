"""Partitions of a machine: which there are, which conflict, and what a table of them must look like."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.policies.model import Placement
from makeway.simharness.workloads.nodeset import NodeNames
from makeway.simharness.workloads.partitions import (
    Partition,
    Partitions,
    PartitionsError,
    members,
    read_partitions,
)

HEAD = "partition,nodes,midplanes\n"
TWO_RACKS = Partitions(
    4,
    (
        Partition(name="a", nodes=0b0001),
        Partition(name="b", nodes=0b0010),
        Partition(name="c", nodes=0b0100),
        Partition(name="d", nodes=0b1000),
        Partition(name="ab", nodes=0b0011),
        Partition(name="ab-mesh", nodes=0b0011),
        Partition(name="bc", nodes=0b0110),
        Partition(name="all", nodes=0b1111),
    ),
)


def names(partitions: int) -> list[str]:
    return [TWO_RACKS.every[index].name for index in members(partitions)]


def test_partitions_on_the_same_nodes_are_one() -> None:
    assert [partition.name for partition in TWO_RACKS.every] == ["a", "b", "c", "d", "ab", "bc", "all"]
    assert TWO_RACKS.sizes == (1, 2, 4)
    assert [names(TWO_RACKS.of_size[size]) for size in TWO_RACKS.sizes] == [
        ["a", "b", "c", "d"],
        ["ab", "bc"],
        ["all"],
    ]


def test_partitions_conflict_where_they_share_a_node() -> None:
    assert [names(conflicts) for conflicts in TWO_RACKS.conflicts] == [
        ["a", "ab", "all"],
        ["b", "ab", "bc", "all"],
        ["c", "bc", "all"],
        ["d", "all"],
        ["a", "b", "ab", "bc", "all"],
        ["b", "c", "ab", "bc", "all"],
        ["a", "b", "c", "d", "ab", "bc", "all"],
    ]


def test_idle_ones_and_the_one_that_takes_the_fewest_from_others() -> None:
    idle = TWO_RACKS.idle(0b1111)
    assert names(idle) == ["a", "b", "c", "d", "ab", "bc", "all"]
    assert TWO_RACKS.every[TWO_RACKS.least_blocking(TWO_RACKS.of_size[1], idle)].name == "d"
    without_d = TWO_RACKS.idle(0b0111)
    assert names(without_d) == ["a", "b", "c", "ab", "bc"]
    assert TWO_RACKS.every[TWO_RACKS.least_blocking(TWO_RACKS.of_size[1] & without_d, without_d)].name == "a"


@given(st.lists(st.integers(1, 2**20 - 1), min_size=1, max_size=12), st.integers(0, 2**24 - 1))
def test_a_partition_is_idle_if_all_of_its_nodes_are_available(every: list[int], available: int) -> None:
    partitions = Partitions(20, tuple(Partition(name=f"p{i}", nodes=nodes) for i, nodes in enumerate(every)))
    expected = [one.name for one in partitions.every if one.nodes & available == one.nodes]
    found = partitions.idle(available)
    assert [partitions.every[index].name for index in members(found)] == expected


def test_the_size_that_a_job_is_given() -> None:
    assert [TWO_RACKS.size_for(count) for count in (1, 2, 3, 4)] == [1, 2, 4, 4]
    with pytest.raises(ValueError, match="no partition has 5 nodes; the largest has 4"):
        TWO_RACKS.size_for(5)


def test_policies_see_the_same_by_name() -> None:
    found = TWO_RACKS.placements(NodeNames(4))
    assert found[5] == Placement(name="bc", nodes=("n2", "n3"), whole=True)
    assert len(found) == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "wrong first line; accepted: partition,nodes,midplanes"),
        ("name,size\nx,512\n", "wrong first line"),
        (HEAD, "no partition"),
        (HEAD + "x,512,a\n", ":2: 'x,512,a'; accepted: a name, nodes, and one distinct midplane"),
        (HEAD + "x,512,1\ny,1024,1\n", ":3: 'y,1024,1'"),
        (HEAD + "x,1024,1 1\n", ":2:"),
        (HEAD + "x,512,-1\n", ":2:"),
        (HEAD + "x,512\n", ":2:"),
    ],
)
def test_a_table_that_is_none_is_refused_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "partitions.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PartitionsError) as caught:
        read_partitions(path)
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)


def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        PartitionsError, match="No such file or directory; accepted: a CSV file of partitions"
    ):
        read_partitions(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PartitionsError, match="is no text"):
        read_partitions(tmp_path / "binary.csv")


@pytest.mark.shared
def test_mira(shared_traces: Path) -> None:
    mira = read_partitions(shared_traces.parent / "data" / "mira-partitions.csv")
    assert (mira.node_count, len(mira.every)) == (96, 225)
    assert mira.sizes == (1, 2, 4, 8, 16, 24, 32, 48, 64, 96)
    assert mira.of_size[1].bit_count() == 96
    assert mira.of_size[96].bit_count() == 1
