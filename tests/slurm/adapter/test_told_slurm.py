"""What a job finds in its output when it has to leave."""

import pytest

from makeway.policies.model import JobState
from tests import acts
from tests.slurm.support.world import SAVES, SlurmWorld
from tests.waiting import await_that

pytestmark = pytest.mark.slurm

WHOLE = ("--nodes=1", "--ntasks-per-node=2", "--time=30")


def run(world: SlurmWorld, *job_ids: str) -> None:
    def all_run() -> bool:
        jobs = world.adapter.snapshot().jobs_by_id()
        return all(one in jobs and jobs[one].state is JobState.RUNNING for one in job_ids)

    await_that("the jobs run", all_run)


def test_a_job_that_is_asked_to_save_is_told_so(slurm_world: SlurmWorld) -> None:
    cluster = slurm_world.cluster
    job_id = cluster.submit(SAVES, "--account=saving", *WHOLE)
    run(slurm_world, job_id)
    await_that("it can be signalled", lambda: "ready" in cluster.output(job_id))
    slurm_world.adapter.apply(acts.checkpoint(job_id, signal="USR1", walltime_s=0.0))
    asked = (
        "makeway (policy test) asks this job by signal USR1 to save its work and leave for job urgent, by 20"
    )
    await_that("it is told", lambda: asked in cluster.output(job_id), lambda: cluster.output(job_id))
    assert cluster.output(job_id).count("makeway (policy test)") == 1


def test_only_the_task_that_is_meant_is_told(slurm_world: SlurmWorld) -> None:
    cluster = slurm_world.cluster
    array = cluster.submit(SAVES, "--account=saving", "--array=1-2", "--output=task-%a.out", *WHOLE)
    # The last task has the number of the array.
    first, last = f"{array}_1", f"{array}_2"
    run(slurm_world, first, last)
    folder = cluster.folder / "work"
    for number in (1, 2):
        output = folder / f"task-{number}.out"
        await_that("it can be signalled", lambda of=output: of.exists() and "ready" in of.read_text())  # type: ignore[misc]
    slurm_world.adapter.apply(acts.checkpoint(first, signal="USR1", walltime_s=0.0))
    await_that("the first is told", lambda: "makeway" in (folder / "task-1.out").read_text())
    assert "makeway" not in (folder / "task-2.out").read_text()
