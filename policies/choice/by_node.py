"""The best choice where no job is on two of the nodes that are left: node by node, exact.

Each node is then a problem of its own, and the nodes share the serial steps alone. With

- h(i, s, b): the least cost at which jobs i, i + 1, ... of a node free what is missing there, if s is freed
  already and they use at most b serial steps,
- F(k, b): the least cost of k of the nodes looked at so far in at most b serial steps,

    h(i, s, b) = min(h(i + 1, s, b), plain_i + h(i + 1, s + gives_i, b),
                     serial_i + h(i + 1, s + gives_i, b - steps_i))
    F(k, b) = min(F(k, b), min over c of F(k - 1, b - c) + h_n(0, 0, c)) for one node n after another.

Reference: Bellman, "Dynamic Programming" (1957): the recursion of a knapsack.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

import numpy as np

from makeway.policies.choice.bounds import Space
from makeway.policies.choice.prices import CostObjective
from makeway.policies.choice.search import Found, choice_of_jobs
from makeway.policies.choice.table import ChoiceTable, Flags, Integers

MOST_CELLS = 250_000_000
"""How many values of h and F are worked out at most: what bounds the time, to about two seconds."""
_CELLS_OF_JOB, _CELLS_OF_STATE, _CELLS_OF_TURN = 3_500, 5, 1_500
"""As how many values these count, by their time: a job of a shape, such a job with each state of the shape,
and a number of steps in which a node gets cheaper."""
_TRIED = 16
"""After so many shapes, the others are expected to count as much each."""
_AT_ONCE = 2_000_000
"""How many values of h are worked out at once, if they are of several nodes: what bounds the memory."""
_MOST_STATES = 2_000
"""How many different amounts may be freed on a node."""
_NEVER = 1 << 62
"""The cost of what is impossible: no sum of costs reaches it."""


def best_by_node(space: Space, objective: CostObjective, most_cells: int = MOST_CELLS) -> Found | None:
    """The choice of least cost among the nodes of a space.

    None: a job is on two of them, it would take too long, or there is no choice.
    """
    table = space.table
    inside = np.flatnonzero(np.isin(table.host, space.covers.nodes))
    places = np.flatnonzero(np.isin(table.place_node, inside))
    hosts = np.unique(np.stack([table.place_job[places], table.host[table.place_node[places]]]), axis=1)
    if len(np.unique(hosts[0])) < hosts.shape[1]:
        return None
    width = objective.budget_steps + 1 if objective.timed else 1
    least = _least_of_each(table, objective, inside.tolist(), (space.count, width), most_cells)
    taken = None if least is None else _taken(table, inside.tolist(), least, space.count, width)
    if taken is None:
        return None
    jobs = [job for node, steps in taken for job in _leaving(table, objective, node, steps, width)]
    return choice_of_jobs([int(table.host[node]) for node, _ in taken], np.array(sorted(jobs)), objective)


def _least_of_each(
    table: ChoiceTable, objective: CostObjective, nodes: Sequence[int], size: tuple[int, int], most_cells: int
) -> dict[int, Integers] | None:
    """For each of the nodes its least cost in each number of serial steps. None: that, and the choice among
    them, would take too long. `size`: how many nodes are needed, and how many numbers of steps there are.
    """
    count, width = size
    cells = 4 * len(nodes) * (count + 1) * width
    alike: dict[_Shape, list[int]] = {}
    for node in nodes:
        alike.setdefault(_shape(table, node), []).append(node)
    least: dict[int, Integers] = {}
    for tried, (shape, same) in enumerate(alike.items()):
        if tried == _TRIED and cells // tried * len(alike) > 2 * most_cells:
            return None
        states = _states(shape) if cells <= most_cells else None
        if states is None:
            return None
        values = len(states.freed) * width
        cells += len(shape.gives) * (_CELLS_OF_JOB + len(states.freed) * _CELLS_OF_STATE + len(same) * values)
        if cells > most_cells:
            return None
        at_once = max(1, _AT_ONCE // values)
        for begin in range(0, len(same), at_once):
            some = same[begin : begin + at_once]
            layer = _layers(table, objective, some, (shape, states), width, keep=False)[0]
            least.update(zip(some, layer[:, 0].copy(), strict=True))
    turns = sum(int(np.count_nonzero(_better(costs))) for costs in least.values())
    return least if cells + turns * (_CELLS_OF_TURN + (count + 1) * width) <= most_cells else None


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is missing on a node, and what each of its jobs frees: the largest first."""

    need: tuple[int, ...]
    gives: tuple[tuple[int, ...], ...]


def _shape(table: ChoiceTable, node: int) -> _Shape:
    rows: list[list[int]] = table.gives[_places(table, node)].tolist()
    return _Shape(tuple(table.need[node].tolist()), tuple(map(tuple, rows)))


def _places(table: ChoiceTable, node: int) -> Integers:
    """The places of a node, those that free the most first."""
    here = np.arange(int(table.first_place[node]), int(table.first_place[node + 1]))
    return here[np.lexsort((*-table.gives[here].T,))]


