"""Sets of nodes as integers, next to the plainest way to have the same."""

from random import Random

import pytest

from makeway.policies.model import Node, NodeSets, NodeState
from makeway.simharness.workloads.nodeset import NodeNames, lowest

WIDTHS = (1, 7, 64, 300, 4360)


def places(nodes: int) -> list[int]:
    return [place for place in range(nodes.bit_length()) if nodes >> place & 1]


def some_sets(width: int, seed: int) -> list[int]:
    """Sets that are full, dense, sparse and in runs."""
    draw = Random(seed)
    runs = sum(1 << place for place in range(width) if place // 37 % 3 == seed % 3)
    sparse = draw.getrandbits(width) & draw.getrandbits(width) & draw.getrandbits(width)
    return [(1 << width) - 1, draw.getrandbits(width), sparse, runs, 1 << (width - 1)]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_lowest_nodes_are_the_first_ones(width: int) -> None:
    for seed in range(5):
        for nodes in filter(None, some_sets(width, seed)):
            known = places(nodes)
            for count in {1, (len(known) + 1) // 2, len(known)}:
                assert places(lowest(nodes, count)) == known[:count]


@pytest.mark.parametrize("width", WIDTHS)
def test_names_are_those_of_the_nodes_with_and_without_the_sets_of_a_snapshot(width: int) -> None:
    plain, knowing = NodeNames(width), NodeNames(width)
    knowing.kept = NodeSets(tuple(Node(name=name, state=NodeState.UP) for name in knowing.names))
    for nodes in (0, *some_sets(width, 1)):
        names = tuple(plain.names[place] for place in places(nodes))
        assert plain.of(nodes) == knowing.of(nodes) == names
        assert plain.set_of(names) == knowing.set_of(names) == nodes
        assert knowing.kept.of(knowing.of(nodes)) == knowing.kept.of_new(names) == nodes


def test_a_name_that_no_node_has_is_refused() -> None:
    names = NodeNames(3)
    names.kept = NodeSets(tuple(Node(name=name, state=NodeState.UP) for name in names.names))
    with pytest.raises(KeyError, match="n4"):
        names.set_of(("n1", "n4"))
