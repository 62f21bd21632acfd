"""The choices that the bounds leave over, as an integer programme: its columns and rows.

On each of K nodes one cover is taken; a job leaves if a cover with it is taken; the serial steps keep within
the budget. On a crowded node jobs leave one by one until there is enough of every resource; what a job on
more than K nodes frees there counts if the node is taken. All other nodes have their resources in their
covers, which makes the relaxed programme integral nearly always.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from makeway.policies.choice.bounds import Space
from makeway.policies.choice.covers import Covers
from makeway.policies.choice.prices import CostObjective
from makeway.policies.choice.table import Integers, Reals

_UNBOUNDED = 1e30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Programme:
    """min `costs` x, `lower` <= A x <= `upper`, 0 <= x <= 1; A by column."""

    costs: Reals
    """In node-seconds, or whatever the scale of the objective means."""
    lower: Reals
    upper: Reals
    begins: Integers
    """Where the entries of each column begin, and their end."""
    rows: Integers
    values: Reals
    layout: "Layout"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Which columns and rows mean what.

    Columns: the covers, the crowded nodes, the places there of jobs on more nodes than are chosen, the jobs
    by their plain way, the jobs by their serial way. Rows: how many nodes, each node with covers, the places
    of linked jobs, the jobs on more nodes than are chosen, the resources of crowded nodes, the jobs there
    that have both ways, the places there with columns, the budget.
    """

    numbers: Integers
    """The covers of the space that are columns: those of nodes that are not crowded."""
    covers: Covers | None
    """The same as covers. None: all nodes are crowded."""
    crowded: Integers
    """The crowded nodes."""
    linked: Integers
    """The jobs with columns of their own: on several nodes, on a crowded node, or with a serial way."""
    timed: Integers
    """Those with a serial way."""
    wide: Integers
    """Those with places on more nodes than are chosen."""
    split: Integers
    """The places on crowded nodes of jobs on more nodes than are chosen."""
    places: Integers
    """The places of linked jobs in covers, and those of `split`."""
    wants: Integers
    """(rows, 2): crowded node and resource."""
    single: Integers
    """The jobs on crowded nodes with both ways, of which they take at most one."""

    @property
    def first_crowded(self) -> int:
        """The first column of a crowded node."""
        return len(self.numbers)

    @property
    def first_split(self) -> int:
        """The first column of a place on a crowded node."""
        return self.first_crowded + len(self.crowded)

    @property
    def first_plain(self) -> int:
        """The first column of a job by its plain way."""
        return self.first_split + len(self.split)

    @property
    def first_serial(self) -> int:
        """The first column of a job by its serial way."""
        return self.first_plain + len(self.linked)

    @property
    def first_place(self) -> int:
        """The first row of a place."""
        return 1 + (0 if self.covers is None else len(self.covers.nodes))

    @property
    def first_wide(self) -> int:
        """The first row of a job on more nodes than are chosen."""
        return self.first_place + len(self.places)

    @property
    def first_want(self) -> int:
        """The first row of a resource of a crowded node."""
        return self.first_wide + len(self.wide)

    @property
    def first_single(self) -> int:
        """The first row of a job on a crowded node with both ways."""
        return self.first_want + len(self.wants)

    @property
    def first_split_row(self) -> int:
        """The first row of a place with a column."""
        return self.first_single + len(self.single)

    @property
    def rows(self) -> int:
        """How many rows there are; the last one is the budget, if jobs have serial ways."""
        return self.first_split_row + len(self.split) + bool(len(self.timed))


def programme_of(space: Space, objective: CostObjective) -> Programme:
    """The programme of the choices of a space."""
    layout = _layout(space, objective)
    own = np.zeros(layout.first_plain, dtype=np.int64)
    if layout.covers is not None:
        free = objective.plain.copy()
        free[layout.linked] = 0
        own[: layout.first_crowded] = layout.covers.costs_by_job(free)
    costs = (own, objective.plain[layout.linked], objective.serial[layout.timed])
    lower = np.full(layout.rows, -_UNBOUNDED)
    upper = np.zeros(layout.rows)
    lower[0] = upper[0] = space.count
    upper[1 : layout.first_place] = 1.0
    if len(layout.timed):
        upper[-1] = objective.budget_steps
    upper[layout.first_single : layout.first_single + len(layout.single)] = 1.0
    rows, columns, values = _entries(space, layout, objective)
    order = np.lexsort((rows, columns))
    width = layout.first_serial + len(layout.timed)
    return Programme(
        costs=np.concatenate(costs) / objective.scale,
        lower=lower,
        upper=upper,
        begins=np.searchsorted(columns[order], np.arange(width + 1)),
        rows=rows[order],
        values=values[order],
        layout=layout,
    )


def _layout(space: Space, objective: CostObjective) -> Layout:
    table = space.table
    numbers = np.flatnonzero(~space.crowded[space.covers.node])
    covers = space.covers.only(~space.crowded[space.covers.node]) if len(numbers) else None
    places = np.unique(covers.places) if covers is not None else np.zeros(0, dtype=np.int64)
    jobs = table.place_job[places]
    crowded = space.covers.nodes[space.crowded[space.covers.nodes]]
    there = np.flatnonzero(np.isin(table.place_node, crowded))
    nodes_of_jobs = np.bincount(table.place_job[np.append(places, there)], minlength=len(table.jobs))
    split = there[nodes_of_jobs[table.place_job[there]] > space.count]
    in_crowded = np.zeros(len(table.jobs), dtype=np.bool_)
    in_crowded[table.place_job[there]] = True
    is_linked = in_crowded | (nodes_of_jobs > 1) | ((objective.steps > 0) & (nodes_of_jobs > 0))
    linked = np.flatnonzero(is_linked)
    wants = np.argwhere(table.need[crowded] > 0)
    wants[:, 0] = crowded[wants[:, 0]]
    return Layout(
        numbers=numbers,
        covers=covers,
        crowded=crowded,
        linked=linked,
        timed=linked[objective.steps[linked] > 0],
        wide=np.flatnonzero(nodes_of_jobs > space.count),
        split=split,
        places=np.append(places[is_linked[jobs]], split),
        wants=wants,
        single=np.flatnonzero(in_crowded & (objective.steps > 0)),
    )


