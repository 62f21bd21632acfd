"""Small clusters whose jobs share nodes of 8 CPUs, 16,000 MB and 4 GPUs."""

from dataclasses import replace
from typing import Any

from makeway.policies.model import CPU, GPU, MEMORY, Cluster, Job, JobKind, JobState, Node, Resources

NOW_S = 10_000.0
NODE = Resources.of({CPU: 8, MEMORY: 16_000, GPU: 4})


def amounts(cpu: int, mem: int = 1000, gpu: int = 0) -> Resources:
    """So many CPUs, megabytes and GPUs."""
    return Resources.of({CPU: cpu, MEMORY: mem, GPU: gpu})


def shared(*jobs: Job, node_count: int = 2, **changes: Any) -> Cluster:
    """Nodes n0, n1 and so on, all up, at 10,000 s."""
    nodes = tuple(Node(name=f"n{index}", capacity=NODE) for index in range(node_count))
    return replace(Cluster(now_s=NOW_S, nodes=nodes, jobs=jobs), **changes)


def part(job_id: str, nodes: str, held: Resources, **changes: Any) -> Job:
    """A preemptible job that has held this on each of its nodes since 1000 s; it is priced by its CPUs."""
    names = tuple(nodes.split())
    job = Job(
        job_id=job_id,
        kind=JobKind.RIGID,
        state=JobState.RUNNING,
        node_count=len(names),
        walltime_s=20_000.0,
        submit_s=0.0,
        user="alice",
        nodes=names,
        allocation=(held,) * len(names),
        node_equivalents=held.amount(CPU) / NODE.amount(CPU) * len(names),
        start_s=NOW_S - 1000.0,
        preemptible=True,
    )
    return replace(job, **changes)
