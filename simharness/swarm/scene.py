"""The simulated cluster of a story."""

from makeway.simharness.engine.cluster import SimCluster
from makeway.simharness.engine.event_queue import NodeFailure
from makeway.simharness.engine.scheduler import SchedulerSettings
from makeway.simharness.engine.shared.nodes import SharingSettings
from makeway.simharness.engine.storage import StorageSettings
from makeway.simharness.swarm.story import Story, TroubleKind


def cluster_of(story: Story) -> SimCluster:
    """Its machine and its workload, at the start; the simulator's own invariants are checked."""
    failures = [
        NodeFailure(at_s=trouble.at_s, node=int(trouble.amount), repair_s=trouble.lasts_s)
        for trouble in story.troubles
        if trouble.kind is TroubleKind.NODE_DOWN
    ]
    capacity = story.capacity
    return SimCluster(
        story.node_count,
        story.jobs,
        scheduler=SchedulerSettings(),
        storage=StorageSettings(aggregate_gb_s=10.0, node_gb_s=5.0),
        failures=failures,
        check=True,
        sharing=None if capacity is None else SharingSettings(capacities=(capacity,) * story.node_count),
    )
