"""Sets of nodes as integers: bit i is node i. Union, intersection and counting are single operations."""

from makeway.policies.model import NodeSets, names_at, set_of_places

_CACHE_SIZE = 20_000


def lowest(nodes: int, count: int) -> int:
    """The `count` lowest-numbered nodes of `nodes`, which must have that many."""
    if count == 1:
        return nodes & -nodes
    low, high = count, nodes.bit_length()
    # Each node that is missing below `low` needs one more bit at least; the middle helps where gaps are wide.
    while low < high and (missing := count - (nodes & ((1 << low) - 1)).bit_count()) > 0:
        low += missing
        middle = (low + high) >> 1
        if (nodes & ((1 << middle) - 1)).bit_count() >= count:
            high = middle
        else:
            low = middle + 1
    return nodes & ((1 << low) - 1)


class NodeNames:
    """Names of the nodes of one machine, `n001` and up, and the way from names to sets and back."""

    def __init__(self, node_count: int) -> None:
        width = len(str(node_count))
        self.names: tuple[str, ...] = tuple(f"n{number:0{width}d}" for number in range(1, node_count + 1))
        self._places = {name: place for place, name in enumerate(self.names)}
        self._of_set: dict[int, tuple[str, ...]] = {}
        self.kept: NodeSets | None = None
        """The sets of the last snapshot, which know the names that decisions were made of. None: there was no
        snapshot yet."""

    def of(self, nodes: int) -> tuple[str, ...]:
        """The names of a set, lowest number first."""
        found = self._of_set.get(nodes)
        if found is None:
            found = names_at(nodes, self.names)
            if len(self._of_set) >= _CACHE_SIZE:
                self._of_set.clear()
            self._of_set[nodes] = found
        if self.kept is not None:
            self.kept.keep(found, nodes)
        return found

    def set_of(self, names: tuple[str, ...]) -> int:
        """The set of these names. Raises `KeyError` with the first name that no node has."""
        known = -1 if self.kept is None else self.kept.of(names)
        if 0 <= known < 1 << len(self.names):
            return known
        return set_of_places([self._places[name] for name in names])
