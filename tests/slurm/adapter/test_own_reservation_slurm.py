"""An urgent job that was submitted with a reservation of the site keeps it: a real Slurm."""

import pytest

from makeway.adapters.slurm.adapter import SlurmCliAdapter
from makeway.policies.model import JobState
from tests import acts
from tests.adapters.conformance import job_of, running, waiting
from tests.slurm.support.world import SETTINGS, SlurmWorld

pytestmark = pytest.mark.slurm

SLEEP = "exec sleep 1000"
WHOLE = ("-N1", "--ntasks-per-node=2")


def test_a_job_starts_on_held_nodes_and_is_left_its_own_reservation(slurm_world: SlurmWorld) -> None:
    world = slurm_world
    theirs = ("scontrol", "create", "reservation", "ReservationName=theirs", "StartTime=now", "Duration=60")
    world.cluster.run(*theirs, "Users=root", "Nodes=n1")
    running(world, world.cluster.submit(SLEEP, *WHOLE, "--reservation=theirs"))
    victims = [world.cluster.submit(SLEEP, *WHOLE) for _ in range(7)]
    nodes = {victim: running(world, victim).nodes for victim in victims}
    urgent = world.cluster.submit(SLEEP, *WHOLE, "--reservation=theirs", "--account=urgent")
    assert waiting(world, urgent).reservation == "theirs"
    victim, held = next((victim, held) for victim, held in nodes.items() if held != ("n1",))
    hold = acts.reserve(world.prefix + urgent, nodes=held, duration_s=600, job_id=urgent)
    world.adapter.apply(hold)
    assert waiting(world, urgent).reservation == hold.reservation
    # Another adapter, as after a restart: 22.05 no longer shows it, but the action says it.
    release = acts.release(hold.reservation, job_id=urgent, own="theirs")
    SlurmCliAdapter(SETTINGS, runner=world.cluster.runner).apply(release)
    assert waiting(world, urgent).reservation == "theirs"
    world.adapter.apply(hold)
    world.adapter.apply(acts.requeue(victim))
    assert running(world, urgent).nodes == held
    SlurmCliAdapter(SETTINGS, runner=world.cluster.runner).apply(release)
    cluster = world.adapter.snapshot()
    job = job_of(cluster, urgent)
    assert (job.state, job.nodes, job.reservation) == (JobState.RUNNING, held, "theirs")
    assert [one.name for one in cluster.reservations] == ["theirs"]
