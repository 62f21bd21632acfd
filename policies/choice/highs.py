"""HiGHS, which solves the programme: relaxed, for prices and for parts to round; or whole.

Reference: Huangfu and Hall, "Parallelizing the dual revised simplex method" (Mathematical Programming
Computation 2018); HiGHS (MIT licence), imported only when a programme is to be solved.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from makeway.policies.choice.bounds import Bounds, Space
from makeway.policies.choice.crowded import cover_in_order
from makeway.policies.choice.prices import ROUNDED_DOWN, CostObjective
from makeway.policies.choice.programme import Programme, programme_of
from makeway.policies.choice.table import ChoiceTable, Integers, Reals

if TYPE_CHECKING:
    import highspy

MOST_NODES = 2_000
"""How many nodes of its search tree HiGHS visits at most."""
MOST_WORK = 400_000
"""How often HiGHS looks at most whether it is to end, times the entries of the programme: a few seconds. Like
`MOST_NODES`, it is an effort that depends on neither the machine nor its load."""
_FEWEST_LOOKS = 20
_TOLERANCE = 1e-5
"""By how much a bound of HiGHS may be too high."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relaxed:
    """The solution of the relaxed programme."""

    least: int
    """No choice of the space costs less, as far as HiGHS' floating-point numbers are right."""
    prices: Integers | None
    """A price of each place at which a bound is valid. None: there are crowded nodes."""
    paid: int
    """What the serial steps of the budget cost at these prices."""
    space: Space
    """The same space, with the covers of crowded nodes that the solution takes."""
    chosen: tuple[int, ...]
    """Covers of as many nodes as are needed: those that the solution takes the most of."""

    def bounds(self, limit: int) -> Bounds:
        """What the solution says about choices that cost less than a limit."""
        if self.prices is not None:
            return self.space.below(limit, self.prices, self.paid)
        return Bounds(least=min(self.least, limit), space=self.space if self.least < limit else None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solved:
    """What HiGHS found for the whole programme."""

    least: int
    """No choice of the space costs less than this, or than the limit."""
    space: Space
    """As in `Relaxed`."""
    chosen: tuple[int, ...]
    """The covers taken. Empty: it found no choice."""
    by_time: bool
    """Whether the time limit ended it, so that a slower machine may find less."""


@dataclass(slots=True)
class SearchEffort:
    """How often HiGHS may still look whether it is to end. It looks at fixed places of its algorithm."""

    looks_left: int

    @classmethod
    def of(cls, entries: int) -> "SearchEffort":
        """The effort for a programme by the entries of its matrix: the larger it is, the fewer looks."""
        return cls(max(_FEWEST_LOOKS, MOST_WORK // entries))

    def look(self, event: "highspy.HighsCallbackEvent") -> None:
        """HiGHS looks: end it if that was the last time."""
        self.looks_left -= 1
        if self.looks_left <= 0:
            event.interrupt()


def relax(space: Space, objective: CostObjective) -> Relaxed | None:
    """The relaxed programme. None: HiGHS did not solve it."""
    programme = programme_of(space, objective)
    solver = _solver(programme)
    solver.run()
    solution = solver.getSolution()
    if not (solution.value_valid and solution.dual_valid):
        return None
    duals = np.maximum(0.0, -np.array(solution.row_dual)) * objective.scale
    step_price = round(duals[-1]) if len(programme.layout.timed) else 0
    prices = None
    if not len(programme.layout.crowded):
        prices = _prices(space, programme, objective, duals, step_price)
    with_covers, chosen = _rounded(space, programme, np.array(solution.col_value))
    return Relaxed(
        least=_whole(solver.getInfo().objective_function_value, objective),
        prices=prices,
        paid=step_price * objective.budget_steps,
        space=with_covers,
        chosen=chosen,
    )


def solve_whole(space: Space, objective: CostObjective, limit: int, time_limit_s: float) -> Solved:
    """The whole programme, in whole node-seconds, within an effort and a time.

    Args:
        space: where choices are looked for.
        objective: the loss.
        limit: choices that cost at least this are not looked for.
        time_limit_s: when HiGHS ends even if its effort is not used up: a guard, no part of the effort.
    """
    import highspy

    programme = programme_of(space, objective)
    solver = _solver(programme)
    width = len(programme.costs)
    whole = np.full(width, highspy.HighsVarType.kInteger.value, dtype=np.uint8)
    solver.changeColsIntegrality(width, np.arange(width, dtype=np.int32), whole)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 1.0 - 2 * _TOLERANCE)
    solver.setOptionValue("mip_max_nodes", MOST_NODES)
    solver.setOptionValue("mip_heuristic_run_feasibility_jump", False)  # good choices are known already
    solver.setOptionValue("time_limit", time_limit_s)
    solver.setOptionValue("objective_bound", (limit - 1) / objective.scale + 0.5)
    effort = SearchEffort.of(len(programme.values))
    solver.cbMipInterrupt.subscribe(effort.look)
    solver.run()
    solution = solver.getSolution()
    chosen: tuple[int, ...] = ()
    if solution.value_valid:
        space, chosen = _rounded(space, programme, np.array(solution.col_value))
    least, status = limit, solver.getModelStatus()
    if status != highspy.HighsModelStatus.kInfeasible:
        dual = solver.getInfo().mip_dual_bound
        least = min(limit, _whole(dual, objective)) if math.isfinite(dual) else 0
    by_time = status == highspy.HighsModelStatus.kTimeLimit
    return Solved(least=least, space=space, chosen=chosen, by_time=by_time)


def _solver(programme: Programme) -> "highspy.Highs":
    """HiGHS with the relaxed programme, on one thread."""
    import highspy

    width = len(programme.costs)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("parallel", "off")
    solver.passModel(
        width,
        len(programme.lower),
        len(programme.values),
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        programme.costs,
        np.zeros(width),
        np.ones(width),
        programme.lower,
        programme.upper,
        programme.begins.astype(np.int32),
        programme.rows.astype(np.int32),
        programme.values,
        np.zeros(width, dtype=np.int32),
    )
    return solver


def _whole(value: float, objective: CostObjective) -> int:
    """A finite bound in whole units of the objective, as a cost; 0 for none."""
    return math.ceil(max(0.0, value) - _TOLERANCE) * objective.scale


def _prices(
    space: Space, programme: Programme, objective: CostObjective, duals: Reals, step_price: int
) -> Integers:
    """Whole prices of all places near the duals: on any nodes that can be chosen together, a job costs at
    most what its leaving costs.
    """
    layout, table = programme.layout, space.table
    least = objective.prices(step_price)
    size = len(least)
    jobs = table.place_job[layout.places]
    own = duals[layout.first_place : layout.first_wide]
    everywhere = np.zeros(size)
    everywhere[layout.wide] = duals[layout.first_wide : layout.first_want]
    nodes = np.minimum(space.count, np.maximum(1, np.bincount(jobs, minlength=size)))
    asked = np.bincount(jobs, weights=own, minlength=size) + nodes * everywhere
    factor = np.minimum(1.0, least / np.maximum(asked, 1e-9)) * ROUNDED_DOWN
    own_whole = np.floor(own * factor[jobs]).astype(np.int64)
    everywhere_whole = np.floor(everywhere * factor).astype(np.int64)
    given = nodes * everywhere_whole
    np.add.at(given, jobs, own_whole)
    everywhere_whole += np.maximum(0, least - given) // nodes
    prices = least[table.place_job]
    prices[layout.places] = own_whole + everywhere_whole[jobs]
    return prices


def _rounded(space: Space, programme: Programme, values: Reals) -> tuple[Space, tuple[int, ...]]:
    """The covers of different nodes that a solution takes the most of; on a crowded node, those jobs that
    leave the most, as far as they are needed.
    """
    layout, covers = programme.layout, space.covers
    taken = [
        (-part, int(covers.node[number]), number)
        for number, part in zip(layout.numbers.tolist(), values[: layout.first_crowded].tolist(), strict=True)
        if part > _TOLERANCE
    ]
    parts = values[layout.first_crowded : layout.first_split].tolist()
    taken += [
        (-part, node, -1)
        for node, part in zip(layout.crowded.tolist(), parts, strict=True)
        if part > _TOLERANCE
    ]
    best: dict[int, int] = {}
    for _, node, number in sorted(taken):
        if len(best) < space.count:
            best.setdefault(node, number)
    leaving = np.zeros(len(space.table.jobs))
    leaving[layout.linked] = values[layout.first_plain : layout.first_serial]
    leaving[layout.timed] += values[layout.first_serial :]
    more = [(node, _crowded_cover(space.table, node, leaving)) for node, number in best.items() if number < 0]
    wider = replace(space, covers=covers.extended(space.table, more))
    added = np.sort(np.array([node for node, _ in more], dtype=np.int64))
    last = np.searchsorted(wider.covers.node, list(best), side="right") - 1
    moved = np.searchsorted(added, list(best))
    chosen = [
        int(end) if number < 0 else number + int(shift)
        for number, end, shift in zip(best.values(), last, moved, strict=True)
    ]
    return wider, tuple(chosen)


def _crowded_cover(table: ChoiceTable, node: int, leaving: Reals) -> tuple[int, ...]:
    """A cover of a crowded node by the jobs that leave the most."""
    here = np.arange(int(table.first_place[node]), int(table.first_place[node + 1]))
    order = np.argsort(-leaving[table.place_job[here]], kind="stable")
    return cover_in_order(table, node, here[order].tolist())
