"""Since when an urgent job waits, by what squeue says."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.resources.eligibility import reservation_lost
from makeway.policies.model import JobKind
from tests.adapters.slurm.jobs.raw_jobs import NOW_S, PENDING, translated


@pytest.mark.parametrize(
    ("changes", "waits_since_s"),
    [
        ({"eligible_s": NOW_S - 500}, NOW_S - 500),
        ({"eligible_s": NOW_S - 100}, NOW_S - 100),
        ({"eligible_s": NOW_S - 600}, NOW_S - 500),
        ({"reason": "BeginTime", "eligible_s": NOW_S + 60}, NOW_S + 60),
        ({"reason": "Dependency", "eligible_s": None}, NOW_S - 500),
        ({"reason": "JobHeldUser", "priority": 0, "eligible_s": None}, NOW_S - 500),
        ({"reason": "None", "eligible_s": None}, NOW_S),
        ({"state": "RUNNING", "nodes": ("n1", "n2"), "start_s": NOW_S, "eligible_s": NOW_S - 9}, NOW_S - 9),
    ],
)
def test_since_when_an_urgent_job_waits(changes: dict[str, Any], waits_since_s: float) -> None:
    """As squeue shows it on 22.05 and 24.11."""
    raw = replace(PENDING, submit_s=NOW_S - 500, **changes)
    assert translated(raw, JobClass(name="u", kind=JobKind.ON_DEMAND)).waits_since_s == waits_since_s
    assert translated(raw).eligible_since_s is None, "of no other job"


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "Resources"},
        {"reason": "JobHeldUser", "priority": 0},
        {"reason": "ReservationDeleted"},
        {"state": "PENDING"},
        {"nodes": ("n1",)},
    ],
)
def test_a_job_is_kept_from_starting_only_while_its_reason_says_so(changes: dict[str, Any]) -> None:
    """Slurm leaves it in that state until it starts."""
    raw = replace(PENDING, state="RESV_DEL_HOLD", reason="Reservation (null) is invalid")
    assert not reservation_lost(replace(raw, **changes))
