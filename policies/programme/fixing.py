"""The eviction problem for one deadline at any size: a bound, fixing by it, and a search of what is left.

The plan is the one of `knapsack`, which serves small problems and is the oracle of the tests, ties included.

`bound` gives a lower bound of the cost and, for each item and option, a deviation: every choice costs at
least the bound and the deviations of all its items. If a choice costs no more than a guess, its deviations
are together at most what the guess exceeds the bound by. So an option that deviates by more is left out, and
so is a state of the search whose deviations are more. With a guess close to the bound, most items have one
option left, and there are few states. If the search finds a choice within the guess, nothing that is as good
was left out: the choice is the best one, in all criteria. If not, the guess is raised.

Rounding errors of the bound are far below the slack that is added to each guess, which can only make the
search longer.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the problem.

Differs from the paper:
    Its Algorithm 1 is `knapsack.solve`, whose time and memory grow with items x nodes x steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from makeway.policies.programme.bound import CostBound, FixingProblem
from makeway.policies.programme.items import METHODS, Departure, EvictionJob
from makeway.policies.programme.knapsack import (
    EvictionPlan,
    ProgrammeItems,
    solve,
    solve_items,
)

SMALL_CELLS = 3_000_000
"""Up to so many (item, node, step) cells the programme is at least as fast as the search."""
MOST_CELLS = 50_000_000
"""The most cells that the programme is given: a fraction of a second and 50 MB. Beyond it, time gets coarser.
"""
MOST_STATES = 5_000_000
"""After so many states the search gives up and leaves it to the programme: a few seconds and 50 MB."""
_CELLS_PER_STATE = 120
"""One state of the search takes as long as this many cells. If the programme can solve the problem as it is,
the search gives up when it has taken as long as that."""
_MANY = 500
"""From so many states on it pays to look for those that others beat."""
_LEVELS = np.arange(16) / 16
"""The quantiles of the steps on whose two sides states are compared: see `_Search._undominated`."""
_GROWTH = 2.5
"""By what a guess is raised that no choice keeps."""
_SLACK = 1e-9
"""What is added to a guess for rounding errors of the bound, as a share of it."""


def best_plans(
    items: Sequence[EvictionJob], node_count_needed: int, deadlines_s: Sequence[float], step_s: float
) -> list[EvictionPlan | None]:
    """The best choice that frees so many nodes by each deadline, as of `knapsack.solve`; None: there is none.

    Args:
        items: the jobs that may leave. Their order does not matter.
        node_count_needed: at least this many nodes are freed.
        deadlines_s: in seconds from now. Negative: there is no choice.
        step_s: the resolution of time. Durations are rounded up to it, deadlines down.

    Raises:
        ValueError: a step that is not positive, or losses beyond 62 bits.
    """
    latest_s = max(deadlines_s)
    if not step_s > 0.0:
        raise ValueError(f"step_s is {step_s!r}; accepted: a positive number of seconds")
    steps = math.floor(latest_s / step_s) if latest_s >= 0.0 else -1
    chosen_from = ProgrammeItems.of(items, node_count_needed, steps, step_s)
    if _cells(chosen_from.ordered, node_count_needed, latest_s, step_s) <= SMALL_CELLS:
        plan = solve_items(chosen_from, steps, step_s).plan
    else:
        plan = partial(_searched, chosen_from, items, step_s=step_s)
    found = {deadline_s: plan(deadline_s) for deadline_s in {*deadlines_s}}
    return [found[deadline_s] for deadline_s in deadlines_s]


def least_loss_node_s(
    items: Sequence[EvictionJob], node_count_needed: int, deadline_s: float, step_s: float
) -> int:
    """No choice that frees so many nodes by the deadline loses less. 0: that is not known, as where there are
    too few nodes. It takes a part of the time of `best_plans`.
    """
    steps = math.floor(deadline_s / step_s)
    chosen_from = ProgrammeItems.of(items, node_count_needed, steps, step_s)
    if deadline_s < 0.0 or not 0 < chosen_from.lacking <= chosen_from.extra_node_count:
        return 0
    problem = FixingProblem.of(chosen_from, steps, step_s)
    return problem.least_loss(CostBound.of(problem).least)


def in_steps(
    items: Sequence[EvictionJob], node_count_needed: int, deadlines_s: Sequence[float], step_s: float
) -> tuple[float, ...]:
    """What of the deadlines decides on the best plans: in which step each is. If time may have to get
    coarser, the deadlines themselves do.
    """
    if _cells(items, node_count_needed, max(deadlines_s), step_s) > MOST_CELLS:
        return tuple(deadlines_s)
    return tuple(math.floor(deadline_s / step_s) for deadline_s in deadlines_s)


def _cells(items: Sequence[EvictionJob], needed: int, deadline_s: float, step_s: float) -> float:
    """How many cells the programme has."""
    return len(items) * max(needed, 0) * (deadline_s / step_s + 1.0)


def _searched(
    chosen_from: ProgrammeItems, items: Sequence[EvictionJob], deadline_s: float, step_s: float
) -> EvictionPlan | None:
    """The best choice by the search; by the programme if the search takes too long.

    `chosen_from`: the items in order, for this deadline or a later one.
    """
    if deadline_s < 0.0:
        return None
    needed = chosen_from.needed
    if chosen_from.lacking <= 0 or chosen_from.lacking > chosen_from.extra_node_count:
        return solve(items, needed, 0.0, step_s).plan(0.0)
    problem = FixingProblem.of(chosen_from, math.floor(deadline_s / step_s), step_s)
    cells = _cells(chosen_from.ordered, needed, deadline_s, step_s)
    coarser = cells > MOST_CELLS
    found = _search(problem, MOST_STATES if coarser else min(MOST_STATES, cells / _CELLS_PER_STATE))
    if found is None:
        coarse_s = deadline_s * len(chosen_from.ordered) * needed / MOST_CELLS
        return solve(items, needed, deadline_s, max(step_s, coarse_s)).plan(deadline_s)
    departures = [
        Departure(item=chosen_from.ordered[index], method=METHODS[way]) for index, way in found.ways
    ]
    return chosen_from.plan(departures, found.steps, step_s, needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A choice: the items that leave and their ways, by index."""

    ways: tuple[tuple[int, int], ...]
    steps: int


