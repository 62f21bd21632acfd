"""Releasing reservations, and the order of the queue."""

import pytest

from makeway.adapters.protocol import Gone, NotForgotten
from makeway.policies.model import JobKind, JobState
from tests import acts
from tests.adapters.conformance.world import (
    LONG_S,
    ConformanceBase,
    World,
    hold_of,
    job_of,
    needs,
    over,
    running,
    waiting,
    way_made,
)


class GivingBackConformance(ConformanceBase):
    """Releasing reservations, and the order of the queue."""

    @needs("cancel", "release", "reserve")
    def test_release_sends_the_waiting_job_back_to_the_common_queue(self, world: World) -> None:
        victim = running(world, world.submit(2))
        running(world, world.submit(len(world.nodes) - 2))
        urgent = world.submit(1, kind=JobKind.ON_DEMAND, walltime_s=600.0)
        waiting(world, urgent)
        world.adapter.apply(
            acts.reserve(hold_of(world), nodes=victim.nodes[:1], duration_s=LONG_S, job_id=urgent)
        )
        world.adapter.apply(acts.release(hold_of(world)))
        cluster = world.wait(lambda cluster: not cluster.reservations, "the reservation is gone")
        assert job_of(cluster, urgent).reservation is None
        world.adapter.apply(acts.cancel(victim.job_id))
        assert running(world, urgent).nodes[0] in victim.nodes

    @needs("release", "reserve")
    def test_release_of_a_lost_reservation_leaves_one_that_is_there(self, world: World) -> None:
        nodes = running(world, world.submit(len(world.nodes))).nodes[:1]
        urgent = world.submit(1, kind=JobKind.ON_DEMAND)
        waiting(world, urgent)
        world.adapter.apply(acts.reserve(hold_of(world), nodes=nodes, duration_s=LONG_S, job_id=urgent))
        with pytest.raises(Gone):
            world.adapter.apply(acts.release(hold_of(world), job_id=urgent, lost=True))
        assert waiting(world, urgent).reservation == hold_of(world)
        world.adapter.apply(acts.release(hold_of(world)))

    @needs("cancel", "release", "reserve")
    def test_release_lets_the_running_job_run_on(self, world: World) -> None:
        urgent = way_made(world)
        world.adapter.apply(acts.release(hold_of(world)))
        cluster = world.wait(lambda cluster: not cluster.reservations, "the reservation is gone")
        after = job_of(cluster, urgent.job_id)
        assert (after.state, after.nodes, after.start_s) == (JobState.RUNNING, urgent.nodes, urgent.start_s)
        assert after.reservation is None
        other = world.submit(1, kind=JobKind.ON_DEMAND, walltime_s=600.0)
        waiting(world, other)
        world.adapter.apply(
            acts.reserve(hold_of(world), nodes=urgent.nodes[:1], duration_s=LONG_S, job_id=other)
        )
        world.adapter.apply(acts.release(hold_of(world)))

    @needs("cancel", "release", "reserve")
    def test_release_after_the_end_of_the_job(self, world: World) -> None:
        urgent = way_made(world, runtime_s=20.0)
        rival = world.submit(1)
        cluster = world.wait(over(urgent.job_id), "the urgent job is over")
        assert job_of(cluster, rival).state is JobState.PENDING
        world.adapter.apply(acts.release(hold_of(world)))
        assert running(world, rival).nodes[0] in urgent.nodes
        with pytest.raises(Gone):
            world.adapter.apply(acts.release(hold_of(world)))

    @needs("cancel", "prioritise")
    def test_prioritise_moves_a_job_to_the_front(self, world: World) -> None:
        blocker = running(world, world.submit(len(world.nodes)))
        first, second = world.submit(len(world.nodes)), world.submit(len(world.nodes))
        waiting(world, second)
        world.adapter.apply(acts.prioritise(second))
        world.adapter.apply(acts.cancel(blocker.job_id))
        running(world, second)
        assert job_of(world.adapter.snapshot(), first).state is JobState.PENDING

    @needs("cancel", "prioritise")
    def test_places_of_a_planned_order_follow_the_front_and_pass_the_common_queue(self, world: World) -> None:
        count = len(world.nodes)
        blocker = running(world, world.submit(count))
        common, late, soon, front = (world.submit(count) for _ in range(4))
        waiting(world, front)
        world.adapter.apply(acts.prioritise(late, queue_position=2048))
        world.adapter.apply(acts.prioritise(soon, queue_position=1024))
        world.adapter.apply(acts.prioritise(front))
        seen = {job.job_id: job.queue_position for job in world.adapter.snapshot().jobs}
        assert [seen[job_id] for job_id in (common, late, soon, front)] == [None, 2048, 1024, None]
        world.adapter.apply(acts.cancel(blocker.job_id))
        for job_id in (front, soon, late, common):
            running(world, job_id)
            world.adapter.apply(acts.cancel(job_id))

    @needs("prioritise", "requeue")
    def test_prioritise_lifts_the_requeue_delay(self, world: World) -> None:
        job = running(world, world.submit(2))
        world.adapter.apply(acts.requeue(job.job_id))
        held_back = waiting(world, job.job_id)
        assert held_back.eligible_s is not None
        world.adapter.apply(acts.prioritise(job.job_id))
        again = running(world, job.job_id)
        assert again.start_s is not None
        assert again.start_s < held_back.eligible_s

    @needs("cancel", "requeue")
    def test_a_requeue_is_repeated_for_the_same_run_alone(self, world: World) -> None:
        job = running(world, world.submit(2))
        world.adapter.apply(acts.requeue(job.job_id, forgotten_run=job.requeue_count))
        again = waiting(world, job.job_id)
        assert again.requeue_count == job.requeue_count + 1
        with pytest.raises(NotForgotten):
            world.adapter.apply(acts.requeue(job.job_id, forgotten_run=job.requeue_count))
        world.adapter.apply(acts.cancel(job.job_id))
        world.wait(over(job.job_id), "the job is gone")
        with pytest.raises(Gone) as raised:
            world.adapter.apply(acts.requeue(job.job_id, forgotten_run=job.requeue_count))
        assert raised.type is Gone

    @needs("cancel", "prioritise", "restore_priority")
    def test_a_job_that_started_from_the_front_gets_its_own_priority_back(self, world: World) -> None:
        blocker = running(world, world.submit(len(world.nodes)))
        job_id = world.submit(len(world.nodes))
        waiting(world, job_id)
        with pytest.raises(Gone):
            world.adapter.apply(acts.restore_priority(job_id))
        world.adapter.apply(acts.prioritise(job_id))
        assert job_of(world.adapter.snapshot(), job_id).prioritised
        world.adapter.apply(acts.cancel(blocker.job_id))
        running(world, job_id)
        world.adapter.apply(acts.restore_priority(job_id))
        assert not job_of(world.adapter.snapshot(), job_id).prioritised

    @needs("prioritise", "restore_priority")
    def test_a_job_that_waits_in_a_place_goes_back_to_where_it_stood(self, world: World) -> None:
        running(world, world.submit(len(world.nodes)))
        first, second = (world.submit(len(world.nodes)) for _ in range(2))
        waiting(world, second)
        world.adapter.apply(acts.prioritise(second, queue_position=3))
        assert job_of(world.adapter.snapshot(), second).queue_position == 3
        world.adapter.apply(acts.restore_priority(second))
        seen = world.adapter.snapshot()
        assert job_of(seen, second).queue_position is None
        assert not job_of(seen, second).prioritised
        if seen.recomputes_priority:
            assert job_of(seen, first).priority == job_of(seen, second).priority
