"""What jobs report because makeway asked them to save says nothing of other jobs of their class."""

from dataclasses import replace
from pathlib import Path

import pytest

from makeway.daemon.journal.store import Journal
from makeway.policies.model import CheckpointSpec, Job
from tests.builders import cluster, node_names, running, urgent
from tests.daemon.control.loops import daemon
from tests.fakes import FakeAdapter

FIRST, SECOND = node_names(2)
ON_SIGNAL = CheckpointSpec(system_s=10.0)


def saving(job_id: str, node: str) -> Job:
    return replace(running(job_id, (node,), start_s=500.0, checkpoint=ON_SIGNAL), job_class="on signal")


@pytest.mark.parametrize("starts_again", [False, True])
def test_the_next_job_is_asked_to_save_its_work_too(tmp_path: Path, starts_again: bool) -> None:
    adapter = FakeAdapter(cluster(2, urgent("u", 1, submit_s=990.0), saving("a", FIRST), saving("b", SECOND)))
    journal = Journal(tmp_path / "journal.sqlite")
    loop = daemon(adapter, journal)
    loop.reconcile()
    loop.reconcile()
    (asked,) = [job_id for verb, job_id in adapter.calls if verb == "checkpoint"]

    now_s = adapter.view.now_s + 5.0
    jobs = [
        replace(job, last_checkpoint_s=now_s) if job.job_id == asked else job for job in adapter.view.jobs
    ]
    adapter.view = replace(adapter.view, now_s=now_s, jobs=(*jobs, urgent("w", 1, submit_s=now_s)))
    if starts_again:
        journal.close()
        journal = Journal(tmp_path / "journal.sqlite")
        loop = daemon(adapter, journal)
    loop.reconcile()
    loop.reconcile()
    journal.close()
    other = "b" if asked == "a" else "a"
    assert [name for verb, name in adapter.calls if verb == "requeue"] == [asked]
    assert ("checkpoint", other) in adapter.calls
