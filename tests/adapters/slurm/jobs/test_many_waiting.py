"""More urgent jobs wait than makeway reads the whole requests of in one cycle."""

import pytest

from makeway.adapters.slurm.waiting.served import MOST_READ, UNREAD
from makeway.policies.common.urgent_jobs import urgent_jobs
from makeway.policies.model import Cluster, Job
from tests.adapters.slurm.fake_slurm import NOW_S, FakeSlurm, adapter_of, made_reservation
from tests.adapters.slurm.test_parse import ROW

HOLD = "makeway_c.299"


def row(number: int, **changes: str) -> dict[str, str]:
    eligible = {"EligibleTime": f"{NOW_S - 60:.0f}", "PriorityLong": "1000"}
    return ROW | {"JobArrayID": str(number), "QOS": "urgent", "Reason": "Resources"} | eligible | changes


def snapshot_of(*rows: dict[str, str], release: str = "22.05.8") -> tuple[Cluster, dict[str, Job]]:
    """On 22.05 the details alone tell that no job wants the nodes n1 and n2."""
    slurm = FakeSlurm(*rows, release=release)
    slurm.reservations = {HOLD: made_reservation(HOLD)}
    cluster = adapter_of(slurm).snapshot()
    return cluster, {job.job_id: job for job in cluster.jobs}


def served(cluster: Cluster) -> set[str]:
    return {one.job.job_id for one in urgent_jobs(cluster)}


def test_no_room_is_made_for_a_job_whose_request_is_not_read() -> None:
    """Until now jobs left for it on nodes that it excludes."""
    cluster, jobs = snapshot_of(*[row(number) for number in range(MOST_READ + 2)])
    wanted = frozenset(f"n{number}" for number in range(3, 9))
    read = {job_id for job_id, job in jobs.items() if job.eligible_nodes == wanted}
    assert read == served(cluster) == {str(number) for number in range(MOST_READ)}
    assert {jobs[str(number)].blocked_by for number in range(MOST_READ, MOST_READ + 2)} == {UNREAD}


@pytest.mark.parametrize(
    ("first", "others"),
    [
        ({"Reservation": HOLD}, {}),
        ({}, {"EligibleTime": "N/A", "Reason": "Dependency"}),
        ({}, {"PriorityLong": "0", "Reason": "JobHeldUser", "EligibleTime": "N/A"}),
        ({"PriorityLong": "1001"}, {}),
        ({"PriorityLong": "4294967200"}, {"Partition": "another"}),
    ],
    ids=["in its hold", "others depend", "others are held", "first in the queue", "in another partition"],
)
def test_the_jobs_that_could_start_next_are_read(first: dict[str, str], others: dict[str, str]) -> None:
    """In whatever order Slurm lists them: by their partitions first."""
    rows = [row(number, **others) for number in range(MOST_READ)]
    _, jobs = snapshot_of(*rows, row(299, **first))
    assert jobs["299"].blocked_by == ""


def test_what_a_job_lacks_by_slurm_s_reason_is_told_all_the_same() -> None:
    """The next job of a chain is awaited."""
    rows = [row(number) for number in range(MOST_READ)]
    _, jobs = snapshot_of(*rows, row(299, Reason="Dependency", EligibleTime="N/A"), row(300))
    assert jobs["299"].waits_for_another
    assert jobs["300"].blocked_by == UNREAD


def test_the_components_of_a_job_wait_together() -> None:
    rows = [row(number) for number in range(MOST_READ - 1)]
    parts = [row(299, JobArrayID=f"299+{part}", HetJobID="299", PriorityLong="999") for part in range(2)]
    _, jobs = snapshot_of(*rows, *parts)
    assert [jobs[name].blocked_by for name in ("299+0", "299+1")] == [UNREAD, UNREAD]


def test_all_are_read_of_no_more_than_that() -> None:
    cluster, jobs = snapshot_of(*[row(number) for number in range(MOST_READ)])
    assert served(cluster) == set(jobs)
