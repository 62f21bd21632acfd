"""The room on shared nodes for a demand: what is free, or comes free when jobs leave. Pure functions.

A job with whole nodes holds all that its nodes have. Nodes that the cluster gives only as a whole never have
room for a demand.
"""

from collections.abc import Iterable, Mapping

from makeway.policies.common.departures import NodeRelease
from makeway.policies.model import NO_RESOURCES, Cluster, Job, JobState, Resources


def held_on(job: Job, cluster: Cluster) -> dict[str, Resources]:
    """What a job holds on each of its nodes."""
    if job.allocation is None:
        capacities = cluster.capacities()
        return {name: capacities.get(name, NO_RESOURCES) for name in job.nodes}
    return dict(zip(job.nodes, job.allocation, strict=True))


def room_when_left(cluster: Cluster, releases: Mapping[str, NodeRelease]) -> dict[str, Resources]:
    """What is free of every node, up or not, once the leaving jobs are gone.

    `releases`: the jobs that are leaving, by job id. A node that is only given as a whole has no room.
    """
    room = dict.fromkeys((node.name for node in cluster.nodes), NO_RESOURCES)
    room.update(cluster.unused())
    for job in cluster.jobs:
        release = releases.get(job.job_id)
        if release is not None:
            for name, held in held_on(job, cluster).items():
                if name not in release.kept_nodes:
                    room[name] = room.get(name, NO_RESOURCES).plus(held)
    return room


def with_room(cluster: Cluster, releases: Mapping[str, NodeRelease], demand: Resources) -> frozenset[str]:
    """The nodes that are up and have room for the demand once leaving and completing jobs are gone."""
    room = room_at_last(cluster, releases)
    return frozenset(name for name in cluster.up_nodes() if room[name].covers(demand))


def room_at_last(cluster: Cluster, releases: Mapping[str, NodeRelease]) -> dict[str, Resources]:
    """The same as `room_when_left`, once the completing jobs are gone too."""
    completing = {
        job.job_id: NodeRelease(by_s=cluster.now_s)
        for job in cluster.jobs
        if job.state is JobState.COMPLETING
    }
    return room_when_left(cluster, {**releases, **completing})


def room_times_s(
    cluster: Cluster, leaving: Iterable[tuple[Job, NodeRelease]], demand: Resources
) -> dict[str, float]:
    """The nodes that have too little room for the demand now, and enough once these jobs have left.

    Each node comes with the instant by which enough of the jobs have left it.
    """
    unused = cluster.unused()
    room: dict[str, Resources] = {}
    ready_s: dict[str, float] = {}
    for job, release in sorted(leaving, key=lambda one: one[1].by_s):
        for name, held in held_on(job, cluster).items():
            if name in release.kept_nodes or name in ready_s:
                continue
            before = room.get(name, unused.get(name, NO_RESOURCES))
            room[name] = before.plus(held)
            if room[name].covers(demand) and not before.covers(demand):
                ready_s[name] = release.by_s
    return ready_s
