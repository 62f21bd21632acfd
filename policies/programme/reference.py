"""Two other solutions of the eviction problem: the paper's greedy, and backtracking, which is exact and
exponential.

They are kept because makeway reproduces the paper's comparison, and because the tests of the exact programme
compare it with backtracking.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section IV-C.

Differs from the paper:
    Greedy: the paper does not say when checkpointing ends; here it ends at the first job that no longer fits,
    or when enough nodes are freed. Backtracking also abandons combinations that cannot free enough nodes or
    end in time, and breaks ties as the exact programme does.
"""

import math
from collections.abc import Iterator, Sequence

from makeway.policies.model import Method
from makeway.policies.programme.items import METHODS, Departure, EvictionJob, duration_steps
from makeway.policies.programme.knapsack import EvictionPlan, make_plan


def greedy(
    items: Sequence[EvictionJob], node_count_needed: int, deadline_s: float, step_s: float
) -> EvictionPlan | None:
    """Checkpoint the jobs of greatest loss by their faster method until time is up, then kill those of least
    loss.

    This is fast, and far from the least loss (section IV-C-1). None: not even killing all jobs frees enough
    nodes, or the deadline has passed.
    """
    steps = _deadline_steps(deadline_s, step_s)
    if steps < 0:
        return None
    by_loss = sorted(items, key=lambda item: (-item.loss_node_s, item.job_ids))
    departures: list[Departure] = []
    freed, used = 0, 0
    for item in by_loss:
        fastest = _fastest(item, step_s)
        if freed >= node_count_needed or fastest is None or used + fastest[0] > steps:
            break
        used += fastest[0]
        freed += item.node_count
        departures.append(Departure(item=item, method=fastest[1]))
    for item in reversed(by_loss[len(departures) :]):
        if freed >= node_count_needed:
            break
        freed += item.node_count
        departures.append(Departure(item=item, method=Method.KILL))
    return make_plan(departures, used, step_s) if freed >= node_count_needed else None


def _fastest(item: EvictionJob, step_s: float) -> tuple[int, Method] | None:
    """The faster checkpoint in steps, application before system. None: the item has none."""
    found: list[tuple[int, Method]] = []
    for method in (Method.APPLICATION, Method.SYSTEM):
        duration = duration_steps(item, method, step_s)
        if duration is not None:
            found.append((duration, method))
    return min(found, key=lambda pair: pair[0]) if found else None


def backtracking(
    items: Sequence[EvictionJob], node_count_needed: int, deadline_s: float, step_s: float
) -> EvictionPlan | None:
    """The exact solution for one deadline by exhaustive search with early abandoning (section IV-C-2).

    Exponential in the number of items. None: there is no choice.
    """
    steps = _deadline_steps(deadline_s, step_s)
    if steps < 0:
        return None
    search = _Search(items, max(0, node_count_needed), steps, step_s)
    search.descend(0, 0, (0, 0, 0, 0, 0))
    if search.best is None:
        return None
    return make_plan(search.best_departures, search.best[1], step_s)


Price = tuple[int, int, int, int, int]
"""Loss, steps used, evictions with past ones, nodes freed, system checkpoints: compared in this order."""


class _Search:
    """One depth-first search."""

    def __init__(self, items: Sequence[EvictionJob], needed: int, steps: int, step_s: float) -> None:
        ordered = sorted(items, key=lambda item: (item.node_count, item.job_ids))
        self.needed = needed
        self.steps = steps
        self.options = [list(_options(item, step_s)) for item in ordered]
        self.items = ordered
        self.left = [0]
        for item in reversed(ordered):
            self.left.append(self.left[-1] + item.node_count)
        self.left.reverse()
        self.best: Price | None = None
        self.best_departures: list[Departure] = []
        self.path: list[Departure] = []

    def descend(self, index: int, freed: int, price: Price) -> None:
        """Try every choice for the items from `index` on; `price` is the price of the choices so far."""
        if self.best is not None and price >= self.best:
            return
        if freed >= self.needed:
            self.best = price
            self.best_departures = list(self.path)
            return
        if freed + self.left[index] < self.needed:
            return
        item = self.items[index]
        self.descend(index + 1, freed, price)
        for method, duration, loss in self.options[index]:
            used = price[1] + duration
            if used <= self.steps:
                system = price[4] + (method is Method.SYSTEM)
                evictions = price[2] + 1 + item.past_evictions
                dearer = (price[0] + loss, used, evictions, price[3] + item.node_count, system)
                self.path.append(Departure(item=item, method=method))
                self.descend(index + 1, freed + item.node_count, dearer)
                self.path.pop()


def _options(item: EvictionJob, step_s: float) -> Iterator[tuple[Method, int, int]]:
    """Each way in which the item can leave, with its duration in steps and its loss."""
    for method in METHODS:
        duration = duration_steps(item, method, step_s)
        if duration is not None:
            yield method, duration, Departure(item=item, method=method).loss_node_s


def _deadline_steps(deadline_s: float, step_s: float) -> int:
    if not step_s > 0.0:
        raise ValueError(f"step_s is {step_s!r}; accepted: a positive number of seconds")
    return math.floor(deadline_s / step_s) if deadline_s >= 0.0 else -1
