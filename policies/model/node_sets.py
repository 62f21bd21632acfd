"""Sets of a cluster's nodes as integers: bit i is node i. Imported through `model`."""

from collections.abc import Collection, Iterable
from itertools import compress, count

from makeway.policies.model.entities import Node, NodeState

_FLAGS = bytes.maketrans(b"01", b"\x00\x01")
_MOST_KEPT = 50_000
_MOST_NAMES_KEPT = 32
_ONE = ord("1")


class NodeSets:
    """The way from names of nodes to such integers and back, for one tuple of nodes.

    Union, intersection and counting are then single operations. A name that no node has gets a bit of its
    own, beyond those of the nodes.
    """

    __slots__ = ("_further", "_index", "_kept", "_kept_names", "_names", "_others", "silent", "up")

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self._names = tuple(dict.fromkeys(node.name for node in nodes))
        self._index = {name: index for index, name in enumerate(self._names)}
        self._others: dict[int, str] = {}
        self._further = count(len(self._names))
        self._kept: dict[int, tuple[tuple[str, ...], int]] = {}
        self._kept_names: dict[int, tuple[str, ...]] = {}
        self.up: int = self.of_new(tuple(node.name for node in nodes if node.state is NodeState.UP))
        """The nodes that are up."""
        self.silent: int = self.of_new(tuple(node.name for node in nodes if node.state is NodeState.SILENT))
        """The nodes whose answer the controller waits for."""

    def of(self, names: tuple[str, ...]) -> int:
        """The set of these names. It is kept for this very tuple, which a snapshot uses many times."""
        kept = self._kept.get(id(names))
        if kept is not None and kept[0] is names:
            return kept[1]
        found = self.of_new(names)
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[id(names)] = (names, found)
        return found

    def union(self, groups: Iterable[tuple[str, ...]]) -> int:
        """The set of the names of all groups."""
        found = 0
        for group in groups:
            found |= self.of(group)
        return found

    def names(self, nodes: int) -> tuple[str, ...]:
        """The names of a set, in the cluster's order."""
        found = self._kept_names.get(nodes)
        if found is None:
            flags = bin(nodes)[:1:-1].encode().translate(_FLAGS)
            known, others = len(self._names), flags[len(self._names) :]
            rest = tuple(self._others[known + place] for place, there in enumerate(others) if there)
            found = (*compress(self._names, flags), *rest) if rest else tuple(compress(self._names, flags))
            if len(self._kept_names) >= _MOST_NAMES_KEPT:
                self._kept_names.clear()
            self._kept_names[nodes] = found
        return found

    def among(self, names: tuple[str, ...], nodes: int) -> tuple[str, ...]:
        """Those of the names that are in the set, in their own order."""
        whole = self.of(names)
        common = whole & nodes
        if not common or common == whole:
            return names if common else ()
        return tuple(filter(frozenset(self.names(common)).__contains__, names))

    def of_new(self, names: Collection[str]) -> int:
        """The set of names that were put together for this question: it is not kept."""
        if not names:
            return 0
        try:
            places = list(map(self._index.__getitem__, names))
        except KeyError:
            places = [self._place(name) for name in names]
        flags = bytearray(b"0") * (max(places) + 1)
        for place in places:
            flags[-1 - place] = _ONE
        return int(flags, 2)

    def _place(self, name: str) -> int:
        """The bit of a name, or a new one. Safe if the planner's thread asks at the same time."""
        place = self._index.get(name)
        if place is None:
            new = next(self._further)
            self._others[new] = name
            place = self._index.setdefault(name, new)
        return place
