"""What an adapter refuses: jobs that are over, unsupported actions, nodes that are not there."""

import pytest

from makeway.adapters.protocol import AdapterError, Gone, Unsupported
from makeway.policies.model import VERBS, JobKind, TakenFromJob
from tests import acts
from tests.adapters.conformance.world import (
    LONG_S,
    ConformanceBase,
    World,
    hold_of,
    needs,
    over,
    running,
    waiting,
)


class RefusingConformance(ConformanceBase):
    """What an adapter refuses: jobs that are over, unsupported actions, nodes that are not there."""

    def test_a_job_that_is_over_is_gone_for_every_verb(self, world: World) -> None:
        job_id = world.submit(1, runtime_s=1.0)
        world.wait(over(job_id), "the job is over")
        nodes = world.nodes[:1]
        adapter = world.adapter
        actions = (
            acts.checkpoint(job_id, signal="USR1", walltime_s=0.0),
            acts.requeue(job_id),
            acts.cancel(job_id),
            acts.shrink(job_id, keep_nodes=nodes, walltime_s=LONG_S),
            acts.reserve(hold_of(world), nodes=nodes, duration_s=LONG_S, job_id=job_id),
            acts.prioritise(job_id),
            acts.restore_priority(job_id),
            acts.restore_limit(job_id, TakenFromJob(run=0)),
        )
        for action in actions:
            if action.verb in adapter.capabilities.actions:
                with pytest.raises(Gone):
                    adapter.apply(action)
            assert not adapter.snapshot().reservations, action.verb

    def test_an_action_that_the_cluster_cannot_do_is_unsupported(self, world: World) -> None:
        job = running(world, world.submit(2, kind=JobKind.MALLEABLE, node_count_min=1))
        waits_for = world.submit(len(world.nodes))
        waiting(world, waits_for)
        actions = (
            acts.checkpoint(job.job_id, signal="USR1", walltime_s=LONG_S),
            acts.requeue(job.job_id),
            acts.cancel(job.job_id),
            acts.shrink(job.job_id, keep_nodes=job.nodes[:1], walltime_s=LONG_S),
            acts.expand(job.job_id, nodes=world.nodes[-1:], reservation=None),
            acts.reserve(hold_of(world), nodes=world.nodes[-1:], duration_s=LONG_S, job_id=waits_for),
            acts.release(hold_of(world)),
            acts.prioritise(waits_for),
            acts.restore_priority(waits_for),
            acts.restore_limit(job.job_id, TakenFromJob(run=0)),
        )
        assert {action.verb for action in actions} == VERBS
        for action in actions:
            if action.verb not in world.adapter.capabilities.actions:
                with pytest.raises(Unsupported):
                    world.adapter.apply(action)
        assert running(world, job.job_id) == job

    @needs("checkpoint", "requeue", "shrink")
    def test_verbs_for_running_jobs_find_a_pending_one_gone(self, world: World) -> None:
        running(world, world.submit(len(world.nodes)))
        job_id = world.submit(1, kind=JobKind.MALLEABLE)
        waiting(world, job_id)
        for action in (
            acts.requeue(job_id),
            acts.checkpoint(job_id, signal="USR1", walltime_s=0.0),
            acts.shrink(job_id, keep_nodes=world.nodes[:1], walltime_s=LONG_S),
        ):
            with pytest.raises(Gone):
                world.adapter.apply(action)

    @needs("prioritise", "reserve")
    def test_verbs_for_pending_jobs_find_a_running_one_gone(self, world: World) -> None:
        job = running(world, world.submit(1))
        with pytest.raises(Gone):
            world.adapter.apply(acts.prioritise(job.job_id))
        with pytest.raises(Gone):
            world.adapter.apply(
                acts.reserve(hold_of(world), nodes=job.nodes, duration_s=LONG_S, job_id=job.job_id)
            )
        assert not world.adapter.snapshot().reservations

    @needs("cancel")
    def test_cancel_ends_a_job_wherever_it_is(self, world: World) -> None:
        running_job = running(world, world.submit(len(world.nodes)))
        pending = world.submit(1)
        waiting(world, pending)
        world.adapter.apply(acts.cancel(pending))
        world.wait(over(pending), "the pending job is gone")
        world.adapter.apply(acts.cancel(running_job.job_id))
        cluster = world.wait(over(running_job.job_id), "the running job is gone")
        assert len(cluster.free_nodes()) == len(world.nodes)

    @needs("reserve")
    def test_a_node_that_is_not_there_is_refused(self, world: World) -> None:
        running(world, world.submit(len(world.nodes)))
        urgent = world.submit(1, kind=JobKind.ON_DEMAND)
        waiting(world, urgent)
        with pytest.raises(AdapterError):
            world.adapter.apply(
                acts.reserve(hold_of(world), nodes=("no-such-node",), duration_s=LONG_S, job_id=urgent)
            )
        assert not world.adapter.snapshot().reservations
