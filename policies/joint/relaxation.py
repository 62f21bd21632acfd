"""The relaxed programme of all nodes, by those few of them that matter.

It is solved for the nodes that are cheap. What these do not pay of a job's leaving is shared out among the
job's other nodes. Nodes that are then cheaper than the price of a node are added, until there are none: the
solution is that of all nodes. Covers with which a choice loses too much at these prices are left out.

Reference: Gilmore and Gomory, "A linear programming approach to the cutting-stock problem" (Operations
Research 1961), the generation of columns.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from makeway.policies.choice.prices import ROUNDED_DOWN
from makeway.policies.joint.bound import CostsOfKind, SharedBound
from makeway.policies.joint.highs import Duals, NoChoiceError, solve_relaxed
from makeway.policies.joint.instance import JointInstance
from makeway.policies.joint.kinds import NodeKind

_ROUNDS = 4
"""How often nodes are added at most."""
_CLOSE = 32
"""The bound is close enough if it lacks less than this part of what the known choice loses more."""
_HALF = 0.5
_TOLERANCE = 1e-5
"""By how much a bound of HiGHS may be too high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointRelaxation:
    """What the relaxed programme says."""

    least_node_s: int
    """No choice loses less, as far as HiGHS' floating-point numbers are right."""
    likely_node_s: int
    """The bound if no node is cheaper than the prices of the solved programme say; never below it."""
    prices: "_Prices | None"
    """The prices of the nodes. None: no programme was solved."""

    def below(self, reach_node_s: int) -> list[NodeKind]:
        """The nodes that a choice may have that loses less than this, with the covers that it may use."""
        return [] if self.prices is None else self.prices.below(reach_node_s)


def relax(instance: JointInstance, bound: SharedBound, limit_node_s: int) -> JointRelaxation | None:
    """The solution for all kinds of a bound; if it takes too much effort, what is known by then. None: they
    do not serve all components.

    `limit_node_s`: only choices that lose less are looked for.
    """
    inside = list(bound.nearest)
    names = {kind.names for kind in inside}
    outside = [kind for kind in bound.kinds if kind.names not in names]
    best: _Prices | None = None
    for _ in range(_ROUNDS):
        try:
            duals = solve_relaxed(instance, inside)
        except NoChoiceError:
            if not outside:
                return None
            inside, outside = [*inside, *outside[: len(inside)]], outside[len(inside) :]
            continue
        if duals is None:
            break
        prices = _Prices(instance, duals, outside)
        best = prices if best is None or prices.least > best.least else best
        lacks = duals.value - prices.least
        if not prices.cheaper or _CLOSE * lacks < limit_node_s - duals.value:
            break
        inside += [outside[number] for number in sorted(prices.cheaper)]
        outside = [kind for number, kind in enumerate(outside) if number not in prices.cheaper]
    least = likely = bound.least_node_s
    if best is not None:
        least = max(least, ceil(best.least * ROUNDED_DOWN - _TOLERANCE))
        likely = max(least, ceil(best.duals.value * ROUNDED_DOWN - _TOLERANCE))
    return JointRelaxation(least_node_s=least, likely_node_s=likely, prices=best)


class _Prices:
    """What the nodes cost at the prices of a solution, also those that its programme did not have."""

    def __init__(self, instance: JointInstance, duals: Duals, outside: Sequence[NodeKind]) -> None:
        counts = Counter(job_id for kind in outside for job_id in kind.jobs())
        losses = {job.job_id: min(way.loss_node_s for way in job.ways) for job in instance.jobs if job.ways}
        shares = {
            job_id: duals.left.get(job_id, float(losses[job_id])) / count for job_id, count in counts.items()
        }
        self.duals = duals
        self.needed = [component.node_count for component in instance.components]
        self.costs = [CostsOfKind(kind, shares) for kind in outside]
        self.cheaper: set[int] = set()
        """The nodes that cost less than the price of a node, by their places in `outside`."""
        gains: list[list[tuple[float, int]]] = [[] for _ in self.needed]
        for number, one in enumerate(self.costs):
            for index, cost in one.least.items():
                gain = self.gain(one.kind, index, cost)
                if gain > 0.0:
                    gains[index].append((gain, one.kind.size))
                if gain > _TOLERANCE:
                    self.cheaper.add(number)
        self.least = duals.value - sum(map(_most, gains, self.needed))
        """No choice loses less."""

    def gain(self, kind: NodeKind, index: int, cost: float) -> float:
        """By how much a node of a kind is cheaper than the price of a node, if the kind costs as much."""
        return self.duals.node_prices[index] - cost / min(kind.size, self.needed[index])

    def below(self, limit_node_s: int) -> list[NodeKind]:
        """The nodes, with their covers, by which a choice may lose less than a limit."""
        kept = self.duals.below(limit_node_s - _HALF - self.least)
        for one in self.costs:
            most = [
                min(one.kind.size, count) * price + limit_node_s - self.least
                for count, price in zip(self.needed, self.duals.node_prices, strict=True)
            ]
            kind = one.below(most)
            if kind.components:
                kept.append(kind)
        return kept


def _most(gains: Iterable[tuple[float, int]], count: int) -> float:
    """What is gained at most by so many nodes. `gains`: of a node of each kind, and how many there are."""
    total = 0.0
    for gain, size in sorted(gains, reverse=True):
        taken = min(size, count)
        total, count = total + taken * gain, count - taken
    return total
