"""HiGHS, which solves the programme: relaxed, for a bound and for prices; or whole.

Reference: Huangfu and Hall, "Parallelizing the dual revised simplex method" (Mathematical Programming
Computation 2018); HiGHS (MIT licence), imported only when a programme is to be solved.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from makeway.policies.choice.highs import MOST_NODES, SearchEffort
from makeway.policies.joint.instance import JointInstance, JointResult
from makeway.policies.joint.kinds import NodeKind
from makeway.policies.joint.programme import JointProgramme, programme_of

if TYPE_CHECKING:
    import highspy

MOST_CELLS = 100_000
"""How many entries a programme may have: a larger one is not solved."""
_TOLERANCE = 1e-5
"""By how much a bound of HiGHS may be too high."""
_HALF = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Duals:
    """The solution of a relaxed programme as prices."""

    value: float
    """Its least loss, in node-seconds."""
    node_prices: tuple[float, ...]
    """By component: how much less would be lost if it needed one node less."""
    left: Mapping[str, float]
    """By job: what its leaving costs beyond what the nodes of the programme pay for it."""
    kept: tuple[NodeKind, ...]
    """The kinds with the covers by which a choice may lose less than the limit."""


def solve_relaxed(instance: JointInstance, kinds: Sequence[NodeKind], limit_node_s: int) -> Duals | None:
    """The relaxed programme of some kinds. None: HiGHS did not solve it.

    `limit_node_s`: only choices that lose less are looked for.
    """
    programme, layout = programme_of(instance, kinds)
    if len(programme.values) > MOST_CELLS:
        return None
    solver = _solver(programme)
    solver.run()
    solution = solver.getSolution()
    if not (solution.value_valid and solution.dual_valid):
        return None
    value, reduced = solver.getInfo().objective_function_value, solution.col_dual
    dearest = limit_node_s - _HALF - value
    dropped = {place for column, place in layout.covers.items() if reduced[column] > dearest}
    without = [_without(kind, number, dropped) for number, kind in enumerate(kinds)]
    return Duals(
        value=value,
        node_prices=tuple(solution.row_dual[-len(instance.components) :]),
        left={
            job_id: max(0.0, min(reduced[column] for column, _ in ways))
            for job_id, ways in layout.leaving.items()
        },
        kept=tuple(kind for kind in without if kind.components),
    )


def _without(kind: NodeKind, number: int, dropped: set[tuple[int, int, int]]) -> NodeKind:
    """A kind without some of its covers."""
    listed = {
        index: tuple(cover for place, cover in enumerate(covers) if (number, index, place) not in dropped)
        for index, covers in kind.covers.items()
    }
    return replace(kind, covers={index: covers for index, covers in listed.items() if covers})


def solve_whole(
    instance: JointInstance, kinds: Sequence[NodeKind], below_node_s: int | None, time_limit_s: float
) -> JointResult | None:
    """The best choice that the effort allows, and a bound. None: there is none.

    Args:
        instance: the jobs and the components.
        kinds: the nodes that may be chosen.
        below_node_s: only choices that lose less are looked for. None: all.
        time_limit_s: when HiGHS ends even if its effort is not used up: a guard, no part of the effort.
    """
    import highspy

    programme, layout = programme_of(instance, kinds)
    if len(programme.values) > MOST_CELLS:
        return JointResult(bound_node_s=0)
    solver, width = _solver(programme), len(programme.costs)
    whole = np.full(width, highspy.HighsVarType.kInteger.value, dtype=np.uint8)
    solver.changeColsIntegrality(width, np.arange(width, dtype=np.int32), whole)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 1.0 - 2 * _TOLERANCE)
    solver.setOptionValue("mip_max_nodes", MOST_NODES)
    solver.setOptionValue("time_limit", time_limit_s)
    if below_node_s is not None:
        solver.setOptionValue("objective_bound", below_node_s - _HALF)
    effort = SearchEffort.of(max(1, len(programme.values)))
    solver.cbMipInterrupt.subscribe(effort.look)
    solver.run()
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
