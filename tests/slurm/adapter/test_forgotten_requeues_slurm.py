"""A slurmctld that is killed right after a requeue forgets it, and takes the end of the job for its own. The
requeue of a job that has ended by then is not forgotten.
"""

from contextlib import suppress

import pytest

from makeway.adapters.protocol import Gone
from makeway.adapters.slurm import build
from makeway.adapters.slurm.access import SlurmClient
from makeway.policies.model import RunIdentity
from tests import acts
from tests.adapters.conformance import job_of, over, running, waits
from tests.slurm.support.controller import revive_controller
from tests.slurm.support.world import SlurmWorld
from tests.waiting import await_that

pytestmark = pytest.mark.slurm


ENDS_LATE = """
end() {
    echo to end
    until [ -e "end-$SLURM_JOB_ID" ]; do sleep 0.2; done
    trap - TERM
    kill $$
}
trap end TERM
echo begun
while :; do sleep 1; done
"""
"""SIGTERM ends it when it is told so: after slurmctld has died, which learns of the end in its next life."""


def save(world: SlurmWorld, job_id: str) -> None:
    """Wait until slurmctld has saved the job. It saves no more for five seconds."""

    def saved() -> bool:
        with suppress(FileNotFoundError):  # slurmctld is about to replace it
            return b"saved by now" in (world.cluster.folder / "state" / "job_state").read_bytes()
        return False

    world.cluster.run("scontrol", "update", f"JobId={job_id}", "AdminComment=saved by now")
    await_that("slurmctld saves its state", saved, world.cluster.log_end)


def test_a_job_whose_requeue_was_forgotten_is_put_back(slurm_world: SlurmWorld) -> None:
    """makeway knows no answer to the requeue; the exit status tells that it was carried out. The word that
    the job is to go first in the queue is lost, too.
    """
    world, cluster = slurm_world, slurm_world.cluster
    job_id = cluster.submit(ENDS_LATE, "-N1", "--no-kill", "--time=60")
    run = RunIdentity(requeue_count=0, start_s=running(world, job_id).start_s)
    await_that("it has begun", lambda: "begun" in cluster.output(job_id))
    save(world, job_id)
    cluster.run(*build.requeue(job_id))
    await_that("SIGTERM has come", lambda: "to end" in cluster.output(job_id), cluster.log_end)
    cluster.stop_controller(kill=True)
    (cluster.folder / "work" / f"end-{job_id}").touch()
    revive_controller(cluster)
    world.wait(over(job_id), "Slurm takes it for ended")
    put_back = acts.requeue(job_id, ended_by="TERM", run=run)
    world.adapter.apply(put_back)
    job = job_of(world.wait(waits(job_id), "it waits"), job_id)
    assert job.requeue_count == 1
    assert job.taken is not None
    assert job.taken.owes_turn(job.requeue_count)
    with pytest.raises(Gone, match="has left the run"):
        world.adapter.apply(put_back)


@pytest.mark.parametrize("state", ["CANCELLED", "COMPLETED", "FAILED"])
def test_a_job_that_is_over_just_before_its_requeue_is_not_run_again(
    slurm_world: SlurmWorld, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Slurm accepts the requeue, and it has no effect."""
    world, cluster = slurm_world, slurm_world.cluster
    ends = cluster.folder / "work" / "ends"
    ends.unlink(missing_ok=True)
    status, cancelled = int(state == "FAILED"), state == "CANCELLED"
    job_id = cluster.submit(f"until [ -e ends ]; do sleep 0.2; done; exit {status}", "-N1", "--time=60")
    run = RunIdentity(requeue_count=0, start_s=running(world, job_id).start_s)
    do = SlurmClient.do

    def end() -> None:
        if cancelled:
            cluster.run("scancel", job_id)
        else:
            ends.touch()
        runs = ("squeue", "-h", "-j", job_id, "-t", "R")
        await_that("it ends", lambda: cluster.run(*runs) == "", cluster.log_end)

    def do_after_the_end(client: SlurmClient, argv: tuple[str, ...]) -> None:
        if argv == build.requeue(job_id):
            end()
        do(client, argv)

    monkeypatch.setattr(SlurmClient, "do", do_after_the_end)
    with suppress(Gone):  # not known yet, while a job that was cancelled is completing
        world.adapter.apply(acts.requeue(job_id, run=run))
        assert cancelled
    world.wait(over(job_id), "it is over")
    if cancelled:
        with pytest.raises(Gone, match="was cancelled"):
            world.adapter.apply(acts.requeue(job_id, run=run, forgotten_run=0))
    states = cluster.run("squeue", "-h", "--states=all", "-j", job_id, "-O", "State:.20,RestartCnt:.5")
    assert states.split() == [state, "0"]
