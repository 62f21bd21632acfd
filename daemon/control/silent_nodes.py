"""Nodes that stay silent count as down: an urgent job need not wait until the controller sets them down."""

from dataclasses import replace

from makeway.policies.model import Cluster, Node, NodeState, memoise_last

SILENT_S = 60.0
"""After this many seconds a silent node counts as down, unless more than half of the nodes are silent. After
a start of the controller, nodes are silent for a few seconds.
"""


class SilentNodes:
    """How long which nodes have been silent, since this daemon first saw it."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}
        self._lost: frozenset[str] = frozenset()

    def counted(self, seen: Cluster) -> Cluster:
        """The snapshot, in which a node that is silent for too long is down."""
        sets = seen.node_sets()
        if not sets.silent:
            self._since_s.clear()
            return seen
        silent = sets.names(sets.silent)
        self._since_s = {name: self._since_s.get(name, seen.now_s) for name in silent}
        if 2 * len(silent) > len(seen.nodes):
            return seen  # the controller has just started
        lost = frozenset(name for name in silent if seen.now_s - self._since_s[name] >= SILENT_S)
        if lost != self._lost:  # the same object is kept, since results are remembered by it
            self._lost = lost
        return replace(seen, nodes=_without(seen.nodes, self._lost)) if lost else seen


@memoise_last
def _without(nodes: tuple[Node, ...], lost: frozenset[str]) -> tuple[Node, ...]:
    return tuple(replace(node, state=NodeState.DOWN) if node.name in lost else node for node in nodes)
