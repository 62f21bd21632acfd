"""The nodes for an urgent job on shared nodes, and the jobs that leave for it, at the least loss.

1. For each node all covers: the least sets of jobs whose leaving is enough there.
2. A choice, found fast; and a bound, with the loss of each job shared out among its nodes. Often they are
   equal.
3. Covers with which a choice loses at least as much as the one that is known are left out. The rest is solved
   as a relaxed programme: its prices give a better bound, its solution a better choice.
4. What then remains is solved as an integer programme.

The bounds of steps 2 and 3 are sums of integers, and exact; only if crowded nodes are left over, step 3 takes
the bound of HiGHS. Of choices with the same loss, the search prefers the one with fewer checkpoint steps,
then the one with fewer jobs. Where nothing is lost, steps 2 and 3 are repeated for these.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from makeway.policies.choice.bounds import Bounds, Space, critical_step_prices, shared_bounds, step_price_of
from makeway.policies.choice.covers import Covers, covers_of, crowded_nodes
from makeway.policies.choice.crowded import with_good_covers
from makeway.policies.choice.highs import relax, solve_whole
from makeway.policies.choice.instance import Choice, ChoiceInstance, ChoiceProof, LeavingOccupant
from makeway.policies.choice.prices import CostObjective, Pricing, price_jobs
from makeway.policies.choice.search import Found, choice_of, near, search
from makeway.policies.choice.table import ChoiceTable, tabulate

TIME_LIMIT_S = 60.0
"""When the integer programme is ended at the latest: a guard for a machine that hardly runs. Its effort ends
it long before, after as many steps on every machine."""
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
    table = tabulate(instance)
    missing = instance.node_count - len(table.ready)
    if missing <= 0:
        return Choice(
            nodes=table.ready[: instance.node_count],
            leaving=(),
            loss_node_s=0,
            bound_node_s=0,
            proof=ChoiceProof.BOUNDS,
        )
    if len(table.names) < missing:
        return None
    pricing = price_jobs(table, missing, instance.budget_steps)
    return _Solving(table, pricing, missing).solve(time_limit_s)


class _Solving:
    """The best choice so far, and what is known about all others."""

    def __init__(self, table: ChoiceTable, pricing: Pricing, count: int) -> None:
        self.table = table
        self.pricing = pricing
        self.space = Space(table=table, covers=covers_of(table), crowded=crowded_nodes(table), count=count)
        self.nearest = self.cheapest_nodes()
        self.best = self.near(search(self.nearest, pricing.full.prices(0), count))
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

    def near(self, chosen: Sequence[int]) -> Found:
        """The choice of some of the covers of the nearest nodes, or a better one near it."""
        return near(self.nearest, chosen, self.pricing.full)

    def cheapest_nodes(self) -> Covers:
        """Covers of the nodes that are cheap where each job is shared out; of crowded ones, good covers."""
        loss, full, space = self.pricing.loss, self.pricing.full, self.space
        step_price = step_price_of(space, loss)
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
        """Steps 2 and 3 for an objective: what is left of the space for choices below the limit."""
        bounds = shared_bounds(self.space, objective, limit())
        if bounds.space is not None and objective.timed and self.try_step_prices():
            bounds = bounds.then(shared_bounds(bounds.space, objective, limit()))
        while bounds.space is not None:
            relaxed = relax(bounds.space, objective)
            if relaxed is None:
                break
            known = self.best.cost
            if len(relaxed.chosen) == self.space.count:
                self.offer(near(relaxed.space.covers, relaxed.chosen, self.pricing.full))
            bounds = bounds.then(relaxed.bounds(limit()))
            if self.best.cost == known:
                break
        return bounds

    def try_step_prices(self) -> bool:
        """Search at several prices of a serial step, for one at which those used just fit into the budget.
        Whether the best choice is a better one now.
        """
        full = self.pricing.full
        critical = critical_step_prices(full)
        least, best = self.best.cost, list[int]()
        low, high = 1, len(critical) - 1
        while low <= high and least >= full.scale:
            middle = (low + high) // 2
            prices = full.prices(critical[middle])
            chosen = search(self.nearest, prices, self.space.count)
            cost = choice_of(self.nearest, chosen, full).cost
            if cost < least:
                least, best = cost, chosen
            jobs = np.unique(np.concatenate([self.nearest.jobs_of(cover) for cover in chosen]))
            if full.steps[jobs][prices[jobs] < full.plain[jobs]].sum() <= full.budget_steps:
                high = middle - 1
            else:
                low = middle + 1
        if best:
            self.offer(self.near(best))
        return bool(best)

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
