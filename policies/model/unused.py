"""What no job holds of each node, worked out again only where jobs came or left. Imported through `model`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from makeway.policies.model.entities import Job, Node
from makeway.policies.model.resources import NO_RESOURCES, Resources

_Held = Mapping[str, Resources | None]
"""What the jobs on a node hold of it, by job id. None: the whole node."""


@dataclass(frozen=True, slots=True, eq=False)
class Unused:
    """What is unused on a snapshot. The next one differs from it by few jobs.

    It may have other objects for the same nodes and jobs: what counts is what the nodes have, and what the
    jobs hold.
    """

    nodes: tuple[Node, ...] | None = None
    """The nodes of the snapshot. None: there was none yet."""
    capacities: Mapping[str, Resources] = field(default_factory=dict[str, Resources])
    holders: Mapping[str, Job] = field(default_factory=dict[str, Job])
    """The jobs that hold nodes, by id."""
    held: Mapping[str, _Held] = field(default_factory=dict[str, _Held])
    """What they hold, by node."""
    left: Mapping[str, Resources] = field(default_factory=dict[str, Resources])
    """As `Cluster.unused`."""

    def after(self, nodes: tuple[Node, ...], holders: Iterable[Job]) -> "Unused":
        """The same on the next snapshot. `holders`: the jobs that hold nodes, each once."""
        if self.nodes is nodes:
            return self._with(holders)
        has = {node.name: node.capacity for node in nodes if node.capacity is not None}
        if [*has.items()] == [*self.capacities.items()]:
            return replace(self, nodes=nodes)._with(holders)
        return Unused(nodes, has, left=MappingProxyType(has))._with(holders)

    def _with(self, holders: Iterable[Job]) -> "Unused":
        if not self.capacities:
            return self
        after = {job.job_id: job for job in holders}
        touched = self._changed(after)
        if not touched:
            return replace(self, holders=after)
        left = {**self.left, **{name: self._left_of(name, here) for name, here in touched.items()}}
        for name, here in touched.items():
            if name not in self.capacities and not here:
                del left[name]
        return Unused(self.nodes, self.capacities, after, {**self.held, **touched}, MappingProxyType(left))

    def _changed(self, after: Mapping[str, Job]) -> Mapping[str, _Held]:
        """What jobs hold of each node on which another job came or left."""
        touched = dict[str, dict[str, Resources | None]]()

        def on(name: str) -> dict[str, Resources | None]:
            if name not in touched:
                touched[name] = dict(self.held.get(name, {}))
            return touched[name]

        for job in _those_that_hold_otherwise(self.holders, after):
            for name in job.nodes:
                del on(name)[job.job_id]
        for job in _those_that_hold_otherwise(after, self.holders):
            held = [None] * len(job.nodes) if job.allocation is None else job.allocation
            for name, part in zip(job.nodes, held, strict=True):
                on(name)[job.job_id] = part
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


def _those_that_hold_otherwise(jobs: Mapping[str, Job], others: Mapping[str, Job]) -> list[Job]:
    """Those of the jobs that are not among the others, or hold something else there."""
    return [
        job
        for job_id, job in jobs.items()
        if (other := others.get(job_id)) is not job
        and (other is None or other.nodes != job.nodes or other.allocation != job.allocation)
    ]


def from_last_unused() -> Callable[[tuple[Node, ...], Iterable[Job]], Mapping[str, Resources]]:
    """What is unused on a snapshot, by its nodes and the jobs that hold some. It begins at the last one."""
    last = Unused()

    def unused(nodes: tuple[Node, ...], holders: Iterable[Job]) -> Mapping[str, Resources]:
        nonlocal last  # It is replaced as a whole: threads may ask at the same time.
        last = found = last.after(nodes, holders)
        return found.left

    return unused
