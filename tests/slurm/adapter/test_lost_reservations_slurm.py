"""slurmctld is killed and comes back without a reservation that a job was bound to.

Slurm saves jobs and reservations one after the other. Here the files of one of them are those of before.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from makeway.adapters.devcluster.cluster import DevCluster
from makeway.policies.model import JobKind, JobState
from tests import acts
from tests.adapters.conformance import job_of, running, runs, waits
from tests.slurm.support.world import SlurmWorld

pytestmark = pytest.mark.slurm


@contextmanager
def forgotten(cluster: DevCluster, files: str) -> Iterator[None]:
    """What happens in the `with` block is not in those files of slurmctld's saved state."""
    cluster.stop_controller()
    before = {path: path.read_bytes() for path in (cluster.folder / "state").glob(files)}
    assert before
    cluster.start_controller()
    yield
    cluster.stop_controller()
    for path, content in before.items():
        path.write_bytes(content)
    cluster.start_controller()


def test_a_job_that_runs_goes_on(slurm_world: SlurmWorld) -> None:
    cluster = slurm_world.cluster
    job_id = slurm_world.submit(2, kind=JobKind.ON_DEMAND)
    before = running(slurm_world, job_id)
    create = ("scontrol", "create", "reservation", "ReservationName=hold", "StartTime=now", "Duration=60")
    cluster.run(*create, "Users=root", f"Nodes={','.join(before.nodes)}", "Flags=IGNORE_JOBS")
    cluster.run("scontrol", "update", f"JobId={job_id}", "ReservationName=hold")
    with forgotten(cluster, "job_state*"):
        cluster.run("scontrol", "update", f"JobId={job_id}", "ReservationName=")
        cluster.run("scontrol", "delete", "ReservationName=hold")
    after = running(slurm_world, job_id)
    assert (after.state, after.start_s, after.nodes) == (JobState.RUNNING, before.start_s, before.nodes)


def test_a_job_that_waits_starts_in_another_hold(slurm_world: SlurmWorld) -> None:
    cluster, name = slurm_world.cluster, f"{slurm_world.prefix}2"
    filling = slurm_world.submit(8)
    nodes = running(slurm_world, filling).nodes[:2]
    # slurmctld looks for lost reservations only where it has saved some before.
    hold = acts.reserve(name, nodes=nodes, duration_s=3600.0, job_id=None, user="root")
    slurm_world.adapter.apply(hold)
    slurm_world.adapter.apply(acts.release(name))
    job_id = slurm_world.submit(2, kind=JobKind.ON_DEMAND)
    slurm_world.wait(waits(job_id), "the urgent job waits")
    again = acts.reserve(name, nodes=nodes, duration_s=3600.0, job_id=job_id)
    with forgotten(cluster, "resv_state*"):
        slurm_world.adapter.apply(again)
    lost = slurm_world.wait(waits(job_id), "the urgent job waits without a hold")
    job = job_of(lost, job_id)
    assert (job.reservation, job.blocked_by, job.eligible_s) == (None, "", None)
    slurm_world.adapter.apply(again)
    slurm_world.adapter.apply(acts.cancel(filling))
    started = job_of(slurm_world.wait(runs(job_id), "the urgent job runs"), job_id)
    assert set(started.nodes) == set(nodes)