@dataclass(frozen=True, slots=True, eq=False)
class _States:
    """The different amounts that may have been freed on the nodes of a shape, as far as they are missing."""

    freed: Integers
    """(states, resources): nothing is the first one, all that is missing the last."""
    after: Mapping[tuple[int, ...], Integers]
    """By what a job frees: which state each one becomes. One that the jobs before it do not lead to becomes
    any."""


def _states(shape: _Shape) -> _States | None:
    """None: too many different amounts."""
    # Each amount as one number, in the order of the first resource, then the second one, and so on.
    sizes = [most + 1 for most in reversed(shape.need)]
    if math.prod(sizes) >= _NEVER:
        return None
    need = np.array(shape.need, dtype=np.int64)
    worth = np.array([*accumulate([1, *sizes[:-1]], mul)][::-1], dtype=np.int64)
    freed = np.zeros((1, len(need)), dtype=np.int64)
    for gives in shape.gives:
        both = np.concatenate([freed, np.minimum(freed + np.array(gives), need)])
        freed = both[np.unique(both @ worth, return_index=True)[1]]
        if len(freed) > _MOST_STATES:
            return None
    numbers = freed @ worth
    after = {
        gives: np.minimum(
            np.searchsorted(numbers, np.minimum(freed + np.array(gives), need) @ worth), len(freed) - 1
        )
        for gives in set(shape.gives)
    }
    return _States(freed, after)


def _layers(
    table: ChoiceTable,
    objective: CostObjective,
    nodes: Sequence[int],
    known: tuple[_Shape, _States],
    width: int,
    *,
    keep: bool,
) -> list[Integers]:
    """h of some nodes of the same shape: for each job, then after the last one, an array (nodes, states,
    steps). Without `keep`: that of the first job alone.
    """
    shape, states = known
    jobs = table.place_job[np.stack([_places(table, node) for node in nodes])]
    layer = np.full((len(nodes), len(states.freed), width), _NEVER, dtype=np.int64)
    layer[:, -1] = 0
    layers = [layer]
    for place in reversed(range(len(shape.gives))):
        job = jobs[:, place]
        left = layer[:, states.after[shape.gives[place]]]
        layer = np.minimum(layer, left + objective.plain[job][:, None, None])
        serial, steps = objective.serial[job], objective.steps[job]
        for duration in set(steps.tolist()) - {0} if width > 1 else ():
            if duration < width:
                which = np.flatnonzero(steps == duration)
                in_turn = left[which][:, :, : width - duration] + serial[which][:, None, None]
                layer[which, :, duration:] = np.minimum(layer[which, :, duration:], in_turn)
        layers = [layer, *layers] if keep else [layer]
    return layers


def _better(costs: Integers) -> Flags:
    """In which numbers of steps a node costs less than in one step fewer."""
    better: Flags = costs < np.concatenate([[_NEVER], costs[:-1]])
    return better


def _taken(
    table: ChoiceTable, nodes: Sequence[int], least: dict[int, Integers], count: int, width: int
) -> list[tuple[int, int]] | None:
    """The nodes that are taken, and how many serial steps each may use. None: there are too few."""
    costs = np.full((count + 1, width), _NEVER, dtype=np.int64)
    costs[0] = 0
    # What takes most memory: up to 60 million numbers of steps.
    small = width <= np.iinfo(np.int16).max
    chosen = np.full((len(nodes), count + 1, width), -1, dtype=np.int16 if small else np.int32)
    before, host = costs, -1
    for number, node in enumerate(nodes):
        if host != table.host[node]:  # of several ways in which a node can serve, one at most is taken
            before, host = costs, table.host[node]
        costs = costs.copy()
        of_node = least[node]
        for steps in np.flatnonzero(_better(of_node)).tolist():
            with_it = before[:-1, : width - steps] + of_node[steps]
            cheaper = with_it < costs[1:, steps:]
            costs[1:, steps:][cheaper] = with_it[cheaper]
            chosen[number, 1:, steps:][cheaper] = steps
    if costs[count, width - 1] >= _NEVER:
        return None
    found: list[tuple[int, int]] = []
    left, host = width - 1, -1
    for number in reversed(range(len(nodes))):
        steps = int(chosen[number, count - len(found), left])
        if steps >= 0 and host != table.host[nodes[number]]:
            found.append((nodes[number], steps))
            left, host = left - steps, table.host[nodes[number]]
    return found


def _leaving(table: ChoiceTable, objective: CostObjective, node: int, budget: int, width: int) -> list[int]:
    """The jobs that leave a node at its least cost in so many serial steps."""
    shape = _shape(table, node)
    states = _states(shape)
    assert states is not None  # it was looked at before
    layers = [layer[0] for layer in _layers(table, objective, [node], (shape, states), width, keep=True)]
    state, left, found = 0, budget, list[int]()
    for number, job in enumerate(table.place_job[_places(table, node)].tolist()):
        cost, later = int(layers[number][state, left]), layers[number + 1]
        if cost < later[state, left]:
            found.append(job)
            state = int(states.after[shape.gives[number]][state])
            if cost != objective.plain[job] + later[state, left]:
                left -= int(objective.steps[job])
    return found
