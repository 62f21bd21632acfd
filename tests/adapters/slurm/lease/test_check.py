"""What `makeway doctor` says of the lease."""

import pytest

from makeway.adapters.site.checks import Level
from makeway.adapters.slurm.lease.check import check_lease
from tests.adapters.slurm.test_doctor import slurm


@pytest.mark.parametrize("enforce", ["associations,limits", "safe", "qos", "all"])
def test_a_lease_that_slurm_would_refuse_is_a_problem(enforce: str) -> None:
    settings = {"AccountingStorageEnforce": enforce}
    check = check_lease(slurm(settings, associated=frozenset({1001})), acts=True)
    assert check is not None
    assert (check.level, check.name) == (Level.PROBLEM, "lease")
    assert "neither root nor makeway has an account on this cluster" in check.text
    assert check_lease(slurm(settings, associated=frozenset({1001})), acts=False) is None


@pytest.mark.parametrize(
    ("enforce", "associated"),
    [
        ("limits", frozenset({0})),
        ("limits", frozenset({991})),
        ("limits", None),
        ("none", frozenset[int]()),
        ("(null)", frozenset[int]()),
    ],
)
def test_a_lease_that_slurm_would_take_is_no_matter(enforce: str, associated: frozenset[int] | None) -> None:
    survey = slurm({"AccountingStorageEnforce": enforce}, associated=associated)
    assert check_lease(survey, acts=True) is None
