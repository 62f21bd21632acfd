"""Sets of a cluster's nodes as integers: bit i is node i. Imported through `model`."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, count, filterfalse
from typing import TypeVar

from makeway.policies.model.entities import Node, NodeState

_Element = TypeVar("_Element")
_MOST_KEPT = 50_000
_MOST_NAMES_KEPT = 32
_FEW, _FEW_OF = 8, 256
"""The set of so few names, or of one in so many of the nodes, is put together bit by bit, without a look at
the whole cluster."""
_ONE = ord("1")


def set_of_places(places: Sequence[int]) -> int:
    """The integer that has the bits at these places."""
    if not places:
        return 0
    flags = bytearray(b"0") * (max(places) + 1)
    for place in places:
        flags[place] = _ONE
    flags.reverse()
    return int(flags, 2)


def names_at(nodes: int, names: Sequence[str]) -> tuple[str, ...]:
    """The names at the bits of the integer, in their order. Bits beyond the names are left out.

    Most sets are a few stretches of neighbours: each is copied as a whole.
    """
    first = max((nodes & -nodes).bit_length() - 1, 0)
    bits = bin(nodes >> first)[:1:-1]
    found: list[str] = []
    begin = bits.find("1")
    while begin >= 0:
        end = bits.find("0", begin)
        if end < 0:
            end = len(bits)
        found += names[first + begin : first + end]
        begin = bits.find("1", end)
    return tuple(found)


class NodeSets:
    """The way from names of nodes to such integers and back, for one tuple of nodes.

    Union, intersection and counting are then single operations. A name that no node has gets a bit of its
    own, beyond those of the nodes.
    """

    __slots__ = (
        *(
            "_few",
            "_further",
            "_index",
            "_kept",
            "_kept_among",
            "_kept_names",
            "_names",
            "_others",
            "_wake_after",
        ),
        *("asleep", "down", "drained", "silent", "sleeping_first", "up"),
    )

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self._names = tuple(dict.fromkeys(node.name for node in nodes))
        self._index = {name: index for index, name in enumerate(self._names)}
        self._few = max(_FEW, len(self._names) // _FEW_OF)
        self._others: dict[int, str] = {}
        self._further = count(len(self._names))
        self._kept: dict[int, tuple[tuple[str, ...] | frozenset[str], int]] = {}
        self._kept_names: dict[int, tuple[str, ...]] = {}
        self._kept_among: dict[int, tuple[tuple[str, ...], int, tuple[str, ...]]] = {}
        self.up: int = self.of_new(tuple(node.name for node in nodes if node.state is NodeState.UP))
        """The nodes that are up."""
        self.down: int = ((1 << len(self._names)) - 1) & ~self.up
        """The nodes that are not up."""
        lost = tuple(node for node in nodes if node.state is not NodeState.UP)
        self.silent: int = self.of_new(tuple(node.name for node in lost if node.state is NodeState.SILENT))
        """The nodes whose answer the controller waits for."""
        self.drained: int = self.of_new(tuple(node.name for node in lost if node.state is NodeState.DRAINED))
        """The nodes that are drained."""
        sleeping = tuple(node for node in nodes if node.state is NodeState.UP and node.wake_s > 0.0)
        self.asleep: int = self.of_new(tuple(node.name for node in sleeping))
        """The nodes that are up, but sleep or boot."""
        self.sleeping_first: int = self.of_new(tuple(node.name for node in sleeping if node.sleeps_first))
        """Those of them that are on their way to sleep."""
        self._wake_after = {
            wake_s: self.of_new(tuple(node.name for node in sleeping if node.wake_s == wake_s))
            for wake_s in {node.wake_s for node in sleeping}
        }

    def asleep_for(self, least_s: float) -> int:
        """The nodes that sleep and may be awake only later than in this time."""
        found = 0
        for wake_s, nodes in self._wake_after.items():
            found |= nodes if wake_s > least_s else 0
        return found

    def wake_times_s(self, nodes: int) -> tuple[float, ...]:
        """How long those of the nodes take that sleep, each time once, the shortest first."""
        return tuple(sorted(wake_s for wake_s, asleep in self._wake_after.items() if asleep & nodes))

    def of(self, names: tuple[str, ...] | frozenset[str]) -> int:
        """The set of these names. It is kept for this very object, which a snapshot uses many times."""
        if len(names) == 1:  # as fast as to look it up, and sets of large clusters take much memory
            return self.of_new(names)
        kept = self._kept.get(id(names))
        if kept is not None and kept[0] is names:
            return kept[1]
        found = self.of_new(names)
        self.keep(names, found)
        return found

    def union(self, groups: Iterable[tuple[str, ...] | frozenset[str]]) -> int:
        """The set of the names of all groups."""
        found, single = 0, list[str]()
        for group in groups:
            if len(group) == 1:
                single += group
            else:
                found |= self.of(group)
        return found | self.of_new(single)

    def names(self, nodes: int) -> tuple[str, ...]:
        """The names of a set, in the cluster's order."""
        found = self._kept_names.get(nodes)
        if found is None:
            found = names_at(nodes, self._names)
            known = len(self._names)
            if others := nodes >> known:
                places = (place for place in range(others.bit_length()) if others >> place & 1)
                found += tuple(self._others[known + place] for place in places)
            if len(self._kept_names) >= _MOST_NAMES_KEPT:
                self._kept_names.clear()
            self._kept_names[nodes] = found
            self.keep(found, nodes)
        return found

    def joined(self, *groups: tuple[str, ...]) -> tuple[str, ...]:
        """The names of all groups, one group after another. Which set they are is kept."""
        found = tuple(chain.from_iterable(groups))
        self.keep(found, self.union(groups))
        return found

    def among(self, names: tuple[str, ...], nodes: int) -> tuple[str, ...]:
        """Those of the names that are in the set, in their own order. The last answer is kept for this very
        object: a hold is often asked for the same part of it."""
        if len(names) == 1:
            return names if nodes >> self._place(names[0]) & 1 else ()
        whole = self.of(names)
        common = whole & nodes
        if not common or common == whole:
            return names if common else ()
        last = self._kept_among.get(id(names))
        if last is not None and last[0] is names and last[1] == common:
            return last[2]
        # The smaller part is made a set.
        gone = whole & ~nodes
        if gone.bit_count() < common.bit_count():
            found = tuple(filterfalse(frozenset(self.names(gone)).__contains__, names))
        else:
            found = tuple(filter(frozenset(self.names(common)).__contains__, names))
        if len(self._kept_among) >= _MOST_NAMES_KEPT:
            self._kept_among.clear()
        self._kept_among[id(names)] = (names, common, found)
        self.keep(found, common)
        return found

    def keep(self, names: tuple[str, ...] | frozenset[str], nodes: int) -> None:
        """Remember which set these very names are: `of` need not derive it."""
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[id(names)] = (names, nodes)

    def of_any(self, names: Collection[str]) -> int:
        """The set of names in whatever form they have."""
        if isinstance(names, NodeSet) and names.sets is self:
            return names.bits
        return self.of(names) if isinstance(names, tuple | frozenset) else self.of_new(names)

    def has(self, nodes: int, name: str) -> bool:
        """Whether a set has the node of that name."""
        place = self._index.get(name)
        return place is not None and bool(nodes >> place & 1)

    def of_new(self, names: Collection[str]) -> int:
        """The set of names that were put together for this question: it is not kept."""
        if len(names) <= self._few:
            found = 0
            for name in names:
                found |= 1 << self._place(name)
            return found
        flags, index = bytearray(b"0") * len(self._names), self._index
        try:
            for name in names:
                flags[index[name]] = _ONE
        except LookupError:  # a name that no node has
            return set_of_places([self._place(name) for name in names])
        flags.reverse()
        return int(flags, 2)

    def _place(self, name: str) -> int:
        """The bit of a name, or a new one. Safe if the planner's thread asks at the same time."""
        place = self._index.get(name)
        if place is None:
            new = next(self._further)
            self._others[new] = name
            place = self._index.setdefault(name, new)
        return place


class NodeSet(AbstractSet[str]):
    """Names of a cluster's nodes as a set that nothing changes, in the cluster's order: an integer inside."""

    __slots__ = ("bits", "sets")

    def __init__(self, sets: NodeSets, bits: int) -> None:
        self.sets = sets
        self.bits = bits
        """The integer, as `sets` has it."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.sets.has(self.bits, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sets.names(self.bits))

    def __len__(self) -> int:
        return self.bits.bit_count()

    @classmethod
    def _from_iterable(cls, it: Iterable[_Element]) -> AbstractSet[_Element]:
        # What the operators of a set give.
        return frozenset(it)

    def union(self, *others: Collection[str]) -> "NodeSet":
        """These names and the others."""
        bits = self.bits
        for names in others:
            bits |= self.sets.of_any(names)
        return NodeSet(self.sets, bits)
