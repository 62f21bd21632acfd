"""Sets of nodes as integers against sets of names."""

import random

from makeway.policies.model import Node, NodeSet, NodeSets, NodeState

NODES = tuple(
    Node(name=f"n{index}", state=NodeState.DOWN if index in {2, 5} else NodeState.UP) for index in range(70)
)


def test_a_set_and_its_names() -> None:
    sets = NodeSets(NODES)
    assert sets.names(sets.of(("n9", "n0", "n64"))) == ("n0", "n9", "n64"), "in the cluster's order"
    assert sets.names(sets.up) == tuple(f"n{index}" for index in range(70) if index not in {2, 5})
    assert sets.of(()) == 0
    assert sets.names(0) == ()


def test_unions_and_intersections_are_those_of_the_names() -> None:
    rng = random.Random(1)
    sets = NodeSets(NODES)
    names = [node.name for node in NODES] + ["gone", "n100"]
    for _ in range(200):
        first, second = (tuple(rng.sample(names, rng.randint(0, 30))) for _ in range(2))
        assert set(sets.names(sets.union((first, second)))) == {*first, *second}
        assert sets.among(first, sets.of(second)) == tuple(name for name in first if name in second)
        assert sets.of_new(first) == sets.of(first)
        assert len(first) == 1 or sets.of(first) is sets.of(first)
        one = first[:1]
        assert sets.among(one, ~sets.of(second)) == tuple(name for name in one if name not in second)


def test_a_name_that_no_node_has_is_kept_apart() -> None:
    sets = NodeSets(NODES)
    unknown = sets.of(("gone", "n1"))
    assert sets.names(unknown) == ("n1", "gone")
    assert sets.names(unknown & sets.up) == ("n1",)
    assert sets.of(("gone",)) & unknown


def test_equal_tuples_are_not_confused_with_later_ones() -> None:
    """What is kept is looked up by identity: an id that is used again must not answer for another tuple."""
    sets = NodeSets(NODES)
    for index in range(1000):
        assert sets.names(sets.of((f"n{index % 70}",))) == (f"n{index % 70}",)


def test_a_name_that_two_nodes_have_is_one_node() -> None:
    sets = NodeSets((*NODES[:2], NODES[0]))
    assert sets.names(sets.up) == ("n0", "n1")


def test_a_set_of_names_is_one_like_any_other() -> None:
    sets = NodeSets(NODES)
    found = NodeSet(sets, sets.of(("n9", "n0", "gone")))
    assert set(found) == {"n0", "n9", "gone"}
    assert (len(found), list(found)) == (3, ["n0", "n9", "gone"])
    assert "n9" in found
    assert "n1" not in found
    assert "never seen" not in found
    assert set(found.union({"n1"}, ("n2",))) == {"n0", "n1", "n2", "n9", "gone"}
    assert found - {"n9"} == {"n0", "gone"}
    assert {"n9", "n3"} - found == {"n3"}
    assert found.isdisjoint(("n1", "n3"))
    assert sets.of_any(found) == found.bits
    assert NodeSets(NODES).of_any(found) != 0, "another cluster's set is read by its names"


def test_what_is_not_up_is_down() -> None:
    sets = NodeSets(NODES)
    assert sets.names(sets.down) == ("n2", "n5")
    assert sets.up | sets.down == (1 << 70) - 1
    assert sets.has(sets.down, "n5")
    assert not sets.has(sets.down, "gone")


def test_names_that_were_made_from_a_set_are_known_as_that_set() -> None:
    sets = NodeSets(NODES)
    few = sets.among(("n64", "n9", "n1"), sets.of(("n9", "n64")))
    assert few == ("n64", "n9"), "in their own order"
    assert sets.names(sets.of(few)) == ("n9", "n64")
    assert sets.of(sets.names(sets.up)) == sets.up


def test_what_is_kept_of_a_hold_is_that_of_the_set_asked_for() -> None:
    """Whatever was asked for the same names before."""
    sets = NodeSets(NODES)
    holds = [tuple(f"n{place}" for place in range(first, 70, 7)) for first in range(7)] * 8
    for turn, names in enumerate(holds):
        for wanted in (names[:3], names[:3], names[2:], names[turn % 9 :]):
            assert sets.among(names, sets.of_new(wanted)) == wanted


def test_joined_names_are_one_group_after_another() -> None:
    sets = NodeSets(NODES)
    joined = sets.joined(("n9", "n1"), (), ("n64", "gone"))
    assert joined == ("n9", "n1", "n64", "gone")
    assert sets.of(joined) == sets.of_new(joined)
    assert sets.joined() == ()
