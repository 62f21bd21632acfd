"""What is taken from a job is kept with the job, until it is given back."""

from makeway.policies.model import JobKind, JobState
from tests import acts
from tests.adapters.conformance.world import (
    LONG_S,
    ConformanceBase,
    World,
    job_of,
    needs,
    running,
    waiting,
)


class KeepingConformance(ConformanceBase):
    """What is taken from a job is kept with the job, until it is given back."""

    @needs("requeue", "prioritise", "checkpoint")
    def test_a_requeued_job_gets_its_limit_back_with_its_turn(self, world: World) -> None:
        job = running(world, world.submit(2, saves=True))
        assert job.taken is None
        world.adapter.apply(acts.checkpoint(job.job_id, signal="USR1", walltime_s=3 * LONG_S))
        taken = job_of(world.adapter.snapshot(), job.job_id).taken
        assert taken is not None
        assert (taken.run, taken.for_job_id, taken.lost_nodes) == (job.requeue_count, "urgent", None)
        assert (taken.walltime_s, taken.raised_to_s) == (job.walltime_s, 3 * LONG_S)
        world.adapter.apply(acts.requeue(job.job_id))
        left = waiting(world, job.job_id)
        assert (left.taken, left.walltime_s) == (taken, 3 * LONG_S)
        world.adapter.apply(acts.prioritise(job.job_id))
        first = job_of(world.adapter.snapshot(), job.job_id)
        assert (first.taken, first.walltime_s) == (None, job.walltime_s)

    @needs("requeue")
    def test_a_job_that_is_requeued_without_a_signal_says_so(self, world: World) -> None:
        job = running(world, world.submit(2))
        world.adapter.apply(acts.requeue(job.job_id))
        taken = waiting(world, job.job_id).taken
        assert taken is not None
        assert (taken.run, taken.for_job_id) == (job.requeue_count, "urgent")
        assert taken.usual_walltime_s(job.walltime_s) is None

    @needs("shrink", "restore_limit")
    def test_a_shrunk_job_says_what_it_has_lost(self, world: World) -> None:
        job = running(world, world.submit(4, kind=JobKind.MALLEABLE, node_count_min=2))
        world.adapter.apply(acts.shrink(job.job_id, keep_nodes=job.nodes[:2], walltime_s=2 * LONG_S))
        cluster = world.wait(
            lambda cluster: job_of(cluster, job.job_id).node_count == 2, "the job has two nodes"
        )
        shrunk = job_of(cluster, job.job_id)
        assert shrunk.taken is not None
        lost = shrunk.taken.lost_nodes
        assert lost is not None
        assert (lost.node_count, lost.kept_count, lost.walltime_s) == (4, 2, job.walltime_s)
        assert (shrunk.taken.walltime_s, shrunk.walltime_s) == (job.walltime_s, 2 * LONG_S)

    @needs("checkpoint", "restore_limit")
    def test_a_time_limit_is_lowered_and_nothing_is_kept_any_more(self, world: World) -> None:
        job = running(world, world.submit(2, saves=True))
        world.adapter.apply(acts.checkpoint(job.job_id, signal="USR1", walltime_s=2 * LONG_S))
        taken = job_of(world.adapter.snapshot(), job.job_id).taken
        assert taken is not None
        world.adapter.apply(acts.restore_limit(job.job_id, taken, job.walltime_s))
        after = job_of(world.adapter.snapshot(), job.job_id)
        assert (after.taken, after.walltime_s, after.state) == (None, job.walltime_s, JobState.RUNNING)
