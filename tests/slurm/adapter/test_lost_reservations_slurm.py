"""slurmctld is killed and comes back without a reservation that a job was bound to.

Slurm saves jobs and reservations one after the other. Here the files of one of them are those of before.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from makeway.adapters.devcluster.cluster import DevCluster
from makeway.adapters.protocol import Gone
from makeway.adapters.slurm.leaving.lost_holds import KEEPS_JOBS
from makeway.policies.model import JobKind, JobState, Release
from tests import acts
from tests.adapters.conformance import job_of, running, runs, waits
from tests.slurm.conftest import StartDaemon
from tests.slurm.support.story import IGNORES, Story
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


_OWN = ("Users=root", "Flags=IGNORE_JOBS", "StartTime=now", "Duration=60")


def is_kept(slurm_world: SlurmWorld, job_id: str) -> bool:
    """Whether Slurm keeps the waiting job from starting. 22.05 does not."""
    return job_of(slurm_world.wait(lambda _: True, "there is a view"), job_id).reservation_lost


def test_a_job_that_waits_goes_back_to_its_own_reservation(slurm_world: SlurmWorld) -> None:
    cluster, name = slurm_world.cluster, f"{slurm_world.prefix}2"
    filling = slurm_world.submit(8)
    nodes = running(slurm_world, filling).nodes
    create = ("scontrol", "create", "reservation", "ReservationName=theirs")
    cluster.run(*create, *_OWN, f"Nodes={','.join(nodes[4:6])}")
    job_id = slurm_world.submit(2, kind=JobKind.ON_DEMAND)
    slurm_world.wait(waits(job_id), "the urgent job waits")
    cluster.run("scontrol", "update", f"JobId={job_id}", "ReservationName=theirs")
    with forgotten(cluster, "resv_state*"):
        slurm_world.adapter.apply(acts.reserve(name, nodes=nodes[:2], duration_s=3600.0, job_id=job_id))
    release = acts.release(name, job_id=job_id, own="theirs", lost=True)
    if cluster.version < KEEPS_JOBS:
        with pytest.raises(Gone):
            slurm_world.adapter.apply(release)
        return
    assert is_kept(slurm_world, job_id)
    slurm_world.adapter.apply(release)
    slurm_world.adapter.apply(acts.cancel(filling))
    started = job_of(slurm_world.wait(runs(job_id), "the urgent job runs"), job_id)
    assert started.reservation == "theirs"
    assert set(started.nodes) == set(nodes[4:6])


@pytest.mark.parametrize("journal", ["kept", "lost"])
def test_the_daemon_frees_the_job_of_a_hold_that_it_released(
    story: Story, start_daemon: StartDaemon, journal: str
) -> None:
    """slurmctld knows of the end of the hold, but no longer that the job is not bound to it. A job whose own
    reservation is lost stays as it is.
    """
    world, ask = story.world, story.ask
    staying = story.submit("exec sleep 600", 6, "other")
    story.works(story.submit(IGNORES, 2, "saving"))
    (worker,) = story.workers
    urgent = story.urgent_comes()
    daemon = start_daemon()
    name = f"{world.prefix}{urgent}"
    world.wait(lambda view: job_of(view, urgent).reservation == name, "the urgent job has a hold")
    daemon.stop()
    node = running(world, staying).nodes[0]
    ask("scontrol", "create", "reservation", "ReservationName=theirs", *_OWN, f"Nodes={node}")
    foreign = story.submit("exec true", 1, "other")
    ask("scontrol", "update", f"JobId={foreign}", "ReservationName=theirs")
    with forgotten(world.cluster, "job_state*"):
        daemon = start_daemon("observe")
        world.wait(lambda view: all(one.name != name for one in view.reservations), "the hold is gone")
        daemon.stop()
        ask("scontrol", "update", f"JobId={foreign}", "ReservationName=")
        ask("scontrol", "delete", "ReservationName=theirs")
    assert is_kept(world, urgent) is (world.cluster.version >= KEEPS_JOBS)
    if not is_kept(world, urgent):
        return
    ask("scancel", worker)
    filling = story.submit("exec sleep 600", 2, "other")
    world.wait(runs(filling), "no job may leave for the urgent job")
    for path in daemon.folder.glob("journal.sqlite*") if journal == "lost" else ():
        path.unlink()
    daemon = start_daemon()
    world.wait(lambda view: not job_of(view, urgent).reservation_lost, "the urgent job is freed")
    ask("scancel", filling)
    world.wait(runs(urgent), "the urgent job runs")
    freed = [one for one in daemon.commands() if isinstance(one.action, Release) and one.action.lost]
    assert [(one.action.job_id, one.outcome) for one in freed] == [(urgent, "accepted")]
    assert is_kept(world, foreign)
