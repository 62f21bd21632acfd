"""A good choice, fast: the cheapest node first, one after another; then every node in turn is given up for a
better one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from makeway.policies.choice.covers import Covers
from makeway.policies.choice.prices import CostObjective
from makeway.policies.choice.table import Flags, Integers

_PASSES = 10
"""How often at most all nodes are given up in turn."""
_NEVER = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A choice: covers of different nodes, and the jobs that leave, each in the best way."""

    cost: int
    nodes: tuple[int, ...]
    """Ascending."""
    jobs: tuple[int, ...]
    """All jobs that leave, ascending."""
    serial: frozenset[int]
    """Those of them that use serial steps."""


def near(covers: Covers, chosen: Sequence[int], objective: CostObjective) -> Found:
    """The choice of these covers, or a better one that is found from it by giving up a node at a time."""
    best = choice_of(covers, chosen, objective)
    if objective.timed:
        # The jobs that have their turn keep it; for others it would be over the budget.
        prices = objective.plain.copy()
        turns = sorted(best.serial)
        prices[turns] = objective.serial[turns]
        chosen = search(covers, prices, len(chosen), chosen)
        best = min(best, choice_of(covers, chosen, objective), key=_cost)
    return best


def _cost(choice: Found) -> int:
    return choice.cost


def search(covers: Covers, prices: Integers, count: int, start: Sequence[int] = ()) -> list[int]:
    """Covers of `count` nodes that cost little together, each job once.

    Args:
        covers: of at least `count` nodes.
        prices: of all jobs.
        count: how many nodes are to be chosen.
        start: the covers to begin with, of different nodes; no more than `count`.
    """
    local = _LocalSearch(covers, prices)
    for cover in start:
        local.take(cover)
    while len(local.chosen) < count:
        local.take(local.cheapest()[0])
    for _ in range(_PASSES):
        if not local.improve():
            break
    return local.chosen


class _LocalSearch:
    """Some covers of different nodes, and how many of them each job is in."""

    def __init__(self, covers: Covers, prices: Integers) -> None:
        self.covers = covers
        self.prices = prices
        self.uses = np.zeros(len(prices), dtype=np.int64)
        self.taken: Flags = np.zeros(len(covers.node), dtype=np.bool_)
        self.chosen: list[int] = []
        self.begin = covers.spread(covers.first)
        self.end = covers.spread(covers.first + covers.count)

    def take(self, cover: int) -> None:
        """Choose a cover of a node that is not chosen."""
        self.chosen.append(cover)
        self.taken[self.begin[cover] : self.end[cover]] = True
        self.uses[self.covers.jobs_of(cover)] += 1

    def give_up(self) -> int:
        """The cover that was taken first, which is so no longer."""
        cover = self.chosen.pop(0)
        self.taken[self.begin[cover] : self.end[cover]] = False
        self.uses[self.covers.jobs_of(cover)] -= 1
        return cover

    def cheapest(self) -> tuple[int, Integers]:
        """The cover that costs the least more, and what each cover costs more."""
        costs = self.covers.costs_by_job(np.where(self.uses > 0, 0, self.prices))
        return int(np.where(self.taken, _NEVER, costs).argmin()), costs

    def improve(self) -> bool:
        """Replace each cover in turn by a cheaper one, of its own node or of one that is not chosen. Whether
        there was any.
        """
        better = False
        for _ in range(len(self.chosen)):
            old = self.give_up()
            new, costs = self.cheapest()
            if costs[new] < costs[old]:
                better = True
            else:
                new = old
            self.take(new)
        return better


def choice_of(covers: Covers, chosen: Sequence[int], objective: CostObjective) -> Found:
    """The choice that takes these covers, with the best ways for their jobs."""
    jobs = np.unique(np.concatenate([covers.jobs_of(cover) for cover in chosen]))
    return choice_of_jobs([int(covers.node[cover]) for cover in chosen], jobs, objective)


def choice_of_jobs(nodes: Sequence[int], jobs: Integers, objective: CostObjective) -> Found:
    """The choice of these nodes from which these jobs leave, each in the best way. `jobs`: ascending."""
    serial = _in_turn(jobs, objective)
    turns = sorted(serial)
    saved = int((objective.plain[turns] - objective.serial[turns]).sum())
    return Found(
        cost=int(objective.plain[jobs].sum()) - saved,
        nodes=tuple(sorted(nodes)),
        jobs=tuple(jobs.tolist()),
        serial=serial,
    )


def _in_turn(jobs: Integers, objective: CostObjective) -> frozenset[int]:
    """Which of the jobs use serial steps, so that they cost the least together: a knapsack."""
    able = [job for job in jobs.tolist() if objective.steps[job]]
    steps = [int(objective.steps[job]) for job in able]
    if sum(steps) <= objective.budget_steps:
        return frozenset(able)
    saved = np.zeros(objective.budget_steps + 1, dtype=np.int64)
    better: list[Flags] = []
    for job, duration in zip(able, steps, strict=True):
        with_it = saved[:-duration] + (objective.plain[job] - objective.serial[job])
        better.append(with_it > saved[duration:])
        saved[duration:] = np.maximum(saved[duration:], with_it)
    left = objective.budget_steps
    chosen: set[int] = set()
    for job, duration, gain in zip(reversed(able), reversed(steps), reversed(better), strict=True):
        if duration <= left and gain[left - duration]:
            chosen.add(job)
            left -= duration
    return frozenset(chosen)
