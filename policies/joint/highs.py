"""HiGHS, which solves the programme: relaxed, for a bound and for prices; or whole.

Reference: Huangfu and Hall, "Parallelizing the dual revised simplex method" (Mathematical Programming
Computation 2018); HiGHS (MIT licence), imported only when a programme is to be solved.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from makeway.policies.choice.highs import MOST_NODES, SearchEffort
from makeway.policies.joint.instance import JointInstance, JointResult
from makeway.policies.joint.kinds import NodeKind
from makeway.policies.joint.programme import JointProgramme, cell_count, programme_of

if TYPE_CHECKING:
    import highspy

MOST_RELAXED_CELLS = 20_000
"""How many entries a relaxed programme may have: a larger one is not solved."""
MOST_CELLS = 6_000
"""The same for a whole programme."""
MOST_ITERATIONS = 5_000
"""How many steps HiGHS takes at most to solve a relaxed programme."""
MOST_WORK = 120_000
"""How often HiGHS looks at most whether it is to end, times the entries, for all whole programmes of one
choice. Like the others, it is an effort that depends on neither the machine nor its load."""
FEWEST_LOOKS = 5
"""How often HiGHS may look at least for one programme."""
_TOLERANCE = 1e-5
"""By how much a bound of HiGHS may be too high."""
_HALF = 0.5


class NoChoiceError(Exception):
    """The nodes of a programme do not serve all components."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duals:
    """The solution of a relaxed programme as prices."""

    value: float
    """Its least loss, in node-seconds."""
    node_prices: tuple[float, ...]
    """By component: how much less would be lost if it needed one node less."""
    left: Mapping[str, float]
    """By job: what its leaving costs beyond what the nodes of the programme pay for it."""
    kinds: tuple[NodeKind, ...]
    """The nodes of the programme."""
    dearer: Mapping[tuple[int, int, int], float]
    """By kind, component and number of a cover: how much more than `value` a choice with it loses at least.
    """

    def below(self, more_node_s: float) -> list[NodeKind]:
        """The kinds with the covers by which a choice loses at most so much more than `value`."""
        kept: list[NodeKind] = []
        for number, kind in enumerate(self.kinds):
            listed = {
                index: tuple(
                    cover
                    for place, cover in enumerate(covers)
                    if self.dearer.get((number, index, place), 0.0) <= more_node_s
                )
                for index, covers in kind.covers.items()
            }
            covers = {index: covers for index, covers in listed.items() if covers}
            if covers or kind.crowded:
                kept.append(replace(kind, covers=covers))
        return kept


def solve_relaxed(instance: JointInstance, kinds: Sequence[NodeKind]) -> Duals | None:
    """The relaxed programme of some kinds. None: it is too large, or HiGHS did not solve it.

    Raises:
        NoChoiceError: these kinds do not serve all components.
    """
    import highspy

    if cell_count(kinds) > MOST_RELAXED_CELLS:
        return None
    programme, layout = programme_of(instance, kinds)
    solver = _solver(programme)
    solver.setOptionValue("simplex_iteration_limit", MOST_ITERATIONS)
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        raise NoChoiceError
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    solution = solver.getSolution()
    reduced = solution.col_dual
    return Duals(
        value=solver.getInfo().objective_function_value,
        node_prices=tuple(solution.row_dual[-len(instance.components) :]),
        left={
            job_id: max(0.0, min(reduced[column] for column, _ in ways))
            for job_id, ways in layout.leaving.items()
        },
        kinds=tuple(kinds),
        dearer={place: reduced[column] for column, place in layout.covers.items()},
    )


@dataclass(slots=True)
class JointEffort:
    """What HiGHS may still do for the whole programmes of one choice."""

    work_left: int = field(default_factory=lambda: MOST_WORK)

    def run(self, solver: "highspy.Highs", entries: int) -> None:
        """Solve a programme with so many entries, and end it when the effort is used up."""
        search = SearchEffort(max(FEWEST_LOOKS, self.work_left // entries))
        given = search.looks_left
        solver.cbMipInterrupt.subscribe(search.look)
        solver.run()
        self.work_left -= (given - search.looks_left) * entries


def solve_whole(
    instance: JointInstance,
    kinds: Sequence[NodeKind],
    below_node_s: int,
    effort: JointEffort,
    time_limit_s: float,
) -> JointResult | None:
    """The best choice that the effort allows, and a bound. None: there is none.

    Args:
        instance: the jobs and the components.
        kinds: the nodes that may be chosen.
        below_node_s: only choices that lose less are looked for.
        effort: what HiGHS may still do.
        time_limit_s: when HiGHS ends even if its effort is not used up: a guard, no part of the effort.
    """
    import highspy

    programme, layout = programme_of(instance, kinds)
    solver, width = _solver(programme), len(programme.costs)
    whole = np.full(width, highspy.HighsVarType.kInteger.value, dtype=np.uint8)
    solver.changeColsIntegrality(width, np.arange(width, dtype=np.int32), whole)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 1.0 - 2 * _TOLERANCE)
    solver.setOptionValue("mip_max_nodes", MOST_NODES)
    solver.setOptionValue("time_limit", time_limit_s)
    solver.setOptionValue("objective_bound", below_node_s - _HALF)
    effort.run(solver, max(1, len(programme.values)))
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    solution, info = solver.getSolution(), solver.getInfo()
    least = _whole(info.mip_dual_bound) if math.isfinite(info.mip_dual_bound) else 0
    if not solution.value_valid:
        return JointResult(bound_node_s=least)
    choice = layout.choice(solution.col_value)
    return JointResult(bound_node_s=min(least, choice.loss_node_s), choice=choice)


def _solver(programme: JointProgramme) -> "highspy.Highs":
    """HiGHS with the relaxed programme, on one thread."""
    import highspy

    width = len(programme.costs)
    solver = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("parallel", "off")):
        solver.setOptionValue(option, value)
    solver.passModel(
        width,
        len(programme.lower),
        len(programme.values),
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        np.array(programme.costs, dtype=np.float64),
        np.zeros(width),
        np.array(programme.most, dtype=np.float64),
        np.array(programme.lower, dtype=np.float64),
        np.array(programme.upper, dtype=np.float64),
        np.array(programme.begins, dtype=np.int32),
        np.array(programme.columns, dtype=np.int32),
        np.array(programme.values, dtype=np.float64),
        np.zeros(width, dtype=np.int32),
    )
    return solver


def _whole(value: float) -> int:
    """A bound in whole node-seconds."""
    return math.ceil(max(0.0, value) - _TOLERANCE)
