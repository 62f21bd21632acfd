"""The candidate nodes of an instance by kind: nodes that the same components may have, with the same room and
the same jobs, are interchangeable.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from makeway.policies.choice.covers import covers_of, crowded_nodes
from makeway.policies.choice.instance import ChoiceInstance, Occupant, WayToLeave
from makeway.policies.choice.table import ChoiceTable, tabulate
from makeway.policies.joint.instance import JointComponent, JointInstance
from makeway.policies.model import Method

Covers = tuple[tuple[str, ...], ...]
"""The sets of jobs whose leaving is enough on a node, and too little without any of them. An empty set: the
node serves at once."""
Wants = tuple[tuple[int, tuple[tuple[str, int], ...]], ...]
"""What is missing on a node: amounts, and the jobs that free some of each, with how much each frees of it as
far as it is missing."""
_LEAVES = WayToLeave(method=Method.KILL)
"""How a job leaves does not matter here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """Nodes that are alike."""

    names: tuple[str, ...]
    """Sorted."""
    covers: Mapping[int, Covers]
    """By component that may have the nodes."""
    crowded: Mapping[int, tuple[Wants, ...]] = field(default_factory=dict[int, tuple[Wants, ...]])
    """The same where jobs are too many to list their covers: the ways to serve, of which one is enough."""

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.names)

    @property
    def components(self) -> tuple[int, ...]:
        """The components that may have the nodes, ascending."""
        return tuple(sorted((*self.covers, *self.crowded)))

    def jobs(self) -> frozenset[str]:
        """The jobs that can free something that matters here."""
        listed = {job for covers in self.covers.values() for cover in covers for job in cover}
        wanted = (gives for ways in self.crowded.values() for wants in ways for _, gives in wants)
        return frozenset(listed.union(job for gives in wanted for job, _ in gives))


def node_kinds(instance: JointInstance) -> tuple[NodeKind, ...]:
    """The nodes that can serve a component, whatever jobs have to leave for that."""
    alike = _alike(instance)
    covers = defaultdict[str, dict[int, Covers]](dict)
    crowded = defaultdict[str, dict[int, tuple[Wants, ...]]](dict)
    occupants = _occupants(instance)
    for index, component in enumerate(instance.components):
        first = [name for name in alike if name in component.free]
        if not first:
            continue
        table = tabulate(_choice(component, first, occupants))
        for name in table.ready:
            covers[name][index] = ((),)
        if len(table.names):
            _list_covers(table, index, covers, crowded)
    return tuple(
        NodeKind(names=tuple(names), covers=covers[name], crowded=crowded[name])
        for name, names in alike.items()
        if covers[name] or crowded[name]
    )


def _alike(instance: JointInstance) -> dict[str, list[str]]:
    """The nodes of each kind, sorted, by the first of them."""
    held = defaultdict[str, list[tuple[str, object]]](list)
    unique = set[str]()
    for job in sorted(instance.jobs, key=lambda job: job.job_id):
        if len(job.held) == 1:  # no other node is like this one
            unique.update(job.held)
            continue
        for name, amounts in job.held.items():
            held[name].append((job.job_id, amounts))
    found: dict[str, list[str]] = {}
    kinds = defaultdict[object, list[str]](list)
    for name in sorted(frozenset[str]().union(*(component.free for component in instance.components))):
        if name in unique:
            found[name] = [name]
            continue
        rooms = tuple(
            (component.free[name], component.alternatives.get(name)) if name in component.free else None
            for component in instance.components
        )
        kinds[rooms, tuple(held[name])].append(name)
    return dict(sorted({**found, **{names[0]: names for names in kinds.values()}}.items()))


def _occupants(instance: JointInstance) -> tuple[Occupant, ...]:
    """The jobs as the choice for one component sees them."""
    return tuple(
        Occupant(
            job_id=job.job_id,
            nodes=tuple(job.held),
            allocation=tuple(job.held.values()),
            ways=(_LEAVES,) if job.ways else (),
        )
        for job in instance.jobs
    )


def _choice(component: JointComponent, names: list[str], occupants: tuple[Occupant, ...]) -> ChoiceInstance:
    """The choice for one component alone among some nodes, with more nodes needed than there are: that keeps
    the ways of a node apart from each other.
    """
    there = frozenset(names)
    return ChoiceInstance(
        free={name: component.free[name] for name in names},
        demand=component.demand,
        node_count=len(names) + 2,
        occupants=occupants,
        alternatives={name: ways for name, ways in component.alternatives.items() if name in there},
    )


def _list_covers(
    table: ChoiceTable,
    index: int,
    covers: Mapping[str, dict[int, Covers]],
    crowded: Mapping[str, dict[int, tuple[Wants, ...]]],
) -> None:
    """Add the covers of a component's nodes, and what crowded nodes want, by the name of the node."""
    jobs, is_crowded = [job.job_id for job in table.jobs], crowded_nodes(table)
    listed = covers_of(table)
    found = defaultdict[str, list[tuple[str, ...]]](list)
    ends = (listed.start + listed.size).tolist()
    of_places: list[int] = listed.jobs.tolist()
    for row, start, end in zip(listed.node.tolist(), listed.start.tolist(), ends, strict=True):
        if not is_crowded[row]:
            found[table.names[row]].append(tuple(jobs[job] for job in of_places[start:end]))
    for name, sets in found.items():
        covers[name][index] = tuple(dict.fromkeys(sets))
    for row in is_crowded.nonzero()[0].tolist():
        ways = crowded[table.names[row]].get(index, ())
        crowded[table.names[row]][index] = (*ways, _wants(table, row, jobs))


def _wants(table: ChoiceTable, row: int, jobs: list[str]) -> Wants:
    """What is missing on a node of a table, and which jobs free it."""
    here = slice(int(table.first_place[row]), int(table.first_place[row + 1]))
    places: list[int] = table.place_job[here].tolist()
    names = [jobs[job] for job in places]
    needs: list[int] = table.need[row].tolist()
    of_resources: list[list[int]] = table.gives[here].T.tolist()
    found: list[tuple[int, tuple[tuple[str, int], ...]]] = []
    for missing, amounts in zip(needs, of_resources, strict=True):
        if missing:
            gives = zip(names, amounts, strict=True)
            found.append((missing, tuple((job, amount) for job, amount in gives if amount)))
    return tuple(found)
