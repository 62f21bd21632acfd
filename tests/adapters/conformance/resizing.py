"""Shrinking running jobs, and growing them back."""

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
    over,
    running,
    runs,
    waiting,
)


class ResizingConformance(ConformanceBase):
    """Shrinking running jobs, and growing them back."""

    @needs("shrink")
    def test_shrink_keeps_the_batch_host_and_the_named_nodes(self, world: World) -> None:
        job = running(world, world.submit(5, kind=JobKind.MALLEABLE, node_count_min=2))
        keep = (job.nodes[0], job.nodes[2], job.nodes[4])
        world.adapter.apply(acts.shrink(job.job_id, keep_nodes=keep, walltime_s=2 * LONG_S))
        cluster = world.wait(
            lambda cluster: job_of(cluster, job.job_id).node_count == 3, "the job has three nodes"
        )
        after = job_of(cluster, job.job_id)
        assert after.nodes[0] == job.nodes[0]
        assert sorted(after.nodes) == sorted(keep)
        assert (after.state, after.requeue_count) == (JobState.RUNNING, 0)
        assert after.walltime_s == 2 * LONG_S
        assert {job.nodes[1], job.nodes[3]} <= set(cluster.free_nodes())
        assert after.node_count_max == 5

    @needs("shrink")
    def test_a_time_limit_never_falls(self, world: World) -> None:
        job = running(world, world.submit(3, kind=JobKind.MALLEABLE, node_count_min=1))
        world.adapter.apply(acts.shrink(job.job_id, keep_nodes=job.nodes[:1], walltime_s=LONG_S / 2))
        cluster = world.wait(
            lambda cluster: job_of(cluster, job.job_id).node_count == 1, "the job has one node"
        )
        assert job_of(cluster, job.job_id).walltime_s == LONG_S

    @needs("shrink")
    def test_a_wrong_shrink_is_rejected(self, world: World) -> None:
        job = running(world, world.submit(3, kind=JobKind.MALLEABLE, node_count_min=1))
        foreign = next(name for name in world.nodes if name not in job.nodes)
        for keep in (job.nodes[1:], (job.nodes[0], foreign)):
            with pytest.raises(Rejected):
                world.adapter.apply(acts.shrink(job.job_id, keep_nodes=keep, walltime_s=LONG_S))
        assert job_of(world.adapter.snapshot(), job.job_id).nodes == job.nodes

    @needs("expand", "shrink")
    def test_growing_back(self, world: World) -> None:
        job = running(world, world.submit(4, kind=JobKind.MALLEABLE, node_count_min=2))
        world.adapter.apply(acts.shrink(job.job_id, keep_nodes=job.nodes[:2], walltime_s=2 * LONG_S))
        world.wait(lambda cluster: job_of(cluster, job.job_id).node_count == 2, "the job has two nodes")
        world.adapter.apply(acts.expand(job.job_id, nodes=job.nodes[2:], reservation=None))
        cluster = world.wait(
            lambda cluster: job_of(cluster, job.job_id).node_count == 4, "the job has its nodes again"
        )
        after = job_of(cluster, job.job_id)
        assert after.nodes[0] == job.nodes[0]
        assert sorted(after.nodes) == sorted(job.nodes)
        assert after.requeue_count == 0

    @needs("expand", "reserve", "shrink")
    def test_growing_into_the_nodes_of_a_reservation(self, world: World) -> None:
        """The lender gets its nodes back before anybody else can start on them, or the cluster cannot grow
        jobs at all.
        """
        lender = running(world, world.submit(len(world.nodes), kind=JobKind.MALLEABLE, node_count_min=2))
        lent = lender.nodes[2:]
        urgent = world.submit(len(lent), kind=JobKind.ON_DEMAND, runtime_s=30.0, walltime_s=600.0)
        waiting(world, urgent)
        world.adapter.apply(acts.reserve(hold_of(world), nodes=lent, duration_s=LONG_S, job_id=urgent))
        world.adapter.apply(acts.shrink(lender.job_id, keep_nodes=lender.nodes[:2], walltime_s=2 * LONG_S))
        world.wait(runs(urgent), "the urgent job runs")
        rival = world.submit(1)
        world.wait(over(urgent), "the urgent job is over")
        world.adapter.apply(acts.expand(lender.job_id, nodes=lent, reservation=hold_of(world)))
        cluster = world.wait(
            lambda cluster: job_of(cluster, lender.job_id).node_count == len(world.nodes),
            "the lender has its nodes again",
        )
        assert job_of(cluster, rival).state is JobState.PENDING
