"""What the site protects counts in the form in which a waiting job of Slurm names it."""

from dataclasses import replace
from typing import Any

import pytest

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.slurm.entitlement.several_qos import with_counting_qos
from makeway.policies.least_price.settings import LeastPriceConfig
from makeway.policies.model import JobKind, Limits
from makeway.policies.safety.protection import Refusal, start_protection
from tests.adapters.slurm.jobs.raw_jobs import PENDING, translated
from tests.builders import cluster

OPTED_IN = JobClass(name="batch", preemptible=True)
URGENT = JobClass(name="urgent", kind=JobKind.ON_DEMAND)
LIMITS = Limits(protected_qos=frozenset({"vip"}), protected_partitions=frozenset({"gpu"}))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"partitions": ("batch", "other")}, None),
        ({"partitions": ("batch", "gpu")}, Refusal.PROTECTED_PARTITION),
        ({"partitions": ("gpu", "batch")}, Refusal.PROTECTED_PARTITION),
        ({"qos": "normal,low"}, None),
        ({"qos": "normal,vip"}, Refusal.PROTECTED_QOS),
    ],
)
def test_a_job_that_may_run_in_what_is_protected_is_not_moved(
    changes: dict[str, Any], expected: Refusal | None
) -> None:
    """Slurm may start it there: no policy gives it a place in the queue or lets it start early."""
    raw = replace(PENDING, batch=True, requeueable=True, **changes)
    job = translated(with_counting_qos(raw, (OPTED_IN,)), OPTED_IN)
    assert start_protection(job, replace(cluster(2, job), limits=LIMITS)) is expected


@pytest.mark.parametrize(
    ("qos", "vital"),
    [("beam", True), ("beam,alarm", True), ("beam,urgent", False), ("urgent", False), ("", False)],
)
def test_a_job_of_several_qos_is_vital_if_all_of_them_are(qos: str, vital: bool) -> None:
    """Slurm may start it by any of them, so that the limits of no other one are passed."""
    config = LeastPriceConfig(vital_qos=frozenset({"beam", "alarm"}))
    assert config.is_vital(translated(replace(PENDING, qos=qos), URGENT)) is vital
