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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from makeway.policies.choice.bounds import Space
from makeway.policies.choice.prices import CostObjective
from makeway.policies.choice.search import Found, choice_of_jobs
from makeway.policies.choice.table import ChoiceTable, Integers

MOST_CELLS = 30_000_000
"""How many values of h and F are worked out at most: what bounds the time, to about a second."""
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
    cells = len(space.covers.nodes) * (space.count + 1) * width * min(width, 64)
    alike: dict[_Shape, list[int]] = {}
    for node in inside.tolist():
        alike.setdefault(_shape(table, node), []).append(node)
    least: dict[int, Integers] = {}
    for shape, nodes in alike.items():
        states = _states(shape)
        cells += 0 if states is None else len(nodes) * len(shape.gives) * len(states) * width
        if states is None or cells > most_cells:
            return None
        layer = _layers(table, objective, nodes, (shape, states), width, keep=False)[0]
        least.update(zip(nodes, layer[:, 0], strict=True))
    taken = _taken(table, inside.tolist(), least, space.count, width)
    if taken is None:
        return None
    jobs = [job for node, steps in taken for job in _leaving(table, objective, node, steps, width)]
    return choice_of_jobs([int(table.host[node]) for node, _ in taken], np.array(sorted(jobs)), objective)


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


def _states(shape: _Shape) -> dict[tuple[int, ...], int] | None:
    """What may have been freed, as far as it is missing, each amount with its number; nothing is the first.
    None: too many different amounts.
    """
    states = {(0,) * len(shape.need): 0}
    for gives in shape.gives:
        for freed in tuple(states):
            states.setdefault(_freed(freed, gives, shape.need), len(states))
        if len(states) > _MOST_STATES:
            return None
    return states


def _freed(freed: Sequence[int], gives: Sequence[int], need: Sequence[int]) -> tuple[int, ...]:
    return tuple([min(one + more, most) for one, more, most in zip(freed, gives, need, strict=True)])


def _layers(
    table: ChoiceTable,
    objective: CostObjective,
    nodes: Sequence[int],
    known: tuple[_Shape, dict[tuple[int, ...], int]],
    width: int,
    *,
    keep: bool,
) -> list[Integers]:
    """h of some nodes of the same shape: for each job, then after the last one, an array (nodes, states,
    steps). Without `keep`: that of the first job alone.
    """
    shape, states = known
    jobs = table.place_job[np.stack([_places(table, node) for node in nodes])]
    layer = np.full((len(nodes), len(states), width), _NEVER, dtype=np.int64)
    layer[:, states[shape.need]] = 0
    layers = [layer]
    after = {
        gives: np.array([states.get(_freed(freed, gives, shape.need), 0) for freed in states])
        for gives in set(shape.gives)
    }
    for place in reversed(range(len(shape.gives))):
        job = jobs[:, place]
        left = layer[:, after[shape.gives[place]]]
        layer = np.minimum(layer, left + objective.plain[job][:, None, None])
        serial, steps = objective.serial[job], objective.steps[job]
        for duration in set(steps.tolist()) - {0} if width > 1 else ():
            if duration < width:
                which = np.flatnonzero(steps == duration)
                in_turn = left[which][:, :, : width - duration] + serial[which][:, None, None]
                layer[which, :, duration:] = np.minimum(layer[which, :, duration:], in_turn)
        layers = [layer, *layers] if keep else [layer]
    return layers


def _taken(
    table: ChoiceTable, nodes: Sequence[int], least: dict[int, Integers], count: int, width: int
) -> list[tuple[int, int]] | None:
    """The nodes that are taken, and how many serial steps each may use. None: there are too few."""
    costs = np.full((count + 1, width), _NEVER, dtype=np.int64)
    costs[0] = 0
    chosen = np.full((len(nodes), count + 1, width), -1, dtype=np.int32)
    before, host = costs, -1
    for number, node in enumerate(nodes):
        if host != table.host[node]:  # of several ways in which a node can serve, one at most is taken
            before, host = costs, table.host[node]
        costs = costs.copy()
        of_node = least[node]
        better = of_node < np.concatenate([[_NEVER], of_node[:-1]])
        for steps in np.flatnonzero(better).tolist():
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
    freed, left, found = (0,) * len(shape.need), budget, list[int]()
    for number, job in enumerate(table.place_job[_places(table, node)].tolist()):
        cost, later = int(layers[number][states[freed], left]), layers[number + 1]
        if cost < later[states[freed], left]:
            found.append(job)
            freed = _freed(freed, shape.gives[number], shape.need)
            if cost != objective.plain[job] + later[states[freed], left]:
                left -= int(objective.steps[job])
    return found