_Entries = tuple[Integers, Integers, Reals]
"""Rows, columns and values of a part of the matrix."""


def _entries(space: Space, layout: Layout, objective: CostObjective) -> _Entries:
    """All entries of the matrix."""
    size = len(objective.plain)
    plain = _index(layout.linked, size, layout.first_plain)
    serial = _index(layout.timed, size, layout.first_serial)
    jobs = space.table.place_job[layout.places]
    place_row = _index(layout.places, len(space.table.place_node), layout.first_place)
    wide_row = _index(layout.wide, size, layout.first_wide)
    parts = [
        _crowded_entries(space, layout, (plain, serial)),
        *_split_entries(space, layout, place_row, wide_row),
    ]
    if layout.covers is not None:
        parts.append(_cover_entries(layout.covers, place_row, wide_row))
    for column in (plain, serial):
        rows = np.flatnonzero(column[jobs] >= 0)
        parts.append(_entries_of(layout.first_place + rows, column[jobs[rows]], -1.0))
        rows = np.flatnonzero(column[layout.wide] >= 0)
        parts.append(_entries_of(layout.first_wide + rows, column[layout.wide[rows]], -float(space.count)))
        rows = layout.first_single + np.arange(len(layout.single))
        parts.append(_entries_of(rows, column[layout.single], 1.0))
    budget = np.full(len(layout.timed), layout.rows - 1, dtype=np.int64)
    parts.append((budget, serial[layout.timed], objective.steps[layout.timed].astype(np.float64)))
    return _joined(parts)


def _cover_entries(covers: Covers, place_row: Integers, wide_row: Integers) -> _Entries:
    """The columns of the covers: how many nodes, their node, their places, their jobs on many nodes."""
    numbers = np.arange(len(covers.node))
    in_place, in_wide = place_row[covers.places], wide_row[covers.jobs]
    cover = np.repeat(numbers, covers.size)
    rows = (
        np.zeros_like(numbers),
        1 + np.searchsorted(covers.nodes, covers.node),
        in_place[in_place >= 0],
        in_wide[in_wide >= 0],
    )
    columns = (numbers, numbers, cover[in_place >= 0], cover[in_wide >= 0])
    return _entries_of(np.concatenate(rows), np.concatenate(columns), 1.0)


def _split_entries(
    space: Space, layout: Layout, place_row: Integers, wide_row: Integers
) -> tuple[_Entries, ...]:
    """The columns of the crowded nodes, and of the places there of jobs on more nodes than are chosen: such a
    place counts if its job leaves and its node is taken.
    """
    table = space.table
    node_column = _index(layout.crowded, len(table.names), layout.first_crowded)
    column = layout.first_split + np.arange(len(layout.split))
    tied = layout.first_split_row + np.arange(len(layout.split))
    in_wide = wide_row[table.place_job[layout.split]]
    wants = layout.first_want + np.arange(len(layout.wants))
    crowded = node_column[layout.crowded]
    return (
        _entries_of(np.zeros_like(crowded), crowded, 1.0),
        _entries_of(wants, node_column[layout.wants[:, 0]], 1.0),
        _entries_of(place_row[layout.split], column, 1.0),
        _entries_of(in_wide[in_wide >= 0], column[in_wide >= 0], 1.0),
        _entries_of(tied, column, 1.0),
        _entries_of(tied, node_column[table.place_node[layout.split]], -1.0),
    )


def _crowded_entries(space: Space, layout: Layout, of_jobs: tuple[Integers, Integers]) -> _Entries:
    """What the jobs free on crowded nodes, as parts of what is missing there."""
    table = space.table
    row_of = np.full((len(table.names), table.need.shape[1]), -1, dtype=np.int64)
    row_of[layout.wants[:, 0], layout.wants[:, 1]] = layout.first_want + np.arange(len(layout.wants))
    split = _index(layout.split, len(table.place_node), layout.first_split)
    places, resources = np.nonzero((row_of[table.place_node] >= 0) & (table.gives > 0))
    rows = row_of[table.place_node[places], resources]
    parts: Reals = -table.gives[places, resources] / table.need[table.place_node[places], resources]
    found: list[_Entries] = []
    for column in (split, *(np.where(split < 0, by_job[table.place_job], -1) for by_job in of_jobs)):
        columns = column[places]
        found.append((rows[columns >= 0], columns[columns >= 0], parts[columns >= 0]))
    return _joined(found)


def _joined(parts: Sequence[_Entries]) -> _Entries:
    return (
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


def _entries_of(rows: Integers, columns: Integers, value: float) -> _Entries:
    return rows, columns, np.full(len(rows), value)


def _index(members: Integers, size: int, first: int) -> Integers:
    """By the number of a thing: its row or column, or -1."""
    index = np.full(size, -1, dtype=np.int64)
    index[members] = first + np.arange(len(members))
    return index
