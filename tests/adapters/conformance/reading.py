"""What an adapter reads: one whole snapshot of the cluster."""

from makeway.policies.model import JobKind, NodeState
from tests.adapters.conformance.world import LONG_S, ConformanceBase, World, job_of, running, waits


class ReadingConformance(ConformanceBase):
    """What an adapter reads: one whole snapshot of the cluster."""

    def test_snapshot_is_whole(self, world: World) -> None:
        rigid = running(world, world.submit(2))
        malleable = running(world, world.submit(3, kind=JobKind.MALLEABLE, node_count_min=1))
        third = world.submit(len(world.nodes))
        cluster = world.wait(waits(third), "the third job waits")
        assert tuple(node.name for node in cluster.nodes) == world.nodes
        assert {node.state for node in cluster.nodes} == {NodeState.UP}
        assert set(cluster.jobs_by_id()) == {rigid.job_id, malleable.job_id, third}
        assert len(cluster.free_nodes()) == len(world.nodes) - 5
        pending = job_of(cluster, third)
        assert (pending.node_count, pending.nodes, pending.start_s) == (len(world.nodes), (), None)
        assert (malleable.node_count_min, malleable.node_count_max) == (1, 3)
        for job, size in ((rigid, 2), (malleable, 3)):
            assert len(set(job.nodes)) == job.node_count == size
            assert job.start_s is not None
            assert job.submit_s <= job.start_s <= cluster.now_s
            assert job.walltime_s == LONG_S
            assert job.requeue_count == 0
            assert job.preemptible

    def test_urgent_jobs_are_told_from_others(self, world: World) -> None:
        urgent = running(world, world.submit(1, kind=JobKind.ON_DEMAND))
        assert urgent.kind is JobKind.ON_DEMAND
        assert not urgent.preemptible

    def test_capabilities_agree_with_the_snapshot(self, world: World) -> None:
        assert world.adapter.capabilities.name
        assert world.adapter.snapshot().actions == world.adapter.capabilities.actions
