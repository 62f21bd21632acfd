"""OR-Tools' CP-SAT, loaded when something is to be solved: it is an extra (`makeway[solver]`) that nobody else pays for.

Reference: Perron and Furnon, OR-Tools, CP-SAT (Google; Apache-2.0).
"""

from enum import StrEnum
from types import ModuleType

from makeway.policies.contract import PolicyError


class SolverUnavailable(PolicyError):
    """A policy or an experiment is asked for that needs OR-Tools, which is not installed. The message names the extra."""


class Proof(StrEnum):
    """What a solver's answer is worth."""

    OPTIMAL = "optimal"  # proven: nothing is better
    FEASIBLE = "feasible"  # the best that was found in the time given
    INFEASIBLE = "infeasible"  # proven: there is nothing
    UNKNOWN = "unknown"  # the time was over before anything was found


def cp_sat() -> ModuleType:
    """The module of CP-SAT's model and solver.

    Raises:
        SolverUnavailable: OR-Tools is not installed.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise SolverUnavailable(
            f"planning needs OR-Tools: pip install 'makeway[solver]' ({error})"
        ) from error
    return cp_model


def proof_of(status: int) -> Proof:
    """CP-SAT's status in our words."""
    model = cp_sat()
    return {
        model.OPTIMAL: Proof.OPTIMAL,
        model.FEASIBLE: Proof.FEASIBLE,
        model.INFEASIBLE: Proof.INFEASIBLE,
    }.get(status, Proof.UNKNOWN)