def _search(problem: FixingProblem, most_states: float) -> _Found | None:
    """The best choice: there is one, since all items can be killed, and have enough nodes. None: it takes
    more states.
    """
    bound = CostBound.of(problem)
    above = max(bound.first_guess(), math.ceil(bound.least) - bound.least)
    while most_states >= 0:
        search = _Search.begin(problem, bound, bound.least + above, most_states)
        found = search.run()
        if found is not None:
            return found
        most_states = search.states_left
        above = max(_GROWTH * above, 1e-6 * bound.least, 1.0)
    return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _States:
    """What can be reached with some of the items, by nodes and steps. All arrays have one entry a state."""

    key: NDArray[np.int64]
    """Nodes * (steps + 1) + steps: each occurs once."""
    price: NDArray[np.int64]
    """The least composite price."""
    deviation: NDArray[np.float64]
    """By how much the items so far deviate from the bound together."""
    origin: NDArray[np.int64]
    """Index of the state of the last undecided item that it comes from."""

    def of(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> "_States":
        """Some of the states."""
        return _States(
            key=self.key[which],
            price=self.price[which],
            deviation=self.deviation[which],
            origin=self.origin[which],
        )


_Decided = tuple[int, NDArray[np.int32], NDArray[np.int8]]
"""An item, the origin of each state after it, and what the item does there: way + 1, or 0 if it stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Complete:
    """The best choice so far that frees enough nodes."""

    worth: tuple[int, int, int]
    """Loss, steps, composite price."""
    item: int
    """The item that leaves last."""
    way: int
    stage: int
    """How many undecided items are before it."""
    origin: int


@dataclass(slots=True, kw_only=True, eq=False)
class _Search:
    """The search of all choices that cost no more than a guess."""

    problem: FixingProblem
    bound: CostBound
    guess: float
    states_left: float
    """How many more states there may be. Negative: there were too many."""
    slack: float
    room: float
    """The most deviation of the choices that are left in."""
    complete: _Complete | None = None
    undecided: list[_Decided] = field(default_factory=list[_Decided])
    """The items with several options."""
    fixed: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Items with one option, and their way."""

    @classmethod
    def begin(cls, problem: FixingProblem, bound: CostBound, guess: float, states_left: float) -> "_Search":
        """The search for a guess."""
        slack = _SLACK * (bound.scale + abs(guess)) + 1e-6
        room = guess - bound.least + slack
        return cls(problem=problem, bound=bound, guess=guess, states_left=states_left, slack=slack, room=room)

    def run(self) -> _Found | None:
        """The best choice that costs no more than the guess. None: there is none, or too many states."""
        allowed = self.bound.deviation <= self.room
        stays = self.bound.staying <= self.room
        count = allowed.sum(axis=1)
        if (~stays & (count == 0)).any():
            return None
        leavers = np.flatnonzero(count)
        supply = np.cumsum(self.problem.extra[leavers][::-1])[::-1]
        last_must = max(np.flatnonzero(~stays).tolist(), default=-1)
        states = _States(
            key=np.zeros(1, np.int64),
            price=np.zeros(1, np.int64),
            deviation=np.zeros(1),
            origin=np.zeros(1, np.int64),
        )
        for index, left in zip(leavers.tolist(), (*supply[1:].tolist(), 0), strict=True):
            if index < last_must and not stays[index] and count[index] == 1:
                states = self._fix(states, index, int(allowed[index].argmax()))
            else:
                ways = np.flatnonzero(allowed[index]).tolist()
                states = self._decide(states, index, ways, bool(stays[index]), index >= last_must, left)
            self.states_left -= len(states.key)
            if self.states_left < 0:
                return None
            if not len(states.key):
                break
        return self._traced()

    def _fix(self, states: _States, index: int, way: int) -> _States:
        """The states after an item with one option; none is complete, since a later one has to leave too."""
        self.fixed.append((index, way))
        moved, fits = self._moved(states, index, way)
        return moved.of(fits & (moved.key < self.problem.needed * (self.problem.steps + 1)))

    def _moved(self, states: _States, index: int, way: int) -> tuple[_States, NDArray[np.bool_]]:
        """The states after an item leaves, and which of them are within the limits."""
        problem, width = self.problem, self.problem.steps + 1
        turn = int(problem.turn[index, way])
        moved = _States(
            key=states.key + (int(problem.extra[index]) * width + turn),
            price=states.price + problem.price[index, way],
            deviation=states.deviation + self.bound.deviation[index, way],
            origin=states.origin,
        )
        fits = moved.deviation <= self.room
        return moved, fits & (states.key % width < width - turn) if turn else fits

    def _decide(
        self, states: _States, index: int, ways: list[int], stays: bool, may_complete: bool, left: int
    ) -> _States:
        """The states after an item with several options.

        `may_complete`: no later item has to leave. `left`: how many nodes the later ones can free.
        """
        full = self.problem.needed * (self.problem.steps + 1)
        least = (self.problem.needed - left) * (self.problem.steps + 1)
        options: list[tuple[int, _States]] = []
        if stays:
            stayed = replace(states, deviation=states.deviation + self.bound.staying[index])
            options.append((0, stayed.of((stayed.deviation <= self.room) & (stayed.key >= least))))
        for way in ways:
            moved, fits = self._moved(states, index, way)
            over = moved.key >= full
            if may_complete and (done := fits & over).any():
                self._completed(moved.of(done), index, way)
            options.append((way + 1, moved.of(fits & ~over & (moved.key >= least))))
        found = _States(
            key=np.concatenate([each.key for _, each in options]),
            price=np.concatenate([each.price for _, each in options]),
            deviation=np.concatenate([each.deviation for _, each in options]),
            origin=np.concatenate([each.origin for _, each in options]),
        )
        code = np.repeat(
            np.array([code for code, _ in options], np.int8), [len(each.key) for _, each in options]
        )
        order = np.lexsort((found.price, found.key))  # stable: of equal prices the first option, as there
        key = found.key[order]
        order = order[np.concatenate(([True], key[1:] != key[:-1]))] if len(key) else order
        if len(order) > _MANY:
            order = order[self._undominated(found.key[order], found.price[order])]
        found = found.of(order)
        self.undecided.append((index, found.origin.astype(np.int32), code[order]))
        return replace(found, origin=np.arange(len(order)))

    def _undominated(self, key: NDArray[np.int64], price: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which states to keep: all but those that another one beats whatever follows, by no fewer nodes, no
        more loss and fewer steps.

        Only some of the beaten ones are found: those with a better one on the other side of one of a few
        numbers of steps. `key` is in ascending order.
        """
        width = self.problem.steps + 1
        steps, loss = (key % width)[::-1], (price // self.problem.weights.loss)[::-1]
        stays = np.ones(len(key), dtype=bool)
        for limit in {*np.quantile(steps, _LEVELS, method="lower").tolist()}:
            fewer = steps <= limit
            least = np.minimum.accumulate(np.where(fewer, loss, np.iinfo(np.int64).max))
            stays &= fewer | (loss < least)
        return stays[::-1]

    def _completed(self, states: _States, index: int, way: int) -> None:
        """Keep the best of the choices that end with this item, if it is better than earlier ones."""
        problem = self.problem
        steps = states.key % (problem.steps + 1)
        cost = problem.costs(states.price, steps)
        loss = states.price // problem.weights.loss
        best = int(np.lexsort((states.key, states.price, steps, loss))[0])
        if cost[best] > self.guess + self.slack:
            return
        worth = (int(loss[best]), int(steps[best]), int(states.price[best]))
        if self.complete is None or worth < self.complete.worth:
            self.room = min(self.room, float(cost[best]) - self.bound.least + self.slack)
            self.complete = _Complete(
                worth=worth, item=index, way=way, stage=len(self.undecided), origin=int(states.origin[best])
            )

    def _traced(self) -> _Found | None:
        """The best complete choice, along the origins of its states."""
        if self.complete is None:
            return None
        ways = [*self.fixed, (self.complete.item, self.complete.way)]
        state = self.complete.origin
        for index, origin, code in reversed(self.undecided[: self.complete.stage]):
            if code[state]:
                ways.append((index, int(code[state]) - 1))
            state = int(origin[state])
        return _Found(ways=tuple(ways), steps=self.complete.worth[1])
