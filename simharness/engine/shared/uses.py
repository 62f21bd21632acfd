"""What jobs hold of shared nodes, for the checker: read from the jobs, not from what the scheduler knows.

Of thousands of jobs few change between two passes. What is read again are the nodes that a job has come to or
has left, or on which a time limit has changed; now and then all of them are.
"""

from collections.abc import Sequence
from math import inf

from makeway.policies.model import Resources, total
from makeway.simharness.engine.job_run import JobRun
from makeway.simharness.engine.shared.machine import SharedMachine
from makeway.simharness.workloads.partitions import members

_WHOLE_EVERY = 1_000
"""After so many passes all nodes are read again."""
_MOST_DEMANDS = 64
"""For how many demands it is remembered when nodes have room."""
_NOW_S = -inf

_State = tuple[int, float, float]
"""The nodes of a job, its time limit, and when its present stretch began."""


class NodeUses:
    """Who holds what of which node, and until when. `look` brings it up to date."""

    def __init__(self, machine: SharedMachine) -> None:
        self._machine = machine
        self._passes = 0
        self._everything = (1 << machine.node_count) - 1
        self._known: dict[int, _State] | None = None
        """By job index. None: all is to be read."""
        self._uses: list[dict[int, tuple[float, Resources]]] = [{} for _ in machine.capacities]
        """By node and job index: until when, and what."""
        self._ready: dict[Resources | None, list[float]] = {}
        """By demand: when it fits on each node, as by `_ready_s`."""
        self._stale: dict[Resources | None, int] = {}
        """By demand: the nodes for which that is to be worked out again."""

    def look(self, holders: Sequence[JobRun]) -> str | None:
        """Look at the jobs that hold nodes. Returns what no cluster can do, or None.

        A job is on other nodes than it should, or holds less than it asked for, or jobs hold more of a node
        than it has, or a node is neither used nor free nor down.
        """
        machine = self._machine
        nodes = [live.nodes for live in holders]
        used = 0
        for each in nodes:
            used |= each
        if [*map(int.bit_count, nodes)] != [live.size for live in holders] or used & machine.down:
            wrong = next(
                live for live in holders if live.nodes.bit_count() != live.size or live.nodes & machine.down
            )
            return f"job {wrong.job.job_id!r} is on other nodes than {wrong.size} that are up"
        if fact := self._read(holders):
            return fact
        if machine.free != self._everything & ~used & ~machine.down:
            return "a node is neither used nor free nor down"
        return None

    def ready_s(self, needed: Resources | None) -> list[float]:
        """When a demand fits on each node if all jobs run to their limits.

        Now if it fits already, and never on a node that is down or has too little. `needed` None: when the
        whole node is free.
        """
        machine, found = self._machine, self._ready.get(needed)
        if found is None:
            if len(self._ready) >= _MOST_DEMANDS:
                self._ready.clear()
                self._stale.clear()
            found = self._ready[needed] = [
                self._ready_s(node, needed or capacity) for node, capacity in enumerate(machine.capacities)
            ]
        for node in members(self._stale.get(needed, 0)):
            found[node] = self._ready_s(node, needed or machine.capacities[node])
        self._stale[needed] = 0
        now_s = machine.now_s
        times_s = [now_s if at_s == _NOW_S else at_s for at_s in found]
        for node in members(machine.down):
            times_s[node] = inf
        return times_s

    def _read(self, holders: Sequence[JobRun]) -> str | None:
        """Read what has changed. Returns what no cluster can do, or None."""
        self._passes += 1
        if self._passes % _WHOLE_EVERY == 0:
            self._known = None
        states = {live.index: (live.nodes, live.limit_s, live.segment_start_s) for live in holders}
        known, self._known = self._known, states
        touched = self._everything if known is None else _touched(known, states)
        if not touched:
            return None
        changed = [live for live in holders if live.nodes & touched]
        machine = self._machine
        where = [*members(touched)]
        for node in where:
            self._uses[node].clear()
        for live in changed:
            demand = live.job.demand
            for node in members(live.nodes & touched):
                part = self._part(live, node)
                if demand is not None and not part.covers(demand):
                    return f"job {live.job.job_id!r} holds {part} for {demand}"
                self._uses[node][live.index] = (live.limit_s, part)
        for node in where:
            held = total([part for _, part in self._uses[node].values()])
            if not machine.capacities[node].covers(held):
                return f"jobs hold {held} of node {node}, which has {machine.capacities[node]}"
        for needed in self._stale:
            self._stale[needed] |= touched
        return None

    def _part(self, live: JobRun, node: int) -> Resources:
        """What a job holds of one of its nodes."""
        machine = self._machine
        if live.job.demand is None:
            return machine.capacities[node]
        return machine.nodes.resources(machine.nodes.held(live.index, node))

    def _ready_s(self, node: int, needed: Resources) -> float:
        """When a demand fits on a node at the latest; minus infinity: now. Infinite: never."""
        capacity = self._machine.capacities[node]
        if not capacity.covers(needed):
            return inf
        held, ready_s = sorted(self._uses[node].values(), key=lambda use: use[0]), _NOW_S
        while held and not capacity.minus(total([part for _, part in held])).covers(needed):
            ready_s = held.pop(0)[0]
        return ready_s


def _touched(known: dict[int, _State], states: dict[int, _State]) -> int:
    """The nodes on which something has changed."""
    touched = 0
    for index, state in states.items():
        before = known.get(index)
        if before != state:
            touched |= state[0] if before is None else state[0] | before[0]
    for index in known.keys() - states.keys():
        touched |= known[index][0]
    return touched
