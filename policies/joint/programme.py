"""The joint choice as an integer programme: its columns and rows.

Columns: each way in which each job leaves; the covers of each kind of nodes, or how many nodes a component
gets of it. Rows: each component has its nodes, no kind gives more than it has, the jobs of the covers taken
leave, a job leaves in one way, and the serial steps keep within the budget.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from makeway.policies.choice.instance import WayToLeave
from makeway.policies.joint.instance import JointChoice, JointInstance, JointJob
from makeway.policies.joint.kinds import NodeKind, Wants

UNBOUNDED = 1e30
_HALF = 0.5
_Cell = tuple[int, float]
"""A column and its value."""


@dataclass(slots=True)
class JointProgramme:
    """min `costs` x, `lower` <= A x <= `upper`, 0 <= x <= `most`, x whole; A by row."""

    costs: list[int] = field(default_factory=list[int])
    most: list[int] = field(default_factory=list[int])
    lower: list[float] = field(default_factory=list[float])
    upper: list[float] = field(default_factory=list[float])
    begins: list[int] = field(default_factory=list[int])
    columns: list[int] = field(default_factory=list[int])
    values: list[float] = field(default_factory=list[float])

    def column(self, cost: int = 0, most: int = 1) -> int:
        """A new column."""
        self.costs.append(cost)
        self.most.append(most)
        return len(self.costs) - 1

    def row(self, cells: Iterable[_Cell], upper: float, lower: float = -UNBOUNDED) -> None:
        """A new row. `cells`: those that are not 0, each column once."""
        self.begins.append(len(self.columns))
        for column, value in cells:
            self.columns.append(column)
            self.values.append(value)
        self.lower.append(lower)
        self.upper.append(upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointLayout:
    """Which columns mean what."""

    kinds: tuple[NodeKind, ...]
    leaving: Mapping[str, tuple[tuple[int, WayToLeave], ...]]
    """By job: a column for each of its ways."""
    given: Mapping[tuple[int, int], tuple[int, ...]]
    """By kind and component: the columns whose sum is how many of the nodes it gets."""
    covers: Mapping[int, tuple[int, int, int]]
    """Of the columns of covers: the kind, the component and the number of the cover."""

    def choice(self, values: Sequence[float]) -> JointChoice:
        """The choice that a solution means."""
        count = 1 + max(index for _, index in self.given)
        nodes: list[list[str]] = [[] for _ in range(count)]
        taken = defaultdict[int, int](int)
        for (number, index), columns in sorted(self.given.items()):
            first = taken[number]
            taken[number] += sum(round(values[column]) for column in columns)
            nodes[index] += self.kinds[number].names[first : taken[number]]
        leaving = {
            job_id: way
            for job_id, ways in self.leaving.items()
            for column, way in ways
            if values[column] > _HALF
        }
        return JointChoice(nodes=tuple(tuple(sorted(names)) for names in nodes), leaving=leaving)


def programme_of(instance: JointInstance, kinds: Sequence[NodeKind]) -> tuple[JointProgramme, JointLayout]:
    """The programme of the choices of some kinds of nodes."""
    programme, useful = JointProgramme(), frozenset[str]().union(*(kind.jobs() for kind in kinds))
    jobs = sorted((job for job in instance.jobs if job.job_id in useful), key=lambda job: job.job_id)
    leaving = {
        job.job_id: tuple(
            (programme.column(way.loss_node_s), way) for way in _ways(job, instance.budget_steps)
        )
        for job in jobs
    }
    for ways in leaving.values():
        if len(ways) > 1:
            programme.row(((column, 1.0) for column, _ in ways), 1.0)
    timed = ((column, float(way.serial_steps)) for ways in leaving.values() for column, way in ways)
    programme.row((cell for cell in timed if cell[1]), float(instance.budget_steps))
    filling = _Filling(
        programme, {job_id: [column for column, _ in ways] for job_id, ways in leaving.items()}
    )
    for number, kind in enumerate(kinds):
        counts = [component.node_count for component in instance.components]
        filling.add(number, kind, counts)
    for index, component in enumerate(instance.components):
        count = float(component.node_count)
        given = (column for (_, one), columns in filling.given.items() if one == index for column in columns)
        programme.row(((column, 1.0) for column in given), count, count)
    layout = JointLayout(kinds=tuple(kinds), leaving=leaving, given=filling.given, covers=filling.covers)
    return programme, layout


def cell_count(kinds: Iterable[NodeKind]) -> int:
    """About how many entries the programme of some kinds has."""
    listed, crowded = 0, 0
    for kind in kinds:
        listed += sum(2 * len(covers) + sum(map(len, covers)) for covers in kind.covers.values())
        crowded += sum(len(gives) for ways in kind.crowded.values() for wants in ways for _, gives in wants)
    return listed + crowded


def _ways(job: JointJob, budget_steps: int) -> list[WayToLeave]:
    """The ways of a job that are cheaper than all shorter ones."""
    found: list[WayToLeave] = []
    for way in sorted(job.ways, key=lambda way: (way.serial_steps, way.loss_node_s, way.checkpoint_steps)):
        if way.serial_steps <= budget_steps and all(way.loss_node_s < one.loss_node_s for one in found):
            found.append(way)
    return found


class _Filling:
    """The columns and rows of the kinds of nodes."""

    def __init__(self, programme: JointProgramme, leaving: Mapping[str, Sequence[int]]) -> None:
        self.programme = programme
        self.leaving = leaving
        self.given: dict[tuple[int, int], tuple[int, ...]] = {}
        self.covers: dict[int, tuple[int, int, int]] = {}

    def add(self, number: int, kind: NodeKind, counts: Sequence[int]) -> None:
        """The columns and rows of one kind. `counts`: how many nodes each component needs."""
        wanting = defaultdict[str, list[int]](list)
        for index in kind.components:
            covers, crowded = kind.covers.get(index, ()), kind.crowded.get(index, ())
            most = min(kind.size, counts[index])
            if () in covers:
                self.given[number, index] = (self.programme.column(0, most),)
                continue
            served: list[int] = []
            for place, cover in enumerate(covers):
                column = self.programme.column()
                self.covers[column] = number, index, place
                served.append(column)
                for job_id in cover:
                    wanting[job_id].append(column)
            for wants in crowded:
                served.append(self.programme.column())
                self.free(served[-1], wants)
            self.give(number, index, served, most)
        self.tie(kind, wanting)
        if len(kind.components) > 1:
            given = [column for index in kind.components for column in self.given[number, index]]
            self.programme.row(((column, 1.0) for column in given), float(kind.size))

    def give(self, number: int, index: int, served: list[int], most: int) -> None:
        """As many nodes of a kind as a component gets, if one of the columns says that they serve it."""
        if most == 1:
            self.given[number, index] = tuple(served)
        else:
            count = self.programme.column(0, most)
            self.given[number, index] = (count,)
            self.programme.row([(count, 1.0), *((column, -float(most)) for column in served)], 0.0)
        if len(served) > 1:
            self.programme.row(((column, 1.0) for column in served), 1.0)

    def tie(self, kind: NodeKind, wanting: Mapping[str, Sequence[int]]) -> None:
        """A job of a cover that is taken leaves. `wanting`: by job, the covers with it."""
        for job_id, columns in wanting.items():
            leaves = [(column, -1.0) for column in self.leaving[job_id]]
            # A single node has one cover in all, one of several nodes one for each component.
            groups = [columns]
            if kind.size > 1:
                by_component = defaultdict[int, list[int]](list)
                for column in columns:
                    by_component[self.covers[column][1]].append(column)
                groups = [*by_component.values()]
            for group in groups:
                self.programme.row([*((column, 1.0) for column in group), *leaves], 0.0)

    def free(self, served: int, wants: Wants) -> None:
        """A crowded node serves in one way once enough jobs have left."""
        for missing, gives in wants:
            freed = ((column, -float(amount)) for job_id, amount in gives for column in self.leaving[job_id])
            self.programme.row([(served, float(missing)), *freed], 0.0)
