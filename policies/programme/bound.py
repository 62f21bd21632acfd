"""The lower bound by which `fixing` leaves out what no best choice has.

A price for a node and one for a step of checkpoint time turn the limits of the eviction problem into costs.
Each item then decides alone, and the sum of these decisions, less what the limits are worth, is a lower bound
of the cost of every choice (Lagrangian relaxation). For a price of a step, the best price of a node is that
of the last item which is needed in the order of price per node: the dual is a search in one number.

The cost is the loss, then the checkpoint time, then the number of evictions, as one number.

Reference:
    Maurya et al., "CoSim: A Simulator for Co-Scheduling of Batch and On-Demand Jobs in HPC Datacenters"
    (DS-RT 2020), section III-B: the problem.

Differs from the paper:
    The paper has no bound.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from makeway.policies.programme.items import METHODS, duration_steps
from makeway.policies.programme.knapsack import ProgrammeItems
from makeway.policies.programme.weights import PriceWeights

_FIRST_CORE = 12
"""The first guess leaves about this many items undecided."""
_BISECTIONS = 60
_ROUNDING = 1e-9
"""What rounding errors of a cost are below, as a share of it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FixingProblem:
    """The problem as arrays, by item in the order of the programme, and by way to leave."""

    needed: int
    """At least 1, and no more than all items have."""
    steps: int
    extra: NDArray[np.int64]
    """(items,): nodes beyond the spare ones."""
    turn: NDArray[np.int64]
    """(items, ways): steps of checkpoint time; 0 where an item cannot leave so."""
    price: NDArray[np.int64]
    """(items, ways): the composite price of the programme."""
    cost: NDArray[np.float64]
    """(items, ways): loss, steps and evictions as one number; infinite where an item cannot leave so."""
    weights: PriceWeights
    most_evictions: int

    @classmethod
    def of(cls, chosen_from: ProgrammeItems, steps: int, step_s: float) -> "FixingProblem":
        """The arrays of a problem."""
        ordered, weights = chosen_from.ordered, chosen_from.weights
        turns = [[duration_steps(item, method, step_s) for method in METHODS] for item in ordered]
        able = np.array([[turn is not None and turn <= steps for turn in row] for row in turns])
        turn = np.array([[turn or 0 for turn in row] for row in turns], dtype=np.int64) * able
        price = np.array(
            [[weights.price(item, method) for method in METHODS] for item in ordered], dtype=np.int64
        )
        most_evictions = sum(1 + item.past_evictions for item in ordered)
        problem = cls(
            needed=chosen_from.lacking,
            steps=steps,
            extra=np.array([item.extra_node_count for item in ordered], dtype=np.int64),
            turn=turn,
            price=price,
            cost=np.zeros(0),
            weights=weights,
            most_evictions=most_evictions,
        )
        return replace(problem, cost=np.where(able, problem.costs(price, turn), np.inf))

    def costs(self, price: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """The cost of choices, or of single ways, by composite price and steps."""
        loss, rest = np.divmod(price, self.weights.loss)
        evictions = rest // self.weights.eviction
        cost: NDArray[np.float64] = (loss * (self.steps + 1.0) + steps) * (
            self.most_evictions + 1.0
        ) + evictions
        return cost

    def least_loss(self, cost: float) -> int:
        """What choices lose at least that cost so much or more, whatever the rest of the cost is."""
        each = (self.steps + 1.0) * (self.most_evictions + 1.0)
        return max(0, math.floor(cost / each * (1.0 - _ROUNDING)) - 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CostBound:
    """A lower bound of the cost, and by how much each decision of each item is worse than its best one."""

    least: float
    deviation: NDArray[np.float64]
    """(items, ways)."""
    staying: NDArray[np.float64]
    """(items,): the deviation of an item that stays."""
    scale: float
    """The magnitude of the numbers that the bound was summed from."""

    @classmethod
    def of(cls, problem: FixingProblem) -> "CostBound":
        """The best bound, by bisection over the price of a step."""
        dual = _dual(problem, 0.0)
        if dual.steps > problem.steps:
            low, high = 0.0, float(problem.cost[np.isfinite(problem.cost)].max()) + 1.0
            for _ in range(_BISECTIONS):
                middle = math.sqrt(max(low, high * 1e-9) * high) if low < high * 0.01 else (low + high) / 2
                tried = _dual(problem, middle)
                dual = max(dual, tried, key=lambda each: each.least)
                low, high = (middle, high) if tried.steps > problem.steps else (low, middle)
                if high - low < 1e-9 * high:
                    break
        reduced = problem.cost + dual.step_price * problem.turn - dual.node_price * problem.extra[:, None]
        best = np.minimum(0.0, reduced.min(axis=1))
        return cls(
            least=dual.least,
            deviation=reduced - best[:, None],
            staying=-best,
            scale=dual.node_price * float(problem.needed + 2 * int(problem.extra.max()))
            + dual.step_price * problem.steps,
        )

    def first_guess(self) -> float:
        """By how much the first guess exceeds the bound."""
        other = np.where(self.staying > 0.0, self.staying, self.deviation.min(axis=1))
        return float(np.sort(other)[min(len(other) - 1, _FIRST_CORE)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dual:
    """The value of one pair of prices. Its best choice may leave one item in part."""

    least: float
    node_price: float
    step_price: float
    steps: float
    """What the best choice takes."""


def _dual(problem: FixingProblem, step_price: float) -> _Dual:
    """The best price of a node for a price of a step: that of the last item by price per node."""
    priced = problem.cost + step_price * problem.turn
    way = priced.argmin(axis=1)
    every = np.arange(len(way))
    value = priced[every, way]
    ratio = value / problem.extra
    order = np.argsort(ratio, kind="stable")
    freed = np.cumsum(problem.extra[order])
    last = int(np.searchsorted(freed, problem.needed))
    node_price = float(ratio[order[last]])
    used = problem.turn[every, way][order]
    missing = problem.needed - (int(freed[last - 1]) if last else 0)
    saved = np.minimum(0.0, value - node_price * problem.extra)
    return _Dual(
        least=node_price * problem.needed - step_price * problem.steps + float(saved.sum()),
        node_price=node_price,
        step_price=step_price,
        steps=float(used[:last].sum()) + float(used[last]) * missing / int(problem.extra[order[last]]),
    )
