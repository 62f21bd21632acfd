"""Components of heterogeneous jobs: which job they belong to, and why it is not served. Tasks of arrays."""

from dataclasses import replace

from makeway.adapters.site.job_class import JobClass
from makeway.adapters.site.times import NOT_BEFORE_S
from makeway.adapters.slurm.waiting.served import not_served
from makeway.policies.model import JobKind
from tests.adapters.slurm.jobs.raw_jobs import ANY, PENDING, RUNNING, translated

URGENT = JobClass(name="u", kind=JobKind.ON_DEMAND, users=frozenset({"alice"}))
COMPONENT = replace(PENDING, job_id="7+0", heterogeneous=True)


def test_an_urgent_component_is_an_urgent_job_and_names_the_whole_one() -> None:
    job = translated(COMPONENT, URGENT)
    assert (job.kind, job.het_job_id, job.blocked_by, job.eligible_s) == (JobKind.ON_DEMAND, "7", "", None)
    assert translated(replace(PENDING, job_id="7_0"), URGENT).het_job_id == ""
    runs = translated(replace(RUNNING, job_id="7+1", heterogeneous=True), URGENT)
    assert (runs.kind, runs.het_job_id, runs.preemptible) == (JobKind.ON_DEMAND, "7", False)


def test_a_task_of_an_array_names_the_array() -> None:
    arrays = {
        job_id: translated(replace(PENDING, job_id=job_id), ANY).array_job_id for job_id in ("7_0", "7")
    }
    assert arrays == {"7_0": "7", "7": ""}


def test_another_component_waits_for_the_others() -> None:
    job = translated(COMPONENT, ANY)
    assert (job.blocked_by, job.eligible_s) == ("its other components, with which it starts", NOT_BEFORE_S)


def test_a_component_says_why_its_job_is_not_served() -> None:
    other = replace(COMPONENT, job_id="7+1", user="bob")
    half = {"7": "its other components, not all of which are urgent"}
    assert not_served((PENDING, COMPONENT, other), (URGENT, ANY)) == half
    assert not_served((PENDING, COMPONENT, other), (URGENT,)) == half
    leaving = replace(COMPONENT, job_id="7+1", state="COMPLETING", nodes=("n1",))
    busy = {"7": "its other components, which still have nodes"}
    assert not_served((COMPONENT, leaving), (URGENT,)) == busy
    assert not_served((COMPONENT, replace(COMPONENT, job_id="7+1")), (URGENT,)) == {}
    assert translated(COMPONENT, URGENT, no_room=half).blocked_by == half["7"]
    assert translated(replace(COMPONENT, job_id="8+0"), URGENT, no_room=half).blocked_by == ""
