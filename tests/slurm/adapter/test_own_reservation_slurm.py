"""An urgent job that was submitted with a reservation of the site keeps it: a real Slurm."""

import pytest

from makeway.adapters.protocol import Rejected
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


def test_a_job_whose_reservation_has_ended_waits_for_its_release(slurm_world: SlurmWorld) -> None:
    """Slurm holds it, and would not let it start in a hold of makeway's: no job may leave for it."""
    world = slurm_world
    victim = running(world, world.cluster.submit(SLEEP, *WHOLE))
    theirs = ("scontrol", "create", "reservation", "ReservationName=theirs", "StartTime=now", "Users=root")
    world.cluster.run(*theirs, "EndTime=now+5seconds", f"Nodes={victim.nodes[0]}", "Flags=IGNORE_JOBS")
    urgent = world.cluster.submit(SLEEP, *WHOLE, "--reservation=theirs", "--account=urgent")
    held = world.wait(lambda seen: bool(job_of(seen, urgent).blocked_by), "its reservation has ended")
    job = job_of(held, urgent)
    assert (job.state, job.blocked_by) == (JobState.PENDING, "its release from a hold")
    assert not job.reservation_lost
    hold = acts.reserve(world.prefix + urgent, nodes=victim.nodes, duration_s=600, job_id=urgent)
    world.adapter.apply(hold)
    world.adapter.apply(acts.requeue(victim.job_id))
    free = world.wait(
        lambda seen: set(victim.nodes) <= set(seen.up_nodes()) - seen.held_nodes(), "it has left"
    )
    assert job_of(free, urgent).blocked_by == "its release from a hold"
    with pytest.raises(Rejected, match="is held"):
        world.adapter.apply(acts.prioritise(urgent))
    world.cluster.run("scontrol", "release", urgent)
    assert running(world, urgent).nodes == victim.nodes
