"""What will be unused of each node over time, into which conservative backfill places waiting jobs."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from math import inf

from makeway.simharness.engine.partitioned import HoldView
from makeway.simharness.engine.shared.nodes import Amounts, SharedNodes, covers
from makeway.simharness.workloads.partitions import members

_Window = tuple[float, float]
"""From when until when a node has enough."""


class NodePlans:
    """The planned use of every node from now on.

    Running jobs end at their limits. No waiting job gets a reserved node before its hold ends.
    """

    def __init__(self, nodes: SharedNodes, now_s: float, down: int, holds: Iterable[HoldView]) -> None:
        self._nodes = nodes
        self._now_s = now_s
        held_until_s: dict[int, float] = {}
        for hold in holds:
            for node in members(hold.nodes):
                held_until_s[node] = max(hold.end_s, held_until_s.get(node, now_s))
        self._plans = {
            node: _NodePlan(nodes, node, now_s, held_until_s.get(node, now_s))
            for node in range(len(nodes.capacity))
            if not down >> node & 1
        }

    def place(self, count: int, demand: Amounts | None, walltime_s: float) -> tuple[float, int]:
        """Take the demand on `count` nodes for `walltime_s` as early as possible; returns when and where.

        Infinite, and no nodes, if there is no such time.
        """
        windows = {
            node: found
            for node, plan in self._plans.items()
            if (found := plan.windows(self._nodes.needed(demand, node), walltime_s))
        }
        if len(windows) < count:
            return inf, 0
        firsts = sorted(found[0][0] for found in windows.values())
        for start_s in sorted({begin_s for found in windows.values() for begin_s, _ in found}):
            if start_s < firsts[count - 1]:
                continue
            able = [
                node
                for node, found in windows.items()
                if any(begin_s <= start_s and start_s + walltime_s <= end_s for begin_s, end_s in found)
            ]
            if len(able) >= count:
                able.sort(key=lambda node: (self._plans[node].level(start_s), node))
                return start_s, self._take(able[:count], demand, start_s, walltime_s)
        return inf, 0

    def _take(self, chosen: list[int], demand: Amounts | None, start_s: float, walltime_s: float) -> int:
        for node in chosen:
            now = start_s <= self._now_s
            amounts = self._nodes.granted(demand, node) if now else self._nodes.needed(demand, node)
            self._plans[node].take(amounts, start_s, start_s + walltime_s)
        return sum(1 << node for node in chosen)


class _NodePlan:
    """One node: `_unused[i]` from `_from_s[i]` until `_from_s[i + 1]`, the last for ever."""

    def __init__(self, nodes: SharedNodes, node: int, now_s: float, held_until_s: float) -> None:
        self._nodes = nodes
        self._node = node
        unused = nodes.unused(node)
        self._from_s = [now_s]
        self._unused = [unused]
        for limit_s, held in nodes.releases(node):
            unused = tuple(map(int.__add__, unused, held))
            if limit_s <= self._from_s[-1]:
                self._unused[-1] = unused
            else:
                self._from_s.append(limit_s)
                self._unused.append(unused)
        if held_until_s > now_s:
            for position in range(self._step(held_until_s)):
                self._unused[position] = (0,) * len(unused)

    def windows(self, needed: Amounts, walltime_s: float) -> list[_Window]:
        """The stretches of at least `walltime_s` with enough throughout, in order of time."""
        found: list[_Window] = []
        begin_s: float | None = None
        for from_s, unused in zip(self._from_s, self._unused, strict=True):
            if covers(unused, needed):
                begin_s = from_s if begin_s is None else begin_s
            elif begin_s is not None:
                if begin_s + walltime_s <= from_s:
                    found.append((begin_s, from_s))
                begin_s = None
        if begin_s is not None:
            found.append((begin_s, inf))
        return found

    def level(self, at_s: float) -> float:
        """How the node ranks at that time: see `SharedNodes.level`."""
        return self._nodes.level(self._node, self._unused[bisect_right(self._from_s, at_s) - 1])

    def take(self, amounts: Amounts, start_s: float, end_s: float) -> None:
        """Use these amounts from `start_s` until `end_s`."""
        for position in range(self._step(start_s), self._step(end_s)):
            self._unused[position] = tuple(map(int.__sub__, self._unused[position], amounts))

    def _step(self, at_s: float) -> int:
        """The position of the step that begins at that time; it is made if there is none."""
        position = bisect_left(self._from_s, at_s)
        if position == len(self._from_s) or self._from_s[position] != at_s:
            self._from_s.insert(position, at_s)
            self._unused.insert(position, self._unused[position - 1])
        return position
