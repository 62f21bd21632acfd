"""Random clusters that are full, with one urgent job."""

from dataclasses import replace

from hypothesis import strategies as st

from makeway.policies.model import Cluster, Job, JobKind, JobState, Node
from tests.policies.any_cluster import placements

NOW_S = 10_000.0


@st.composite
def crowds(draw: st.DrawFn) -> Cluster:
    """Up to ten batch jobs on all nodes, and one urgent job that wants some of them."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=10))
    jobs = []
    first = 0
    for index, size in enumerate(sizes):
        jobs.append(
            Job(
                job_id=f"r{index}",
                kind=JobKind.RIGID,
                state=JobState.RUNNING,
                node_count=size,
                walltime_s=float(draw(st.integers(7000, 9000))),
                submit_s=float(draw(st.integers(0, 3000))),
                start_s=float(draw(st.integers(3000, 9999))),
                user="alice",
                nodes=tuple(f"n{number}" for number in range(first, first + size)),
                preemptible=True,
            )
        )
        first += size
    urgent_jobs = Job(
        job_id="u",
        kind=JobKind.ON_DEMAND,
        state=JobState.PENDING,
        node_count=draw(st.integers(1, first)),
        walltime_s=600.0,
        submit_s=NOW_S,
        user="urgent",
    )
    nodes = tuple(Node(name=f"n{number}") for number in range(first))
    return Cluster(now_s=NOW_S, nodes=nodes, jobs=(*jobs, urgent_jobs))


@st.composite
def placed_crowds(draw: st.DrawFn) -> Cluster:
    """The same with placements."""
    cluster = draw(crowds())
    return replace(cluster, placements=draw(placements(tuple(node.name for node in cluster.nodes))))
