"""The nodes for an urgent job on shared nodes, and the jobs that leave for it, at the least loss.

1. For each node all covers: the least sets of jobs whose leaving is enough there.
2. A choice, found fast; and a bound, with the loss of each job shared out among its nodes. Often they are
   equal.
3. Covers with which a choice loses at least as much as the one that is known are left out. If crowded nodes
   are left, and no job is on two of all that are left, the best choice is worked out node by node
   (`by_node`).
4. Else each loss is shared out better step by step: that gives a better bound, and better choices.
5. If many covers are left, they are solved as a relaxed programme: its prices give a better bound, its
   solution a better choice.
6. What then remains is solved as an integer programme.

The bounds of steps 2 to 5 are sums of integers, and exact; only if crowded nodes are left over, step 5 takes
the bound of HiGHS. Of choices with the same loss, the search prefers the one with fewer checkpoint steps,
then the one with fewer jobs. Where nothing is lost, steps 2 to 5 are repeated for these, but for `by_node`.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from makeway.policies.choice.ascent import Raised, ascend
from makeway.policies.choice.bounds import Bounds, Space, shared_bounds, step_price_of
from makeway.policies.choice.by_node import best_by_node
from makeway.policies.choice.covers import MOST_JOBS, Covers, covers_of, crowded_nodes
from makeway.policies.choice.crowded import with_good_covers
from makeway.policies.choice.highs import relax, solve_whole
from makeway.policies.choice.instance import Choice, ChoiceInstance, ChoiceProof, LeavingOccupant
from makeway.policies.choice.prices import CostObjective, Pricing, price_jobs
from makeway.policies.choice.search import Found, near, search
from makeway.policies.choice.table import ChoiceTable, tabulate

TIME_LIMIT_S = 60.0
"""When the integer programme is ended at the latest: a guard for a machine that hardly runs. Its effort ends
it long before, after as many steps on every machine."""
_ASCENTS = 4
"""How often at most the prices of what is left are made better."""
_TIE_ASCENTS = 2
"""The same where nothing is lost, and only fewer checkpoint steps and jobs are looked for."""
_FEW_COVERS = 60
"""With at most so many covers, the integer programme is as fast as the relaxed one."""
_STEP_PRICES = 6
"""At how many prices of a serial step a choice is searched for at most."""
_LEAST_STEP_PRICE = 16
"""A serial step costs at least a node-second divided by this where a choice is searched for."""
_NEAREST = 64
"""Among how many nodes more than four times those needed a choice is searched for."""


def choose(instance: ChoiceInstance, time_limit_s: float = TIME_LIMIT_S) -> Choice | None:
    """The choice of least loss. None: not even all jobs that may leave free enough nodes.

    Args:
        instance: the nodes, the jobs and what is needed.
        time_limit_s: how long the integer programme may take, if it comes to that and its effort does not
            end it before. If it is ended, the best choice found is returned with its bound.

    Raises:
        ValueError: losses that 62 bits do not hold.
    """
    table = tabulate(instance, MOST_JOBS)
    missing = instance.node_count - len(table.ready)
    if missing <= 0:
        return Choice(
            nodes=table.ready[: instance.node_count],
            leaving=(),
            loss_node_s=0,
            bound_node_s=0,
            proof=ChoiceProof.BOUNDS,
        )
    if len(set(table.host.tolist())) < missing:
        return None
    pricing = price_jobs(table, missing, instance.budget_steps)
    return _Solving(table, pricing, missing).solve(time_limit_s)


class _Solving:
    """The best choice so far, and what is known about all others."""

    def __init__(self, table: ChoiceTable, pricing: Pricing, count: int) -> None:
        self.table = table
        self.pricing = pricing
        self.space = Space(table=table, covers=covers_of(table), crowded=crowded_nodes(table), count=count)
        step_price = step_price_of(self.space, pricing.loss)
        self.nearest = self.cheapest_nodes(step_price)
        prices = pricing.full.prices(self.full_step_price(step_price))
        self.best = near(self.nearest, search(self.nearest, prices, count), pricing.full)
        self.by_time = False

    def solve(self, time_limit_s: float) -> Choice:
        """The best choice that the steps find."""
        loss = self.pricing.loss
        bounds = self.by_bounds(loss, self.loss_limit)
        proof = ChoiceProof.BOUNDS if bounds.space is None else ChoiceProof.NONE
        least = bounds.least
        if bounds.space is not None:
            solved = solve_whole(bounds.space, loss, self.loss_limit(), time_limit_s)
            if solved.chosen:
                self.offer(near(solved.space.covers, solved.chosen, self.pricing.full))
            least = max(least, solved.least)
            self.by_time = solved.by_time
            proof = ChoiceProof.SOLVER if least >= self.loss_limit() else ChoiceProof.NONE
        if self.best.cost < self.pricing.full.scale:
            self.by_bounds(
                replace(self.pricing.full.clipped(self.best.cost), scale=1), lambda: self.best.cost
            )
        return self.choice(-(-least // loss.scale), proof)

    def loss_limit(self) -> int:
        """The cost in the loss objective that a choice of less loss than the best one is below."""
        loss_node_s = self.best.cost // self.pricing.full.scale
        return (loss_node_s - 1) * self.pricing.loss.scale + 1

    def offer(self, choice: Found) -> None:
        """Keep the choice if it is better than the best one."""
        if choice.cost < self.best.cost:
            self.best = choice

    def cheapest_nodes(self, step_price: int) -> Covers:
        """Covers of the nodes that are cheap where each job is shared out; of crowded ones, good covers."""
        loss, full, space = self.pricing.loss, self.pricing.full, self.space
        shared = loss.prices(step_price) // space.shares()
        least = space.costs(shared[self.table.place_job])[1]
        order = np.lexsort((space.covers.nodes, least))[: 4 * space.count + _NEAREST]
        nodes = np.sort(space.covers.nodes[order])
        covers = space.covers.only(np.isin(space.covers.node, nodes))
        crowded = nodes[space.crowded[nodes]].tolist()
        prices = [full.plain, full.plain // space.shares()]
        if full.timed:
            prices.append(full.prices(0))
        return with_good_covers(covers, self.table, crowded, prices)

    def by_bounds(self, objective: CostObjective, limit: Callable[[], int]) -> Bounds:
        """Steps 2 to 5 for an objective: what is left of the space for choices below the limit."""
        for_loss = objective is self.pricing.loss
        bounds = shared_bounds(self.space, objective, limit())
        if for_loss and bounds.space is not None and bounds.space.has_crowded:
            best = best_by_node(bounds.space, self.pricing.full)
            if best is not None:
                self.offer(best)
                return Bounds(least=limit(), space=None)
        bounds = self.ascended(bounds, objective, limit)
        while bounds.space is not None and not (for_loss and _is_small(bounds.space)):
            relaxed = relax(bounds.space, objective)
            if relaxed is None:
                break
            known = self.best.cost
            if len(relaxed.chosen) == self.space.count:
                self.offer(near(relaxed.space.covers, relaxed.chosen, self.pricing.full))
            bounds = bounds.then(relaxed.bounds(limit()))
            if not for_loss or self.best.cost == known:
                break
        return bounds

    def ascended(self, bounds: Bounds, objective: CostObjective, limit: Callable[[], int]) -> Bounds:
        """What is left of the space at better prices of the places; choices are searched for on the way."""
        full, for_loss = self.pricing.full, objective is self.pricing.loss
        raised: Raised | None = None
        for ascent in range(_ASCENTS if for_loss else _TIE_ASCENTS):
            space, known = bounds.space, self.best.cost
            if space is None:
                break
            raised = ascend(space, objective, limit(), bounds.step_price if raised is None else raised)
            if raised.chosen and (ascent == 0 or not full.timed):
                self.offer(near(space.covers, raised.chosen, full))
            if ascent == 0 and for_loss and full.timed:
                covers = self.nearest if space.has_crowded else space.covers
                self.try_step_prices(covers, raised.step_price)
            bounds = bounds.then(space.below(limit(), raised.prices, raised.paid))
            if bounds.space is space and self.best.cost == known:
                break
        return bounds

    def try_step_prices(self, covers: Covers, step_price: int) -> None:
        """Search at prices of a serial step, from one of the loss objective on, until those used fit into the
        budget.
        """
        full = self.pricing.full
        price = self.full_step_price(step_price)
        found = list[list[int]]()
        for _ in range(_STEP_PRICES):
            prices = full.prices(price)
            found.append(search(covers, prices, self.space.count))
            jobs = np.unique(np.concatenate([covers.jobs_of(cover) for cover in found[-1]]))
            if full.steps[jobs][prices[jobs] < full.plain[jobs]].sum() <= full.budget_steps:
                break
            price = price * 3 // 2 + 1
        for chosen in found[-2:]:
            self.offer(near(covers, chosen, full))

    def full_step_price(self, step_price: int) -> int:
        """A step price of the loss objective in the full one. It is never 0, so that of choices that lose the
        same, the search prefers those with fewer serial steps.
        """
        full, loss = self.pricing.full, self.pricing.loss
        return max(1, full.scale // _LEAST_STEP_PRICE, step_price * full.scale // loss.scale)

    def choice(self, bound_node_s: int, proof: ChoiceProof) -> Choice:
        """The best choice as a value."""
        ways = [
            self.pricing.serial[job] if job in self.best.serial else self.pricing.plain[job]
            for job in self.best.jobs
        ]
        leaving = tuple(
            LeavingOccupant(occupant=self.table.jobs[job], way=way)
            for job, way in zip(self.best.jobs, ways, strict=True)
            if way is not None
        )
        loss_node_s = sum(way.way.loss_node_s for way in leaving)
        return Choice(
            nodes=tuple(sorted([*self.table.ready, *(self.table.names[node] for node in self.best.nodes)])),
            leaving=leaving,
            loss_node_s=loss_node_s,
            bound_node_s=min(bound_node_s, loss_node_s) if proof is ChoiceProof.NONE else loss_node_s,
            proof=proof,
            ended_by_time=self.by_time and proof is ChoiceProof.NONE,
        )


def _is_small(space: Space) -> bool:
    """Whether the integer programme of a space is solved at once."""
    return len(space.covers.node) <= _FEW_COVERS and not space.has_crowded
