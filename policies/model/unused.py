"""What no job holds of each node, worked out again only where jobs came or left. Imported through `model`."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from makeway.policies.model.entities import Job, Node
from makeway.policies.model.resources import NO_RESOURCES, Resources

_Held = dict[int, Resources | None]
"""What the jobs on a node hold of it, by the identity of the job. None: the whole node."""


class Unused:
    """What is unused on the last snapshot, from which the next one differs by few jobs.

    Jobs are compared by identity: they are frozen, and a snapshot shares the unchanged ones with the one
    before.
    """

    def __init__(self) -> None:
        self._nodes: tuple[Node, ...] | None = None
        self._has: dict[str, Resources] = {}
        self._holders: dict[int, Job] = {}
        self._held: dict[str, _Held] = {}
        self._left: dict[str, Resources] = {}

    def of(self, nodes: tuple[Node, ...], holders: Iterable[Job]) -> Mapping[str, Resources]:
        """As `Cluster.unused`. `holders`: the jobs that hold nodes, each once."""
        known, self._nodes = self._nodes, None  # what fails half-way leaves nothing behind
        if known is not nodes:
            self._has = {node.name: node.capacity for node in nodes if node.capacity is not None}
            self._holders, self._held, self._left = {}, {}, dict(self._has)
        if self._has and (touched := self._take({id(job): job for job in holders})):
            # The mapping that was given out does not change.
            left = {**self._left, **{name: self._left_of(name) for name in touched}}
            for name in touched.keys() - self._has.keys():
                if not self._held[name]:
                    del left[name]
            self._left = left
        self._nodes = nodes
        return MappingProxyType(self._left)

    def _take(self, after: dict[int, Job]) -> dict[str, None]:
        """Note who holds what from now on. Returns the nodes on which that has changed."""
        before, self._holders = self._holders, after
        touched = dict[str, None]()
        for key in before.keys() - after.keys():
            for name in before[key].nodes:
                del self._held[name][key]
                touched[name] = None
        for key in after.keys() - before.keys():
            job = after[key]
            held = [None] * len(job.nodes) if job.allocation is None else job.allocation
            for name, part in zip(job.nodes, held, strict=True):
                self._held.setdefault(name, {})[key] = part
                touched[name] = None
        return touched

    def _left_of(self, name: str) -> Resources:
        """What is left of one node. The order in which jobs are taken off does not matter."""
        has = self._has.get(name, NO_RESOURCES)
        left, wholes = has, 0
        for part in self._held[name].values():
            if part is None:
                wholes += 1
            else:
                left = left.minus(part)
        return left.owing(has, wholes) if wholes else left
