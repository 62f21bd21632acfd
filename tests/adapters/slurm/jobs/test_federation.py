"""Jobs of a federation: room is made for those that were submitted to this cluster."""

from dataclasses import replace

import pytest

from makeway.adapters.site.times import NOT_BEFORE_S
from makeway.adapters.slurm.waiting.federation import (
    FROM_ELSEWHERE,
    SHOW_FEDERATION,
    not_bindable,
    origin,
    own_number,
)
from tests.adapters.slurm.fake_slurm import RUNNING, FakeSlurm, adapter_of
from tests.adapters.slurm.jobs.raw_jobs import ANY, PENDING, translated
from tests.adapters.slurm.test_parse import ROW

FEDERATION = """Federation: fed
Self:       makeway-dev:127.0.0.1:20030 ID:1 FedState:ACTIVE Features:
Sibling:    other:127.0.0.1:27697 ID:2 FedState:ACTIVE Features: PersistConnSend/Recv:Yes/Yes Synced:Yes
"""
"""As 22.05 prints it."""
OF_FIRST, OF_SECOND = "67108869", "134217729"
"""Jobs whose origin is the first, and the second cluster of a federation, as 22.05 numbers them."""


def test_the_own_number_is_that_of_the_first_line() -> None:
    assert own_number(FEDERATION) == 1
    assert own_number("") is None


def test_the_id_of_a_job_says_its_origin() -> None:
    assert [origin(job_id) for job_id in ("17", "67043328", OF_FIRST, OF_SECOND)] == [0, 0, 1, 2]
    assert [origin(f"{OF_SECOND}{part}") for part in ("_3", "+1")] == [2, 2]


def test_only_waiting_jobs_of_other_clusters_cannot_be_bound() -> None:
    waiting = [replace(PENDING, job_id=job_id) for job_id in ("17", OF_FIRST, OF_SECOND)]
    runs = replace(PENDING, job_id="134217730", nodes=("n1",))
    component = replace(PENDING, job_id="134217731+1", heterogeneous=True)
    found = not_bindable([*waiting, runs, component], lambda: 1)
    assert found == {OF_SECOND: FROM_ELSEWHERE, "134217731": FROM_ELSEWHERE}


def test_without_a_job_of_a_federation_no_number_is_asked_for() -> None:
    assert not_bindable([PENDING], lambda: pytest.fail("asked")) == {}


def test_a_job_of_another_cluster_waits_for_its_origin() -> None:
    job = translated(replace(PENDING, job_id=OF_SECOND), ANY, no_room={OF_SECOND: FROM_ELSEWHERE})
    assert (job.blocked_by, job.eligible_s) == (FROM_ELSEWHERE, NOT_BEFORE_S)


def test_a_job_that_another_cluster_tries_to_start_was_not_looked_at() -> None:
    """Its hold stays: the next moment Slurm tries to start it here."""
    job = translated(replace(PENDING, job_id=OF_FIRST, reason="FedJobLock"), ANY)
    assert (job.blocked_by, job.examined) == ("", False)


def test_the_number_of_the_cluster_is_read_once() -> None:
    waiting = ROW | {"QOS": "urgent"}
    rows = (waiting | {"JobArrayID": OF_FIRST}, waiting | {"JobArrayID": OF_SECOND}, RUNNING)
    slurm = FakeSlurm(*rows, script=((0, FEDERATION, ""),))
    adapter = adapter_of(slurm)
    for _ in range(2):
        jobs = adapter.snapshot().jobs_by_id()
        assert [jobs[job_id].blocked_by for job_id in (OF_FIRST, OF_SECOND)] == ["", FROM_ELSEWHERE]
    assert slurm.calls.count(SHOW_FEDERATION) == 1
