"""What no job holds of each node, worked out again only where jobs came or left. Imported through `model`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from makeway.policies.model.entities import Job, Node
from makeway.policies.model.resources import NO_RESOURCES, Resources

_Held = Mapping[int, Resources | None]
"""What the jobs on a node hold of it, by the identity of the job. None: the whole node."""


@dataclass(frozen=True, slots=True, eq=False)
class Unused:
    """What is unused on a snapshot. The next one differs from it by few jobs.

    Jobs are compared by identity: they are frozen, and a snapshot shares the unchanged ones with the one
    before. They are kept here, so that no other job gets their identity.
    """

    nodes: tuple[Node, ...] | None = None
    """The nodes of the snapshot. None: there was none yet."""
    capacities: Mapping[str, Resources] = field(default_factory=dict[str, Resources])
    holders: Mapping[int, Job] = field(default_factory=dict[int, Job])
    """The jobs that hold nodes, by identity."""
    held: Mapping[str, _Held] = field(default_factory=dict[str, _Held])
    """What they hold, by node."""
    left: Mapping[str, Resources] = field(default_factory=dict[str, Resources])
    """As `Cluster.unused`."""

    def after(self, nodes: tuple[Node, ...], holders: Iterable[Job]) -> "Unused":
        """The same on the next snapshot. `holders`: the jobs that hold nodes, each once."""
        if self.nodes is not nodes:
            has = {node.name: node.capacity for node in nodes if node.capacity is not None}
            return Unused(nodes, has, left=MappingProxyType(has))._with(holders)
        return self._with(holders)

    def _with(self, holders: Iterable[Job]) -> "Unused":
        if not self.capacities:
            return self
        after = {id(job): job for job in holders}
        touched = self._changed(after)
        if not touched:
            return self
        left = {**self.left, **{name: self._left_of(name, here) for name, here in touched.items()}}
        for name, here in touched.items():
            if name not in self.capacities and not here:
                del left[name]
        return Unused(self.nodes, self.capacities, after, {**self.held, **touched}, MappingProxyType(left))

    def _changed(self, after: Mapping[int, Job]) -> Mapping[str, _Held]:
        """What jobs hold of each node on which another job came or left."""
        touched = dict[str, dict[int, Resources | None]]()

        def on(name: str) -> dict[int, Resources | None]:
            if name not in touched:
                touched[name] = dict(self.held.get(name, {}))
            return touched[name]

        for key in self.holders.keys() - after.keys():
            for name in self.holders[key].nodes:
                del on(name)[key]
        for key in after.keys() - self.holders.keys():
            job = after[key]
            held = [None] * len(job.nodes) if job.allocation is None else job.allocation
            for name, part in zip(job.nodes, held, strict=True):
                on(name)[key] = part
        return touched

    def _left_of(self, name: str, here: _Held) -> Resources:
        """What is left of one node. The order in which jobs are taken off does not matter."""
        has = self.capacities.get(name, NO_RESOURCES)
        left, wholes = has, 0
        for part in here.values():
            if part is None:
                wholes += 1
            else:
                left = left.minus(part)
        return left.owing(has, wholes) if wholes else left


def from_last_unused() -> Callable[[tuple[Node, ...], Iterable[Job]], Mapping[str, Resources]]:
    """What is unused on a snapshot, by its nodes and the jobs that hold some. It begins at the last one."""
    last = Unused()

    def unused(nodes: tuple[Node, ...], holders: Iterable[Job]) -> Mapping[str, Resources]:
        nonlocal last  # It is replaced as a whole: threads may ask at the same time.
        last = found = last.after(nodes, holders)
        return found.left

    return unused
