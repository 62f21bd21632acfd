"""Better prices of the places: what each job costs is moved to those of its nodes where it is needed most.

At some prices the cheapest nodes are taken. A job that they take on some of its nodes, and not on others, is
then made dearer on the former and cheaper on the latter, and a serial step dearer if more steps are taken
than the budget has. The bound rises in few steps to nearly that of the relaxed programme, in a fraction of
its time.

Reference: Held, Wolfe and Crowder, "Validation of subgradient optimization" (Mathematical Programming 1974);
Camerini, Fratta and Maffioli, "On improving relaxation methods by modified gradient techniques" (Mathematical
Programming Study 3, 1975), whose direction keeps a part of the last one.
"""

from dataclasses import dataclass

import numpy as np

from makeway.policies.choice.bounds import Space
from makeway.policies.choice.prices import ROUNDED_DOWN, CostObjective
from makeway.policies.choice.table import Flags, Integers, Reals, numbered

_STEPS = 10
"""How many steps an ascent has."""
_PATIENCE = 1
"""After how many steps without a better bound they become shorter."""
_SHORTER = 0.5
_KEPT = 0.5
"""How much of its direction the next step keeps."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Raised:
    """The best prices of an ascent."""

    prices: Integers
    """Of all places of the table. On any nodes that can be chosen together, a job costs at most what its
    leaving costs."""
    step_price: int
    """The price of a serial step."""
    paid: int
    """What the serial steps of the budget cost."""
    length: float
    """How long the last step was compared with the rise that is possible."""
    chosen: tuple[int, ...]
    """The covers of the cheapest nodes. Empty: one of them is crowded."""


def ascend(space: Space, objective: CostObjective, limit: int, start: Raised | int) -> Raised:
    """Prices at which choices of a space are known to cost more.

    Args:
        space: where choices are looked for.
        objective: what jobs cost.
        limit: what a choice costs that is known.
        start: the prices to begin with; or the price of a serial step, and each job costs as much on each of
            its nodes.
    """
    ascent = _Ascent(space, objective, start)
    length = start.length if isinstance(start, Raised) else 1.0
    waited = 0
    for _ in range(_STEPS):
        if ascent.evaluate():
            waited = 0
        elif (waited := waited + 1) > _PATIENCE:
            length, waited = length * _SHORTER, 0
        if ascent.value >= limit or not ascent.step(length * (limit - ascent.value)):
            break
    return ascent.raised(length)


class _Ascent:
    """The parts of each job's cost that its places bear, the price of a serial step, and the best of them.

    Places are numbered within the space, and so are the jobs.
    """

    def __init__(self, space: Space, objective: CostObjective, start: Raised | int) -> None:
        self.space = space
        self.objective = objective
        covers, table = space.covers, space.table
        self.kept, self.of_covers = numbered(covers.places, len(table.place_job))
        self.jobs, self.job = numbered(table.place_job[self.kept], len(table.jobs))
        self.plain = objective.plain[self.jobs].astype(np.float64)
        self.serial = objective.serial[self.jobs].astype(np.float64)
        self.steps = objective.steps[self.jobs].astype(np.float64)
        self.unit = max(1.0, float(self.steps.sum()) / max(1, int(np.count_nonzero(self.steps))))
        """A typical number of serial steps: how far their price moves compared with those of places."""
        counts = np.bincount(self.job)
        shares = np.minimum(counts, space.count).astype(np.float64)
        self.parts: Reals = np.reciprocal(shares)[self.job]
        self.step_price = float(start.step_price if isinstance(start, Raised) else start)
        crowded: Flags = space.crowded[table.place_node[self.kept]]
        self.free = np.flatnonzero((counts <= space.count)[self.job] & ~crowded)
        """The places whose parts change. A job on more nodes than are chosen bears the same on each."""
        self.free_job = self.job[self.free]
        self.free_count = np.maximum(1.0, np.bincount(self.free_job, minlength=len(self.jobs)))
        self.shared = np.bincount(self.free_job, weights=self.parts[self.free], minlength=len(self.jobs))
        """What the free places of each job bear together."""
        if isinstance(start, Raised):
            self.share_out(start.prices[self.kept[self.free]].astype(np.float64))
        self.crowded_nodes = np.flatnonzero(space.crowded[covers.nodes])
        self.crowded_least = self.least_of_crowded()
        self.direction: Reals = np.zeros(len(self.free))
        self.turn = 0.0
        self.value = 0.0
        self.best = (-np.inf, self.parts, self.step_price, np.zeros(0, dtype=np.int64))

    def least_of_crowded(self) -> Reals:
        """What the crowded nodes cost at first; it is not looked at again."""
        if not len(self.crowded_nodes):
            return np.zeros(0)
        least = self.space.costs(self.prices())[1]
        return least[self.crowded_nodes].astype(np.float64)

    def evaluate(self) -> bool:
        """Take the cheapest nodes at the prices now. Whether the bound is the best one."""
        covers, count = self.space.covers, self.space.count
        by_job = np.minimum(self.plain, self.serial + self.step_price * self.steps)
        costs = np.add.reduceat((self.parts * by_job[self.job])[self.of_covers], covers.start)
        least = np.minimum.reduceat(costs, covers.first)
        cheapest = np.flatnonzero(costs == covers.spread(least))
        least[self.crowded_nodes] = self.crowded_least
        nodes = np.argpartition(least, count - 1)[:count]
        self.value = float(least[nodes].sum()) - self.step_price * self.objective.budget_steps
        self.taken = cheapest[np.searchsorted(cheapest, covers.first[nodes])]
        if self.value <= self.best[0]:
            return False
        self.best = (self.value, self.parts, self.step_price, self.taken)
        return True

    def step(self, rise: float) -> bool:
        """Move the prices so that the bound would rise by as much if it were straight. Whether they move."""
        used = np.concatenate([self.of_covers[self.span(cover)] for cover in self.taken.tolist()])
        taken = np.zeros(len(self.kept))
        taken[used] = 1.0
        ahead = taken[self.free]
        mean = np.bincount(self.free_job, weights=ahead, minlength=len(self.jobs)) / self.free_count
        self.direction = ahead - mean[self.free_job] + _KEPT * self.direction
        jobs = self.job[used]
        by_steps = self.serial[jobs] + self.step_price * self.steps[jobs] < self.plain[jobs]
        over = float((self.parts[used] * self.steps[jobs] * by_steps).sum()) - self.objective.budget_steps
        self.turn = over / self.unit + _KEPT * self.turn if self.objective.timed else 0.0
        size = float(self.direction @ self.direction) + self.turn**2
        if size == 0.0:
            return False
        by_job = np.minimum(self.plain, self.serial + self.step_price * self.steps)[self.free_job]
        moved = np.maximum(0.0, self.parts[self.free] * by_job + rise / size * self.direction)
        self.share_out(moved)
        self.step_price = max(0.0, self.step_price + rise / size * self.turn / self.unit)
        return True

    def share_out(self, prices: Reals) -> None:
        """Let the free places of each job bear parts like these prices; of a job with none, as before."""
        borne = np.bincount(self.free_job, weights=prices, minlength=len(self.jobs))
        some = borne > 0.0
        parts = prices * (self.shared / np.where(some, borne, 1.0))[self.free_job]
        self.parts = self.parts.copy()
        self.parts[self.free] = np.where(some[self.free_job], parts, self.parts[self.free])

    def span(self, cover: int) -> slice:
        """Where the places of a cover are."""
        start = int(self.space.covers.start[cover])
        return slice(start, start + int(self.space.covers.size[cover]))

    def raised(self, length: float) -> Raised:
        """The best prices as whole numbers."""
        _, self.parts, self.step_price, taken = self.best
        crowded = self.space.crowded[self.space.covers.node[taken]].any()
        return Raised(
            prices=self.prices(),
            step_price=round(self.step_price),
            paid=round(self.step_price) * self.objective.budget_steps,
            length=length,
            chosen=() if crowded else tuple(taken.tolist()),
        )

    def prices(self) -> Integers:
        """Whole prices of all places of the table; what rounding leaves over goes to the dearest place."""
        by_job = self.objective.prices(round(self.step_price))
        own = by_job[self.jobs]
        whole = np.floor(self.parts * (own * ROUNDED_DOWN)[self.job]).astype(np.int64)
        given = np.zeros(len(self.jobs), dtype=np.int64)
        np.add.at(given, self.job, whole)
        order = np.lexsort((self.parts, self.job))
        dearest = order[np.append(np.flatnonzero(np.diff(self.job[order])), len(order) - 1)]
        whole[dearest] += np.where(np.bincount(self.job) <= self.space.count, own - given, 0)
        prices = np.zeros(len(self.space.table.place_job), dtype=np.int64)
        prices[self.kept] = whole
        return prices
