"""Policies that need HiGHS and policies that need OR-Tools can be used in one process."""

import subprocess
import sys

import pytest

pytest.importorskip("ortools")
IMPORTS = ("import highspy", "from ortools.sat.python import cp_model")


@pytest.mark.parametrize("order", [IMPORTS, IMPORTS[::-1]], ids=["highs-first", "ortools-first"])
def test_both_solvers_are_there(order: tuple[str, ...]) -> None:
    """OR-Tools brings a HiGHS of its own: whichever library is loaded first must not hide the other."""
    done = subprocess.run(
        [sys.executable, "-c", "; ".join(order)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
