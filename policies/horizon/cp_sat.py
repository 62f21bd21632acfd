"""OR-Tools' CP-SAT, an optional dependency (`makeway[solver]`), imported only when a problem is to be solved.

Reference: Perron and Furnon, OR-Tools, CP-SAT (Google; Apache-2.0).
"""

from enum import StrEnum
from types import ModuleType

from makeway.policies.contract import PolicyError


class SolverUnavailable(PolicyError):
    """A policy or an experiment needs OR-Tools, which is not installed. The message names the extra to
    install.
    """


class Proof(StrEnum):
    """What a solver's result proves."""

    OPTIMAL = "optimal"  # proven: there is no better one
    FEASIBLE = "feasible"  # the best that was found in the time given
    INFEASIBLE = "infeasible"  # proven: there is no solution
    UNKNOWN = "unknown"  # no solution was found in the time given


def cp_sat() -> ModuleType:
    """The module with CP-SAT's model and solver.

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
    """CP-SAT's status as a `Proof`."""
    model = cp_sat()
    return {
        model.OPTIMAL: Proof.OPTIMAL,
        model.FEASIBLE: Proof.FEASIBLE,
        model.INFEASIBLE: Proof.INFEASIBLE,
    }.get(status, Proof.UNKNOWN)
