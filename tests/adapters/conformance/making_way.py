"""Holding nodes for an urgent job, and making others leave them."""

import pytest

from makeway.adapters.protocol import Rejected
from makeway.policies.model import JobKind, JobState
from tests import acts
from tests.adapters.conformance.world import (
    LONG_S,
    ConformanceBase,
    World,
    hold_of,
    job_of,
    needs,
    running,
    runs,
    waiting,
    waits,
)


class MakingWayConformance(ConformanceBase):
    """Holding nodes for an urgent job, and making others leave them."""

    @needs("requeue", "reserve")
    def test_the_bound_job_starts_on_exactly_the_nodes_that_were_held(self, world: World) -> None:
        """The rival asks for as many nodes, came first, and must not slip in."""
        victim = running(world, world.submit(2))
        running(world, world.submit(len(world.nodes) - 2))
        rival = world.submit(2)
        urgent = world.submit(2, kind=JobKind.ON_DEMAND, walltime_s=600.0)
        waiting(world, urgent)
        world.adapter.apply(
            acts.reserve(hold_of(world), nodes=victim.nodes, duration_s=LONG_S, job_id=urgent)
        )
        held = world.wait(
            lambda cluster: job_of(cluster, urgent).reservation == hold_of(world), "the urgent job is bound"
        )
        (reservation,) = held.reservations
        assert reservation.by_makeway
        assert reservation.name == hold_of(world)
        assert sorted(reservation.nodes) == sorted(victim.nodes)
        assert held.now_s < reservation.end_s <= held.now_s + LONG_S + 60
        assert job_of(held, victim.job_id).nodes == victim.nodes
        world.adapter.apply(acts.requeue(victim.job_id))
        cluster = world.wait(runs(urgent), "the urgent job runs")
        assert sorted(job_of(cluster, urgent).nodes) == sorted(victim.nodes)
        assert job_of(cluster, rival).state is JobState.PENDING

    @needs("reserve")
    def test_a_held_node_is_free_for_nobody_else(self, world: World) -> None:
        running(world, world.submit(len(world.nodes) - 2))
        urgent = world.submit(len(world.nodes) - 1, kind=JobKind.ON_DEMAND)
        free = world.wait(waits(urgent), "the urgent job waits").free_nodes()
        world.adapter.apply(acts.reserve(hold_of(world), nodes=free, duration_s=LONG_S, job_id=urgent))
        world.wait(lambda cluster: bool(cluster.reservations), "the reservation is there")
        rival = world.submit(1)
        cluster = world.wait(waits(rival), "the rival waits")
        assert cluster.free_nodes() == ()

    @needs("reserve")
    def test_a_hold_for_an_announced_job_is_there_before_the_job(self, world: World) -> None:
        rest = running(world, world.submit(len(world.nodes) - 2))
        free = world.adapter.snapshot().free_nodes()
        user = rest.user
        world.adapter.apply(
            acts.reserve(
                hold_of(world), nodes=(*free, rest.nodes[-1]), duration_s=LONG_S, job_id=None, user=user
            )
        )
        rival = world.submit(1)
        cluster = world.wait(waits(rival), "the rival waits")
        assert [set(kept.nodes) for kept in cluster.reservations] == [{*free, rest.nodes[-1]}]
        assert job_of(cluster, rest.job_id).state is JobState.RUNNING
        urgent = world.submit(2, kind=JobKind.ON_DEMAND, walltime_s=600.0)
        waiting(world, urgent)
        world.adapter.apply(acts.reserve(hold_of(world), nodes=free, duration_s=LONG_S, job_id=urgent))
        assert set(running(world, urgent).nodes) == set(free)

    @needs("release", "reserve")
    def test_held_nodes_are_lent_by_a_reservation_that_overlaps(self, world: World) -> None:
        rest = running(world, world.submit(len(world.nodes) - 2))
        free = world.adapter.snapshot().free_nodes()
        world.adapter.apply(
            acts.reserve(hold_of(world), nodes=free, duration_s=LONG_S, job_id=None, user=rest.user)
        )
        guest = world.submit(1)
        waiting(world, guest)
        lent = f"{hold_of(world)}-lent"
        with pytest.raises(Rejected):
            world.adapter.apply(acts.reserve(lent, nodes=free[-1:], duration_s=LONG_S, job_id=guest))
        world.adapter.apply(
            acts.reserve(lent, nodes=free[-1:], duration_s=LONG_S, job_id=guest, overlap=True)
        )
        assert running(world, guest).nodes == free[-1:]
        world.adapter.apply(acts.release(lent))
        cluster = world.adapter.snapshot()
        assert [(kept.name, sorted(kept.nodes)) for kept in cluster.reservations] == [
            (hold_of(world), sorted(free))
        ]
        assert job_of(cluster, guest).nodes == free[-1:]

    @needs("reserve")
    def test_reserving_again_changes_the_nodes(self, world: World) -> None:
        first = running(world, world.submit(2))
        second = running(world, world.submit(len(world.nodes) - 2))
        urgent = world.submit(2, kind=JobKind.ON_DEMAND, walltime_s=600.0)
        waiting(world, urgent)
        world.adapter.apply(acts.reserve(hold_of(world), nodes=first.nodes, duration_s=LONG_S, job_id=urgent))
        nodes = second.nodes[-2:]
        world.adapter.apply(acts.reserve(hold_of(world), nodes=nodes, duration_s=2 * LONG_S, job_id=urgent))
        cluster = world.wait(
            lambda cluster: (
                [sorted(reservation.nodes) for reservation in cluster.reservations] == [sorted(nodes)]
            ),
            "the reservation has the new nodes",
        )
        assert cluster.reservations[0].end_s > cluster.now_s + LONG_S
        assert job_of(cluster, urgent).reservation == hold_of(world)

    @needs("requeue")
    def test_requeue_frees_the_nodes_and_holds_the_job_back(self, world: World) -> None:
        job = running(world, world.submit(len(world.nodes)))
        world.adapter.apply(acts.requeue(job.job_id))
        cluster = world.wait(waits(job.job_id), "the job waits again")
        again = job_of(cluster, job.job_id)
        assert again.requeue_count == job.requeue_count + 1
        assert (again.nodes, again.start_s) == ((), None)
        assert again.eligible_s is not None
        assert again.eligible_s > cluster.now_s
        assert again.node_count == len(world.nodes)
        other = running(world, world.submit(1))
        assert other.nodes[0] in world.nodes

    @needs("checkpoint")
    def test_a_signal_starts_a_checkpoint(self, world: World) -> None:
        job = running(world, world.submit(2, saves=True))
        assert job.checkpoint is not None
        assert job.last_checkpoint_s is None
        before_s = world.adapter.snapshot().now_s
        world.adapter.apply(acts.checkpoint(job.job_id, signal=job.checkpoint.signal, walltime_s=2 * LONG_S))
        cluster = world.wait(
            lambda cluster: job_of(cluster, job.job_id).last_checkpoint_s is not None, "it acknowledges"
        )
        after = job_of(cluster, job.job_id)
        assert after.last_checkpoint_s is not None
        assert before_s - 1 <= after.last_checkpoint_s <= cluster.now_s + 1
        assert (after.nodes, after.state) == (job.nodes, JobState.RUNNING)
        assert after.walltime_s == 2 * LONG_S
